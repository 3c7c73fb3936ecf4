use protocol::hsakmt::{MemFlags, Status};
use protocol::kfd::Ioctl;
use softgpu::Profile;

use super::super::vm::PAGE;
use super::kit::{CPU, GPU, GTT, Kit, PAGED, SECOND, VRAM, list};

fn mapped(kit: &Kit, at: u64) -> Vec<u32> {
    let info = kit.engine.pointer_info(at).unwrap();
    list(info.mapped_nodes, info.n_mapped_nodes)
}

fn registered(kit: &Kit, at: u64) -> Vec<u32> {
    let info = kit.engine.pointer_info(at).unwrap();
    list(info.registered_nodes, info.n_registered_nodes)
}

#[test]
fn memory_is_mapped_to_the_nodes_of_the_call() {
    let kit = Kit::new(Profile::Mi210);
    let at = kit.alloc(CPU, PAGE, PAGED);
    let map = |at, nodes: &[u32]| kit.engine.map_memory_to_nodes(at, PAGE, 0, nodes);
    assert_eq!(map(at, &[GPU]), Ok(0));
    kit.record.calls();
    assert_eq!(map(at, &[GPU]), Ok(0));
    assert_eq!(kit.record.calls(), [], "it is mapped");
    assert_eq!(mapped(&kit, at), [GPU]);
    assert_eq!(map(at, &[CPU]), Err(Status::Error));
    assert_eq!(map(at, &[7]), Err(Status::InvalidNodeUnit));
    assert_eq!(map(at, &[]), Err(Status::InvalidParameter));
    assert_eq!(map(0, &[GPU]), Err(Status::Error));
    assert_eq!(map(0x10000, &[GPU]), Err(Status::Error));
    assert_eq!(mapped(&kit, at), [GPU]);
    assert_eq!(kit.engine.unmap_memory(at), Ok(()));
    assert!(mapped(&kit, at).is_empty());
    assert_eq!(kit.engine.map_memory(at, PAGE), Ok(0));
    assert_eq!(kit.engine.map_memory(at, PAGE), Ok(0));
    assert_eq!(kit.engine.unmap_memory(at), Ok(()), "memory of KFD is mapped or not");
    assert!(mapped(&kit, at).is_empty());
    assert_eq!(kit.engine.free_memory(at, PAGE), Ok(()));
    assert_eq!(kit.engine.map_memory(0x10000, PAGE), Err(Status::Error));
    assert_eq!(kit.engine.map_memory(0, PAGE), Err(Status::Error));
    assert_eq!(kit.engine.unmap_memory(0x10000), Err(Status::Error));
    assert_eq!(kit.engine.unmap_memory(0), Ok(()));
}

#[test]
fn the_nodes_of_a_call_replace_those_of_before() {
    let kit = Kit::new(Profile::TwoGpu);
    let at = kit.alloc(CPU, PAGE, GTT);
    let map = |nodes: &[u32]| kit.engine.map_memory_to_nodes(at, PAGE, 0, nodes);
    assert_eq!(kit.engine.map_memory(at, PAGE), Ok(0));
    assert_eq!(mapped(&kit, at), [GPU, SECOND], "all");
    assert_eq!(map(&[SECOND]), Ok(0));
    assert_eq!(mapped(&kit, at), [SECOND]);
    assert_eq!(map(&[GPU, SECOND]), Ok(0));
    assert_eq!(mapped(&kit, at), [SECOND, GPU]);
    assert_eq!(kit.engine.unmap_memory(at), Ok(()));
    assert_eq!(kit.engine.register_memory_to_nodes(at, PAGE, &[GPU]), Ok(()));
    assert_eq!(registered(&kit, at), [GPU]);
    assert_eq!(map(&[SECOND]), Err(Status::Error), "it is registered for the other");
    assert_eq!(kit.engine.map_memory(at, PAGE), Ok(0));
    assert_eq!(mapped(&kit, at), [GPU]);
    assert_eq!(kit.engine.unmap_memory(at), Ok(()));
    assert_eq!(kit.engine.deregister_memory(at), Ok(()));
    assert!(registered(&kit, at).is_empty());
    assert_eq!(kit.engine.deregister_memory(at), Err(Status::MemoryNotRegistered));
    assert_eq!(kit.engine.free_memory(at, PAGE), Ok(()));
}

#[test]
fn memory_of_a_gpu_is_mapped_to_those_that_reach_it() {
    let kit = Kit::new(Profile::TwoGpu);
    for (node, order) in [(GPU, [GPU, SECOND]), (SECOND, [SECOND, GPU])] {
        let at = kit.alloc(node, PAGE, VRAM);
        assert_eq!(kit.engine.map_memory(at, PAGE), Ok(0));
        assert_eq!(mapped(&kit, at), order);
        kit.engine.unmap_memory(at).unwrap();
        kit.engine.free_memory(at, PAGE).unwrap();
    }
}

#[test]
fn lists_that_a_program_was_told_stay() {
    let kit = Kit::new(Profile::TwoGpu);
    let at = kit.alloc(CPU, PAGE, GTT);
    kit.engine.map_memory(at, PAGE).unwrap();
    let first = kit.engine.pointer_info(at).unwrap();
    kit.engine.unmap_memory(at).unwrap();
    kit.engine.free_memory(at, PAGE).unwrap();
    assert_eq!(list(first.mapped_nodes, first.n_mapped_nodes), [GPU, SECOND]);
    let other = kit.alloc(CPU, PAGE, GTT);
    kit.engine.map_memory(other, PAGE).unwrap();
    assert_eq!({ kit.engine.pointer_info(other).unwrap().mapped_nodes }, { first.mapped_nodes });
}

#[test]
fn user_data_is_kept_with_the_buffer() {
    let kit = Kit::new(Profile::Mi210);
    let at = kit.alloc(CPU, 2 * PAGE, PAGED);
    let told = |at: u64| kit.engine.pointer_info(at).unwrap().user_data;
    assert_eq!(told(at), 0);
    assert_eq!(kit.engine.set_memory_user_data(at, 0x1234), Ok(()));
    assert_eq!(told(at + PAGE + 5), 0x1234);
    assert_eq!(kit.engine.set_memory_user_data(0x10000, 1), Err(Status::Error));
    assert_eq!(kit.engine.set_memory_user_data(at + PAGE, 1), Err(Status::Error));
    for outside in [0, at - 1, at + 2 * PAGE, u64::MAX] {
        assert_eq!(kit.engine.pointer_info(outside), Err(Status::Error));
    }
}

#[test]
fn a_mapping_that_fails_half_way_is_taken_back() {
    let kit = Kit::new(Profile::TwoGpu);
    let at = kit.alloc(CPU, PAGE, GTT);
    // A CPU in the list: KFD refuses it after the GPU before it.
    kit.engine.register_memory_to_nodes(at, PAGE, &[GPU, CPU]).unwrap();
    assert_eq!(kit.engine.map_memory(at, PAGE), Err(Status::Error));
    assert!(mapped(&kit, at).is_empty());
    assert_eq!(kit.engine.free_memory(at, PAGE), Ok(()), "nothing is mapped");
}

#[test]
fn other_threads_are_not_in_the_way() {
    let kit = Kit::new(Profile::Mi210);
    let before = kit.record.alive().buffers;
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let kit = &kit;
            scope.spawn(move || {
                for round in 0..50u64 {
                    let (node, flags) = match thread % 4 {
                        0 => (GPU, VRAM),
                        1 => (CPU, PAGED),
                        2 => (CPU, GTT),
                        _ => (GPU, VRAM | MemFlags::HOST_ACCESS),
                    };
                    let size = (1 + round % 7) * PAGE;
                    let at = kit.alloc(node, size, flags);
                    kit.engine.map_memory(at, size).unwrap();
                    assert_eq!({ kit.engine.pointer_info(at + size - 1).unwrap().gpu_address }, at);
                    kit.engine.unmap_memory(at).unwrap();
                    kit.engine.free_memory(at, size).unwrap();
                }
            });
        }
    });
    assert_eq!(kit.record.alive().buffers, before);
    let frees = kit.record.calls().iter().filter(|call| **call == Ioctl::FreeMemoryOfGpu).count();
    assert_eq!(frees, 400);
}

// Whoever frees first wins, the others are told that there is nothing.
#[test]
fn memory_is_freed_by_one_thread() {
    let kit = Kit::new(Profile::Mi210);
    for _ in 0..50 {
        let at = kit.alloc(GPU, PAGE, VRAM);
        let freed: usize = std::thread::scope(|scope| {
            let free = || usize::from(kit.engine.free_memory(at, PAGE).is_ok());
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(free)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(freed, 1);
    }
}
