//! Many buffers.

use softgpu::Profile;

use super::super::Viewed;
use super::super::vm::PAGE;
use super::kit::{GPU, Kit, VRAM};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

// Cases M11 and P01: neither descriptors nor, of memory for GPUs alone, mappings grow with the buffers.
#[test]
fn m11_many_buffers_need_neither_descriptors_nor_mappings() {
    const MANY: usize = Viewed::MOST + 3000;
    let kit = Kit::new(Profile::Mi210);
    let before = descriptors();
    let all: Vec<u64> = (0..MANY).map(|_| kit.alloc(GPU, PAGE, VRAM)).collect();
    assert!(descriptors() < before + 100, "other tests run beside this one");
    assert_eq!(kit.engine.memory.views.load(std::sync::atomic::Ordering::Relaxed), Viewed::MOST);
    for (at, step) in all.iter().zip([0, 1, PAGE / 2, PAGE - 1].into_iter().cycle()) {
        assert_eq!({ kit.engine.pointer_info(at + step).unwrap().gpu_address }, *at);
    }
    for at in all {
        kit.engine.free_memory(at, PAGE).unwrap();
    }
    assert_eq!(kit.engine.memory.views.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn thousands_of_rounds_leave_nothing() {
    let kit = Kit::new(Profile::Mi210);
    let at = kit.alloc(GPU, PAGE, VRAM);
    kit.engine.free_memory(at, PAGE).unwrap();
    let before = kit.count();
    for round in 0..3000 {
        let flags = if round % 2 == 0 { VRAM } else { super::kit::VISIBLE };
        let at = kit.alloc(GPU, PAGE, flags);
        kit.engine.free_memory(at, PAGE).unwrap();
    }
    assert_eq!(kit.count(), before);
}
