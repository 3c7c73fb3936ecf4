//! Memory that guest and host share: a blob resource.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use protocol::Errno;
use protocol::drm::DrmIoctl;
use protocol::drm::args::GemClose;
use protocol::drm::virtgpu::{BLOB_MEM_GUEST, BLOB_MEM_HOST3D, BLOB_USE_MAPPABLE, Map, ResourceCreateBlob};
use protocol::kfd::Mapping;
use zerocopy::IntoBytes;

use super::device::GuestBlob;
use super::node::ioctl;
use super::view::View;
use crate::kernel_ioctl::kernel_ioctl;

/// A blob of the `virtio_gpu` driver.
#[derive(Debug)]
pub struct Blob {
    node: Arc<OwnedFd>,
    handle: u32,
    resource: u32,
    size: u64,
}

impl Blob {
    /// Guest memory.
    pub(super) fn new(node: &Arc<OwnedFd>, size: u64) -> Result<Self, Errno> {
        let memory = ResourceCreateBlob { blob_mem: BLOB_MEM_GUEST, size, ..ResourceCreateBlob::default() };
        Self::create(node, memory)
    }

    /// Memory of the host.
    pub(super) fn of_host(node: &Arc<OwnedFd>, size: u64, blob_id: u64) -> Result<Self, Errno> {
        let blob_mem = BLOB_MEM_HOST3D;
        Self::create(node, ResourceCreateBlob { blob_mem, blob_id, size, ..ResourceCreateBlob::default() })
    }

    fn create(node: &Arc<OwnedFd>, memory: ResourceCreateBlob) -> Result<Self, Errno> {
        let size = memory.size;
        let mut args = ResourceCreateBlob { blob_flags: BLOB_USE_MAPPABLE, ..memory };
        ioctl(node, &mut args)?;
        Ok(Self { node: Arc::clone(node), handle: args.bo_handle, resource: args.res_handle, size })
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
        View::new(&self.mapping()?)
    }
}

impl GuestBlob for Blob {
    fn resource(&self) -> u32 {
        self.resource
    }

    fn mapping(&self) -> Result<Mapping, Errno> {
        let mut args = Map { handle: self.handle, ..Map::default() };
        ioctl(&self.node, &mut args)?;
        Ok(Mapping { fd: Arc::clone(&self.node), offset: args.offset, len: self.size, writable: true })
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        let mut args = GemClose { handle: self.handle, pad: 0 };
        if let Err(errno) = kernel_ioctl(&self.node, DrmIoctl::GemClose.request(), args.as_mut_bytes()) {
            log::warn!("blob {} cannot be given back: {errno}", self.resource);
        }
    }
}
