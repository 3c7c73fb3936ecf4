//! RUNTIME_ENABLE and DBG_TRAP (`kfd_debug.c`, `kfd_ioctl_set_debug_trap`).
//!
//! What needs no executed instructions is there: attaching, exceptions, snapshots, launch settings, watch
//! points. A process can debug itself, as the kernel allows; another one it cannot, because the device does not
//! see who traces whom (`EPERM`, as without ptrace).

mod query;
mod runtime;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::PassedFd;
use protocol::kfd::args::DbgTrapArgs;
use protocol::kfd::constants::{
    DbgTrapFlags, DbgTrapOp, DbgTrapOverride, ExceptionCode, RuntimeState, WaveLaunchMode,
};
use protocol::kfd::types::{
    DbgTrapClearNodeAddressWatchArgs, DbgTrapEnableArgs, DbgTrapQueryDebugEventArgs,
    DbgTrapSendRuntimeEventArgs, DbgTrapSetExceptionsEnabledArgs, DbgTrapSetFlagsArgs,
    DbgTrapSetNodeAddressWatchArgs, DbgTrapSetWaveLaunchModeArgs, DbgTrapSetWaveLaunchOverrideArgs,
    RuntimeInfo,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(super) use runtime::runtime_enable;
pub(crate) use state::Debug;
use state::{News, State, WATCH_POINTS};

use super::dispatch::Cx;
use super::process::ProcessState;

/// Operations that need an enabled runtime.
const NEED_RUNTIME: [DbgTrapOp; 7] = [
    DbgTrapOp::SET_WAVE_LAUNCH_OVERRIDE,
    DbgTrapOp::SET_WAVE_LAUNCH_MODE,
    DbgTrapOp::SUSPEND_QUEUES,
    DbgTrapOp::RESUME_QUEUES,
    DbgTrapOp::SET_NODE_ADDRESS_WATCH,
    DbgTrapOp::CLEAR_NODE_ADDRESS_WATCH,
    DbgTrapOp::SET_FLAGS,
];

/// `kfd_ioctl_set_debug_trap`.
pub(super) fn debug_trap(cx: &Cx<'_>, args: &mut DbgTrapArgs) -> Result<(), Errno> {
    let target = cx.process.device.process_by_pid(args.pid).ok_or(Errno::ESRCH)?;
    if !Arc::ptr_eq(&target, cx.process) {
        return Err(Errno::EPERM);
    }
    let op = DbgTrapOp(args.op);
    {
        let state = target.debug.lock();
        if op != DbgTrapOp::ENABLE && state.attached.is_none() {
            return Err(Errno::EINVAL);
        }
        if NEED_RUNTIME.contains(&op) && state.runtime.runtime_state != RuntimeState::ENABLED.0 {
            return Err(Errno::EPERM);
        }
    }
    let body = &mut args.body;
    match op {
        DbgTrapOp::ENABLE => with(body, |a| attach(cx, &target, a)),
        DbgTrapOp::DISABLE => {
            target.debug.lock().detach();
            Ok(())
        }
        DbgTrapOp::SEND_RUNTIME_EVENT => with(body, |a| send_runtime_event(&target, a)),
        DbgTrapOp::SET_EXCEPTIONS_ENABLED => with(body, |a: &mut DbgTrapSetExceptionsEnabledArgs| {
            target.debug.lock().enable_exceptions(a.exception_mask);
            Ok(())
        }),
        DbgTrapOp::SET_WAVE_LAUNCH_OVERRIDE => with(body, |a| set_launch_override(&target, a)),
        DbgTrapOp::SET_WAVE_LAUNCH_MODE => with(body, set_launch_mode),
        DbgTrapOp::SET_NODE_ADDRESS_WATCH => with(body, |a| set_watch(&target, a)),
        DbgTrapOp::CLEAR_NODE_ADDRESS_WATCH => with(body, |a| clear_watch(&target, a)),
        DbgTrapOp::SET_FLAGS => with(body, |a| set_flags(&target, a)),
        DbgTrapOp::QUERY_DEBUG_EVENT => with(body, |a| query_event(&target, a)),
        DbgTrapOp::QUERY_EXCEPTION_INFO => with(body, |a| query::exception_info(cx, &target, a)),
        DbgTrapOp::GET_QUEUE_SNAPSHOT => with(body, |a| query::queue_snapshot(cx, &target, a)),
        DbgTrapOp::GET_DEVICE_SNAPSHOT => with(body, |a| query::device_snapshot(cx, &target, a)),
        DbgTrapOp::SUSPEND_QUEUES | DbgTrapOp::RESUME_QUEUES => {
            log::warn!("DBG_TRAP operation {} (suspend and resume of queues) is not supported", op.0);
            Err(Errno::EOPNOTSUPP)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Runs `handler` on the operation's own struct, which is the first part of the union.
fn with<A: FromBytes + IntoBytes + Immutable + KnownLayout>(
    body: &mut [u8; 24],
    handler: impl FnOnce(&mut A) -> Result<(), Errno>,
) -> Result<(), Errno> {
    const { assert!(size_of::<A>() <= 24, "a member of the union") };
    let mut args = A::new_zeroed();
    for (to, from) in args.as_mut_bytes().iter_mut().zip(body.iter()) {
        *to = *from;
    }
    let result = handler(&mut args);
    for (to, from) in body.iter_mut().zip(args.as_bytes()) {
        *to = *from;
    }
    result
}

/// `kfd_dbg_trap_enable`.
fn attach(cx: &Cx<'_>, target: &ProcessState, args: &mut DbgTrapEnableArgs) -> Result<(), Errno> {
    let mut state = target.debug.lock();
    if state.attached.is_some() {
        return Err(Errno::EALREADY);
    }
    // The kernel takes any number; one that is no descriptor has no file.
    let number = i32::try_from(args.dbg_fd).map_err(|_| Errno::EBADF)?;
    let news = match cx.call.descriptor(number)? {
        PassedFd::Foreign(fd) => News(Some(fd)),
        // Nothing can be written to a device node.
        PassedFd::File(_) => News(None),
    };
    let info = state.runtime;
    let len = (args.rinfo_size as usize).min(size_of::<RuntimeInfo>());
    args.rinfo_size = size_of::<RuntimeInfo>() as u32;
    let bytes = info.as_bytes();
    cx.call.mem().write(args.rinfo_ptr, bytes.get(..len).unwrap_or(bytes))?;
    state.attached = Some(news);
    state.enabled = args.exception_mask;
    Ok(())
}

/// `kfd_dbg_send_exception_to_runtime`: what the debugger leaves to the runtime.
fn send_runtime_event(target: &ProcessState, args: &mut DbgTrapSendRuntimeEventArgs) -> Result<(), Errno> {
    let mask = |code: ExceptionCode| code.mask().unwrap_or(0);
    let mut rest = args.exception_mask;
    if rest & mask(ExceptionCode::DEVICE_MEMORY_VIOLATION) != 0 {
        target.device.gpu(args.gpu_id).ok_or(Errno::ENODEV)?;
        let fault = target.debug.lock().gpus.get(&args.gpu_id).and_then(|gpu| gpu.fault);
        target.events.memory_exception(fault.unwrap_or_default());
        rest &= !mask(ExceptionCode::DEVICE_MEMORY_VIOLATION);
    }
    if rest & mask(ExceptionCode::PROCESS_RUNTIME) != 0 {
        target.debug.runtime_answer.up();
        rest &= !mask(ExceptionCode::PROCESS_RUNTIME);
    }
    if rest != 0 {
        target.send_queue_exception(args.queue_id, rest);
    }
    Ok(())
}

/// `kfd_dbg_trap_set_wave_launch_override`.
fn set_launch_override(
    target: &ProcessState,
    args: &mut DbgTrapSetWaveLaunchOverrideArgs,
) -> Result<(), Errno> {
    /// What gfx9 and gfx11 can trap on: floating point, integer division, watch points, memory violations
    /// (`kgd_gfx_aldebaran_validate_trap_override_request` and its kin).
    const SUPPORTED: u32 = 0x1ff;
    let request = args.support_request_mask;
    if target.device.gpus.is_empty() {
        args.support_request_mask = u32::MAX;
        return Ok(());
    }
    args.support_request_mask = SUPPORTED;
    if !matches!(DbgTrapOverride(args.override_mode), DbgTrapOverride::OR | DbgTrapOverride::REPLACE) {
        return Err(Errno::EPERM);
    }
    if request & !SUPPORTED != 0 {
        return Err(Errno::EACCES);
    }
    let mut state = target.debug.lock();
    let before = state.trap_mask;
    state.trap_mask = (before & !request) | (args.enable_mask & request);
    args.enable_mask = before;
    Ok(())
}

/// `kfd_dbg_trap_set_wave_launch_mode`. Nothing launches waves yet, so nothing remembers the mode.
fn set_launch_mode(args: &mut DbgTrapSetWaveLaunchModeArgs) -> Result<(), Errno> {
    // The kernel's function takes eight bits of it.
    match WaveLaunchMode(args.launch_mode & 0xff) {
        WaveLaunchMode::NORMAL | WaveLaunchMode::HALT | WaveLaunchMode::DEBUG => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// `kfd_dbg_trap_set_dev_address_watch`.
fn set_watch(target: &ProcessState, args: &mut DbgTrapSetNodeAddressWatchArgs) -> Result<(), Errno> {
    target.device.gpu(args.gpu_id).ok_or(Errno::ENODEV)?;
    let mut state = target.debug.lock();
    let gpu = state.gpus.entry(args.gpu_id).or_default();
    args.id = u32::MAX;
    let free = (0..WATCH_POINTS).find(|id| gpu.watch_points & 1 << id == 0).ok_or(Errno::ENOMEM)?;
    gpu.watch_points |= 1 << free;
    args.id = free;
    Ok(())
}

/// `kfd_dbg_trap_clear_dev_address_watch`.
fn clear_watch(target: &ProcessState, args: &mut DbgTrapClearNodeAddressWatchArgs) -> Result<(), Errno> {
    target.device.gpu(args.gpu_id).ok_or(Errno::ENODEV)?;
    let mut state = target.debug.lock();
    let gpu = state.gpus.entry(args.gpu_id).or_default();
    let bit = 1_u32.checked_shl(args.id).filter(|_| args.id < WATCH_POINTS).ok_or(Errno::EINVAL)?;
    if gpu.watch_points & bit == 0 {
        return Err(Errno::EINVAL);
    }
    gpu.watch_points &= !bit;
    Ok(())
}

/// `kfd_dbg_trap_set_flags`: the flags before come back.
fn set_flags(target: &ProcessState, args: &mut DbgTrapSetFlagsArgs) -> Result<(), Errno> {
    /// `HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED`.
    const PRECISE_MEMORY: u32 = 1 << 18;
    /// `HSA_CAP_TRAP_DEBUG_PRECISE_ALU_OPERATIONS_SUPPORTED`.
    const PRECISE_ALU: u32 = 1 << 30;
    for gpu in &target.device.gpus {
        let capability = query::node_properties(&target.device, &gpu.spec).capability;
        let lacks = |flag: DbgTrapFlags, cap: u32| args.flags & flag.0 != 0 && capability & cap == 0;
        if lacks(DbgTrapFlags::SINGLE_MEM_OP, PRECISE_MEMORY)
            || lacks(DbgTrapFlags::SINGLE_ALU_OP, PRECISE_ALU)
        {
            return Err(Errno::EACCES);
        }
    }
    let state = &mut *target.debug.lock();
    std::mem::swap(&mut state.flags, &mut args.flags);
    Ok(())
}

/// `kfd_dbg_ev_query_debug_event`.
fn query_event(target: &ProcessState, args: &mut DbgTrapQueryDebugEventArgs) -> Result<(), Errno> {
    let clear = args.exception_mask;
    let found = target.debug.lock().take_event(clear);
    (args.exception_mask, args.queue_id, args.gpu_id) = found.unwrap_or_default();
    if found.is_some() { Ok(()) } else { Err(Errno::EAGAIN) }
}

/// The state of a process that ends.
pub(super) fn exit(process: &ProcessState) {
    let state: &mut State = &mut process.debug.lock();
    state.detach();
}
