//! Cases M25 and M28: each system call and each call of KFD fails once at each point. Nothing is left behind, and the
//! next call works.

use protocol::hsakmt::{MemFlags, Status};
use softgpu::{Kernel, Profile};

use super::super::vm::{PAGE, fault};
use super::kit::{CPU, GPU, GTT, Kit, Own, PAGED, VISIBLE, VRAM};
use crate::engine::{Options, Result};

/// Runs `act` with the failure at each point until none is left. It gives back what it took.
fn at_each_point(kit: &Kit, name: &str, act: impl Fn() -> Result<()>) {
    act().unwrap_or_else(|status| panic!("{name} works: {status}"));
    // One chunk of addresses stays for the next buffers.
    let warm = kit.alloc(GPU, PAGE, VRAM);
    kit.engine.free_memory(warm, PAGE).unwrap();
    let before = kit.count();
    let mut failures = 0;
    for at in 0.. {
        kit.plan.fail_at(at);
        let done = act();
        let fired = kit.plan.stop();
        assert_eq!(kit.count(), before, "{name}: call {at} failed and something is left");
        failures += u32::from(done.is_err() || fired);
        if !fired {
            break;
        }
    }
    for at in 0.. {
        fault::fail_at(at);
        let done = act();
        let fired = fault::stop();
        assert_eq!(kit.count(), before, "{name}: mapping {at} failed and something is left");
        if let Err(status) = done {
            assert!(matches!(status, Status::NoMemory | Status::Error), "{name}: {status}");
        }
        failures += u32::from(fired);
        if !fired {
            break;
        }
    }
    assert!(failures > 0, "{name}: nothing was made to fail");
    act().unwrap_or_else(|status| panic!("{name} works again: {status}"));
}

fn whole_life(kit: &Kit, node: u32, size: u64, flags: MemFlags) -> Result<()> {
    let at = kit.engine.alloc_memory(node, size, 0, flags)?;
    let mapped = kit.engine.map_memory(at, size).map(|_| ());
    if mapped.is_ok() {
        kit.engine.unmap_memory(at).expect("it is mapped");
    }
    kit.engine.free_memory(at, size).expect("it is not mapped");
    mapped
}

#[test]
fn allocation_of_every_kind() {
    let kit = Kit::new(Profile::TwoGpu);
    let kinds = [
        ("vram", GPU, VRAM),
        ("visible vram", GPU, VISIBLE),
        ("gtt", CPU, GTT),
        ("paged", CPU, PAGED),
        ("a ring", CPU, GTT | MemFlags::AQL_QUEUE_MEMORY),
    ];
    for (name, node, flags) in kinds {
        at_each_point(&kit, name, || whole_life(&kit, node, 2 << 20, flags));
    }
    at_each_point(&kit, "addresses", || {
        let at = kit.engine.alloc_memory(GPU, PAGE, 0, VRAM | MemFlags::ONLY_ADDRESS)?;
        kit.engine.free_memory(at, PAGE)
    });
    at_each_point(&kit, "numbers", || {
        let at = kit.engine.alloc_memory(GPU, PAGE, 0, VRAM | MemFlags::NO_ADDRESS)?;
        kit.engine.free_memory(at, PAGE)
    });
}

#[test]
fn scratch() {
    let kit = Kit::new(Profile::Mi210);
    at_each_point(&kit, "scratch", || {
        let at = kit.engine.alloc_memory(GPU, 1 << 20, 0, VRAM | MemFlags::SCRATCH)?;
        let mapped = kit.engine.map_memory(at, 64 << 10).map(|_| ());
        kit.engine.free_memory(at, 1 << 20)?;
        mapped
    });
}

#[test]
fn registration() {
    for kit in [Kit::new(Profile::Mi210), Kit::without_svm(Profile::Mi210)] {
        let own = Own::new(3);
        let at = own.address() + 5;
        at_each_point(&kit, "registration", || {
            kit.engine.register_memory(at, 2 * PAGE)?;
            let mapped = kit.engine.map_memory(at, 2 * PAGE).map(|_| ());
            kit.engine.deregister_memory(at).expect("it is registered");
            mapped
        });
    }
}

#[test]
fn sharing() {
    let kit = Kit::with(Profile::Mi210, Kernel::Rocm, Options::default());
    let at = kit.alloc(GPU, PAGE, VISIBLE);
    let (fd, _) = kit.engine.export_dmabuf(at, PAGE).unwrap();
    let number = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&fd)).unwrap();
    for nodes in [&[GPU][..], &[]] {
        at_each_point(&kit, "a dma-buf", || {
            let info = kit.engine.register_graphics_handle_to_nodes(number, nodes, 0)?;
            kit.engine.deregister_memory(info.memory_address)
        });
    }
    at_each_point(&kit, "export", || kit.engine.export_dmabuf(at, PAGE).map(|_| ()));
    at_each_point(&kit, "a handle", || {
        let handle = kit.engine.share_memory(at, PAGE)?;
        let (other, _) = kit.engine.register_shared_handle(&handle, None)?;
        kit.engine.deregister_memory(other)
    });
    at_each_point(&kit, "how much there is", || kit.engine.available_memory(GPU).map(|_| ()));
}

#[test]
fn event_page() {
    let kit = Kit::new(Profile::Mi210);
    at_each_point(&kit, "the event page", || {
        let page = kit.engine.alloc_event_page(32 << 10)?;
        kit.engine.unmap_memory(page.address).expect("it is mapped");
        kit.engine.free_memory(page.address, 0)
    });
}

#[test]
fn setting_up() {
    for at in 0.. {
        let kit = Kit::raw(Profile::TwoGpu, Kernel::Linux6_12, Options::default());
        kit.plan.fail_at(at);
        let done = kit.engine.acquire_system_properties();
        let fired = kit.plan.stop();
        kit.engine.release_system_properties().unwrap();
        assert!(kit.engine.acquire_system_properties().is_ok(), "call {at} failed, and the next try too");
        assert_eq!(whole_life(&kit, GPU, PAGE, VRAM), Ok(()));
        if !fired {
            assert!(done.is_ok());
            assert!(at > 5);
            break;
        }
    }
    for at in 0.. {
        let kit = Kit::raw(Profile::TwoGpu, Kernel::Linux6_12, Options::default());
        fault::fail_at(at);
        let _ = kit.engine.acquire_system_properties();
        let fired = fault::stop();
        assert!(kit.engine.acquire_system_properties().is_ok());
        if !fired {
            break;
        }
    }
}
