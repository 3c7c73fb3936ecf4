//! The jail of workers, from outside: each test starts a worker that has locked itself in, and tells it what to try.
//!
//! The program is its own worker. It has a main function of its own, because a worker must have one thread when it
//! locks itself in.

mod attempts;
#[path = "../executor/guest.rs"]
#[allow(dead_code, reason = "the tests of the executor use more of it")]
mod guest;
mod prisoner;
#[path = "../executor/program.rs"]
#[allow(dead_code, reason = "the tests of the executor use more of it")]
mod program;
#[path = "../executor/queues.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of the executor use more of it")]
mod queues;
mod rig;

use std::os::unix::process::ExitStatusExt as _;

use attempts::{ATTEMPTS, Attempt};
use libtest_mimic::{Arguments, Failed, Trial};
use rig::{Choice, Rig, policy};
use vhost_device_kfd::worker::jail::Policy;

fn main() -> std::process::ExitCode {
    if prisoner::is_one() {
        return prisoner::main();
    }
    // A guest whose worker ends panics. That is expected here, and told where it is not.
    std::panic::set_hook(Box::new(|_| {}));
    let mut tests = vec![
        Trial::test("a_prisoner_works", a_prisoner_works),
        Trial::test("the_kernel_says_that_a_prisoner_is_locked_in", the_kernel_says_so),
        Trial::test("a_prisoner_has_namespaces_of_its_own", namespaces),
        Trial::test("files_are_denied_twice", files_are_denied_twice),
        Trial::test("a_worker_with_threads_is_not_locked_in", threads_before_the_jail),
    ];
    for attempt in ATTEMPTS {
        let test = move || forbidden(attempt);
        tests.push(Trial::test(format!("forbidden::{}", attempt.name), test));
    }
    let rules = policy();
    let shown = rules
        .rules()
        .iter()
        .map(|rule| rule.name)
        .filter(|name| Policy::elsewhere().all(|other| other != *name));
    for name in shown {
        tests.push(Trial::test(format!("needed::{name}"), move || needed(name)));
    }
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// Fails the test unless it holds.
fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn a_prisoner_works() -> Result<(), Failed> {
    let mut rig = Rig::start(&Choice::All)?;
    rig.work()?;
    let (status, output) = rig.end()?;
    check(status.success(), || format!("{status}: {output}"))
}

/// A rule is needed if the work of a worker dies without it.
fn needed(name: &str) -> Result<(), Failed> {
    let mut rig = Rig::start(&Choice::Without(name.to_owned()))?;
    let worked = rig.work();
    let (status, output) = rig.end()?;
    check(status.signal() == Some(libc::SIGSYS), || {
        format!("without {name} the work ends with {worked:?}, and the worker with {status}: {output}")
    })
}

fn forbidden(attempt: &Attempt) -> Result<(), Failed> {
    let mut rig = Rig::start(&Choice::All)?;
    rig.work()?;
    rig.attempt(attempt.name);
    let (status, output) = rig.end()?;
    let made = output.contains(&format!("{} answers", attempt.name));
    check(status.signal() == Some(libc::SIGSYS) && !made, || format!("{status}: {output}"))
}

fn the_kernel_says_so() -> Result<(), Failed> {
    let mut rig = Rig::start(&Choice::All)?;
    rig.work()?;
    let status = rig.proc("status")?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
    };
    for (name, value) in [
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
    ] {
        check(field(name) == value, || format!("{name} is {}", field(name)))?;
    }
    let limits = rig.proc("limits")?;
    for (name, value) in [("Max core file size", "0"), ("Max open files", "4096")] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let words: Vec<&str> = line[name.len().min(line.len())..].split_whitespace().collect();
        check(words.first() == Some(&value) && words.get(1) == Some(&value), || line.to_owned())?;
    }
    // No dump of its memory, and no other process of this user looks into it: its files belong to root.
    rig.end().map(drop)
}

fn namespaces() -> Result<(), Failed> {
    let mut rig = Rig::start(&Choice::All)?;
    rig.work()?;
    let (_, output) = rig.end()?;
    for (name, inside) in rig::namespaces_in(&output) {
        let outside = std::fs::read_link(format!("/proc/self/ns/{name}"))?;
        let named = output.contains("shares the namespaces")
            || (name == "user" && output.contains("shares the user"));
        check(outside.to_str() != Some(inside) || named, || {
            format!("{name} is the daemon's, and nothing says so: {output}")
        })?;
    }
    check(rig::namespaces_in(&output).count() == 4, || output.clone())
}

/// Landlock denies what the filter of system calls would let through.
fn files_are_denied_twice() -> Result<(), Failed> {
    let mut rig = Rig::start(&Choice::WithOpen)?;
    for path in ["/etc/passwd", "/proc/self/maps", "/dev/null", "/"] {
        let opened = rig.attempt(&format!("open {path}"));
        check(!opened, || format!("{path} could be opened"))?;
    }
    let (status, output) = rig.end()?;
    let denied = output.matches("Permission denied").count();
    let old = output.contains("this kernel has no landlock");
    check(status.success() && (denied == 4 || old), || format!("{status}: {output}"))
}

fn threads_before_the_jail() -> Result<(), Failed> {
    let mut rig = Rig::start(&Choice::Threads)?;
    let (status, output) = rig.end()?;
    check(status.code() == Some(1) && output.contains("has 2 threads before it is locked in"), || {
        format!("{status}: {output}")
    })
}
