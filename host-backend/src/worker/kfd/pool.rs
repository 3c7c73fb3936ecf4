//! Threads for calls that would delay others.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a thread without work stays.
const LINGER: Duration = Duration::from_secs(5);

/// Bytes of a thread's stack: what a call of the software GPU needs, many times over.
const STACK: usize = 256 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads that are started when they are needed and end when they are not.
#[derive(Debug)]
pub(super) struct Pool {
    name: &'static str,
    max: usize,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads that look for work.
    idle: usize,
    ending: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Shared").field("jobs", &state.jobs.len()).field("idle", &state.idle).finish()
    }
}

impl Pool {
    /// No thread yet, `max` at most.
    pub(super) fn new(name: &'static str, max: usize) -> Pool {
        Pool { name, max, shared: Arc::default(), threads: Vec::new() }
    }

    /// Whether a job would run at once.
    pub(super) fn has_room(&mut self) -> bool {
        let state = self.shared.lock();
        let idle = state.idle > state.jobs.len();
        drop(state);
        self.threads.retain(|thread| !thread.is_finished());
        idle || self.threads.len() < self.max
    }

    /// Runs a job, or keeps it until a thread is free.
    ///
    /// # Errors
    /// Where no thread can be started and none is there; the job is dropped.
    pub(super) fn run(&mut self, job: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let mut state = self.shared.lock();
        if state.idle <= state.jobs.len() {
            drop(state);
            self.threads.retain(|thread| !thread.is_finished());
            if self.threads.len() < self.max {
                let started = self.start();
                if self.threads.is_empty() {
                    started?;
                }
            }
            state = self.shared.lock();
        }
        state.jobs.push_back(Box::new(job));
        drop(state);
        self.shared.more.notify_one();
        Ok(())
    }

    fn start(&mut self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let builder = thread::Builder::new().name(self.name.to_owned()).stack_size(STACK);
        // Counted from here on, so that the next job does not start another one before this one has begun.
        self.shared.lock().idle += 1;
        match builder.spawn(move || shared.work()) {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.shared.lock().idle -= 1;
                log::warn!("no thread for a call of the guest: {error}");
                Err(error)
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does jobs until there are none for a while.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.idle -= 1;
                drop(state);
                job();
                state = self.lock();
                state.idle += 1;
                continue;
            }
            if state.ending {
                break;
            }
            let (back, waited) =
                self.more.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
            state = back;
            if waited.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.idle -= 1;
    }
}

impl Drop for Pool {
    /// Waits for the jobs that there are.
    fn drop(&mut self) {
        self.shared.lock().ending = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a thread for calls of the guest panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn as_many_jobs_run_as_there_may_be_threads_and_the_others_wait() {
        let mut pool = Pool::new("test", 2);
        let (started, starts) = mpsc::channel();
        let mut ends = Vec::new();
        for number in 0..3 {
            assert_eq!(pool.has_room(), number < 2);
            let (end, ended) = mpsc::channel::<()>();
            let started = started.clone();
            pool.run(move || {
                started.send(number).expect("heard");
                assert!(ended.recv_timeout(LONG).is_err(), "the sender is dropped");
            })
            .expect("a thread");
            ends.push(end);
        }
        let mut first: Vec<_> = (0..2).map(|_| starts.recv_timeout(LONG).expect("started")).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1]);
        assert!(starts.recv_timeout(Duration::from_millis(50)).is_err(), "no third thread");
        drop(ends.remove(0));
        assert_eq!(starts.recv_timeout(LONG), Ok(2));
        drop(ends);
        drop(pool);
    }

    #[test]
    fn a_panic_costs_one_thread() {
        let mut pool = Pool::new("test", 1);
        pool.run(|| panic!("expected by the test")).expect("a thread");
        let (done, heard) = mpsc::channel();
        let deadline = std::time::Instant::now() + LONG;
        while !pool.has_room() || !pool.threads.is_empty() {
            assert!(std::time::Instant::now() < deadline);
            thread::sleep(Duration::from_millis(1));
        }
        pool.run(move || done.send(()).expect("heard")).expect("a thread");
        assert_eq!(heard.recv_timeout(LONG), Ok(()));
    }
}
