//! Threads that help the threads of the queues to run workgroups: one fewer than there are processors, for all processes and GPUs
//! together. They are started when a dispatch takes long, and end when there was nothing to do for a while.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::floor::Floor;

/// Most helpers.
const MOST: usize = 63;
/// How long a helper without work waits for some before it ends.
const IDLE: Duration = Duration::from_millis(500);
/// How long a helper works for one dispatch while others wait.
const TURN: Duration = Duration::from_millis(2);

static HELPERS: LazyLock<Helpers> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Helpers { most: (processors - 1).min(MOST), state: Mutex::default(), work: Condvar::new() }
});

struct Helpers {
    most: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Dispatches that want help, each as often as it wants helpers.
    wanted: VecDeque<Arc<Floor>>,
    threads: usize,
}

/// Lets helpers run groups of a dispatch.
pub(super) fn offer(floor: &Arc<Floor>) {
    let helpers = &*HELPERS;
    let mut state = helpers.state();
    if helpers.most == 0 || state.wanted.iter().any(|wanted| Arc::ptr_eq(wanted, floor)) {
        return;
    }
    for _ in 0..helpers.most {
        state.wanted.push_back(Arc::clone(floor));
    }
    while state.threads < helpers.most {
        let thread = thread::Builder::new().name("workgroups".into()).spawn(|| HELPERS.serve());
        if let Err(error) = thread {
            log::debug!("no thread to help with workgroups: {error}");
            break;
        }
        state.threads += 1;
    }
    if state.threads == 0 {
        state.wanted.clear();
    }
    drop(state);
    helpers.work.notify_all();
}

impl Helpers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.state();
        loop {
            let Some(floor) = state.wanted.pop_front() else {
                let (again, wait) =
                    self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                state = again;
                if wait.timed_out() && state.wanted.is_empty() {
                    state.threads -= 1;
                    return;
                }
                continue;
            };
            drop(state);
            let end = Instant::now() + TURN;
            let more = floor.help(|| Instant::now() >= end && !self.state().wanted.is_empty());
            state = self.state();
            if more {
                state.wanted.push_back(floor);
            }
        }
    }
}
