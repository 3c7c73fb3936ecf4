//! What a debugger reads: exceptions with their data, queues, devices.

use protocol::Errno;
use protocol::kfd::constants::{EC_MASK_DEVICE, EC_MASK_PROCESS, EC_MASK_QUEUE, ExceptionCode};
use protocol::kfd::topology::NodeProperties;
use protocol::kfd::types::{
    DbgDeviceInfoEntry, DbgTrapDeviceSnapshotArgs, DbgTrapQueryExceptionInfoArgs, DbgTrapQueueSnapshotArgs,
    QueueSnapshotEntry,
};
use zerocopy::IntoBytes;

use crate::device::Device;
use crate::profile::GpuSpec;
use crate::server::dispatch::Cx;
use crate::server::process::ProcessState;

/// `kfd_dbg_trap_query_exception_info`.
pub(super) fn exception_info(
    cx: &Cx<'_>,
    target: &ProcessState,
    args: &mut DbgTrapQueryExceptionInfoArgs,
) -> Result<(), Errno> {
    if args.info_ptr == 0 {
        return Err(Errno::EINVAL);
    }
    let code = ExceptionCode(args.exception_code);
    let mask = code.mask().ok_or(Errno::EINVAL)?;
    let mut state = target.debug.lock();
    let runtime = state.runtime;
    let mut info: Vec<u8> = Vec::new();
    let mut copied = |bytes: &[u8], size: u32| {
        info.extend_from_slice(bytes);
        let len = bytes.len().min(size as usize);
        cx.call.mem().write(args.info_ptr, bytes.get(..len).unwrap_or(bytes))
    };
    let status = if mask & EC_MASK_QUEUE != 0 {
        if !target.has_queue(args.source_id) {
            return Err(Errno::EINVAL);
        }
        &mut state.queues.entry(args.source_id).or_default().exceptions
    } else if mask & EC_MASK_DEVICE != 0 {
        target.device.gpu(args.source_id).ok_or(Errno::EINVAL)?;
        let gpu = state.gpus.entry(args.source_id).or_default();
        if gpu.exceptions & mask != 0 && code == ExceptionCode::DEVICE_MEMORY_VIOLATION {
            if let Some(fault) = &gpu.fault {
                copied(fault.as_bytes(), args.info_size)?;
            }
            if args.clear_exception != 0 {
                gpu.fault = None;
            }
        }
        &mut gpu.exceptions
    } else if mask & EC_MASK_PROCESS != 0 {
        if state.process & mask != 0 && code == ExceptionCode::PROCESS_RUNTIME {
            copied(runtime.as_bytes(), args.info_size)?;
        }
        &mut state.process
    } else {
        return Err(Errno::EINVAL);
    };
    if *status & mask == 0 {
        return Err(Errno::ENODATA);
    }
    args.info_size = u32::try_from(info.len()).unwrap_or(u32::MAX);
    if args.clear_exception != 0 {
        *status &= !mask;
    }
    Ok(())
}

/// `pqm_get_queue_snapshot`.
pub(super) fn queue_snapshot(
    cx: &Cx<'_>,
    target: &ProcessState,
    args: &mut DbgTrapQueueSnapshotArgs,
) -> Result<(), Errno> {
    let (stride, room) = (args.entry_size, args.num_queues);
    args.num_queues = 0;
    if stride == 0 {
        return Err(Errno::EINVAL);
    }
    args.entry_size = stride.min(size_of::<QueueSnapshotEntry>() as u32);
    let mut addr = args.snapshot_buf_ptr;
    for mut entry in target.queue_entries() {
        if args.num_queues < room {
            if let Some(queue) = target.debug.lock().queues.get_mut(&entry.queue_id) {
                entry.exception_status = queue.exceptions;
                queue.exceptions &= !args.exception_mask;
            }
            write_entry(cx, addr, entry.as_bytes(), args.entry_size)?;
            addr = addr.wrapping_add(stride.into());
        }
        args.num_queues += 1;
    }
    Ok(())
}

/// `kfd_dbg_trap_device_snapshot`.
pub(super) fn device_snapshot(
    cx: &Cx<'_>,
    target: &ProcessState,
    args: &mut DbgTrapDeviceSnapshotArgs,
) -> Result<(), Errno> {
    if args.snapshot_buf_ptr == 0 {
        return Err(Errno::EINVAL);
    }
    let (stride, room) = (args.entry_size, args.num_devices as usize);
    args.num_devices = u32::try_from(target.device.gpus.len()).unwrap_or(u32::MAX);
    args.entry_size = stride.min(size_of::<DbgDeviceInfoEntry>() as u32);
    let mut addr = args.snapshot_buf_ptr;
    for gpu in target.device.gpus.iter().take(room) {
        let mut entry = device_entry(&target.device, &gpu.spec);
        if let Some(gpu) = target.debug.lock().gpus.get_mut(&entry.gpu_id) {
            entry.exception_status = gpu.exceptions;
            gpu.exceptions &= !args.exception_mask;
        }
        write_entry(cx, addr, entry.as_bytes(), args.entry_size)?;
        addr = addr.wrapping_add(stride.into());
    }
    Ok(())
}

fn write_entry(cx: &Cx<'_>, addr: u64, bytes: &[u8], size: u32) -> Result<(), Errno> {
    Ok(cx.call.mem().write(addr, bytes.get(..size as usize).unwrap_or(bytes))?)
}

/// The properties of a GPU's topology node.
pub(super) fn node_properties(device: &Device, spec: &GpuSpec) -> NodeProperties {
    let nodes = &device.machine.topology.nodes;
    nodes.iter().find(|node| node.id == spec.node).map(|node| node.properties).unwrap_or_default()
}

fn device_entry(device: &Device, spec: &GpuSpec) -> DbgDeviceInfoEntry {
    let node = node_properties(device, spec);
    let apertures = &spec.apertures;
    DbgDeviceInfoEntry {
        gpu_id: spec.gpu_id,
        lds_base: apertures.lds_base,
        lds_limit: apertures.lds_limit,
        scratch_base: apertures.scratch_base,
        scratch_limit: apertures.scratch_limit,
        gpuvm_base: apertures.gpuvm_base,
        gpuvm_limit: apertures.gpuvm_limit,
        location_id: spec.pci.location,
        vendor_id: spec.pci.vendor.into(),
        device_id: spec.pci.device.into(),
        revision_id: spec.pci.revision.into(),
        subsystem_vendor_id: spec.pci.subsystem_vendor.into(),
        subsystem_device_id: spec.pci.subsystem_device.into(),
        fw_version: spec.firmware.mec,
        gfx_target_version: spec.gfx.encode(),
        simd_count: node.simd_count,
        max_waves_per_simd: node.max_waves_per_simd,
        array_count: node.array_count,
        simd_arrays_per_engine: node.simd_arrays_per_engine,
        num_xcc: spec.shaders.xccs,
        capability: node.capability,
        ..DbgDeviceInfoEntry::default()
    }
}
