//! What a queue may be made from, and how many there are.

use protocol::hsakmt::{QueuePriority, QueueResource, QueueType, Status};
use softgpu::Profile;

use super::{Memory, PAGE, Program, QueueRequest, status};

/// What making an AQL queue with a changed request gives. A queue that is made is destroyed.
fn tried(program: &Program, request: &QueueRequest, descriptor: Memory) -> Option<Status> {
    let made = program.try_create(request, Some(descriptor));
    if let Ok(resource) = made {
        program.engine.destroy_queue(resource.queue_id).expect("a queue");
    }
    status(made)
}

#[test]
fn arguments_are_answered_as_by_amds_thunk() {
    let program = Program::without_svm(Profile::Mi210);
    let (ring, descriptor) = (program.paged(PAGE), program.gtt());
    let good = program.request(QueueType::COMPUTE_AQL, ring);
    let of_type = |queue_type| QueueRequest { queue_type, ..good };
    let cases = [
        (good, None),
        (QueueRequest { priority: QueuePriority(-3), ..good }, None),
        (QueueRequest { priority: QueuePriority(3), ..good }, None),
        (QueueRequest { priority: QueuePriority(-4), ..good }, Some(Status::InvalidParameter)),
        (QueueRequest { priority: QueuePriority(4), ..good }, Some(Status::InvalidParameter)),
        (QueueRequest { percentage: 0, ..good }, None),
        (QueueRequest { percentage: 101, ..good }, Some(Status::Error)),
        (QueueRequest { percentage: 0x164, ..good }, None),
        (of_type(QueueType::COMPUTE), None),
        (of_type(QueueType::SDMA), None),
        (of_type(QueueType::SDMA_XGMI), None),
        (of_type(QueueType::SDMA_BY_ENG_ID), Some(Status::Error)),
        (QueueRequest { sdma_engine: Some(99), ..of_type(QueueType::SDMA_BY_ENG_ID) }, Some(Status::Error)),
        (of_type(QueueType::MULTIMEDIA_DECODE), Some(Status::InvalidParameter)),
        (of_type(QueueType::DMA_AQL), Some(Status::InvalidParameter)),
        (QueueRequest { ring: 0, ..good }, Some(Status::Error)),
        (QueueRequest { ring: 0x1_0000, ..good }, Some(Status::Error)),
        (QueueRequest { ring: 0xffff_8000_0000_0000, ..good }, Some(Status::Error)),
        (QueueRequest { node: 0, ..good }, Some(Status::InvalidNodeUnit)),
        (QueueRequest { node: 99, ..good }, Some(Status::InvalidNodeUnit)),
        (QueueRequest { node: u32::MAX, ..good }, Some(Status::InvalidNodeUnit)),
    ];
    for (request, expected) in cases {
        assert_eq!(tried(&program, &request, descriptor), expected, "{request:?}");
    }
    assert_eq!(tried(&program, &good, Memory { address: 0x1_0000, size: PAGE }), Some(Status::Error));
    assert_eq!(program.queue_count(), 0);
    program.free(ring);
    program.free(descriptor);
}

#[test]
fn q13_sizes_are_clamped_or_refused() {
    let program = Program::without_svm(Profile::Mi210);
    let (ring, descriptor) = (program.paged(PAGE), program.gtt());
    let good = program.request(QueueType::COMPUTE_AQL, ring);
    let cases = [
        (0, None),
        (64, None),
        (256, None),
        (1023, Some(Status::Error)),
        (1024, None),
        (4096, None),
        (3 * 4096, Some(Status::Error)),
        (1 << 31, Some(Status::Error)),
        (1 << 32, Some(Status::Error)),
        (1 << 40, Some(Status::Error)),
        (u64::MAX, Some(Status::Error)),
    ];
    for (ring_size, expected) in cases {
        let request = QueueRequest { ring_size, ..good };
        assert_eq!(tried(&program, &request, descriptor), expected, "{ring_size:#x} bytes");
    }
    program.free(ring);
    program.free(descriptor);
}

#[test]
fn with_mes_a_write_pointer_in_ordinary_memory_is_refused() {
    let program = Program::new(Profile::Rx7900xtx);
    let (ring, paged, gtt) = (program.paged(PAGE), program.paged(PAGE), program.gtt());
    let request = program.request(QueueType::COMPUTE_AQL, ring);
    assert_eq!(tried(&program, &request, paged), Some(Status::Error));
    assert_eq!(tried(&program, &request, gtt), None);
}

/// Queues of this type until there are no more. They share what they may share.
fn fill(program: &Program, queue_type: QueueType) -> Vec<QueueResource> {
    let (ring, descriptor) = (program.paged(PAGE), program.gtt());
    let request = program.request(queue_type, ring);
    let mut made = Vec::new();
    loop {
        match program.try_create(&request, Some(descriptor)) {
            Ok(resource) => made.push(resource),
            Err(status) => {
                assert_eq!(status, Status::Error, "after {}", made.len());
                return made;
            }
        }
    }
}

fn empty(program: &Program, queues: Vec<QueueResource>) {
    for queue in queues {
        program.engine.destroy_queue(queue.queue_id).expect("a queue");
    }
    assert_eq!(program.queue_count(), 0);
}

#[test]
fn copy_queues_are_as_many_as_the_engines_have() {
    let program = Program::new(Profile::Mi210);
    for _ in 0..2 {
        let queues = fill(&program, QueueType::SDMA);
        assert_eq!(queues.len(), 16);
        empty(&program, queues);
    }
    let queues = fill(&program, QueueType::SDMA_XGMI);
    assert_eq!(queues.len(), 24);
    empty(&program, queues);
}

#[test]
fn a_process_has_127_queues_on_a_gpu() {
    let program = Program::without_svm(Profile::Mi210);
    let queues = fill(&program, QueueType::COMPUTE_AQL);
    assert_eq!(queues.len(), 127);
    empty(&program, queues);
}

#[test]
fn a_process_has_255_queues_on_gfx942() {
    let program = Program::without_svm(Profile::Mi300x);
    let queues = fill(&program, QueueType::COMPUTE_AQL);
    assert_eq!(queues.len(), 255);
    empty(&program, queues);
}
