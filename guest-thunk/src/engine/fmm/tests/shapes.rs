//! Machines that no profile is like.

use protocol::hsakmt::{MemFlags, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::topology::GfxVersion;
use softgpu::{Kernel, Profile};

use super::super::vm::{PAGE, is_readable};
use super::kit::{CPU, GPU, GTT, Kit, Own, PAGED, Shape, VISIBLE, VRAM, load, store};
use crate::engine::testing::faults;
use crate::engine::{GfxOverride, Options};

fn shaped(shape: Shape, options: Options) -> Kit {
    let kit = Kit::shaped(Profile::Mi210, Kernel::Linux6_12, options, shape);
    kit.engine.acquire_system_properties().expect("the topology");
    kit
}

// GPUs of gfx8 reach 40 bits: addresses are reserved at the start (cases L01 and M28).
#[test]
fn a_gpu_of_40_bits_gets_addresses_that_it_reaches() {
    let _alone = faults::alone();
    let limit = (1 << 40) - 1;
    let kit = shaped(Shape { gpuvm: Some((1 << 16, limit)), ..Shape::default() }, Options::default());
    let (base, last) = kit.engine.gpu_apertures(GPU).unwrap().svm.unwrap();
    assert!(base >= 1 << 16 && last <= limit);
    let before = kit.count();
    for (node, flags) in
        [(GPU, VRAM), (GPU, VISIBLE), (CPU, GTT), (CPU, PAGED), (CPU, PAGED | MemFlags::COARSE_GRAIN)]
    {
        for size in [PAGE, 3 * PAGE, 4 << 20] {
            let at = kit.alloc(node, size, flags);
            assert!(at >= base && at + size - 1 <= last, "{at:#x}");
            if flags.host_access() {
                store(at + size - 1, 9);
                assert_eq!(load(at + size - 1), 9);
            }
            kit.engine.map_memory(at, size).unwrap();
            kit.engine.unmap_memory(at).unwrap();
            kit.engine.free_memory(at, size).unwrap();
            assert!(!is_readable(at, 1), "it is gone");
        }
    }
    assert_eq!(kit.count(), before);
    drop(kit);
    // The program's own memory lies beyond: it gets addresses of the GPU's, with SVM too.
    let own = Own::new(1);
    for svm in [false, true] {
        let options = Options { svm, ..Options::default() };
        let kit = shaped(Shape { gpuvm: Some((1 << 16, limit)), ..Shape::default() }, options);
        kit.engine.register_memory(own.address(), PAGE).unwrap();
        assert!(kit.engine.map_memory(own.address(), PAGE).unwrap() <= limit);
        kit.engine.deregister_memory(own.address()).unwrap();
    }
}

#[test]
fn a_kernel_with_the_old_call_for_apertures_will_do() {
    let kit = shaped(Shape { old: true, ..Shape::default() }, Options::default());
    assert!(kit.record.calls().contains(&Ioctl::GetProcessApertures));
    let at = kit.alloc(GPU, PAGE, VRAM);
    assert_eq!(kit.engine.map_memory(at, PAGE), Ok(0));
}

// An APU before gfx9: system memory is the CPU's and the GPU's, its own memory only the GPU's.
#[test]
fn an_old_apu_has_memory_that_the_cpu_does_not_reach() {
    let old = GfxOverride { node: None, version: Some(GfxVersion::new(8, 0, 1)) };
    let options = Options { gfx_overrides: vec![old], ..Options::default() };
    let base = 1 << 56;
    let shape = Shape { gpuvm: Some((base, base + (1 << 40) - 1)), combined: true, ..Shape::default() };
    let kit = shaped(shape, options);
    assert!(!kit.engine.machine().unwrap().discrete);
    let apertures = kit.engine.gpu_apertures(GPU).unwrap();
    assert_eq!(
        (apertures.gpuvm.map(|(base, _)| base), apertures.svm, apertures.mmio),
        (Some(base), None, None)
    );
    let before = kit.count();

    let at = kit.alloc(GPU, 2 * PAGE, VRAM);
    assert!(at > base, "0 is no address for KFD");
    assert_eq!(kit.engine.map_memory(at, 2 * PAGE), Ok(at - base), "where the GPU finds it");
    assert_eq!({ kit.engine.pointer_info(at + PAGE).unwrap().node }, GPU);
    kit.engine.unmap_memory(at).unwrap();
    kit.engine.free_memory(at, 2 * PAGE).unwrap();
    assert_eq!(kit.engine.alloc_memory(GPU, PAGE, 0, VISIBLE), Err(Status::NoMemory));

    kit.record.calls();
    let host = kit.alloc(GPU, PAGE, PAGED);
    store(host, 1);
    assert_eq!(kit.engine.map_memory(host, PAGE), Ok(0));
    assert_eq!(kit.engine.map_memory_to_nodes(host, PAGE, 0, &[GPU]), Ok(0));
    assert_eq!(kit.engine.map_memory_to_nodes(host, PAGE, 0, &[GPU, GPU]), Err(Status::Error));
    assert_eq!(kit.engine.register_memory(0x10000, PAGE), Ok(()));
    assert_eq!(kit.engine.unmap_memory(host), Ok(()));
    kit.engine.free_memory(host, PAGE).unwrap();
    assert_eq!(kit.record.calls(), [], "KFD has nothing to do with it");

    let scratch = kit.alloc(GPU, 1 << 20, VRAM | MemFlags::SCRATCH);
    store(scratch, 1);
    assert_eq!(kit.engine.map_memory(scratch, PAGE), Ok(0));
    assert_eq!(kit.engine.unmap_memory(scratch), Ok(()));
    kit.engine.free_memory(scratch, 1 << 20).unwrap();
    assert_eq!(kit.count(), before);
}

/// The flags of the mapping at an address, of `/proc/self/smaps`.
fn flags_at(address: u64) -> Option<Vec<String>> {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in text.lines() {
        let range = line.split_whitespace().next().and_then(|word| word.split_once('-'));
        let range = range.and_then(|(start, end)| {
            Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
        });
        if let Some((start, end)) = range {
            inside = (start..end).contains(&address);
        } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
            return Some(flags.split_whitespace().map(str::to_owned).collect());
        }
    }
    None
}

// A fork that copies them would stop the queues of the parent.
#[test]
fn no_mapping_of_gpus_goes_to_forked_children() {
    let kit = Kit::new(Profile::Mi210);
    let ring = GTT | MemFlags::AQL_QUEUE_MEMORY;
    let page = kit.engine.gpu_apertures(GPU).unwrap().mmio.unwrap().0;
    let ring = kit.alloc(CPU, PAGE, ring);
    let mut all = vec![page, ring, ring + PAGE];
    for (node, flags) in [(GPU, VRAM), (GPU, VISIBLE), (CPU, GTT), (CPU, PAGED)] {
        all.push(kit.alloc(node, PAGE, flags));
        all.push(kit.alloc(node, 4 << 20, flags) + (4 << 20) - 1);
    }
    for at in all {
        // Other threads map meanwhile, so that a line may be missing once.
        let flags = (0..20).find_map(|_| flags_at(at)).expect("it is mapped");
        assert!(flags.iter().any(|flag| flag == "dc"), "{at:#x}: {flags:?}");
    }
}
