use std::os::fd::{AsRawFd, OwnedFd};

use protocol::hsakmt::{MemFlags, PointerType, RegisterMemFlags, SharedMemoryHandle, Status};
use softgpu::{Kernel, Profile};

use super::super::vm::PAGE;
use super::kit::{CPU, GPU, GTT, Kit, PAGED, VISIBLE, VRAM, list, load, store};
use crate::engine::Options;

fn number(fd: &OwnedFd) -> u64 {
    u64::try_from(fd.as_raw_fd()).unwrap()
}

fn rocm(profile: Profile) -> Kit {
    Kit::with(profile, Kernel::Rocm, Options::default())
}

// Case M14.
#[test]
fn m14_an_exported_buffer_outlives_its_memory() {
    let kit = Kit::new(Profile::Mi210);
    let (engine, size) = (&kit.engine, 2 << 20);
    let available = engine.available_memory(GPU).unwrap();
    for _ in 0..100 {
        let at = kit.alloc(GPU, size, VISIBLE);
        store(at, 0x42);
        let (fd, offset) = engine.export_dmabuf(at, size).unwrap();
        assert_eq!(offset, 0);
        engine.free_memory(at, size).unwrap();
        let next = kit.alloc(GPU, size, VISIBLE);
        store(next, 0x43);
        let imported = engine.register_graphics_handle_to_nodes(number(&fd), &[GPU], 0).unwrap();
        drop(fd);
        assert!(engine.map_memory(imported.memory_address, size).is_ok());
        engine.unmap_memory(imported.memory_address).unwrap();
        engine.deregister_memory(imported.memory_address).unwrap();
        engine.free_memory(next, size).unwrap();
    }
    assert_eq!(engine.available_memory(GPU), Ok(available));
}

#[test]
fn a_part_of_a_buffer_is_exported_with_its_offset() {
    let kit = Kit::new(Profile::Mi210);
    let at = kit.alloc(GPU, 4 * PAGE, VRAM);
    let export = |address, size| kit.engine.export_dmabuf(address, size).map(|(_, offset)| offset);
    assert_eq!(export(at + PAGE + 5, PAGE), Ok(PAGE + 5));
    assert_eq!(export(at + PAGE, 4 * PAGE), Err(Status::InvalidParameter));
    assert_eq!(export(at + PAGE, u64::MAX), Err(Status::InvalidParameter));
    assert_eq!(export(0x10000, PAGE), Err(Status::InvalidParameter));
    assert_eq!(export(kit.alloc(CPU, PAGE, PAGED), PAGE), Err(Status::Error), "the program's own memory");
    let reserved = kit.alloc(GPU, PAGE, VRAM | MemFlags::ONLY_ADDRESS);
    assert_eq!(export(reserved, PAGE), Err(Status::InvalidParameter));
}

#[test]
fn a_dma_buf_is_imported_with_and_without_addresses() {
    let kit = Kit::new(Profile::TwoGpu);
    let engine = &kit.engine;
    let at = kit.alloc(GPU, 3 * PAGE, VRAM);
    let (fd, _) = engine.export_dmabuf(at, 3 * PAGE).unwrap();
    let before = kit.count();
    let info = engine.register_graphics_handle_to_nodes(number(&fd), &[GPU], 0).unwrap();
    assert_eq!(({ info.size_in_bytes }, { info.node_id }), (3 * PAGE, GPU));
    assert!({ info.memory_address }.is_multiple_of(256 << 10));
    let told = engine.pointer_info(info.memory_address + PAGE).unwrap();
    assert_eq!({ told.type_ }, PointerType::REGISTERED_GRAPHICS);
    assert_eq!(list(told.registered_nodes, told.n_registered_nodes), [GPU]);
    assert!(engine.map_memory(info.memory_address, 3 * PAGE).is_ok());
    assert_eq!(engine.deregister_memory(info.memory_address), Ok(()), "mapped or not");
    assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));

    let anywhere = RegisterMemFlags::REQUIRES_VADDR.0;
    let info = engine.register_graphics_handle_to_nodes(number(&fd), &[], anywhere).unwrap();
    assert!({ info.memory_address } < 1 << 47);
    assert!(engine.map_memory(info.memory_address, 3 * PAGE).is_ok());
    engine.unmap_memory(info.memory_address).unwrap();
    engine.deregister_memory(info.memory_address).unwrap();

    let info = engine.register_graphics_handle_to_nodes(number(&fd), &[], 0).unwrap();
    assert!({ info.memory_address } >= 1 << 47, "a number");
    engine.deregister_memory(info.memory_address).unwrap();
    assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));
}

#[test]
fn what_is_no_dma_buf_is_refused() {
    let kit = Kit::new(Profile::Mi210);
    let import = |handle, nodes: &[u32]| {
        kit.engine.register_graphics_handle_to_nodes(handle, nodes, 0).map(|info| info.memory_address)
    };
    let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    assert_eq!(import(0xffff_ffff, &[GPU]), Err(Status::Error));
    assert_eq!(import(u64::MAX, &[GPU]), Err(Status::Error));
    assert_eq!(import(number(&null), &[GPU]), Err(Status::Error));
    assert_eq!(import(number(&null), &[9]), Err(Status::InvalidNodeUnit));
}

// Two mappings of the same memory, as two processes have them.
#[test]
fn shared_memory_is_the_same_memory() {
    let kit = rocm(Profile::Mi210);
    let engine = &kit.engine;
    for (node, flags) in [(GPU, VISIBLE), (CPU, GTT)] {
        let at = kit.alloc(node, 2 * PAGE, flags);
        store(at + PAGE, 0x21);
        let handle = engine.share_memory(at, 2 * PAGE).unwrap();
        let before = kit.count();
        let (other, size) = engine.register_shared_handle(&handle, None).unwrap();
        assert!(other != at && size == 2 * PAGE);
        assert_eq!(load(other + PAGE), 0x21);
        store(other, 0x22);
        assert_eq!(load(at), 0x22);
        let info = engine.pointer_info(other + 5).unwrap();
        assert_eq!(
            ({ info.type_ }, { info.mem_flags }.host_access()),
            (PointerType::REGISTERED_SHARED, true)
        );
        assert!(engine.map_memory(other, size).is_ok());
        assert_eq!(engine.deregister_memory(other), Ok(()));
        assert_eq!((kit.count().0, kit.count().1), (before.0, before.1));
        let (other, _) = engine.register_shared_handle(&handle, Some(&[GPU])).unwrap();
        let info = engine.pointer_info(other).unwrap();
        assert_eq!(list(info.registered_nodes, info.n_registered_nodes), [GPU]);
        engine.deregister_memory(other).unwrap();
        engine.free_memory(at, 2 * PAGE).unwrap();
    }
}

#[test]
fn sharing_needs_roms_kernel_and_memory_that_is_known() {
    let kit = Kit::new(Profile::Mi210);
    let at = kit.alloc(GPU, PAGE, VRAM);
    let share = |address, size| kit.engine.share_memory(address, size).err();
    assert_eq!(share(at, PAGE), Some(Status::Error));
    assert_eq!(share(0x10000, PAGE), Some(Status::InvalidParameter));
    assert_eq!(share(at, 1 << 44), Some(Status::InvalidParameter));
    let rocm = rocm(Profile::Mi210);
    let paged = rocm.alloc(CPU, PAGE, PAGED);
    assert_eq!(rocm.engine.share_memory(paged, PAGE).err(), Some(Status::Error));
}

// Case M07.
#[test]
fn m07_forged_handles_are_refused() {
    for kit in [Kit::new(Profile::Mi210), rocm(Profile::Mi210)] {
        let before = kit.count();
        let register = |words, nodes: Option<&[u32]>| {
            kit.engine.register_shared_handle(&SharedMemoryHandle { words }, nodes)
        };
        assert_eq!(register([0; 8], None), Err(Status::InvalidParameter));
        assert_eq!(register([u32::MAX; 8], None), Err(Status::InvalidParameter));
        assert_eq!(register([1, 2, 3, 4, 255, 0, 1, 7], None), Err(Status::InvalidParameter));
        assert_eq!(register([1, 2, 3, 4, 1, 0, 0, 7], None), Err(Status::Error), "of no size");
        assert_eq!(register([0, 0, 0, 0, 1, 0, 1, 0], None), Err(Status::Error));
        assert_eq!(register([0, 0, 0, 0, 1, 0, 1, 0], Some(&[GPU])), Err(Status::Error));
        assert_eq!(register([0, 0, 0, 0, 1, 0, 1, 0], Some(&[9])), Err(Status::InvalidNodeUnit));
        assert_eq!(register([0, 0, 0, 0, 1, 0, 1, 0], Some(&[])), Err(Status::InvalidParameter));
        assert!(register([0, 0, 0, 0, 1, 0, u32::MAX, 0], None).is_err());
        assert_eq!(kit.count(), before);
    }
}

// A handle that names more than there is.
#[test]
fn shared_memory_is_not_mapped_beyond_its_end() {
    let kit = rocm(Profile::Mi210);
    let at = kit.alloc(GPU, PAGE, VISIBLE);
    let mut handle = kit.engine.share_memory(at, PAGE).unwrap();
    handle.words[6] = 100;
    let before = kit.count();
    assert_eq!(kit.engine.register_shared_handle(&handle, None), Err(Status::Error));
    assert_eq!(kit.count(), before);
}
