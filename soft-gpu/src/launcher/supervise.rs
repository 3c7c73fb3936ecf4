//! The supervisor: starts the others, serves, and passes signals and the exit status on.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::Kfd;
use protocol::kfd::topology::Tree;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, set_child_subreaper, waitpid};

use super::channel::{Channel, Kind, Message};
use super::closes::Closes;
use super::faults::{Fault, Faults};
use super::nodes::Nodes;
use super::notify::Listener;
use super::parked::Parked;
use super::reaper;
use super::registry::Registry;
use super::server::{Refusals, Server};
use super::signals;
use super::stage::Spec;
use super::sysview;
use super::trace::TraceFile;
use crate::BackingFiles;

/// What to run.
#[derive(Debug, Default)]
pub struct Options {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: OsString,
    /// Its arguments, without the zeroth.
    pub args: Vec<OsString>,
    /// Variables of its environment that differ from the supervisor's own.
    pub env: Vec<(OsString, OsString)>,
    /// Where every call to the device is written to.
    pub trace: Option<TraceFile>,
    /// What the open of `/dev/kfd` answers, where the device takes no process at all. Elsewhere the first call on the
    /// file makes the process known to it.
    pub kfd_refusal: Option<Errno>,
    /// A call that fails on purpose.
    pub fault: Option<Fault>,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A string with a null byte in it.
    #[error("the program, its arguments and environment must not contain null bytes")]
    NullByte,
    /// A system call of the supervisor failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The namespace or the filter could not be made.
    #[error("{0}")]
    Stage(String),
    /// The program could not be executed.
    #[error("cannot execute {program}: {source}")]
    Exec {
        /// The program as it was named.
        program: String,
        /// The error of `execve`.
        source: io::Error,
    },
    /// A process of the launcher was killed.
    #[error("the launcher's own process was killed while it {0}")]
    Killed(&'static str),
}

fn system(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |source| LaunchError::System { what, source }
}

/// A namespace that stands, with a program that waits to be executed in it.
#[derive(Debug)]
pub struct Prepared {
    program: OsString,
    trace: Option<TraceFile>,
    kfd_refusal: Option<Errno>,
    fault: Option<Fault>,
    reaper: Reaper,
    stage: Channel,
    files: BackingFiles,
    mask: libc::sigset_t,
}

/// The reaper's process, which goes down with this value.
#[derive(Debug)]
struct Reaper {
    pid: Pid,
    /// Its end is what tells the reaper to kill everything.
    control: Option<Channel>,
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.control = None;
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
    }
}

impl Prepared {
    /// Makes the namespace for a device with this topology and the process that will be the program.
    ///
    /// Best called while the process has one thread. The calling thread has the forwarded signals
    /// blocked from here until [`Prepared::run`] returns.
    ///
    /// # Errors
    /// What the kernel or its configuration does not allow, by name.
    pub fn new(tree: &Tree, options: Options) -> Result<Self, LaunchError> {
        let minors: Vec<u32> = sysview::gpus(tree).iter().map(|gpu| gpu.render_minor).collect();
        let mut watched = signals::FORWARDED.to_vec();
        watched.push(libc::SIGCHLD);
        let mask = signals::block(&signals::set_of(&watched)).map_err(system("block signals"))?;
        let spec = spec(tree, &options, minors.clone(), mask)?;
        let (reaper, stage) = spawn_reaper(&spec).inspect_err(|_| signals::restore(&mask))?;

        let staged = expect(&stage, Kind::Staged, "prepared the namespace")?;
        let mut fds = staged.fds.into_iter();
        let kfd = fds.next().ok_or_else(|| LaunchError::Stage("the device files are missing".to_owned()))?;
        let files = BackingFiles { kfd, render: minors.into_iter().zip(fds).collect() };
        let Options { program, trace, kfd_refusal, fault, .. } = options;
        Ok(Self { program, trace, kfd_refusal, fault, reaper, stage, files, mask })
    }

    /// Duplicates of the files behind the device nodes, for whoever makes the [`Kfd`].
    ///
    /// # Errors
    /// `EMFILE` and its like.
    pub fn backing_files(&self) -> io::Result<BackingFiles> {
        let copy = |fd: &OwnedFd| fd.as_fd().try_clone_to_owned();
        let render = self.files.render.iter().map(|(minor, fd)| Ok((*minor, copy(fd)?)));
        Ok(BackingFiles { kfd: copy(&self.files.kfd)?, render: render.collect::<io::Result<_>>()? })
    }

    /// Executes the program and serves it, and every process that comes from it, until the last one has
    /// ended. Returns how the program itself ended.
    ///
    /// # Errors
    /// [`LaunchError::Exec`] if there is no such program, and what went wrong inside the launcher.
    pub fn run(mut self, kfd: Arc<dyn Kfd>) -> Result<ExitStatus, LaunchError> {
        let result = self.serve(kfd);
        // Everything has to be gone before the caller goes on.
        let mask = self.mask;
        drop(self);
        signals::restore(&mask);
        result
    }

    fn serve(&mut self, kfd: Arc<dyn Kfd>) -> Result<ExitStatus, LaunchError> {
        let control = self.reaper.control.as_ref().ok_or(LaunchError::Killed("waited"))?;
        let started = expect(control, Kind::Started, "started the program")?;
        let main = started.fds.into_iter().next().ok_or(LaunchError::Killed("started the program"))?;

        self.stage.send(Kind::Go, "", &[]).map_err(|_| LaunchError::Killed("started the program"))?;
        let listener = expect(&self.stage, Kind::Listener, "installed the filter")?
            .fds
            .into_iter()
            .next()
            .ok_or(LaunchError::Killed("installed the filter"))?;
        let nodes = Nodes::new(&self.files).map_err(system("duplicate the device files"))?;
        let parked = Arc::new(Parked::default());
        let registry = Arc::new(Registry::new(kfd, nodes, Arc::<Parked>::clone(&parked)));
        let closes = Closes::new(Arc::clone(&registry), self.reaper.pid);
        let listener = Listener::new(listener);
        let refusals = Refusals { kfd: self.kfd_refusal, faults: Faults::new(self.fault) };
        let server = Server::new(listener, registry, parked, self.trace.take(), refusals);
        let server = server.map_err(system("make an event descriptor"))?;
        start_threads(closes.map_err(system("watch the device files"))?, &server)?;
        let result = self.supervise(&main);
        server.stop();
        result
    }

    /// Passes signals on until every process of the program has ended.
    fn supervise(&self, main: &OwnedFd) -> Result<ExitStatus, LaunchError> {
        let control = self.reaper.control.as_ref().ok_or(LaunchError::Killed("waited"))?;
        let forwarded = signals::set_of(&signals::FORWARDED);
        let arrivals = signals::watch(&forwarded).map_err(system("watch signals"))?;
        let (mut status, mut exec_failure, mut stage_open) = (None, None, true);
        loop {
            let mut fds = vec![PollFd::new(control, PollFlags::IN), PollFd::new(&arrivals, PollFlags::IN)];
            if stage_open {
                fds.push(PollFd::new(&self.stage, PollFlags::IN));
            }
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready.get(2) == Some(&true) {
                // Either why it could not be executed, or the end of the connection because it was.
                exec_failure = self.stage.receive().ok().flatten();
                stage_open = false;
            }
            if ready.get(1) == Some(&true) {
                let any = forward(arrivals.as_fd(), main);
                if any && status.is_some() {
                    // Only processes that the program left behind are there: the signal ends them.
                    break;
                }
            }
            if ready.first() == Some(&true) {
                match control.receive() {
                    Ok(Some(message)) if message.kind == Kind::Ended => status = message.text.parse().ok(),
                    Ok(Some(_)) | Err(_) => {}
                    Ok(None) => break,
                }
            }
        }
        if stage_open {
            exec_failure = self.stage.receive().ok().flatten();
        }
        if let Some(failure) = exec_failure {
            return Err(self.failure(&failure));
        }
        status.map(ExitStatus::from_raw).ok_or_else(|| {
            reaper::kill_descendants();
            LaunchError::Killed("waited for the program")
        })
    }

    fn failure(&self, message: &Message) -> LaunchError {
        match (message.kind, message.text.parse()) {
            (Kind::ExecFailed, Ok(errno)) => LaunchError::Exec {
                program: self.program.to_string_lossy().into_owned(),
                source: io::Error::from_raw_os_error(errno),
            },
            _ => LaunchError::Stage(message.text.clone()),
        }
    }
}

/// Signals that a process sent go to the program; those of the terminal it got itself. Returns whether
/// there were any.
fn forward(arrivals: BorrowedFd<'_>, main: &OwnedFd) -> bool {
    let mut any = false;
    while let Some(arrived) = signals::next(arrivals) {
        any = true;
        if let Some(signal) = Signal::from_named_raw(arrived.signal).filter(|_| arrived.sent) {
            let _ = pidfd_send_signal(main, signal);
        }
    }
    any
}

fn start_threads(closes: Closes, server: &Arc<Server>) -> Result<(), LaunchError> {
    let waits = server.waits();
    let receiver = Arc::clone(server);
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(body).map(drop).map_err(system("start a thread"))
    };
    spawn("ends", Box::new(move || closes.watch()))?;
    spawn("waits", Box::new(move || waits.watch()))?;
    spawn("receiver", Box::new(move || receiver.serve()))
}

/// Receives the message that has to come next.
fn expect(channel: &Channel, kind: Kind, doing: &'static str) -> Result<Message, LaunchError> {
    match channel.receive().map_err(system("hear from the launcher's own process"))? {
        Some(message) if message.kind == kind => Ok(message),
        Some(message) => Err(LaunchError::Stage(message.text)),
        None => Err(LaunchError::Killed(doing)),
    }
}

fn spawn_reaper(spec: &Spec) -> Result<(Reaper, Channel), LaunchError> {
    let (control, reaper_end) = Channel::pair().map_err(system("make a socket pair"))?;
    let (stage, program_end) = Channel::pair().map_err(system("make a socket pair"))?;
    // If the reaper is killed its children become ours.
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| system("become a subreaper")(error.into()))?;
    // SAFETY: the child only runs code that is fit for it, see `stage`: it allocates, but takes no
    // lock that another thread may have held.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop((control, stage));
        reaper::run(spec, &reaper_end, program_end);
    }
    let error = io::Error::last_os_error();
    // `from_raw` takes no negative number.
    let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten().ok_or_else(|| system("fork")(error))?;
    Ok((Reaper { pid, control: Some(control) }, stage))
}

fn spec(tree: &Tree, options: &Options, minors: Vec<u32>, mask: libc::sigset_t) -> Result<Spec, LaunchError> {
    let text = |text: &OsString| CString::new(text.clone().into_vec()).map_err(|_| LaunchError::NullByte);
    let modules = std::fs::read("/proc/modules").ok();
    let program = text(&options.program)?;
    let mut argv = vec![program.clone()];
    for arg in &options.args {
        argv.push(text(arg)?);
    }
    let mut env: std::collections::BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    env.extend(options.env.iter().cloned());
    if modules.is_none() {
        let path = env.entry("PATH".into()).or_insert_with(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut with_ours = OsString::from(sysview::BIN_DIR);
        with_ours.push(":");
        with_ours.push(&path);
        *path = with_ours;
    }
    let envp = env
        .into_iter()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            text(&name)
        })
        .collect::<Result<_, _>>()?;
    let view = sysview::view(tree, modules.as_deref());
    let opens = options.kfd_refusal.is_some() || options.fault.is_some() || options.trace.is_some();
    Ok(Spec { program, argv, envp, view, minors, mask, opens })
}
