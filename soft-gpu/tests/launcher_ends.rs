//! The launcher's ends: killed programs, killed supervisors, debuggers that come and go. Nothing stays.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use support::{finish, launch, program, supervise_if_asked, wait_for};

const LIMIT: Duration = Duration::from_secs(30);

/// No test of its own: the supervisor process of the other tests.
#[test]
fn supervisor_process() {
    supervise_if_asked();
}

/// A run of `waits MODE` that has said that it waits.
struct Waiting {
    supervisor: Child,
    program: Pid,
    stdout: BufReader<ChildStdout>,
}

impl Waiting {
    fn start(mode: &str) -> Self {
        let program = program("waits");
        let mut command = launch(&[program.to_str().unwrap(), mode]);
        let mut supervisor = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(supervisor.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("waiting ") {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the program ended before it waited");
        }
        let pid = line.trim_start_matches("waiting ").trim().parse().unwrap();
        // It says so before the call; give it time to get there.
        std::thread::sleep(Duration::from_millis(200));
        Self { supervisor, program: Pid::from_raw(pid).unwrap(), stdout }
    }

    fn output(mut self) -> (String, std::process::ExitStatus) {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        let status = wait_for(&mut self.supervisor, LIMIT).expect("the supervisor ends after its output");
        (text, status)
    }
}

fn supervisor_pid(run: &Waiting) -> Pid {
    Pid::from_child(&run.supervisor)
}

/// Every descendant of a process.
fn family(root: Pid) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut todo = vec![root.as_raw_pid()];
    while let Some(pid) = todo.pop() {
        let lists = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for list in lists.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()) {
            let children = list.split_whitespace().map(|child| child.parse::<i32>().unwrap());
            todo.extend(children.filter(|child| found.insert(*child)));
        }
    }
    found
}

/// Waits until none of the processes exists; a zombie whose parent is this process counts as gone.
fn assert_gone(processes: &BTreeSet<i32>) {
    let deadline = Instant::now() + LIMIT;
    let alive = |pid: &&i32| {
        let pid = Pid::from_raw(**pid).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
        test_kill_process(pid).is_ok() && !stat.contains(") Z ")
    };
    loop {
        let left: Vec<_> = processes.iter().filter(alive).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "processes {left:?} are still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn mounts_and_shared_memory() -> (String, BTreeSet<std::ffi::OsString>) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let files = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.file_name());
    (mounts, files.collect())
}

#[test]
fn killing_the_program_during_a_wait_ends_the_run_with_its_signal() {
    let before = mounts_and_shared_memory();
    let run = Waiting::start("forever");
    let family = family(supervisor_pid(&run));
    assert!(family.contains(&run.program.as_raw_pid()), "{family:?}");
    let killed = Instant::now();
    kill_process(run.program, Signal::KILL).unwrap();
    let (_, status) = run.output();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    assert_gone(&family);
    assert_eq!(mounts_and_shared_memory(), before);
}

#[test]
fn killing_the_supervisor_leaves_no_process_mount_or_file() {
    let before = mounts_and_shared_memory();
    let mut run = Waiting::start("forever");
    let family = family(supervisor_pid(&run));
    assert!(family.len() >= 2, "{family:?}");
    run.supervisor.kill().unwrap();
    run.supervisor.wait().unwrap();
    assert_gone(&family);
    assert_eq!(mounts_and_shared_memory(), before);
}

#[test]
fn killing_the_supervisor_takes_processes_that_the_program_left_behind_with_it() {
    let script =
        "(setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' &) ; echo waiting $$; sleep 600";
    let mut command = launch(&["sh", "-c", script]);
    let mut supervisor = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(supervisor.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("waiting ") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0);
    }
    std::thread::sleep(Duration::from_millis(200));
    let family = family(Pid::from_child(&supervisor));
    assert!(family.len() >= 4, "{family:?}");
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    assert_gone(&family);
}

#[test]
fn killing_the_reaper_ends_everything_too() {
    let run = Waiting::start("forever");
    let all = family(supervisor_pid(&run));
    let parent = std::fs::read_to_string(format!("/proc/{}/stat", run.program.as_raw_pid())).unwrap();
    let reaper = parent.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(reaper).unwrap(), Signal::KILL).unwrap();
    let (_, status) = run.output();
    assert_eq!(status.code(), Some(125), "{status:?}");
    assert_gone(&all);
}

#[test]
fn signals_to_the_supervisor_reach_the_program() {
    let run = Waiting::start("forever");
    kill_process(supervisor_pid(&run), Signal::TERM).unwrap();
    assert_eq!(run.output().1.signal(), Some(libc::SIGTERM));
}

#[test]
fn a_stopped_program_continues_its_wait() {
    let run = Waiting::start("long");
    kill_process(run.program, Signal::STOP).unwrap();
    let deadline = Instant::now() + Duration::from_secs(2);
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", run.program.as_raw_pid())).unwrap();
    while !stat().contains(") T ") {
        assert!(Instant::now() < deadline, "it does not stop: {}", stat());
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(run.program, Signal::CONT).unwrap();
    assert_long_ended_well(run);
}

fn assert_long_ended_well(run: Waiting) {
    let (text, status) = run.output();
    assert_eq!(text, "first 0 at least 3 s: 1\nsecond 0\n");
    assert!(status.success(), "{status:?}");
}

/// Attaches a debugger to the waiting program and checks that it got in and out while the wait lasted.
fn attach(debugger: &str, evidence: &str) {
    let run = Waiting::start("long");
    let pid = run.program.as_raw_pid().to_string();
    let mut attached = Command::new(debugger);
    match evidence {
        "" => attached.args(["2", "strace", "-f", "-p", &pid]),
        _ => attached.args(["-q", "-nx", "-batch", "-p", &pid, "-ex", "info registers rip", "-ex", "detach"]),
    };
    let started = Instant::now();
    let outcome = finish(attached, LIMIT);
    assert!(started.elapsed() < Duration::from_secs(10), "{outcome:?}");
    let text = outcome.stdout + &outcome.stderr;
    assert!(text.contains(if evidence.is_empty() { "attached" } else { evidence }), "{text}");
    assert_long_ended_well(run);
}

#[test]
fn strace_attaches_during_a_wait() {
    // `timeout` interrupts strace, which then detaches.
    attach("timeout", "");
}

#[test]
fn gdb_attaches_during_a_wait() {
    attach("gdb", "rip ");
}
