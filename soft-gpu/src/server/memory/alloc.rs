//! ALLOC_MEMORY_OF_GPU, FREE_MEMORY_OF_GPU, AVAILABLE_MEMORY.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::Call;
use protocol::kfd::args::{AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs};
use protocol::kfd::constants::AllocFlags;

use super::bo::{Bo, BoKind};
use super::{Buffer, MAX_BUFFERS, State, doorbell_slice, make_handle, split_handle};
use crate::device::{Device, Gpu};
use crate::mem::{HostMem, PAGE_SIZE};
use crate::server::dispatch::Cx;
use crate::server::drm::DrmFile;

/// `kfd_ioctl_alloc_memory_of_gpu`.
pub(crate) fn alloc_memory(cx: &Cx<'_>, args: &mut AllocMemoryOfGpuArgs) -> Result<(), Errno> {
    if args.size == 0 {
        return Err(Errno::EINVAL);
    }
    let flags = AllocFlags(args.flags);
    let memory = &cx.process.memory;
    let (index, drm) = {
        let mut state = memory.lock();
        state.drop_stale_svm(cx.call, args, flags);
        state.check_alloc(args, flags)?
    };
    let device = &cx.process.device;
    let gpu = device.gpus.get(index).ok_or(Errno::EINVAL)?;
    // Not under the lock: sharing memory of the caller can take long.
    let bo = create(cx, gpu, index, args, flags)?;
    let buffer = Buffer {
        va: args.va_addr,
        flags,
        vram: bo.kind == BoKind::Vram,
        home: index,
        viewer: drm.id,
        attachments: Vec::new(),
        bo,
    };
    let mut state = memory.lock();
    state.svm_conflict(args, flags)?;
    let number = state.insert(index, buffer)?;
    let Some(buffer) = state.buffer(index, number) else { return Err(Errno::EFAULT) };
    args.handle = make_handle(args.gpu_id, number);
    args.mmap_offset = match buffer.bo.kind {
        // Registers are mapped through /dev/kfd, everything else through the render node.
        BoKind::MmioRemap => buffer.bo.mem.file_range().map_or(0, |(_, offset)| offset),
        _ => buffer.bo.mmap_offset,
    };
    Ok(())
}

impl State {
    /// The checks before anything is made, in the kernel's order; the GPU's index and its render node file.
    fn check_alloc(
        &self,
        args: &AllocMemoryOfGpuArgs,
        flags: AllocFlags,
    ) -> Result<(usize, Arc<DrmFile>), Errno> {
        self.svm_conflict(args, flags)?;
        let index = self.gpu_index(args.gpu_id)?;
        let gpu = self.gpus.get(index).ok_or(Errno::EINVAL)?;
        if flags.contains(AllocFlags::PUBLIC | AllocFlags::VRAM) && !gpu.gpu.spec.vram.is_large_bar() {
            return Err(Errno::EINVAL);
        }
        let drm = Arc::clone(self.bound(index)?);
        if flags.contains(AllocFlags::DOORBELL) {
            if args.size != doorbell_slice(&gpu.gpu) {
                return Err(Errno::EINVAL);
            }
        } else if flags.contains(AllocFlags::MMIO_REMAP) && args.size != PAGE_SIZE {
            return Err(Errno::EINVAL);
        }
        Ok((index, drm))
    }

    /// Forgets shared virtual memory in the way that the program has unmapped meanwhile; the kernel flushes its
    /// deferred work here.
    fn drop_stale_svm(&mut self, call: &dyn Call, args: &AllocMemoryOfGpuArgs, flags: AllocFlags) {
        let pages = |addr: u64| (addr / PAGE_SIZE, addr.wrapping_add(args.size).wrapping_sub(1) / PAGE_SIZE);
        let (first, last) = pages(args.va_addr);
        self.drop_stale(call.mem(), first, last);
        if flags.contains(AllocFlags::USERPTR) {
            let (first, last) = pages(args.mmap_offset);
            self.drop_stale(call.mem(), first, last);
        }
    }

    /// Addresses that shared virtual memory has cannot be a buffer's, and program memory that it has cannot be
    /// registered. VRAM without an address is not looked at.
    fn svm_conflict(&self, args: &AllocMemoryOfGpuArgs, flags: AllocFlags) -> Result<(), Errno> {
        let taken = |addr: u64| {
            let last = addr.wrapping_add(args.size).wrapping_sub(1);
            self.svm.overlaps(addr / PAGE_SIZE, last / PAGE_SIZE)
        };
        let without_va = args.va_addr == 0 && flags.contains(AllocFlags::VRAM);
        let userptr = flags.contains(AllocFlags::USERPTR);
        if (!without_va && taken(args.va_addr)) || (userptr && taken(args.mmap_offset)) {
            return Err(Errno::EADDRINUSE);
        }
        Ok(())
    }

    /// Gives a buffer the lowest free handle of its GPU, and its render node file the right to map it.
    pub(super) fn insert(&mut self, gpu: usize, buffer: Buffer) -> Result<u32, Errno> {
        let slot = self.gpus.get_mut(gpu).ok_or(Errno::EINVAL)?;
        let (bo, viewer) = (Arc::clone(&buffer.bo), buffer.viewer);
        let number = slot.buffers.insert(buffer, MAX_BUFFERS).map_err(|_| Errno::ENOMEM)?;
        bo.allow(viewer);
        Ok(number)
    }
}

/// What kind of buffer the flags ask for, and how much memory it has; the first half of
/// `amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu`.
fn kind_and_size(args: &AllocMemoryOfGpuArgs, flags: AllocFlags) -> Result<(BoKind, u64), Errno> {
    let kind = if flags.contains(AllocFlags::VRAM) {
        BoKind::Vram
    } else if flags.contains(AllocFlags::GTT) {
        BoKind::Gtt
    } else if flags.contains(AllocFlags::USERPTR) {
        if args.mmap_offset == 0 {
            return Err(Errno::EINVAL);
        }
        BoKind::Userptr
    } else if flags.contains(AllocFlags::DOORBELL) {
        BoKind::Doorbell
    } else if flags.contains(AllocFlags::MMIO_REMAP) {
        BoKind::MmioRemap
    } else {
        return Err(Errno::EINVAL);
    };
    // A ring that appears twice has half the memory.
    let size = if flags.contains(AllocFlags::AQL_QUEUE_MEM) { args.size >> 1 } else { args.size };
    match size.checked_next_multiple_of(PAGE_SIZE) {
        None | Some(0) => Err(Errno::EINVAL),
        Some(size) => Ok((kind, size)),
    }
}

fn create(
    cx: &Cx<'_>,
    gpu: &Arc<Gpu>,
    index: usize,
    args: &AllocMemoryOfGpuArgs,
    flags: AllocFlags,
) -> Result<Arc<Bo>, Errno> {
    let (kind, size) = kind_and_size(args, flags)?;
    let device = &cx.process.device;
    device.memory.dmabufs.reap();
    let charge = device.memory.limits.charge(cx.process.caller.id, index, size, flags)?;
    let mem = match kind {
        BoKind::Vram | BoKind::Gtt => gpu.arena.alloc(size, PAGE_SIZE).map_err(|_| Errno::ENOMEM)?,
        BoKind::Userptr => share(cx.call, args.mmap_offset, size)?,
        BoKind::Doorbell => {
            let doorbells = cx.process.memory.doorbells(device, gpu.spec.gpu_id)?;
            whole_or_half(&doorbells, size)?
        }
        BoKind::MmioRemap => whole_or_half(&gpu.mmio, size)?,
    };
    let public = kind == BoKind::Vram && flags.contains(AllocFlags::PUBLIC);
    Ok(Bo::new(gpu, kind, public, mem, Some(charge)))
}

/// The part of doorbells or registers that the buffer shows.
fn whole_or_half(mem: &HostMem, size: u64) -> Result<HostMem, Errno> {
    usize::try_from(size).ok().and_then(|size| mem.slice(0, size)).ok_or(Errno::EINVAL)
}

/// Makes `size` bytes of the caller's memory reachable for the GPU (`init_user_pages`). The GPU's pages are
/// the caller's from the one that contains `addr` on. The caller needs the right to write, whatever the
/// GPU may do, because KFD never registers memory as read-only.
fn share(call: &dyn Call, addr: u64, size: u64) -> Result<HostMem, Errno> {
    let start = addr & !(PAGE_SIZE - 1);
    // mmu_interval_notifier_insert: a range must not wrap around.
    if addr.checked_add(size - 1).is_none() || start.checked_add(size).is_none() {
        return Err(Errno::EOVERFLOW);
    }
    let pieces = call.mem().share(start, size, true).map_err(|error| match error {
        // Device mappings: hmm_range_fault.
        Errno::EINVAL => Errno::EFAULT,
        other => other,
    })?;
    HostMem::from_shared(start, size, true, &pieces).map_err(|error| {
        log::error!("memory of the caller at {start:#x}, length {size:#x}: {error}");
        Errno::ENOMEM
    })
}

/// `kfd_ioctl_free_memory_of_gpu`.
pub(crate) fn free_memory(cx: &Cx<'_>, args: &mut FreeMemoryOfGpuArgs) -> Result<(), Errno> {
    let mut state = cx.process.memory.lock();
    if state.event_page == Some(args.handle) {
        return Err(Errno::EPERM);
    }
    let (gpu_id, number) = split_handle(args.handle);
    let gpu = state.gpu_index(gpu_id)?;
    let buffer = state.buffer(gpu, number).ok_or(Errno::EINVAL)?;
    if buffer.attachments.iter().any(|attachment| attachment.mapped) {
        return Err(Errno::EBUSY);
    }
    let removed = state.gpus.get_mut(gpu).and_then(|gpu| gpu.buffers.remove(number));
    // The memory itself is given back without the lock.
    drop(state);
    if let Some(buffer) = removed {
        buffer.bo.revoke(buffer.viewer);
    }
    Ok(())
}

/// `kfd_ioctl_get_available_memory`.
pub(crate) fn available_memory(cx: &Cx<'_>, args: &mut GetAvailableMemoryArgs) -> Result<(), Errno> {
    let index = cx.process.memory.lock().gpu_index(args.gpu_id)?;
    let device: &Device = &cx.process.device;
    device.memory.dmabufs.reap();
    args.available = device.memory.limits.available(cx.process.caller.id, index);
    Ok(())
}
