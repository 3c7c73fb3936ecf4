//! The window: memory of the host that the guest sees.

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use crate::support::contexts::{NoWorkers, Probe};
use crate::support::shmem::{Asked, Shmem};
use crate::support::{BLOBS, Setup, Vm, entry, guest_blob, region, response_id, wait_for};
use protocol::virtio_gpu::constants::WINDOW_BLOB;
use protocol::virtio_gpu::{BlobFlags, BlobMem, Command, CreateBlob, Header, Request, ResponseId};
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost::{VhostBackend, VringConfigData};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};

/// Bytes of the windows of these tests.
pub const WINDOW: u64 = 1 << 30;

/// Where the VMM has the window in the guest.
const WINDOW_AT: u64 = 1 << 40;

pub const BLOB: CreateBlob<'static> = CreateBlob {
    resource_id: 0,
    mem: BlobMem::HOST3D,
    flags: BlobFlags::MAPPABLE,
    blob_id: WINDOW_BLOB,
    size: 0x2000,
    entries: &[],
};

/// A guest with a window and the context 1.
pub fn start(probe: &Probe) -> (Vm, Shmem) {
    let shmem = Shmem::default();
    let mut vm = Setup { window: Some((WINDOW, shmem.clone())), ..Setup::new(probe.clone()) }.start();
    vm.create_context(1);
    (vm, shmem)
}

fn create(vm: &mut Vm, resource_id: u32, size: u64) {
    vm.ok(1, Command::ResourceCreateBlob(CreateBlob { resource_id, size, ..BLOB }));
}

pub fn map(resource_id: u32, offset: u64) -> Command<'static> {
    Command::ResourceMapBlob { resource_id, offset }
}

/// What the stock driver sends to make a blob and map it.
fn make(vm: &mut Vm, resource_id: u32, size: u64, offset: u64) {
    create(vm, resource_id, size);
    let response = vm.request(0, map(resource_id, offset));
    assert_eq!(response_id(&response), ResponseId::OK_MAP_INFO);
    assert_eq!(response[24..28], 1_u32.to_le_bytes(), "cached");
    vm.ok(1, Command::CtxAttachResource { resource_id });
}

/// What it sends when the blob is not used any more.
fn unmake(vm: &mut Vm, resource_id: u32) {
    vm.ok(1, Command::CtxDetachResource { resource_id });
    vm.ok(0, Command::ResourceUnmapBlob { resource_id });
    vm.ok(0, Command::ResourceUnref { resource_id });
}

pub fn peek(shmem: &Shmem, offset: u64) -> [u8; 4] {
    let mut bytes = [0; 4];
    let seen = shmem.seen();
    seen.arena.as_ref().expect("it was mapped").read_exact_at(&mut bytes, offset).expect("in the arena");
    bytes
}

pub fn poke(shmem: &Shmem, offset: u64, bytes: &[u8]) {
    shmem.seen().arena.as_ref().expect("it was mapped").write_all_at(bytes, offset).expect("in the arena");
}

/// Blocks of the host's memory that the arena has.
fn kept(shmem: &Shmem) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    shmem.seen().arena.as_ref().expect("it was mapped").metadata().expect("a file").blocks()
}

/// The window as the VMM has mapped it: it tells the device of it as of memory.
fn mapped(shmem: &Shmem) -> GuestMemoryMmap<()> {
    let arena = shmem.seen().arena.as_ref().expect("it was mapped").try_clone().expect("a descriptor");
    let place = Some(FileOffset::new(arena, 0));
    let len = usize::try_from(WINDOW).expect("64 bits");
    GuestMemoryMmap::from_ranges_with_files([(GuestAddress(WINDOW_AT), len, place)]).expect("a mapping")
}

#[test]
fn it_is_offered_as_the_host_visible_region() {
    let (mut vm, _) = start(&Probe::default());
    let config = vm.frontend.get_shmem_config().expect("GET_SHMEM_CONFIG");
    assert_eq!(config.nregions, 1);
    assert_eq!(config.memory_sizes[..3], [0, WINDOW, 0]);
    let protocol = vm.frontend.get_protocol_features().expect("GET_PROTOCOL_FEATURES");
    assert!(!protocol.contains(VhostUserProtocolFeatures::LOG_SHMFD));
}

#[test]
fn a_thousand_blobs_are_one_mapping_which_goes_with_the_last() {
    let probe = Probe::default();
    let (mut vm, shmem) = start(&probe);
    assert!(shmem.seen().asked.is_empty());
    for id in 1..=1200 {
        make(&mut vm, id, 0x2000, u64::from(id) * 0x2000);
    }
    assert_eq!(shmem.seen().asked, [Asked::Map]);
    // The worker has the same bytes.
    {
        let log = probe.log();
        let [piece] = log.uses[&(1, 7)].blob().pieces() else { panic!("one piece") };
        assert_eq!((piece.offset, piece.len), (7 * 0x2000, 0x2000));
        piece.backing.file().write_all_at(b"host", piece.offset + 5).expect("writable");
        piece.backing.file().set_len(0).expect_err("nobody makes it shorter");
    }
    assert_eq!(&peek(&shmem, 7 * 0x2000 + 5), b"host");
    assert_ne!(kept(&shmem), 0);
    for id in 2..=1200 {
        unmake(&mut vm, id);
    }
    assert_eq!(shmem.seen().asked, [Asked::Map]);
    unmake(&mut vm, 1);
    assert_eq!(shmem.seen().asked, [Asked::Map, Asked::Unmap], "before UNREF was answered");
    assert_eq!(vm.device.ledger().in_use(), (0, 0));
    assert_eq!(kept(&shmem), 0, "the host has its memory back");
    make(&mut vm, 1, 0x2000, 0);
    assert_eq!(shmem.seen().asked, [Asked::Map, Asked::Unmap, Asked::Map]);
}

#[test]
fn what_others_left_is_not_seen() {
    let probe = Probe::default();
    let (mut vm, shmem) = start(&probe);
    make(&mut vm, 1, 0x2000, 0x4000);
    make(&mut vm, 2, 0x2000, 0x8000);
    poke(&shmem, 0x4000, b"mine");
    // The guest's kernel reaches all of the window.
    poke(&shmem, 0x6000, b"kern");
    probe.log().cling = true;
    vm.ok(1, Command::CtxDetachResource { resource_id: 1 });
    vm.ok(0, Command::ResourceUnmapBlob { resource_id: 1 });
    let unref = Request { header: Header::default(), command: Command::ResourceUnref { resource_id: 1 } };
    let unref = vm.control.send(&unref.encode(), 64);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!vm.control.is_back(unref), "the worker still has it");
    create(&mut vm, 3, 0x4000);
    vm.expect(0, map(3, 0x4000), ResponseId::ERR_INVALID_PARAMETER);
    probe.let_go();
    assert_eq!(response_id(&vm.control.wait(unref)), ResponseId::OK_NODATA);
    assert_eq!(peek(&shmem, 0x4000), [0; 4], "given back to the host");
    assert_eq!(response_id(&vm.request(0, map(3, 0x4000))), ResponseId::OK_MAP_INFO);
    assert_eq!((peek(&shmem, 0x4000), peek(&shmem, 0x6000)), ([0; 4], [0; 4]));
}

#[test]
fn blobs_that_cannot_be_in_it_are_refused() {
    let (mut vm, shmem) = start(&Probe::default());
    vm.create_context(2);
    let pages = [entry(BLOBS, 0x1000)];
    let good = CreateBlob { resource_id: 3, ..BLOB };
    for (blob, why) in [
        (CreateBlob { blob_id: 0, ..good }, ResponseId::ERR_INVALID_PARAMETER),
        (CreateBlob { blob_id: 2, ..good }, ResponseId::ERR_INVALID_PARAMETER),
        (CreateBlob { flags: BlobFlags(0), ..good }, ResponseId::ERR_INVALID_PARAMETER),
        (
            CreateBlob { flags: good.flags | BlobFlags::CROSS_DEVICE, ..good },
            ResponseId::ERR_INVALID_PARAMETER,
        ),
        (CreateBlob { mem: BlobMem::HOST3D_GUEST, ..good }, ResponseId::ERR_INVALID_PARAMETER),
        (CreateBlob { mem: BlobMem::GUEST, entries: &pages, ..good }, ResponseId::ERR_INVALID_PARAMETER),
        (CreateBlob { entries: &pages, ..good }, ResponseId::ERR_INVALID_PARAMETER),
        (CreateBlob { size: 0x1800, ..good }, ResponseId::ERR_INVALID_PARAMETER),
        (CreateBlob { size: WINDOW + 0x1000, ..good }, ResponseId::ERR_OUT_OF_MEMORY),
        (CreateBlob { size: !0xfff, ..good }, ResponseId::ERR_OUT_OF_MEMORY),
    ] {
        vm.expect(1, Command::ResourceCreateBlob(blob), why);
    }
    vm.expect(9, Command::ResourceCreateBlob(good), ResponseId::ERR_INVALID_CONTEXT_ID);
    vm.ok(1, Command::ResourceCreateBlob(good));
    vm.expect(0, Command::ResourceUnmapBlob { resource_id: 3 }, ResponseId::ERR_INVALID_PARAMETER);
    vm.expect(1, Command::CtxAttachResource { resource_id: 3 }, ResponseId::ERR_INVALID_PARAMETER);
    for offset in [1, WINDOW, WINDOW - 0x1000, u64::MAX - 0xfff, !0] {
        vm.expect(0, map(3, offset), ResponseId::ERR_INVALID_PARAMETER);
    }
    assert!(shmem.seen().asked.is_empty());
    assert_eq!(response_id(&vm.request(0, map(3, WINDOW - 0x2000))), ResponseId::OK_MAP_INFO);
    vm.expect(0, map(3, 0), ResponseId::ERR_INVALID_PARAMETER);
    vm.expect(2, Command::CtxAttachResource { resource_id: 3 }, ResponseId::ERR_INVALID_PARAMETER);
    create(&mut vm, 4, 0x2000);
    vm.expect(0, map(4, WINDOW - 0x3000), ResponseId::ERR_INVALID_PARAMETER);
    vm.ok(0, guest_blob(5, 0x1000, &pages));
    vm.expect(0, map(5, 0), ResponseId::ERR_INVALID_PARAMETER);
    vm.expect(0, map(6, 0), ResponseId::ERR_INVALID_RESOURCE_ID);
    for resource_id in [3, 4, 5] {
        vm.ok(0, Command::ResourceUnref { resource_id });
    }
    assert_eq!(vm.device.ledger().in_use(), (0, 0));
}

#[test]
fn a_mapping_that_fails_is_out_of_memory_and_not_taken_back() {
    let (mut vm, shmem) = start(&Probe::default());
    shmem.seen().refuse = true;
    create(&mut vm, 1, 0x2000);
    vm.expect(0, map(1, 0), ResponseId::ERR_OUT_OF_MEMORY);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    unmake(&mut vm, 1);
    assert_eq!(shmem.seen().asked, [Asked::Map]);
    shmem.seen().refuse = false;
    make(&mut vm, 1, 0x2000, 0);
    unmake(&mut vm, 1);
    assert_eq!(shmem.seen().asked, [Asked::Map, Asked::Map, Asked::Unmap]);
}

#[test]
fn other_requests_do_not_wait_for_the_vmm() {
    let (mut vm, shmem) = start(&Probe::default());
    shmem.seen().hold = true;
    create(&mut vm, 1, 0x2000);
    create(&mut vm, 2, 0x2000);
    let send = |vm: &mut Vm, command| {
        let header = Header::default();
        vm.control.send(&Request { header, command }.encode(), 64)
    };
    let first = send(&mut vm, map(1, 0));
    let second = send(&mut vm, map(2, 0x2000));
    wait_for("the request", || !shmem.seen().asked.is_empty());
    vm.assert_alive();
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    assert!(!vm.control.is_back(first) && !vm.control.is_back(second));
    shmem.let_go();
    assert_eq!(response_id(&vm.control.wait(first)), ResponseId::OK_MAP_INFO);
    assert_eq!(response_id(&vm.control.wait(second)), ResponseId::OK_MAP_INFO);
    assert_eq!(shmem.seen().asked, [Asked::Map]);
}

#[test]
fn nothing_is_asked_while_the_queues_are_stopped() {
    let (mut vm, shmem) = start(&Probe::default());
    make(&mut vm, 1, 0x2000, 0);
    vm.stop_queue(0);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(shmem.seen().asked, [Asked::Map], "the blob is gone, and nobody is told");
    assert_eq!(vm.device.ledger().in_use(), (0, 0));
    // It is mapped still.
    vm.start_queue(0);
    vm.create_context(1);
    make(&mut vm, 1, 0x2000, 0);
    assert_eq!(shmem.seen().asked, [Asked::Map]);
    unmake(&mut vm, 1);
    assert_eq!(shmem.seen().asked, [Asked::Map, Asked::Unmap]);
}

#[test]
fn a_queue_stops_whatever_the_vmm_does() {
    let (mut vm, shmem) = start(&Probe::default());
    shmem.seen().hold = true;
    create(&mut vm, 1, 0x2000);
    let header = Header::default();
    let waiting = vm.control.send(&Request { header, command: map(1, 0) }.encode(), 64);
    wait_for("the request", || !shmem.seen().asked.is_empty());
    // As QEMU: it answers nothing while it waits for this.
    vm.stop_queue(0);
    assert_eq!(response_id(&vm.response(waiting)), ResponseId::ERR_UNSPEC);
    vm.start_queue(0);
    shmem.let_go();
    vm.create_context(1);
    make(&mut vm, 1, 0x2000, 0);
    assert_eq!(shmem.seen().asked, [Asked::Map]);
}

#[test]
fn a_worker_that_dies_loses_what_it_had_in_it() {
    let probe = Probe::default();
    let (mut vm, shmem) = start(&probe);
    make(&mut vm, 1, 0x2000, 0);
    make(&mut vm, 2, 0x2000, 0x2000);
    poke(&shmem, 0x2000, b"gone");
    // What the worker held is dropped when it was reaped.
    let first = probe.log().uses.remove(&(1, 2));
    drop(first);
    assert_eq!(peek(&shmem, 0x2000), [0; 4]);
    vm.assert_alive();
    assert_eq!(shmem.seen().asked, [Asked::Map], "there is another");
    let second = probe.log().uses.remove(&(1, 1));
    drop(second);
    wait_for("the unmapping", || shmem.seen().asked == [Asked::Map, Asked::Unmap]);
    // The guest hears of it later.
    create(&mut vm, 3, 0x2000);
    vm.expect(0, map(3, 0), ResponseId::ERR_INVALID_PARAMETER);
    for resource_id in [1, 2] {
        vm.ok(0, Command::ResourceUnmapBlob { resource_id });
    }
    assert_eq!(shmem.seen().asked, [Asked::Map, Asked::Unmap]);
}

#[test]
fn what_comes_back_as_memory_is_none() {
    let (mut vm, shmem) = start(&Probe::default());
    make(&mut vm, 1, 0x10000, 0);
    let mapped = mapped(&shmem);
    let window = region(&mapped, WINDOW_AT);
    vm.frontend.add_mem_region(&window).expect("ADD_MEM_REG");
    let blob = [entry(WINDOW_AT, 0x1000)];
    vm.expect(0, guest_blob(2, 0x1000, &blob), ResponseId::ERR_INVALID_PARAMETER);
    let half = [entry(BLOBS, 0x1000), entry(WINDOW_AT + 0x1000, 0x1000)];
    vm.expect(0, guest_blob(2, 0x1000, &half), ResponseId::ERR_INVALID_PARAMETER);
    // A request there comes back with nothing written.
    let head = vm.control.head();
    vm.control.describe(head, WINDOW_AT, 32, 0, 0);
    vm.control.offer(head);
    assert!(vm.control.wait(head).is_empty());
    // And no ring can be there.
    let at = mapped.get_host_address(GuestAddress(WINDOW_AT)).expect("mapped") as u64;
    let config = VringConfigData {
        queue_max_size: 16,
        queue_size: 16,
        flags: 0,
        desc_table_addr: at,
        used_ring_addr: at + 0x1000,
        avail_ring_addr: at + 0x2000,
        log_addr: None,
    };
    assert!(vm.frontend.set_vring_addr(1, &config).is_err());
    vm.frontend.remove_mem_region(&window).expect("REM_MEM_REG");
    // The same in a table.
    let table = [region(&vm.memory, 0), region(&mapped, WINDOW_AT)];
    vm.frontend.set_mem_table(&table).expect("SET_MEM_TABLE");
    vm.expect(0, guest_blob(2, 0x1000, &blob), ResponseId::ERR_INVALID_PARAMETER);
    unmake(&mut vm, 1);
    vm.frontend.remove_mem_region(&region(&mapped, WINDOW_AT)).expect("REM_MEM_REG");
    vm.assert_alive();
}

#[test]
fn without_shared_memory_regions_there_is_none() {
    // A VMM that does not know them.
    let shmem = Shmem::default();
    let without_shmem = true;
    let setup = Setup { window: Some((WINDOW, shmem.clone())), without_shmem, ..Setup::new(NoWorkers) };
    let mut vm = setup.start();
    vm.create_context(1);
    create(&mut vm, 1, 0x2000);
    vm.expect(0, map(1, 0), ResponseId::ERR_UNSPEC);
    vm.ok(0, Command::ResourceUnref { resource_id: 1 });
    assert!(shmem.seen().asked.is_empty());
}
