//! Memory of a process: buffers, page tables, sharing with other processes, shared virtual memory.
//!
//! [`bo`] is what the GPUs have, [`Memory`] what one process has of it: for each GPU the render node file whose
//! page tables it uses, and its buffers by handle. The handlers follow `kfd_chardev.c` and
//! `amdgpu_amdkfd_gpuvm.c` of Linux 6.12, check by check and in the same order.

mod alloc;
pub(crate) mod bo;
pub(crate) mod dmabuf;
mod ipc;
pub(crate) mod limits;
mod map;
mod mmap;
mod queue_buffer;
mod slab;
pub(crate) mod svm;
mod vm;

#[cfg(test)]
pub(in crate::server) mod tests;

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use protocol::Errno;
use protocol::kfd::ProcessId;
use protocol::kfd::constants::AllocFlags;

pub(super) use alloc::{alloc_memory, available_memory, free_memory};
use bo::{Bo, BoKind};
pub(super) use dmabuf::{export_dmabuf, get_dmabuf_info, import_dmabuf};
pub(super) use ipc::{ipc_export, ipc_import};
pub(super) use map::{map_memory, unmap_memory};
pub(crate) use mmap::{mmio_at, mmio_mapping, place, render_mmap, render_place};
pub(crate) use queue_buffer::QueueBuffer;
use slab::Slab;
pub(super) use svm::svm;
pub(super) use vm::{acquire_vm, apertures, apertures_new, set_memory_policy, set_scratch_backing_va};

use super::drm::DrmFile;
use crate::device::{Device, Gpu};
use crate::mem::{GpuVm, HostMem};

/// Most buffers that a process can have on one GPU. The kernel has no such limit; this one bounds what a
/// process can make the server remember.
const MAX_BUFFERS: usize = 1 << 20;

/// What all processes share.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(crate) limits: Arc<limits::Limits>,
    pub(crate) dmabufs: dmabuf::DmaBufs,
    ipc: ipc::IpcHandles,
}

impl DeviceMemory {
    /// Memory of a machine with `system` bytes of system memory and GPUs with `vram` bytes each.
    ///
    /// # Errors
    /// Whatever creating an epoll descriptor answers.
    pub(crate) fn new(system: u64, vram: Vec<u64>) -> std::io::Result<Self> {
        Ok(Self {
            limits: Arc::new(limits::Limits::new(system, vram)),
            dmabufs: dmabuf::DmaBufs::new()?,
            ipc: ipc::IpcHandles::default(),
        })
    }
}

/// The memory side of a process. Its lock stands for the kernel's `kfd_process::mutex`.
#[derive(Debug)]
pub(crate) struct Memory {
    process: ProcessId,
    state: Mutex<State>,
    /// Held, before `state`, by the call that sets attributes of shared virtual memory: one at a time.
    svm_set: Mutex<()>,
    /// The doorbells of each GPU, made at first use.
    doorbells: Vec<OnceLock<HostMem>>,
}

#[derive(Debug)]
struct State {
    gpus: Vec<ProcessGpu>,
    /// The handle of the event page, which cannot be freed (`kfd_process::signal_handle`).
    event_page: Option<u64>,
    svm: svm::Ranges,
}

/// A process on one GPU (`struct kfd_process_device`).
#[derive(Debug)]
struct ProcessGpu {
    gpu: Arc<Gpu>,
    /// The render node file whose page tables are used, once ACQUIRE_VM named it.
    drm: Option<Arc<DrmFile>>,
    buffers: Slab<Buffer>,
}

/// A buffer of a process (`struct kgd_mem`).
#[derive(Debug)]
struct Buffer {
    bo: Arc<Bo>,
    va: u64,
    flags: AllocFlags,
    /// Whether it counts as memory of a GPU in the rules about other GPUs' access.
    vram: bool,
    /// The GPU (index) that counts as its owner: for imports the importing one, if the buffer is not its own.
    home: usize,
    /// Render node file that was allowed to map it.
    viewer: u64,
    attachments: Vec<Attachment>,
}

/// A buffer in a page table (`struct kfd_mem_attachment`).
#[derive(Debug)]
struct Attachment {
    gpu: usize,
    va: u64,
    mapped: bool,
    queue_refs: Arc<AtomicU32>,
}

impl Buffer {
    /// Whether the ring is in the page tables twice, one after the other.
    fn is_aql(&self) -> bool {
        self.flags.contains(AllocFlags::AQL_QUEUE_MEM)
    }

    fn is_userptr(&self) -> bool {
        self.bo.kind == BoKind::Userptr
    }
}

/// Index of the GPU in a handle, and the handle within that GPU (`GET_GPU_ID`, `GET_IDR_HANDLE`).
fn split_handle(handle: u64) -> (u32, u32) {
    ((handle >> 32) as u32, handle as u32)
}

/// `MAKE_HANDLE`.
fn make_handle(gpu_id: u32, index: u32) -> u64 {
    (u64::from(gpu_id) << 32) | u64::from(index)
}

impl Memory {
    pub(crate) fn new(device: &Device, process: ProcessId) -> Self {
        let gpus: Vec<ProcessGpu> = device
            .gpus
            .iter()
            .map(|gpu| ProcessGpu { gpu: Arc::clone(gpu), drm: None, buffers: Slab::default() })
            .collect();
        let doorbells = gpus.iter().map(|_| OnceLock::new()).collect();
        let state = State { gpus, event_page: None, svm: svm::Ranges::default() };
        Self { process, state: Mutex::new(state), svm_set: Mutex::default(), doorbells }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page tables that this process uses on a GPU.
    ///
    /// # Errors
    /// `EINVAL` for an unknown GPU, `ENODEV` before ACQUIRE_VM (`kfd_bind_process_to_device`).
    pub(crate) fn vm(&self, gpu_id: u32) -> Result<Arc<GpuVm>, Errno> {
        let state = self.lock();
        let index = state.gpu_index(gpu_id)?;
        Ok(Arc::clone(&state.bound(index)?.vm))
    }

    /// The doorbells of this process on a GPU (`kfd_get_process_doorbells`): 1,024 of them, none rung, in the
    /// `kfd` file at a multiple of [`DOORBELL_ALIGN`], or of their size where all such places are taken.
    ///
    /// # Errors
    /// `EINVAL` for an unknown GPU, `ENOMEM` where the file has no room.
    pub(crate) fn doorbells(&self, device: &Device, gpu_id: u32) -> Result<HostMem, Errno> {
        let index = device.gpus.iter().position(|gpu| gpu.spec.gpu_id == gpu_id).ok_or(Errno::EINVAL)?;
        let (gpu, slot) = device.gpus.get(index).zip(self.doorbells.get(index)).ok_or(Errno::EINVAL)?;
        if let Some(doorbells) = slot.get() {
            return Ok(doorbells.clone());
        }
        let len = doorbell_slice(gpu);
        let arena = &device.kfd_arena;
        let fresh = arena.alloc(len, DOORBELL_ALIGN).or_else(|_| arena.alloc(len, len));
        let fresh = fresh.map_err(|_| Errno::ENOMEM)?;
        // No queue of any kind has rung a doorbell of all ones.
        fresh.fill(0, fresh.len(), 0xff).map_err(|_| Errno::EFAULT)?;
        Ok(slot.get_or_init(|| fresh).clone())
    }

    /// The same, if they were asked for before.
    pub(crate) fn doorbells_if_made(&self, device: &Device, gpu_id: u32) -> Option<HostMem> {
        let index = device.gpus.iter().position(|gpu| gpu.spec.gpu_id == gpu_id)?;
        self.doorbells.get(index)?.get().cloned()
    }

    /// The memory of the buffer that a process gives as event page, and from now on keeps: it cannot be freed
    /// any more (`kfd_kmap_event_page`, `kfd_event_page_set`).
    ///
    /// # Errors
    /// `EINVAL` for an unknown GPU or buffer, for userptr memory, and for less than `min_size` bytes; `ENODEV`
    /// before ACQUIRE_VM.
    pub(crate) fn pin_event_page(&self, handle: u64, min_size: u64) -> Result<HostMem, Errno> {
        let mut state = self.lock();
        let (gpu_id, index) = split_handle(handle);
        let gpu = state.gpu_index(gpu_id)?;
        state.bound(gpu)?;
        let buffer = state.buffer(gpu, index).ok_or(Errno::EINVAL)?;
        if buffer.is_userptr() || buffer.bo.size() < min_size {
            return Err(Errno::EINVAL);
        }
        let mem = buffer.bo.mem.clone();
        state.event_page = Some(handle);
        Ok(mem)
    }

    /// The end of the process: everything is unmapped and given back (`kfd_process_free_outstanding_kfd_bos`).
    pub(crate) fn exit(&self) {
        let buffers: Vec<Buffer> = {
            let mut state = self.lock();
            state.event_page = None;
            state.unmap_everything();
            state.gpus.iter_mut().flat_map(|gpu| gpu.buffers.take_all()).collect()
        };
        for buffer in &buffers {
            buffer.bo.revoke(buffer.viewer);
        }
        let mut state = self.lock();
        for gpu in &mut state.gpus {
            gpu.drm = None;
        }
    }
}

impl State {
    /// `kfd_process_device_data_by_id`.
    fn gpu_index(&self, gpu_id: u32) -> Result<usize, Errno> {
        if gpu_id == 0 {
            return Err(Errno::EINVAL);
        }
        self.gpus.iter().position(|gpu| gpu.gpu.spec.gpu_id == gpu_id).ok_or(Errno::EINVAL)
    }

    /// The render node file of a GPU, if the process has acquired its page tables
    /// (`kfd_bind_process_to_device`).
    fn bound(&self, gpu: usize) -> Result<&Arc<DrmFile>, Errno> {
        self.gpus.get(gpu).and_then(|gpu| gpu.drm.as_ref()).ok_or(Errno::ENODEV)
    }

    /// `kfd_process_device_translate_handle`.
    fn buffer(&self, gpu: usize, index: u32) -> Option<&Buffer> {
        self.gpus.get(gpu)?.buffers.get(index)
    }

    fn unmap_everything(&mut self) {
        let vms = self.vms();
        let vm_of = |gpu: usize| vms.get(gpu).and_then(Option::as_ref);
        for gpu in &self.gpus {
            for attachment in gpu.buffers.iter().flat_map(|buffer| &buffer.attachments) {
                if attachment.mapped
                    && let Some(vm) = vm_of(attachment.gpu)
                {
                    vm.unmap(attachment.va);
                }
            }
        }
        self.svm.clear(&vms);
    }
}

/// Doorbells lie at multiples of this in the `kfd` file. The thunk of ROCm 5.2 cuts the 32 lower bits off the offset
/// of a node's first queue to get that of the pages, and later ones by 13 bits (`create_queue` in its `queues.c`):
/// with the kernel's offsets, which have type and GPU above that, both are right. Case Q01.
const DOORBELL_ALIGN: u64 = 1 << 32;

/// `kfd_doorbell_process_slice`: bytes of doorbells of a process, whole pages.
fn doorbell_slice(gpu: &Gpu) -> u64 {
    /// `KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`.
    const QUEUES: u64 = 1024;
    (u64::from(gpu.spec.doorbell_size()) * QUEUES).next_multiple_of(crate::mem::PAGE_SIZE)
}
