//! KFD's calls for one buffer.

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{
    AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, MapMemoryToGpuArgs, UnmapMemoryFromGpuArgs,
};
use protocol::kfd::constants::AllocFlags;

use crate::engine::channel::Channel;

type Result<T> = core::result::Result<T, Errno>;

/// What KFD is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// KFD's id of the GPU.
    pub(super) gpu_id: u32,
    /// Address for GPUs; 0 for none.
    pub(super) va: u64,
    /// Bytes.
    pub(super) size: u64,
    /// What kind of memory.
    pub(super) flags: AllocFlags,
    /// With USERPTR: the program's memory.
    pub(super) userptr: u64,
}

/// A buffer of KFD that is freed when this is dropped.
#[derive(Debug)]
pub(super) struct Bo<'a> {
    channel: &'a Channel,
    handle: u64,
    /// Where to map it, in the render node or, of registers, in `/dev/kfd`.
    pub(super) mmap_offset: u64,
}

impl<'a> Bo<'a> {
    /// ALLOC_MEMORY_OF_GPU.
    ///
    /// # Errors
    /// KFD's.
    pub(super) fn new(channel: &'a Channel, ask: Ask) -> Result<Self> {
        let Ask { gpu_id, va, size, flags, userptr } = ask;
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: va,
            size,
            handle: 0,
            mmap_offset: userptr,
            gpu_id,
            flags: (flags | AllocFlags::NO_SUBSTITUTE).0,
        };
        channel.ioctl(Ioctl::AllocMemoryOfGpu, &mut args).inspect_err(|errno| {
            log::debug!("KFD has no buffer for {ask:x?}: {errno}");
        })?;
        Ok(Self { channel, handle: args.handle, mmap_offset: args.mmap_offset })
    }

    /// A buffer that another call made.
    pub(super) fn of_handle(channel: &'a Channel, handle: u64) -> Self {
        Self { channel, handle, mmap_offset: 0 }
    }

    pub(super) fn handle(&self) -> u64 {
        self.handle
    }

    /// Lets it live on. Gives its handle.
    pub(super) fn keep(mut self) -> u64 {
        std::mem::take(&mut self.handle)
    }
}

impl Drop for Bo<'_> {
    fn drop(&mut self) {
        if self.handle != 0
            && let Err(errno) = free(self.channel, self.handle)
        {
            log::warn!("KFD's buffer {:#x} stays: {errno}", self.handle);
        }
    }
}

/// FREE_MEMORY_OF_GPU.
///
/// # Errors
/// `EBUSY` while it is mapped, `EPERM` for the event page; KFD's.
pub(super) fn free(channel: &Channel, handle: u64) -> Result<()> {
    channel.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle })
}

/// MAP_MEMORY_TO_GPU.
///
/// # Errors
/// KFD's, and for how many of the GPUs it went well.
pub(super) fn map(
    channel: &Channel,
    handle: u64,
    gpu_ids: &[u32],
) -> core::result::Result<(), (Errno, usize)> {
    let mut args = MapMemoryToGpuArgs {
        handle,
        device_ids_array_ptr: address_of(gpu_ids),
        n_devices: count(gpu_ids),
        n_success: 0,
    };
    let mapped = channel.ioctl(Ioctl::MapMemoryToGpu, &mut args);
    mapped.map_err(|errno| (errno, done(args.n_success, gpu_ids)))
}

/// UNMAP_MEMORY_FROM_GPU.
///
/// # Errors
/// `EBUSY` while a queue uses it; KFD's, and for how many of the GPUs it went well.
pub(super) fn unmap(
    channel: &Channel,
    handle: u64,
    gpu_ids: &[u32],
) -> core::result::Result<(), (Errno, usize)> {
    let mut args = UnmapMemoryFromGpuArgs {
        handle,
        device_ids_array_ptr: address_of(gpu_ids),
        n_devices: count(gpu_ids),
        n_success: 0,
    };
    let unmapped = channel.ioctl(Ioctl::UnmapMemoryFromGpu, &mut args);
    unmapped.map_err(|errno| (errno, done(args.n_success, gpu_ids)))
}

fn address_of(gpu_ids: &[u32]) -> u64 {
    gpu_ids.as_ptr().expose_provenance() as u64
}

/// A machine has fewer GPUs than fit into 32 bits; a program's list that is longer is refused by KFD as it is.
fn count(gpu_ids: &[u32]) -> u32 {
    u32::try_from(gpu_ids.len()).unwrap_or(u32::MAX)
}

fn done(n_success: u32, gpu_ids: &[u32]) -> usize {
    usize::try_from(n_success).map_or(gpu_ids.len(), |done| done.min(gpu_ids.len()))
}
