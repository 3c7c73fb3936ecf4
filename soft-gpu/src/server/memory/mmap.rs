//! `mmap` of buffers and registers.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::Mapping;

use super::bo::BoKind;
use crate::device::{Device, Gpu};
use crate::mem::PAGE_SIZE;
use crate::server::drm::DrmFile;

/// `mmap` of a render node (`drm_gem_mmap`, `drm_gem_mmap_obj`): the offset must be the start of a buffer that this
/// file may map, and the length at most the buffer's.
///
/// A doorbell or register buffer gives a mapping that faults when it is touched, as in the kernel.
///
/// # Errors
/// `EINVAL` for an offset where no buffer starts and for too long a length, `EACCES` for a file without the right,
/// `EPERM` for userptr memory (`amdgpu_gem_object_mmap`).
pub(crate) fn render_mmap(file: &DrmFile, offset: u64, len: u64) -> Result<Mapping, Errno> {
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
    Ok(Mapping { fd: Arc::clone(bo.gpu.arena.fd()), offset, len, writable: true })
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
