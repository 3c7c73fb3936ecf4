//! AQL packets, signals, and errors as ROCr sees them.

use super::packets::{aql, pm4};
use super::rig::{Buffer, CLOCK_HZ, READ_POINTER, Rig, Told, WRITE_POINTER};
use crate::engine::QueueKind;

/// Writes an `amd_signal_t` and returns its handle.
fn signal(mem: &Buffer, offset: u64, value: u64, mailbox: u64, event_id: u32) -> u64 {
    mem.set_u64(offset, 1);
    mem.set_u64(offset + 8, value);
    mem.set_u64(offset + 16, mailbox);
    mem.set_u32(offset + 24, event_id);
    mem.va + offset
}

#[test]
fn barriers_wait_for_all_or_one_of_their_signals() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let deps = [signal(&mem, 0, 1, 0, 0), signal(&mem, 64, 1, 0, 0)];
    let done = [signal(&mem, 128, 1, 0, 0), signal(&mem, 192, 1, 0, 0)];
    queue.submit(&aql::barrier(5, &deps, done[0]));
    queue.submit(&aql::barrier(3, &deps, done[1]));
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!([mem.u64(136), mem.u64(200)], [1, 1]);
    mem.set_u64(72, 0);
    rig.wait("barrier-OR", || mem.u64(136) == 0);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(mem.u64(200), 1, "barrier-AND waits for the other one too");
    mem.set_u64(8, 0);
    queue.drain();
    rig.wait("barrier-AND", || mem.u64(200) == 0);
}

#[test]
fn ten_thousand_barriers_complete_in_order_and_wrap_around() {
    const PACKETS: u64 = 10_000;
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let done = signal(&mem, 0, PACKETS, 0, 0);
    for index in 0..PACKETS {
        rig.wait("a free slot", || index - queue.read_pointer() < 64);
        queue.submit(&aql::barrier(3, &[], done));
    }
    queue.drain();
    rig.wait("the last signal", || mem.u64(8) == 0);
    for slot in 0..64 {
        assert_eq!(queue.ring.read(slot * 64, 2), [1, 0], "slot {slot} is INVALID again");
    }
}

#[test]
fn a_packet_is_not_read_before_its_header_is_valid() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let done = signal(&mem, 0, 1, 0, 0);
    let mut packet = aql::barrier(3, &[], done);
    let header = std::mem::replace(&mut packet[0], 1);
    queue.submit(&packet);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(mem.u64(8), 1);
    queue.ring.set_u32(0, header);
    rig.wait("the packet", || mem.u64(8) == 0);
}

#[test]
fn barrier_value_packets_compare_masked_values() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let (watched, done) = (signal(&mem, 0, 0, 0, 0), signal(&mem, 64, 4, 0, 0));
    // (condition, value that passes, value that does not), against 5 with mask 0xff.
    for (condition, passes, waits) in [(0, 0x105, 4), (1, 6, 5), (2, 4, 5), (3, 5, 4)] {
        mem.set_u64(8, waits);
        let before = mem.u64(72);
        queue.submit(&aql::barrier_value(watched, 5, 0xff, condition, done));
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(mem.u64(72), before, "condition {condition} waits at {waits}");
        mem.set_u64(8, passes);
        rig.wait("the barrier", || mem.u64(72) == before - 1);
    }
}

#[test]
fn completion_writes_the_mailbox_and_interrupts() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let done = signal(&mem, 0, 1, mem.va + 1024, 42);
    queue.submit(&aql::barrier(3, &[], done));
    rig.wait_told(Told::Event { id: 42, bits: 32 });
    assert_eq!((mem.u64(8), mem.u64(1024)), (0, 42));
}

#[test]
fn times_are_recorded_when_profiling_is_enabled() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let (gate, done) = (signal(&mem, 0, 1, 0, 0), signal(&mem, 64, 2, 0, 0));
    queue.submit(&aql::barrier(3, &[], done));
    rig.wait("a barrier", || mem.u64(72) == 1);
    assert_eq!(mem.u64(64 + 32), 0, "no times without profiling");
    // amd_queue_t: offset of read_dispatch_id behind it, queue_properties at 180.
    queue.pointers.set_u32(READ_POINTER + 8, 128);
    queue.pointers.set_u32(180, 1 << 3);
    queue.submit(&aql::barrier(3, &[gate], done));
    std::thread::sleep(std::time::Duration::from_millis(10));
    mem.set_u64(8, 0);
    rig.wait("a barrier", || mem.u64(72) == 0);
    let (start, end) = (mem.u64(64 + 32), mem.u64(64 + 40));
    assert!(end - start >= CLOCK_HZ / 200, "from {start} to {end}");
}

#[test]
fn pm4_buffers_run_from_vendor_packets() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, buffer) = (rig.memory(4096), rig.memory(4096));
    let done = signal(&mem, 0, 1, 0, 0);
    let program = pm4::write_data(mem.va + 256, &[0x55]);
    for (at, word) in (0..).zip(&program) {
        buffer.set_u32(at * 4, *word);
    }
    let jump = pm4::indirect_buffer(buffer.va, u32::try_from(program.len()).expect("small"), false);
    queue.submit(&aql::pm4_ib(&jump, done));
    rig.wait("the signal", || mem.u64(8) == 0);
    assert_eq!(mem.u32(256), 0x55);
}

#[test]
fn errors_reach_the_inactive_signal_and_the_exception_mask() {
    let rig = Rig::new();
    let mem = rig.memory(4096);
    let mut unknown_vendor = aql::pm4_ib(&[0; 4], 0);
    unknown_vendor[0] = 77 << 16;
    // (packet, value in the inactive signal as AqlQueue::DynamicQueueEventsHandler reads it, KFD_EC_MASK)
    let cases = [
        (aql::kernel_dispatch(0), 8, 1u64 << 17),
        (aql::kernel([64, 1, 1], [0, 1, 1], 0, 0, 0), 2, 1 << 15),
        (aql::kernel([64, 0, 1], [64, 2, 1], 0, 0, 0), 2, 1 << 15),
        (aql::kernel([64, 1, 1], [64, 1, 1], 65_537, 0, 0), 4, 1 << 16),
        (aql::kernel([64, 17, 1], [64, 17, 1], 0, 0, 0), 64, 1 << 20),
        (aql::barrier(9, &[], 0), 32, 1 << 19),
        (aql::barrier(4, &[], 0), 32, 1 << 19),
        (unknown_vendor, 256, 1 << 22),
        (aql::pm4_ib(&[0; 4], 0), 256, 1 << 22),
    ];
    for (at, (packet, value, mask)) in (0..).zip(cases) {
        let queue = rig.queue(QueueKind::Aql, 4096);
        let inactive = signal(&mem, at * 128, 0, mem.va + 2048, 100);
        queue.pointers.set_u32(READ_POINTER + 8, 128);
        queue.pointers.set_u64(192, inactive);
        queue.submit(&packet);
        rig.wait_told(Told::Exception { queue: queue.id, mask });
        assert_eq!(mem.u64(at * 128 + 8), value);
        assert_eq!(queue.read_pointer(), 0, "the packet is not passed over");
    }
    assert!(rig.log.all().contains(&Told::Event { id: 100, bits: 32 }));
}

#[test]
fn producers_that_ring_out_of_order_lose_no_packet() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let done = signal(&mem, 0, 2, 0, 0);
    queue.place(&aql::barrier(3, &[], done));
    queue.place(&aql::barrier(3, &[], done));
    queue.pointers.set_u64(WRITE_POINTER, 2);
    // The store of index 1 was overtaken by the late one of index 0 before anybody looked.
    rig.ring_raw(queue.id, 0);
    queue.drain();
    rig.wait("both packets", || mem.u64(8) == 0);
}

#[test]
fn a_doorbell_rung_with_four_bytes_is_understood() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let mem = rig.memory(4096);
    let done = signal(&mem, 0, 1, 0, 0);
    queue.place(&aql::barrier(3, &[], done));
    // kfdtest's AqlQueue::SubmitPacket stores 32 bits; the upper half stays not rung.
    rig.ring_raw(queue.id, 0xffff_ffff_0000_0000);
    rig.wait("the packet", || mem.u64(8) == 0);
}
