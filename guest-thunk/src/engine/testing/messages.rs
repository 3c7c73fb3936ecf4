//! What the library has logged in this thread: evidence where a test fails.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Once;

use log::{LevelFilter, Log, Metadata, Record};

/// So many messages are kept.
const MOST: usize = 20;

thread_local! {
    static MESSAGES: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

struct Kept;

impl Log for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        MESSAGES.with_borrow_mut(|messages| {
            messages.push_back(format!("{} {}: {}", record.level(), record.target(), record.args()));
            if messages.len() > MOST {
                messages.pop_front();
            }
        });
    }

    fn flush(&self) {}
}

/// Keeps messages from now on, those of all threads.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Kept).expect("no other test sets one");
        log::set_max_level(LevelFilter::Debug);
    });
}

/// This thread's last ones.
pub(crate) fn last() -> String {
    MESSAGES.with_borrow(|messages| messages.iter().fold(String::new(), |all, one| all + "\n" + one))
}
