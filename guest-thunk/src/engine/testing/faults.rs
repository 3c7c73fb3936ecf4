//! Operations that fail on purpose: one of this thread's, chosen by its number.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::hsakmt::Status;
use protocol::kfd::Node;

/// What the engine asks of the device, of the kernel, or of the allocator, and what can fail therefore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// Reading the files of the topology.
    Topology,
    /// Opening `/dev/kfd`.
    OpenKfd,
    /// Opening a render node.
    OpenRender,
    /// An ioctl, by the uapi's name.
    Ioctl(&'static str),
    /// Asking for what stands behind a range of a device file.
    DeviceMap,
    /// `mmap`, and what else has to be asked for of this process's address space.
    Map,
    /// Memory whose size a caller or the kernel chooses.
    Reserve,
}

impl Operation {
    pub(super) fn open(node: Node) -> Self {
        match node {
            Node::Kfd => Self::OpenKfd,
            Node::Render(_) => Self::OpenRender,
        }
    }

    /// Whether it is an ioctl, which an older kernel may not have. The others answer `ENOTTY` nowhere.
    pub(crate) fn may_be_unknown(self) -> bool {
        matches!(self, Self::Ioctl(_))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ioctl(name) => f.write_str(name.trim_start_matches("AMDKFD_IOC_")),
            other => write!(f, "{other:?}"),
        }
    }
}

/// What is planned for this thread, and what it did.
#[derive(Debug, Default)]
struct Plan {
    next: Option<Next>,
    failed: Option<Operation>,
    held: u64,
    tried: Vec<(u64, u64)>,
}

/// What is to fail, and with what.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The one after so many that go well.
    Number(u32, Errno),
    /// The first of this kind.
    Kind(Operation, Errno),
    /// So many of this kind, one after the other.
    Row(Operation, u32, Errno),
}

thread_local! {
    static PLAN: RefCell<Plan> = RefCell::default();
}

/// Lets the operation number `at` from now on fail, counted from 0, and none after it.
pub(crate) fn fail_at(at: u32, errno: Errno) {
    PLAN.with_borrow_mut(|plan| (plan.next, plan.failed) = (Some(Next::Number(at, errno)), None));
}

/// Lets the next operation of this kind fail, and none after it.
pub(crate) fn fail_next(operation: Operation, errno: Errno) {
    PLAN.with_borrow_mut(|plan| (plan.next, plan.failed) = (Some(Next::Kind(operation, errno)), None));
}

/// Lets the next `count` operations of this kind fail, and none after them.
pub(crate) fn fail_row(operation: Operation, count: u32, errno: Errno) {
    PLAN.with_borrow_mut(|plan| (plan.next, plan.failed) = (Some(Next::Row(operation, count, errno)), None));
}

/// Ranges (first address, bytes) that this thread wanted to have, and no others, since this was asked the last time.
pub(crate) fn tried() -> Vec<(u64, u64)> {
    PLAN.with_borrow_mut(|plan| std::mem::take(&mut plan.tried))
}

/// Lets nothing fail any more. Gives what has.
pub(crate) fn stop() -> Option<Operation> {
    PLAN.with_borrow_mut(|plan| {
        plan.next = None;
        plan.failed.take()
    })
}

/// What has failed since this was asked the last time.
pub(crate) fn failed() -> Option<Operation> {
    PLAN.with_borrow_mut(|plan| plan.failed.take())
}

/// Bytes of address space that this thread holds through the engine, if it gave back no other thread's.
pub(crate) fn held() -> u64 {
    PLAN.with_borrow(|plan| plan.held)
}

/// Notes bytes of address space that are held more and less.
pub(crate) fn note_held(more: u64, less: u64) {
    PLAN.with_borrow_mut(|plan| plan.held = plan.held.wrapping_add(more).wrapping_sub(less));
}

/// Each operation passes here first.
///
/// # Errors
/// What is planned.
pub(crate) fn gate(operation: Operation) -> Result<(), Errno> {
    PLAN.with_borrow_mut(|plan| {
        let errno = match &mut plan.next {
            Some(Next::Number(0, errno)) => *errno,
            Some(Next::Kind(kind, errno)) if *kind == operation => *errno,
            Some(Next::Number(left, _)) => {
                *left -= 1;
                return Ok(());
            }
            Some(Next::Row(kind, left, errno)) if *kind == operation && *left > 0 => {
                *left -= 1;
                plan.failed = Some(operation);
                return Err(*errno);
            }
            Some(Next::Kind(..) | Next::Row(..)) | None => return Ok(()),
        };
        (plan.next, plan.failed) = (None, Some(operation));
        Err(errno)
    })
}

/// One test at a time that reserves all addresses that a small GPU reaches.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The gate of memory whose size a caller or the kernel chooses.
pub(crate) fn before_reserve() -> crate::engine::Result<()> {
    gate(Operation::Reserve).map_err(|_| Status::NoMemory)
}

/// The gate of system calls of this process's own address space.
pub(crate) fn before_map() -> rustix::io::Result<()> {
    gate(Operation::Map).map_err(|errno| rustix::io::Errno::from_raw_os_error(errno.raw()))
}

/// The same for a certain range, which is noted.
pub(crate) fn before_map_at(start: u64, len: u64) -> rustix::io::Result<()> {
    PLAN.with_borrow_mut(|plan| plan.tried.push((start, len)));
    before_map()
}
