//! What a queue has of the library's memory stays out of children: a page that a child shares is copied at the next
//! store, and KFD stops the queues of the parent for it.

use std::fs;

use protocol::hsakmt::QueueType;
use softgpu::Profile;

use super::{PAGE, Program};

/// Whether the mapping at `address` is one that fork leaves out (`dc` of `VmFlags`).
fn left_out_by_fork(smaps: &str, address: u64) -> bool {
    let mut inside = false;
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or("");
        if let Some((start, end)) = first.split_once('-') {
            let parse = |text| u64::from_str_radix(text, 16).expect("an address");
            inside = (parse(start)..parse(end)).contains(&address);
        } else if inside && first == "VmFlags:" {
            return line.split(' ').any(|flag| flag == "dc");
        }
    }
    panic!("{address:#x} is not mapped");
}

#[test]
fn buffers_and_doorbells_are_not_for_children() {
    for profile in [Profile::Mi210, Profile::Rx7900xtx] {
        let program = Program::new(profile);
        let (aql, sdma) = (program.aql_queue(), program.ring_queue(QueueType::SDMA));
        program.engine.update_queue(aql.id, 0, 0.into(), aql.ring.address, PAGE).unwrap();
        let save_area = program.engine.queue_info(aql.id).expect("a stopped queue").save_area_header;
        let smaps = fs::read_to_string("/proc/self/smaps").expect("the memory map");
        let middle = save_area + (8 << 20);
        for (what, address) in [
            ("save area", save_area),
            ("middle of the save area", middle),
            ("doorbell", aql.doorbell),
            ("read pointer", sdma.read),
            ("write pointer", sdma.write),
        ] {
            assert!(left_out_by_fork(&smaps, address), "{what} of {profile:?} at {address:#x}");
        }
        assert!(!left_out_by_fork(&smaps, (&raw const program).expose_provenance() as u64), "the stack");
        program.destroy(aql);
        program.destroy(sdma);
    }
}
