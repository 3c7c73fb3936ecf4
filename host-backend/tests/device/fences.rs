//! The order of fences, and what may be answered only when the guest's memory is free.

use std::time::Duration;

use crate::support::contexts::Probe;
use crate::support::{BLOBS, Setup, Vm, context, response_id, wait_for};
use protocol::virtio_gpu::structs::CtrlHdr;
use protocol::virtio_gpu::{Command, CommandId, Header, Request, ResponseId};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use zerocopy::FromBytes;

/// Long enough for an answer that must not come.
const MOMENT: Duration = Duration::from_millis(50);

fn deferring() -> (Probe, Vm) {
    let probe = Probe::deferring();
    let mut vm = Setup::new(probe.clone()).start();
    vm.create_context(1);
    vm.create_context(2);
    (probe, vm)
}

/// Waits until the contexts have this many submissions.
fn arrived(probe: &Probe, count: usize) {
    wait_for("the submissions", || probe.log().submitted.len() == count);
}

#[test]
fn fences_of_a_ring_are_answered_in_order_and_rings_do_not_wait_for_each_other() {
    let (probe, mut vm) = deferring();
    let a = vm.submit(1, 0, 10, b"a");
    let b = vm.submit(1, 0, 11, b"b");
    let c = vm.submit(1, 63, 12, b"c");
    let d = vm.submit(2, 0, 13, b"d");
    arrived(&probe, 4);
    probe.complete(b'b');
    probe.complete(b'd');
    let response = vm.control.wait(d);
    let (header, _) = CtrlHdr::read_from_prefix(&response).expect("a header");
    assert_eq!((header.fence_id.get(), header.flags.get(), header.ring_idx), (13, 3, 0));
    std::thread::sleep(MOMENT);
    assert!(!vm.control.is_back(b), "b is done, but a comes first");
    probe.complete(b'c');
    vm.control.wait(c);
    probe.complete(b'a');
    vm.control.wait(a);
    vm.control.wait(b);
    assert_eq!(vm.control.order[vm.control.order.len() - 4..], [d, c, a, b]);
}

#[test]
fn a_refused_command_with_a_fence_keeps_the_order() {
    let (probe, mut vm) = deferring();
    let a = vm.submit(1, 7, 1, b"a");
    // Its response would signal the fence of the first one.
    let header = Header { fence: Some(2), ring: Some(7), ctx_id: 1 };
    let refused = Request { header, command: Command::GetCapsetInfo { index: 99 } };
    let b = vm.control.send(&refused.encode(), 64);
    let unknown = {
        let mut raw = header.raw(CommandId(0x7777));
        raw.fence_id = 3.into();
        zerocopy::IntoBytes::as_bytes(&raw).to_vec()
    };
    let c = vm.control.send(&unknown, 64);
    vm.assert_alive();
    std::thread::sleep(MOMENT);
    assert!(!vm.control.is_back(b) && !vm.control.is_back(c));
    probe.complete(b'a');
    assert_eq!(response_id(&vm.control.wait(a)), ResponseId::OK_NODATA);
    assert_eq!(response_id(&vm.control.wait(b)), ResponseId::ERR_INVALID_PARAMETER);
    assert_eq!(response_id(&vm.control.wait(c)), ResponseId::ERR_UNSPEC);
}

#[test]
fn fences_without_a_ring_are_one_line() {
    let (probe, mut vm) = deferring();
    let mut send = |ctx_id, fence, bytes| {
        let header = Header { fence: Some(fence), ring: None, ctx_id };
        vm.control.send(&Request { header, command: Command::Submit3d { bytes } }.encode(), 64)
    };
    let (a, b) = (send(1, 1, b"a"), send(2, 2, b"b"));
    arrived(&probe, 2);
    probe.complete(b'b');
    std::thread::sleep(MOMENT);
    assert!(!vm.control.is_back(b));
    probe.complete(b'a');
    vm.control.wait(a);
    vm.control.wait(b);
    assert_eq!(vm.control.order[vm.control.order.len() - 2..], [a, b]);
}

/// The driver's chains here are pairs of descriptors, so half of the queue can wait. With chains of one slot, as Linux
/// has them in indirect tables, more could.
#[test]
fn too_many_waiting_fences_fail_on_the_ring_that_has_most() {
    let probe = Probe::deferring();
    let mut vm = Setup { queue_size: 64, ..Setup::new(probe.clone()) }.start();
    vm.create_context(1);
    vm.create_context(2);
    let innocent = vm.submit(2, 0, 1, &[255]);
    // Each chain is one descriptor that leads to a table of two.
    let mut heads = Vec::new();
    for fence in 0..32_u8 {
        let head = 2 * u16::from(fence) + 1;
        if head == innocent + 1 {
            continue;
        }
        let header = Header { fence: Some(u64::from(fence) + 2), ring: Some(9), ctx_id: 1 };
        let bytes = Request { header, command: Command::Submit3d { bytes: &[fence] } }.encode();
        vm.send_indirect(head, &bytes);
        heads.push(head);
    }
    arrived(&probe, 1 + heads.len());
    assert_eq!(heads.len(), 31);
    let more = vm.submit(1, 9, 100, &[200]);
    heads.push(more);
    // 33 of 64: the ring with 32 loses them, in their order.
    for head in &heads {
        wait_for("the answers", || vm.control.is_back(*head));
        assert_eq!(response_id(&vm.response(*head)), ResponseId::ERR_OUT_OF_MEMORY);
    }
    assert_eq!(vm.control.order[vm.control.order.len() - heads.len()..], heads);
    assert!(!vm.control.is_back(innocent));
    // Work that ends later changes nothing.
    probe.complete(3);
    probe.complete(255);
    assert_eq!(response_id(&vm.control.wait(innocent)), ResponseId::OK_NODATA);
    vm.assert_alive();
}

#[test]
fn a_blob_is_free_only_when_no_context_reaches_it() {
    let (probe, mut vm) = deferring();
    vm.create_blob(1, BLOBS, 0x4000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    vm.ok(2, Command::CtxAttachResource { resource_id: 1 });
    probe.log().cling = true;
    // Linux detaches it when the file closes, and unrefs it then; the first is not waited for.
    vm.ok(1, Command::CtxDetachResource { resource_id: 1 });
    let unref = vm.control.send(
        &Request { header: Header::default(), command: Command::ResourceUnref { resource_id: 1 } }.encode(),
        64,
    );
    vm.assert_alive();
    std::thread::sleep(MOMENT);
    assert!(!vm.control.is_back(unref), "both contexts still reach it");
    assert_eq!(vm.device.ledger().in_use(), (1, 1), "it counts until then");
    let first = probe.log().detached.remove(0);
    drop(first);
    std::thread::sleep(MOMENT);
    assert!(!vm.control.is_back(unref), "one context still reaches it");
    // The id can be given again meanwhile.
    vm.create_blob(1, BLOBS + 0x10000, 0x1000);
    probe.let_go();
    assert_eq!(response_id(&vm.control.wait(unref)), ResponseId::OK_NODATA);
    wait_for("the account", || vm.device.ledger().in_use() == (1, 1));
}

#[test]
fn a_context_has_ended_only_when_it_let_go_of_everything() {
    let (probe, mut vm) = deferring();
    vm.create_blob(1, BLOBS, 0x4000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    let waiting = vm.submit(1, 5, 1, b"w");
    arrived(&probe, 1);
    probe.log().cling = true;
    let header = Header { ctx_id: 1, ..Header::default() };
    let destroy = vm.control.send(&Request { header, command: Command::CtxDestroy }.encode(), 64);
    assert_eq!(response_id(&vm.control.wait(waiting)), ResponseId::ERR_UNSPEC);
    // Linux gives the id to the next context without waiting.
    vm.ok(1, context());
    std::thread::sleep(MOMENT);
    assert!(!vm.control.is_back(destroy));
    probe.let_go();
    vm.control.wait(destroy);
    vm.ok(0, Command::ResourceUnref { resource_id: 1 });
}

#[test]
fn the_ring_stops_only_when_nobody_reaches_the_guests_memory() {
    let (probe, mut vm) = deferring();
    vm.create_blob(1, BLOBS, 0x4000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    let waiting = vm.submit(1, 0, 1, b"w");
    arrived(&probe, 1);
    probe.log().cling = true;
    let frontend = vm.frontend.clone();
    let stop = std::thread::spawn(move || frontend.get_vring_base(0).expect("GET_VRING_BASE"));
    wait_for("the end of the contexts", || !probe.log().ended.is_empty());
    std::thread::sleep(MOMENT);
    assert!(!stop.is_finished());
    probe.let_go();
    wait_for("the answer to GET_VRING_BASE", || stop.is_finished());
    let base = stop.join().expect("no panic");
    assert_eq!(base, u32::from(vm.control.made), "every request that was taken was answered");
    assert_eq!(response_id(&vm.control.wait(waiting)), ResponseId::ERR_UNSPEC);
    assert_eq!(vm.device.ledger().in_use(), (0, 0));

    // The guest starts afresh, as after a reboot.
    vm.start_queues();
    vm.create_context(1);
    vm.create_blob(1, BLOBS, 0x1000);
}

#[test]
fn reset_device_ends_everything() {
    let (probe, mut vm) = deferring();
    vm.create_blob(1, BLOBS, 0x4000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });
    vm.frontend.reset_device().expect("RESET_DEVICE");
    assert!(probe.log().uses.is_empty());
    assert_eq!(vm.device.ledger().in_use(), (0, 0));
}

#[test]
fn a_panic_in_a_context_costs_one_request() {
    let (probe, mut vm) = deferring();
    probe.log().panic = true;
    let head = vm.submit(1, 0, 1, b"x");
    assert_eq!(response_id(&vm.control.wait(head)), ResponseId::ERR_UNSPEC);
    vm.assert_alive();
}
