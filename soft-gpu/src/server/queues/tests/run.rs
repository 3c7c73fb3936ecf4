//! Queues at work, from the call to the event.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use protocol::kfd::Ioctl;
use protocol::kfd::args::{CreateEventArgs, CreateQueueArgs, WaitEventsArgs};
use protocol::kfd::constants::{AllocFlags, QueueType};
use protocol::kfd::types::EventData;
use zerocopy::FromZeros;

use super::{RW, Rig, barrier, fence, halves, wait};
use crate::profile::Profile;
use crate::server::memory::tests::Pages;

#[test]
fn a_barrier_decrements_its_signal_in_program_memory_and_wakes_the_event() {
    let rig = Rig::new(Profile::Mi210);
    // The event page as the thunk makes it: GTT, given with the first event.
    let page = rig.gtt(32 << 10);
    let mut event = CreateEventArgs { event_page_offset: page.handle, ..Default::default() };
    rig.program.ioctl(Ioctl::CreateEvent, &mut event).expect("event");
    let pages = Pages::new(1);
    let signal = rig.userptr(&pages, 4096);
    pages.atomic(8).store(1, Ordering::Relaxed);
    pages.atomic(16).store(page.va + u64::from(event.event_slot_index) * 8, Ordering::Relaxed);
    pages.atomic(24).store(u64::from(event.event_trigger_data), Ordering::Relaxed);
    let queue = rig.compute(QueueType::COMPUTE_AQL, 4096);
    let created = rig.create(&queue.args).expect("create");
    queue.ring.words(4, &barrier(signal)[1..]);
    queue.ring.words(0, &barrier(signal)[..1]);
    queue.pointers.u64(56).store(1, Ordering::Release);
    rig.ring(&created, 0);
    let mut data = EventData::new_zeroed();
    data.event_id = event.event_id;
    let events_ptr = std::ptr::from_mut(&mut data).expose_provenance() as u64;
    let mut args = WaitEventsArgs { events_ptr, num_events: 1, timeout: 20_000, ..Default::default() };
    rig.program.ioctl(Ioctl::WaitEvents, &mut args).expect("wait");
    // KFD_IOC_WAIT_RESULT_COMPLETE
    assert_eq!((args.wait_result, pages.atomic(8).load(Ordering::Acquire)), (0, 0));
    assert_eq!(queue.pointers.u64(128).load(Ordering::Acquire), 1);
    rig.destroy(created.queue_id).expect("destroy");
}

#[test]
fn sdma_copies_between_program_memory_and_vram() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.sdma(QueueType::SDMA);
    let created = rig.create(&queue.args).expect("create");
    let vram = rig.buffer(0, 1 << 20, AllocFlags::VRAM | AllocFlags::PUBLIC | RW);
    let pages = Pages::new(256);
    let host = rig.userptr(&pages, 1 << 20);
    for (value, at) in (1..).zip((0..1 << 20).step_by(8)) {
        pages.atomic(at).store(value, Ordering::Relaxed);
    }
    let ([h0, h1], [v0, v1]) = (halves(host), halves(vram.va));
    let done = rig.gtt(4096);
    queue.ring.words(0, &[1, (1 << 20) - 1, 0, h0, h1, v0, v1]);
    queue.ring.words(28, &fence(done.va, 1));
    queue.pointers.u64(56).store(44, Ordering::Release);
    rig.ring(&created, 44);
    wait("the fence", || done.u64(0).load(Ordering::Acquire) == 1);
    for (value, at) in (1..).zip((0..1 << 20).step_by(8)) {
        assert_eq!(vram.u64(at).load(Ordering::Relaxed), value);
    }
}

#[test]
fn the_end_of_a_process_is_prompt_whatever_its_queues_do() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.compute(QueueType::COMPUTE, 4096);
    let created = rig.create(&queue.args).expect("create");
    // PM4 WAIT_REG_MEM for a value that never comes.
    let [a0, a1] = halves(queue.pointers.va + 1024);
    queue.ring.words(0, &[0xc005_3c00, 3 | 1 << 4, a0, a1, 1, u32::MAX, 4]);
    queue.pointers.u64(56).store(7, Ordering::Release);
    rig.ring(&created, 7);
    std::thread::sleep(Duration::from_millis(10));
    let start = Instant::now();
    drop(rig);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// Case Q05: a reused doorbell slot kept its old value, and the first dispatch was lost. 16 threads, 1,008 rounds.
#[test]
fn q05_the_first_packet_of_a_queue_on_a_reused_doorbell_is_not_lost() {
    let rig = Rig::new(Profile::Mi210);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let queue = rig.compute(QueueType::COMPUTE_AQL, 1024);
                let signal = rig.gtt(4096);
                for round in 0..63 {
                    signal.u64(8).store(1, Ordering::Relaxed);
                    queue.pointers.u64(56).store(0, Ordering::Relaxed);
                    queue.pointers.u64(128).store(0, Ordering::Relaxed);
                    queue.ring.words(0, &[1]);
                    let created = rig.create(&queue.args).expect("create");
                    queue.ring.words(4, &barrier(signal.va)[1..]);
                    queue.ring.words(0, &barrier(signal.va)[..1]);
                    rig.ring(&created, 0);
                    wait(&format!("round {round}"), || signal.u64(8).load(Ordering::Acquire) == 0);
                    rig.destroy(created.queue_id).expect("destroy");
                }
            });
        }
    });
}

/// Case S03: memory of the program whose address on the GPU is another one, for all that a queue names.
#[test]
fn s03_addresses_on_the_gpu_need_not_be_the_programs() {
    let rig = Rig::new(Profile::Mi210);
    let [ring, pointers, target] = [1, 1, 1].map(Pages::new);
    let place = |pages: &Pages| {
        let va = rig.fresh_va(4096);
        assert_ne!(va, pages.addr());
        let buffer = rig.program.alloc_userptr(va, 4096, pages.addr()).expect("alloc");
        rig.program.map(buffer.handle, &[rig.program.gpu()]).expect("map");
        va
    };
    let [ring_va, pointers_va, target_va] = [&ring, &pointers, &target].map(place);
    let args = CreateQueueArgs {
        ring_base_address: ring_va,
        ring_size: 4096,
        write_pointer_address: pointers_va + 56,
        read_pointer_address: pointers_va + 128,
        gpu_id: rig.program.gpu(),
        queue_type: QueueType::SDMA.0,
        queue_percentage: 100,
        ..Default::default()
    };
    let created = rig.create(&args).expect("create");
    let [opcode, low, high, value] = fence(target_va, 0x5a5a).map(u64::from);
    ring.atomic(0).store(opcode | low << 32, Ordering::Relaxed);
    ring.atomic(8).store(high | value << 32, Ordering::Relaxed);
    pointers.atomic(56).store(16, Ordering::Release);
    rig.ring(&created, 16);
    wait("the fence", || target.atomic(0).load(Ordering::Acquire) == 0x5a5a);
    wait("the read pointer", || pointers.atomic(128).load(Ordering::Acquire) == 16);
    rig.destroy(created.queue_id).expect("destroy");
}
