//! The boundary of the whole design: [`Kfd`], what is above it is a caller, what is below a device.
//!
//! It has the shape of the kernel interface: open, close, ioctl and mmap on `/dev/kfd` and the
//! render nodes, plus the topology tree. The software GPU, the kernel's own KFD, a virtio-gpu device and a socket implement it;
//! the thunk's engine, the launcher and the daemon's worker call it.
//!
//! Everything that crosses is plain data, a file descriptor, or shared memory, so that the trait can
//! be serialised: a transport carries the argument bytes, the byte ranges that the declaration of the
//! ioctl names, and descriptors. Blocking calls block the calling thread until [`Interrupt`] fires.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use super::topology::Tree;
use super::user_mem::UserMem;
use crate::Errno;

/// A device with a KFD interface: the GPUs of one machine.
pub trait Kfd: Send + Sync {
    /// The files below `/sys/devices/virtual/kfd/kfd/topology`.
    fn topology(&self) -> Result<Tree, Errno>;

    /// Makes an address space known to KFD. The kernel has one `kfd_process` per address space, kept
    /// from the first open of `/dev/kfd` until the address space ends, however often the file is
    /// closed in between; so a caller attaches once per address space and drops the [`Process`] when
    /// that space is gone. Nothing is allocated for the process before its first open.
    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno>;
}

/// The process for which a [`Process`] is made.
#[derive(Clone)]
pub struct Caller {
    /// Stable identity of the address space; no two that live at one time are equal.
    pub id: ProcessId,
    /// The process id that messages and debug calls name.
    pub pid: u32,
    /// Whether the process has `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE` (CRIU_OP, SMI events of
    /// all processes).
    pub privileged: bool,
    /// Memory that may be reached outside of a call (shared virtual memory). `None` where a
    /// transport only carries what a call names: such a device offers no SVM.
    pub mem: Option<Arc<dyn UserMem>>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("id", &self.id)
            .field("pid", &self.pid)
            .field("privileged", &self.privileged)
            .field("mem", &self.mem.is_some())
            .finish()
    }
}

/// Identity of an address space, chosen by whoever attaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// Identity of one open file description, unique within a [`Kfd`] for its whole life.
///
/// Like a file description it can be used by another process than the opener (inherited or passed
/// descriptors); what that process may do with it is the device's business (`EBADF` for `/dev/kfd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// A device node that can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    /// `/dev/kfd`.
    Kfd,
    /// `/dev/dri/renderD<minor>`, 128 and up.
    Render(u32),
}

/// One address space as KFD sees it. Dropping the last reference is the end of that address space:
/// queues stop, memory, events and everything else that it held are released.
pub trait Process: Send + Sync {
    /// `open(2)` of a device node.
    ///
    /// # Errors
    /// `ENOENT` for a render minor that no GPU has; `EINVAL` for KFD without a GPU on Linux 7.2 and
    /// later.
    fn open(&self, node: Node) -> Result<FileId, Errno>;

    /// The last `close(2)` of a file description. Unknown ids are ignored.
    fn close(&self, file: FileId);

    /// The part of `ioctl(2)` before the argument struct is looked at: may this process make this
    /// call on this file, and what does the call copy?
    ///
    /// Whoever holds raw program pointers (the launcher) asks this first, so that an unknown number
    /// is `ENOTTY` and a foreign descriptor `EBADF` even where the pointer is bad too. Whoever fills
    /// in typed structs does not need it: [`Process::ioctl`] checks the same.
    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno>;

    /// `ioctl(2)`.
    ///
    /// `request` is the request code as the program gave it. `args` holds the argument struct:
    /// [`_IOC_SIZE`](crate::kfd::request_size)`(request)` bytes, zero-filled where
    /// [`Transfer::from_user`] is false. It is copied back to the program where
    /// [`Transfer::to_user`] is true, **also when the call fails**, as the kernel does. Bytes that the
    /// device's own struct has beyond `args` count as zero. A successful call returns what `ioctl`
    /// returns.
    ///
    /// Errors are the kernel's, [`Errno::ERESTARTSYS`] included: it means that `call.interrupt()`
    /// fired, that `args` were brought into the state for a restart, and that the same call may be
    /// made again.
    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno>;

    /// `mmap(2)`: what stands behind `[offset, offset + len)` of the file for this process.
    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno>;

    /// Gives the memory that [`mmap`](Process::mmap) finds there other pages, until it is freed: a buffer of VRAM or GTT, or
    /// all doorbells of a GPU. What was in it is kept. Only a device in software can do that.
    ///
    /// # Errors
    /// `EOPNOTSUPP`; as `mmap`; `EINVAL` unless it is all of a buffer or of doorbells; `EBUSY` for the second time.
    fn place(&self, file: FileId, offset: u64, len: u64, memory: Pages<'_>) -> Result<(), Errno> {
        let _ = (file, offset, len, memory);
        Err(Errno::EOPNOTSUPP)
    }
}

/// Pages that a device is to use ([`Process::place`]).
pub struct Pages<'a> {
    /// The file that they are in.
    pub fd: BorrowedFd<'a>,
    /// Where they begin in it.
    pub offset: u64,
    /// Dropped as soon as the device reaches them no more.
    pub keep: Box<dyn Send + Sync>,
}

/// What an ioctl copies between the program and the device. The directions are the device's own,
/// whatever the request code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of the argument struct on the program's side: `_IOC_SIZE` of its request code.
    pub size: usize,
    /// Whether the struct is read from the program.
    pub from_user: bool,
    /// Whether the struct is written back to the program.
    pub to_user: bool,
}

/// What one call can reach of the process that makes it.
pub trait Call: Sync {
    /// The caller's memory, at least the ranges that the ioctl's declaration names.
    fn mem(&self) -> &dyn UserMem;

    /// What stands behind a descriptor number in the arguments. `EBADF` if nothing does.
    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno>;

    /// Gives the caller a descriptor (close-on-exec) and returns its number there. If the call fails
    /// afterwards the caller's descriptor is closed again by whoever implements `Call`.
    fn install(&self, fd: OwnedFd) -> Result<i32, Errno>;

    /// Fires when the call has to end early: a signal, or the death of the caller.
    fn interrupt(&self) -> &Interrupt;
}

/// What stands behind a descriptor that a call names.
#[derive(Debug)]
pub enum PassedFd {
    /// A file of this very device, opened through [`Process::open`].
    File(FileId),
    /// Anything else: a duplicate of the caller's descriptor.
    Foreign(OwnedFd),
}

/// Memory behind a range of a device file: map it `MAP_SHARED`.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The descriptor to map.
    pub fd: Arc<OwnedFd>,
    /// Byte offset into `fd`.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Whether the mapping may be written.
    pub writable: bool,
}

/// Ends a blocking call early. Starts unfired and stays fired.
#[derive(Default)]
pub struct Interrupt {
    state: Mutex<InterruptState>,
}

#[derive(Default)]
struct InterruptState {
    fired: bool,
    waker: Option<Waker>,
}

impl Interrupt {
    /// An interrupt that has not fired.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Fires, and wakes the waiter if there is one.
    pub fn fire(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.fired = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether it has fired.
    #[must_use]
    pub fn fired(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fired
    }

    /// Registers who is to be woken by [`Interrupt::fire`], replacing an earlier waiter. Returns
    /// whether it has fired already; then the waker is not kept.
    #[must_use]
    pub fn wake_on_fire(&self, waker: Waker) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.fired {
            state.waker = Some(waker);
        }
        state.fired
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("fired", &self.fired()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn interrupt_wakes_a_registered_waiter_once() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let interrupt = Interrupt::new();
        assert!(!interrupt.wake_on_fire(Waker::from(Arc::clone(&count))));
        interrupt.fire();
        interrupt.fire();
        assert!(interrupt.fired());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn interrupt_that_fired_before_is_reported_at_registration() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let interrupt = Interrupt::new();
        interrupt.fire();
        assert!(interrupt.wake_on_fire(Waker::from(Arc::clone(&count))));
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    }
}
