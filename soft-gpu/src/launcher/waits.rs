//! Ends blocking calls when their thread has something else to do.
//!
//! The filter makes the thread's wait killable only, so that no signal can make the kernel repeat a
//! call that was executed. The price is that a signal, a stop or a debugger would wait for the call.
//! So each blocking call is watched, and interrupted when `/proc` shows that its thread has to return
//! to user space; the call is then answered with `ERESTARTSYS`, on which the kernel runs the handler
//! and restarts the call or makes it `EINTR`, exactly as for a call of its own.
//!
//! `ERESTARTSYS` reaches the program as a number if the thread is *not* flagged to handle a signal, so
//! what counts as a reason here are only states in which the kernel has set that flag:
//! - a pending signal of the thread itself that it does not block;
//! - a pending signal of the process that the thread does not block. The kernel flags one thread that it
//!   chooses (`complete_signal`), and does not say which; so we flag the thread ourselves. If another one
//!   takes the signal, the call is restarted and nothing else happens;
//! - a stopped process: every thread is told to stop before the first one does (`do_signal_stop`);
//! - a debugger that appeared: it interrupts or stops what it attaches to.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::Interrupt;

use super::notify::Listener;
use super::registry::{lock, unless_short};
use super::tracee::flag_to_return;

/// A blocking call.
struct Wait {
    interrupt: Weak<Interrupt>,
    status: Option<File>,
    leader: Option<File>,
    tid: u32,
    first: bool,
    shared_seen: u32,
    since: Instant,
    next: Instant,
    tracer: Option<u32>,
    tracer_seen: u32,
}

/// All blocking calls, by notification id.
pub struct Waits {
    listener: Arc<Listener>,
    waits: Mutex<HashMap<u64, Wait>>,
    added: Condvar,
}

/// Shortest time between two looks at one thread.
const TICK: Duration = Duration::from_millis(1);
/// Longest, as long as there are few.
const TICK_MAX: Duration = Duration::from_millis(5);
/// A look takes about 10 us; this bounds all of them together to a tenth of one CPU.
const PER_WAIT: Duration = Duration::from_micros(100);

impl Waits {
    /// Nothing is watched yet; [`Waits::watch`] has to run on a thread.
    #[must_use]
    pub fn new(listener: Arc<Listener>) -> Self {
        Self { listener, waits: Mutex::default(), added: Condvar::new() }
    }

    /// Starts watching call `id` of thread `tid` of process `pid`.
    ///
    /// # Errors
    /// `ENFILE` if this process is out of descriptors: the call could not be interrupted.
    pub fn add(&self, id: u64, pid: u32, tid: u32, interrupt: &Arc<Interrupt>) -> Result<(), Errno> {
        let open = |path: String| unless_short(File::open(path));
        let now = Instant::now();
        let wait = Wait {
            interrupt: Arc::downgrade(interrupt),
            status: open(format!("/proc/{pid}/task/{tid}/status"))?,
            leader: if pid == tid { None } else { open(format!("/proc/{pid}/status"))? },
            tid,
            first: pid == tid,
            shared_seen: 0,
            since: now,
            next: now + TICK,
            tracer: None,
            tracer_seen: 0,
        };
        lock(&self.waits).insert(id, wait);
        self.added.notify_one();
        Ok(())
    }

    /// Stops watching call `id`.
    pub fn remove(&self, id: u64) {
        lock(&self.waits).remove(&id);
    }

    /// Watches until the process ends.
    pub fn watch(&self) -> ! {
        let mut waits = lock(&self.waits);
        loop {
            while waits.is_empty() {
                waits = self.added.wait(waits).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            let now = Instant::now();
            let count = u32::try_from(waits.len()).unwrap_or(u32::MAX);
            let longest = TICK_MAX.max(PER_WAIT.saturating_mul(count));
            for (id, wait) in waits.iter_mut().filter(|(_, wait)| wait.next <= now) {
                wait.next = now + ((now - wait.since) / 4).clamp(TICK, longest);
                if let Some(interrupt) = wait.interrupt.upgrade()
                    && (!self.listener.is_waiting(*id) || wait.must_return())
                {
                    interrupt.fire();
                }
            }
            let next = waits.values().map(|wait| wait.next).min().unwrap_or(now + TICK);
            drop(waits);
            std::thread::sleep(next.saturating_duration_since(Instant::now()).max(TICK / 4));
            waits = lock(&self.waits);
        }
    }
}

impl Wait {
    fn must_return(&mut self) -> bool {
        let Some(status) = self.status.as_ref().and_then(read_status) else { return false };
        let own = status.pending & !status.blocked;
        let shared = status.shared_pending & !status.blocked;
        if own != 0 || self.takes_shared(shared) || self.tracer_appeared(status.tracer) {
            return true;
        }
        self.leader.as_ref().and_then(read_status).is_some_and(|leader| leader.stopped)
    }

    /// Whether the thread is to look at signals of its process. The first thread is the kernel's first
    /// choice; others are asked when nobody took the signal up to the second look. A thread that is
    /// traced cannot be flagged by us, and counts as flagged if it is the first.
    fn takes_shared(&mut self, shared: u64) -> bool {
        if shared == 0 {
            self.shared_seen = 0;
            return false;
        }
        self.shared_seen += 1;
        if !self.first && self.shared_seen < 2 {
            return false;
        }
        let flagged = flag_to_return(self.tid).is_ok();
        flagged || self.first
    }

    /// Whether a debugger attached since the call began. It counts when it was seen for the third
    /// time: attaching and interrupting are two steps of the debugger, and only the second flags the
    /// thread.
    fn tracer_appeared(&mut self, tracer: u32) -> bool {
        // The launcher itself stops threads for a moment, to share their memory.
        let tracer = if tracer == std::process::id() { 0 } else { tracer };
        if self.tracer.get_or_insert(tracer) == &tracer {
            self.tracer_seen = 0;
            return false;
        }
        if tracer == 0 {
            self.tracer = Some(0);
            return false;
        }
        self.tracer_seen += 1;
        self.tracer_seen >= 3
    }
}

/// What `/proc/PID/status` says about signals (`proc_pid_status(5)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    pending: u64,
    shared_pending: u64,
    blocked: u64,
    tracer: u32,
    stopped: bool,
}

fn read_status(file: &File) -> Option<Status> {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0).ok()?;
    parse_status(&String::from_utf8_lossy(buffer.get(..length)?))
}

fn parse_status(text: &str) -> Option<Status> {
    let mut status = Status::default();
    let mask = |value: &str| u64::from_str_radix(value, 16).ok();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match key {
            "State" => status.stopped = value.starts_with('T'),
            "TracerPid" => status.tracer = value.parse().ok()?,
            "SigPnd" => status.pending = mask(value)?,
            "ShdPnd" => status.shared_pending = mask(value)?,
            "SigBlk" => status.blocked = mask(value)?,
            _ => {}
        }
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read_field_by_field() {
        let text = "Name:\tState:\nState:\tT (stopped)\nTracerPid:\t77\nSigPnd:\t0000000000000200\n\
                    ShdPnd:\t0000000000002000\nSigBlk:\t0000000000000001\n";
        let expected =
            Status { pending: 0x200, shared_pending: 0x2000, blocked: 1, tracer: 77, stopped: true };
        assert_eq!(parse_status(text), Some(expected));
        assert_eq!(parse_status("SigPnd:\tzz\n"), None);
    }

    #[test]
    fn own_status_is_readable() {
        let file = File::open("/proc/self/status").unwrap();
        assert!(!read_status(&file).unwrap().stopped);
    }

    fn wait() -> Wait {
        let now = Instant::now();
        let interrupt = Weak::new();
        Wait {
            interrupt,
            status: None,
            leader: None,
            tid: 0,
            first: true,
            shared_seen: 0,
            since: now,
            next: now,
            tracer: None,
            tracer_seen: 0,
        }
    }

    #[test]
    fn a_debugger_that_was_there_before_is_no_reason_and_a_new_one_is() {
        let mut traced = wait();
        assert!((0..9).all(|_| !traced.tracer_appeared(5)));
        let mut attached = wait();
        assert!(!attached.tracer_appeared(0));
        assert_eq!([7, 7, 7].map(|tracer| attached.tracer_appeared(tracer)), [false, false, true]);
    }
}
