//! Render nodes: the DRM calls that libdrm, libdrm_amdgpu and the thunk make.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::{Call, Mapping, Transfer};

use crate::device::{Device, Gpu};

/// An open file of a render node (`struct drm_file`).
#[derive(Debug)]
pub(crate) struct DrmFile {
    pub(crate) gpu: Arc<Gpu>,
}

impl DrmFile {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu }
    }

    /// The last close of the file.
    pub(crate) fn close(&self) {}

    /// `mmap` of a render node.
    pub(crate) fn mmap(&self, _offset: u64, _len: u64) -> Result<Mapping, Errno> {
        Err(Errno::EINVAL)
    }
}

/// The part of `drm_ioctl` before the argument struct is looked at.
pub(crate) fn transfer(_request: u32) -> Result<Transfer, Errno> {
    Err(Errno::EINVAL)
}

/// `drm_ioctl`.
pub(crate) fn ioctl(
    _device: &Device,
    _file: &DrmFile,
    _request: u32,
    _args: &mut [u8],
    _call: &dyn Call,
) -> Result<i32, Errno> {
    Err(Errno::EINVAL)
}
