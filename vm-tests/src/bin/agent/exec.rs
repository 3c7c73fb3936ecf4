//! Runs one program to its end or its timeout.

use std::{
    ffi::CString,
    io::{self, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, wait},
};
use vm_tests::wire::{End, Exec, MAX_OUTPUT, Reply};

/// How long output is waited for after the program's end: something that it left behind may hold the pipe.
const LATE_OUTPUT: Duration = Duration::from_secs(2);

/// How long a program may take to end that was asked to, and one that was killed with all of its memory.
const ASKED: Duration = Duration::from_secs(5);
const KILLED: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// What programs find in their environment unless the host says otherwise.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("LC_ALL", "C"),
];

/// Runs the program and answers with its end and its output.
pub fn run(program: &Exec, input: Vec<u8>) -> io::Result<(Reply, Vec<u8>)> {
    let deadline = Instant::now() + Duration::from_millis(program.timeout_ms);
    let mut child = spawn(program)?;
    let (done, streams) = mpsc::channel();
    let stdout = child.stdout.take().map(|stream| collect(stream, done.clone())).unwrap_or_default();
    let stderr = child.stderr.take().map(|stream| collect(stream, done)).unwrap_or_default();
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input is no failure, and must not block us.
        thread::spawn(move || stdin.write_all(&input));
    }
    let end = match wait_until(&mut child, deadline)? {
        Some(status) => end_of(status),
        None => End::TimedOut,
    };
    let late = Instant::now() + LATE_OUTPUT;
    for _ in 0..2 {
        // An error means that both threads are done.
        let _ = streams.recv_timeout(late.saturating_duration_since(Instant::now()));
    }
    reap();
    let (mut body, cut_out) = stdout.take();
    let (errors, cut_err) = stderr.take();
    let stdout_len = body.len();
    body.extend(errors);
    Ok((Reply::Ended { end, stdout_len, truncated: cut_out || cut_err }, body))
}

fn spawn(program: &Exec) -> io::Result<Child> {
    let (name, arguments) = program.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(name);
    command.args(arguments).env_clear().envs(ENVIRONMENT).envs(program.env.iter().cloned());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let root = CString::new(program.root.as_deref().unwrap_or("/"))?;
    let dir = CString::new(program.dir.as_deref().unwrap_or("/"))?;
    let uid = program.uid;
    let enter = move || {
        rustix::process::chroot(&root)?;
        rustix::process::chdir(&dir)?;
        uid.map_or(Ok(()), become_user)
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run; `enter` makes five system calls and
    // allocates nothing (its strings were made above).
    unsafe { command.pre_exec(enter) };
    command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}

/// Gives up root for good: groups first, since only root may change them.
fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: a length of 0 makes the kernel read no list, so the null pointer is not followed.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: setresgid takes numbers only. The child has one thread, so no other keeps the old ids.
    check(unsafe { libc::setresgid(id, id, id) })?;
    // SAFETY: as for setresgid.
    check(unsafe { libc::setresuid(id, id, id) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for the child; at the deadline its whole process group is killed, and the answer is `None`.
fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    let ready =
        rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)))?;
    if ready == 0 {
        // The group may be gone just now: then there is nothing to kill.
        let _ = kill_process_group(pid, Signal::KILL);
        child.wait()?;
        return Ok(None);
    }
    child.wait().map(Some)
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Status(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    }
}

/// Ends all programs of the guest: each is asked to first, and killed if it does not do so.
pub fn end_all() -> io::Result<()> {
    for (signal, patience) in [(Signal::TERM, ASKED), (Signal::KILL, KILLED)] {
        tell_all(signal)?;
        if all_ended(patience)? {
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("Programs are left {KILLED:?} after they were killed"),
    ))
}

/// Sends a signal to every process but the first, which is this one; none may be there.
fn tell_all(signal: Signal) -> io::Result<()> {
    // SAFETY: kill takes numbers only. -1 are all processes but the caller, as it is the first.
    match check(unsafe { libc::kill(-1, signal.as_raw()) }) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        told => told,
    }
}

/// Buries children, which orphans become, until none is left or the time is over.
fn all_ended(patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => thread::sleep(PAUSE),
            Err(rustix::io::Errno::CHILD) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Orphans of programs become children of the first process; nobody else can bury them.
fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// The start of a stream, and whether there was more.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<(Vec<u8>, bool)>>);

impl Collected {
    fn take(&self) -> (Vec<u8>, bool) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, bytes: &[u8]) {
        let (kept, cut) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_OUTPUT.saturating_sub(kept.len()).min(bytes.len());
        kept.extend(bytes.iter().take(room));
        *cut |= room < bytes.len();
    }
}

/// Reads a stream to its end in a thread of its own, then says so.
fn collect(mut stream: impl Read + Send + 'static, done: mpsc::Sender<()>) -> Collected {
    let collected = Collected::default();
    let shared = collected.clone();
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            shared.add(buffer.get(..length).unwrap_or_default());
        }
        // Nobody waits any more if the program was slow to close its pipe.
        let _ = done.send(());
    });
    collected
}
