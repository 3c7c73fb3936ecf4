use protocol::hsakmt::{MemFlags, PointerType, Status};
use protocol::kfd::Ioctl;
use softgpu::{Kernel, Profile};

use super::super::vm::PAGE;
use super::kit::{CPU, GPU, GTT, Kit, Own, PAGED, SECOND, list, load, store};
use crate::engine::Options;

/// Both ways to register.
fn kits() -> [Kit; 2] {
    [Kit::new(Profile::Mi210), Kit::without_svm(Profile::Mi210)]
}

// Case M02.
#[test]
fn m02_an_address_inside_a_page_stays_one() {
    for kit in kits() {
        let own = Own::new(4);
        let at = own.address() + 100;
        let engine = &kit.engine;
        store(at, 0x11);
        assert_eq!(engine.register_memory(at, 5000), Ok(()));
        let gpu = engine.map_memory(at, 5000).unwrap();
        assert_eq!(gpu % PAGE, 100);
        let info = engine.pointer_info(at + 100).unwrap();
        assert_eq!({ info.type_ }, PointerType::REGISTERED_USER);
        assert_eq!(({ info.size_in_bytes }, { info.cpu_address }, { info.gpu_address }), (5000, at, gpu));
        assert!({ info.mem_flags }.coarse_grain());
        assert_eq!(list(info.mapped_nodes, info.n_mapped_nodes), [GPU]);
        assert_eq!(engine.map_memory(at, 4999), Err(Status::Error));
        assert_eq!(engine.unmap_memory(at), Ok(()));
        assert_eq!(engine.deregister_memory(own.address()), Err(Status::MemoryNotRegistered));
        assert_eq!(engine.deregister_memory(at), Ok(()));
        assert_eq!(engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
        assert_eq!(engine.pointer_info(at + 100), Err(Status::Error));
        assert_eq!(load(at), 0x11);
    }
}

#[test]
fn registrations_and_mappings_are_counted() {
    for kit in kits() {
        let own = Own::new(2);
        let (engine, at, size) = (&kit.engine, own.address(), 2 * PAGE);
        let before = kit.count();
        assert_eq!(engine.register_memory(at, size), Ok(()));
        assert_eq!(engine.register_memory(at, size), Ok(()));
        let first = engine.map_memory(at, size).unwrap();
        assert_eq!(engine.map_memory(at, size), Ok(first));
        assert_eq!(engine.unmap_memory(at), Ok(()));
        assert_eq!({ engine.pointer_info(at).unwrap().n_mapped_nodes }, 1);
        assert_eq!(engine.unmap_memory(at), Ok(()));
        assert_eq!({ engine.pointer_info(at).unwrap().n_mapped_nodes }, 0);
        assert_eq!(engine.deregister_memory(at), Ok(()));
        assert_eq!(engine.deregister_memory(at), Ok(()));
        assert_eq!(engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
        assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));
    }
}

// AMD's library finds neither of them by the address alone, and they stay until the end.
#[test]
fn overlapping_memory_can_be_taken_back() {
    for kit in kits() {
        let own = Own::new(2);
        let (engine, at) = (&kit.engine, own.address());
        let before = kit.count();
        assert_eq!(engine.register_memory(at, 2 * PAGE), Ok(()));
        assert_eq!(engine.register_memory(at, PAGE), Ok(()));
        let first = engine.map_memory(at, 2 * PAGE).unwrap();
        let second = engine.map_memory(at, PAGE).unwrap();
        assert_eq!(first != second, !kit.engine.machine().unwrap().svm);
        assert_eq!({ engine.pointer_info(at + PAGE).unwrap().size_in_bytes }, 2 * PAGE);
        assert_eq!(engine.deregister_memory(at), Ok(()), "mapped or not");
        assert_eq!({ engine.pointer_info(at).unwrap().size_in_bytes }, 2 * PAGE, "the later one went");
        assert_eq!(engine.deregister_memory(at), Ok(()));
        assert_eq!(engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
        assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));
    }
}

#[test]
fn flags_say_how_coherent_it_is() {
    for kit in kits() {
        let own = Own::new(1);
        let (engine, at) = (&kit.engine, own.address());
        let register = |flags| engine.register_memory_with_flags(at, PAGE, flags);
        for flags in [PAGED, PAGED | MemFlags::COARSE_GRAIN, PAGED | MemFlags::EXTENDED_COHERENT] {
            assert_eq!(register(flags), Ok(()), "{flags:?}");
            let told = { engine.pointer_info(at).unwrap().mem_flags };
            assert_eq!(told, flags.without(PAGED));
            assert_eq!(engine.deregister_memory(at), Ok(()));
        }
        assert_eq!(register(PAGED | MemFlags::NON_PAGED), Err(Status::NotSupported));
        assert_eq!(register(MemFlags::default()), Err(Status::NotSupported));
        let both = PAGED | MemFlags::COARSE_GRAIN | MemFlags::EXTENDED_COHERENT;
        assert_eq!(register(both), Err(Status::InvalidParameter));
    }
}

#[test]
fn memory_is_registered_for_nodes() {
    for kit in kits() {
        let own = Own::new(1);
        let (engine, at) = (&kit.engine, own.address());
        let register = |nodes: &[u32]| engine.register_memory_to_nodes(at, PAGE, nodes);
        assert_eq!(register(&[GPU]), Ok(()));
        let info = engine.pointer_info(at).unwrap();
        assert_eq!(list(info.registered_nodes, info.n_registered_nodes), [GPU]);
        assert_eq!(register(&[GPU]), Ok(()));
        assert_eq!(register(&[CPU]), Err(Status::MemoryAlreadyRegistered));
        assert_eq!(register(&[]), Err(Status::InvalidParameter));
        assert_eq!(register(&[9]), Err(Status::InvalidNodeUnit));
        assert!(engine.map_memory(at, PAGE).is_ok());
        assert_eq!(engine.unmap_memory(at), Ok(()));
        assert_eq!(engine.deregister_memory(at), Ok(()));
        assert_eq!(engine.deregister_memory(at), Ok(()), "twice, not three times");
        assert_eq!(engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
    }
}

#[test]
fn allocated_memory_can_be_bound_to_nodes() {
    let kit = Kit::new(Profile::Mi210);
    let (engine, at) = (&kit.engine, kit.alloc(CPU, PAGE, PAGED));
    assert_eq!(engine.register_memory(at, PAGE), Ok(()));
    assert_eq!(engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
    assert_eq!(engine.register_memory_to_nodes(at, PAGE, &[GPU]), Ok(()));
    assert_eq!(engine.deregister_memory(at), Ok(()));
    assert_eq!(engine.free_memory(at, PAGE), Ok(()));
}

// Cases S06 and L01.
#[test]
fn s06_absurd_ranges_are_refused() {
    for kit in kits() {
        let own = Own::new(1);
        let engine = &kit.engine;
        let before = kit.count();
        kit.record.calls();
        let wrapping = [
            (0xffff_ffff_ffff_0000, 0x8000_0000),
            (own.address(), u64::MAX),
            (own.address(), 0),
            (0, PAGE),
            (u64::MAX, 1),
        ];
        for (at, size) in wrapping {
            assert_eq!(engine.register_memory(at, size), Err(Status::Error), "{at:#x} {size:#x}");
        }
        assert_eq!(kit.record.calls(), [], "before KFD is asked");
        let unmapped = [
            (1, 1),
            (0x10000, PAGE),
            (0x00f0_0000_0000_0000, PAGE),
            (0xffff_8000_0000_0000, PAGE),
            (own.address(), 1 << 46),
        ];
        for (at, size) in unmapped {
            assert_eq!(engine.register_memory(at, size), Err(Status::Error), "{at:#x} {size:#x}");
            assert_eq!(engine.map_memory(at, size), Err(Status::Error));
            assert_eq!(engine.pointer_info(at), Err(Status::Error));
            assert_eq!(engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
        }
        assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));
    }
}

#[test]
fn svm_is_used_where_it_is_and_userptr_elsewhere() {
    let own = Own::new(1);
    let calls = |kit: &Kit| {
        kit.record.calls();
        kit.engine.register_memory(own.address(), PAGE).unwrap();
        let gpu = kit.engine.map_memory(own.address(), PAGE).unwrap();
        kit.engine.unmap_memory(own.address()).unwrap();
        kit.engine.free_memory(own.address(), PAGE).unwrap();
        (gpu == own.address(), kit.record.calls())
    };
    let userptr =
        [Ioctl::AllocMemoryOfGpu, Ioctl::MapMemoryToGpu, Ioctl::UnmapMemoryFromGpu, Ioctl::FreeMemoryOfGpu];
    let [with, without] = kits();
    let (same, made) = calls(&with);
    assert!(same);
    assert!(made.iter().all(|call| *call == Ioctl::Svm), "{made:?}");
    drop(with);
    let (same, made) = calls(&without);
    assert!(!same);
    assert_eq!(made, userptr);
}

#[test]
fn memory_can_be_checked_when_it_is_registered() {
    let options = Options { check_userptr: true, ..Options::default() };
    let kit = Kit::with(Profile::Mi210, Kernel::Linux6_12, options);
    let own = Own::new(2);
    assert_eq!(kit.engine.register_memory(own.address() + 5, PAGE), Ok(()));
    kit.record.calls();
    assert_eq!(kit.engine.register_memory(0x10000, PAGE), Err(Status::Error));
    assert_eq!(kit.record.calls(), []);
}

// Case M04.
#[test]
fn m04_threads_share_one_registration() {
    for kit in kits() {
        let own = Own::new(16);
        let (at, size) = (own.address(), 16 * PAGE);
        store(at, 0x77);
        let before = kit.count();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..60 {
                        assert_eq!(kit.engine.register_memory(at, size), Ok(()));
                        assert!(kit.engine.map_memory(at, size).is_ok());
                        assert_eq!(kit.engine.unmap_memory(at), Ok(()));
                        assert_eq!(kit.engine.deregister_memory(at), Ok(()));
                    }
                });
            }
        });
        assert_eq!(kit.engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
        assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));
        assert_eq!(load(at), 0x77);
    }
}

#[test]
fn a_list_that_names_a_node_again_has_it_once() {
    let kit = Kit::new(Profile::TwoGpu);
    let at = kit.alloc(CPU, PAGE, GTT);
    kit.engine.register_memory_to_nodes(at, PAGE, &[SECOND, GPU, SECOND, SECOND]).unwrap();
    let info = kit.engine.pointer_info(at).unwrap();
    assert_eq!(list(info.registered_nodes, info.n_registered_nodes), [SECOND, GPU]);
    kit.engine.deregister_memory(at).unwrap();
    kit.engine.free_memory(at, PAGE).unwrap();
}
