//! Ends that nobody asked for.

use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use protocol::virtio_gpu::{Command, ResponseId};
use rustix::process::{Pid, Signal, kill_process};
use vhost_device_kfd::workers::Bounds;

use super::support::{self, Mode, Rig, is_running, wait_until_gone};
use crate::support::{BLOBS, response_id};

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not 0");
    kill_process(pid, Signal::KILL).expect("it runs");
}

#[test]
fn a_killed_worker_costs_its_context_and_no_other() {
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    rig.vm.create_context(2);
    let (first, second) = (rig.pid(1), rig.pid(2));
    rig.attach(1, 4, BLOBS, 0x1000);
    let kept = [rig.vm.submit(1, 5, 77, b"keep"), rig.vm.submit(1, 6, 78, b"keep")];
    rig.submit_ok(1, b"complete");
    let start = Instant::now();
    kill(first);
    for head in kept {
        assert_eq!(response_id(&rig.vm.control.wait(head)), ResponseId::ERR_UNSPEC);
    }
    // The guest knows in time, and later submissions fail too.
    assert!(start.elapsed() < Duration::from_secs(1));
    rig.submit_fails(1, b"complete");
    rig.vm.expect(1, Command::CtxAttachResource { resource_id: 0xffff }, ResponseId::ERR_UNSPEC);
    rig.submit_ok(2, b"complete");
    assert_eq!(rig.pid(2), second);
    // Its blob is free.
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
    rig.destroy(1);
    rig.destroy(2);
    assert_eq!(rig.metrics.deaths.load(std::sync::atomic::Ordering::Relaxed), 1);
    rig.assert_clean();
}

#[test]
fn workers_that_die_at_any_moment_give_everything_back() {
    for command in [&b"die"[..], b"exit", b"no such command"] {
        let mut rig = Rig::start(Mode::Obeys);
        rig.vm.create_context(1);
        rig.attach(1, 4, BLOBS, 0x1000);
        rig.submit_fails(1, command);
        rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
        rig.destroy(1);
        rig.assert_clean();
    }
}

#[test]
fn a_worker_that_does_not_end_is_killed_and_answers_wait_for_that() {
    let mut rig = Rig::start(Mode::HangsAtTheEnd);
    rig.vm.create_context(1);
    let pid = rig.pid(1);
    rig.attach(1, 4, BLOBS, 0x1000);
    let kept = rig.vm.submit(1, 5, 77, b"keep");
    let start = Instant::now();
    rig.destroy(1);
    assert!(start.elapsed() >= Duration::from_millis(500), "it had time");
    assert!(!is_running(pid));
    assert_eq!(response_id(&rig.vm.control.wait(kept)), ResponseId::ERR_UNSPEC);
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
    rig.assert_clean();
}

#[test]
fn a_stopped_worker_is_ended_too() {
    let mut rig = Rig::start(Mode::Obeys);
    rig.vm.create_context(1);
    let pid = rig.pid(1);
    let stopped = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not 0");
    kill_process(stopped, Signal::STOP).expect("it runs");
    rig.attach(1, 4, BLOBS, 0x1000);
    rig.destroy(1);
    assert!(!is_running(pid));
    rig.vm.ok(0, Command::ResourceUnref { resource_id: 4 });
    rig.assert_clean();
}

#[test]
fn workers_end_with_a_daemon_that_is_killed() {
    const DAEMON: &str = "KFD_TEST_IS_DAEMON";
    if std::env::var_os(DAEMON).is_some() {
        let mut rig = Rig::start(Mode::Obeys);
        rig.vm.create_context(1);
        rig.vm.create_context(2);
        // And one in its jail, which has changed its privileges.
        let mut real = Rig::of(support::daemons_own(), Bounds::default());
        real.vm.create_context(1);
        real.submit_fails(1, b"what is this");
        println!("\npids {} {} {}", rig.pid(1), rig.pid(2), support::children_with("worker")[0]);
        std::thread::sleep(Duration::from_secs(60));
        panic!("nobody killed it");
    }
    let own = std::env::current_exe().expect("a path");
    let test = "workers::death::workers_end_with_a_daemon_that_is_killed";
    let mut daemon = Process::new(own)
        .args([test, "--exact", "--nocapture"])
        .env(DAEMON, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(daemon.stdout.take().expect("piped")));
    let pids = lines.find_map(|line| Some(line.ok()?.strip_prefix("pids ")?.to_owned())).expect("the ids");
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().expect("a number")).collect();
    assert!(pids.len() == 3 && pids.iter().all(|pid| is_running(*pid)));
    daemon.kill().expect("it runs");
    daemon.wait().expect("a child");
    for pid in pids {
        wait_until_gone(pid);
    }
}

#[test]
fn a_program_that_is_no_worker_is_the_death_of_its_context() {
    let program = vhost_device_kfd::workers::Program::own(["--no-such-option"]);
    let mut rig = Rig::of(program, Bounds::default());
    rig.vm.create_context(1);
    rig.submit_fails(1, b"complete");
    rig.destroy(1);
    rig.assert_clean();
}
