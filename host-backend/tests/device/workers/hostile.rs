//! Workers that were taken over, and guests that make the most of theirs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::virtio_gpu::{Command, Header, Request, ResponseId};
use vhost_device_kfd::workers::Bounds;

use super::support::{Mode, Rig};
use crate::support::{BLOBS, context, response_id, wait_for};

#[test]
fn a_worker_that_breaks_the_rules_is_ended() {
    for mode in [
        Mode::SaysFailed,
        Mode::ExitsAtOnce,
        Mode::SendsGarbage,
        Mode::SendsTooMuch,
        Mode::SendsNothing,
        Mode::ReadyForEver,
        Mode::AnswersWhatIsNotAsked,
        Mode::ReleasesWhatItHas,
        Mode::AsksForEver,
        Mode::GivesBackWhatItHasNot,
    ] {
        let mut rig = Rig::start(mode);
        rig.vm.create_context(1);
        rig.vm.create_blob(4, BLOBS, 0x1000);
        // Refused if the worker was found out already.
        rig.vm.request(1, Command::CtxAttachResource { resource_id: 4 });
        assert_eq!(rig.submit(1, b"complete"), ResponseId::ERR_UNSPEC, "{mode:?}");
        wait_for("the worker's end", || rig.metrics.processes() == 0);
        rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
        rig.destroy(1);
        assert_eq!(rig.metrics.deaths.load(Ordering::Relaxed), 1, "{mode:?}");
        rig.assert_clean();
    }
}

#[test]
fn a_worker_that_does_not_become_ready_is_ended() {
    let bounds = Bounds { start: Duration::from_millis(300), ..Bounds::default() };
    let mut rig = Rig::with(Mode::NeverReady, bounds);
    rig.vm.create_context(1);
    rig.submit_fails(1, b"complete");
    rig.destroy(1);
    rig.assert_clean();
}

#[test]
fn a_worker_that_takes_nothing_costs_bounded_memory_and_nobody_else_waits() {
    let bounds = Bounds { end: Duration::from_millis(300), waiting_bytes: 100_000, ..Bounds::default() };
    let mut rig = Rig::with(Mode::TakesNothing, bounds);
    rig.vm.create_context(1);
    rig.vm.create_blob(4, BLOBS, 0x1000);
    // More than the socket takes.
    for _ in 0..2000 {
        rig.vm.ok(1, Command::CtxAttachResource { resource_id: 4 });
        rig.vm.ok(1, Command::CtxDetachResource { resource_id: 4 });
    }
    let bytes = [7; 1900];
    let mut refused = 0;
    // Without fences, which would be failed early.
    for _ in 0..100 {
        let header = Header { ctx_id: 1, ..Header::default() };
        let request = Request { header, command: Command::Submit3d { bytes: &bytes } };
        let head = rig.vm.control.send(&request.encode(), 64);
        std::thread::sleep(Duration::from_millis(1));
        if rig.vm.control.is_back(head) {
            assert_eq!(response_id(&rig.vm.control.wait(head)), ResponseId::ERR_OUT_OF_MEMORY);
            refused += 1;
        }
    }
    assert!((40..60).contains(&refused), "{refused} are refused, of 100 that are twice what may wait");
    rig.vm.assert_alive();
    rig.destroy(1);
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
    rig.assert_clean();
}

#[test]
fn what_a_context_may_have_is_bounded() {
    let bounds = Bounds { processes: 2, submissions: 3, attachments: 2, pieces: 5, ..Bounds::default() };
    let mut rig = Rig::with(Mode::Obeys, bounds);
    rig.vm.create_context(1);
    rig.vm.create_context(2);
    rig.vm.expect(3, context(), ResponseId::ERR_OUT_OF_MEMORY);
    let kept: Vec<u16> = (0..3).map(|ring| rig.vm.submit(1, 10 + ring, 99, b"keep")).collect();
    assert_eq!(rig.submit(1, b"complete"), ResponseId::ERR_OUT_OF_MEMORY);
    rig.submit_ok(2, b"cling");
    rig.attach(2, 1, BLOBS, 0x1000);
    rig.attach(2, 2, BLOBS, 0x1000);
    rig.vm.create_blob(3, BLOBS, 0x1000);
    let attach = Command::CtxAttachResource { resource_id: 3 };
    rig.vm.expect(2, attach, ResponseId::ERR_OUT_OF_MEMORY);
    // What is not released counts.
    rig.vm.ok(2, Command::CtxDetachResource { resource_id: 1 });
    rig.vm.expect(2, attach, ResponseId::ERR_OUT_OF_MEMORY);
    rig.submit_ok(2, b"release");
    wait_for("the release", || response_id(&rig.vm.request(2, attach)) == ResponseId::OK_NODATA);
    rig.destroy(1);
    for head in kept {
        rig.vm.control.wait(head);
    }
    // One that has ended makes room.
    rig.vm.create_context(3);
    let pieces: Vec<_> = (0..6).map(|page| crate::support::entry(BLOBS + page * 0x2000, 0x1000)).collect();
    rig.vm.ok(0, crate::support::guest_blob(9, 0x6000, &pieces));
    rig.vm.expect(3, Command::CtxAttachResource { resource_id: 9 }, ResponseId::ERR_OUT_OF_MEMORY);
    for context in [2, 3] {
        rig.destroy(context);
    }
    for resource_id in [1, 2, 3, 9] {
        rig.vm.ok(0, Command::ResourceUnref { resource_id });
    }
    rig.assert_clean();
}

#[test]
fn what_all_contexts_have_is_bounded_too() {
    let mut rig = Rig::with(Mode::Obeys, Bounds { all_pieces: 3, ..Bounds::default() });
    rig.vm.create_blob(1, BLOBS, 0x1000);
    let attach = Command::CtxAttachResource { resource_id: 1 };
    for context in 1..=3 {
        rig.vm.create_context(context);
        rig.vm.ok(context, attach);
    }
    rig.vm.create_context(4);
    rig.vm.expect(4, attach, ResponseId::ERR_OUT_OF_MEMORY);
    rig.destroy(2);
    rig.vm.ok(4, attach);
    for context in [1, 3, 4] {
        rig.destroy(context);
    }
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 1 });
    rig.assert_clean();
}

#[test]
fn a_worker_that_prints_without_end_disturbs_nobody() {
    let mut rig = Rig::start(Mode::Prints);
    rig.vm.create_context(1);
    rig.submit_ok(1, b"print 100000");
    rig.submit_ok(1, b"complete");
    rig.destroy(1);
    rig.assert_clean();
}
