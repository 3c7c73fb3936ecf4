//! Every SDMA packet through a ring.

use std::sync::atomic::Ordering;

use super::packets::sdma;
use super::rig::{CLOCK_HZ, Rig, Told, pattern, words};
use crate::engine::{GpuFault, QueueKind};

#[test]
fn copies_of_any_length_arrive() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let (src, dst) = (rig.memory(4 << 20), rig.memory(4 << 20));
    let data = pattern(4 << 20);
    src.write(0, &data);
    for (offset, len) in [(0u32, 1u32), (3, 5), (4096, 4096), (7, 0x3f_fff0)] {
        queue.submit(&sdma::copy(dst.va + u64::from(offset), src.va + u64::from(offset), len));
        queue.drain();
        let (at, size) = (offset as usize, len as usize);
        assert_eq!(dst.read(u64::from(offset), size), &data[at..at + size], "{len} bytes at {offset}");
    }
}

#[test]
fn a_broadcast_copy_reaches_both_destinations() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let (src, dst) = (rig.memory(4096), rig.memory(8192));
    src.write(0, &pattern(4096));
    queue.submit(&sdma::broadcast([dst.va, dst.va + 4096], src.va, 4096));
    queue.drain();
    assert_eq!(dst.read(0, 8192), [pattern(4096), pattern(4096)].concat());
}

#[test]
fn linear_writes_fills_and_fences_store_what_they_say() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    queue.submit(&words(&[
        &sdma::write(mem.va, &[1, 2, 3]),
        // ROCr's count of a word fill is one word less than the bytes, kfdtest's one byte less.
        &sdma::fill(mem.va + 0x100, 0xaabb_ccdd, 2, 4),
        &sdma::fill(mem.va + 0x200, 0xaabb_ccdd, 2, 7),
        &sdma::fill(mem.va + 0x300, 0xee, 0, 2),
        &sdma::fill(mem.va + 0x400, 0xccdd, 1, 3),
        &sdma::fence(mem.va + 0x500, 0x1122_3344),
    ]));
    queue.drain();
    assert_eq!([mem.u32(0), mem.u32(4), mem.u32(8), mem.u32(12)], [1, 2, 3, 0]);
    for offset in [0x100, 0x200] {
        let got = [0, 4, 8].map(|at| mem.u32(offset + at));
        assert_eq!(got, [0xaabb_ccdd, 0xaabb_ccdd, 0], "at {offset:#x}");
    }
    assert_eq!(mem.read(0x300, 4), [0xee, 0xee, 0xee, 0]);
    assert_eq!(mem.read(0x400, 5), [0xdd, 0xcc, 0xdd, 0xcc, 0]);
    assert_eq!(mem.u32(0x500), 0x1122_3344);
}

#[test]
fn a_long_linear_write_wraps_around_the_ring() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    let data: Vec<u32> = (1..=900).collect();
    for _ in 0..5 {
        queue.submit(&sdma::fill(mem.va, 0, 2, 3599));
        queue.submit(&sdma::write(mem.va, &data));
        queue.drain();
        assert_eq!([mem.u32(0), mem.u32(899 * 4)], [1, 900]);
    }
}

#[test]
fn traps_interrupt_with_28_bits_of_event_id() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    queue.submit(&sdma::trap(0xf000_0123));
    // kfd_int_process_v9.c: SDMA_TRAP gives context_id0 & 0xfffffff with 28 valid bits.
    rig.wait_told(Told::Event { id: 0x123, bits: 28 });
}

#[test]
fn polls_wait_for_memory_and_hold_up_what_follows() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    queue.submit(&words(&[&sdma::poll(mem.va, 3, 7, 0xfff), &sdma::fence(mem.va + 8, 1)]));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(mem.u32(8), 0);
    assert_eq!(queue.read_pointer(), 0, "a packet under way is not reported as read");
    mem.set_u32(0, 7);
    queue.drain();
    assert_eq!(mem.u32(8), 1);
}

#[test]
fn the_hdp_flush_of_rocr_passes() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    // sdma_registers.h: hdp_flush_cmd; and GCR_REQ of the same header, sub-opcode USER_GCR.
    queue.submit(&words(&[
        &[0x8, 0, 0x8000_0000, 0, 0, 0],
        &[17 | 1 << 8, 0, 0, 0, 0],
        &sdma::fence(mem.va, 5),
    ]));
    queue.drain();
    assert_eq!(mem.u32(0), 5);
}

#[test]
fn a_poll_that_gives_up_is_an_error() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    queue.submit(&sdma::poll(mem.va, 3, 7, 3));
    rig.wait_told(Told::Exception { queue: queue.id, mask: 1 << 19 });
}

#[test]
fn atomics_have_the_functions_of_the_cache() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    let cases = [
        // (TC_OP number, before, operand, comparand, after)
        (47, 10u64, u64::MAX, 0, 9u64),
        (48, 10, 3, 0, 7),
        (39, 10, 99, 0, 99),
        (40, 10, 99, 10, 99),
        (40, 10, 99, 11, 10),
        (49, u64::MAX, 1, 0, u64::MAX),
        (50, u64::MAX, 1, 0, 1),
        (53, 0b1100, 0b1010, 0, 0b1000),
        (55, 0b1100, 0b1010, 0, 0b0110),
        (15, 0x1_ffff_ffff, 1, 0, 0x1_0000_0000),
        (8, 0x1_0000_0005, 9, 5, 0x1_0000_0009),
        (0x6f, 1, 1, 0, 2),
    ];
    for (op, before, src, compare, after) in cases {
        mem.set_u64(8, before);
        queue.submit(&sdma::atomic(op, false, mem.va + 8, src, compare));
        queue.drain();
        assert_eq!(mem.u64(8), after, "operation {op}");
    }
}

#[test]
fn a_repeated_compare_and_swap_waits_for_its_value() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    queue.submit(&sdma::atomic(40, true, mem.va, 2, 1));
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!(mem.u64(0), 0);
    mem.set_u64(0, 1);
    queue.drain();
    assert_eq!(mem.u64(0), 2);
}

#[test]
fn atomics_of_cpu_and_gpu_lose_no_increment() {
    const EACH: u64 = 20_000;
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 64 << 10);
    let mem = rig.memory(4096);
    let cpu = mem.mem.clone();
    let adder = std::thread::spawn(move || {
        for _ in 0..EACH {
            cpu.atomic_u64(64).expect("aligned").fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..EACH {
        queue.submit(&sdma::atomic(47, false, mem.va + 64, 1, 0));
    }
    adder.join().expect("no panic");
    queue.drain();
    assert_eq!(mem.u64(64), 2 * EACH);
}

#[test]
fn timestamps_follow_the_clock() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.memory(4096);
    queue.submit(&sdma::timestamp(2, mem.va));
    queue.drain();
    std::thread::sleep(std::time::Duration::from_millis(10));
    queue.submit(&words(&[
        &sdma::timestamp(2, mem.va + 8),
        &sdma::timestamp(0, 0x1000),
        &sdma::timestamp(1, mem.va + 16),
    ]));
    queue.drain();
    let passed = mem.u64(8) - mem.u64(0);
    assert!(passed >= CLOCK_HZ / 100, "{passed} ticks in 10 ms");
    assert!((0x1000..0x1000 + CLOCK_HZ).contains(&mem.u64(16)), "counted from the value that was set");
}

#[test]
fn indirect_buffers_and_conditional_execution_work_together() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let (mem, buffer) = (rig.memory(4096), rig.memory(4096));
    mem.set_u32(0, 1);
    let program = words(&[
        &sdma::cond_exe(mem.va, 1, 4),
        &sdma::fence(mem.va + 8, 11),
        &sdma::cond_exe(mem.va, 2, 4),
        &sdma::fence(mem.va + 12, 12),
        // A NOP with two words of payload.
        &[2 << 16, 0xdead, 0xbeef],
        &sdma::fence(mem.va + 16, 13),
    ]);
    for (at, word) in (0..).zip(&program) {
        buffer.set_u32(at * 4, *word);
    }
    queue.submit(&sdma::indirect(buffer.va, u32::try_from(program.len()).expect("small")));
    queue.drain();
    assert_eq!([mem.u32(8), mem.u32(12), mem.u32(16)], [11, 0, 13]);
}

#[test]
fn sub_windows_are_copied_row_by_row() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let (src, dst) = (rig.memory(4096), rig.memory(4096));
    src.write(0, &pattern(4096));
    let ([s0, s1], [d0, d1]) = (super::rig::halves(src.va), super::rig::halves(dst.va));
    // Elements of 4 bytes; from (1, 2, 0) with pitch 16, slice 128; to (0, 0, 0) with pitch 8, slice 32;
    // 3 x 2 x 2 elements.
    let packet =
        [1 | 4 << 8 | 2 << 29, s0, s1, 1 | 2 << 16, 15 << 13, 127, d0, d1, 0, 7 << 13, 31, 2 | 1 << 16, 1];
    queue.submit(&packet);
    queue.drain();
    for (x, y, z) in (0..2u64).flat_map(|z| (0..2u64).flat_map(move |y| (0..3u64).map(move |x| (x, y, z)))) {
        let from = (x + 1 + (y + 2) * 16 + z * 128) * 4;
        assert_eq!(dst.u32((x + y * 8 + z * 32) * 4), src.u32(from), "element {x}, {y}, {z}");
    }
    assert_eq!(dst.u32(3 * 4), 0, "nothing beside the window");
}

#[test]
fn unknown_packets_stop_the_queue_and_no_other() {
    let rig = Rig::new();
    let (bad, good) = (rig.queue(QueueKind::Sdma, 4096), rig.queue(QueueKind::Sdma, 4096));
    let mem = rig.memory(4096);
    bad.submit(&words(&[&[0xee], &sdma::fence(mem.va, 1)]));
    // EC_QUEUE_PACKET_UNSUPPORTED is 20.
    rig.wait_told(Told::Exception { queue: bad.id, mask: 1 << 19 });
    good.submit(&sdma::fence(mem.va + 8, 2));
    good.drain();
    bad.submit(&sdma::fence(mem.va, 1));
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!([mem.u32(0), mem.u32(8)], [0, 2]);
}

#[test]
fn faults_name_the_first_bad_address_and_the_access() {
    for (write, bytes_before) in [(false, 512), (true, 512)] {
        let rig = Rig::new();
        let queue = rig.queue(QueueKind::Sdma, 4096);
        let (short, long) = (rig.memory(4096), rig.memory(8192));
        let start = short.va + 4096 - bytes_before;
        let packet = if write { sdma::copy(start, long.va, 1024) } else { sdma::copy(long.va, start, 1024) };
        queue.submit(&packet);
        let fault = GpuFault { va: short.va + 4096, write, not_present: true };
        rig.wait_told(Told::Fault { gpu_id: 0x1234, fault });
        assert!(rig.engine.evicted(), "kfd_dqm_evict_pasid takes all queues of the process off the GPU");
    }
}

#[test]
fn stores_to_read_only_memory_are_permission_faults() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Sdma, 4096);
    let mem = rig.read_only(4096);
    queue.submit(&sdma::fence(mem.va + 16, 1));
    let fault = GpuFault { va: mem.va + 16, write: true, not_present: false };
    rig.wait_told(Told::Fault { gpu_id: 0x1234, fault });
}
