//! Receives the program's calls and has them answered.
//!
//! One thread receives, and answers short calls itself: with the kernel's synchronous wake-up it and
//! the caller take turns on one CPU, which is four times faster than handing the call to another one.
//! Calls that take long or block go to threads of their own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use protocol::Errno;
use protocol::kfd::{Interrupt, Mapping, Node, Transfer};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fstat};

use super::call::{DeviceCall, Pace};
use super::faults::Faults;
use super::filter::{Arch, Syscall};
use super::notify::{Answer, Listener, Notification};
use super::parked::Parked;
use super::pool::Pool;
use super::registry::{Descriptor, Found, Registry};
use super::stat::{self, Opening};
use super::trace::{Record, TraceFile, What};
use super::waits::Waits;

/// Linux since which receiving ends when nobody uses the filter any more ("seccomp: interrupt
/// SECCOMP_IOCTL_NOTIF_RECV when all users have exited").
const RECEIVE_ENDS: (u32, u32) = (6, 11);

/// The serving side of a run.
pub struct Server {
    listener: Arc<Listener>,
    registry: Arc<Registry>,
    pool: Arc<Pool>,
    parked: Arc<Parked>,
    waits: Arc<Waits>,
    trace: Option<TraceFile>,
    refusals: Refusals,
    stop: OwnedFd,
}

/// Calls that are not executed, whatever the device would say.
pub(super) struct Refusals {
    /// What the open of `/dev/kfd` answers.
    pub(super) kfd: Option<Errno>,
    /// One that fails on purpose.
    pub(super) faults: Faults,
}

impl Server {
    /// A server for the calls that arrive at `listener`.
    ///
    /// # Errors
    /// `EMFILE` and its like.
    pub(super) fn new(
        listener: Listener,
        registry: Arc<Registry>,
        parked: Arc<Parked>,
        trace: Option<TraceFile>,
        refusals: Refusals,
    ) -> io::Result<Arc<Self>> {
        let listener = Arc::new(listener);
        let waits = Arc::new(Waits::new(Arc::clone(&listener)));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let pool = Arc::default();
        Ok(Arc::new(Self { listener, registry, pool, parked, waits, trace, refusals, stop }))
    }

    /// The watcher of blocking calls, to be run on a thread.
    #[must_use]
    pub fn waits(&self) -> Arc<Waits> {
        Arc::clone(&self.waits)
    }

    /// Makes [`Server::serve`] return, at the latest when the program has ended.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Serves until nobody uses the filter any more, or [`Server::stop`].
    pub fn serve(self: &Arc<Self>) {
        // Waiting in the receiving call itself saves a system call for each one of the program, where that call
        // ends with the program; elsewhere nothing else would ever end it.
        let receive_ends = kernel_is_at_least(RECEIVE_ENDS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            if !receive_ends && self.is_over(None) {
                return;
            }
            match self.listener.receive() {
                Ok(Ok(call)) => self.handle(&call),
                Ok(Err(unknown)) => self.answer(unknown, Answer::Continue),
                // ENOENT: the caller died between the wake-up and now, or nobody uses the filter any more.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {
                    if self.is_over(Some(&at_once)) {
                        return;
                    }
                }
                Err(error) => {
                    log::error!("cannot receive calls of the program any more: {error}");
                    return;
                }
            }
        }
    }

    /// Waits for a call, and says whether there will be none any more.
    fn is_over(&self, limit: Option<&Timespec>) -> bool {
        loop {
            let mut fds =
                [PollFd::new(self.listener.as_ref(), PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut fds, limit) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => return !fds[1].revents().is_empty() || fds[0].revents().contains(PollFlags::HUP),
            }
        }
    }

    /// Answers a call; a caller that was killed meanwhile needs none.
    fn answer(&self, id: u64, answer: Answer) {
        match self.listener.answer(id, answer) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                log::error!("cannot answer a call of the program: {error}");
            }
            _ => {}
        }
    }

    fn handle(self: &Arc<Self>, call: &Notification) {
        let answer = match call.call {
            Syscall::Ioctl => match self.ioctl(call) {
                Some(answer) => answer,
                None => return,
            },
            Syscall::Mmap => self.mmap(call),
            Syscall::Exec => {
                if let Some(proc) = self.registry.known_process(call.tid) {
                    proc.note_exec();
                }
                Answer::Continue
            }
            open if open.is_open() => self.open(call),
            Syscall::Truncate | Syscall::Ftruncate | Syscall::Fallocate => {
                stat::truncation(&self.registry, call)
            }
            _ => stat::answer(&self.registry, call),
        };
        self.answer(call.id, answer);
    }

    /// The answer to a call that opens a file: the device may refuse every process, and ignores `O_TRUNC`.
    fn open(&self, call: &Notification) -> Answer {
        let opening = match stat::opening(&self.registry, call) {
            Err(errno) => return answer_unseen(errno),
            Ok(None) => return Answer::Continue,
            Ok(Some(opening)) => opening,
        };
        let since = Instant::now();
        let (number, allowed) = self.refusals.faults.next();
        let refusal = self.refusals.kfd.filter(|_| opening.node.node == Node::Kfd);
        let result = match refusal.or(allowed.err()) {
            Some(errno) => Some(Err(errno)),
            None if opening.truncates() => Some(self.open_untruncated(call.id, &opening).map(i64::from)),
            None => None,
        };
        if let Some(trace) = &self.trace {
            // Its first call to the device may be this one.
            let pid = self.registry.process_of(call.tid).map_or(call.tid, |proc| proc.pid);
            let (node, what) = (opening.node.node, What::Open { flags: opening.flags.bits() });
            trace.write(&Record { number, pid, tid: call.tid, node, what, result, since });
        }
        match result {
            Some(result) => result.map_or_else(Answer::Error, Answer::Value),
            None => Answer::Continue,
        }
    }

    fn open_untruncated(&self, id: u64, opening: &Opening<'_>) -> Result<i32, Errno> {
        let node = opening.open()?;
        self.listener.add_fd(id, node.as_fd(), None, opening.flags.contains(OFlags::CLOEXEC))
    }

    /// The answer to an ioctl, or `None` if another thread gives it.
    fn ioctl(self: &Arc<Self>, call: &Notification) -> Option<Answer> {
        let found = match self.registry.descriptor(call.tid, word(call.args[0]).cast_signed()) {
            Ok(Descriptor::Device(found)) => found,
            Ok(Descriptor::Foreign(_)) => return Some(Answer::Continue),
            Err(errno) => return Some(answer_unseen(errno)),
        };
        if found.node.node == Node::Kfd && call.arch == Arch::I386 {
            // kfd_open refuses 32-bit programs; opening is not notified, so they learn it here.
            return Some(Answer::Error(Errno::EPERM));
        }
        match self.device_call(call, &found) {
            Ok(device) => self.dispatch(device),
            Err(errno) => Some(Answer::Error(errno)),
        }
    }

    fn device_call(&self, call: &Notification, found: &Found<'_>) -> Result<DeviceCall, Errno> {
        let request = word(call.args[1]);
        let addr = if call.arch == Arch::I386 { u64::from(word(call.args[2])) } else { call.args[2] };
        let node = found.node.node;
        let file = self.registry.file(found)?;
        let space = self.registry.space(&found.proc)?;
        let transfer = Transfer { size: 0, from_user: false, to_user: false };
        let args = Vec::new();
        let (number, allowed) = self.refusals.faults.next();
        let mut device = DeviceCall {
            number,
            id: call.id,
            pid: found.proc.pid,
            tid: call.tid,
            space,
            node,
            file,
            request,
            addr,
            transfer,
            args,
            brief: false,
        };
        let read = allowed.and_then(|()| device.read_args());
        read.inspect_err(|&errno| device.trace_refusal(self.trace.as_ref(), errno))?;
        Ok(device)
    }

    fn dispatch(self: &Arc<Self>, mut call: DeviceCall) -> Option<Answer> {
        // What was read came from the caller only if it still waits: its ids may have been reused.
        if !self.listener.is_waiting(call.id) {
            return None;
        }
        let releases = call.may_release();
        let pace = match Pace::of(call.node, call.request, &call.args) {
            Pace::Short if releases => Pace::Slow,
            pace => pace,
        };
        if pace == Pace::Short {
            call.brief = true;
            return Some(self.execute(&mut call, &Interrupt::new()).into());
        }
        let (server, id, tid) = (Arc::clone(self), call.id, call.tid);
        let interrupt = Arc::new(Interrupt::new());
        self.parked.add(tid, &interrupt);
        let job = move || {
            let watched = match pace {
                Pace::Blocking => server.waits.add(id, call.pid, tid, &interrupt),
                _ => Ok(()),
            };
            let result = watched.and_then(|()| server.execute(&mut call, &interrupt));
            server.waits.remove(id);
            if releases && result.is_ok() {
                call.release();
            }
            server.parked.remove(tid);
            // The process's end must not wait for this thread to be reused.
            drop(call);
            server.answer(id, result.into());
        };
        match self.pool.run(Box::new(job)) {
            Ok(()) => None,
            Err(error) => {
                self.parked.remove(tid);
                log::error!("a call of the program fails with ENOMEM: {error}");
                Some(Answer::Error(Errno::ENOMEM))
            }
        }
    }

    fn execute(&self, call: &mut DeviceCall, interrupt: &Interrupt) -> Result<i32, Errno> {
        call.execute_traced(&self.registry, &self.listener, interrupt, self.trace.as_ref())
    }

    /// Shared mappings of device files go to the kernel when the device has the memory at that very
    /// place of the file behind the node.
    fn mmap(&self, call: &Notification) -> Answer {
        let found = match self.registry.descriptor(call.tid, word(call.args[4]).cast_signed()) {
            Ok(Descriptor::Device(found)) => found,
            Ok(Descriptor::Foreign(_)) => return Answer::Continue,
            Err(errno) => return answer_unseen(errno),
        };
        let offset = call.args[5].checked_mul(Syscall::offset_unit(call.arch));
        let Some(offset) = offset else { return Answer::Error(Errno::EOVERFLOW) };
        let (wants_write, since) = (call.args[2] & 2 != 0, Instant::now()); // PROT_WRITE
        let (number, allowed) = self.refusals.faults.next();
        let mapping = allowed.and_then(|()| self.registry.file(&found)).and_then(|file| {
            let space = self.registry.space(&found.proc)?;
            space.process.mmap(file, offset, call.args[1])
        });
        if let Some(trace) = &self.trace {
            let what = What::Mmap { offset, len: call.args[1] };
            let result = Some(mapping.as_ref().map(|_| 0).map_err(|errno| *errno));
            let (pid, node) = (found.proc.pid, found.node.node);
            trace.write(&Record { number, pid, tid: call.tid, node, what, result, since });
        }
        match mapping {
            Ok(mapping) if wants_write && !mapping.writable => Answer::Error(Errno::EPERM),
            Ok(mapping) if is_native(&mapping, found.node.fd.as_fd(), offset) => Answer::Continue,
            Ok(_) => {
                log::error!("a mapping of {:?} is not at its place in the file", found.node.node);
                Answer::Error(Errno::EOPNOTSUPP)
            }
            Err(errno) => Answer::Error(errno),
        }
    }
}

/// The answer where the descriptor of a call could not be looked at.
///
/// If nothing is open at the number, or the caller may not be looked at, the kernel knows best what is wrong. But
/// where this process is short of something the descriptor may well be a device's, whose call must not go to the file
/// behind the node.
pub(super) fn answer_unseen(errno: Errno) -> Answer {
    match errno {
        Errno::ENFILE | Errno::ENOMEM => Answer::Error(errno),
        _ => Answer::Continue,
    }
}

fn kernel_is_at_least(least: (u32, u32)) -> bool {
    version(&rustix::system::uname().release().to_string_lossy()).is_some_and(|running| running >= least)
}

/// The first two numbers of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether a mapping is the range of the file behind the node that the program asked for.
fn is_native(mapping: &Mapping, node: BorrowedFd<'_>, offset: u64) -> bool {
    let identity = |fd: BorrowedFd<'_>| fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino));
    mapping.offset == offset && identity(mapping.fd.as_fd().as_fd()) == identity(node)
}

/// The lower half of a register: descriptors and request codes are 32 bits wide.
fn word(register: u64) -> u32 {
    u32::try_from(register & 0xffff_ffff).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_by_their_first_two_numbers() {
        assert_eq!(version("6.12.38+deb13-amd64"), Some((6, 12)));
        assert_eq!(version("6.9-rc1"), Some((6, 9)));
        assert_eq!(version("7"), None);
        assert!(version("5.14.0") < Some(RECEIVE_ENDS) && Some(RECEIVE_ENDS) <= version("6.11.0"));
    }
}
