//! Stops everything that runs in the memory of a process.
//!
//! A thread counts as stopped when it cannot run code of the program, nor have the kernel write to the
//! program's memory, until we let it go:
//! - it reported a ptrace stop; or
//! - it was *parked* at some time after it had been told to stop: it waited for the supervisor's answer
//!   to an ioctl on a device file, or for a child of `vfork`. Whenever that wait ends, the thread meets
//!   the pending stop on its way back to the program.
//!
//! What is written to the memory without any thread is not seen: I/O that the program started with
//! io_uring, AIO or O_DIRECT and that is still under way, and `process_vm_writev` of third processes.
//!
//! Every wait has a deadline. Dropping the [`StopSet`], or the end of the thread that made it, lets the
//! program go on from wherever it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use protocol::Errno;

use super::ParkedCalls;
use super::error::ConvertError;
use super::ptrace::{self, Stop};
use super::threads;

/// Long enough for hundreds of busy threads on few CPUs.
const STOP_TIME: Duration = Duration::from_secs(5);
/// Far longer than [`super::flag_to_return`] takes.
const FLAG_TIME: Duration = Duration::from_secs(1);

/// The threads of a process, all of them told to stop.
pub struct StopSet<'a> {
    pid: u32,
    parked: &'a dyn ParkedCalls,
    threads: BTreeMap<u32, State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Told to stop.
    Asked,
    /// Cannot return to the program without stopping.
    Parked,
    /// Reported its stop.
    Stopped,
}

impl<'a> StopSet<'a> {
    /// Stops all threads that use the memory of `pid`.
    ///
    /// # Errors
    /// A thread that cannot be traced, or does not stop.
    pub fn stop(pid: u32, parked: &'a dyn ParkedCalls) -> Result<Self, ConvertError> {
        let mut set = Self { pid, parked, threads: BTreeMap::new() };
        let started = Instant::now();
        // A thread that is not stopped yet can start another one: look until nothing new appears. Other
        // processes in the same memory are rare, and looked for when their parents cannot start more.
        while set.ask(threads::of_process(pid))? || set.ask(threads::in_memory_of(pid))? {
            let mut pause = Pause::new(started, STOP_TIME);
            while let Some(tid) = set.first_unsettled(pause.is_long())? {
                pause.next().map_err(|millis| set.not_stopped(tid, millis))?;
            }
        }
        if set.threads.is_empty() { Err(ConvertError::Gone { pid }) } else { Ok(set) }
    }

    /// Tells threads to stop. Whether there were any that had not been told.
    fn ask(&mut self, threads: BTreeSet<u32>) -> Result<bool, ConvertError> {
        let mut new = false;
        for tid in threads {
            if !self.threads.contains_key(&tid) && seize(tid)? {
                self.threads.insert(tid, State::Asked);
                new = true;
                if ptrace::interrupt(tid).is_err() {
                    self.threads.remove(&tid);
                }
            }
        }
        Ok(new)
    }

    /// Takes note of what stopped, and returns a thread that has not. `thorough` looks where it costs.
    fn first_unsettled(&mut self, thorough: bool) -> Result<Option<u32>, ConvertError> {
        let asked: Vec<u32> = self.with_state(State::Asked).collect();
        let mut unsettled = None;
        for tid in asked {
            if self.take_stop(tid, thorough)? {
                continue;
            }
            if self.parked.is_parked(tid) || (thorough && threads::waits_for_vfork(tid)) {
                self.threads.insert(tid, State::Parked);
            } else if unsettled.is_none() {
                unsettled = Some(tid);
            }
        }
        Ok(unsettled)
    }

    /// Whether `tid` is settled now: stopped, or gone.
    fn take_stop(&mut self, tid: u32, thorough: bool) -> Result<bool, ConvertError> {
        match ptrace::poll_stop(tid) {
            Ok(Some(Stop::Signal(signal))) => {
                // It was on its way to a handler. Every stop takes back what was asked before (`ptrace_stop` in
                // `kernel/signal.c`): asked again, it stops before it runs the handler.
                let _ = ptrace::interrupt(tid);
                let _ = ptrace::run_with_signal(tid, signal);
                Ok(false)
            }
            Ok(Some(Stop::Event | Stop::Syscall)) => {
                self.threads.insert(tid, State::Stopped);
                Ok(true)
            }
            Ok(None) if !thorough || threads::stat(tid).is_some_and(|stat| !stat.is_dead()) => Ok(false),
            Ok(None) | Err(Errno::ESRCH) => {
                self.threads.remove(&tid);
                Ok(true)
            }
            Err(errno) => Err(ConvertError::Own { what: "waiting for a traced thread", errno }),
        }
    }

    fn with_state(&self, wanted: State) -> impl Iterator<Item = u32> {
        self.threads.iter().filter(move |&(_, &state)| state == wanted).map(|(&tid, _)| tid)
    }

    /// Threads that reported a stop.
    pub fn stopped(&self) -> impl Iterator<Item = u32> {
        self.with_state(State::Stopped)
    }

    /// Threads that are stopped because they wait for an answer, or for a child.
    pub fn parked(&self) -> impl Iterator<Item = u32> {
        self.with_state(State::Parked)
    }

    /// Waits until a parked thread was answered and reported its stop.
    ///
    /// # Errors
    /// Nobody answered in time.
    pub fn wait_for_parked(&mut self) -> Result<u32, ConvertError> {
        let mut pause = Pause::new(Instant::now(), STOP_TIME);
        loop {
            let parked: Vec<u32> = self.parked().collect();
            let Some(&first) = parked.first() else { return Err(ConvertError::Gone { pid: self.pid }) };
            for tid in parked {
                if self.take_stop(tid, pause.is_long())? && self.threads.contains_key(&tid) {
                    return Ok(tid);
                }
            }
            pause.next().map_err(|millis| self.not_stopped(first, millis))?;
        }
    }

    /// The thread was let go by other means.
    pub fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    fn not_stopped(&self, tid: u32, millis: u128) -> ConvertError {
        let state = threads::stat(tid).map_or('?', |stat| stat.state);
        ConvertError::NotStopped { tid, millis, state }
    }
}

impl Drop for StopSet<'_> {
    /// Threads that have not reported a stop go with the thread that traces them.
    fn drop(&mut self) {
        for tid in self.stopped() {
            let _ = ptrace::detach(tid);
        }
    }
}

/// Whether `tid` is traced now; false if it ended or is none of the program's own.
fn seize(tid: u32) -> Result<bool, ConvertError> {
    let started = Instant::now();
    let errno = loop {
        match ptrace::seize(tid) {
            Ok(()) => return Ok(true),
            Err(Errno::ESRCH) => return Ok(false),
            // The launcher's watcher traces a thread for some microseconds to flag it.
            Err(_) if threads::tracer_of(tid) == std::process::id() && started.elapsed() < FLAG_TIME => {
                std::thread::sleep(Duration::from_micros(100));
            }
            Err(errno) => break errno,
        }
    };
    match threads::stat(tid) {
        None => Ok(false),
        Some(stat) if stat.is_dead() || stat.is_kernel_worker() => Ok(false),
        Some(_) => Err(match threads::tracer_of(tid) {
            0 => ConvertError::Refused { tid, errno },
            tracer => ConvertError::Traced { tid, tracer },
        }),
    }
}

/// Waits between two looks: first on the CPU, for a thread that runs on another one; then in sleeps, which a
/// busy machine ends sooner than it gives the CPU back to somebody who yielded it.
pub struct Pause {
    started: Instant,
    limit: Duration,
    begun: Instant,
    sleeps: u32,
}

/// How long to stay on the CPU.
const SPIN: Duration = Duration::from_micros(15);

impl Pause {
    /// Pauses until `limit` after `started`.
    pub fn new(started: Instant, limit: Duration) -> Self {
        Self { started, limit, begun: Instant::now(), sleeps: 0 }
    }

    /// Whether now and then a closer look is worth its cost: some sleeps have not helped.
    #[must_use]
    pub fn is_long(&self) -> bool {
        const LONG: u32 = 32;
        self.sleeps % LONG == LONG - 1
    }

    /// One pause.
    ///
    /// # Errors
    /// The milliseconds that have passed, when there are too many of them.
    pub fn next(&mut self) -> Result<(), u128> {
        let elapsed = self.started.elapsed();
        if elapsed > self.limit {
            return Err(elapsed.as_millis());
        }
        if self.begun.elapsed() < SPIN {
            std::hint::spin_loop();
            return Ok(());
        }
        self.sleeps = self.sleeps.saturating_add(1);
        // 10 us at first, 1 ms after about 100 ms.
        let micros = 10 + u64::from(self.sleeps / 2).min(990);
        std::thread::sleep(Duration::from_micros(micros));
        Ok(())
    }
}
