//! The guest's memory changes while the device works.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::contexts::{NoWorkers, Probe};
use crate::support::{BLOBS, RAM, Setup, Vm, entry, guest_blob, memfd, region, wait_for};
use protocol::virtio_gpu::{Command, ResponseId};
use vhost::vhost_user::VhostUserFrontend;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};

/// Memory that is plugged in later.
const HOT: u64 = 4 << 30;

fn plugged(file: &File, at: u64, offset: u64, len: u64) -> GuestMemoryMmap<()> {
    let place = FileOffset::new(file.try_clone().expect("a descriptor"), offset);
    let len = usize::try_from(len).expect("64 bits");
    GuestMemoryMmap::from_ranges_with_files([(GuestAddress(at), len, Some(place))]).expect("a mapping")
}

#[test]
fn memory_is_plugged_and_unplugged() {
    // Case H02.
    let probe = Probe::default();
    let mut vm = Setup::new(probe.clone()).start();
    vm.create_context(1);
    vm.create_blob(1, BLOBS, 0x1000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    let blob = [entry(HOT + 0x1000, 0x2000)];
    vm.expect(0, guest_blob(2, 0x2000, &blob), ResponseId::ERR_INVALID_PARAMETER);

    let file = memfd(1 << 20);
    let hot = plugged(&file, HOT, 0, 1 << 20);
    vm.frontend.add_mem_region(&region(&hot, HOT)).expect("ADD_MEM_REG");
    vm.ok(0, guest_blob(2, 0x2000, &blob));
    vm.ok(1, Command::CtxAttachResource { resource_id: 2 });
    assert_eq!(probe.log().uses.len(), 2);

    // The blob is taken from its context before the region goes, and only that one.
    probe.log().cling = true;
    let mut frontend = vm.frontend.clone();
    let info = region(&hot, HOT);
    let unplug = std::thread::spawn(move || frontend.remove_mem_region(&info).expect("REM_MEM_REG"));
    wait_for("the detach", || probe.log().detached.len() == 1);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!unplug.is_finished(), "a context still reaches the memory");
    vm.assert_alive();
    probe.let_go();
    wait_for("the answer to REM_MEM_REG", || unplug.is_finished());
    unplug.join().expect("no panic");
    assert!(probe.log().uses.contains_key(&(1, 1)));
    vm.expect(1, Command::CtxAttachResource { resource_id: 2 }, ResponseId::ERR_INVALID_RESOURCE_ID);
    vm.ok(0, Command::ResourceUnref { resource_id: 2 });
    vm.ok(0, Command::ResourceUnref { resource_id: 1 });
    assert_eq!(vm.device.ledger().in_use(), (0, 0));
}

#[test]
fn as_many_regions_as_announced_can_be_plugged() {
    // Case H01.
    let mut vm = Setup::new(NoWorkers).start();
    let slots = vm.frontend.get_max_mem_slots().expect("GET_MAX_MEM_SLOTS");
    assert_eq!(slots, 509);
    let file = memfd(slots << 16);
    let regions: Vec<_> =
        (1..slots).map(|slot| plugged(&file, HOT + (slot << 20), slot << 16, 1 << 16)).collect();
    let infos: Vec<_> =
        (1..slots).zip(&regions).map(|(slot, memory)| region(memory, HOT + (slot << 20))).collect();
    for info in &infos {
        vm.frontend.add_mem_region(info).expect("ADD_MEM_REG");
    }
    vm.create_blob(1, HOT + (508 << 20), 0x1000);
    vm.ok(0, Command::ResourceUnref { resource_id: 1 });
    // In no order.
    let order = (0..infos.len()).map(|index| index * 7 % infos.len());
    for info in order.map(|index| &infos[index]) {
        vm.frontend.remove_mem_region(info).expect("REM_MEM_REG");
    }
    vm.assert_alive();
}

#[test]
fn the_memory_table_changes_under_load() {
    // Case H03.
    let mut vm = Setup::new(NoWorkers).start();
    vm.create_blob(77, BLOBS, 0x10000);
    let file = memfd(1 << 20);
    let hot = plugged(&file, HOT, 0, 1 << 20);
    let tables: [Vec<VhostUserMemoryRegionInfo>; 2] =
        [vec![region(&vm.memory, 0)], vec![region(&vm.memory, 0), region(&hot, HOT)]];
    let frontend = vm.frontend.clone();
    let worked = Arc::new(AtomicBool::new(false));
    let enough = Arc::clone(&worked);
    let changing = std::thread::spawn(move || {
        let mut rounds = 0;
        while rounds < 1000 || !enough.load(Ordering::Relaxed) {
            frontend.set_mem_table(&tables[rounds % 2]).expect("SET_MEM_TABLE");
            rounds += 1;
        }
    });
    let mut rounds = 0;
    while rounds < 200 || !changing.is_finished() {
        work(&mut vm, rounds);
        rounds += 1;
        worked.store(rounds >= 200, Ordering::Relaxed);
    }
    changing.join().expect("no panic");
    // It was never out of the tables.
    vm.create_context(9);
    vm.ok(9, Command::CtxAttachResource { resource_id: 77 });
}

fn work(vm: &mut Vm, round: u32) {
    let id = 100 + round;
    vm.create_blob(id, RAM - 0x10000, 0x4000);
    vm.create_context(id);
    vm.ok(id, Command::CtxAttachResource { resource_id: id });
    vm.ok(id, Command::CtxDestroy);
    vm.ok(0, Command::ResourceUnref { resource_id: id });
}
