//! Log lines that a guest can cause as often as it likes.

use std::fmt::Arguments;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::Level;

/// Lines in [`PERIOD`]; the rest are at level `debug`.
const LINES: u32 = 20;

const PERIOD: Duration = Duration::from_secs(1);

/// Lines of one origin.
#[derive(Debug)]
pub struct Throttle(Mutex<Window>);

#[derive(Debug)]
struct Window {
    start: Option<Instant>,
    lines: u32,
}

/// Lines about requests of the guest.
static REQUESTS: Throttle = Throttle::new();

/// A warning about a request of the guest, unless there were many just now.
pub fn warn(line: Arguments<'_>) {
    REQUESTS.log(Level::Warn, line);
}

impl Throttle {
    /// No line yet.
    pub const fn new() -> Throttle {
        Throttle(Mutex::new(Window { start: None, lines: 0 }))
    }

    /// A line of this level, unless there were many just now.
    pub fn log(&self, level: Level, line: Arguments<'_>) {
        let level = if self.is_one_of_the_first() { level } else { level.max(Level::Debug) };
        log::log!(level, "{line}");
    }

    fn is_one_of_the_first(&self) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.start.is_none_or(|start| start.elapsed() >= PERIOD) {
            *window = Window { start: Some(Instant::now()), lines: 0 };
        }
        window.lines = window.lines.saturating_add(1);
        window.lines <= LINES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_for_debugging_until_the_next_period() {
        let throttle = Throttle::new();
        for _ in 0..LINES {
            assert!(throttle.is_one_of_the_first());
        }
        assert!(!throttle.is_one_of_the_first());
        throttle.0.lock().unwrap().start = Instant::now().checked_sub(PERIOD);
        assert!(throttle.is_one_of_the_first());
    }
}
