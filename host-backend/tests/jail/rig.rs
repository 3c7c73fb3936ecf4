//! A worker in its jail, and the test as its device process.

use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softgpu::seqpacket;
use vhost_device_kfd::gpu::GpuArgs;
use vhost_device_kfd::link::{FromWorker, Place, ToWorker};
use vhost_device_kfd::worker::jail::Policy;

/// Every wait of a test ends by then.
const DEADLINE: Duration = Duration::from_secs(20);

/// Environment of a worker.
pub const CHOICE: &str = "KFD_TEST_JAIL";
pub const DAEMON: &str = "KFD_TEST_DAEMON";

/// The policy of workers with a software GPU.
pub fn policy() -> Policy {
    Policy::of(&GpuArgs::default().choice())
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
    socket: Option<OwnedFd>,
    next: u64,
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Rig {
    pub fn start(choice: &Choice) -> Result<Rig, Failed> {
        let (socket, theirs) = seqpacket::pair()?;
        let child = Command::new(std::env::current_exe()?)
            .env(CHOICE, choice.text())
            .env(DAEMON, std::process::id().to_string())
            .stdin(theirs)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Rig { child, socket: Some(socket), next: 0 })
    }

    fn send(&self, message: &ToWorker<'_>, file: Option<&OwnedFd>) -> Result<(), Failed> {
        let socket = self.socket.as_ref().ok_or("it was closed")?;
        Ok(message.send(socket.as_fd(), file.map(|file| file.as_fd()))?)
    }

    /// The next message; `None` when the worker has ended.
    fn receive(&self) -> Result<Option<FromWorker>, Failed> {
        let socket = self.socket.as_ref().ok_or("it was closed")?;
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        if poll(&mut polled, Some(&Timespec::try_from(DEADLINE)?))? == 0 {
            return Err("no answer of the worker".into());
        }
        match FromWorker::receive(socket) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(None),
            received => Ok(received?),
        }
    }

    /// Submits, and says whether it was done. Also when the worker ends on the way.
    pub fn submit(&mut self, command: &str) -> Result<bool, Failed> {
        self.next += 1;
        let ticket = self.next;
        self.send(&ToWorker::Submit { ticket, ring: None, bytes: command.as_bytes() }, None)?;
        loop {
            match self.receive()? {
                None => return Ok(false),
                Some(FromWorker::Ready) => {}
                Some(FromWorker::Done { ticket: done, ok }) if done == ticket => return Ok(ok),
                Some(other) => return Err(format!("{other:?}").into()),
            }
        }
    }

    /// Makes the worker do everything that workers do.
    pub fn work(&mut self) -> Result<(), Failed> {
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC)?;
        self.send(&ToWorker::File { file: 1 }, Some(&file))?;
        // So many pieces that the message travels in a memfd.
        let pieces = vec![Place { file: 1, offset: 0, len: 0x1000 }; 20_000];
        let size = 0x1000 * pieces.len() as u64;
        self.send(&ToWorker::Attach { attachment: 1, id: 1, size, pieces }, None)?;
        self.send(&ToWorker::Detach { attachment: 1 }, None)?;
        self.send(&ToWorker::Forget { file: 1 }, None)?;
        loop {
            match self.receive()? {
                None => return Err("it ended".into()),
                Some(FromWorker::Ready) => {}
                Some(FromWorker::Released { attachment: 1 }) => break,
                Some(other) => return Err(format!("{other:?}").into()),
            }
        }
        if self.submit("work")? { Ok(()) } else { Err("the work was not done".into()) }
    }

    /// A file of the worker in /proc.
    pub fn proc(&self, name: &str) -> Result<String, Failed> {
        Ok(std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id()))?)
    }

    /// Ends it: how, and what it printed.
    pub fn end(&mut self) -> Result<(ExitStatus, String), Failed> {
        // It may have ended already.
        drop(self.send(&ToWorker::End, None));
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

/// The namespaces that a worker printed.
pub fn namespaces_in(output: &str) -> impl Iterator<Item = (&str, &str)> {
    output.lines().filter_map(|line| line.strip_prefix("namespace ")?.split_once(' '))
}
