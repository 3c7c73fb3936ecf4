//! Ranges of pages inside a backing file, mapped once as a whole.
//!
//! Every buffer that a CPU can map has a fixed place in its GPU's render file, so that `mmap` of the
//! device file needs nothing but the offset. A range is reused only when the last [`HostMem`] of it
//! is gone, and then it reads as zero: its pages are punched out of the file.
//!
//! A range can be given other pages, of a file of somebody else's ([`HostMem::place`]): they are mapped over it, at the same
//! addresses, until it is freed.
//!
//! What this cannot see is a program's own mapping of the file: a mapping kept beyond FREE shows
//! whatever is allocated there next (the kernel would keep the buffer alive for it).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::kfd::Pages;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use super::PAGE_SIZE;
use super::host::{HostMem, Region};

/// No free range of the backing file is large enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for {len} bytes in the backing file")]
pub struct OutOfSpace {
    /// Bytes asked for.
    pub len: u64,
}

/// An allocator of page ranges in one file.
#[derive(Clone)]
pub struct Arena(Arc<Inner>);

struct Inner {
    fd: Arc<OwnedFd>,
    region: Region,
    free: Mutex<FreeRanges>,
}

impl Arena {
    /// An arena over the first `len` bytes of a sparse shared-memory file, all of them free and zero.
    ///
    /// # Errors
    /// Whatever `mmap` answers; `EINVAL` if `len` is 0 or not whole pages.
    pub fn new(fd: OwnedFd, len: u64) -> std::io::Result<Self> {
        let size = usize::try_from(len).map_err(|_| Errno::INVAL)?;
        if len == 0 || !len.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::INVAL.into());
        }
        let region = Region::map_file(&fd, size)?;
        let mut free = FreeRanges::default();
        free.insert(0, len);
        Ok(Self(Arc::new(Inner { fd: Arc::new(fd), region, free: Mutex::new(free) })))
    }

    /// Reserves `len` bytes, rounded up to whole pages, at an offset that `align` divides (a power of
    /// two; less than a page counts as a page). The memory reads as zero and is committed when touched.
    ///
    /// # Errors
    /// [`OutOfSpace`], also for lengths of 0 and alignments that are no power of two.
    pub fn alloc(&self, len: u64, align: u64) -> Result<HostMem, OutOfSpace> {
        let error = OutOfSpace { len };
        let rounded = len.checked_next_multiple_of(PAGE_SIZE).filter(|&l| l != 0).ok_or(error)?;
        let align = align.max(PAGE_SIZE);
        if !align.is_power_of_two() {
            return Err(error);
        }
        let offset = self.0.free().take(rounded, align).ok_or(error)?;
        let arena = Arc::clone(&self.0);
        let range = Arc::new(Range { arena, offset, len: rounded, placed: Mutex::default() });
        let (Ok(at), Ok(size)) = (usize::try_from(offset), usize::try_from(rounded)) else {
            return Err(error);
        };
        // SAFETY: the free list only holds ranges inside the mapped region.
        let start = unsafe { self.0.region.start.add(at) };
        Ok(HostMem::from_arena(start, size, range))
    }

    /// The file.
    #[must_use]
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.0.fd
    }

    /// Bytes that are not allocated.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.0.free().by_offset.values().sum()
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("fd", &self.0.fd).field("free_bytes", &self.free_bytes()).finish()
    }
}

impl Inner {
    fn free(&self) -> MutexGuard<'_, FreeRanges> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An allocated range; goes back to the arena when the last [`HostMem`] in it is dropped.
pub(super) struct Range {
    arena: Arc<Inner>,
    offset: u64,
    len: u64,
    /// What keeps the pages that were mapped over it.
    placed: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Range {
    /// File and offset of an address inside this range. `None` for one that has other pages.
    pub(super) fn file_range(&self, at: NonNull<u8>) -> Option<(Arc<OwnedFd>, u64)> {
        if self.placed().is_some() {
            return None;
        }
        let offset = at.as_ptr().addr() - self.arena.region.start.as_ptr().addr();
        Some((Arc::clone(&self.arena.fd), offset as u64))
    }

    /// Whether these are all its bytes.
    pub(super) fn is_all_of(&self, start: NonNull<u8>, len: usize) -> bool {
        start.as_ptr().addr() - self.arena.region.start.as_ptr().addr() == self.at() && len == self.size()
    }

    /// Maps these pages over the range. What is in it is kept, but for what is stored meanwhile.
    ///
    /// # Errors
    /// `BUSY` for the second time; those of `mmap`.
    pub(super) fn place(&self, pages: Pages<'_>) -> Result<(), Errno> {
        let mut placed = self.placed();
        if placed.is_some() {
            return Err(Errno::BUSY);
        }
        let len = self.size();
        let view = Region::map_part(pages.fd, pages.offset, len)?;
        self.copy_written(&view)?;
        // SAFETY: the range is inside the arena's region; those who access it find the same bytes there.
        unsafe { self.arena.region.map_over(self.at(), len, pages.fd, pages.offset) }?;
        *placed = Some(pages.keep);
        drop(placed);
        if let Err(error) = self.punch() {
            log::warn!("{len} bytes stay in the backing file in vain: {error}");
        }
        Ok(())
    }

    /// Copies what was ever written.
    fn copy_written(&self, view: &Region) -> Result<(), Errno> {
        let end = self.offset + self.len;
        let mut at = self.offset;
        while at < end {
            let start = match seek(&*self.arena.fd, SeekFrom::Data(at)) {
                Ok(start) if start < end => start,
                // Nothing more is in it, or in the whole file.
                Ok(_) | Err(Errno::NXIO) => return Ok(()),
                Err(error) => return Err(error),
            };
            at = seek(&*self.arena.fd, SeekFrom::Hole(start))?.min(end);
            let (Ok(from), Ok(to)) = (usize::try_from(start - self.offset), usize::try_from(at - start))
            else {
                return Err(Errno::INVAL);
            };
            self.arena.region.copy_to(self.at() + from, view, from, to)?;
        }
        Ok(())
    }

    fn placed(&self) -> MutexGuard<'_, Option<Box<dyn Send + Sync>>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it begins in the region. The free list holds what lies in it, whose size is a `usize`.
    fn at(&self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX)
    }

    fn size(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    fn punch(&self) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&*self.arena.fd, flags, self.offset, self.len)
    }

    /// Maps the file's own pages again, and lets go of the others.
    fn take_back(&mut self) -> Result<(), Errno> {
        let (at, len) = (self.at(), self.size());
        let Some(keep) = self.placed.get_mut().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        // SAFETY: the range is inside the arena's region, and nobody uses it any more.
        let mapped = unsafe { self.arena.region.map_over(at, len, &self.arena.fd, self.offset) };
        if mapped.is_err() {
            // They are mapped still: whoever owns them must not hear that they are free.
            Box::leak(keep);
        }
        mapped
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Err(error) = self.take_back().and_then(|()| self.punch()) {
            // Never reused then: stale bytes of one process must not reach another.
            log::error!(
                "cannot release {} bytes at {:#x} of the backing file: {error}",
                self.len,
                self.offset
            );
            return;
        }
        self.arena.free().insert(self.offset, self.len);
    }
}

/// Free ranges, merged with their neighbours; smallest sufficient range first.
#[derive(Default)]
struct FreeRanges {
    /// Offset to length.
    by_offset: BTreeMap<u64, u64>,
    /// (length, offset).
    by_len: BTreeSet<(u64, u64)>,
}

impl FreeRanges {
    fn add(&mut self, offset: u64, len: u64) {
        self.by_offset.insert(offset, len);
        self.by_len.insert((len, offset));
    }

    fn remove(&mut self, offset: u64, len: u64) {
        self.by_offset.remove(&offset);
        self.by_len.remove(&(len, offset));
    }

    fn insert(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.by_offset.range(..offset).next_back()
            && before + before_len == offset
        {
            self.remove(before, before_len);
            offset = before;
            len += before_len;
        }
        if let Some(&after_len) = self.by_offset.get(&(offset + len)) {
            self.remove(offset + len, after_len);
            len += after_len;
        }
        self.add(offset, len);
    }

    /// Takes `len` bytes at a multiple of `align`; both are at least a page.
    fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        // A range this long fits whatever its offset; a shorter one only if it is aligned by chance,
        // for which only the best candidate is looked at (the search stays logarithmic).
        let always = len.checked_add(align - PAGE_SIZE)?;
        let fits = |&(have, at): &(u64, u64)| {
            let start = at.next_multiple_of(align);
            start - at <= have && have - (start - at) >= len
        };
        let best = self.by_len.range((len, 0)..).next().copied().filter(fits);
        let (have, at) = best.or_else(|| self.by_len.range((always, 0)..).next().copied())?;
        let start = at.next_multiple_of(align);
        self.remove(at, have);
        if start > at {
            self.add(at, start - at);
        }
        let end = start + len;
        if end < at + have {
            self.add(end, at + have - end);
        }
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backing::BackingFiles;

    const SIZE: u64 = 1 << 30;

    fn arena() -> Arena {
        let files = BackingFiles::anonymous(&[]).expect("memfd");
        Arena::new(files.kfd, SIZE).expect("arena")
    }

    #[test]
    fn ranges_are_whole_pages_at_the_asked_alignment_and_do_not_overlap() {
        let arena = arena();
        let a = arena.alloc(1, 1).expect("a page");
        let b = arena.alloc(4097, 1 << 21).expect("two pages");
        assert_eq!((a.len(), b.len()), (4096, 8192));
        let (a_at, b_at) = (a.file_range().expect("file").1, b.file_range().expect("file").1);
        assert_eq!(b_at % (1 << 21), 0);
        assert!(a_at + 4096 <= b_at || b_at + 8192 <= a_at);
    }

    #[test]
    fn freed_memory_reads_as_zero_when_it_is_used_again() {
        let arena = arena();
        let first = arena.alloc(8192, 0).expect("room");
        first.fill(0, 8192, 0xa5).expect("in range");
        let place = first.file_range().expect("file").1;
        drop(first);
        let second = arena.alloc(8192, 0).expect("room");
        assert_eq!(second.file_range().expect("file").1, place, "the same place is used again");
        let mut bytes = [1u8; 8192];
        second.read(0, &mut bytes).expect("in range");
        assert!(bytes.iter().all(|&b| b == 0));
    }

    #[test]
    fn a_range_stays_allocated_until_the_last_part_of_it_is_dropped() {
        let arena = arena();
        let whole = arena.alloc(8192, 0).expect("room");
        let part = whole.slice(4096, 16).expect("in range");
        drop(whole);
        assert_eq!(arena.free_bytes(), SIZE - 8192);
        drop(part);
        assert_eq!(arena.free_bytes(), SIZE);
    }

    #[test]
    fn senseless_lengths_and_alignments_are_out_of_space() {
        let arena = arena();
        for (len, align) in [(0, 0), (u64::MAX, 0), (SIZE + 1, 0), (4096, u64::MAX), (4096, 3 << 20)] {
            assert!(arena.alloc(len, align).is_err(), "{len:#x} {align:#x}");
        }
        assert_eq!(arena.free_bytes(), SIZE);
    }

    #[test]
    fn a_fragmented_arena_gives_everything_back() {
        let arena = arena();
        let mut buffers: Vec<_> =
            (0..1000).map(|i| arena.alloc(4096 * (1 + i % 7), 0).expect("room")).collect();
        let mut index = 0;
        buffers.retain(|_| {
            index += 1;
            index % 3 != 0
        });
        buffers.clear();
        assert_eq!(arena.free_bytes(), SIZE);
        assert!(arena.alloc(SIZE, 0).is_ok(), "merged into one range again");
    }

    /// Says that it was dropped.
    struct Told(Arc<std::sync::atomic::AtomicBool>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    #[test]
    fn placed_pages_have_what_was_there_until_the_range_is_freed() {
        use std::os::fd::AsFd as _;
        let arena = arena();
        let mem = arena.alloc(16384, 0).expect("room");
        let own = mem.file_range().expect("file").1;
        mem.write(4096 + 7, b"kept").expect("in range");
        let other = BackingFiles::anonymous(&[]).expect("memfd").kfd;
        let gone = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let pages = |offset| Pages { fd: other.as_fd(), offset, keep: Box::new(Told(Arc::clone(&gone))) };
        mem.place(pages(8192)).expect("placed");
        assert_eq!(mem.place(pages(0)), Err(Errno::BUSY));
        gone.store(false, std::sync::atomic::Ordering::SeqCst);
        assert!(mem.file_range().is_none(), "its pages are not the arena's");
        let mut bytes = [0; 4];
        mem.read(4096 + 7, &mut bytes).expect("in range");
        assert_eq!(&bytes, b"kept");
        let seen =
            HostMem::map_descriptor(&Arc::new(other.try_clone().expect("fd")), 8192, 16384).expect("map");
        seen.read(4096 + 7, &mut bytes).expect("in range");
        assert_eq!(&bytes, b"kept");
        seen.write(0, b"host").expect("in range");
        mem.read(0, &mut bytes).expect("in range");
        assert_eq!(&bytes, b"host");
        let part = mem.slice(0, 8).expect("in range");
        assert!(part.place(pages(0)).is_err(), "not all of it");
        gone.store(false, std::sync::atomic::Ordering::SeqCst);
        drop(mem);
        assert!(!gone.load(std::sync::atomic::Ordering::SeqCst));
        drop(part);
        assert!(gone.load(std::sync::atomic::Ordering::SeqCst));
        let again = arena.alloc(16384, 0).expect("room");
        assert_eq!(again.file_range().expect("file").1, own);
        again.write(0, b"mine").expect("in range");
        seen.read(0, &mut bytes).expect("in range");
        assert_eq!(&bytes, b"host", "the place is the arena's again");
    }

    proptest! {
        #[test]
        fn allocated_ranges_never_overlap(ops in prop::collection::vec((any::<bool>(), 1u64..64, 0u32..8), 1..200)) {
            let mut free = FreeRanges::default();
            free.insert(0, 4096 * 512);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (give_back, pages, shift) in ops {
                if give_back && !live.is_empty() {
                    let (at, len) = live.swap_remove(usize::try_from(pages).unwrap_or(0) % live.len());
                    free.insert(at, len);
                } else if let Some(at) = free.take(pages * 4096, 4096 << shift) {
                    prop_assert_eq!(at % (4096 << shift), 0);
                    prop_assert!(live.iter().all(|&(o, l)| at + pages * 4096 <= o || o + l <= at));
                    live.push((at, pages * 4096));
                }
                let total: u64 = free.by_offset.values().sum::<u64>() + live.iter().map(|r| r.1).sum::<u64>();
                prop_assert_eq!(total, 4096 * 512);
                prop_assert_eq!(free.by_offset.len(), free.by_len.len());
            }
        }
    }
}
