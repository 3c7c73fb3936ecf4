//! RUNTIME_ENABLE and DBG_TRAP of a process on itself, against `kfd_ioctl_set_debug_trap` and `kfd_debug.c` of
//! Linux 6.12.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::Duration;

use protocol::Errno;
use protocol::kfd::Call;
use protocol::kfd::args::{DbgTrapArgs, RuntimeEnableArgs};
use protocol::kfd::constants::{DbgTrapOp, ExceptionCode};
use protocol::kfd::ioctl::Ioctl;
use protocol::kfd::types::{
    DbgDeviceInfoEntry, DbgTrapDeviceSnapshotArgs, DbgTrapEnableArgs, DbgTrapQueryDebugEventArgs,
    DbgTrapQueryExceptionInfoArgs, DbgTrapSendRuntimeEventArgs, DbgTrapSetFlagsArgs,
    DbgTrapSetNodeAddressWatchArgs, RuntimeInfo,
};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::engine::{GpuFault, Interrupts};
use crate::local_mem::LocalCall;
use crate::server::rig::{Program, machine};
use crate::{Kernel, Profile, SoftGpu};

struct Debugged {
    gpu: SoftGpu,
    program: Program,
    pid: u32,
}

fn start(profile: Profile) -> Debugged {
    let gpu = machine(profile, Kernel::Linux6_12);
    let program = Program::start(&gpu);
    let pid = gpu.processes()[0].caller.pid;
    Debugged { gpu, program, pid }
}

fn address<T>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).expose_provenance() as u64
}

impl Debugged {
    fn trap<A>(&self, op: DbgTrapOp, args: &mut A) -> Result<i32, Errno>
    where
        A: FromBytes + IntoBytes + Immutable + KnownLayout,
    {
        let mut trap = DbgTrapArgs { pid: self.pid, op: op.0, body: [0; 24] };
        trap.body[..size_of::<A>()].copy_from_slice(args.as_bytes());
        let result = self.program.ioctl(Ioctl::DbgTrap, &mut trap);
        args.as_mut_bytes().copy_from_slice(&trap.body[..size_of::<A>()]);
        result
    }

    fn attach(&self, fd: i32, exceptions: u64) -> (Result<i32, Errno>, RuntimeInfo) {
        let mut info = RuntimeInfo::default();
        let mut args = DbgTrapEnableArgs {
            exception_mask: exceptions,
            rinfo_ptr: address(&mut info),
            rinfo_size: 16,
            dbg_fd: u32::from_ne_bytes(fd.to_ne_bytes()),
        };
        (self.trap(DbgTrapOp::ENABLE, &mut args), info)
    }

    fn runtime(&self, mode_mask: u32, call: &dyn Call) -> Result<i32, Errno> {
        let mut args = RuntimeEnableArgs { r_debug: 0xabc0, mode_mask, ..Default::default() };
        self.program.ioctl_with(Ioctl::RuntimeEnable, &mut args, call)
    }
}

fn mask(code: ExceptionCode) -> u64 {
    code.mask().expect("a code with a bit")
}

#[test]
fn runtime_is_enabled_once_and_disabled_as_often_as_one_likes() {
    // runtime_enable, runtime_disable.
    let process = start(Profile::Mi210);
    let call = LocalCall::new();
    assert_eq!(process.runtime(3, &call), Ok(0));
    assert_eq!(process.runtime(1, &call), Err(Errno::EBUSY));
    assert_eq!(process.runtime(0, &call), Ok(0));
    assert_eq!(process.runtime(0, &call), Ok(0));
    assert_eq!(process.runtime(1, &call), Ok(0));
}

#[test]
fn trap_calls_need_a_process_the_right_one_and_an_attached_debugger() {
    let process = start(Profile::Mi210);
    let other = Program::start(&process.gpu);
    let pid_of_other = process.gpu.processes().iter().map(|p| p.caller.pid).find(|pid| *pid != process.pid);
    let mut args = DbgTrapArgs { pid: 1, op: DbgTrapOp::DISABLE.0, body: [0; 24] };
    assert_eq!(process.program.ioctl(Ioctl::DbgTrap, &mut args), Err(Errno::ESRCH), "no KFD process");
    args.pid = pid_of_other.expect("there are two");
    assert_eq!(process.program.ioctl(Ioctl::DbgTrap, &mut args), Err(Errno::EPERM), "not traced");
    for op in 1..20 {
        args = DbgTrapArgs { pid: process.pid, op, body: [0; 24] };
        assert_eq!(process.program.ioctl(Ioctl::DbgTrap, &mut args), Err(Errno::EINVAL), "{op}");
    }
    drop(other);
}

#[test]
fn attaching_checks_the_descriptor_and_the_buffer_and_happens_once() {
    // kfd_dbg_trap_enable.
    let process = start(Profile::CpuOnly);
    assert_eq!(process.attach(-1, 0).0, Err(Errno::EBADF));
    let (_reader, writer) = std::io::pipe().expect("pipe");
    let mut bad = DbgTrapEnableArgs {
        rinfo_size: 16,
        dbg_fd: u32::try_from(writer.as_raw_fd()).expect("a descriptor"),
        ..Default::default()
    };
    assert_eq!(process.trap(DbgTrapOp::ENABLE, &mut bad), Err(Errno::EFAULT));
    let (result, info) = process.attach(writer.as_raw_fd(), 0);
    assert_eq!((result, info), (Ok(0), RuntimeInfo::default()));
    assert_eq!(process.attach(writer.as_raw_fd(), 0).0, Err(Errno::EALREADY));
    let mut event = DbgTrapQueryDebugEventArgs::default();
    assert_eq!(process.trap(DbgTrapOp::QUERY_DEBUG_EVENT, &mut event), Err(Errno::EAGAIN));
    assert_eq!(process.trap(DbgTrapOp::SET_FLAGS, &mut DbgTrapSetFlagsArgs::default()), Err(Errno::EPERM));
    assert_eq!(process.trap(DbgTrapOp::DISABLE, &mut [0_u8; 8]), Ok(0));
    assert_eq!(process.attach(writer.as_raw_fd(), 0).0, Ok(0), "and again after it was detached");
}

#[test]
fn runtime_waits_for_the_debugger_who_hears_of_it_through_the_descriptor() {
    let process = start(Profile::Mi210);
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let runtime = mask(ExceptionCode::PROCESS_RUNTIME);
    assert_eq!(process.attach(writer.as_raw_fd(), runtime).0, Ok(0));
    // A signal ends the wait (down_interruptible); the next call goes on waiting and raises nothing.
    let interrupted = LocalCall::new();
    interrupted.interrupt().fire();
    assert_eq!(process.runtime(1, &interrupted), Err(Errno::EINTR));
    let mut byte = [0; 1];
    reader.read_exact(&mut byte).expect("the debugger is told");
    assert_eq!(byte, *b".");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| process.runtime(1, &LocalCall::new()));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        let mut event = DbgTrapQueryDebugEventArgs { exception_mask: runtime, ..Default::default() };
        assert_eq!(process.trap(DbgTrapOp::QUERY_DEBUG_EVENT, &mut event), Ok(0));
        assert_eq!((event.exception_mask, event.queue_id, event.gpu_id), (runtime, 0, 0));
        assert_eq!(process.trap(DbgTrapOp::QUERY_DEBUG_EVENT, &mut event), Err(Errno::EAGAIN), "cleared");
        let mut answer = DbgTrapSendRuntimeEventArgs { exception_mask: runtime, ..Default::default() };
        assert_eq!(process.trap(DbgTrapOp::SEND_RUNTIME_EVENT, &mut answer), Ok(0));
        assert_eq!(waiting.join().expect("no panic"), Ok(0));
    });
}

#[test]
fn memory_violation_goes_to_the_debugger_with_its_data() {
    // kfd_set_dbg_ev_from_interrupt, kfd_dbg_trap_query_exception_info.
    let process = start(Profile::Mi210);
    let gpu_id = process.gpu.device().gpus[0].spec.gpu_id;
    let (_reader, writer) = std::io::pipe().expect("pipe");
    let violation = mask(ExceptionCode::DEVICE_MEMORY_VIOLATION);
    assert_eq!(process.attach(writer.as_raw_fd(), violation).0, Ok(0));
    let mut info = [0_u8; 32];
    let mut args = DbgTrapQueryExceptionInfoArgs {
        info_ptr: address(&mut info),
        info_size: 64,
        source_id: gpu_id,
        exception_code: ExceptionCode::DEVICE_MEMORY_VIOLATION.0,
        clear_exception: 1,
    };
    assert_eq!(process.trap(DbgTrapOp::QUERY_EXCEPTION_INFO, &mut args), Err(Errno::ENODATA));
    let fault = GpuFault { va: 0x1_2345_6789, write: false, not_present: true };
    process.gpu.processes()[0].memory_fault(gpu_id, fault);
    let mut event = DbgTrapQueryDebugEventArgs::default();
    assert_eq!(process.trap(DbgTrapOp::QUERY_DEBUG_EVENT, &mut event), Ok(0));
    assert_eq!((event.exception_mask, event.gpu_id), (violation, gpu_id));
    assert_eq!(process.trap(DbgTrapOp::QUERY_EXCEPTION_INFO, &mut args), Ok(0));
    assert_eq!(args.info_size, 32);
    assert_eq!(u64::from_le_bytes(info[16..24].try_into().expect("8")), 0x1_2345_6000);
    assert_eq!(process.trap(DbgTrapOp::QUERY_EXCEPTION_INFO, &mut args), Err(Errno::ENODATA), "cleared");
    args.source_id = 77;
    assert_eq!(process.trap(DbgTrapOp::QUERY_EXCEPTION_INFO, &mut args), Err(Errno::EINVAL));
    args.exception_code = 60;
    assert_eq!(process.trap(DbgTrapOp::QUERY_EXCEPTION_INFO, &mut args), Err(Errno::EINVAL));
}

#[test]
fn device_snapshot_tells_each_gpu() {
    // kfd_dbg_trap_device_snapshot.
    let process = start(Profile::TwoGpu);
    let (_reader, writer) = std::io::pipe().expect("pipe");
    assert_eq!(process.attach(writer.as_raw_fd(), 0).0, Ok(0));
    let mut entries = [DbgDeviceInfoEntry::new_zeroed(); 3];
    let mut args = DbgTrapDeviceSnapshotArgs {
        exception_mask: 0,
        snapshot_buf_ptr: address(&mut entries),
        num_devices: 3,
        entry_size: 128,
    };
    assert_eq!(process.trap(DbgTrapOp::GET_DEVICE_SNAPSHOT, &mut args), Ok(0));
    assert_eq!((args.num_devices, args.entry_size), (2, 128));
    let ids = entries.map(|entry| (entry.gpu_id, entry.gfx_target_version));
    let gpus = &process.gpu.device().gpus;
    assert_eq!(ids, [(gpus[0].spec.gpu_id, 90_010), (gpus[1].spec.gpu_id, 90_010), (0, 0)]);
    args.snapshot_buf_ptr = 0;
    assert_eq!(process.trap(DbgTrapOp::GET_DEVICE_SNAPSHOT, &mut args), Err(Errno::EINVAL));
}

#[test]
fn four_watch_points_of_a_gpu_can_be_set() {
    // MAX_WATCH_ADDRESSES, kfd_dbg_get_dev_watch_id.
    let process = start(Profile::Mi210);
    let (_reader, writer) = std::io::pipe().expect("pipe");
    assert_eq!(process.runtime(1, &LocalCall::new()), Ok(0));
    assert_eq!(process.attach(writer.as_raw_fd(), 0).0, Ok(0));
    let gpu_id = process.gpu.device().gpus[0].spec.gpu_id;
    let mut args = DbgTrapSetNodeAddressWatchArgs { gpu_id: 5, ..Default::default() };
    assert_eq!(process.trap(DbgTrapOp::SET_NODE_ADDRESS_WATCH, &mut args), Err(Errno::ENODEV));
    args.gpu_id = gpu_id;
    for id in 0..4 {
        assert_eq!(process.trap(DbgTrapOp::SET_NODE_ADDRESS_WATCH, &mut args), Ok(0));
        assert_eq!(args.id, id);
    }
    assert_eq!(process.trap(DbgTrapOp::SET_NODE_ADDRESS_WATCH, &mut args), Err(Errno::ENOMEM));
    let mut clear = [gpu_id, 2];
    assert_eq!(process.trap(DbgTrapOp::CLEAR_NODE_ADDRESS_WATCH, &mut clear), Ok(0));
    assert_eq!(process.trap(DbgTrapOp::CLEAR_NODE_ADDRESS_WATCH, &mut clear), Err(Errno::EINVAL));
    clear[1] = 4;
    assert_eq!(process.trap(DbgTrapOp::CLEAR_NODE_ADDRESS_WATCH, &mut clear), Err(Errno::EINVAL));
}
