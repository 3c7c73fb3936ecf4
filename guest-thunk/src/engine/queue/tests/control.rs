//! Update, CU masks, information, global wave sync.

use std::sync::atomic::Ordering;

use protocol::hsakmt::{ContextSaveAreaHeader, QueuePriority, QueueType, Status};
use softgpu::Profile;
use zerocopy::FromBytes as _;

use super::{PAGE, Program, word};

/// The words of memory as bytes.
fn bytes<const WORDS: usize>(address: u64) -> Vec<u8> {
    (0..WORDS).flat_map(|at| word(address + at as u64 * 8).load(Ordering::Relaxed).to_ne_bytes()).collect()
}

fn header(address: u64) -> ContextSaveAreaHeader {
    ContextSaveAreaHeader::read_from_bytes(&bytes::<5>(address)).expect("40 bytes")
}

#[test]
fn update_answers_as_amds_thunk() {
    let program = Program::new(Profile::Mi210);
    let queue = program.aql_queue();
    let ring = queue.ring.address;
    let update = |percentage, priority, address, size| {
        program.engine.update_queue(queue.id, percentage, QueuePriority(priority), address, size)
    };
    assert_eq!(update(50, 2, ring, PAGE), Ok(()));
    assert_eq!(update(101, 0, ring, PAGE), Err(Status::Error));
    assert_eq!(update(100, 4, ring, PAGE), Err(Status::InvalidParameter));
    assert_eq!(update(100, -4, ring, PAGE), Err(Status::InvalidParameter));
    assert_eq!(update(100, 0, ring, 3 * PAGE), Err(Status::Error));
    assert_eq!(update(100, 0, ring, 2 * PAGE), Err(Status::Error));
    assert_eq!(update(100, 0, ring, 1 << 32), Err(Status::Error));
    assert_eq!(update(100, 0, 0x1_0000, PAGE), Err(Status::Error));
    assert_eq!(update(0, 0, 0, 0), Ok(()));
    assert_eq!(
        program.engine.update_queue(0, 100, QueuePriority(0), ring, PAGE),
        Err(Status::InvalidParameter)
    );
    program.destroy(queue);
}

#[test]
fn information_of_a_stopped_queue_tells_its_save_area() {
    let program = Program::new(Profile::Mi210);
    let queue = program.aql_queue();
    assert_eq!(program.engine.queue_info(queue.id).err(), Some(Status::Error), "it runs");
    program.engine.update_queue(queue.id, 0, QueuePriority(0), queue.ring.address, PAGE).unwrap();
    let info = program.engine.queue_info(queue.id).expect("a stopped queue");
    let area = header(info.save_area_header);
    assert_eq!({ info.num_cu_assigned }, 128, "104 CUs, in whole words");
    assert_eq!(word(info.cu_mask_info + 8).load(Ordering::Relaxed), 0xff_ffff_ffff);
    assert_eq!({ info.control_stack_used_in_bytes }, 0);
    assert_eq!({ info.save_area_size_in_bytes }, 0);
    assert_eq!({ info.save_area_alloc_size }, 63_508_480 + 131_072);
    assert_eq!({ area.wave_state_offset }, 36864);
    assert_eq!({ area.debug_offset }, 63_508_480);
    assert_eq!({ area.debug_size }, 131_072);
    assert_eq!({ info.user_context_save_area }, info.save_area_header + 36864);
    assert_eq!({ info.control_stack_top }, { info.user_context_save_area });
    program.destroy(queue);
}

#[test]
fn every_xccs_header_tells_where_errors_are_reported() {
    let program = Program::new(Profile::Mi300x);
    let (ring, descriptor, reason) = (program.paged(PAGE), program.gtt(), program.paged(PAGE));
    let request = super::QueueRequest { event_id: Some(7), ..program.request(QueueType::COMPUTE_AQL, ring) };
    let mut resource = protocol::hsakmt::QueueResource {
        queue_read_ptr: descriptor.address + 128,
        queue_write_ptr: descriptor.address + 56,
        error_reason: reason.address,
        ..Default::default()
    };
    program.engine.create_queue(&request, &mut resource).expect("a queue");
    program.engine.update_queue(resource.queue_id, 0, QueuePriority(0), ring.address, PAGE).unwrap();
    let info = program.engine.queue_info(resource.queue_id).expect("a stopped queue");
    let first = header(info.save_area_header);
    let area = u64::from(first.debug_offset) / 8;
    for xcc in 0..8 {
        let header = header(info.save_area_header + xcc * area);
        assert_eq!({ header.error_reason }, reason.address, "XCC {xcc}");
        assert_eq!({ header.error_event_id }, 7, "XCC {xcc}");
        assert_eq!(xcc * area + u64::from(header.debug_offset), 8 * area, "XCC {xcc}");
    }
    program.engine.destroy_queue(resource.queue_id).unwrap();
}

#[test]
fn cu_masks_are_kept_as_the_kernel_took_them() {
    let program = Program::new(Profile::Mi210);
    let queue = program.aql_queue();
    let engine = &program.engine;
    let words = [0x5555_5555u32, 0xffff_ffff, 0, 0x0f];
    let address = words.as_ptr().expose_provenance() as u64;
    assert_eq!(engine.set_queue_cu_mask(queue.id, address, 128), Ok(()));
    assert_eq!(engine.set_queue_cu_mask(queue.id, address, 0), Err(Status::InvalidParameter));
    assert_eq!(engine.set_queue_cu_mask(queue.id, address, 33), Err(Status::InvalidParameter));
    assert_eq!(engine.set_queue_cu_mask(queue.id, 0, 32), Err(Status::InvalidParameter));
    assert_eq!(engine.set_queue_cu_mask(0, address, 32), Err(Status::InvalidParameter));
    assert_eq!(engine.set_queue_cu_mask(queue.id, 0x1_0000, 32), Err(Status::Error));
    engine.update_queue(queue.id, 0, QueuePriority(0), queue.ring.address, PAGE).unwrap();
    let info = engine.queue_info(queue.id).expect("a stopped queue");
    assert_eq!({ info.num_cu_assigned }, 128, "what was refused changed nothing");
    assert_eq!(word(info.cu_mask_info).load(Ordering::Relaxed), 0xffff_ffff_5555_5555);
    let long = [3u32; 64];
    let address = long.as_ptr().expose_provenance() as u64;
    assert_eq!(engine.set_queue_cu_mask(queue.id, address, 2048), Ok(()));
    assert_eq!({ engine.queue_info(queue.id).unwrap().num_cu_assigned }, 1024);
    program.destroy(queue);
}

#[test]
fn copy_queues_have_no_information_but_can_be_updated() {
    let program = Program::new(Profile::Mi210);
    let queue = program.ring_queue(QueueType::SDMA);
    assert_eq!(program.engine.queue_info(queue.id).err(), Some(Status::Error));
    assert_eq!(
        program.engine.update_queue(queue.id, 100, QueuePriority(-2), queue.ring.address, PAGE),
        Ok(())
    );
    program.destroy(queue);
}

#[test]
fn one_queue_has_the_global_wave_sync() {
    let program = Program::new(Profile::Mi210);
    let engine = &program.engine;
    let (first, second) = (program.aql_queue(), program.aql_queue());
    assert_eq!(engine.alloc_queue_gws(first.id, 0), Err(Status::InvalidParameter));
    assert_eq!(engine.alloc_queue_gws(first.id, 64), Ok(0));
    assert_eq!(engine.alloc_queue_gws(second.id, 64), Err(Status::OutOfResources));
    assert_eq!(engine.alloc_queue_gws(first.id, 0), Ok(0));
    assert_eq!(engine.alloc_queue_gws(second.id, 64), Ok(0));
    assert_eq!(engine.alloc_queue_gws(0, 64), Err(Status::InvalidParameter));
    program.destroy(second);
    assert_eq!(engine.alloc_queue_gws(first.id, 64), Ok(0), "a queue's end gives it back");
    program.destroy(first);
}

#[test]
fn ids_of_no_queue_are_refused_by_every_call() {
    let program = Program::new(Profile::Mi210);
    let queue = program.aql_queue();
    let gone = queue.id;
    program.destroy(queue);
    let other = program.aql_queue();
    for id in [0, gone, other.id + 1, u64::MAX, 0x7fff_0000_1000] {
        let engine = &program.engine;
        assert_eq!(engine.destroy_queue(id), Err(Status::InvalidParameter), "{id:#x}");
        assert_eq!(
            engine.update_queue(id, 0, QueuePriority(0), 0, 0),
            Err(Status::InvalidParameter),
            "{id:#x}"
        );
        assert_eq!(engine.queue_info(id).err(), Some(Status::InvalidParameter), "{id:#x}");
        assert_eq!(engine.alloc_queue_gws(id, 0), Err(Status::InvalidParameter), "{id:#x}");
        assert_eq!(engine.kernel_queue_id(id), Err(Status::InvalidParameter), "{id:#x}");
    }
    assert!(program.engine.kernel_queue_id(other.id).is_ok());
    program.destroy(other);
}
