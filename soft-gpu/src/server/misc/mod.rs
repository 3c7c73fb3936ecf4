//! Calls without a subject of their own.

#[cfg(test)]
mod tests;

use protocol::Errno;
use protocol::kfd::args::{
    CriuArgs, GetClockCountersArgs, GetTileConfigArgs, GetVersionArgs, ProfilerArgs, RocmProfilerArgs,
    SetTrapHandlerArgs, SetXnackModeArgs,
};
use protocol::kfd::constants::{CriuOp, PROFILER_VERSION, ProfilerOp};
use protocol::kfd::ioctl::Ioctl;
use rustix::time::ClockId;
use zerocopy::IntoBytes;

use super::dispatch::Cx;
use crate::device::clock_ns;

/// `kfd_ioctl_get_version`.
pub(super) fn get_version(cx: &Cx<'_>, args: &mut GetVersionArgs) -> Result<(), Errno> {
    (args.major_version, args.minor_version) = cx.process.device.kernel.kfd_version();
    Ok(())
}

/// `kfd_ioctl_get_clock_counters`: an unknown GPU has a counter that stands at 0.
pub(super) fn get_clock_counters(cx: &Cx<'_>, args: &mut GetClockCountersArgs) -> Result<(), Errno> {
    args.gpu_clock_counter = cx.process.device.gpu(args.gpu_id).map_or(0, |gpu| gpu.clock_counter());
    args.cpu_clock_counter = clock_ns(ClockId::MonotonicRaw);
    args.system_clock_counter = clock_ns(ClockId::Boottime);
    args.system_clock_freq = 1_000_000_000;
    Ok(())
}

/// `kfd_ioctl_get_tile_config`. The tables of tile modes are there for all GPUs, with 32 and 16 entries
/// (`amdgpu_amdkfd_get_tile_config`), and hold nothing on gfx9 and later.
pub(super) fn get_tile_config(cx: &Cx<'_>, args: &mut GetTileConfigArgs) -> Result<(), Errno> {
    let gpu = cx.process.device.gpu(args.gpu_id).ok_or(Errno::EINVAL)?;
    args.gb_addr_config = gpu.spec.drm.gb_addr_config;
    args.num_banks = 0;
    args.num_ranks = 0;
    write_table::<32>(cx, args.tile_config_ptr, &mut args.num_tile_configs)?;
    write_table::<16>(cx, args.macro_tile_config_ptr, &mut args.num_macro_tile_configs)
}

fn write_table<const ENTRIES: usize>(cx: &Cx<'_>, addr: u64, count: &mut u32) -> Result<(), Errno> {
    let table = [0_u32; ENTRIES];
    let wanted = table.get(..*count as usize).unwrap_or(&table);
    *count = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
    cx.call.mem().write(addr, wanted.as_bytes()).inspect_err(|_| *count = 0)?;
    Ok(())
}

/// `kfd_ioctl_set_trap_handler`: `ESRCH` before ACQUIRE_VM. The driver does not look at the addresses, and
/// nothing executes instructions yet that would use them.
pub(super) fn set_trap_handler(cx: &Cx<'_>, args: &mut SetTrapHandlerArgs) -> Result<(), Errno> {
    cx.process.device.gpu(args.gpu_id).ok_or(Errno::EINVAL)?;
    cx.process.memory.vm(args.gpu_id).map(|_| ()).map_err(|_| Errno::ESRCH)
}

/// `kfd_ioctl_set_xnack_mode`. Without a GPU that has shared virtual memory the call is not there at all
/// (`CONFIG_HSA_AMD_SVM`, as in the kernel that the machine without GPU is compared with).
pub(super) fn set_xnack_mode(cx: &Cx<'_>, args: &mut SetXnackModeArgs) -> Result<(), Errno> {
    if !cx.process.device.has_svm() {
        return Err(Errno::EPERM);
    }
    if args.xnack_enabled < 0 {
        args.xnack_enabled = i32::from(cx.process.xnack());
        return Ok(());
    }
    if cx.process.has_queues() {
        return Err(Errno::EBUSY);
    }
    let wanted = args.xnack_enabled != 0;
    if wanted && !cx.process.device.gpus.iter().all(|gpu| gpu.spec.features.xnack) {
        return Err(Errno::EPERM);
    }
    cx.process.set_xnack(wanted);
    Ok(())
}

/// The debugger calls of old kernels (`kfd_ioctl_dbg_register` and its kin): nothing but `EPERM`.
pub(super) fn deprecated_debugger() -> Result<i32, Errno> {
    Err(Errno::EPERM)
}

/// `kfd_ioctl_criu`. Nothing is saved or restored; an unknown operation is `EINVAL` as in the driver.
pub(super) fn criu(args: &mut CriuArgs) -> Result<(), Errno> {
    if args.op > CriuOp::RESUME.0 {
        return Err(Errno::EINVAL);
    }
    log::warn!("CRIU_OP {} is not supported", args.op);
    Err(Errno::EOPNOTSUPP)
}

/// PROFILER of Linux 7.3: tells its version. There are no performance counters to lock.
pub(super) fn profiler(args: &mut ProfilerArgs) -> Result<(), Errno> {
    profiler_op(args.op, &mut args.body)
}

/// PROFILER of ROCm's driver.
pub(super) fn rocm_profiler(args: &mut RocmProfilerArgs) -> Result<(), Errno> {
    profiler_op(args.op, &mut args.body)
}

fn profiler_op(op: u32, body: &mut [u8]) -> Result<(), Errno> {
    if op != ProfilerOp::VERSION.0 {
        log::warn!("PROFILER operation {op} is not supported");
        return Err(Errno::EOPNOTSUPP);
    }
    for (to, from) in body.iter_mut().zip(PROFILER_VERSION.to_le_bytes()) {
        *to = from;
    }
    Ok(())
}

/// A call of the imitated kernel that the software GPU does not have.
pub(super) fn unsupported(ioctl: Ioctl) -> Result<i32, Errno> {
    log::warn!("{} is not supported", ioctl.name());
    Err(Errno::EOPNOTSUPP)
}
