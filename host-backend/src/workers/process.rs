//! The process of a worker.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Variables of the environment that workers get too. Not RUST_BACKTRACE: to print one, a program opens files.
const ENVIRONMENT: [&str; 1] = ["RUST_LOG"];

/// What workers run.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Program {
    /// The program of this process, with these arguments. It is found even when its file was replaced meanwhile.
    pub fn own(args: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        Program::at("/proc/self/exe", args)
    }

    /// The program in this file, with these arguments.
    pub fn at(path: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        let env = ENVIRONMENT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        Program { path: path.into(), args: args.into_iter().map(Into::into).collect(), env: env.collect() }
    }

    /// With this variable in the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Program {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts it with `socket` as its standard input, and `output` as its standard output and error.
    ///
    /// It must be started by a thread that lives as long as the worker should: a worker ends with that thread.
    pub(super) fn start(&self, socket: OwnedFd, output: OwnedFd) -> io::Result<Process> {
        let mut command = Command::new(&self.path);
        command.args(&self.args).env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(socket).stdout(output.try_clone()?).stderr(output).current_dir("/");
        // A terminal's Ctrl-C is for the daemon.
        command.process_group(0);
        let mut child = command.spawn()?;
        // It is not reaped yet, so its id is its own.
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(handle) => Ok(Process { child, handle }),
            Err(errno) => {
                drop(child.kill());
                drop(child.wait());
                Err(errno.into())
            }
        }
    }
}

/// A started process. It must be reaped before it is dropped.
pub(super) struct Process {
    child: Child,
    handle: OwnedFd,
}

impl Process {
    /// Readable once it has ended.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Its id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(&self) {
        // It may have ended already.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Kills and reaps it.
    pub(super) fn discard(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }

    /// Reaps it if it has ended: how, unless somebody else (a parent's ignored SIGCHLD) has reaped it.
    pub(super) fn reap(&mut self) -> Option<Option<ExitStatus>> {
        match self.child.try_wait() {
            Ok(status) => status.map(Some),
            Err(error) => {
                log::debug!("worker {}: {error}", self.child.id());
                Some(None)
            }
        }
    }
}

/// A pipe for what a worker prints: the end that is read does not block.
pub(super) fn output() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}
