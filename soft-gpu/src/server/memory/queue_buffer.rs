//! Buffers that a queue uses: each exactly one mapping, kept as long as the queue lives
//! (`kfd_queue_acquire_buffers`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::Errno;

use super::bo::BoKind;
use super::{Memory, State, split_handle};
use crate::mem::{MappingOwner, PAGE_SIZE};

/// A buffer in use by a queue. While it lives the buffer cannot be unmapped from this GPU (`EBUSY`).
#[derive(Debug)]
pub(crate) struct QueueBuffer {
    /// What it is, and whose GPU's; `None` for shared virtual memory.
    owner: Option<(BoKind, u32)>,
    refs: Option<Arc<AtomicU32>>,
}

impl QueueBuffer {
    /// What MES demands of a write pointer: it is pinned, which program memory cannot be, and it belongs to
    /// the GPU of the queue (`init_user_queue`, `amdgpu_bo_pin`).
    ///
    /// # Errors
    /// `EINVAL` for memory of another GPU, `EPERM` for userptr memory.
    pub(crate) fn check_mes_write_pointer(&self, gpu_id: u32) -> Result<(), Errno> {
        match self.owner {
            Some((_, owner)) if owner != gpu_id => Err(Errno::EINVAL),
            Some((BoKind::Userptr, _)) => Err(Errno::EPERM),
            Some(_) => Ok(()),
            None => Err(Errno::EINVAL),
        }
    }
}

impl Drop for QueueBuffer {
    fn drop(&mut self) {
        if let Some(refs) = &self.refs {
            refs.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Memory {
    /// The buffer of `size` bytes that is mapped at the page of `va` on a GPU, for a queue
    /// (`kfd_queue_buffer_get`). A size below a page matches any mapping that starts there.
    ///
    /// # Errors
    /// `EINVAL` unless a mapping starts at that page and has exactly this size; `ENODEV` before ACQUIRE_VM.
    pub(crate) fn acquire_queue_buffer(&self, gpu_id: u32, va: u64, size: u64) -> Result<QueueBuffer, Errno> {
        let state = self.lock();
        let gpu = state.gpu_index(gpu_id)?;
        state.queue_buffer(gpu, va, size)
    }

    /// The context save area of a compute queue: a buffer like the others, or else shared virtual memory that
    /// is always mapped on this GPU (`kfd_queue_buffer_svm_get`).
    ///
    /// # Errors
    /// `EINVAL` where it is neither; `ENODEV` before ACQUIRE_VM.
    pub(crate) fn acquire_save_area(&self, gpu_id: u32, va: u64, size: u64) -> Result<QueueBuffer, Errno> {
        let state = self.lock();
        let gpu = state.gpu_index(gpu_id)?;
        match state.queue_buffer(gpu, va, size) {
            Err(Errno::EINVAL) if state.svm.always_mapped(gpu, va / PAGE_SIZE, size / PAGE_SIZE) => {
                Ok(QueueBuffer { owner: None, refs: None })
            }
            other => other,
        }
    }
}

impl State {
    fn queue_buffer(&self, gpu: usize, va: u64, size: u64) -> Result<QueueBuffer, Errno> {
        let vm = &self.bound(gpu)?.vm;
        let mapping = vm.lookup(va).ok_or(Errno::EINVAL)?;
        let (page, size) = (va & !(PAGE_SIZE - 1), size & !(PAGE_SIZE - 1));
        if mapping.va != page || (size != 0 && mapping.len != size) {
            return Err(Errno::EINVAL);
        }
        let (owner, refs) = match mapping.owner {
            MappingOwner::Buffer(handle) => {
                let (gpu_id, number) = split_handle(handle);
                let home = self.gpu_index(gpu_id)?;
                let buffer = self.buffer(home, number).ok_or(Errno::EINVAL)?;
                let attachment = buffer.attachments.iter().find(|a| a.gpu == gpu && a.va == mapping.va);
                let refs = attachment.map(|attachment| Arc::clone(&attachment.queue_refs));
                (Some((buffer.bo.kind, buffer.bo.gpu.spec.gpu_id)), refs)
            }
            // A buffer of the render node: GEM_VA does not ask whether a queue uses it.
            MappingOwner::Gem(_) => (None, None),
            // Not in the list of mappings that the kernel looks at.
            MappingOwner::Svm => return Err(Errno::EINVAL),
        };
        if let Some(refs) = &refs {
            refs.fetch_add(1, Ordering::Acquire);
        }
        Ok(QueueBuffer { owner, refs })
    }
}
