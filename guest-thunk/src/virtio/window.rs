//! Memory of the host that this process sees: buffers of GPUs, and doorbells, in the device's window.
//!
//! A buffer is given memory of the window when the program maps it: a blob of the host's becomes its pages (PLACE), and is what
//! is mapped here. The window is the size of what a host is willing to show, so buffers that nobody maps take nothing of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::kfd::args::{AcquireVmArgs, AllocMemoryOfGpuArgs};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::{FileId, Mapping};
use protocol::wire::Request;
use protocol::wire::structs::Range;

use super::calls::Calls;
use super::device::GuestBlob;

/// What there is for this process in the window.
#[derive(Default)]
pub(super) struct Window(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// The GPU whose buffers a file of a render node shows.
    gpus: HashMap<FileId, u32>,
    /// Buffers that the CPU may see, by KFD's handle.
    buffers: HashMap<u64, Buffer>,
}

/// A buffer that the CPU may see.
pub(super) struct Buffer {
    gpu_id: u32,
    /// Where it is in the GPU's render node.
    offset: u64,
    /// Once it was mapped.
    shown: Option<Shown>,
}

/// Memory of the window with a purpose. Dropping it gives it back, once its mappings and the host's use are gone too.
pub(super) struct Shown {
    mapping: Mapping,
    _blob: Box<dyn GuestBlob>,
}

impl Shown {
    /// Puts memory of the window behind a place of a file.
    ///
    /// # Errors
    /// `ENOMEM` for a full window; those of the call.
    pub(super) fn new(
        calls: &Arc<Calls>,
        blob_id: u64,
        file: FileId,
        offset: u64,
        len: u64,
    ) -> Result<Self, Errno> {
        let blob = calls.device().create_host_blob(len, blob_id).map_err(|errno| {
            log::warn!("the window has no room for {len} bytes: {errno}");
            // The driver says ENOSPC.
            Errno::ENOMEM
        })?;
        let mapping = blob.mapping()?;
        let place = Range { base: offset.into(), len: len.into() };
        calls.tell(&Request::Place { file, place, resource: blob.resource() })?;
        Ok(Self { mapping, _blob: blob })
    }

    /// What to map.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

impl Window {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// ACQUIRE_VM succeeded: this file is of that GPU.
    pub(super) fn acquired(&self, file: FileId, args: &AcquireVmArgs) {
        self.lock().gpus.insert(file, args.gpu_id);
    }

    /// A file was closed.
    pub(super) fn closed(&self, file: FileId) {
        self.lock().gpus.remove(&file);
    }

    /// ALLOC_MEMORY_OF_GPU succeeded.
    pub(super) fn allocated(&self, args: &AllocMemoryOfGpuArgs) {
        let flags = AllocFlags(args.flags);
        let seen = flags.contains(AllocFlags::GTT) || flags.contains(AllocFlags::VRAM | AllocFlags::PUBLIC);
        if seen {
            let buffer = Buffer { gpu_id: args.gpu_id, offset: args.mmap_offset, shown: None };
            // One of the same handle would be the host's mistake.
            self.lock().buffers.insert(args.handle, buffer);
        }
    }

    /// FREE_MEMORY_OF_GPU will be called: the handle is nobody's from now on. Dropping the buffer gives its part of the window back.
    pub(super) fn take(&self, handle: u64) -> Option<Buffer> {
        self.lock().buffers.remove(&handle)
    }

    /// FREE_MEMORY_OF_GPU was refused.
    pub(super) fn put_back(&self, handle: u64, buffer: Buffer) {
        self.lock().buffers.insert(handle, buffer);
    }

    /// What to map for all of a buffer.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for what is not to be seen; `EINVAL` for a part of a buffer; those of [`Shown::new`].
    pub(super) fn map(
        &self,
        calls: &Arc<Calls>,
        blob_id: u64,
        file: FileId,
        offset: u64,
        len: u64,
    ) -> Result<Mapping, Errno> {
        let mut table = self.lock();
        let gpu_id = table.gpus.get(&file).copied().ok_or(Errno::EOPNOTSUPP)?;
        let mut buffers = table.buffers.values_mut();
        let buffer = buffers.find(|buffer| buffer.gpu_id == gpu_id && buffer.offset == offset);
        let buffer = buffer.ok_or(Errno::EOPNOTSUPP)?;
        if buffer.shown.is_none() {
            buffer.shown = Some(Shown::new(calls, blob_id, file, offset, len)?);
        }
        let mapping = buffer.shown.as_ref().map(|shown| shown.mapping().clone());
        mapping.filter(|mapping| mapping.len == len).ok_or(Errno::EINVAL)
    }
}
