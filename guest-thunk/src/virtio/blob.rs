//! Guest memory that the host shares: a blob resource, and its mapping in this process.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::os::fd::OwnedFd;

use protocol::Errno;
use protocol::drm::DrmIoctl;
use protocol::drm::args::GemClose;
use protocol::drm::virtgpu::{BLOB_MEM_GUEST, BLOB_USE_MAPPABLE, Map, ResourceCreateBlob};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use zerocopy::IntoBytes;

use super::node::ioctl;
use crate::errno_of;
use crate::kernel_ioctl::kernel_ioctl;

/// A blob of guest memory. Dropping it gives the handle back; the memory goes when its mappings and the host's are gone too.
#[derive(Debug)]
pub struct Blob<'a> {
    node: &'a OwnedFd,
    handle: u32,
    resource: u32,
    size: u64,
}

impl<'a> Blob<'a> {
    pub(super) fn new(node: &'a OwnedFd, size: u64) -> Result<Self, Errno> {
        let mut args = ResourceCreateBlob {
            blob_mem: BLOB_MEM_GUEST,
            blob_flags: BLOB_USE_MAPPABLE,
            size,
            ..ResourceCreateBlob::default()
        };
        ioctl(node, &mut args)?;
        Ok(Self { node, handle: args.bo_handle, resource: args.res_handle, size })
    }

    /// The id by which the device knows it.
    #[must_use]
    pub fn resource(&self) -> u32 {
        self.resource
    }

    /// Maps it into this process.
    ///
    /// # Errors
    /// Those of the driver's MAP, and of `mmap(2)`.
    pub fn map(&self) -> Result<View, Errno> {
        let mut args = Map { handle: self.handle, ..Map::default() };
        ioctl(self.node, &mut args)?;
        let len = usize::try_from(self.size).map_err(|_| Errno::ENOMEM)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so the kernel takes one where nothing is mapped.
        let at =
            unsafe { mmap(core::ptr::null_mut(), len, access, MapFlags::SHARED, self.node, args.offset) };
        let start = NonNull::new(at.map_err(errno_of)?).ok_or(Errno::ENOMEM)?;
        Ok(View { start, len })
    }
}

impl Drop for Blob<'_> {
    fn drop(&mut self) {
        let mut args = GemClose { handle: self.handle, pad: 0 };
        if let Err(errno) = kernel_ioctl(self.node, DrmIoctl::GemClose.request(), args.as_mut_bytes()) {
            log::warn!("blob {} cannot be given back: {errno}", self.resource);
        }
    }
}

/// A mapping of a blob. The host reads and writes the same memory at any time, so bytes are copied in and out and nothing
/// refers to them.
#[derive(Debug)]
pub struct View {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and is reached by copying only.
unsafe impl Send for View {}

impl View {
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

    fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        let start: *mut u8 = self.start.as_ptr().cast();
        (end <= self.len).then(|| start.wrapping_add(offset))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the range is a mapping of its own, made in `Blob::map`, and nobody keeps a pointer into it.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.len) };
        if let Err(error) = unmapped {
            log::warn!("{} bytes of a blob cannot be unmapped: {error}", self.len);
        }
    }
}
