//! Contexts that are real worker processes.

mod death;
mod grants;
mod hostile;
mod hotplug;
mod process;
mod support;
mod use_of_blobs;

use support::{Mode, Rig};
use vhost_device_kfd::workers::Bounds;

#[test]
fn a_worker_executes_what_its_context_submits() {
    if process::is_worker() {
        return process::run();
    }
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    rig.submit_ok(1, b"complete");
    rig.submit_fails(1, b"fail");
    // Kept until it is told to; other rings go on.
    let kept = rig.vm.submit(1, 5, 77, b"keep");
    rig.submit_ok(1, b"complete");
    assert!(!rig.vm.control.is_back(kept));
    rig.submit_ok(1, b"let go");
    rig.vm.control.wait(kept);
    assert!(rig.pid(1) != std::process::id());
    rig.destroy(1);
    rig.assert_clean();
}

#[test]
fn a_worker_has_only_what_it_was_given() {
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    // It looks itself: descriptors, environment, working directory.
    rig.submit_ok(1, b"look");
    rig.destroy(1);
}

#[test]
fn the_daemons_own_workers_are_locked_in() {
    let mut rig = Rig::of(support::daemons_own(), Bounds::default());
    rig.vm.create_context(1);
    rig.attach(1, 4, crate::support::BLOBS, 0x4000);
    // No command of the wire: it is refused, and the worker lives.
    rig.submit_fails(1, b"what is this");
    let children = support::children_with("worker");
    let status = std::fs::read_to_string(format!("/proc/{}/status", children[0])).expect("it runs");
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "Threads:\t1"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    rig.vm.ok(1, protocol::virtio_gpu::Command::CtxDetachResource { resource_id: 4 });
    rig.vm.ok(0, protocol::virtio_gpu::Command::ResourceUnref { resource_id: 4 });
    rig.destroy(1);
    assert_eq!(rig.metrics.deaths.load(std::sync::atomic::Ordering::Relaxed), 0);
    rig.assert_clean();
}

#[test]
fn a_hundred_contexts_have_a_process_each() {
    let mut rig = Rig::start(Mode::Obeys);
    let pids: Vec<u32> = (1..=100)
        .map(|context| {
            rig.vm.create_context(context);
            rig.pid(context)
        })
        .collect();
    let mut different = pids.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 100);
    assert_eq!(rig.metrics.processes(), 100);
    for context in 1..=100 {
        rig.destroy(context);
    }
    assert!(pids.iter().all(|pid| !support::is_running(*pid)));
    rig.assert_clean();
}

#[test]
fn contexts_leave_no_descriptor_thread_or_process() {
    const ALONE: &str = "KFD_TEST_IS_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // Other tests run in this process.
        let test = "workers::contexts_leave_no_descriptor_thread_or_process";
        let own = std::env::current_exe().expect("a path");
        let mut alone = std::process::Command::new(own);
        let output =
            alone.args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().expect("it starts");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).expect("a directory").count();
    let mut rig = Rig::start(Mode::Obeys);
    let before = (count("fd"), count("task"));
    for round in 0..30_u32 {
        rig.vm.create_context(1);
        rig.attach(1, 9, crate::support::BLOBS, 0x4000);
        if round % 3 == 0 {
            rig.submit_fails(1, b"die");
        } else {
            rig.submit_ok(1, b"complete");
        }
        rig.vm.ok(0, protocol::virtio_gpu::Command::ResourceUnref { resource_id: 9 });
        rig.destroy(1);
        // The answer comes when the process is gone; what is known of it here goes a moment later.
        crate::support::wait_for("descriptors and threads to go", || (count("fd"), count("task")) == before);
    }
    assert!(support::children_with("workers::a_worker_executes_what_its_context_submits").is_empty());
    rig.assert_clean();
}

#[test]
fn workers_end_with_their_vm() {
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    rig.vm.create_context(2);
    let pids = [rig.pid(1), rig.pid(2)];
    rig.attach(1, 9, crate::support::BLOBS + 0x10000, 0x4000);
    let Rig { vm, metrics, .. } = rig;
    vm.disconnect().expect("in order");
    assert_eq!(metrics.processes(), 0);
    assert!(pids.iter().all(|pid| !support::is_running(*pid)));
}
