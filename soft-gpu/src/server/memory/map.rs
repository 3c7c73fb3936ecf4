//! MAP_MEMORY_TO_GPU, UNMAP_MEMORY_FROM_GPU.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::Errno;
use protocol::kfd::Call;
use protocol::kfd::args::{MapMemoryToGpuArgs, UnmapMemoryFromGpuArgs};
use protocol::kfd::constants::AllocFlags;

use super::bo::BoKind;
use super::{Attachment, Buffer, State, make_handle, split_handle};
use crate::mem::{GpuVm, MapFlags, MappingOwner};
use crate::server::dispatch::Cx;

/// Most bytes that `kmalloc` gives in one piece (`KMALLOC_MAX_SIZE`): 4 MiB on x86.
const KMALLOC_MAX: usize = 4 << 20;

/// First address above the page tables of a GPU from gfx9 on (`amdgpu_vm_manager::max_pfn`): 48 bits.
const VA_END: u64 = 1 << 48;

/// `kfd_ioctl_map_memory_to_gpu`. `n_success` says how far it came, and where the next try goes on.
pub(crate) fn map_memory(cx: &Cx<'_>, args: &mut MapMemoryToGpuArgs) -> Result<(), Errno> {
    let gpu_ids = read_gpu_ids(cx.call, args.device_ids_array_ptr, args.n_devices, args.n_success)?;
    let mut state = cx.process.memory.lock();
    let (gpu_id, number) = split_handle(args.handle);
    let gpu = state.gpu_index(gpu_id)?;
    state.bound(gpu)?;
    if state.buffer(gpu, number).is_none() {
        return Err(Errno::ENOMEM);
    }
    while let Some(&peer_id) = gpu_ids.get(args.n_success as usize) {
        let peer = state.gpu_index(peer_id)?;
        let vm = Arc::clone(&state.bound(peer)?.vm);
        state.attach(cx, gpu, number, peer)?;
        state.map(gpu, number, peer, &vm)?;
        args.n_success += 1;
    }
    Ok(())
}

/// `kfd_ioctl_unmap_memory_from_gpu`.
pub(crate) fn unmap_memory(cx: &Cx<'_>, args: &mut UnmapMemoryFromGpuArgs) -> Result<(), Errno> {
    let gpu_ids = read_gpu_ids(cx.call, args.device_ids_array_ptr, args.n_devices, args.n_success)?;
    let mut state = cx.process.memory.lock();
    let (gpu_id, number) = split_handle(args.handle);
    let gpu = state.gpu_index(gpu_id)?;
    if state.buffer(gpu, number).is_none() {
        return Err(Errno::ENOMEM);
    }
    while let Some(&peer_id) = gpu_ids.get(args.n_success as usize) {
        let peer = state.gpu_index(peer_id)?;
        state.unmap(gpu, number, peer)?;
        args.n_success += 1;
    }
    Ok(())
}

/// The array of GPU ids, with the checks before it.
fn read_gpu_ids(call: &dyn Call, addr: u64, count: u32, done: u32) -> Result<Vec<u32>, Errno> {
    if count == 0 || done > count {
        return Err(Errno::EINVAL);
    }
    let bytes = (count as usize).checked_mul(4).filter(|&bytes| bytes <= KMALLOC_MAX).ok_or(Errno::ENOMEM)?;
    let mut raw = vec![0u8; bytes];
    call.mem().read(addr, &mut raw)?;
    let ids = raw.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    Ok(ids.collect())
}

impl State {
    fn buffer_mut(&mut self, gpu: usize, number: u32) -> Option<&mut Buffer> {
        self.gpus.get_mut(gpu)?.buffers.get_mut(number)
    }

    /// `kfd_mem_attach`, once for each (buffer, GPU): the buffer gets its place in the page tables.
    fn attach(&mut self, cx: &Cx<'_>, gpu: usize, number: u32, peer: usize) -> Result<(), Errno> {
        let buffer = self.buffer(gpu, number).ok_or(Errno::ENOMEM)?;
        if buffer.attachments.iter().any(|attachment| attachment.gpu == peer) {
            return Ok(());
        }
        if buffer.va == 0 || !self.reaches(buffer, peer) {
            return Err(Errno::EINVAL);
        }
        let queue_refs = buffer.bo.queue_refs(cx.process.memory.process, peer);
        let buffer = self.buffer_mut(gpu, number).ok_or(Errno::ENOMEM)?;
        for copy in 0..=u64::from(buffer.is_aql()) {
            let va = buffer.va.wrapping_add(copy * buffer.bo.size());
            let queue_refs = Arc::clone(&queue_refs);
            buffer.attachments.push(Attachment { gpu: peer, va, mapped: false, queue_refs });
        }
        Ok(())
    }

    /// Whether the GPU `peer` gets at the buffer: memory of another GPU through XGMI, or through the PCI BAR
    /// if that shows all of it; doorbells and registers through the BAR (`amdgpu_device_is_peer_accessible`).
    fn reaches(&self, buffer: &Buffer, peer: usize) -> bool {
        let on_device = buffer.vram || matches!(buffer.bo.kind, BoKind::Doorbell | BoKind::MmioRemap);
        if peer == buffer.home || !on_device {
            return true;
        }
        let (Some(owner), Some(peer)) = (self.gpus.get(buffer.home), self.gpus.get(peer)) else {
            return false;
        };
        let (owner, peer) = (&owner.gpu.spec, &peer.gpu.spec);
        let same_hive = buffer.vram && owner.hive_id != 0 && owner.hive_id == peer.hive_id;
        same_hive || owner.vram.is_large_bar()
    }

    /// `amdgpu_amdkfd_gpuvm_map_memory_to_gpu`: what is mapped already stays so.
    fn map(&mut self, gpu: usize, number: u32, peer: usize, vm: &GpuVm) -> Result<(), Errno> {
        let handle = self.handle(gpu, number);
        let buffer = self.buffer_mut(gpu, number).ok_or(Errno::ENOMEM)?;
        let flags = MapFlags {
            writable: buffer.flags.contains(AllocFlags::WRITABLE),
            executable: buffer.flags.contains(AllocFlags::EXECUTABLE),
        };
        let (bo, attachments) = (&buffer.bo, &mut buffer.attachments);
        for attachment in attachments.iter_mut().filter(|a| a.gpu == peer && !a.mapped) {
            // amdgpu_vm_bo_map: unaligned, beyond the page tables or occupied.
            let end = attachment.va.checked_add(bo.size()).ok_or(Errno::EINVAL)?;
            if end > VA_END {
                return Err(Errno::EINVAL);
            }
            let mapped = vm.map(attachment.va, bo.mem.clone(), flags, MappingOwner::Buffer(handle));
            mapped.map_err(|error| {
                log::debug!("buffer {handle:#x}: {error}");
                Errno::EINVAL
            })?;
            attachment.mapped = true;
        }
        Ok(())
    }

    /// `amdgpu_amdkfd_gpuvm_unmap_memory_from_gpu`: `EINVAL` if it is not mapped, `EBUSY` while a queue uses it.
    fn unmap(&mut self, gpu: usize, number: u32, peer: usize) -> Result<(), Errno> {
        let vm = self.bound(peer).map(|drm| Arc::clone(&drm.vm));
        let buffer = self.buffer_mut(gpu, number).ok_or(Errno::ENOMEM)?;
        let mut mapped = buffer.attachments.iter_mut().filter(|a| a.gpu == peer && a.mapped).peekable();
        if mapped.peek().is_none() {
            return Err(Errno::EINVAL);
        }
        let vm = vm.map_err(|_| Errno::EINVAL)?;
        for attachment in mapped {
            if attachment.queue_refs.load(Ordering::Acquire) != 0 {
                return Err(Errno::EBUSY);
            }
            vm.unmap(attachment.va);
            attachment.mapped = false;
        }
        Ok(())
    }

    fn handle(&self, gpu: usize, number: u32) -> u64 {
        self.gpus.get(gpu).map_or(0, |gpu| make_handle(gpu.gpu.spec.gpu_id, number))
    }
}
