//! Memory of this process that the GPU reads and writes: [`HostMem`] keeps it, [`HostSlice`] accesses it.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use protocol::kfd::{Pages, Shared, SharedBacking};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::PAGE_SIZE;
use super::arena::Range;

/// An access that a [`HostMem`] does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Not inside of the memory.
    #[error("offset {offset:#x}, length {len:#x} is outside of memory of {size:#x} bytes")]
    OutOfRange {
        /// First byte of the access.
        offset: usize,
        /// Length of the access in bytes.
        len: usize,
        /// Size of the memory in bytes.
        size: usize,
    },
    /// A store to memory that was shared for reading only.
    #[error("a store to read-only memory")]
    ReadOnly,
}

/// Why memory of a caller could not be made reachable for the GPU.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The pieces have holes, are not in order, or are not whole pages.
    #[error("the shared pieces do not cover {addr:#x}, length {len:#x}")]
    NotCovered {
        /// First byte of the range, in the caller's address space.
        addr: u64,
        /// Length of the range in bytes.
        len: u64,
    },
    /// One range is partly memory of this address space and partly behind descriptors.
    #[error(
        "a range that is partly local memory and partly behind descriptors cannot be mapped in one piece"
    )]
    Mixed,
    /// `mmap` failed.
    #[error("cannot map the shared memory: {0}")]
    Map(#[from] rustix::io::Errno),
}

/// A range of memory in this address space, kept mapped as long as a clone of it lives.
#[derive(Clone)]
pub struct HostMem {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    keep: Keep,
}

/// What keeps the memory mapped.
#[derive(Clone)]
enum Keep {
    Arena(Arc<Range>),
    Region { _mapped: Arc<Region> },
    Local,
}

// SAFETY: the memory belongs to no thread; every access is a copy or an atomic, as other processes
// access it concurrently anyway. The keepers are `Send + Sync`.
unsafe impl Send for HostMem {}
// SAFETY: as above.
unsafe impl Sync for HostMem {}

impl HostMem {
    pub(super) fn from_arena(start: NonNull<u8>, len: usize, range: Arc<Range>) -> Self {
        Self { start, len, writable: true, keep: Keep::Arena(range) }
    }

    /// Memory of this address space, to which the GPU may store where `writable`.
    ///
    /// # Errors
    /// [`ShareError::NotCovered`] if the range is empty, starts at 0 or wraps around.
    ///
    /// # Safety
    /// `[addr, addr + len)` stays mapped, readable and (where it is written) writable for as long as
    /// a clone of the result lives.
    pub unsafe fn local(addr: u64, len: u64, writable: bool) -> Result<Self, ShareError> {
        let not_covered = ShareError::NotCovered { addr, len };
        let (Ok(start), Ok(size)) = (usize::try_from(addr), usize::try_from(len)) else {
            return Err(not_covered);
        };
        if size == 0 || start.checked_add(size).is_none() || isize::try_from(size).is_err() {
            return Err(not_covered);
        }
        match NonNull::new(ptr::with_exposed_provenance_mut(start)) {
            Some(start) => Ok(Self { start, len: size, writable, keep: Keep::Local }),
            None => Err(not_covered),
        }
    }

    /// The range `[addr, addr + len)` of a caller, from what [`protocol::kfd::UserMem::share`]
    /// answered for it with the same `writable`.
    ///
    /// # Errors
    /// See [`ShareError`]. Nothing stays mapped after an error.
    pub fn from_shared(addr: u64, len: u64, writable: bool, pieces: &[Shared]) -> Result<Self, ShareError> {
        check_cover(addr, len, pieces)?;
        let local = pieces.iter().filter(|p| matches!(p.backing, SharedBacking::Local)).count();
        if local == pieces.len() {
            // SAFETY: the contract of `SharedBacking::Local`: the caller runs in this address space
            // and keeps the range mapped until it is unregistered.
            return unsafe { Self::local(addr, len, writable) };
        }
        if local != 0 {
            return Err(ShareError::Mixed);
        }
        let size = usize::try_from(len).map_err(|_| ShareError::NotCovered { addr, len })?;
        let mut region = Region::reserve(size)?;
        for piece in pieces {
            if let SharedBacking::Descriptor { fd, offset } = &piece.backing {
                region.place(piece.addr - addr, piece.len, writable, fd, *offset)?;
            }
        }
        Ok(Self {
            start: region.start,
            len: size,
            writable,
            keep: Keep::Region { _mapped: Arc::new(region) },
        })
    }

    /// `[offset, offset + len)` of a descriptor, mapped `MAP_SHARED`, readable and writable.
    ///
    /// # Errors
    /// [`ShareError::Map`], and [`ShareError::NotCovered`] for a length that is not whole pages.
    pub fn map_descriptor(fd: &Arc<OwnedFd>, offset: u64, len: u64) -> Result<Self, ShareError> {
        let backing = SharedBacking::Descriptor { fd: Arc::clone(fd), offset };
        Self::from_shared(0, len, true, &[Shared { addr: 0, len, backing }])
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The part `[offset, offset + len)`, keeping the whole alive. `None` if it is outside.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Option<HostMem> {
        let part = self.as_slice().slice(offset, len).ok()?;
        Some(HostMem { start: part.start, len: part.len, writable: self.writable, keep: self.keep.clone() })
    }

    /// Access to the bytes.
    #[must_use]
    pub fn as_slice(&self) -> HostSlice<'_> {
        HostSlice { start: self.start, len: self.len, writable: self.writable, _mem: PhantomData }
    }

    /// Where the memory lies in a backing file; `None` unless it is an [`super::Arena`]'s own.
    #[must_use]
    pub fn file_range(&self) -> Option<(Arc<OwnedFd>, u64)> {
        match &self.keep {
            Keep::Arena(range) => range.file_range(self.start),
            Keep::Region { .. } | Keep::Local => None,
        }
    }

    /// Puts these pages in the place of an [`super::Arena`]'s until the memory is freed. What is in it is kept, but for what is
    /// stored meanwhile.
    ///
    /// # Errors
    /// `INVAL` unless it is all of what was allocated; `BUSY` for the second time; those of `mmap`.
    pub fn place(&self, pages: Pages<'_>) -> Result<(), rustix::io::Errno> {
        match &self.keep {
            Keep::Arena(range) if range.is_all_of(self.start, self.len) => range.place(pages),
            _ => Err(rustix::io::Errno::INVAL),
        }
    }

    /// See [`HostSlice::read`].
    pub fn read(&self, offset: usize, buf: &mut [u8]) -> Result<(), AccessError> {
        self.as_slice().read(offset, buf)
    }

    /// See [`HostSlice::write`].
    pub fn write(&self, offset: usize, buf: &[u8]) -> Result<(), AccessError> {
        self.as_slice().write(offset, buf)
    }

    /// See [`HostSlice::fill`].
    pub fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), AccessError> {
        self.as_slice().fill(offset, len, byte)
    }

    /// Copies `len` bytes at `offset` to `dst` at `dst_offset`; the two may overlap.
    pub fn copy_to(
        &self,
        offset: usize,
        dst: &HostMem,
        dst_offset: usize,
        len: usize,
    ) -> Result<(), AccessError> {
        self.as_slice().slice(offset, len)?.copy_to(dst.as_slice().slice(dst_offset, len)?)
    }

    /// See [`HostSlice::atomic_u32`].
    #[must_use]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        self.as_slice().atomic_u32(offset)
    }

    /// See [`HostSlice::atomic_u64`].
    #[must_use]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        self.as_slice().atomic_u64(offset)
    }
}

impl fmt::Debug for HostMem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMem").field("start", &self.start).field("len", &self.len).finish()
    }
}

/// Whether the pieces are whole pages in order without holes from `addr` to `addr + len`.
fn check_cover(addr: u64, len: u64, pieces: &[Shared]) -> Result<(), ShareError> {
    let mut next = addr;
    for piece in pieces {
        let whole = piece.addr == next && piece.len != 0 && piece.len % PAGE_SIZE == 0;
        next = match piece.addr.checked_add(piece.len) {
            Some(end) if whole => end,
            _ => return Err(ShareError::NotCovered { addr, len }),
        };
    }
    if len == 0 || addr.checked_add(len) != Some(next) {
        return Err(ShareError::NotCovered { addr, len });
    }
    Ok(())
}

/// Access to memory that others store to at the same time. Lives as long as what keeps it mapped.
#[derive(Clone, Copy)]
pub struct HostSlice<'a> {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    _mem: PhantomData<&'a HostMem>,
}

impl<'a> HostSlice<'a> {
    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The part `[offset, offset + len)`.
    ///
    /// # Errors
    /// [`AccessError`]
    pub fn slice(self, offset: usize, len: usize) -> Result<HostSlice<'a>, AccessError> {
        if offset > self.len || len > self.len - offset {
            return Err(AccessError::OutOfRange { offset, len, size: self.len });
        }
        // SAFETY: `offset` is within the allocation, as just checked.
        let start = unsafe { self.start.add(offset) };
        Ok(HostSlice { start, len, writable: self.writable, _mem: PhantomData })
    }

    /// Whether stores are allowed.
    #[must_use]
    pub fn writable(self) -> bool {
        self.writable
    }

    fn for_stores(self) -> Result<Self, AccessError> {
        if self.writable { Ok(self) } else { Err(AccessError::ReadOnly) }
    }

    /// Copies `buf.len()` bytes at `offset` out. One, two, four or eight naturally aligned bytes are
    /// read in one access, as a GPU reads them.
    ///
    /// # Errors
    /// [`AccessError`]
    pub fn read(self, offset: usize, buf: &mut [u8]) -> Result<(), AccessError> {
        let part = self.slice(offset, buf.len())?;
        // SAFETY: both ranges are valid for `part.len` bytes.
        unsafe { copy_bytes(buf.as_mut_ptr(), part.start.as_ptr(), part.len) };
        Ok(())
    }

    /// Copies `buf` in at `offset`. One, two, four or eight naturally aligned bytes are written in
    /// one access, as a GPU writes them.
    ///
    /// # Errors
    /// [`AccessError`]
    pub fn write(self, offset: usize, buf: &[u8]) -> Result<(), AccessError> {
        let part = self.slice(offset, buf.len())?.for_stores()?;
        // SAFETY: both ranges are valid for `part.len` bytes.
        unsafe { copy_bytes(part.start.as_ptr(), buf.as_ptr(), part.len) };
        Ok(())
    }

    /// Sets `len` bytes at `offset` to `byte`.
    ///
    /// # Errors
    /// [`AccessError`]
    pub fn fill(self, offset: usize, len: usize, byte: u8) -> Result<(), AccessError> {
        let part = self.slice(offset, len)?.for_stores()?;
        // SAFETY: the range is valid for `part.len` bytes.
        unsafe { ptr::write_bytes(part.start.as_ptr(), byte, part.len) };
        Ok(())
    }

    /// Copies all bytes to the first bytes of `dst`, which may overlap with it.
    ///
    /// # Errors
    /// [`AccessError`], also if `dst` is shorter.
    pub fn copy_to(self, dst: HostSlice<'_>) -> Result<(), AccessError> {
        let dst = dst.slice(0, self.len)?.for_stores()?;
        // SAFETY: both ranges are valid for `self.len` bytes.
        unsafe { copy_bytes(dst.start.as_ptr(), self.start.as_ptr(), self.len) };
        Ok(())
    }

    /// The aligned double word at `offset`; `None` if it is misaligned, outside or read-only.
    #[must_use]
    pub fn atomic_u32(self, offset: usize) -> Option<&'a AtomicU32> {
        let part = self.slice(offset, 4).ok()?.for_stores().ok()?;
        if !part.start.as_ptr().addr().is_multiple_of(4) {
            return None;
        }
        // SAFETY: valid for 4 bytes for the lifetime `'a`, aligned; an atomic may be shared.
        Some(unsafe { AtomicU32::from_ptr(part.start.as_ptr().cast()) })
    }

    /// The aligned quad word at `offset`; `None` if it is misaligned, outside or read-only.
    #[must_use]
    pub fn atomic_u64(self, offset: usize) -> Option<&'a AtomicU64> {
        let part = self.slice(offset, 8).ok()?.for_stores().ok()?;
        if !part.start.as_ptr().addr().is_multiple_of(8) {
            return None;
        }
        // SAFETY: valid for 8 bytes for the lifetime `'a`, aligned; an atomic may be shared.
        Some(unsafe { AtomicU64::from_ptr(part.start.as_ptr().cast()) })
    }
}

impl fmt::Debug for HostSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSlice").field("start", &self.start).field("len", &self.len).finish()
    }
}

/// `memmove` that does not tear small aligned accesses: the words that CPU and GPU signal each other
/// with must arrive whole.
///
/// # Safety
/// `dst` is valid for writes and `src` for reads of `len` bytes.
#[inline]
unsafe fn copy_bytes(dst: *mut u8, src: *const u8, len: usize) {
    let both = dst.addr() | src.addr();
    match len {
        // SAFETY: valid (caller) and aligned (checked).
        4 if both.is_multiple_of(4) => unsafe { move_word::<u32>(dst, src) },
        // SAFETY: valid (caller) and aligned (checked).
        8 if both.is_multiple_of(8) => unsafe { move_word::<u64>(dst, src) },
        // SAFETY: valid (caller) and aligned (checked).
        2 if both.is_multiple_of(2) => unsafe { move_word::<u16>(dst, src) },
        // SAFETY: valid for `len` bytes (caller); `copy` allows overlap and any alignment.
        _ => unsafe { ptr::copy(src, dst, len) },
    }
}

/// Reads and writes one word, each in a single access.
///
/// # Safety
/// `dst` is valid for writes, `src` for reads of a `T`, both aligned for it.
#[inline]
unsafe fn move_word<T: Copy>(dst: *mut u8, src: *const u8) {
    // SAFETY: as promised by the caller.
    let word = unsafe { src.cast::<T>().read_volatile() };
    // SAFETY: as promised by the caller.
    unsafe { dst.cast::<T>().write_volatile(word) };
}

/// Address space that is unmapped when dropped.
pub(super) struct Region {
    pub(super) start: NonNull<u8>,
    len: usize,
    /// What was placed here. Whoever gave a descriptor sees by its count that the memory is in use.
    files: Vec<Arc<OwnedFd>>,
}

// SAFETY: an address range; accesses to it are governed by `HostMem`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Address space without access, into which descriptors are placed.
    fn reserve(len: usize) -> Result<Self, rustix::io::Errno> {
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        }?;
        Self::new(start.cast(), len)
    }

    /// The whole of a file.
    pub(super) fn map_file(fd: &OwnedFd, len: usize) -> Result<Self, rustix::io::Errno> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe { mmap(ptr::null_mut(), len, prot, flags, fd, 0) }?;
        Self::new(start.cast(), len)
    }

    /// A part of a file.
    pub(super) fn map_part(fd: impl AsFd, offset: u64, len: usize) -> Result<Self, rustix::io::Errno> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe { mmap(ptr::null_mut(), len, prot, flags, fd, offset) }?;
        Self::new(start.cast(), len)
    }

    /// Maps a part of a file over `[at, at + len)`.
    ///
    /// # Errors
    /// `INVAL` outside of the region; those of `mmap`.
    ///
    /// # Safety
    /// Whoever accesses that part expects what is mapped now.
    pub(super) unsafe fn map_over(
        &self,
        at: usize,
        len: usize,
        fd: impl AsFd,
        offset: u64,
    ) -> Result<(), rustix::io::Errno> {
        let start = self.part(at, len)?.as_ptr().cast();
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the part is this region's own; the caller promises the rest.
        unsafe { mmap(start, len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset) }.map(drop)
    }

    /// Copies `[at, at + len)` to another region.
    ///
    /// # Errors
    /// `INVAL` outside of one of them.
    pub(super) fn copy_to(
        &self,
        at: usize,
        to: &Region,
        to_at: usize,
        len: usize,
    ) -> Result<(), rustix::io::Errno> {
        let (from, to) = (self.part(at, len)?, to.part(to_at, len)?);
        // SAFETY: both parts are mapped for `len` bytes, as just checked; regions do not overlap.
        unsafe { copy_bytes(to.as_ptr(), from.as_ptr(), len) };
        Ok(())
    }

    fn part(&self, at: usize, len: usize) -> Result<NonNull<u8>, rustix::io::Errno> {
        if at > self.len || len > self.len - at {
            return Err(rustix::io::Errno::INVAL);
        }
        // SAFETY: within the region, as just checked.
        Ok(unsafe { self.start.add(at) })
    }

    fn new(start: *mut u8, len: usize) -> Result<Self, rustix::io::Errno> {
        NonNull::new(start)
            .map(|start| Self { start, len, files: Vec::new() })
            .ok_or(rustix::io::Errno::NOMEM)
    }

    /// Replaces the part `[at, at + len)` by a mapping of the descriptor.
    fn place(
        &mut self,
        at: u64,
        len: u64,
        writable: bool,
        fd: &Arc<OwnedFd>,
        offset: u64,
    ) -> Result<(), rustix::io::Errno> {
        let (Ok(at), Ok(len)) = (usize::try_from(at), usize::try_from(len)) else {
            return Err(rustix::io::Errno::INVAL);
        };
        let start = self.part(at, len)?;
        let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range is inside our own region, which nothing else uses yet.
        unsafe { mmap(start.as_ptr().cast(), len, prot, flags, fd, offset) }?;
        if !self.files.iter().any(|file| Arc::ptr_eq(file, fd)) {
            self.files.push(Arc::clone(fd));
        }
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and every `HostMem` in it holds an `Arc` of this region.
        if let Err(error) = unsafe { munmap(self.start.as_ptr().cast(), self.len) } {
            log::error!("cannot unmap {} bytes of shared memory: {error}", self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn file(len: u64) -> Arc<OwnedFd> {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&fd, len).expect("ftruncate");
        Arc::new(fd)
    }

    fn piece(addr: u64, len: u64, fd: &Arc<OwnedFd>, offset: u64) -> Shared {
        Shared { addr, len, backing: SharedBacking::Descriptor { fd: Arc::clone(fd), offset } }
    }

    #[test]
    fn pieces_in_several_files_become_one_range() {
        let (a, b) = (file(8192), file(4096));
        let pieces = [piece(0x10000, 4096, &a, 4096), piece(0x11000, 4096, &b, 0)];
        let mem = HostMem::from_shared(0x10000, 8192, true, &pieces).expect("mapped");
        mem.write(4094, &[1, 2, 3, 4]).expect("in range");
        let (first, second) = (
            HostMem::map_descriptor(&a, 4096, 4096).expect("map"),
            HostMem::map_descriptor(&b, 0, 4096).expect("map"),
        );
        let mut bytes = [0; 2];
        first.read(4094, &mut bytes).expect("in range");
        assert_eq!(bytes, [1, 2]);
        second.read(0, &mut bytes).expect("in range");
        assert_eq!(bytes, [3, 4]);
    }

    #[test]
    fn pieces_with_holes_out_of_order_or_mixed_are_refused() {
        let fd = file(1 << 20);
        let local = Shared { addr: 0x1000, len: 4096, backing: SharedBacking::Local };
        let cases: [(u64, Vec<Shared>); 6] = [
            (8192, vec![piece(0x1000, 4096, &fd, 0)]),
            (8192, vec![piece(0x2000, 4096, &fd, 0), piece(0x1000, 4096, &fd, 0)]),
            (8192, vec![piece(0x1000, 4096, &fd, 0), piece(0x3000, 4096, &fd, 0)]),
            (4096, vec![piece(0x1000, 100, &fd, 0)]),
            (0, vec![]),
            (8192, vec![local, piece(0x2000, 4096, &fd, 0)]),
        ];
        for (len, pieces) in cases {
            assert!(HostMem::from_shared(0x1000, len, true, &pieces).is_err(), "{len} {pieces:?}");
        }
    }

    #[test]
    fn stores_to_memory_shared_for_reading_are_refused() {
        let fd = file(4096);
        let mem = HostMem::from_shared(0x1000, 4096, false, &[piece(0x1000, 4096, &fd, 0)]).expect("mapped");
        assert_eq!(mem.write(0, &[1]), Err(AccessError::ReadOnly));
        assert_eq!(mem.fill(0, 1, 1), Err(AccessError::ReadOnly));
        assert!(mem.atomic_u64(0).is_none());
        assert_eq!(mem.read(0, &mut [0; 8]), Ok(()));
    }

    #[test]
    fn accesses_outside_and_misaligned_atomics_are_refused() {
        let mem = HostMem::map_descriptor(&file(4096), 0, 4096).expect("mapped");
        assert!(mem.read(4090, &mut [0; 8]).is_err());
        assert!(mem.write(usize::MAX, &[0]).is_err());
        assert!(mem.slice(4096, 1).is_none() && mem.slice(usize::MAX, usize::MAX).is_none());
        assert!(mem.atomic_u32(2).is_none() && mem.atomic_u64(4).is_none() && mem.atomic_u64(4096).is_none());
        assert!(mem.atomic_u32(4092).is_some() && mem.atomic_u64(4088).is_some());
    }
}
