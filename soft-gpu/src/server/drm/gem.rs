//! Buffers of a render node file (GEM): created, imported and exported, mapped to CPU and GPU.
//!
//! ROCr's virtual memory functions work on them, and they are the same buffers that KFD has: a dma-buf that
//! KFD exported is imported here and the other way round.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::drm::args::{
    AmdgpuGemCreate, AmdgpuGemMetadata, AmdgpuGemMmap, AmdgpuGemOp, AmdgpuGemVa, AmdgpuGemWaitIdle, GemClose,
    PrimeHandle,
};
use protocol::drm::{domain, gem_create, gem_op, metadata_op, va_op, vm_page};
use protocol::kfd::PassedFd;
use protocol::kfd::constants::AllocFlags;
use zerocopy::IntoBytes;

use super::{Cx, info};
use crate::mem::{GpuVm, MapFlags, MappingOwner, PAGE_SIZE};
use crate::server::memory::bo::{Bo, BoKind};

/// Most buffers of one file. The kernel has no such limit; this one bounds what a file makes the server keep.
const MOST_HANDLES: usize = 1 << 16;

/// The buffers of one file by handle, from 1 up.
#[derive(Debug, Default)]
pub(super) struct Handles {
    by_number: Mutex<BTreeMap<u32, Handle>>,
}

#[derive(Debug)]
struct Handle {
    bo: Arc<Bo>,
    created: Created,
    /// GPU addresses at which the file has mapped it.
    mapped: Vec<u64>,
}

/// What GEM_CREATE was asked for (`drm_amdgpu_gem_create_in`).
#[derive(Clone, Copy, Debug, Default)]
struct Created {
    alignment: u64,
    domains: u64,
    flags: u64,
}

impl Handles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Handle>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `drm_gem_handle_create`: the lowest free number.
    fn add(&self, drm_file: u64, bo: Arc<Bo>, created: Created) -> Result<u32, Errno> {
        let mut handles = self.lock();
        if handles.len() >= MOST_HANDLES {
            return Err(Errno::ENOMEM);
        }
        let free = (1..).zip(handles.keys()).find(|(number, used)| number != *used).map(|(number, _)| number);
        let number = free.unwrap_or_else(|| handles.keys().next_back().map_or(1, |last| last + 1));
        bo.allow(drm_file);
        handles.insert(number, Handle { bo, created, mapped: Vec::new() });
        Ok(number)
    }

    fn bo(&self, number: u32) -> Result<Arc<Bo>, Errno> {
        self.lock().get(&number).map(|handle| Arc::clone(&handle.bo)).ok_or(Errno::ENOENT)
    }

    /// `drm_gem_handle_delete`: with the handle go its mappings (`amdgpu_gem_object_close`).
    fn remove(&self, drm_file: u64, vm: &GpuVm, number: u32) -> Result<(), Errno> {
        let handle = self.lock().remove(&number).ok_or(Errno::EINVAL)?;
        for va in handle.mapped {
            vm.unmap_range(va, handle.bo.size(), MappingOwner::Gem(number));
        }
        handle.bo.revoke(drm_file);
        Ok(())
    }

    /// The end of the file.
    pub(super) fn clear(&self, drm_file: u64, vm: &GpuVm) {
        let numbers: Vec<u32> = self.lock().keys().copied().collect();
        for number in numbers {
            if let Err(errno) = self.remove(drm_file, vm, number) {
                log::debug!("handle {number} of a closed file: {errno}");
            }
        }
    }
}

/// `amdgpu_gem_create_ioctl`.
pub(super) fn create(cx: &Cx<'_>, args: &mut AmdgpuGemCreate) -> Result<(), Errno> {
    let created = Created { alignment: args.alignment, domains: args.domains, flags: args.domain_flags };
    if args.domains & !domain::MEMORY != 0 || args.domain_flags & !gem_create::KNOWN != 0 {
        // Doorbells, GDS, GWS and OA as buffers are for graphics drivers.
        return Err(Errno::EINVAL);
    }
    let in_vram = args.domains & domain::VRAM != 0;
    let (kind, flags) =
        if in_vram { (BoKind::Vram, AllocFlags::VRAM) } else { (BoKind::Gtt, AllocFlags::GTT) };
    let size =
        args.bo_size.checked_next_multiple_of(PAGE_SIZE).filter(|&size| size != 0).ok_or(Errno::EINVAL)?;
    let gpu = &cx.file.gpu;
    let index = cx.device.gpus.iter().position(|other| Arc::ptr_eq(other, gpu)).ok_or(Errno::ENODEV)?;
    let charge = cx.device.memory.limits.charge(cx.file.opener, index, size, flags)?;
    let align = args.alignment.max(PAGE_SIZE);
    let mem = gpu.arena.alloc(size, align).map_err(|_| Errno::ENOMEM)?;
    let public = args.domain_flags & gem_create::NO_CPU_ACCESS == 0;
    let bo = Bo::new(gpu, kind, public, mem, Some(charge));
    let handle = cx.file.handles.add(cx.file.id, bo, created)?;
    *args = AmdgpuGemCreate { bo_size: handle.into(), ..AmdgpuGemCreate::default() };
    Ok(())
}

/// `drm_gem_close_ioctl`.
pub(super) fn close(cx: &Cx<'_>, args: &mut GemClose) -> Result<(), Errno> {
    cx.file.handles.remove(cx.file.id, &cx.file.vm, args.handle)
}

/// `amdgpu_mode_dumb_mmap`.
pub(super) fn mmap(cx: &Cx<'_>, args: &mut AmdgpuGemMmap) -> Result<(), Errno> {
    let number = (args.handle_or_offset & u64::from(u32::MAX)) as u32;
    let handles = cx.file.handles.lock();
    let handle = handles.get(&number).ok_or(Errno::ENOENT)?;
    if handle.bo.kind == BoKind::Userptr || handle.created.flags & gem_create::NO_CPU_ACCESS != 0 {
        return Err(Errno::EPERM);
    }
    args.handle_or_offset = handle.bo.mmap_offset;
    Ok(())
}

/// `drm_prime_handle_to_fd_ioctl`.
pub(super) fn export(cx: &Cx<'_>, args: &mut PrimeHandle) -> Result<(), Errno> {
    /// `DRM_CLOEXEC` and `DRM_RDWR`, which are `O_CLOEXEC` and `O_RDWR`.
    const FLAGS: u32 = 0o2_000_000 | 0o2;
    if args.flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let bo = {
        let handles = cx.file.handles.lock();
        let handle = handles.get(&args.handle).ok_or(Errno::ENOENT)?;
        // amdgpu_gem_prime_export, as for userptr memory.
        if handle.created.flags & gem_create::VM_ALWAYS_VALID != 0 {
            return Err(Errno::EPERM);
        }
        Arc::clone(&handle.bo)
    };
    let fd = cx.device.memory.dmabufs.export(&bo, args.flags & 0o2 != 0)?;
    args.fd = cx.call.install(fd)?;
    Ok(())
}

/// `drm_prime_fd_to_handle_ioctl`: a buffer that the file has already keeps its handle.
pub(super) fn import(cx: &Cx<'_>, args: &mut PrimeHandle) -> Result<(), Errno> {
    let PassedFd::Foreign(fd) = cx.call.descriptor(args.fd)? else { return Err(Errno::EINVAL) };
    let bo = cx.device.memory.dmabufs.import(fd.as_fd())?;
    let known =
        cx.file.handles.lock().iter().find(|(_, handle)| Arc::ptr_eq(&handle.bo, &bo)).map(|(n, _)| *n);
    args.handle = match known {
        Some(number) => number,
        None => {
            let domains = domain_of(&bo);
            cx.file.handles.add(cx.file.id, bo, Created { domains, ..Created::default() })?
        }
    };
    Ok(())
}

fn domain_of(bo: &Bo) -> u64 {
    match bo.kind {
        BoKind::Vram => domain::VRAM,
        BoKind::Gtt | BoKind::Userptr | BoKind::Doorbell | BoKind::MmioRemap => domain::GTT,
    }
}

/// `amdgpu_gem_wait_idle_ioctl`. Nothing that DRM would wait for uses a buffer.
pub(super) fn wait_idle(cx: &Cx<'_>, args: &mut AmdgpuGemWaitIdle) -> Result<(), Errno> {
    let bo = cx.file.handles.bo(args.handle_or_status)?;
    let domain = u32::try_from(domain_of(&bo)).unwrap_or(0);
    *args = AmdgpuGemWaitIdle { handle_or_status: 0, flags_or_domain: domain, ..*args };
    Ok(())
}

/// `amdgpu_gem_op_ioctl`. Buffers stay where they are, so a placement cannot be set.
pub(super) fn op(cx: &Cx<'_>, args: &mut AmdgpuGemOp) -> Result<(), Errno> {
    let handles = cx.file.handles.lock();
    let handle = handles.get(&args.handle).ok_or(Errno::ENOENT)?;
    let Created { alignment, domains, flags } = handle.created;
    let answer = [handle.bo.size(), alignment, domains, flags];
    drop(handles);
    match args.op {
        gem_op::GET_CREATE_INFO => Ok(cx.call.mem().write(args.value, answer.as_bytes())?),
        _ => Err(Errno::EINVAL),
    }
}

/// `amdgpu_gem_metadata_ioctl`.
pub(super) fn metadata(cx: &Cx<'_>, args: &mut AmdgpuGemMetadata) -> Result<(), Errno> {
    let bo = cx.file.handles.bo(args.handle)?;
    match args.op {
        metadata_op::SET => {
            let len = args.data_size_bytes as usize;
            let data = args.data.as_bytes().get(..len).ok_or(Errno::EINVAL)?;
            *bo.metadata() = crate::server::memory::bo::Metadata {
                flags: args.flags,
                tiling: args.tiling_info,
                data: data.to_vec(),
            };
        }
        metadata_op::GET => {
            let metadata = bo.metadata();
            args.flags = metadata.flags;
            args.tiling_info = metadata.tiling;
            args.data_size_bytes = u32::try_from(metadata.data.len()).unwrap_or(0);
            for (to, from) in args.data.as_mut_bytes().iter_mut().zip(&metadata.data) {
                *to = *from;
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// `amdgpu_gem_va_ioctl`.
pub(super) fn va(cx: &Cx<'_>, args: &mut AmdgpuGemVa) -> Result<(), Errno> {
    let va = info::checked_va(args.va_address, args.map_size)?;
    if args.flags & !vm_page::KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let (bo, owner) = (cx.file.handles.bo(args.handle), MappingOwner::Gem(args.handle));
    match args.operation {
        va_op::MAP => map(cx, args, va, &bo?, owner, false),
        va_op::REPLACE => map(cx, args, va, &bo?, owner, true),
        va_op::UNMAP => {
            bo?;
            // amdgpu_vm_bo_unmap: the mapping of this buffer that starts there.
            match cx.file.vm.lookup(va) {
                Some(mapped) if mapped.va == va && mapped.owner == owner => {
                    cx.file.vm.unmap(va);
                    Ok(())
                }
                Some(_) | None => Err(Errno::ENOENT),
            }
        }
        va_op::CLEAR => {
            clear(cx, va, args.map_size);
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `amdgpu_vm_bo_clear_mappings`: whatever buffers of this file are mapped there.
fn clear(cx: &Cx<'_>, va: u64, len: u64) {
    for mapped in cx.file.vm.lookup_range(va, len) {
        if let MappingOwner::Gem(_) = mapped.owner {
            cx.file.vm.unmap_range(va, len, mapped.owner);
        }
    }
}

/// `amdgpu_vm_bo_map`, `amdgpu_vm_bo_replace_map`.
fn map(
    cx: &Cx<'_>,
    args: &AmdgpuGemVa,
    va: u64,
    bo: &Arc<Bo>,
    owner: MappingOwner,
    replace: bool,
) -> Result<(), Errno> {
    // amdgpu_vm_verify_parameters.
    let aligned = [va, args.offset_in_bo, args.map_size].iter().all(|value| value.is_multiple_of(PAGE_SIZE));
    let end = args.offset_in_bo.checked_add(args.map_size).ok_or(Errno::EINVAL)?;
    if !aligned || args.map_size == 0 || end > bo.size() {
        return Err(Errno::EINVAL);
    }
    let offset = usize::try_from(args.offset_in_bo).map_err(|_| Errno::EINVAL)?;
    let len = usize::try_from(args.map_size).map_err(|_| Errno::EINVAL)?;
    let mem = bo.mem.slice(offset, len).ok_or(Errno::EINVAL)?;
    let flags = MapFlags {
        writable: args.flags & vm_page::WRITEABLE != 0,
        executable: args.flags & vm_page::EXECUTABLE != 0,
    };
    if replace {
        clear(cx, va, args.map_size);
    }
    cx.file.vm.map(va, mem, flags, owner).map_err(|error| {
        log::debug!("GEM_VA: {error}");
        Errno::EINVAL
    })?;
    if let Some(handle) = cx.file.handles.lock().get_mut(&args.handle) {
        handle.mapped.retain(|other| *other != va);
        handle.mapped.push(va);
    }
    Ok(())
}
