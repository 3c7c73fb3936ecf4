//! From an ioctl number to its handler (`kfd_ioctl`).

use protocol::Errno;
use protocol::kfd::constants::{MMAP_TYPE_MASK, MmapOffset, MmapType};
use protocol::kfd::ioctl::{Family, Ioctl};
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{Call, Caller, Mapping};

use super::process::ProcessState;
use super::{debug, events, memory, misc, queues, smi};
use crate::device::Device;
use crate::kernel::Kernel;

/// What a handler works with.
pub(crate) struct Cx<'a> {
    /// The process that calls.
    pub(crate) process: &'a std::sync::Arc<ProcessState>,
    /// Its memory and descriptors during this call.
    pub(crate) call: &'a dyn Call,
}

/// The ioctl with number `nr`, if the imitated kernel has it.
///
/// # Errors
/// `ENOTTY` for a number outside the kernel's table.
pub(crate) fn select(device: &Device, nr: u8) -> Result<Ioctl, Errno> {
    let family = device.family();
    let ioctl = Ioctl::from_nr(nr, family).ok_or(Errno::ENOTTY)?;
    let (_, minor) = device.kernel.kfd_version();
    // The out-of-tree driver carries all of its own numbers whatever minor version it reports.
    if family == Family::Rocm || ioctl.exists_in(family, minor) { Ok(ioctl) } else { Err(Errno::ENOTTY) }
}

/// Whether `caller` has the privileges that the ioctl wants (`KFD_IOC_FLAG_CHECKPOINT_RESTORE`).
///
/// # Errors
/// `EACCES` where it has not.
pub(crate) fn permitted(caller: &Caller, ioctl: Ioctl) -> Result<(), Errno> {
    if ioctl == Ioctl::CriuOp && !caller.privileged { Err(Errno::EACCES) } else { Ok(()) }
}

/// Runs the handler of `ioctl` on the argument bytes of a request.
pub(crate) fn run(cx: &Cx<'_>, ioctl: Ioctl, args: &mut [u8]) -> Result<i32, Errno> {
    match ioctl {
        Ioctl::GetVersion => with(args, |a| misc::get_version(cx, a)),
        Ioctl::GetClockCounters => with(args, |a| misc::get_clock_counters(cx, a)),
        Ioctl::GetTileConfig => with(args, |a| misc::get_tile_config(cx, a)),
        Ioctl::SetTrapHandler => with(args, |a| misc::set_trap_handler(cx, a)),
        Ioctl::SetXnackMode => with(args, |a| misc::set_xnack_mode(cx, a)),
        Ioctl::DbgRegisterDeprecated
        | Ioctl::DbgUnregisterDeprecated
        | Ioctl::DbgAddressWatchDeprecated
        | Ioctl::DbgWaveControlDeprecated => misc::deprecated_debugger(),
        Ioctl::RuntimeEnable => with(args, |a| debug::runtime_enable(cx, a)),
        Ioctl::DbgTrap => with(args, |a| debug::debug_trap(cx, a)),
        Ioctl::SmiEvents => with(args, |a| smi::smi_events(cx, a)),
        Ioctl::CreateEvent => with(args, |a| events::create(cx, a)),
        Ioctl::DestroyEvent => with(args, |a| events::destroy(cx, a)),
        Ioctl::SetEvent => with(args, |a| events::set(cx, a)),
        Ioctl::ResetEvent => with(args, |a| events::reset(cx, a)),
        Ioctl::WaitEvents => with(args, |a| events::wait(cx, a)),
        Ioctl::GetProcessApertures => with(args, |a| memory::apertures(cx, a)),
        Ioctl::GetProcessAperturesNew => with(args, |a| memory::apertures_new(cx, a)),
        Ioctl::AcquireVm => with(args, |a| memory::acquire_vm(cx, a)),
        Ioctl::SetMemoryPolicy => with(args, |a| memory::set_memory_policy(cx, a)),
        Ioctl::SetScratchBackingVa => with(args, |a| memory::set_scratch_backing_va(cx, a)),
        Ioctl::AllocMemoryOfGpu => with(args, |a| memory::alloc_memory(cx, a)),
        Ioctl::FreeMemoryOfGpu => with(args, |a| memory::free_memory(cx, a)),
        Ioctl::MapMemoryToGpu => with(args, |a| memory::map_memory(cx, a)),
        Ioctl::UnmapMemoryFromGpu => with(args, |a| memory::unmap_memory(cx, a)),
        Ioctl::AvailableMemory => with(args, |a| memory::available_memory(cx, a)),
        Ioctl::Svm => memory::svm(cx, args),
        Ioctl::GetDmabufInfo => with(args, |a| memory::get_dmabuf_info(cx, a)),
        Ioctl::ImportDmabuf => with(args, |a| memory::import_dmabuf(cx, a)),
        Ioctl::ExportDmabuf => with(args, |a| memory::export_dmabuf(cx, a)),
        Ioctl::CreateQueue => with(args, |a| queues::create(cx, a)),
        Ioctl::DestroyQueue => with(args, |a| queues::destroy(cx, a)),
        Ioctl::UpdateQueue => with(args, |a| queues::update(cx, a)),
        Ioctl::SetCuMask => with(args, |a| queues::set_cu_mask(cx, a)),
        Ioctl::GetQueueWaveState => with(args, |a| queues::get_wave_state(cx, a)),
        Ioctl::AllocQueueGws => with(args, |a| queues::alloc_gws(cx, a)),
        Ioctl::IpcExportHandle => with(args, |a| memory::ipc_export(cx, a)),
        Ioctl::IpcImportHandle => with(args, |a| memory::ipc_import(cx, a)),
        Ioctl::CriuOp => with(args, misc::criu),
        Ioctl::Profiler => with(args, misc::profiler),
        Ioctl::RocmProfiler => with(args, misc::rocm_profiler),
        Ioctl::CrossMemoryCopy | Ioctl::RlcSpm | Ioctl::PcSample | Ioctl::AisOp => misc::unsupported(ioctl),
        // Secondary contexts; runtimes take EINVAL for "not there".
        Ioctl::CreateProcess | Ioctl::RocmCreateProcess => Err(Errno::EINVAL),
    }
}

/// Runs `handler` on the struct that stands at the start of `bytes`. What the request is too short for reads as
/// zero and is not written back; what it has more is left alone.
pub(super) fn with<A: UapiStruct + Default>(
    bytes: &mut [u8],
    handler: impl FnOnce(&mut A) -> Result<(), Errno>,
) -> Result<i32, Errno> {
    let mut args = A::default();
    for (to, from) in args.as_mut_bytes().iter_mut().zip(bytes.iter()) {
        *to = *from;
    }
    let result = handler(&mut args);
    for (to, from) in bytes.iter_mut().zip(args.as_bytes()) {
        *to = *from;
    }
    result.map(|()| 0)
}

/// `kfd_mmap`: what stands at `offset` of `/dev/kfd` for this process.
///
/// The kernel encodes the kind of mapping in the two highest bits of the offset. Those of the software GPU are
/// also reachable at their place in the backing file, which is what its calls give out, so that a program under
/// the launcher maps the file itself.
///
/// # Errors
/// `EINVAL` and `ENODEV` as the kernel has them for the kind.
pub(crate) fn kfd_mmap(process: &ProcessState, offset: u64, len: u64) -> Result<Mapping, Errno> {
    if offset & MMAP_TYPE_MASK == MmapType::EVENTS.0 {
        return match process.device.kernel {
            Kernel::Linux7_3 => Err(Errno::EINVAL),
            Kernel::Linux6_12 | Kernel::Rocm => process.events.mmap(len),
        };
    }
    if let Some(mapping) = process.events.mmap_at(offset, len) {
        return mapping;
    }
    if let Some(mapping) = queues::mmap(process, offset, len) {
        return mapping;
    }
    if let Some(gpu) = memory::mmio_at(&process.device, offset) {
        return memory::mmio_mapping(gpu, len);
    }
    // KFD_MMAP_TYPE_MMIO is zero: the kernel's own offsets name the GPU only.
    match (MmapOffset(offset).kind(), process.device.gpu(MmapOffset(offset).gpu_id())) {
        (MmapType::MMIO, Some(gpu)) => memory::mmio_mapping(gpu, len),
        _ => Err(Errno::ENODEV),
    }
}
