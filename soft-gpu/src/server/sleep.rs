//! Sleeping in a call until something happens or the call is interrupted.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::Thread;

use protocol::Errno;
use protocol::kfd::Call;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker that ends [`std::thread::park`] of `thread`.
pub(super) fn unparker(thread: Thread) -> Waker {
    Waker::from(Arc::new(Unpark(thread)))
}

/// A counting semaphore (`struct semaphore`), 0 at first.
#[derive(Debug, Default)]
pub(super) struct Semaphore {
    state: Mutex<SemaphoreState>,
}

#[derive(Debug, Default)]
struct SemaphoreState {
    count: u64,
    sleepers: Vec<Thread>,
}

impl Semaphore {
    /// `up`.
    pub(super) fn up(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count = state.count.saturating_add(1);
        for sleeper in state.sleepers.drain(..) {
            sleeper.unpark();
        }
    }

    /// `down_interruptible`.
    ///
    /// # Errors
    /// `EINTR` when the call is interrupted before the semaphore was there to be taken.
    pub(super) fn down(&self, call: &dyn Call) -> Result<(), Errno> {
        let thread = std::thread::current();
        let mut interrupted = call.interrupt().wake_on_fire(unparker(thread.clone()));
        loop {
            {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.sleepers.retain(|sleeper| sleeper.id() != thread.id());
                if state.count > 0 {
                    state.count -= 1;
                    return Ok(());
                }
                if interrupted {
                    return Err(Errno::EINTR);
                }
                state.sleepers.push(thread.clone());
            }
            std::thread::park();
            interrupted = call.interrupt().fired();
        }
    }
}
