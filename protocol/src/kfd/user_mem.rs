//! Access to the memory of the process that makes a call.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::Errno;

/// An address range of the caller that could not be read or written (`EFAULT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad address {addr:#x}, length {len}")]
pub struct Fault {
    /// First byte of the access, in the caller's address space.
    pub addr: u64,
    /// Length of the access in bytes.
    pub len: u64,
}

impl From<Fault> for Errno {
    fn from(_: Fault) -> Self {
        Errno::EFAULT
    }
}

/// The memory of the process that makes a call, addressed as that process addresses it.
///
/// The kernel's `copy_from_user`, `copy_to_user` and `get_user_pages` in one place. Addresses and
/// lengths come from the caller and may be anything: an implementation answers [`Fault`], it never
/// panics and never reads or writes outside the range.
///
/// In process this is the address space itself; under the launcher it is another process; on a wire
/// it holds the byte ranges that the declaration of the call names ([`crate::kfd::ioctl`]).
pub trait UserMem: Send + Sync {
    /// Copies `buf.len()` bytes from the caller. On a fault the contents of `buf` are unspecified.
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault>;

    /// Copies `buf` to the caller. On a fault a prefix may have been written, as in the kernel.
    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault>;

    /// Makes `[addr, addr + len)` memory that caller and device share, and says where it is.
    ///
    /// The pieces come in ascending order of address and cover the range without holes; `addr` and
    /// `len` are page-aligned. From then on a store of either side is seen by the other and atomics
    /// of both meet. Contents are kept and no concurrent store is lost. `writable` says whether the
    /// device may store.
    ///
    /// # Errors
    /// As `hmm_range_fault`: `EFAULT` where the range is not mapped, not readable, or a device's own
    /// mapping, `EPERM` where `writable` is asked for and the caller may not write. `EINVAL` for a range
    /// that is empty or not page-aligned, `EOPNOTSUPP` for memory that cannot be shared, or where the
    /// transport has no way to share.
    fn share(&self, addr: u64, len: u64, writable: bool) -> Result<Vec<Shared>, Errno>;

    /// Where memory is that has been shared already. Nothing is made shared for the answer; this default is for memory
    /// with which [`UserMem::share`] has nothing to do.
    ///
    /// # Errors
    /// Any, where part of the range is not shared or not mapped.
    fn shared(&self, addr: u64, len: u64) -> Result<Vec<Shared>, Errno> {
        self.share(addr, len, false)
    }
}

/// One piece of a range shared by [`UserMem::share`].
#[derive(Clone, Debug)]
pub struct Shared {
    /// First byte in the caller's address space.
    pub addr: u64,
    /// Length in bytes, a multiple of the page size.
    pub len: u64,
    /// Where the device finds the memory.
    pub backing: SharedBacking,
}

/// Where the memory of a [`Shared`] piece is.
#[derive(Clone, Debug)]
pub enum SharedBacking {
    /// The device runs in the caller's own address space: use the address itself. The caller
    /// promises to keep the range mapped until it is unregistered.
    Local,
    /// Map `len` bytes of this descriptor at `offset`, `MAP_SHARED`.
    Descriptor {
        /// A memfd or other shared-memory file.
        fd: Arc<OwnedFd>,
        /// Byte offset into it, page-aligned.
        offset: u64,
    },
}
