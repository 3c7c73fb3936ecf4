//! Every PM4 packet through a ring.

use super::packets::pm4;
use super::rig::{Buffer, CLOCK_HZ, Rig, Told, words};
use crate::engine::QueueKind;

fn load(buffer: &Buffer, program: &[u32]) -> u32 {
    for (at, word) in (0..).zip(program) {
        buffer.set_u32(at * 4, *word);
    }
    u32::try_from(program.len()).expect("small")
}

#[test]
fn write_data_stores_words_with_and_without_increment() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let mem = rig.memory(4096);
    let mut fixed = pm4::write_data(mem.va + 64, &[7, 8, 9]);
    fixed[1] |= 1 << 16;
    queue.submit(&words(&[&pm4::write_data(mem.va, &[1, 2, 3]), &fixed]));
    queue.drain();
    assert_eq!([mem.u32(0), mem.u32(4), mem.u32(8)], [1, 2, 3]);
    assert_eq!([mem.u32(64), mem.u32(68)], [9, 0]);
}

#[test]
fn nops_fillers_flushes_and_registers_change_nothing_and_pass() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let mem = rig.memory(4096);
    queue.submit(&words(&[
        // kfdtest's CMD_NOP_TYPE_3: one word whatever its count says; a type-2 filler; a NOP with a body.
        &[0xffff_1002, 0x8000_0000],
        &pm4::packet(0x10, &[0xdead, 0xbeef]),
        // ACQUIRE_MEM of gfx9 and of gfx10, CS_PARTIAL_FLUSH, SET_SH_REG, SET_UCONFIG_REG.
        &pm4::packet(0x58, &[0x28c0_0000, u32::MAX, 0, 0, 0, 4]),
        &pm4::packet(0x58, &[0, u32::MAX, 0, 0, 0, 4, 0x4381]),
        &pm4::packet(0x46, &[7 | 4 << 8]),
        &pm4::packet(0x76, &[0x207, 1, 2, 3]),
        &pm4::packet(0x79, &[0x40, 5]),
        &pm4::write_data(mem.va, &[1]),
    ]));
    queue.drain();
    assert_eq!(mem.u32(0), 1);
}

#[test]
fn release_mem_writes_then_interrupts() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let mem = rig.memory(4096);
    queue.submit(&words(&[
        &pm4::release_mem(mem.va, 0x1111_2222_3333_4444, 1, 0, 0),
        &pm4::release_mem(mem.va + 8, 0x1111_2222_3333_4444, 2, 3, 0),
        &pm4::release_mem(mem.va + 16, 0, 3, 0, 0),
        &pm4::release_mem(0, 0, 0, 1, 77),
        &pm4::release_mem(mem.va + 24, 5, 2, 2, 78),
    ]));
    queue.drain();
    assert_eq!(mem.u64(0), 0x3333_4444);
    assert_eq!(mem.u64(8), 0x1111_2222_3333_4444);
    assert!(mem.u64(16) > CLOCK_HZ / 1000, "the clock counter");
    assert_eq!(mem.u64(24), 5);
    // kfd_int_process_v9.c: END_OF_PIPE carries 32 bits.
    let events = [Told::Event { id: 77, bits: 32 }, Told::Event { id: 78, bits: 32 }];
    assert_eq!(rig.log.all(), events);
}

#[test]
fn waits_hold_up_the_queue() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let mem = rig.memory(4096);
    queue.submit(&words(&[&pm4::wait_mem(mem.va, 5, 3), &pm4::write_data(mem.va + 8, &[1])]));
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!((mem.u32(8), queue.pointers.u32(super::rig::READ_POINTER)), (0, 0));
    mem.set_u32(0, 4);
    queue.drain();
    assert_eq!(mem.u32(8), 1);
}

#[test]
fn registers_keep_what_is_written_and_can_be_waited_for() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let mem = rig.memory(4096);
    // SET_SH_REG counts from 0x2c00 (PACKET3_SET_SH_REG_START).
    queue.submit(&words(&[
        &pm4::packet(0x76, &[0x10, 0xabcd, 0x1234]),
        &pm4::packet(0x3c, &[3, 0x2c10, 0, 0xabcd, u32::MAX, 4]),
        &pm4::copy_data((0, 0x2c10), (5, mem.va), true),
        &pm4::packet(0x37, &[0, 0x2c11, 0, 0x77]),
        &pm4::copy_data((0, 0x2c11), (2, mem.va + 8), false),
    ]));
    queue.drain();
    assert_eq!((mem.u64(0), mem.u64(8)), (0x1234_0000_abcd, 0x77));
}

#[test]
fn copy_data_takes_memory_immediates_clock_and_atomic_results() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let mem = rig.memory(4096);
    mem.set_u64(0, 0x1111_2222_3333_4444);
    mem.set_u64(64, 100);
    queue.submit(&words(&[
        &pm4::copy_data((1, mem.va), (5, mem.va + 8), false),
        &pm4::copy_data((2, mem.va), (2, mem.va + 16), true),
        &pm4::copy_data((5, 0x9999_8888_7777), (5, mem.va + 24), true),
        &pm4::copy_data((9, 0), (5, mem.va + 32), true),
        // ROCr reads back a swapped value like this: SWAP_RTN_64 is 39, source 6 the returned value.
        &pm4::atomic_mem(39, mem.va + 64, 200, 0),
        &pm4::copy_data((6, 0), (2, mem.va + 40), true),
    ]));
    queue.drain();
    assert_eq!(
        [mem.u64(8), mem.u64(16), mem.u64(24)],
        [0x3333_4444, 0x1111_2222_3333_4444, 0x9999_8888_7777]
    );
    assert!(mem.u64(32) > CLOCK_HZ / 1000);
    assert_eq!([mem.u64(64), mem.u64(40)], [200, 100]);
}

#[test]
fn indirect_buffers_nest_and_chain() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let (mem, outer, inner, chained) =
        (rig.memory(4096), rig.memory(4096), rig.memory(4096), rig.memory(4096));
    let inner_len = load(&inner, &pm4::write_data(mem.va, &[1]));
    let chained_len = load(&chained, &pm4::write_data(mem.va + 8, &[3]));
    let outer_len = load(
        &outer,
        &words(&[
            &pm4::indirect_buffer(inner.va, inner_len, false),
            &pm4::write_data(mem.va + 4, &[2]),
            &pm4::indirect_buffer(chained.va, chained_len, true),
            &pm4::write_data(mem.va + 12, &[99]),
        ]),
    );
    queue.submit(&words(&[
        &pm4::indirect_buffer(outer.va, outer_len, false),
        &pm4::write_data(mem.va + 16, &[4]),
    ]));
    queue.drain();
    let got = [0, 4, 8, 12, 16].map(|at| mem.u32(at));
    assert_eq!(got, [1, 2, 3, 0, 4], "a chained buffer does not come back");
}

#[test]
fn conditions_and_predicates_skip_words() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let mem = rig.memory(4096);
    let [m0, m1] = super::rig::halves(mem.va);
    queue.submit(&words(&[
        // COND_EXEC: 5 words are skipped because the word is zero.
        &pm4::packet(0x22, &[m0, m1, 0, 5]),
        &pm4::write_data(mem.va + 8, &[1]),
        // PRED_EXEC for die 0, then for die 1.
        &pm4::packet(0x23, &[5 | 1 << 24]),
        &pm4::write_data(mem.va + 12, &[2]),
        &pm4::packet(0x23, &[5 | 2 << 24]),
        &pm4::write_data(mem.va + 16, &[3]),
        &pm4::write_data(mem.va + 20, &[4]),
    ]));
    queue.drain();
    assert_eq!([8, 12, 16, 20].map(|at| mem.u32(at)), [0, 2, 0, 4]);
}

#[test]
fn dma_data_copies_and_fills() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 4096);
    let (src, dst) = (rig.memory(4096), rig.memory(8192));
    src.write(0, &super::rig::pattern(4096));
    let ([s0, s1], [d0, d1]) = (super::rig::halves(src.va), super::rig::halves(dst.va));
    queue.submit(&words(&[
        &pm4::packet(0x50, &[3 << 20 | 3 << 29, s0, s1, d0, d1, 4096]),
        &pm4::packet(0x50, &[3 << 20 | 2 << 29, 0x5a5a_5a5a, 0, d0 + 4096, d1, 8]),
    ]));
    queue.drain();
    assert_eq!(dst.read(0, 4096), super::rig::pattern(4096));
    assert_eq!([dst.u32(4096), dst.u32(4100), dst.u32(4104)], [0x5a5a_5a5a, 0x5a5a_5a5a, 0]);
}

#[test]
fn what_is_not_executed_stops_the_queue_with_its_exception() {
    // EC_QUEUE_PACKET_DISPATCH_CODE_INVALID is 18, EC_QUEUE_PACKET_UNSUPPORTED 20.
    let cases: [(Vec<u32>, u64); 6] = [
        (pm4::packet(0x15, &[1, 1, 1, 5]), 1 << 17),
        (pm4::packet(0x42, &[0]), 1 << 19),
        (pm4::packet(0xff, &[0]), 1 << 19),
        (pm4::release_mem(0, 0, 5, 0, 0), 1 << 19),
        (vec![0x0000_0001, 0], 1 << 19),
        (pm4::packet(0x3f, &[0, 0, 4]), 1 << 19),
    ];
    for (packet, mask) in cases {
        let rig = Rig::new();
        let queue = rig.queue(QueueKind::Pm4, 4096);
        queue.submit(&packet);
        rig.wait_told(Told::Exception { queue: queue.id, mask });
    }
}

#[test]
fn rings_wrap_around() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Pm4, 1024);
    let mem = rig.memory(4096);
    for value in 0..2000 {
        queue.submit(&pm4::write_data(mem.va, &[value]));
    }
    queue.drain();
    assert_eq!(mem.u32(0), 1999);
}
