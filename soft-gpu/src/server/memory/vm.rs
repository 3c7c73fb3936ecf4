//! What a process is told about the address space of a GPU, and how it gets one: apertures, ACQUIRE_VM,
//! SET_MEMORY_POLICY, SET_SCRATCH_BACKING_VA.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::Errno;
use protocol::kfd::PassedFd;
use protocol::kfd::args::{
    AcquireVmArgs, GetProcessAperturesArgs, GetProcessAperturesNewArgs, SetMemoryPolicyArgs,
    SetScratchBackingVaArgs,
};
use protocol::kfd::constants::CachePolicy;
use protocol::kfd::types::ProcessDeviceApertures;
use zerocopy::IntoBytes;

use crate::device::{Device, Gpu};
use crate::server::dispatch::Cx;
use crate::server::drm::DrmFile;

/// `kfd_ioctl_acquire_vm`: from now on the page tables of that render node file are the process's on this GPU.
pub(crate) fn acquire_vm(cx: &Cx<'_>, args: &mut AcquireVmArgs) -> Result<(), Errno> {
    let passed = cx.call.descriptor(args.drm_fd.cast_signed()).map_err(|_| Errno::EINVAL)?;
    if let PassedFd::File(id) = passed
        && cx.process.device.files.get(id).is_none()
    {
        return Err(Errno::EINVAL);
    }
    let mut state = cx.process.memory.lock();
    let index = state.gpu_index(args.gpu_id)?;
    let drm = render_file(&cx.process.device, &passed);
    let gpu = state.gpus.get_mut(index).ok_or(Errno::EINVAL)?;
    if let Some(acquired) = &gpu.drm {
        let same = drm.is_some_and(|drm| Arc::ptr_eq(&drm, acquired));
        return if same { Ok(()) } else { Err(Errno::EBUSY) };
    }
    // amdgpu_file_to_fpriv: not a file of this driver.
    let drm = drm.ok_or(Errno::EINVAL)?;
    // amdgpu_amdkfd_gpuvm_acquire_process_vm: already a compute VM, of whatever process, for good.
    if drm.compute.swap(true, Ordering::AcqRel) {
        return Err(Errno::EINVAL);
    }
    gpu.drm = Some(drm);
    Ok(())
}

fn render_file(device: &Device, passed: &PassedFd) -> Option<Arc<DrmFile>> {
    match passed {
        PassedFd::File(id) => device.files.render(*id),
        PassedFd::Foreign(_) => None,
    }
}

fn describe(gpu: &Gpu) -> ProcessDeviceApertures {
    let apertures = &gpu.spec.apertures;
    ProcessDeviceApertures {
        lds_base: apertures.lds_base,
        lds_limit: apertures.lds_limit,
        scratch_base: apertures.scratch_base,
        scratch_limit: apertures.scratch_limit,
        gpuvm_base: apertures.gpuvm_base,
        gpuvm_limit: apertures.gpuvm_limit,
        gpu_id: gpu.spec.gpu_id,
        pad: 0,
    }
}

/// `kfd_ioctl_get_process_apertures`: at most as many GPUs as the struct has room for.
pub(crate) fn apertures(cx: &Cx<'_>, args: &mut GetProcessAperturesArgs) -> Result<(), Errno> {
    args.num_of_nodes = 0;
    for (entry, gpu) in args.process_apertures.iter_mut().zip(&cx.process.device.gpus) {
        // The kernel leaves the padding as it came.
        *entry = ProcessDeviceApertures { pad: entry.pad, ..describe(gpu) };
        args.num_of_nodes += 1;
    }
    Ok(())
}

/// `kfd_ioctl_get_process_apertures_new`. `num_of_nodes` 0 asks for the number of GPUs.
pub(crate) fn apertures_new(cx: &Cx<'_>, args: &mut GetProcessAperturesNewArgs) -> Result<(), Errno> {
    let device = &cx.process.device;
    let gpus = u32::try_from(device.gpus.len()).unwrap_or(u32::MAX);
    if args.num_of_nodes == 0 {
        args.num_of_nodes = gpus;
        return Ok(());
    }
    // Compared with all nodes, those of CPUs too (`kfd_topology_get_num_devices`).
    if args.num_of_nodes as usize > device.node_count() {
        return Err(Errno::EINVAL);
    }
    args.num_of_nodes = args.num_of_nodes.min(gpus);
    let list: Vec<ProcessDeviceApertures> =
        device.gpus.iter().take(args.num_of_nodes as usize).map(|gpu| describe(gpu)).collect();
    if !list.is_empty() {
        cx.call.mem().write(args.kfd_process_device_apertures_ptr, list.as_bytes())?;
    }
    Ok(())
}

/// `kfd_ioctl_set_memory_policy`. From gfx9 on the policies mean nothing to the hardware
/// (`set_cache_memory_policy_v9`); they are checked all the same.
pub(crate) fn set_memory_policy(cx: &Cx<'_>, args: &mut SetMemoryPolicyArgs) -> Result<(), Errno> {
    let known = [CachePolicy::COHERENT, CachePolicy::NONCOHERENT];
    if !known.contains(&CachePolicy(args.default_policy))
        || !known.contains(&CachePolicy(args.alternate_policy))
    {
        return Err(Errno::EINVAL);
    }
    let state = cx.process.memory.lock();
    let index = state.gpu_index(args.gpu_id)?;
    state.bound(index).map(|_| ()).map_err(|_| Errno::ESRCH)
}

/// `kfd_ioctl_set_scratch_backing_va`. The address reaches the hardware only where the driver schedules queues
/// itself (`KFD_SCHED_POLICY_NO_HWS`); from gfx9 on the program tells it the waves.
pub(crate) fn set_scratch_backing_va(cx: &Cx<'_>, args: &mut SetScratchBackingVaArgs) -> Result<(), Errno> {
    let state = cx.process.memory.lock();
    let index = state.gpu_index(args.gpu_id)?;
    state.bound(index).map(drop)
}
