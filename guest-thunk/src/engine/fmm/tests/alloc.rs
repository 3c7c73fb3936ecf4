use protocol::hsakmt::{HeapType, MemFlags, PointerType, Status};
use protocol::kfd::Ioctl;
use softgpu::{Kernel, Profile};

use super::super::vm::{PAGE, is_readable};
use super::kit::{CPU, GPU, GTT, Kit, PAGED, Shape, VISIBLE, VRAM, load, store};
use crate::engine::Options;

/// Allocates, looks, maps, looks, unmaps, frees.
fn life(kit: &Kit, node: u32, size: u64, flags: MemFlags) -> u64 {
    let before = kit.count().1;
    let at = kit.alloc(node, size, flags);
    if flags.host_access() {
        store(at, 0x3c);
        store(at + size - 1, 0x3d);
        assert_eq!((load(at), load(at + size - 1)), (0x3c, 0x3d));
    } else {
        assert!(!is_readable(at, 1));
    }
    assert_eq!(kit.engine.map_memory(at, size), Ok(0));
    let info = kit.engine.pointer_info(at + size - 1).unwrap();
    assert_eq!({ info.type_ }, PointerType::ALLOCATED);
    assert_eq!(({ info.gpu_address }, { info.cpu_address }, { info.mem_flags }), (at, at, flags));
    assert_eq!(kit.engine.free_memory(at, size), Err(Status::Error), "it is mapped");
    assert_eq!(kit.engine.unmap_memory(at), Ok(()));
    assert_eq!(kit.engine.unmap_memory(at), Ok(()), "nothing is mapped");
    assert_eq!(kit.engine.free_memory(at, size), Ok(()));
    assert_eq!(kit.engine.free_memory(at, size), Err(Status::MemoryNotRegistered));
    assert_eq!(kit.engine.pointer_info(at), Err(Status::Error));
    assert_eq!(kit.count().1, before);
    info.size_in_bytes
}

#[test]
fn every_kind_of_memory_lives_and_dies() {
    let kit = Kit::new(Profile::Mi210);
    let paged = [
        PAGED,
        PAGED | MemFlags::COARSE_GRAIN,
        PAGED | MemFlags::EXECUTE_ACCESS,
        PAGED | MemFlags::UNCACHED,
        PAGED | MemFlags::EXTENDED_COHERENT,
        PAGED | MemFlags::NO_NUMA_BIND,
    ];
    for flags in paged {
        assert_eq!(life(&kit, CPU, PAGE, flags), PAGE);
        assert_eq!(life(&kit, GPU, 3 * PAGE, flags), 3 * PAGE, "paged memory of a GPU node is the system's");
    }
    assert_eq!(life(&kit, CPU, PAGE, GTT), PAGE);
    assert_eq!(life(&kit, CPU, 5 << 20, GTT | MemFlags::UNCACHED), 5 << 20);
    assert_eq!(life(&kit, GPU, PAGE, GTT | MemFlags::GTT_ACCESS), PAGE);
    assert_eq!(life(&kit, GPU, PAGE, VRAM), PAGE);
    assert_eq!(life(&kit, GPU, 64 << 10, VRAM.with(MemFlags::PAGE_SIZE, 1)), 64 << 10);
    assert_eq!(life(&kit, GPU, 2 << 20, VRAM | MemFlags::READ_ONLY), 2 << 20);
    assert_eq!(life(&kit, GPU, PAGE, VRAM | MemFlags::CONTIGUOUS), PAGE);
    assert_eq!(life(&kit, GPU, 2 * PAGE, VISIBLE), 2 * PAGE);
    assert_eq!(life(&kit, GPU, PAGE, VRAM | MemFlags::AQL_QUEUE_MEMORY), 2 * PAGE);
    assert_eq!(life(&kit, CPU, PAGE, PAGED | MemFlags::AQL_QUEUE_MEMORY), 2 * PAGE);
}

#[test]
fn a_ring_for_aql_is_there_twice() {
    let kit = Kit::new(Profile::Mi210);
    for node in [CPU, GPU] {
        let at = kit.alloc(node, PAGE, GTT | MemFlags::AQL_QUEUE_MEMORY);
        store(at + 12, 0x34);
        assert_eq!(load(at + PAGE + 12), 0x34, "node {node}");
        kit.engine.free_memory(at, PAGE).unwrap();
    }
}

#[test]
fn memory_goes_where_it_was_asked_for() {
    let kit = Kit::new(Profile::Mi210);
    let node = |at: u64| kit.engine.pointer_info(at).unwrap().node;
    assert_eq!(node(kit.alloc(CPU, PAGE, GTT)), CPU);
    assert_eq!(node(kit.alloc(GPU, PAGE, PAGED)), GPU);
    assert_eq!(node(kit.alloc(GPU, PAGE, GTT | MemFlags::GTT_ACCESS)), CPU);
    assert_eq!(node(kit.alloc(GPU, PAGE, VRAM)), GPU);
    let before = kit.engine.available_memory(GPU).unwrap();
    let at = kit.alloc(GPU, 64 << 20, VRAM);
    assert_eq!(kit.engine.available_memory(GPU), Ok(before - (64 << 20)));
    kit.engine.free_memory(at, 0).unwrap();
    assert_eq!(kit.engine.available_memory(GPU), Ok(before));
    assert_eq!(kit.engine.available_memory(CPU), Err(Status::Error));
    assert_eq!(kit.engine.available_memory(7), Err(Status::InvalidNodeUnit));
}

#[test]
fn what_cannot_be_is_refused_before_kfd_is_asked() {
    let kit = Kit::new(Profile::Mi210);
    let alloc = |node, size, align, flags| kit.engine.alloc_memory(node, size, align, flags);
    let invalid = Err(Status::InvalidParameter);
    for size in [0, 1, PAGE + 1] {
        assert_eq!(alloc(CPU, size, 0, PAGED), invalid);
    }
    assert_eq!(alloc(CPU, PAGE, 0, PAGED.with(MemFlags::PAGE_SIZE, 1)), invalid);
    assert_eq!(alloc(CPU, PAGE, 1, PAGED), invalid);
    assert_eq!(alloc(CPU, PAGE, 3 * PAGE, PAGED), invalid);
    assert_eq!(alloc(9, PAGE, 0, PAGED), Err(Status::InvalidNodeUnit));
    assert_eq!(alloc(u32::MAX, PAGE, 0, PAGED), Err(Status::InvalidNodeUnit));
    assert_eq!(alloc(CPU, PAGE, 0, PAGED | MemFlags::FIXED_ADDRESS), invalid);
    assert_eq!(alloc(GPU, PAGE, 0, VRAM | MemFlags::COARSE_GRAIN | MemFlags::UNCACHED), invalid);
    assert_eq!(alloc(GPU, PAGE, 0, VRAM | MemFlags::ONLY_ADDRESS | MemFlags::NO_ADDRESS), invalid);
    assert_eq!(alloc(GPU, PAGE, PAGE, VRAM | MemFlags::SCRATCH), Err(Status::NotImplemented));
    assert_eq!(kit.engine.free_memory(0, PAGE), Err(Status::Error));
    assert_eq!(kit.engine.free_memory(0x10000, PAGE), Err(Status::MemoryNotRegistered));
    assert_eq!(kit.record.calls(), []);
}

// Case M01.
#[test]
fn m01_sizes_above_4_gib() {
    let kit = Kit::new(Profile::Mi210);
    for size in [0xffff_f000, 0x1_0000_0000, 0x1_0000_1000] {
        let at = kit.alloc(GPU, size, VRAM);
        assert_eq!({ kit.engine.pointer_info(at + size - 1).unwrap().size_in_bytes }, size);
        kit.engine.free_memory(at, size).unwrap();
    }
    let before = kit.count();
    for size in [65521 << 20, 1 << 40, 1 << 46, 0x7fff_ffff_f000, 0xffff_ffff_ffff_f000] {
        for flags in [VRAM, VRAM | MemFlags::AQL_QUEUE_MEMORY] {
            assert_eq!(kit.engine.alloc_memory(GPU, size, 0, flags), Err(Status::NoMemory), "{size:#x}");
        }
    }
    for size in [1 << 46, 0x7fff_ffff_f000, 0xffff_ffff_ffff_f000] {
        assert_eq!(kit.engine.alloc_memory(CPU, size, 0, PAGED), Err(Status::NoMemory), "{size:#x}");
        assert_eq!(kit.engine.alloc_memory(CPU, size, 0, GTT), Err(Status::NoMemory), "{size:#x}");
    }
    assert_eq!(kit.count().0, before.0);
    assert_eq!(kit.count().1, before.1);
}

// Case L01.
#[test]
fn l01_fixed_addresses_that_no_gpu_reaches() {
    let kit = Kit::new(Profile::Mi210);
    let fixed = |at, flags| kit.engine.alloc_memory_at(GPU, PAGE, 0, flags | MemFlags::FIXED_ADDRESS, at);
    for at in [1 << 48, 1 << 56, 0xffff_8000_0000_0000, 0x1234] {
        assert_eq!(fixed(at, VRAM), Err(Status::NoMemory));
    }
    // Where the kernel puts no other thread's mapping meanwhile.
    let there = 5 << 43;
    assert_eq!(fixed(there, VISIBLE), Ok(there));
    store(there, 7);
    assert_eq!(fixed(there, VRAM), Err(Status::NoMemory), "something is there");
    assert_eq!(load(there), 7, "and still is");
    kit.engine.free_memory(there, PAGE).unwrap();
    for flags in [VRAM, VISIBLE, PAGED, VRAM | MemFlags::ONLY_ADDRESS] {
        assert_eq!(fixed(there, flags), Ok(there));
        kit.engine.free_memory(there, PAGE).unwrap();
    }
}

#[test]
fn buffers_are_aligned_as_asked() {
    let kit = Kit::new(Profile::Mi210);
    for flags in [VRAM, VISIBLE, PAGED] {
        for align in [PAGE, 64 << 10, 1 << 30] {
            let at = kit.engine.alloc_memory(GPU, PAGE, align, flags).unwrap();
            assert!(at.is_multiple_of(align));
        }
        assert!(kit.alloc(GPU, 4 << 20, flags).is_multiple_of(2 << 20), "huge pages");
    }
    let impossible = kit.engine.alloc_memory(GPU, PAGE, 1 << 63, VRAM);
    assert_eq!(impossible, Err(Status::NoMemory));
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * PAGE
}

// Case M10.
#[test]
fn m10_addresses_alone_take_no_memory() {
    let kit = Kit::new(Profile::Mi210);
    kit.record.calls();
    let reserve = MemFlags::ONLY_ADDRESS | MemFlags::NON_PAGED;
    for node in [CPU, GPU] {
        let before = resident();
        let many: Vec<u64> = (0..128).map(|_| kit.alloc(node, 1 << 30, reserve)).collect();
        assert!(resident() < before + (64 << 20), "other tests run beside this one");
        let at = many[5];
        let info = kit.engine.pointer_info(at + 5).unwrap();
        assert_eq!(({ info.type_ }, { info.size_in_bytes }), (PointerType::RESERVED_ADDR, 1 << 30));
        assert_eq!(kit.engine.map_memory(at, 1 << 30), Err(Status::InvalidParameter));
        for at in many {
            kit.engine.free_memory(at, 1 << 30).unwrap();
        }
    }
    assert_eq!(kit.record.calls(), []);
}

#[test]
fn memory_without_addresses_has_a_number() {
    let kit = Kit::new(Profile::Mi210);
    for (node, flags) in [(GPU, VRAM), (CPU, GTT)] {
        let number = kit.alloc(node, 2 << 20, flags | MemFlags::NO_ADDRESS);
        assert!(number >= 1 << 47, "no address of a program");
        assert_eq!(kit.engine.map_memory(number, 2 << 20), Err(Status::InvalidParameter));
        assert_eq!(kit.engine.map_memory_to_nodes(number, 2 << 20, 0, &[GPU]), Err(Status::InvalidParameter));
        assert!(kit.engine.export_dmabuf(number, 2 << 20).is_ok());
        assert_ne!(kit.alloc(node, 2 << 20, flags | MemFlags::NO_ADDRESS), number);
        kit.engine.free_memory(number, 2 << 20).unwrap();
    }
    let paged = kit.engine.alloc_memory(CPU, PAGE, 0, PAGED | MemFlags::NO_ADDRESS);
    assert_eq!(paged, Err(Status::InvalidParameter));
}

#[test]
fn memory_that_the_bar_does_not_show_is_for_the_gpu_alone() {
    let kit = Kit::new(Profile::SmallBar);
    let before = kit.count();
    assert_eq!(kit.engine.alloc_memory(GPU, PAGE, 0, VISIBLE), Err(Status::NoMemory));
    assert_eq!(kit.count(), before);
    assert_eq!(life(&kit, GPU, PAGE, VRAM), PAGE);
}

#[test]
fn every_profile_has_memory() {
    for profile in [Profile::Mi300x, Profile::Rx7900xtx, Profile::TwoGpu] {
        let kit = Kit::new(profile);
        let node = kit.engine.snapshot().unwrap().gpus().next().unwrap().0;
        for flags in [VRAM, VISIBLE, PAGED, GTT] {
            life(&kit, node, 2 * PAGE, flags);
        }
    }
}

#[test]
fn without_a_gpu_memory_is_the_programs_own() {
    let kit = Kit::new(Profile::CpuOnly);
    for flags in [PAGED, GTT, PAGED | MemFlags::EXECUTE_ACCESS] {
        let at = kit.alloc(CPU, 2 * PAGE, flags);
        store(at, 5);
        let info = kit.engine.pointer_info(at + PAGE + 5).unwrap();
        assert_eq!(({ info.type_ }, { info.gpu_address }), (PointerType::ALLOCATED, at));
        assert_eq!(kit.engine.map_memory(at, 2 * PAGE), Ok(0));
        assert_eq!(kit.engine.unmap_memory(at), Ok(()));
        assert_eq!(kit.engine.deregister_memory(at), Ok(()));
        assert_eq!(kit.engine.free_memory(at + PAGE, PAGE), Err(Status::MemoryNotRegistered));
        assert_eq!(kit.engine.free_memory(at, 2 * PAGE), Ok(()));
        assert_eq!(kit.engine.free_memory(at, 2 * PAGE), Err(Status::MemoryNotRegistered));
    }
    let read_only = kit.alloc(CPU, PAGE, PAGED | MemFlags::READ_ONLY);
    assert_eq!(load(read_only), 0);
    assert_eq!(kit.engine.register_memory(0x10000, PAGE), Ok(()));
    assert_eq!(kit.engine.register_memory_to_nodes(0x10000, PAGE, &[CPU]), Err(Status::NotSupported));
    assert_eq!(kit.engine.register_memory_with_flags(0x10000, PAGE, PAGED), Err(Status::NotSupported));
    assert_eq!(kit.engine.deregister_memory(0x10000), Ok(()));
    assert_eq!(kit.engine.map_memory(0x10000, PAGE), Ok(0));
    assert_eq!(kit.engine.unmap_memory(0x10000), Ok(()));
    let scratch = kit.engine.alloc_memory(CPU, PAGE, 0, MemFlags::SCRATCH);
    assert_eq!(scratch, Err(Status::NoMemory));
    assert_eq!(kit.record.calls(), []);
}

#[test]
fn options_decide_where_memory_comes_from() {
    let options = Options { userptr_for_paged_mem: false, ..Options::default() };
    let kit = Kit::with(Profile::Mi210, Kernel::Linux6_12, options);
    let before = kit.count().1;
    let at = kit.alloc(CPU, PAGE, PAGED);
    assert!(kit.engine.export_dmabuf(at, PAGE).is_ok(), "KFD's memory can be exported");
    kit.engine.free_memory(at, PAGE).unwrap();

    let options = Options { zero_frame_buffer: true, ..Options::default() };
    let kit = Kit::with(Profile::Mi210, Kernel::Linux6_12, options);
    let available = kit.engine.available_memory(GPU).unwrap();
    let at = kit.alloc(GPU, 64 << 20, VISIBLE);
    assert_eq!(kit.engine.available_memory(GPU), Ok(available));
    assert!({ kit.engine.pointer_info(at).unwrap().mem_flags }.coarse_grain());
    assert_eq!(kit.count().1, before + 1);

    let options = Options { guard_pages: 0, disable_cache: true, max_va_align: 0, ..Options::default() };
    let kit = Kit::with(Profile::Mi210, Kernel::Linux6_12, options);
    life(&kit, GPU, 4 << 20, VRAM);
    life(&kit, GPU, 4 << 20, PAGED);
}

#[test]
fn scratch_gets_memory_piece_by_piece() {
    let kit = Kit::new(Profile::Mi210);
    let before = kit.count();
    let flags = VRAM | MemFlags::SCRATCH;
    let size = 1 << 20;
    let at = kit.alloc(GPU, size, flags | MemFlags::HOST_ACCESS);
    assert!(at.is_multiple_of(64 << 10));
    assert_eq!(kit.engine.alloc_memory(GPU, size, 0, flags), Err(Status::NoMemory), "one for each GPU");
    let (map, unmap) = (|at, size| kit.engine.map_memory(at, size), |at| kit.engine.unmap_memory(at));
    assert_eq!(map(at, 64 << 10), Ok(0));
    assert_eq!(map(at, 64 << 10), Err(Status::Error), "it is mapped");
    assert_eq!(map(at + (128 << 10), PAGE), Ok(0));
    assert_eq!(map(at + size - PAGE, 2 * PAGE), Err(Status::Error));
    assert_eq!(map(at + PAGE, u64::MAX), Err(Status::Error));
    assert_eq!(kit.count().1, before.1 + 2);
    assert_eq!(unmap(at), Ok(()));
    assert_eq!(unmap(at), Err(Status::Error));
    assert_eq!(kit.engine.pointer_info(at), Err(Status::Error));
    assert_eq!(kit.engine.free_memory(at + 5, size), Ok(()));
    assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));
    let again = kit.alloc(GPU, size, flags);
    kit.engine.free_memory(again, size).unwrap();
}

#[test]
fn doorbells_and_the_event_page_are_mapped() {
    let kit = Kit::new(Profile::Mi210);
    let page = kit.engine.alloc_event_page(32 << 10).unwrap();
    assert!(page.handle != 0 && is_readable(page.address, 1));
    let info = kit.engine.pointer_info(page.address + 8).unwrap();
    assert_eq!(({ info.size_in_bytes }, { info.n_mapped_nodes }), (32 << 10, 1));
    assert_eq!(kit.engine.map_doorbells(CPU, 0, 8192), Err(Status::InvalidNodeUnit));
    let before = kit.count();
    assert!(kit.engine.map_doorbells(GPU, 0, 8192).is_err(), "no doorbells are there");
    assert!(kit.engine.map_doorbells(GPU, 3 << 62, PAGE).is_err(), "half of them");
    assert_eq!(kit.count(), before);
}

#[test]
fn setting_up_is_done_once_and_tells_apertures() {
    let kit = Kit::raw(Profile::Mi210, Kernel::Linux6_12, Options::default());
    assert_eq!(kit.engine.gpu_apertures(GPU), None);
    kit.engine.acquire_system_properties().unwrap();
    let calls = [
        Ioctl::GetVersion,
        Ioctl::GetProcessAperturesNew,
        Ioctl::AcquireVm,
        Ioctl::SetMemoryPolicy,
        Ioctl::AllocMemoryOfGpu,
        Ioctl::MapMemoryToGpu,
    ];
    assert_eq!(kit.record.calls(), calls);
    let apertures = kit.engine.gpu_apertures(GPU).unwrap();
    assert_eq!(apertures.lds.map(|(base, _)| base), Some(1 << 48));
    assert_eq!(apertures.scratch.map(|(base, _)| base), Some(2 << 48));
    assert_eq!((apertures.gpuvm, apertures.svm.map(|(_, limit)| limit)), (None, Some((1 << 47) - 1)));
    let (page, last) = apertures.mmio.unwrap();
    assert_eq!(last - page, PAGE - 1);
    assert!(is_readable(page, PAGE));
    assert_eq!(kit.engine.gpu_apertures(CPU), None);
    let banks = kit.engine.node_memory_properties(GPU, 10).unwrap();
    assert_eq!({ banks.last().unwrap().heap_type }, HeapType::MMIO_REMAP);
    assert_eq!({ kit.engine.node_properties(GPU).unwrap().num_memory_banks }, 5);
    kit.engine.release_system_properties().unwrap();
    kit.engine.acquire_system_properties().unwrap();
    assert_eq!(kit.record.calls(), []);
    assert_eq!(kit.engine.gpu_apertures(GPU), Some(apertures));
}

/// No machine that this runs on has a NUMA node 40 with memory: to the kernel it is a node without.
#[test]
fn t15_a_node_without_memory_is_substituted_unless_that_is_forbidden() {
    let shape = Shape { more_cpus: 39, ..Shape::default() };
    let kit = Kit::shaped(Profile::Mi210, Kernel::Linux6_12, Options::default(), shape);
    kit.engine.acquire_system_properties().expect("the topology");
    const WITHOUT: u32 = 40;
    let at = kit.engine.alloc_memory(WITHOUT, PAGE, 0, PAGED).expect("memory of another node");
    let before = kit.count();
    let alone = PAGED.union(MemFlags::NO_SUBSTITUTE);
    assert_eq!(kit.engine.alloc_memory(WITHOUT, PAGE, 0, alone), Err(Status::NoMemory));
    assert_eq!(kit.count(), before);
    kit.engine.free_memory(at, PAGE).unwrap();
}
