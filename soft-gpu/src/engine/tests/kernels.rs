//! Kernel dispatches: what waves find in their registers, and how they end.
//!
//! The kernels are words that LLVM's assembler made of the text beside them.

use super::packets::aql;
use super::rig::{Buffer, Rig, Told};
use crate::engine::QueueKind;

/// A kernel descriptor with code behind it.
struct Kernel {
    code: Buffer,
}

/// Bits of `compute_pgm_rsrc2`: two user registers, the group's number in three dimensions.
const RSRC2: u32 = 2 << 1 | 7 << 7;
/// `kernel_code_properties`: the address of the arguments.
const KERNARG: u32 = 1 << 3;
/// `compute_pgm_rsrc1`: denormals are kept.
const RSRC1: u32 = 0xf << 16;

impl Kernel {
    fn new(rig: &Rig, code: &[u32]) -> Self {
        let memory = rig.memory(8192);
        memory.set_u64(16, 256);
        memory.set_u32(48, RSRC1);
        memory.set_u32(52, RSRC2);
        memory.set_u32(56, KERNARG);
        for (at, word) in (0..).zip(code) {
            memory.set_u32(256 + at * 4, *word);
        }
        Self { code: memory }
    }

    fn packet(&self, group: [u16; 3], grid: [u32; 3], arguments: u64, completion: u64) -> [u32; 16] {
        let mut packet = aql::kernel(group, grid, 0, self.code.va, completion);
        [packet[10], packet[11]] = super::rig::halves(arguments);
        packet
    }
}

fn signal(mem: &Buffer, offset: u64) -> u64 {
    mem.set_u64(offset, 1);
    mem.set_u64(offset + 8, 1);
    mem.va + offset
}

/// Every work-item adds 1 to word `group_x + 4 * group_y + 16 * group_z` of the memory that the argument names.
#[rustfmt::skip]
const COUNT_ITEMS: [u32; 13] = [
    0xc006_0000, 0, // s_load_dwordx2 s[0:1], s[0:1], 0x0
    0x8e05_8204, // s_lshl_b32 s5, s4, 2 ; z
    0x8005_0305, // s_add_u32 s5, s5, s3 ; y
    0x8e05_8205, // s_lshl_b32 s5, s5, 2
    0x8005_0205, // s_add_u32 s5, s5, s2 ; x
    0x8e05_8205, // s_lshl_b32 s5, s5, 2
    0x7e02_0205, // v_mov_b32_e32 v1, s5
    0x7e04_0281, // v_mov_b32_e32 v2, 1
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0xdd08_8000, 0x0000_0201, // global_atomic_add v1, v2, s[0:1]
    0xbf81_0000, // s_endpgm
];

#[test]
fn every_work_item_of_a_grid_with_remainders_runs_once() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    let kernel = Kernel::new(&rig, &COUNT_ITEMS);
    mem.set_u64(512, out.va);
    let done = signal(&mem, 0);
    queue.submit(&kernel.packet([32, 4, 2], [70, 9, 3], mem.va + 512, done));
    rig.wait("the kernel", || mem.u64(8) == 0);
    let part = |group: u64, size: u64, grid: u64| (grid - group * size).min(size);
    for z in 0..2 {
        for y in 0..3 {
            for x in 0..3 {
                let items = part(x, 32, 70) * part(y, 4, 9) * part(z, 2, 3);
                let at = 4 * (x + 4 * y + 16 * z);
                assert_eq!(u64::from(out.u32(at)), items, "group {x} {y} {z}");
            }
        }
    }
}

#[test]
fn waves_that_cannot_go_on_stop_their_queue_only() {
    let rig = Rig::new();
    let mem = rig.memory(4096);
    // (code, value in the inactive signal as ROCr reads it, KFD_EC_MASK)
    let cases: [(&[u32], u64, u64); 4] = [
        // s_trap 2
        (&[0xbf92_0002], 0x8000_0000, 1),
        // No instruction.
        (&[0xffff_ffff], 0x4000_0000, 1 << 3),
        // v_cubeid_f32 v0, v0, v0, v0: known, and not executed.
        (&[0xd1c4_0000, 0x0402_0100], 0x4000_0000, 1 << 3),
        // s_setreg_imm32_b32 hwreg(HW_REG_STATUS, 0, 2), 1: only the mode can be set.
        (&[0xba00_0802, 1], 0x4000_0000, 1 << 3),
    ];
    let good = rig.queue(QueueKind::Aql, 4096);
    for (at, (code, value, mask)) in (0..).zip(cases) {
        let queue = rig.queue(QueueKind::Aql, 4096);
        let inactive = signal(&mem, 256 + at * 64);
        queue.pointers.set_u32(super::rig::READ_POINTER + 8, 128);
        queue.pointers.set_u64(192, inactive);
        queue.submit(&Kernel::new(&rig, code).packet([64, 1, 1], [64, 1, 1], 0, 0));
        rig.wait_told(Told::Exception { queue: queue.id, mask });
        assert_eq!(mem.u64(256 + at * 64 + 8), value, "{code:x?}");
    }
    let done = signal(&mem, 0);
    good.submit(&Kernel::new(&rig, &[0xbf81_0000]).packet([64, 1, 1], [64, 1, 1], 0, done));
    rig.wait("the other queue", || mem.u64(8) == 0);
}

#[test]
fn an_endless_kernel_does_not_hold_up_its_removal_or_other_queues() {
    let rig = Rig::new();
    let (endless, good) = (rig.queue(QueueKind::Aql, 4096), rig.queue(QueueKind::Aql, 4096));
    let mem = rig.memory(4096);
    // s_branch -1
    endless.submit(&Kernel::new(&rig, &[0xbf82_ffff]).packet([64, 1, 1], [64, 1, 1], 0, 0));
    let done = signal(&mem, 0);
    good.submit(&Kernel::new(&rig, &[0xbf81_0000]).packet([64, 1, 1], [64, 1, 1], 0, done));
    rig.wait("the other queue", || mem.u64(8) == 0);
    let start = std::time::Instant::now();
    rig.engine.remove(endless.id);
    assert!(start.elapsed() < std::time::Duration::from_secs(1));
}

/// The first work-item of each group adds 1 to the word that the argument names; all wait until 40 groups did.
#[rustfmt::skip]
const MEET: [u32; 16] = [
    0xc006_0000, 0, // s_load_dwordx2 s[0:1], s[0:1], 0x0
    0x7e02_0280, // v_mov_b32_e32 v1, 0
    0x7e04_0281, // v_mov_b32_e32 v2, 1
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0xbefe_0181, // s_mov_b64 exec, 1
    0xdd08_8000, 0x0000_0201, // global_atomic_add v1, v2, s[0:1]
    0xbf8e_0001, // s_sleep 1
    0xdc51_8000, 0x0300_0001, // global_load_dword v3, v1, s[0:1] glc
    0xbf8c_0f70, // s_waitcnt vmcnt(0)
    0x7e0c_0503, // v_readfirstlane_b32 s6, v3
    0xbf0a_a806, // s_cmp_lt_u32 s6, 40
    0xbf85_fff9, // s_cbranch_scc1 to s_sleep
    0xbf81_0000, // s_endpgm
];

#[test]
fn groups_that_wait_for_later_ones_do_not_keep_them_from_beginning() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    let kernel = Kernel::new(&rig, &MEET);
    mem.set_u64(512, out.va);
    let done = signal(&mem, 0);
    queue.submit(&kernel.packet([64, 1, 1], [64 * 40, 1, 1], mem.va + 512, done));
    rig.wait("the kernel", || mem.u64(8) == 0);
    assert_eq!(out.u32(0), 40);
}

#[test]
fn groups_on_several_processors_lose_no_atomic_operation() {
    const GROUPS: u32 = 60_000;
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    let mut code = COUNT_ITEMS;
    code[7] = 0x7e02_0280; // v_mov_b32_e32 v1, 0 in the place of v_mov_b32_e32 v1, s5
    let kernel = Kernel::new(&rig, &code);
    mem.set_u64(512, out.va);
    let done = signal(&mem, 0);
    queue.submit(&kernel.packet([64, 1, 1], [64 * GROUPS, 1, 1], mem.va + 512, done));
    rig.wait("the kernel", || mem.u64(8) == 0);
    assert_eq!(out.u32(0), 64 * GROUPS);
}

#[test]
fn a_queue_that_is_not_active_runs_nothing_on_any_processor() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    // COUNT_ITEMS that goes back to its atomic addition again and again.
    let mut code = COUNT_ITEMS;
    code[12] = 0xbf82_fffd; // s_branch -3
    let kernel = Kernel::new(&rig, &code);
    mem.set_u64(512, out.va);
    queue.submit(&kernel.packet([64, 1, 1], [64 * 8, 1, 1], mem.va + 512, 0));
    let counted = || (0..8).map(|group| u64::from(out.u32(4 * group))).sum::<u64>();
    rig.wait("all groups", || (0..8).all(|group| out.u32(4 * group) != 0));
    rig.engine.update(queue.id, queue.ring.va, 4096, false);
    let before = counted();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(counted(), before);
    rig.engine.update(queue.id, queue.ring.va, 4096, true);
    rig.wait("more", || counted() > before);
}

/// Waits until word 0 of the memory that the argument names is word 1, then adds 1 to it: its turn in a chain.
#[rustfmt::skip]
const TURN: [u32; 18] = [
    0xc006_0080, 0, // s_load_dwordx2 s[2:3], s[0:1], 0x0
    0xc002_0100, 8, // s_load_dword s4, s[0:1], 0x8
    0xbefe_0181, // s_mov_b64 exec, 1
    0x7e02_0280, // v_mov_b32_e32 v1, 0
    0x7e04_0281, // v_mov_b32_e32 v2, 1
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0xbf8e_0001, // s_sleep 1
    0xdc51_8000, 0x0302_0001, // global_load_dword v3, v1, s[2:3] glc
    0xbf8c_0f70, // s_waitcnt vmcnt(0)
    0x7e0a_0503, // v_readfirstlane_b32 s5, v3
    0xbf06_0405, // s_cmp_eq_u32 s5, s4
    0xbf84_fff9, // s_cbranch_scc0 to s_sleep
    0xdd08_8000, 0x0002_0201, // global_atomic_add v1, v2, s[2:3]
    0xbf81_0000, // s_endpgm
];

/// Two processes, with four queues each and memory that they share. Every queue has kernels whose turns come one after the other,
/// so each waits for one of another queue, or of the other process.
#[test]
fn kernels_of_two_processes_wait_for_each_other_through_memory() {
    const TURNS: u32 = 160;
    let rigs = [Rig::new(), Rig::new()];
    let shared = rigs[0].memory(4096);
    let elsewhere = rigs[1].map(&shared);
    let queues: Vec<_> = (0..8).map(|at| rigs[at % 2].queue(QueueKind::Aql, 4096)).collect();
    let setups: Vec<_> = rigs.iter().map(|rig| (Kernel::new(rig, &TURN), rig.memory(8192))).collect();
    for turn in 0..TURNS {
        // Each queue's turns in order, the queues' mixed: 0, 3, 6, 1, 4, 7, 2, 5.
        let at = turn as usize * 3 % 8;
        let (kernel, mem) = &setups[at % 2];
        let arguments = 1024 + u64::from(turn) * 16;
        mem.set_u64(arguments, [shared.va, elsewhere.va][at % 2]);
        mem.set_u32(arguments + 8, turn);
        let completion = if turn >= TURNS - 8 { signal(mem, at as u64 * 64) } else { 0 };
        queues[at].submit(&kernel.packet([64, 1, 1], [64, 1, 1], mem.va + arguments, completion));
    }
    rigs[0].wait("all turns", || shared.u32(0) == TURNS);
    for at in 0..8u64 {
        let (_, mem) = &setups[at as usize % 2];
        rigs[0].wait("the signals", || mem.u64(at * 64 + 8) == 0);
    }
}

#[test]
fn ten_thousand_dispatches_back_to_back() {
    const DISPATCHES: u32 = 10_000;
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    let kernel = Kernel::new(&rig, &COUNT_ITEMS);
    mem.set_u64(512, out.va);
    let done = signal(&mem, 0);
    mem.set_u64(8, u64::from(DISPATCHES));
    for dispatch in 0..u64::from(DISPATCHES) {
        // The ring has 64 packets.
        rig.wait("room", || dispatch - queue.read_pointer() < 64);
        queue.submit(&kernel.packet([64, 1, 1], [64, 1, 1], mem.va + 512, done));
    }
    rig.wait("the last", || mem.u64(8) == 0);
    assert_eq!(out.u32(0), DISPATCHES * 64);
}

#[test]
fn atomics_of_kernels_and_of_the_cpu_are_one() {
    const EACH: u32 = 100_000;
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    let mut code = COUNT_ITEMS;
    code[7] = 0x7e02_0280; // v_mov_b32_e32 v1, 0 in the place of v_mov_b32_e32 v1, s5
    let kernel = Kernel::new(&rig, &code);
    mem.set_u64(512, out.va);
    let done = signal(&mem, 0);
    queue.submit(&kernel.packet([64, 1, 1], [EACH, 1, 1], mem.va + 512, done));
    let word = out.mem.atomic_u32(0).expect("aligned");
    for _ in 0..EACH {
        word.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    rig.wait("the kernel", || mem.u64(8) == 0);
    assert_eq!(out.u32(0), 2 * EACH);
}

#[test]
fn what_is_executed_is_counted_if_somebody_wants_to_know() {
    use crate::isa::exec::report;

    report::start();
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    // v_rcp_f32_e32 v3, v3 in the place of s_add_u32 s5, s5, s3
    let mut code = COUNT_ITEMS;
    code[3] = 0x7e06_4503;
    let kernel = Kernel::new(&rig, &code);
    mem.set_u64(512, out.va);
    let number =
        |name| report::counts().iter().find(|count| count.op.name == name).map_or(0, |count| count.number());
    let before = number("v_rcp_f32");
    let done = signal(&mem, 0);
    queue.submit(&kernel.packet([64, 1, 1], [64 * 7, 1, 1], mem.va + 512, done));
    rig.wait("the kernel", || mem.u64(8) == 0);
    // No other test executes this one.
    assert_eq!(number("v_rcp_f32") - before, 7);
    let mut text = Vec::new();
    report::write(&mut text).expect("memory");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("\tapproximate\tVop1\tv_rcp_f32\n"), "{text}");
    assert!(text.contains("\texact\tGlobal\tglobal_atomic_add\n"), "{text}");
}

#[test]
fn code_that_was_replaced_between_dispatches_is_decoded_again() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, out) = (rig.memory(4096), rig.memory(4096));
    let kernel = Kernel::new(&rig, &COUNT_ITEMS);
    mem.set_u64(512, out.va);
    for (value, sum) in [(0x7e04_0281, 64), (0x7e04_0283, 64 + 3 * 64)] {
        // v_mov_b32_e32 v2, 1 or 3
        kernel.code.set_u32(256 + 8 * 4, value);
        let done = signal(&mem, 0);
        queue.submit(&kernel.packet([64, 1, 1], [64, 1, 1], mem.va + 512, done));
        rig.wait("the kernel", || mem.u64(8) == 0);
        assert_eq!(out.u32(0), sum);
    }
}

#[test]
fn a_queue_waits_for_private_memory_that_its_runtime_gives() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    let (mem, scratch) = (rig.memory(4096), rig.memory(64 * 1024));
    let inactive = signal(&mem, 256);
    mem.set_u64(264, 0);
    queue.pointers.set_u32(super::rig::READ_POINTER + 8, 128);
    queue.pointers.set_u64(192, inactive);
    let kernel = Kernel::new(&rig, &[0xbf81_0000]);
    kernel.code.set_u32(4, 32);
    kernel.code.set_u32(52, RSRC2 | 1);
    let done = signal(&mem, 0);
    queue.submit(&kernel.packet([64, 1, 1], [64, 1, 1], 0, done));
    rig.wait("the request", || mem.u64(264) == 1);
    assert_eq!((mem.u64(8), queue.read_pointer()), (1, 0));
    let [low, high] = super::rig::halves(scratch.va);
    queue.pointers.set_u32(144, low);
    queue.pointers.set_u32(148, high);
    queue.pointers.set_u64(168, 64 * 1024);
    queue.pointers.set_u32(176, 64);
    mem.set_u64(264, 0);
    rig.wait("the kernel", || mem.u64(8) == 0);
}

#[test]
fn a_wave_interrupts_the_driver_with_24_bits_of_m0() {
    let rig = Rig::new();
    let queue = rig.queue(QueueKind::Aql, 4096);
    // s_mov_b32 m0, 0xab000123 ; s_sendmsg sendmsg(MSG_INTERRUPT) ; s_endpgm
    let kernel = Kernel::new(&rig, &[0xbefc_00ff, 0xab00_0123, 0xbf90_0001, 0xbf81_0000]);
    queue.submit(&kernel.packet([64, 1, 1], [64, 1, 1], 0, 0));
    rig.wait_told(Told::Event { id: 0x123, bits: 24 });
}
