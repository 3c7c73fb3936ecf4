//! The host's daemon, `vhost-device-kfd`, as a process.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{Error, Result, command, programs};

/// For a program that only has to start, on a busy machine.
const START: Duration = Duration::from_secs(30);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// A running daemon for one guest. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    dir: TempDir,
    log: File,
}

impl Daemon {
    /// Starts it with further arguments and waits until its socket is there.
    ///
    /// # Errors
    /// If it has not been built, cannot be started, or ends at once: the error holds what it says.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir().map_err(Error::system("make a directory"))?;
        let log = tempfile::tempfile().map_err(Error::system("make a temporary file"))?;
        let mut command = Command::new(programs::built("vhost-device-kfd")?);
        command.arg("--socket-path").arg(dir.path().join(SOCKET)).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.try_clone().map_err(Error::system("duplicate a descriptor"))?);
        let shown = command::line(&command);
        let child = command.spawn().map_err(|source| Error::Start { command: shown.clone(), source })?;
        let mut daemon = Self { child, dir, log };
        let start = Instant::now();
        while !daemon.socket().exists() {
            let ended = daemon.child.try_wait().map_err(Error::system("wait for the daemon"))?;
            if ended.is_some() || start.elapsed() > START {
                let status = ended.unwrap_or_default();
                return Err(Error::Command { command: shown, status, output: daemon.log()? });
            }
            thread::sleep(PAUSE);
        }
        Ok(daemon)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join(SOCKET)
    }

    /// What it has said so far.
    ///
    /// # Errors
    /// If its log cannot be read.
    pub fn log(&mut self) -> Result<String> {
        let mut text = String::new();
        self.log.rewind().map_err(Error::system("read the daemon's log"))?;
        self.log.read_to_string(&mut text).map_err(Error::system("read the daemon's log"))?;
        Ok(text)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process ids of its workers, one for each context of the guest.
    ///
    /// # Errors
    /// If the system does not tell, or the daemon has ended.
    pub fn workers(&self) -> Result<Vec<u32>> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.pid()));
        let threads = fs::read_dir(&tasks).map_err(Error::file("list", &tasks))?;
        let mut workers = Vec::new();
        for thread in threads.filter_map(std::result::Result::ok) {
            // A thread may end between the two looks.
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            workers.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        Ok(workers)
    }

    /// Waits until as many workers are there.
    ///
    /// # Errors
    /// If there are others when the time is over; the error holds what the daemon says.
    pub fn wait_for_workers(&mut self, count: usize, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let workers = self.workers()?;
            if workers.len() == count {
                return Ok(());
            }
            if start.elapsed() > timeout {
                let what = format!("after {timeout:?} there are the workers {workers:?} and not {count}");
                return Err(Error::Guest { what, console: self.log()? });
            }
            thread::sleep(PAUSE);
        }
    }

    /// Waits for its end, which comes with that of its VM.
    ///
    /// # Errors
    /// If it does not end in time; the error holds what it says.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(Error::system("wait for the daemon"))? {
                return Ok(status);
            }
            if start.elapsed() > START {
                let what = format!("the daemon is still there {START:?} after its guest");
                return Err(Error::Guest { what, console: self.log()? });
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its socket in its directory.
const SOCKET: &str = "socket";
