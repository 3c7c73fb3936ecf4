//! The memory of another process, for a device that answers its ioctls.
//!
//! Copies go through `process_vm_readv` and `process_vm_writev`. Atomics of the device cannot: for them
//! [`UserMem::share`] turns private memory of the program into shared memory, **in place**: everything that runs
//! in that memory is stopped, the contents are copied into a memfd that the program's own thread created,
//! that thread maps it over the range, and everything goes on. Whole pages, contents and protections are kept,
//! no store is lost.
//!
//! # Whose thread
//! Something has to make the calls in the program. A thread that waits for the answer to its ioctl cannot,
//! and often no other exists. Then the call that wants the memory ends with `ERESTARTSYS`: the launcher
//! answers the ioctl so, the thread meets its stop on the way back to the program, is borrowed there, and
//! the kernel restarts the ioctl, which finds the memory shared. So **a device that gets `ERESTARTSYS` from
//! `share` undoes what it has begun and hands the error up**; it will see the same call again.
//!
//! No other thread of this process may wait for the program with `waitpid(2)`: it would take the reports of the
//! stops. A pidfd tells of its end.
//!
//! # What becomes of what
//! | memory | |
//! |---|---|
//! | anonymous: heap, `.bss`, stacks, `mmap` | converted |
//! | private file mappings (`.data`, text) | converted; the file's name is gone from the memory map |
//! | shared file mappings, memfds, memory converted before | shared as they are ([`files`]) |
//! | the device's own memory, other drivers' mappings, guard pages | `EFAULT`, as `hmm_range_fault` |
//! | read-only memory that the device wants to write | `EPERM`, as `hmm_range_fault` |
//! | private huge pages of hugetlbfs | `EOPNOTSUPP` |
//!
//! # What is not as with a real GPU
//! - While the device uses memory, a child that is forked shares it with its parent instead of having a copy, and
//!   `MADV_DONTNEED` does not clear it. An allocator that purges so and counts on zeros (jemalloc, Go) finds old
//!   contents. Once the device has let all of one conversion go it is private again ([`release`]); not where another
//!   process has registered the same pages meanwhile, nor where the device is behind a socket (loopback) or the
//!   program cannot be stopped.
//! - `mlock`, earlier `madvise` (`MADV_DONTFORK` included) and memory policies of the range are forgotten; it
//!   has small pages.
//! - The device keeps what it shares when the program unmaps the range or maps something else there; the
//!   kernel's driver would follow.
//! - I/O under way when the range is converted may still write to the old pages ([`stop`]).
//! - A process that a debugger traces cannot be stopped by us: `EBUSY`, and the log says who traces it.
//!   Memory that was shared before stays so. 32-bit programs are not converted (`EBUSY`).
//! - A seccomp filter of the program's own has to allow `memfd_create`, `mmap` and `close`.

pub mod error;
pub mod files;

mod convert;
mod inject;
mod plan;
mod ptrace;
mod release;
mod session;
mod stop;
mod threads;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use protocol::Errno;
use protocol::kfd::{Fault, Shared, UserMem};

use self::files::{FileKey, SharedFiles};
use self::plan::Range;
use crate::{proc_maps, vm_copy};

/// What the launcher knows of the calls that it has received and not answered.
pub trait ParkedCalls: Send + Sync {
    /// Whether thread `tid` waits for the answer to a call that will be answered with a value or an error,
    /// never by letting the kernel execute it. Has to be false from *before* the answer is given: a thread
    /// that has its answer runs.
    fn is_parked(&self, tid: u32) -> bool;

    /// Makes the call of `tid` end soon with `ERESTARTSYS`, if it can: fires its
    /// [`Interrupt`](protocol::kfd::Interrupt). The thread has been told to stop, so that the kernel takes
    /// the number for what it is. May be asked for a thread that is not parked (any more).
    fn release(&self, tid: u32);
}

/// The memory of one process, from its attachment to the device until its end.
///
/// [`UserMem::share`] of this type is for the device's own threads (shared virtual memory); inside a call of the
/// program, [`TraceeMem::of_call`] has to be used.
#[derive(Clone)]
pub struct TraceeMem {
    inner: Arc<Inner>,
}

struct Inner {
    pid: u32,
    pidfd: OwnedFd,
    /// `/proc/PID/mem`: stays with the memory when the process executes another program.
    memory: Option<File>,
    parked: Arc<dyn ParkedCalls>,
    files: Arc<SharedFiles>,
    /// Held exclusively while pages are replaced: what is written meanwhile would be lost.
    swap: RwLock<()>,
    /// Held while a range is shared: one at a time.
    running: Mutex<session::Running>,
    notes: Mutex<Notes>,
}

/// What is remembered of earlier conversions.
#[derive(Default)]
struct Notes {
    /// Files that the process has mapped, kept open: one of converted memory cannot be opened again.
    held: HashMap<FileKey, Arc<OwnedFd>>,
    /// Those of them that are memory of this process, converted.
    converted: HashSet<FileKey>,
    /// Calls, by thread, whose conversion failed after they had been sent back for a restart.
    failed: HashMap<u32, (Range, Errno)>,
    /// Where stack memory was converted: what ends there is stack too.
    stack_parts: HashSet<u64>,
}

impl Notes {
    /// The converted memory that this file is, if nobody but us holds it: whoever uses memory that was shared holds the
    /// descriptor that it got.
    fn released(&self, key: FileKey) -> Option<&Arc<OwnedFd>> {
        let file = self.held.get(&key).filter(|file| Arc::strong_count(file) == 1);
        file.filter(|_| self.converted.contains(&key))
    }

    fn any_released(&self) -> bool {
        self.converted.iter().any(|key| self.released(*key).is_some())
    }

    /// Forgets files that the process has no longer mapped.
    fn keep_mapped(&mut self, mapped: &HashSet<FileKey>) {
        self.held.retain(|key, _| mapped.contains(key));
        self.converted.retain(|key| mapped.contains(key));
    }
}

/// Flags a thread that waits in the kernel as one that has a signal to look for, so that `ERESTARTSYS` is
/// an answer that never reaches the program: the kernel then delivers what is pending, or restarts the
/// call. The thread goes on waiting meanwhile.
///
/// Being told to stop by a tracer flags it; the end of the tracing thread takes the stop back, but not
/// the flag.
///
/// # Errors
/// `EPERM` for a thread that is traced.
pub(super) fn flag_to_return(tid: u32) -> Result<(), Errno> {
    let tracer = std::thread::Builder::new()
        .name("flag".into())
        .spawn(move || ptrace::seize(tid).and_then(|()| ptrace::interrupt(tid)))
        .map_err(|_| Errno::ENOMEM)?;
    tracer.join().unwrap_or(Err(Errno::EIO))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TraceeMem {
    /// The memory of process `pid`, which `pidfd` refers to. `files` is common to all processes of a run.
    #[must_use]
    pub fn new(pid: u32, pidfd: OwnedFd, parked: Arc<dyn ParkedCalls>, files: Arc<SharedFiles>) -> Self {
        let memory = File::open(format!("/proc/{pid}/mem")).ok();
        let inner = Inner {
            pid,
            pidfd,
            memory,
            parked,
            files,
            swap: RwLock::new(()),
            running: Mutex::default(),
            notes: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether memory of the process is shared that was not at first.
    #[must_use]
    pub fn has_converted(&self) -> bool {
        !lock(&self.inner.notes).converted.is_empty()
    }

    /// The memory as a call of thread `tid` sees it.
    #[must_use]
    pub fn of_call(&self, tid: u32) -> CallMem {
        CallMem { mem: self.clone(), tid, waiting: false }
    }

    /// The memory as a short call of thread `tid` sees it, which the kernel says to be waiting just now
    /// ([`is_waiting`](super::notify::Listener::is_waiting)) or will be asked about before anything is done with
    /// what was read: the number is still the thread's own, and a system call for each copy is saved.
    #[must_use]
    pub fn of_waiting_call(&self, tid: u32) -> CallMem {
        CallMem { mem: self.clone(), tid, waiting: true }
    }
}

impl UserMem for TraceeMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.inner.check_lives(addr, buf.len())?;
        self.inner.copy_in(self.inner.pid, addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        self.inner.check_lives(addr, buf.len())?;
        self.inner.copy_out(self.inner.pid, addr, buf)
    }

    fn share(&self, addr: u64, len: u64, writable: bool) -> Result<Vec<Shared>, Errno> {
        session::share(&self.inner, None, Range { addr, len, writable })
    }

    fn is_mapped(&self, addr: u64, len: u64) -> bool {
        proc_maps::is_mapped(self.inner.pid, addr, len, |addr| self.read(addr, &mut [0]).is_ok())
    }

    fn shared(&self, addr: u64, len: u64) -> Result<Vec<Shared>, Errno> {
        session::shared(&self.inner, self.inner.pid, addr, len)
    }
}

/// The memory of a process as a call of one of its threads sees it: through that thread, so that a process
/// whose first thread has ended is reached too.
#[derive(Clone)]
pub struct CallMem {
    mem: TraceeMem,
    tid: u32,
    waiting: bool,
}

impl CallMem {
    fn check_lives(&self, addr: u64, len: usize) -> Result<(), Fault> {
        if self.waiting { Ok(()) } else { self.mem.inner.check_lives(addr, len) }
    }
}

impl CallMem {
    /// Makes memory private again that the device has let go, if there is any. The caller is one whose call has been
    /// carried out and not been answered yet. Where its own thread is needed this returns at once, and the memory is
    /// private before that thread, once it has its answer, runs code of the program again.
    pub fn release(&self) {
        session::release(&self.mem.inner, self.tid);
    }
}

impl UserMem for CallMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.check_lives(addr, buf.len())?;
        self.mem.inner.copy_in(self.tid, addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        self.check_lives(addr, buf.len())?;
        self.mem.inner.copy_out(self.tid, addr, buf)
    }

    /// `ERESTARTSYS` where the calling thread itself is needed: see the [module](self).
    fn share(&self, addr: u64, len: u64, writable: bool) -> Result<Vec<Shared>, Errno> {
        session::share(&self.mem.inner, Some(self.tid), Range { addr, len, writable })
    }

    fn is_mapped(&self, addr: u64, len: u64) -> bool {
        proc_maps::is_mapped(self.tid, addr, len, |addr| self.read(addr, &mut [0]).is_ok())
    }

    fn shared(&self, addr: u64, len: u64) -> Result<Vec<Shared>, Errno> {
        session::shared(&self.mem.inner, self.tid, addr, len)
    }
}

impl Inner {
    /// Reads through thread `task`.
    fn copy_in(&self, task: u32, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let _no_swap = self.swap.read().unwrap_or_else(PoisonError::into_inner);
        vm_copy::read(task, addr, buf)
    }

    /// Writes through thread `task`.
    fn copy_out(&self, task: u32, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        let _no_swap = self.swap.read().unwrap_or_else(PoisonError::into_inner);
        vm_copy::write(task, addr, buf)
    }

    /// The number of a process that ended may be another one's by now.
    fn check_lives(&self, addr: u64, len: usize) -> Result<(), Fault> {
        // SAFETY: signal 0 is only checked for permission, nothing is sent; the descriptor is open.
        let result = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), 0, std::ptr::null::<u8>(), 0)
        };
        let ended = result != 0 && ptrace::last_errno() == Errno::ESRCH;
        if ended { Err(Fault { addr, len: u64::try_from(len).unwrap_or(u64::MAX) }) } else { Ok(()) }
    }
}
