//! Memory of the guest comes and goes while worker processes use it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use protocol::virtio_gpu::{Command, ResponseId};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};

use super::support::{Mode, Rig};
use crate::support::{BLOBS, entry, guest_blob, memfd, region, response_id};

/// Where memory is plugged.
const HOT: u64 = 4 << 30;
const SIZE: u64 = 1 << 20;
const CONTEXTS: u32 = 4;
/// Rounds of plugging at least, and writes into plugged memory that succeeded.
const ROUNDS: u32 = 100;
const WRITES: u32 = 100;

/// Plugs and unplugs in both ways. What was unplugged is the VMM's: nobody writes there.
fn plug(
    mut frontend: Frontend,
    base: VhostUserMemoryRegionInfo,
    hot: VhostUserMemoryRegionInfo,
    file: &File,
    writes: &AtomicU32,
) {
    let mut round = 0_u32;
    while round < ROUNDS || writes.load(Ordering::Relaxed) < WRITES {
        if round.is_multiple_of(2) {
            frontend.add_mem_region(&hot).expect("ADD_MEM_REG");
        } else {
            frontend.set_mem_table(&[base, hot]).expect("SET_MEM_TABLE");
        }
        std::thread::sleep(Duration::from_millis(u64::from(round % 4)));
        if (round / 2).is_multiple_of(2) {
            frontend.remove_mem_region(&hot).expect("REM_MEM_REG");
        } else {
            frontend.set_mem_table(&[base]).expect("SET_MEM_TABLE");
        }
        let pattern = vec![round as u8 | 0x80; SIZE as usize];
        file.write_all_at(&pattern, 0).expect("written");
        std::thread::sleep(Duration::from_millis(1));
        let mut found = vec![0; SIZE as usize];
        file.read_exact_at(&mut found, 0).expect("read");
        assert!(found == pattern, "memory was written after it was unplugged, in round {round}");
        round += 1;
    }
}

#[test]
fn memory_is_plugged_and_unplugged_under_load() {
    // Cases H02 and H03, with workers.
    let mut rig = Rig::start(Mode::Obeys);
    for context in 1..=CONTEXTS {
        rig.vm.create_context(context);
        rig.attach(context, context, BLOBS + u64::from(context) * 0x1000, 0x1000);
    }
    let file = memfd(SIZE);
    let place = FileOffset::new(file.try_clone().expect("a descriptor"), 0);
    let hot =
        GuestMemoryMmap::<()>::from_ranges_with_files([(GuestAddress(HOT), SIZE as usize, Some(place))]);
    let hot = hot.expect("a mapping");
    let (base_region, hot_region) = (region(&rig.vm.memory, 0), region(&hot, HOT));
    let frontend = rig.vm.frontend.clone();
    let writes = AtomicU32::new(0);
    let mut refused = 0;
    std::thread::scope(|scope| {
        let plugging = scope.spawn(|| plug(frontend, base_region, hot_region, &file, &writes));
        let mut round = 0;
        while !plugging.is_finished() {
            refused += work(&mut rig, round, &writes);
            round += 1;
        }
        plugging.join().expect("memory that is unplugged stays as it is");
    });
    println!("{} writes into plugged memory, {refused} refused", writes.load(Ordering::Relaxed));
    assert!(refused > 0, "some came when the memory was not there");
    // Every worker lives, and has the file of the rest of the memory alone.
    for context in 1..=CONTEXTS {
        rig.submit_ok(context, b"fds 1");
        rig.destroy(context);
        rig.vm.ok(0, Command::ResourceUnref { resource_id: context });
    }
    assert_eq!(rig.metrics.deaths.load(Ordering::Relaxed), 0);
    rig.assert_clean();
}

/// A blob in both memories, given to all contexts, which write into it. Returns how much of it was refused.
fn work(rig: &mut Rig, round: u32, writes: &AtomicU32) -> u32 {
    let resource_id = 100 + round;
    let entries = [entry(HOT + 0x1000, 0x1000), entry(BLOBS + 0x10000, 0x1000), entry(HOT + 0x8000, 0x2000)];
    let created = response_id(&rig.vm.request(0, guest_blob(resource_id, 0x4000, &entries)));
    let mut refused = 0;
    if created == ResponseId::OK_NODATA {
        let heads: Vec<u16> = (1..=CONTEXTS)
            .map(|context| {
                // Refused where the memory has gone meanwhile.
                rig.vm.request(context, Command::CtxAttachResource { resource_id });
                let text = format!("try {resource_id} {} {round}", 8 * context);
                rig.vm.submit(context, 0, u64::from(round * CONTEXTS + context), text.as_bytes())
            })
            .collect();
        for head in heads {
            match response_id(&rig.vm.control.wait(head)) {
                ResponseId::OK_NODATA => drop(writes.fetch_add(1, Ordering::Relaxed)),
                ResponseId::ERR_UNSPEC => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        rig.vm.ok(0, Command::ResourceUnref { resource_id });
    } else {
        assert_eq!(created, ResponseId::ERR_INVALID_PARAMETER);
        refused += 1;
    }
    // What is always there can always be written.
    for context in 1..=CONTEXTS {
        rig.submit_ok(context, format!("write {context} 0 {round}").as_bytes());
        assert_eq!(rig.u64_at(BLOBS + u64::from(context) * 0x1000), u64::from(round));
    }
    refused
}
