//! Who is calling, and through which open file.
//!
//! A thread id leads to a process, a process to its address space (one [`Process`] of the device), a
//! descriptor number to an open file description. Nothing of this may be remembered by number alone:
//! the program closes and reopens descriptors, and the kernel reuses process ids, without telling.
//! So a process is held by pidfd, and each call fetches a duplicate of the caller's descriptor. The
//! open file description carries its own identity in its file offset, which duplicates share and
//! nothing else of a character device's user touches.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::Errno;
use protocol::kfd::{Caller, FileId, Kfd, Process, ProcessId};
use rustix::fs::{SeekFrom, fstat, seek};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::nodes::{NodeFile, Nodes};
use super::tracee::files::{FileKey, SharedFiles};
use super::tracee::{ParkedCalls, TraceeMem};

/// Locks without regard to poisoning: what the locks guard is consistent between statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process of the program.
pub struct Proc {
    /// Its id.
    pub pid: u32,
    /// Stable handle.
    pub pidfd: OwnedFd,
    space: Mutex<Option<Arc<Space>>>,
    exec_seen: AtomicBool,
}

/// The address space of a process that uses the device.
pub struct Space {
    /// What the device knows it as.
    pub process: Arc<dyn Process>,
    /// Its memory.
    pub mem: TraceeMem,
    /// `/proc/PID/mem`, which stays with this address space when the process executes another program.
    memory: Option<File>,
}

impl Space {
    /// Whether threads still run in it. Reading the file of an ended address space gives nothing,
    /// where a living one answers EIO for the never mapped address 0 (`mem_rw` in `fs/proc/base.c`).
    fn lives(&self) -> bool {
        match &self.memory {
            Some(memory) => !matches!(memory.read_at(&mut [0], 0), Ok(0)),
            None => false,
        }
    }
}

impl Proc {
    /// Notes that the process may have a new address space.
    pub fn note_exec(&self) {
        self.exec_seen.store(true, Ordering::Release);
    }

    /// Whether that may be so and was not looked into yet.
    pub fn exec_pending(&self) -> bool {
        self.exec_seen.load(Ordering::Acquire) && lock(&self.space).is_some()
    }

    /// Lets go of an address space that ended.
    pub fn drop_dead_space(&self) {
        if self.exec_seen.load(Ordering::Acquire) {
            let mut space = lock(&self.space);
            if space.as_ref().is_some_and(|space| !space.lives()) {
                *space = None;
                self.exec_seen.store(false, Ordering::Release);
            }
        }
    }
}

/// What a descriptor of a caller stands for.
pub struct Found<'a> {
    /// The caller.
    pub proc: Arc<Proc>,
    /// The device node.
    pub node: &'a NodeFile,
    /// A duplicate of the descriptor.
    pub fd: OwnedFd,
    /// The caller's number of it.
    pub number: i32,
}

/// A descriptor as far as the launcher is concerned.
pub enum Descriptor<'a> {
    /// A device file.
    Device(Found<'a>),
    /// Any other file.
    Foreign(OwnedFd),
}

struct OpenFile {
    id: FileId,
    opener: Weak<Space>,
}

#[derive(Default)]
struct Procs {
    by_pid: HashMap<u32, Arc<Proc>>,
    /// Threads other than the first of their process.
    by_tid: HashMap<u32, u32>,
}

/// Every process and open file of a run.
pub struct Registry {
    kfd: Arc<dyn Kfd>,
    parked: Arc<dyn ParkedCalls>,
    shared: Arc<SharedFiles>,
    /// The device nodes.
    pub nodes: Nodes,
    procs: Mutex<Procs>,
    files: Mutex<HashMap<u64, OpenFile>>,
    next_tag: AtomicU64,
    next_space: AtomicU64,
}

/// Tags are file offsets `TAG_BASE + n * TAG_STEP`, far behind the end of the files: a stray `read` at
/// one finds nothing and does not move it, and short writes do not lead to the next tag.
const TAG_BASE: u64 = 1 << 60;
const TAG_STEP: u64 = 1 << 20;

impl Registry {
    /// An empty registry. `parked` are the calls that are being executed.
    #[must_use]
    pub fn new(kfd: Arc<dyn Kfd>, nodes: Nodes, parked: Arc<dyn ParkedCalls>) -> Self {
        let device = nodes.iter().filter_map(|node| FileKey::of(&node.fd).ok());
        Self {
            kfd,
            parked,
            shared: Arc::new(SharedFiles::new(device)),
            nodes,
            procs: Mutex::default(),
            files: Mutex::default(),
            next_tag: AtomicU64::new(1),
            next_space: AtomicU64::new(1),
        }
    }

    /// The process of thread `tid`.
    ///
    /// # Errors
    /// `ESRCH` if there is no such thread (any more).
    pub fn process_of(&self, tid: u32) -> Result<Arc<Proc>, Errno> {
        {
            let procs = lock(&self.procs);
            if let Some(proc) = procs.by_pid.get(&tid) {
                return Ok(Arc::clone(proc));
            }
            let known = procs.by_tid.get(&tid).and_then(|pid| procs.by_pid.get(pid));
            if let Some(proc) = known.filter(|proc| is_thread_of(proc.pid, tid)) {
                return Ok(Arc::clone(proc));
            }
        }
        self.learn(tid)
    }

    fn learn(&self, tid: u32) -> Result<Arc<Proc>, Errno> {
        let pid = thread_group(tid)?.ok_or(Errno::ESRCH)?;
        let mut procs = lock(&self.procs);
        let proc = match procs.by_pid.get(&pid) {
            Some(proc) => Arc::clone(proc),
            None => {
                let handle =
                    Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?).ok_or(Errno::ESRCH)?;
                let pidfd = pidfd_open(handle, PidfdFlags::empty()).map_err(errno)?;
                let proc =
                    Arc::new(Proc { pid, pidfd, space: Mutex::default(), exec_seen: AtomicBool::default() });
                procs.by_pid.insert(pid, Arc::clone(&proc));
                proc
            }
        };
        if pid != tid {
            procs.by_tid.insert(tid, pid);
        }
        Ok(proc)
    }

    /// The process `pid` if it is known.
    pub fn known_process(&self, pid: u32) -> Option<Arc<Proc>> {
        lock(&self.procs).by_pid.get(&pid).map(Arc::clone)
    }

    /// All known processes.
    pub fn processes(&self) -> Vec<Arc<Proc>> {
        lock(&self.procs).by_pid.values().map(Arc::clone).collect()
    }

    /// Forgets a process that ended. Its address space goes with it, unless a call still holds it.
    pub fn forget(&self, proc: &Arc<Proc>) {
        let mut procs = lock(&self.procs);
        if procs.by_pid.get(&proc.pid).is_some_and(|known| Arc::ptr_eq(known, proc)) {
            procs.by_pid.remove(&proc.pid);
            procs.by_tid.retain(|_, pid| *pid != proc.pid);
        }
        drop(procs);
        let space = lock(&proc.space).take();
        drop(space);
    }

    /// What descriptor `fd` of thread `tid` stands for.
    ///
    /// # Errors
    /// `EBADF` if it is not open, `ESRCH` if the thread is gone.
    pub fn descriptor(&self, tid: u32, number: i32) -> Result<Descriptor<'_>, Errno> {
        let mut proc = self.process_of(tid)?;
        let mut copy = duplicate(&proc, tid, number);
        if copy.is_err_and_is(Errno::ESRCH) {
            // The process ended and its id was given to another one.
            self.forget(&proc);
            proc = self.process_of(tid)?;
            copy = duplicate(&proc, tid, number);
        }
        let fd = copy?;
        let stat = fstat(&fd).map_err(errno)?;
        Ok(match self.nodes.by_stat(&stat) {
            Some(node) => Descriptor::Device(Found { proc, node, fd, number }),
            None => Descriptor::Foreign(fd),
        })
    }

    /// The address space of a process, made known to the device at its first use.
    ///
    /// # Errors
    /// Whatever [`Kfd::attach`] answers.
    pub fn space(&self, proc: &Proc) -> Result<Arc<Space>, Errno> {
        proc.drop_dead_space();
        let mut space = lock(&proc.space);
        if let Some(space) = &*space {
            return Ok(Arc::clone(space));
        }
        let memory = unless_short(File::open(format!("/proc/{}/mem", proc.pid)))?;
        let pidfd = proc.pidfd.try_clone().map_err(io_error)?;
        let mem = TraceeMem::new(proc.pid, pidfd, Arc::clone(&self.parked), Arc::clone(&self.shared));
        let caller = Caller {
            id: ProcessId(self.next_space.fetch_add(1, Ordering::Relaxed)),
            pid: proc.pid,
            privileged: is_privileged(proc.pid),
            mem: Some(Arc::new(mem.clone())),
        };
        let made = Arc::new(Space { process: self.kfd.attach(caller)?, mem, memory });
        *space = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The device's identity of the open file behind `found`, opened there at its first use.
    ///
    /// # Errors
    /// Whatever [`Process::open`] answers.
    pub fn file(&self, found: &Found<'_>) -> Result<FileId, Errno> {
        // Held while the device opens it: two threads may use a new file at the same time.
        let mut files = lock(&self.files);
        if let Some(file) = tag_of(found.fd.as_fd()).and_then(|tag| files.get(&tag)) {
            return Ok(file.id);
        }
        let space = self.space(&*self.opener_of(found)?)?;
        let id = space.process.open(found.node.node)?;
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        seek(&found.fd, SeekFrom::Start(TAG_BASE + tag * TAG_STEP)).map_err(errno)?;
        files.insert(tag, OpenFile { id, opener: Arc::downgrade(&space) });
        Ok(id)
    }

    /// Who opened a file that is used for the first time: the caller, or the oldest of its ancestors that
    /// has the same open file under the same number, for then it was inherited. This process is none of
    /// them, although it holds a copy of the descriptor just now, perhaps under that number.
    fn opener_of(&self, found: &Found<'_>) -> Result<Arc<Proc>, Errno> {
        let (mut opener, mut pid) = (Arc::clone(&found.proc), found.proc.pid);
        for _ in 0..ANCESTORS_MAX {
            let ours = std::process::id();
            let Some(parent) = parent_of(pid)?.filter(|&parent| parent > 1 && parent != ours) else { break };
            pid = parent;
            if same_file(found.proc.pid, pid, found.number) {
                opener = self.process_of(pid).unwrap_or(opener);
            }
        }
        Ok(opener)
    }

    /// Closes every open file whose tag is not among `alive`, except those newer than `before`.
    pub fn close_all_but(&self, alive: &std::collections::HashSet<u64>, before: u64) {
        let closed: Vec<OpenFile> = {
            let mut files = lock(&self.files);
            let gone: Vec<u64> =
                files.keys().filter(|tag| **tag < before && !alive.contains(tag)).copied().collect();
            gone.iter().filter_map(|tag| files.remove(tag)).collect()
        };
        for file in closed {
            if let Some(space) = file.opener.upgrade() {
                space.process.close(file.id);
            }
        }
    }

    /// The tag that the next new file gets.
    pub fn next_tag(&self) -> u64 {
        self.next_tag.load(Ordering::Relaxed)
    }
}

/// The tag in the offset of an open file.
pub fn tag_of(fd: std::os::fd::BorrowedFd<'_>) -> Option<u64> {
    let offset = seek(fd, SeekFrom::Current(0)).ok()?;
    Some(offset.checked_sub(TAG_BASE)? / TAG_STEP)
}

trait IsErr {
    fn is_err_and_is(&self, errno: Errno) -> bool;
}

impl<T> IsErr for Result<T, Errno> {
    fn is_err_and_is(&self, errno: Errno) -> bool {
        matches!(self, Err(e) if *e == errno)
    }
}

fn duplicate(proc: &Proc, tid: u32, fd: i32) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(Errno::EBADF);
    }
    let by_process = pidfd_getfd(&proc.pidfd, fd, PidfdGetfdFlags::empty()).map_err(errno);
    let hidden = by_process.is_err_and_is(Errno::EBADF) || by_process.is_err_and_is(Errno::ESRCH);
    if hidden && tid != proc.pid {
        // Of a process whose first thread has ended the process's handle shows no descriptors.
        let thread = pidfd_of_thread(tid)?;
        return pidfd_getfd(&thread, fd, PidfdGetfdFlags::empty()).map_err(errno);
    }
    by_process
}

fn pidfd_of_thread(tid: u32) -> Result<OwnedFd, Errno> {
    let tid = Pid::from_raw(i32::try_from(tid).map_err(|_| Errno::EBADF)?).ok_or(Errno::EBADF)?;
    // PIDFD_THREAD (Linux 6.9) has the value of O_EXCL.
    let flags = PidfdFlags::from_bits_retain(libc::PIDFD_THREAD);
    pidfd_open(tid, flags).map_err(|error| match errno(error) {
        short @ (Errno::ENFILE | Errno::ENOMEM) => short,
        _ => Errno::EBADF,
    })
}

fn is_thread_of(pid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 is only checked for permission, nothing is sent.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    result == 0 || super::notify::last_errno() == Errno::EPERM
}

/// How far up an opener is looked for.
const ANCESTORS_MAX: usize = 16;

fn parent_of(pid: u32) -> Result<Option<u32>, Errno> {
    let stat = unless_short(std::fs::read_to_string(format!("/proc/{pid}/stat")))?;
    let parent = stat.as_deref().and_then(super::reaper::parent_in_stat);
    Ok(parent.map(|parent| parent.as_raw_pid().unsigned_abs()))
}

/// Whether descriptor `fd` of both processes is the same open file description (`kcmp(2)`).
fn same_file(a: u32, b: u32, fd: i32) -> bool {
    const KCMP_FILE: i32 = 0;
    // SAFETY: the call takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_FILE, fd, fd) == 0 }
}

/// The process id of a thread; `None` if there is no such thread.
fn thread_group(tid: u32) -> Result<Option<u32>, Errno> {
    let status = unless_short(std::fs::read_to_string(format!("/proc/{tid}/status")))?.unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    Ok(group.and_then(|group| group.trim().parse().ok()))
}

/// Inode of the initial user namespace (`PROC_USER_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xeffffffd;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_CHECKPOINT_RESTORE: u64 = 1 << 40;

/// What the kernel's `capable` says: capabilities count in the initial user namespace only.
fn is_privileged(pid: u32) -> bool {
    let initial = std::fs::metadata(format!("/proc/{pid}/ns/user"))
        .is_ok_and(|namespace| namespace.ino() == INITIAL_USER_NAMESPACE);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    initial && effective & (CAP_SYS_ADMIN | CAP_CHECKPOINT_RESTORE) != 0
}

/// The error of a system call of this process on behalf of the program. Being out of descriptors is, to the program,
/// what being out of files is: its own table has room.
pub(super) fn errno(error: rustix::io::Errno) -> Errno {
    match Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EIO) {
        short @ (Errno::EMFILE | Errno::ENFILE) => {
            log::error!("there are no more descriptors ({short}): calls of the program fail with ENFILE");
            Errno::ENFILE
        }
        other => other,
    }
}

fn io_error(error: std::io::Error) -> Errno {
    rustix::io::Errno::from_io_error(&error).map_or(Errno::EIO, errno)
}

/// What was looked at, or `None` if it is not there or not to be seen.
///
/// # Errors
/// `ENFILE` or `ENOMEM` if this process is short of what it takes to look.
pub(super) fn unless_short<T>(result: std::io::Result<T>) -> Result<Option<T>, Errno> {
    match result.map_err(io_error) {
        Ok(value) => Ok(Some(value)),
        Err(short @ (Errno::ENFILE | Errno::ENOMEM)) => Err(short),
        Err(_) => Ok(None),
    }
}
