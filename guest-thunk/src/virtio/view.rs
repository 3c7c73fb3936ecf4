//! A mapping of a blob in this process.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use protocol::Errno;
use protocol::kfd::Mapping;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::errno_of;

/// A mapping of a blob, which forked children do not get. The host reads and writes the same memory at any time, so bytes are
/// copied in and out and nothing refers to them, except to atomic words.
#[derive(Debug)]
pub struct View {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and is reached by copying and by atomic words only.
unsafe impl Send for View {}
// SAFETY: as above. Two threads that copy to the same place do what the host can do at any time too.
unsafe impl Sync for View {}

impl View {
    /// Maps a blob where the kernel likes.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn new(mapping: &Mapping) -> Result<Self, Errno> {
        let len = usize::try_from(mapping.len).map_err(|_| Errno::ENOMEM)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED;
        // SAFETY: no address is asked for, so the kernel takes one where nothing is mapped.
        let at = unsafe { mmap(core::ptr::null_mut(), len, access, flags, &mapping.fd, mapping.offset) };
        let start = NonNull::new(at.map_err(errno_of)?).ok_or(Errno::ENOMEM)?;
        let view = Self { start, len };
        // SAFETY: the range was just mapped; the advice changes nothing in this process.
        unsafe { madvise(start.as_ptr(), len, Advice::LinuxDontFork) }.map_err(errno_of)?;
        Ok(view)
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes in. `false` if they do not fit.
    #[must_use]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(at) = self.at(offset, bytes.len()) else { return false };
        // SAFETY: `at` is valid for so many bytes of this mapping, which lives as long as `self`; it is memory of a
        // device, so `bytes`, a Rust object, is not in it.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        true
    }

    /// Copies bytes out. `false` if there are fewer.
    #[must_use]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(at) = self.at(offset, bytes.len()) else { return false };
        // SAFETY: as in `write`, the other way.
        unsafe { core::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), bytes.len()) };
        true
    }

    /// Sets all bytes.
    pub fn fill(&self, byte: u8) {
        // SAFETY: the whole mapping, as in `write`.
        unsafe { core::ptr::write_bytes(self.start.as_ptr().cast::<u8>(), byte, self.len) };
    }

    /// The word at an offset. `None` if there is none, or none that is aligned.
    #[must_use]
    pub fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.at(offset, size_of::<u32>())?.cast::<u32>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: four aligned bytes of this mapping, which lives as long as the borrow of `self`. Words are reached as such
        // alone: copies are made of other places (`super::area`).
        Some(unsafe { AtomicU32::from_ptr(at) })
    }

    fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        let start: *mut u8 = self.start.as_ptr().cast();
        (end <= self.len).then(|| start.wrapping_add(offset))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the range is a mapping of its own, made in `new`, and nobody keeps a pointer into it.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.len) };
        if let Err(error) = unmapped {
            log::warn!("{} bytes of a blob cannot be unmapped: {error}", self.len);
        }
    }
}
