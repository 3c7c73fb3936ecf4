//! A thousand programs one after the other under one `softgpu run`: the supervisor is afterwards as big as before.
//!
//! `rounds.rs` does the same in one process; here the launcher is part of it, and all is measured from outside.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use support::{program, wait_for};

const ROUNDS: u32 = 1000;
/// Until then caches, pools and the allocator have what they keep.
const WARM_UP: u32 = 100;
/// The launcher learns of closed files some milliseconds later, and threads without work end after five seconds.
const SETTLE: Duration = Duration::from_secs(20);

/// What the supervisor holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    mappings: usize,
    threads: usize,
    /// Resident memory, that of the device's files included.
    kib: u64,
}

impl Held {
    fn by(pid: u32) -> Self {
        let entries = |dir: &str| fs::read_dir(format!("/proc/{pid}/{dir}")).expect("running").count();
        let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).expect("running");
        let status = text("status");
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next());
        Self {
            descriptors: entries("fd"),
            mappings: text("maps").lines().count(),
            threads: entries("task"),
            kib: rss.and_then(|kib| kib.parse().ok()).expect("VmRSS"),
        }
    }

    /// Whether this is no more than `before`. The C library keeps stacks of threads that ended, two mappings each; one
    /// kept in every tenth round would be a hundred, and a page kept in each round 4 MB.
    fn is_back_at(self, before: Self) -> bool {
        self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.mappings <= before.mappings + 32
            && self.kib <= before.kib + 2048
    }
}

fn await_word(stdout: &mut BufReader<ChildStdout>, word: &str) {
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert_eq!(line.trim(), word);
}

fn go_on(supervisor: &mut Child) {
    supervisor.stdin.as_mut().expect("piped").write_all(b"go\n").expect("the program reads");
}

/// Waits until nothing changes any more.
fn settled(pid: u32) -> Held {
    let (start, mut held) = (Instant::now(), Held::by(pid));
    while start.elapsed() < SETTLE {
        std::thread::sleep(Duration::from_secs(1));
        let now = Held::by(pid);
        if (now.descriptors, now.mappings, now.threads) == (held.descriptors, held.mappings, held.threads) {
            return now;
        }
        held = now;
    }
    held
}

#[test]
fn a_thousand_programs_leave_nothing_in_the_supervisor() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softgpu"));
    command.arg("run").arg(program("rounds")).args([WARM_UP, ROUNDS].map(|count| count.to_string()));
    // Otherwise each new thread may get an arena, which is kept.
    command.env("MALLOC_ARENA_MAX", "1");
    let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("softgpu");
    let mut stdout = BufReader::new(supervisor.stdout.take().expect("piped"));
    await_word(&mut stdout, "warm");
    let before = settled(supervisor.id());
    go_on(&mut supervisor);
    await_word(&mut stdout, "done");
    let start = Instant::now();
    let mut after = Held::by(supervisor.id());
    while !after.is_back_at(before) && start.elapsed() < SETTLE {
        std::thread::sleep(Duration::from_millis(100));
        after = Held::by(supervisor.id());
    }
    assert!(after.is_back_at(before), "{before:?} became {after:?}");
    go_on(&mut supervisor);
    let status = wait_for(&mut supervisor, SETTLE).expect("it ends");
    assert!(status.success(), "{status:?}");
}
