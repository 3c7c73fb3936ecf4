//! `mmap` of buffers and registers.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::{Mapping, Pages};

use super::bo::{Bo, BoKind};
use crate::device::{Device, Gpu};
use crate::mem::{HostMem, PAGE_SIZE};
use crate::server::drm::DrmFile;

/// `mmap` of a render node (`drm_gem_mmap`, `drm_gem_mmap_obj`): the offset must be the start of a buffer that this
/// file may map, and the length at most the buffer's.
///
/// A doorbell or register buffer gives a mapping that faults when it is touched, as in the kernel.
///
/// # Errors
/// `EINVAL` for an offset where no buffer starts and for too long a length, `EACCES` for a file without the right,
/// `EPERM` for userptr memory (`amdgpu_gem_object_mmap`); `EBUSY` for memory whose pages are not the arena's.
pub(crate) fn render_mmap(file: &DrmFile, offset: u64, len: u64) -> Result<Mapping, Errno> {
    let bo = mappable(file, offset, len)?;
    if bo.kind.has_pages() && bo.mem.file_range().is_none() {
        return Err(Errno::EBUSY);
    }
    Ok(Mapping { fd: Arc::clone(bo.gpu.arena.fd()), offset, len, writable: true })
}

/// Gives a buffer other pages ([`Process::place`](protocol::kfd::Process::place)).
///
/// # Errors
/// As [`render_mmap`]; `EINVAL` unless it is all of a buffer with pages.
pub(crate) fn render_place(file: &DrmFile, offset: u64, len: u64, pages: Pages<'_>) -> Result<(), Errno> {
    let bo = mappable(file, offset, len)?;
    if !bo.kind.has_pages() || len != bo.size() {
        return Err(Errno::EINVAL);
    }
    place(&bo.mem, pages)
}

/// Puts other pages in the place of memory.
///
/// # Errors
/// `EBUSY` for the second time; those of `mmap`.
pub(crate) fn place(mem: &HostMem, pages: Pages<'_>) -> Result<(), Errno> {
    mem.place(pages).map_err(|error| Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EIO))
}

fn mappable(file: &DrmFile, offset: u64, len: u64) -> Result<Arc<Bo>, Errno> {
    let bo = file.gpu.nodes.get(offset).ok_or(Errno::EINVAL)?;
    let pages = len.checked_next_multiple_of(PAGE_SIZE).filter(|&len| len != 0).ok_or(Errno::EINVAL)?;
    if pages > bo.size() {
        return Err(Errno::EINVAL);
    }
    if !bo.allows(file.id) {
        return Err(Errno::EACCES);
    }
    if bo.kind == BoKind::Userptr {
        return Err(Errno::EPERM);
    }
    Ok(bo)
}

/// `mmap` of the MMIO remap page of a GPU through `/dev/kfd` (`kfd_mmio_mmap`).
///
/// # Errors
/// `EINVAL` unless it is exactly one page.
pub(crate) fn mmio_mapping(gpu: &Gpu, len: u64) -> Result<Mapping, Errno> {
    if len.checked_next_multiple_of(PAGE_SIZE) != Some(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let (fd, offset) = gpu.mmio.file_range().ok_or(Errno::EINVAL)?;
    Ok(Mapping { fd, offset, len, writable: true })
}

/// The GPU whose registers lie at this offset of the `kfd` file.
pub(crate) fn mmio_at(device: &Device, offset: u64) -> Option<&Arc<Gpu>> {
    device.gpus.iter().find(|gpu| gpu.mmio.file_range().is_some_and(|(_, at)| at == offset))
}
