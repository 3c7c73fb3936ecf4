//! Every kind of queue is made, works and goes.

use std::sync::atomic::Ordering;

use protocol::hsakmt::QueueType;
use softgpu::Profile;

use super::{PAGE, Program, QueueRequest, TestQueue, wait_for, word};

/// An `amd_signal_t` of a user, with value 1. Returns where the value is.
fn signal(address: u64) -> u64 {
    for at in 0..8 {
        word(address + at * 8).store(0, Ordering::Relaxed);
    }
    word(address).store(1, Ordering::Relaxed);
    word(address + 8).store(1, Ordering::Release);
    address + 8
}

fn fence_works(program: &Program, queue: &TestQueue) {
    let target = program.paged(PAGE);
    let (low, high) = (target.address & 0xffff_ffff, target.address >> 32);
    let words = [5, u32::try_from(low).unwrap(), u32::try_from(high).unwrap(), 0xdead_beef];
    queue.packets(&words, 16);
    wait_for(target.address, 0xdead_beef);
    wait_for(queue.read, 16);
    program.free(target);
}

fn aql_works(profile: Profile) {
    let program = Program::new(profile);
    let queue = program.aql_queue();
    let signals = program.paged(PAGE);
    for index in 0..200 {
        let value = signal(signals.address);
        queue.barrier(index, signals.address);
        wait_for(value, 0);
    }
    wait_for(queue.read, 200);
    program.destroy(queue);
    program.free(signals);
    assert_eq!(program.queue_count(), 0);
}

#[test]
fn barriers_go_through_an_aql_queue() {
    aql_works(Profile::Mi210);
}

#[test]
fn barriers_go_through_an_aql_queue_with_mes() {
    aql_works(Profile::Rx7900xtx);
}

#[test]
fn barriers_go_through_an_aql_queue_of_eight_xccs() {
    aql_works(Profile::Mi300x);
}

#[test]
fn fences_go_through_sdma_queues_of_each_kind() {
    for profile in [Profile::Mi210, Profile::Rx7900xtx, Profile::Mi300x] {
        let program = Program::new(profile);
        let queue = program.ring_queue(QueueType::SDMA);
        fence_works(&program, &queue);
        program.destroy(queue);
        let ring = program.paged(PAGE);
        let request =
            QueueRequest { sdma_engine: Some(1), ..program.request(QueueType::SDMA_BY_ENG_ID, ring) };
        let resource = program.try_create(&request, None).expect("a queue on engine 1");
        let queue = TestQueue::new(&resource, ring, None);
        fence_works(&program, &queue);
        program.destroy(queue);
        assert_eq!(program.queue_count(), 0);
    }
    let program = Program::new(Profile::Mi210);
    let queue = program.ring_queue(QueueType::SDMA_XGMI);
    fence_works(&program, &queue);
    program.destroy(queue);
}

#[test]
fn a_store_goes_through_a_pm4_queue() {
    let program = Program::new(Profile::Mi210);
    let queue = program.ring_queue(QueueType::COMPUTE);
    let target = program.paged(PAGE);
    let (low, high) = (target.address & 0xffff_ffff, target.address >> 32);
    // WRITE_DATA of one word to memory, confirmed.
    let header = 3 << 30 | 3 << 16 | 0x37 << 8;
    let words =
        [header, 5 << 8 | 1 << 20, u32::try_from(low).unwrap(), u32::try_from(high).unwrap(), 0xfeed_beef];
    queue.packets(&words, 5);
    wait_for(target.address, 0xfeed_beef);
    wait_for(queue.read, 5);
    program.destroy(queue);
    program.free(target);
}

#[test]
fn q05_a_doorbell_that_is_used_again_rings_the_new_queue() {
    let program = Program::without_svm(Profile::Mi210);
    let signals = program.paged(PAGE);
    let mut doorbell = None;
    for _ in 0..200 {
        let queue = program.aql_queue();
        assert_eq!(*doorbell.get_or_insert(queue.doorbell), queue.doorbell, "the same doorbell");
        let value = signal(signals.address);
        queue.barrier(0, signals.address);
        wait_for(value, 0);
        program.destroy(queue);
    }
}

#[test]
fn q05_threads_that_make_and_destroy_queues_lose_no_ring() {
    const THREADS: u64 = 16;
    let program = Program::without_svm(Profile::Mi210);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let signals = program.paged(PAGE);
                for _ in 0..30 {
                    let queue = program.aql_queue();
                    let value = signal(signals.address);
                    queue.barrier(0, signals.address);
                    wait_for(value, 0);
                    program.destroy(queue);
                }
            });
        }
    });
    assert_eq!(program.queue_count(), 0);
}

#[test]
fn q01_doorbells_of_a_gpu_lie_in_one_process_page() {
    let program = Program::new(Profile::Mi210);
    let queues = [program.aql_queue(), program.aql_queue(), program.ring_queue(QueueType::SDMA)];
    let pages: Vec<_> = queues.iter().map(|queue| queue.doorbell / 8192).collect();
    assert!(pages.iter().all(|&page| page == pages[0]), "{pages:x?}");
    assert!(queues.iter().all(|queue| queue.doorbell.is_multiple_of(8)));
    assert_ne!(queues[0].doorbell, queues[1].doorbell);
    assert_ne!(queues[0].doorbell, queues[2].doorbell);
    for queue in queues {
        program.destroy(queue);
    }
}

#[test]
fn closing_unmaps_doorbells_and_leaves_those_of_a_living_queue() {
    let program = Program::new(Profile::Mi210);
    let queue = program.aql_queue();
    let signals = program.paged(PAGE);
    program.engine.queues.close(&program.engine);
    let value = signal(signals.address);
    queue.barrier(0, signals.address);
    wait_for(value, 0);
    let page = queue.doorbell & !8191;
    program.destroy(queue);
    program.engine.queues.close(&program.engine);
    assert!(program.engine.unmap_memory(page).is_err(), "the page is known no more");
    let queue = program.aql_queue();
    let value = signal(signals.address);
    queue.barrier(0, signals.address);
    wait_for(value, 0);
    program.destroy(queue);
}
