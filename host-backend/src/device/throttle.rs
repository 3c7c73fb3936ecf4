//! Log lines that a guest can cause as often as it likes.

use std::fmt::Arguments;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::Level;

/// Lines in [`PERIOD`]; the rest are at level `debug`.
const LINES: u32 = 20;

const PERIOD: Duration = Duration::from_secs(1);

struct Window {
    start: Option<Instant>,
    lines: u32,
}

static WINDOW: Mutex<Window> = Mutex::new(Window { start: None, lines: 0 });

/// A warning, unless there were many just now.
pub fn warn(line: Arguments<'_>) {
    log(Level::Warn, line);
}

/// A line of this level, unless there were many just now.
pub fn log(level: Level, line: Arguments<'_>) {
    let mut window = WINDOW.lock().unwrap_or_else(PoisonError::into_inner);
    if window.start.is_none_or(|start| start.elapsed() >= PERIOD) {
        *window = Window { start: Some(Instant::now()), lines: 0 };
    }
    window.lines += 1;
    let level = if window.lines > LINES { level.max(Level::Debug) } else { level };
    log::log!(level, "{line}");
}
