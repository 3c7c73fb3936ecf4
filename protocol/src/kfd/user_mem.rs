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

    /// Whether the caller may read every page of a range; of a very long range perhaps only some are looked at.
    ///
    /// This default touches them ([`probe`]). Where the memory map can be had it tells the same, and pages that the caller
    /// has never used stay unused.
    fn is_mapped(&self, addr: u64, len: u64) -> bool {
        probe(|addr| self.read(addr, &mut [0]).is_ok(), addr, len)
    }

    /// Where memory is that has been shared already. Nothing is made shared for the answer; this default is for memory
    /// with which [`UserMem::share`] has nothing to do.
    ///
    /// # Errors
    /// Any, where part of the range is not shared or not mapped.
    fn shared(&self, addr: u64, len: u64) -> Result<Vec<Shared>, Errno> {
        self.share(addr, len, false)
    }
}

/// Bytes of a page (x86-64).
const PAGE: u64 = 4096;
/// Most reads that [`probe`] makes.
const MAX_PROBES: u64 = 1 << 14;

/// Whether a byte of each page of a range `can_be_read`; of very long ranges only some pages are looked at.
pub fn probe(can_be_read: impl Fn(u64) -> bool, addr: u64, len: u64) -> bool {
    let Some(last) = len.checked_sub(1).and_then(|last| addr.checked_add(last)) else { return false };
    let step = (len / PAGE).div_ceil(MAX_PROBES).max(1) * PAGE;
    let mut at = addr;
    loop {
        if !can_be_read(at) {
            return false;
        }
        match at.checked_add(step) {
            Some(next) if next <= last => at = next,
            _ => return can_be_read(last),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_cannot_be_read_is_found_wherever_it_is() {
        for bad in 0..5 {
            let can = |at: u64| at / PAGE != 7 + bad;
            assert_eq!(probe(can, 7 * PAGE, 4 * PAGE), bad == 4, "{bad}");
        }
        let none = |_| panic!("nothing has to be looked at");
        assert!(!probe(none, PAGE, 0) && !probe(none, u64::MAX, 2));
    }

    #[test]
    fn of_long_ranges_the_ends_are_looked_at() {
        let count = std::cell::Cell::new(0);
        let len = 1 << 40;
        let counted = |at: u64, bad: u64| {
            count.set(count.get() + 1);
            at / PAGE != bad
        };
        assert!(probe(|at| counted(at, 0), PAGE, len));
        assert!(count.get() <= MAX_PROBES + 1);
        assert!(!probe(|at| counted(at, 1), PAGE, len) && !probe(|at| counted(at, len / PAGE), PAGE, len));
    }
}
