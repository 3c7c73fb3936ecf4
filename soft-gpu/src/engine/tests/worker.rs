//! Fairness, removal, updates and doorbell reuse.

use std::time::{Duration, Instant};

use super::packets::{aql, pm4, sdma};
use super::rig::{GFX90A, Rig, RigQueue, words};
use crate::engine::QueueKind;

#[test]
fn several_queues_make_progress_beside_one_that_never_ends() {
    let rig = Rig::new();
    let (looping, buffer) = (rig.queue(QueueKind::Pm4, 4096), rig.memory(4096));
    for (at, word) in (0..).zip(pm4::indirect_buffer(buffer.va, 4, true)) {
        buffer.set_u32(at * 4, word);
    }
    looping.submit(&pm4::indirect_buffer(buffer.va, 4, false));
    let mem = rig.memory(4096);
    let queues: Vec<RigQueue<'_>> = (0..8).map(|_| rig.queue(QueueKind::Sdma, 4096)).collect();
    for (at, queue) in (0..).zip(&queues) {
        queue.submit(&sdma::fence(mem.va + at * 4, 1));
    }
    for queue in &queues {
        queue.drain();
    }
    assert!((0..8).all(|at| mem.u32(at * 4) == 1));
}

#[test]
fn removal_is_prompt_whatever_the_queue_does() {
    let rig = Rig::new();
    let (mem, buffer) = (rig.memory(4096), rig.memory(64 << 20));
    let endless = |queue: &RigQueue<'_>, program: &[u32]| {
        queue.submit(program);
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        rig.engine.remove(queue.id);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    };
    let wait = rig.queue(QueueKind::Pm4, 4096);
    endless(&wait, &pm4::wait_mem(mem.va, 3, 1));
    let spin = rig.queue(QueueKind::Pm4, 4096);
    for (at, word) in (0..).zip(pm4::indirect_buffer(buffer.va, 4, true)) {
        buffer.set_u32(at * 4, word);
    }
    endless(&spin, &pm4::indirect_buffer(buffer.va, 4, false));
    let poll = rig.queue(QueueKind::Sdma, 4096);
    endless(&poll, &sdma::poll(mem.va, 3, 1, 0xfff));
    let copy = rig.queue(QueueKind::Sdma, 4096);
    endless(&copy, &sdma::copy(buffer.va, buffer.va + (32 << 20), 32 << 20));
    let barrier = rig.queue(QueueKind::Aql, 4096);
    mem.set_u64(64 + 8, 1);
    endless(&barrier, &aql::barrier(3, &[mem.va + 64], 0));
}

#[test]
fn nothing_of_a_removed_queue_runs_on() {
    let rig = Rig::new();
    let mem = rig.memory(4096);
    for round in 0..50 {
        let queue = rig.queue(QueueKind::Sdma, 64 << 10);
        let packet =
            words(&[&sdma::atomic(47, false, mem.va, 1, 0), &sdma::atomic(47, false, mem.va + 8, 1, 0)]);
        for _ in 0..200 {
            queue.place(&packet);
        }
        queue.ring();
        rig.engine.remove(queue.id);
        let before = mem.u64(0);
        std::thread::yield_now();
        assert_eq!(mem.u64(0), before, "round {round}");
    }
}

#[test]
fn an_inactive_queue_goes_on_where_it_stopped() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    queue.submit(&sdma::fence(mem.va, 1));
    queue.drain();
    rig.engine.update(queue.id, queue.ring.va, 4096, false);
    queue.submit(&sdma::fence(mem.va, 2));
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(mem.u32(0), 1);
    rig.engine.update(queue.id, queue.ring.va, 4096, true);
    queue.drain();
    assert_eq!(mem.u32(0), 2);
}

#[test]
fn work_that_is_there_before_the_queue_is_found_through_the_write_pointer() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    rig.engine.remove(queue.id);
    queue.place(&sdma::fence(mem.va, 3));
    queue.pointers.set_u64(super::rig::WRITE_POINTER, 16);
    rig.engine.add(queue.config(GFX90A)).expect("thread");
    queue.drain();
    assert_eq!(mem.u32(0), 3);
}

/// Case Q05: a reused doorbell slot kept its old value, and the first dispatch was lost.
#[test]
fn q05_a_reused_doorbell_slot_starts_not_rung() {
    let rig = Rig::new();
    let mem = rig.memory(4096);
    let queue = rig.queue(QueueKind::Aql, 4096);
    for round in 0..1000 {
        mem.set_u64(8, 1);
        queue.ring.set_u32(0, 1);
        queue.pointers.set_u64(super::rig::WRITE_POINTER, 0);
        queue.pointers.set_u64(super::rig::READ_POINTER, 0);
        rig.engine.remove(queue.id);
        rig.engine.add(queue.config(GFX90A)).expect("thread");
        for (at, word) in (0..).zip(aql::barrier(3, &[], mem.va)).skip(1) {
            queue.ring.set_u32(at * 4, word);
        }
        queue.ring.set_u32(0, aql::barrier(3, &[], mem.va)[0]);
        let start = Instant::now();
        rig.ring_raw(queue.id, 0);
        rig.wait("the packet", || mem.u64(8) == 0);
        assert!(start.elapsed() < Duration::from_secs(1), "round {round}");
    }
}
