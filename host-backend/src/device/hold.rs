//! Knowing when something has been let go of by everybody.
//!
//! The guest may reuse its pages only when nobody on the host reaches them any more. So what uses them holds a
//! [`Hold`], and the answer that lets the guest go on is the action of its last drop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Action = Box<dyn FnOnce() + Send>;

/// One of the holders. Dropping it says: this one is done.
///
/// A thread that panics proves nothing of the kind. What it drops counts as held for ever, and the action never
/// runs: a guest that waits is better than memory written by two owners.
#[derive(Clone)]
pub struct Hold(Arc<Inner>);

#[derive(Default)]
struct Inner {
    action: Mutex<Option<Action>>,
    lost: AtomicBool,
}

impl Hold {
    pub(super) fn new() -> Hold {
        Hold(Arc::default())
    }

    /// A hold whose action is set.
    pub(super) fn until(action: impl FnOnce() + Send + 'static) -> Hold {
        let hold = Hold::new();
        hold.when_released(action);
        hold
    }

    /// Sets what happens once the last holder is gone. There is one action; a second one takes its place.
    pub(super) fn when_released(&self, action: impl FnOnce() + Send + 'static) {
        *self.0.action.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(action));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lost.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(action) = self.action.get_mut().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        if *self.lost.get_mut() {
            log::error!(
                "a thread panicked while it held memory of the guest; the guest is not told that it is free"
            );
            // Dropping it would answer the guest's request, with an error that the guest takes as the end of it.
            Box::leak(action);
        } else {
            action();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn counted() -> (Arc<AtomicUsize>, impl FnOnce() + Send + 'static) {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&count);
        (count, move || {
            seen.fetch_add(1, Ordering::SeqCst);
        })
    }

    #[test]
    fn the_action_runs_when_the_last_holder_is_gone() {
        let (count, action) = counted();
        let hold = Hold::until(action);
        let other = hold.clone();
        drop(hold);
        assert_eq!(count.load(Ordering::SeqCst), 0);
        drop(other);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_of_a_holder_is_no_release() {
        let (count, action) = counted();
        let hold = Hold::until(action);
        let other = hold.clone();
        let panicked = std::thread::spawn(move || {
            let _held = other;
            panic!("a test's panic");
        });
        panicked.join().expect_err("it panicked");
        drop(hold);
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
}
