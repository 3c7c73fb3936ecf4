//! Blobs in worker processes.

use std::time::Duration;

use protocol::virtio_gpu::{Command, Header, Request, ResponseId};

use super::support::{Mode, Rig};
use crate::support::{BLOBS, RAM, entry, guest_blob, region, wait_for};
use vhost::vhost_user::VhostUserFrontend as _;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};

/// Long enough for an answer that must not come.
const MOMENT: Duration = Duration::from_millis(50);

#[test]
fn a_worker_writes_into_the_guests_memory() {
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    // Its pages are in no order.
    let entries = [entry(BLOBS + 0x5000, 0x1000), entry(BLOBS + 0x1000, 0x2000), entry(BLOBS, 0x1000)];
    rig.vm.ok(0, guest_blob(4, 0x4000, &entries));
    rig.vm.ok(1, Command::CtxAttachResource { resource_id: 4 });
    for (offset, addr) in [(0x10, BLOBS + 0x5010), (0x1020, BLOBS + 0x1020), (0x3030, BLOBS + 0x30)] {
        rig.submit_ok(1, format!("write 4 {offset} {addr}").as_bytes());
        assert_eq!(rig.u64_at(addr), addr);
    }
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
    rig.destroy(1);
    rig.assert_clean();
}

#[test]
fn memory_is_free_when_the_worker_has_let_go_of_it() {
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    rig.attach(1, 4, BLOBS, 0x1000);
    rig.submit_ok(1, b"cling");
    let command = Command::ResourceUnref { resource_id: 4 };
    let unref = rig.vm.control.send(&Request { header: Header::default(), command }.encode(), 64);
    rig.submit_ok(1, b"complete");
    std::thread::sleep(MOMENT);
    assert!(!rig.vm.control.is_back(unref), "the worker still has the memory");
    // The id is free again at once.
    rig.attach(1, 4, BLOBS + 0x1000, 0x1000);
    rig.submit_ok(1, b"write 4 0 55");
    assert_eq!(rig.u64_at(BLOBS + 0x1000), 55);
    rig.submit_ok(1, b"release");
    rig.vm.control.wait(unref);
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
    rig.destroy(1);
    rig.assert_clean();
}

#[test]
fn a_file_with_guest_memory_is_open_in_a_worker_only_while_blobs_lie_in_it() {
    const HOT: u64 = 4 << 30;
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    let file = crate::support::memfd(1 << 20);
    let place = FileOffset::new(file, 0);
    let hot = GuestMemoryMmap::<()>::from_ranges_with_files([(GuestAddress(HOT), 1 << 20, Some(place))]);
    let hot = hot.expect("a mapping");
    rig.vm.frontend.add_mem_region(&region(&hot, HOT)).expect("ADD_MEM_REG");
    rig.attach(1, 1, BLOBS, 0x1000);
    rig.submit_ok(1, b"fds 1");
    // In both files.
    let entries = [entry(HOT, 0x1000), entry(BLOBS + 0x1000, 0x1000), entry(HOT + 0x1000, 0x1000)];
    rig.vm.ok(0, guest_blob(2, 0x3000, &entries));
    rig.vm.ok(1, Command::CtxAttachResource { resource_id: 2 });
    rig.submit_ok(1, b"fds 2");
    rig.submit_ok(1, b"write 2 8192 7777");
    let seen: u64 = vm_memory::Bytes::read_obj(&hot, GuestAddress(HOT + 0x1000)).expect("in memory");
    assert_eq!(seen, 7777);
    // Unplugging takes it out of the worker.
    rig.vm.frontend.remove_mem_region(&region(&hot, HOT)).expect("REM_MEM_REG");
    rig.submit_ok(1, b"fds 1");
    rig.vm.ok(1, Command::CtxDetachResource { resource_id: 1 });
    // Released, and then forgotten; the answer to the detach does not wait for that.
    wait_for("the file to be closed", || rig.submit(1, b"fds 0") == ResponseId::OK_NODATA);
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 2 });
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 1 });
    rig.destroy(1);
    rig.assert_clean();
}

#[test]
fn a_blob_of_100_000_pieces_reaches_the_worker() {
    const PIECES: u64 = 100_000;
    let mut rig = Rig::start(Mode::Obeys);
    // More pages than the guest has: every other one, again and again.
    let pages = (RAM - BLOBS) / 0x2000;
    let entries: Vec<_> = (0..PIECES).map(|piece| entry(BLOBS + piece % pages * 0x2000, 0x1000)).collect();
    rig.vm.create_context(1);
    let command = guest_blob(8, PIECES * 0x1000, &entries);
    let request = Request { header: Header::default(), command }.encode();
    assert_eq!(rig.vm.long(&request), ResponseId::OK_NODATA);
    rig.vm.ok(1, Command::CtxAttachResource { resource_id: 8 });
    let last = PIECES - 1;
    rig.submit_ok(1, format!("write 8 {} 424242", last * 0x1000).as_bytes());
    assert_eq!(rig.u64_at(BLOBS + last % pages * 0x2000), 424_242);
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 8 });
    rig.destroy(1);
    rig.assert_clean();
}
