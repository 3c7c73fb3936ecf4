//! Threads for the calls that may block.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::registry::lock;

/// Most threads, so most calls that block at one time.
const THREADS_MAX: usize = 4096;
/// Stack of each in bytes.
const STACK: usize = 256 << 10;
/// How long a thread waits for the next call before it ends.
const IDLE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Grows with the number of calls that block, up to a bound.
#[derive(Default)]
pub struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

impl Pool {
    /// Runs `job` on a thread at once, or returns an error without running it.
    ///
    /// # Errors
    /// If there are too many already, or the system has no more.
    pub fn run(self: &Arc<Self>, job: Job) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.idle > state.jobs.len() {
            state.jobs.push_back(job);
            self.work.notify_one();
            return Ok(());
        }
        if state.threads >= THREADS_MAX {
            return Err(io::Error::other(format!("{THREADS_MAX} calls block already")));
        }
        state.jobs.push_back(job);
        state.threads += 1;
        let pool = Arc::clone(self);
        let spawned =
            std::thread::Builder::new().name("call".to_owned()).stack_size(STACK).spawn(move || pool.work());
        if let Err(error) = spawned {
            state.threads -= 1;
            state.jobs.pop_back();
            return Err(error);
        }
        Ok(())
    }

    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = lock(&self.state);
                continue;
            }
            state.idle += 1;
            let (guard, timeout) =
                self.work.wait_timeout(state, IDLE).unwrap_or_else(std::sync::PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn jobs_that_wait_for_each_other_all_run() {
        let pool = Arc::new(Pool::default());
        let barrier = Arc::new(Barrier::new(51));
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..50 {
            let (barrier, done) = (Arc::clone(&barrier), Arc::clone(&done));
            let job = move || {
                barrier.wait();
                done.fetch_add(1, Ordering::SeqCst);
                barrier.wait();
            };
            pool.run(Box::new(job)).unwrap();
        }
        barrier.wait();
        barrier.wait();
        assert_eq!(done.load(Ordering::SeqCst), 50);
    }
}
