use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use protocol::kfd::constants::RuntimeCaps;
use softgpu::{Kernel, Profile};
use zerocopy::FromBytes;

use super::*;
use crate::engine::rig;
use crate::engine::testing;

#[test]
fn debugging_is_supported_where_firmware_and_kernel_are() {
    assert_eq!(rig::engine(Profile::Mi210).check_runtime_debug_support(), Ok(()));
    assert_eq!(rig::engine(Profile::CpuOnly).check_runtime_debug_support(), Ok(()), "no GPU, no firmware");
    let old = testing::engine_of_minor(Profile::Mi210, 12);
    assert_eq!(old.check_runtime_debug_support(), Err(Status::NotSupported));
    assert_eq!(old.runtime_enable(0, false), Err(Status::NotSupported));
    assert_eq!(old.runtime_disable(), Err(Status::NotSupported));
}

#[test]
fn one_gpu_with_old_firmware_is_enough_to_have_no_support() {
    let mut machine = Profile::TwoGpu.machine(Kernel::Linux6_12);
    let last = machine.topology.nodes.last_mut().expect("a GPU");
    last.properties.capability &= !(1 << 29);
    let engine = testing::engine_of_machine(machine);
    assert_eq!(engine.check_runtime_debug_support(), Err(Status::NotSupported));
}

#[test]
fn the_runtime_is_enabled_once() {
    let engine = rig::engine(Profile::Mi210);
    assert_eq!(engine.runtime_enable(0x1000, true), Ok(()));
    assert_eq!(engine.runtime_enable(0x1000, true), Err(Status::Unavailable));
    assert_eq!(engine.runtime_disable(), Ok(()));
    assert_eq!(engine.runtime_disable(), Ok(()), "KFD does not mind");
    assert_eq!(engine.runtime_enable(0, false), Ok(()));
    assert_eq!(engine.runtime_capabilities(), 0, "this kernel says nothing");
}

/// An engine whose RUNTIME_ENABLE is answered by `answer`.
fn answered(
    mut answer: impl FnMut(&mut RuntimeEnableArgs) -> core::result::Result<i32, Errno> + Send + 'static,
) -> Engine {
    testing::engine_answered(Profile::Mi210, Kernel::Linux6_12, move |nr, bytes| {
        let ours = nr == u32::from(Ioctl::RuntimeEnable.nr());
        ours.then(|| answer(RuntimeEnableArgs::mut_from_bytes(bytes).expect("the struct")))
    })
}

#[test]
fn what_kfd_is_told_and_tells() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let engine = answered(move |args| {
        seen.lock().expect("no panic").push((args.r_debug, args.mode_mask));
        args.capabilities_mask = RuntimeCaps::SUPPORTS_CORE_DUMP.0;
        Ok(0)
    });
    engine.runtime_enable(0x1234, true).unwrap();
    engine.runtime_enable(0x5678, false).unwrap();
    assert_eq!(engine.runtime_capabilities(), 1 << 31);
    engine.close();
    assert_eq!(engine.runtime_capabilities(), 1 << 31);
    engine.runtime_disable().unwrap();
    assert_eq!(*calls.lock().unwrap(), [(0x1234, 3), (0x5678, 1), (0, 0)]);
}

#[test]
fn refusals_have_amds_status() {
    let cases = [
        (Errno::EBUSY, Status::Unavailable),
        (Errno::EEXIST, Status::Error),
        (Errno::EPERM, Status::Error),
        (Errno::EBADF, Status::Error),
    ];
    for (errno, status) in cases {
        let engine = answered(move |_| Err(errno));
        assert_eq!(engine.runtime_enable(0, true), Err(status), "{errno}");
        assert_eq!(engine.runtime_disable(), Err(Status::Error), "{errno}");
        assert_eq!(engine.runtime_capabilities(), 0);
    }
}

/// RUNTIME_ENABLE waits until the debugger has answered; everything else goes on meanwhile (kfd-on-hardware 30).
#[test]
fn nothing_waits_for_a_debuggers_answer_but_the_call() {
    let go = Arc::new(AtomicBool::new(false));
    let (entered, may_leave) = (Arc::new(AtomicBool::new(false)), Arc::clone(&go));
    let inside = Arc::clone(&entered);
    let engine = testing::engine_watched(Profile::Mi210, Kernel::Linux6_12, move |nr| {
        if nr == u32::from(Ioctl::RuntimeEnable.nr()) {
            inside.store(true, Ordering::SeqCst);
            while !may_leave.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    });
    std::thread::scope(|scope| {
        let enabling = scope.spawn(|| engine.runtime_enable(0, false));
        while !entered.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert_eq!(engine.check_runtime_debug_support(), Ok(()));
        assert_eq!(engine.runtime_capabilities(), 0);
        assert_eq!(engine.debug_register(1), Err(Status::Error));
        assert!(!enabling.is_finished());
        go.store(true, Ordering::SeqCst);
        assert_eq!(enabling.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn the_old_debugger_calls_are_refused_by_the_kernel() {
    let engine = rig::engine(Profile::Mi210);
    for node in [0, 1] {
        assert_eq!(engine.debug_register(node), Err(Status::Error));
        assert_eq!(engine.debug_unregister(node), Err(Status::Error));
    }
    assert_eq!(engine.debug_register(2), Err(Status::InvalidNodeUnit));
    assert_eq!(engine.debug_unregister(u32::MAX), Err(Status::InvalidNodeUnit));
}
