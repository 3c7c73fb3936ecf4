//! Mappings of this process: of files anywhere, and in the range that belongs to the guest.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use protocol::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use vm_memory::VolatileSlice;

use super::blob::Piece;

/// Bytes of a page (x86-64).
pub(super) const PAGE: u64 = 4096;

/// Mappings of the process that are left for everything else: threads, libraries, the GPU's arenas.
const OTHERS: usize = 4096;

/// What the kernel allows if it does not tell (`vm.max_map_count`).
const DEFAULT_MAX: usize = 65_530;

/// How many mappings there may be, and are. The kernel has a limit for a process, beyond which nothing works any more.
#[derive(Debug)]
pub(super) struct Mappings {
    max: usize,
    used: AtomicUsize,
}

impl Default for Mappings {
    fn default() -> Mappings {
        Mappings { max: DEFAULT_MAX - OTHERS, used: AtomicUsize::new(0) }
    }
}

impl Mappings {
    /// As many as this kernel allows.
    pub(super) fn of_this_kernel() -> Mappings {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        let max = text.trim().parse().unwrap_or(DEFAULT_MAX);
        Mappings { max: max.saturating_sub(OTHERS), used: AtomicUsize::new(0) }
    }

    /// Takes `count` mappings.
    ///
    /// # Errors
    /// `ENOMEM` if there would be too many.
    pub(super) fn take(self: &Arc<Self>, count: usize) -> Result<Taken, Errno> {
        let add = |used: usize| used.checked_add(count).filter(|sum| *sum <= self.max);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Taken { mappings: Arc::clone(self), count }),
            Err(used) => {
                log::warn!(
                    "{count} mappings more than the {used} that there are would exceed what vm.max_map_count allows; \
                     1048576 is a good value on hosts of VMs with GPUs"
                );
                Err(Errno::ENOMEM)
            }
        }
    }
}

/// Mappings that are counted as long as this lives.
#[derive(Debug)]
pub(super) struct Taken {
    mappings: Arc<Mappings>,
    count: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.mappings.used.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Bytes that are mapped at addresses of the kernel's choice, and unmapped at the end. Others may change them at any time.
#[derive(Debug)]
pub(super) struct Mapped {
    base: *mut c_void,
    len: usize,
    _taken: Taken,
}

// SAFETY: the mapping belongs to the value, whichever thread has it; it is used through volatile and atomic accesses.
unsafe impl Send for Mapped {}
// SAFETY: as above: no reference to its bytes exists.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The bytes.
    pub(super) fn slice(&self) -> VolatileSlice<'_> {
        // SAFETY: `len` bytes at `base` are mapped readable and writable as long as `self` lives, which the slice's
        // lifetime is bound to. They are not accessed but by volatile and atomic accesses.
        unsafe { VolatileSlice::new(self.base.cast(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and slices of it have ended.
        if let Err(errno) = unsafe { munmap(self.base, self.len) } {
            log::error!("{} bytes stay mapped: {errno}", self.len);
        }
    }
}

/// Maps pieces one after the other.
///
/// # Errors
/// `ENOMEM` if they are too many, or the kernel does not map them; `EINVAL` if they are none.
pub(super) fn anywhere(pieces: &[Piece], size: u64, mappings: &Arc<Mappings>) -> Result<Mapped, Errno> {
    let len = usize::try_from(size).map_err(|_| Errno::ENOMEM)?;
    if len == 0 || pieces.is_empty() {
        return Err(Errno::EINVAL);
    }
    let taken = mappings.take(pieces.len())?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), RESERVED) };
    let mapped = Mapped { base: base.map_err(|_| Errno::ENOMEM)?, len, _taken: taken };
    // SAFETY: these are the `len` bytes that were just mapped, and nobody else knows them.
    unsafe { over(mapped.base.addr() as u64, pieces) }?;
    Ok(mapped)
}

/// Maps a file's bytes for reading and writing.
///
/// # Errors
/// The kernel's.
pub(super) fn file(fd: &OwnedFd, offset: u64, len: u64, mappings: &Arc<Mappings>) -> Result<Mapped, Errno> {
    let len = usize::try_from(len).map_err(|_| Errno::ENOMEM)?;
    let taken = mappings.take(1)?;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing.
    let base = unsafe { mmap(std::ptr::null_mut(), len, READ_WRITE, MapFlags::SHARED, fd, offset) };
    Ok(Mapped { base: base.map_err(errno_of)?, len, _taken: taken })
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const RESERVED: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

/// Reserves addresses, if nothing is there.
///
/// # Errors
/// `EEXIST` if something is; the kernel's.
pub(super) fn reserve(base: u64, len: u64) -> Result<(), Errno> {
    let at = address(base);
    let size = usize::try_from(len).map_err(|_| Errno::ENOMEM)?;
    let flags = RESERVED.union(MapFlags::FIXED_NOREPLACE);
    // SAFETY: the kernel maps only where nothing is mapped.
    let mapped = unsafe { mmap_anonymous(at, size, ProtFlags::empty(), flags) }.map_err(errno_of)?;
    if mapped == at {
        return Ok(());
    }
    // A kernel before 4.17 takes the address for a hint.
    // SAFETY: it was mapped just now, and nobody else knows it.
    unsafe { munmap(mapped, size) }.map_err(errno_of)?;
    Err(Errno::EEXIST)
}

/// Maps pieces one after the other from `base` on, over what is there.
///
/// # Safety
/// As many bytes as the pieces have, from `base` on, are the caller's: no Rust reference to them exists, nobody relies on
/// what is there.
///
/// # Errors
/// The kernel's; some pieces may be mapped then.
pub(super) unsafe fn over(base: u64, pieces: &[Piece]) -> Result<(), Errno> {
    let flags = MapFlags::SHARED.union(MapFlags::FIXED);
    let mut at = base;
    for piece in pieces {
        let len = usize::try_from(piece.len).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the caller says that these bytes are its own.
        let mapped = unsafe { mmap(address(at), len, READ_WRITE, flags, &*piece.file, piece.offset) };
        mapped.map_err(errno_of)?;
        at += piece.len;
    }
    Ok(())
}

/// Makes a part of a reservation empty again.
///
/// # Safety
/// The bytes are the caller's, as in [`over`].
pub(super) unsafe fn empty(base: u64, len: u64) {
    let Ok(size) = usize::try_from(len) else { return };
    let flags = RESERVED.union(MapFlags::FIXED);
    // SAFETY: the caller says that these bytes are its own.
    if let Err(errno) = unsafe { mmap_anonymous(address(base), size, ProtFlags::empty(), flags) } {
        // Mappings that stay would be read and written by nobody, but their pages would not be the guest's again.
        log::error!("{len:#x} bytes at {base:#x} stay mapped ({errno}); this process ends");
        std::process::abort();
    }
}

/// Gives a reservation back.
///
/// # Safety
/// The bytes are the caller's, as in [`over`].
pub(super) unsafe fn give_back(base: u64, len: u64) {
    let Ok(size) = usize::try_from(len) else { return };
    // SAFETY: the caller says that these bytes are its own.
    if let Err(errno) = unsafe { munmap(address(base), size) } {
        log::error!("{len:#x} bytes at {base:#x} stay reserved: {errno}");
    }
}

/// A range of addresses, seen as memory that others change at any time.
///
/// # Safety
/// They are mapped readable and writable as long as the slice is used.
pub(super) unsafe fn memory<'a>(base: u64, len: usize) -> VolatileSlice<'a> {
    // SAFETY: the caller says so.
    unsafe { VolatileSlice::new(address(base).cast(), len) }
}

fn address(addr: u64) -> *mut c_void {
    // Addresses have 64 bits here; the pointer is used for memory that no Rust object has.
    std::ptr::with_exposed_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

fn errno_of(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO)
}
