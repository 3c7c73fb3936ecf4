//! A worker in its jail, and the test as its device process.

use std::io::Read as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use protocol::wire::Submission;
use protocol::wire::area::AREA_BYTES;
use vhost_device_kfd::gpu::{Gpu, GpuArgs};
use vhost_device_kfd::worker::jail::Policy;
use vhost_device_kfd::worker::kfd::Permissions;

use crate::guest::{AREA, Guest, PAGE, Worker};
use crate::program::Program;
use crate::queues::Sdma;

/// Every wait of a test ends by then.
const DEADLINE: Duration = Duration::from_secs(20);

/// Environment of a worker.
pub const CHOICE: &str = "KFD_TEST_JAIL";
pub const DAEMON: &str = "KFD_TEST_DAEMON";

/// Before what the worker is to try, in a submission.
pub const TRY: &str = "try ";

/// The worker's GPU.
pub fn gpu() -> Gpu {
    GpuArgs::default().choice()
}

/// The policy of its workers.
pub fn policy() -> Policy {
    Policy::of(&gpu(), Permissions::default())
}

/// How the worker locks itself in.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// As workers do.
    All,
    /// Without this rule.
    Without(String),
    /// With files as far as the filter of system calls is concerned.
    WithOpen,
    /// Too late: it has threads.
    Threads,
}

impl From<&str> for Choice {
    fn from(text: &str) -> Choice {
        match text {
            "all" => Choice::All,
            "with open" => Choice::WithOpen,
            "threads" => Choice::Threads,
            name => Choice::Without(name.to_owned()),
        }
    }
}

impl Choice {
    fn text(&self) -> &str {
        match self {
            Choice::All => "all",
            Choice::WithOpen => "with open",
            Choice::Threads => "threads",
            Choice::Without(name) => name,
        }
    }
}

/// Ends with the test.
pub struct Rig {
    child: Child,
    guest: Option<Guest>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Rig {
    pub fn start(choice: &Choice) -> Result<Rig, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env(CHOICE, choice.text())
            .env(DAEMON, std::process::id().to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = None;
        let guest = Guest::of(|socket| {
            child = Some(command.stdin(socket).spawn());
            Worker::Elsewhere
        });
        Ok(Rig { child: child.ok_or("not started")??, guest: Some(guest) })
    }

    /// Makes the worker try something, and says whether it was done. Not when the worker ends on the way.
    pub fn attempt(&mut self, command: &str) -> bool {
        let Some(guest) = &self.guest else { return false };
        unless_it_ends(|| guest.wait_done(guest.send_bytes(format!("{TRY}{command}").as_bytes())))
            .unwrap_or(false)
    }

    /// Makes the worker do everything that workers do.
    pub fn work(&mut self) -> Result<(), Failed> {
        self.pause()?;
        let guest = self.guest.take().ok_or("it has ended")?;
        self.guest = Some(unless_it_ends(|| work(guest))?);
        Ok(())
    }

    /// Stops it in the middle of a sleep, as an operator may.
    fn pause(&mut self) -> Result<(), Failed> {
        let Some(guest) = &self.guest else { return Ok(()) };
        let pid = rustix::process::Pid::from_child(&self.child);
        let sleep = guest.send_bytes(format!("{TRY}sleep").as_bytes());
        std::thread::sleep(Duration::from_millis(150));
        for signal in [rustix::process::Signal::STOP, rustix::process::Signal::CONT] {
            rustix::process::kill_process(pid, signal)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        unless_it_ends(|| guest.wait_done(sleep))?;
        Ok(())
    }

    /// A file of the worker in /proc.
    pub fn proc(&self, name: &str) -> Result<String, Failed> {
        Ok(std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id()))?)
    }

    /// Ends it: how, and what it printed.
    pub fn end(&mut self) -> Result<(ExitStatus, String), Failed> {
        if let Some(mut guest) = self.guest.take() {
            // It may have ended already.
            drop(unless_it_ends(|| guest.end()));
        }
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if start.elapsed() > DEADLINE {
                return Err("it does not end".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut output = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut output)?;
        }
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut output)?;
        }
        Ok((status, output))
    }
}

/// What panics when the worker ends, or says what it should not.
fn unless_it_ends<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|panic| {
        match panic.downcast::<String>() {
            Ok(message) => *message,
            Err(panic) => panic
                .downcast::<&str>()
                .map_or_else(|_| "a panic".to_owned(), |message| (*message).to_owned()),
        }
    })
}

/// A program in the guest that uses everything there is.
fn work(guest: Guest) -> Guest {
    assert!(guest.wait_done(guest.send_bytes(format!("{TRY}work").as_bytes())));
    // It is told in the log.
    assert!(!guest.wait_done(guest.send_bytes(b"no submission")));
    // So many pieces that the message travels in a memfd.
    let long = guest.attach(999, 20_000 * PAGE, 20_000);
    guest.detach(&long);
    guest.wait_released(&long);
    guest.attach(AREA, AREA_BYTES as u64, 1);
    assert_eq!(guest.submit(Submission::Setup { resource: AREA }), Some(true));
    let program = Program::seeing(guest).run();
    let (from, to) = (program.buffer(PAGE), program.buffer(PAGE));
    let mut queue = Sdma::new(&program);
    program.guest.store(&from.blob, 8, 77);
    queue.copy(&program, from.address, to.address, 64);
    queue.ring(&program);
    queue.wait(&program);
    assert_eq!(program.guest.load(&to.blob, 8), 77);
    queue.destroy(&program).expect("destroyed");
    program.guest
}

/// The namespaces that a worker printed.
pub fn namespaces_in(output: &str) -> impl Iterator<Item = (&str, &str)> {
    output.lines().filter_map(|line| line.strip_prefix("namespace ")?.split_once(' '))
}
