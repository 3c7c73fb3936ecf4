//! What a well-behaved guest gets: negotiation, capsets, contexts, blobs.

use std::os::unix::fs::FileExt as _;

use crate::support::contexts::{NoWorkers, Probe};
use crate::support::{BLOBS, EVENT_IDX, Setup, context, entry, guest_blob, response_id};
use protocol::virtio_gpu::structs::{MemEntry, RespCapsetInfo};
use protocol::virtio_gpu::{
    BlobFlags, BlobMem, Command, CreateBlob, CreateContext, Features, Header, Request, ResponseId, capset,
};
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserConfigFlags;
use vhost_device_kfd::device::Limits;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn features_are_those_that_the_guest_can_use() {
    let vm = Setup { without: 0, ..Setup::new(NoWorkers) }.start();
    let expected = Features::VIRGL | Features::RESOURCE_BLOB | Features::CONTEXT_INIT;
    // VERSION_1, INDIRECT_DESC, EVENT_IDX, and vhost-user's PROTOCOL_FEATURES. Not LOG_ALL (26): no migration.
    assert_eq!(vm.features, expected.0 | 1 << 32 | 1 << 28 | 1 << 29 | 1 << 30);
}

#[test]
fn the_config_space_has_no_scanouts_and_one_capset() {
    let mut vm = Setup::new(NoWorkers).start();
    let mut read = |offset, len: u32| {
        let buffer = vec![0; usize::try_from(len).expect("short")];
        vm.frontend.get_config(offset, len, VhostUserConfigFlags::empty(), &buffer).map(|(_, bytes)| bytes)
    };
    let mut expected = [0; 20];
    expected[12] = 1;
    assert_eq!(read(0, 20).expect("GET_CONFIG"), expected);
    assert_eq!(read(8, 8).expect("GET_CONFIG"), expected[8..16]);
}

#[test]
fn the_capset_tells_our_device_from_others() {
    let mut vm = Setup::new(NoWorkers).start();
    let info = vm.request(0, Command::GetCapsetInfo { index: 0 });
    let info = RespCapsetInfo::read_from_bytes(&info).expect("40 bytes");
    assert_eq!((info.capset_id.get(), info.capset_max_version.get(), info.capset_max_size.get()), (8, 1, 24));
    let data = vm.request(0, Command::GetCapset { id: 8, version: 1 });
    assert_eq!(response_id(&data), ResponseId::OK_CAPSET);
    assert_eq!(&data[24..28], b"KFDV");
    assert_eq!(data[24..], *capset::Capset::new(1, 1).as_bytes());
}

#[test]
fn contexts_come_and_go() {
    let probe = Probe::default();
    let mut vm = Setup::new(probe.clone()).start();
    let named = Command::CtxCreate(CreateContext { capset_id: 8, debug_name: b"rocminfo\n" });
    vm.ok(5, named);
    assert_eq!(probe.log().made[0].name, "rocminfo\\n");
    vm.expect(5, context(), ResponseId::ERR_INVALID_CONTEXT_ID);
    vm.expect(0, context(), ResponseId::ERR_INVALID_CONTEXT_ID);
    for capset_id in [0, 1, 4, 9] {
        let other = Command::CtxCreate(CreateContext { capset_id, debug_name: b"" });
        vm.expect(6, other, ResponseId::ERR_INVALID_PARAMETER);
    }
    vm.ok(5, Command::Submit3d { bytes: b"hello" });
    assert_eq!(probe.log().submitted, [(5, None, b"hello".to_vec())]);
    vm.ok(5, Command::CtxDestroy);
    vm.expect(5, Command::CtxDestroy, ResponseId::ERR_INVALID_CONTEXT_ID);
    vm.expect(5, Command::Submit3d { bytes: b"hello" }, ResponseId::ERR_INVALID_CONTEXT_ID);
    vm.ok(5, context());
}

#[test]
fn a_blob_is_the_guests_own_memory_in_every_context_that_has_it() {
    let probe = Probe::default();
    let mut vm = Setup::new(probe.clone()).start();
    let pages = [entry(BLOBS + 0x5000, 0x2000), entry(BLOBS, 0x1000)];
    vm.ok(0, guest_blob(9, 0x3000, &pages));
    vm.create_context(1);
    vm.create_context(2);
    vm.ok(1, Command::CtxAttachResource { resource_id: 9 });
    vm.ok(2, Command::CtxAttachResource { resource_id: 9 });
    vm.expect(2, Command::CtxAttachResource { resource_id: 9 }, ResponseId::ERR_INVALID_PARAMETER);
    vm.poke(BLOBS + 0x5ffe, b"abcd");
    vm.poke(BLOBS + 0x10, b"last page");
    {
        let log = probe.log();
        let blob = log.uses[&(1, 9)].blob();
        assert_eq!((blob.id(), blob.size(), blob.pieces().len()), (9, 0x3000, 2));
        let mut bytes = [0; 4];
        let first = &blob.pieces()[0];
        first.backing.file().read_exact_at(&mut bytes, first.offset + 0xffe).expect("the guest's memory");
        assert_eq!(&bytes, b"abcd");
        let second = &blob.pieces()[1];
        second.backing.file().write_all_at(b"from the host", second.offset + 0x10).expect("writable");
    }
    let mut bytes = [0; 13];
    vm_memory::Bytes::read_slice(&vm.memory, &mut bytes, vm_memory::GuestAddress(BLOBS + 0x10))
        .expect("in memory");
    assert_eq!(&bytes, b"from the host");
    vm.ok(1, Command::CtxDetachResource { resource_id: 9 });
    vm.expect(1, Command::CtxDetachResource { resource_id: 9 }, ResponseId::ERR_INVALID_PARAMETER);
    // UNREF takes it from the other context.
    vm.ok(0, Command::ResourceUnref { resource_id: 9 });
    assert!(probe.log().uses.is_empty());
    assert_eq!(vm.device.ledger().in_use(), (0, 0));
    vm.expect(0, Command::ResourceUnref { resource_id: 9 }, ResponseId::ERR_INVALID_RESOURCE_ID);
    vm.expect(2, Command::CtxAttachResource { resource_id: 9 }, ResponseId::ERR_INVALID_RESOURCE_ID);
}

#[test]
fn only_guest_memory_can_be_a_blob() {
    let mut vm = Setup::new(NoWorkers).start();
    let pages = [entry(BLOBS, 0x1000)];
    let good = CreateBlob {
        resource_id: 3,
        mem: BlobMem::GUEST,
        flags: BlobFlags::MAPPABLE | BlobFlags::SHAREABLE,
        blob_id: 0,
        size: 0x1000,
        entries: &pages,
    };
    let bad = [
        CreateBlob { mem: BlobMem::HOST3D, ..good },
        CreateBlob { mem: BlobMem::HOST3D_GUEST, ..good },
        CreateBlob { flags: BlobFlags::CROSS_DEVICE, ..good },
        CreateBlob { blob_id: 1, ..good },
        CreateBlob { size: 0, ..good },
        CreateBlob { size: 0x800, ..good },
        CreateBlob { size: 0x2000, ..good },
        CreateBlob { size: !0xfff, ..good },
        CreateBlob { entries: &[], ..good },
    ];
    for blob in bad {
        vm.expect(0, Command::ResourceCreateBlob(blob), ResponseId::ERR_INVALID_PARAMETER);
    }
    let zero = CreateBlob { resource_id: 0, ..good };
    vm.expect(0, Command::ResourceCreateBlob(zero), ResponseId::ERR_INVALID_RESOURCE_ID);
    vm.ok(0, Command::ResourceCreateBlob(good));
    vm.expect(0, Command::ResourceCreateBlob(good), ResponseId::ERR_INVALID_RESOURCE_ID);
    // Without a window nothing is mapped.
    vm.expect(0, Command::ResourceMapBlob { resource_id: 3, offset: 0 }, ResponseId::ERR_UNSPEC);
    vm.expect(0, Command::ResourceUnmapBlob { resource_id: 3 }, ResponseId::ERR_UNSPEC);
    vm.expect(0, Command::ResourceUnmapBlob { resource_id: 4 }, ResponseId::ERR_INVALID_RESOURCE_ID);
}

#[test]
fn limits_are_answered_as_out_of_memory() {
    let limits = Limits { contexts: 2, blobs: 2, pieces: 4, attachments: 3 };
    let mut vm = Setup { limits, ..Setup::new(Probe::default()) }.start();
    vm.create_context(1);
    vm.create_context(2);
    vm.expect(3, context(), ResponseId::ERR_OUT_OF_MEMORY);
    let scattered: Vec<MemEntry> = (0..5).map(|page| entry(BLOBS + page * 0x2000, 0x1000)).collect();
    vm.expect(0, guest_blob(1, 0x5000, &scattered), ResponseId::ERR_OUT_OF_MEMORY);
    vm.ok(0, guest_blob(1, 0x3000, &scattered));
    vm.expect(0, guest_blob(2, 0x2000, &scattered), ResponseId::ERR_OUT_OF_MEMORY);
    vm.ok(0, guest_blob(2, 0x1000, &scattered));
    vm.expect(0, guest_blob(3, 0x1000, &scattered), ResponseId::ERR_OUT_OF_MEMORY);
    assert_eq!(vm.device.ledger().in_use(), (2, 4));
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    vm.ok(1, Command::CtxAttachResource { resource_id: 2 });
    vm.ok(2, Command::CtxAttachResource { resource_id: 1 });
    vm.expect(2, Command::CtxAttachResource { resource_id: 2 }, ResponseId::ERR_OUT_OF_MEMORY);
    vm.ok(0, Command::ResourceUnref { resource_id: 1 });
    vm.ok(2, Command::CtxAttachResource { resource_id: 2 });
    vm.ok(2, Command::CtxDestroy);
    vm.create_context(3);
}

#[test]
fn without_workers_every_submission_fails() {
    let mut vm = Setup::new(NoWorkers).start();
    vm.create_context(1);
    vm.create_blob(1, BLOBS, 0x1000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    vm.expect(1, Command::Submit3d { bytes: &[1, 2, 3, 4] }, ResponseId::ERR_UNSPEC);
    vm.ok(1, Command::CtxDestroy);
    vm.ok(0, Command::ResourceUnref { resource_id: 1 });
}

#[test]
fn a_driver_with_event_indices_is_notified() {
    let mut vm = Setup { without: 0, ..Setup::new(NoWorkers) }.start();
    assert_ne!(vm.features & EVENT_IDX, 0);
    // used_event, after the ring of available heads: the answer after which the driver wants to be notified.
    let used_event = vm.control.avail + 4 + u64::from(vm.control.size) * 2;
    let set = |vm: &crate::support::Vm, answer: u16| {
        vm_memory::Bytes::write_obj(&vm.memory, answer, vm_memory::GuestAddress(used_event))
            .expect("in memory");
    };
    for round in 0..600_u16 {
        set(&vm, round);
        vm.assert_alive();
        let control = &vm.control;
        crate::support::wait_for("a notification", || control.notified());
    }
    // Not before the third answer from here.
    set(&vm, 602);
    vm.assert_alive();
    vm.assert_alive();
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert!(!vm.control.notified());
    vm.assert_alive();
    let control = &vm.control;
    crate::support::wait_for("a notification", || control.notified());
}

#[test]
fn what_was_made_available_before_the_queue_is_enabled_is_served_then() {
    let mut vm = Setup::new(NoWorkers).start();
    vm.frontend.set_vring_enable(0, false).expect("SET_VRING_ENABLE");
    let request = Request { header: Header::default(), command: Command::GetCapsetInfo { index: 0 } };
    let head = vm.control.send(&request.encode(), 64);
    // The kick is lost: a VMM may have taken it.
    vm.control.kick.read().expect("it was not read");
    assert!(!vm.control.is_back(head));
    vm.frontend.set_vring_enable(0, true).expect("SET_VRING_ENABLE");
    assert_eq!(response_id(&vm.control.wait(head)), ResponseId::OK_CAPSET_INFO);
}

#[test]
fn commands_of_the_cursor_queue_come_back() {
    let mut vm = Setup::new(NoWorkers).start();
    let head = vm.cursor.send(&[0; 56], 24);
    assert!(vm.cursor.wait(head).is_empty());
    vm.assert_alive();
}

#[test]
fn the_daemon_ends_with_its_vmm() {
    let probe = Probe::default();
    let mut vm = Setup::new(probe.clone()).start();
    vm.create_context(1);
    vm.create_blob(1, BLOBS, 0x1000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    let device = std::sync::Arc::clone(&vm.device);
    vm.disconnect().expect("ends in order");
    assert!(probe.log().uses.is_empty());
    assert_eq!(device.ledger().in_use(), (0, 0));
}
