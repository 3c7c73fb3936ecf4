//! Addresses that were given back and are soon wanted again.
//!
//! To reserve addresses with guard pages takes three system calls, of which a program that allocates and frees all the time
//! pays each. So the last few ranges stay reserved, without rights and memory, for buffers of the same size.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::vm::Region;

/// Ranges that are kept. Each is a mapping, of which a process has a limited number.
const MOST: usize = 8;
/// Bytes of the biggest range that is kept: bigger buffers cost more than their addresses.
const BIGGEST: u64 = 16 << 20;

/// The ranges, in the order in which they were given back.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<Region>>);

impl Spare {
    /// Takes the range of exactly `size` bytes at a multiple of `align` that was given back last.
    pub(super) fn take(&self, size: u64, align: u64) -> Option<Region> {
        let mut kept = self.lock();
        let fits = |region: &Region| region.len() == size && region.start().is_multiple_of(align);
        let place = kept.iter().rposition(fits)?;
        Some(kept.remove(place))
    }

    /// Keeps a range, whose contents go now, or gives it back to the kernel.
    pub(super) fn put(&self, region: Region) {
        if region.len() > BIGGEST || region.clear(region.start(), region.len()).is_err() {
            return;
        }
        let mut kept = self.lock();
        let oldest = (kept.len() >= MOST).then(|| kept.remove(0));
        kept.push(region);
        drop(kept);
        // Unmapped without the lock.
        drop(oldest);
    }

    /// Gives all back to the kernel. Whether there were any.
    pub(super) fn empty(&self) -> bool {
        let kept = std::mem::take(&mut *self.lock());
        !kept.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Region>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use protocol::kfd::UserMem;
    use softgpu::local_mem::LocalMem;

    use super::super::vm::{Access, PAGE};
    use super::*;

    fn region(pages: u64) -> Region {
        Region::reserve(pages * PAGE).unwrap()
    }

    #[test]
    fn a_range_is_used_again_for_the_same_size_and_is_empty() {
        let (spare, region) = (Spare::default(), region(2));
        let start = region.start();
        region.map_memory(start, PAGE, Access::ReadWrite).unwrap();
        assert!(LocalMem.read(start, &mut [0]).is_ok());
        spare.put(region);
        assert_eq!(spare.take(PAGE, PAGE), None);
        assert_eq!(spare.take(2 * PAGE, 1 << 46), None, "not aligned so");
        let again = spare.take(2 * PAGE, PAGE).unwrap();
        assert_eq!(again.start(), start);
        assert!(LocalMem.read(start, &mut [0]).is_err(), "nothing is there");
        assert_eq!(spare.take(2 * PAGE, PAGE), None, "given once");
    }

    #[test]
    fn few_and_small_ranges_are_kept() {
        let spare = Spare::default();
        spare.put(region(BIGGEST / PAGE + 1));
        assert!(!spare.empty());
        for pages in 1..=MOST as u64 + 1 {
            spare.put(region(pages));
        }
        assert_eq!(spare.take(PAGE, PAGE), None, "the oldest went");
        assert!(spare.empty() && !spare.empty());
    }
}
