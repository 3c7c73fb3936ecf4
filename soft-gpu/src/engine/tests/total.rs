//! Decoding and execution are total: any words give packets, errors or faults, never a panic.

use proptest::prelude::*;

use super::rig::{GFX90A, Log};
use crate::backing::BackingFiles;
use crate::engine::aql::packet as aql;
use crate::engine::clock::GpuClock;
use crate::engine::context::Cx;
use crate::engine::doorbell::Doorbell;
use crate::engine::pm4::packet as pm4;
use crate::engine::queue::{Queue, Turn};
use crate::engine::sdma::packet as sdma;
use crate::engine::{QueueConfig, QueueKind};
use crate::mem::{Arena, GpuVm, MapFlags, MappingOwner};

/// Words in which opcodes, small numbers and addresses of the mapped memory are frequent.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0u32..64,
        (0u32..0x40, 0u32..6).prop_map(|(op, sub)| op | sub << 8),
        (0x10u32..0xa6, 0u32..16).prop_map(|(op, count)| 3 << 30 | count << 16 | op << 8),
        (0u32..4096).prop_map(|offset| VA_LOW + offset * 4),
        Just(VA_HIGH),
    ]
}

const VA_LOW: u32 = 0x10_0000;
const VA_HIGH: u32 = 0x7000;
const VA: u64 = (VA_HIGH as u64) << 32 | VA_LOW as u64;

/// Runs a queue whose ring holds `words`, for a bounded number of turns.
fn run(kind: QueueKind, words: &[u32]) -> Turn {
    let files = BackingFiles::anonymous(&[]).expect("memfd");
    let arena = Arena::new(files.kfd, 1 << 20).expect("arena");
    let mem = arena.alloc(16384, 0).expect("room");
    for (at, word) in (0..4096).step_by(4).zip(words.iter().cycle()) {
        mem.write(at, &word.to_le_bytes()).expect("inside");
    }
    mem.write(12288, &4096u64.to_le_bytes()).expect("inside");
    let doorbells = arena.alloc(8192, 0).expect("room");
    let vm = std::sync::Arc::new(GpuVm::new());
    vm.map(VA, mem, MapFlags { writable: true, executable: true }, MappingOwner::Buffer(0)).expect("free");
    let log = Log::default();
    let cx = Cx { vm: &vm, clock: GpuClock::new(1_000_000), interrupts: &log };
    let mut queue = Queue::new(QueueConfig {
        id: 0,
        kind,
        ring: VA,
        ring_size: 4096,
        read_pointer: VA + 8192,
        write_pointer: VA + 12288,
        doorbell: Doorbell::reset(&doorbells, 0).expect("inside"),
        gfx: GFX90A,
        active: true,
    });
    queue.activate(cx).expect("mapped");
    for _ in 0..20 {
        match queue.run(cx) {
            Turn::Busy => {}
            other => return other,
        }
    }
    Turn::Busy
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn sdma_packets(words in prop::collection::vec(word(), 0..20), gfx in prop::sample::select(vec![90000, 90010, 90402, 100_302, 110_000, 120_000])) {
        if let Some(first) = words.first()
            && let Ok(length) = sdma::length(*first)
        {
            prop_assert!((1..=sdma::MAX_WORDS).contains(&length));
        }
        let _ = sdma::decode(sdma::Format::of(gfx), &words);
    }

    #[test]
    fn pm4_packets(header in word(), body in prop::collection::vec(word(), 0..20)) {
        if let Ok(length) = pm4::body_length(header) {
            prop_assert!(length <= 0x4000);
        }
        let _ = pm4::decode(header, &body);
    }

    #[test]
    fn aql_packets(words in prop::array::uniform16(word())) {
        let _ = aql::decode(&words);
    }

    #[test]
    fn whole_queues(kind in prop::sample::select(vec![QueueKind::Aql, QueueKind::Pm4, QueueKind::Sdma]), words in prop::collection::vec(word(), 1..64)) {
        let _ = run(kind, &words);
    }
}
