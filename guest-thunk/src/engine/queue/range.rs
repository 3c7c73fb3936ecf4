//! A range of memory of the process that is not the program's: the SVM form of a context save area.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::engine::gate::{before_map, note_held};

/// Pages of the GPU and of the CPU are at best this large.
const ALIGN: u64 = 2 << 20;

/// Zeroed, writable memory that children do not get. It stays mapped until [`Range::free`]: a child that drops a
/// parent's queue must not unmap what lies there in its own address space.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) address: u64,
    pub(super) size: u64,
}

impl Range {
    /// `size` bytes, in whole pages, at a multiple of 2 MiB.
    ///
    /// # Errors
    /// Those of `mmap(2)` and `madvise(2)`; `NOMEM` for more than there are addresses.
    pub(super) fn new(size: u64) -> rustix::io::Result<Self> {
        let padded = size.checked_add(ALIGN).ok_or(rustix::io::Errno::NOMEM)?;
        let length = usize::try_from(padded).map_err(|_| rustix::io::Errno::NOMEM)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        before_map()?;
        // SAFETY: without FIXED the kernel chooses addresses where nothing is.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), length, prot, flags) }?;
        let start = start.expose_provenance() as u64;
        let address = start.next_multiple_of(ALIGN);
        let range = Self { address, size };
        note_held(size, 0);
        // KFD compares with the length of the mapping, and the rest is of no use.
        let cut = unmap(start, address - start)
            .and_then(|()| unmap(address + size, start + padded - address - size));
        if let Err(errno) = cut.and_then(|()| range.keep_from_children()) {
            range.free();
            return Err(errno);
        }
        Ok(range)
    }

    /// A page that a child shares would be copied at the next store, and KFD stop the parent's queues for it.
    fn keep_from_children(&self) -> rustix::io::Result<()> {
        let length = usize::try_from(self.size).map_err(|_| rustix::io::Errno::NOMEM)?;
        // SAFETY: the range is this library's own, and nothing of it is changed but what fork does with it.
        unsafe { madvise(pointer(self.address), length, Advice::LinuxDontFork) }
    }

    /// Unmaps it.
    pub(super) fn free(&self) {
        match unmap(self.address, self.size) {
            Ok(()) => note_held(0, self.size),
            Err(errno) => {
                log::warn!("{} bytes at {:#x} cannot be unmapped: {errno}", self.size, self.address);
            }
        }
    }
}

fn pointer(address: u64) -> *mut core::ffi::c_void {
    let address = usize::try_from(address).unwrap_or(0);
    core::ptr::with_exposed_provenance_mut(address)
}

fn unmap(address: u64, size: u64) -> rustix::io::Result<()> {
    let length = usize::try_from(size).map_err(|_| rustix::io::Errno::INVAL)?;
    if length == 0 {
        return Ok(());
    }
    // SAFETY: only called with parts of a mapping that `Range::new` made, of which nobody has a reference.
    unsafe { munmap(pointer(address), length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_aligned_zeroed_and_writable() {
        let range = Range::new(12288).unwrap();
        assert!(range.address.is_multiple_of(ALIGN));
        let last = pointer(range.address + range.size - 8).cast::<u64>();
        // SAFETY: the last word of the range, which is mapped and aligned.
        assert_eq!(unsafe { last.read_volatile() }, 0);
        // SAFETY: as above, and the mapping is writable.
        unsafe { last.write_volatile(7) };
        range.free();
    }

    #[test]
    fn more_than_there_is_cannot_be_had() {
        for size in [u64::MAX, u64::MAX - ALIGN, 1 << 62] {
            assert!(Range::new(size).is_err(), "{size:#x}");
        }
    }
}
