//! The program: its command line, and how it ends.

use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use vhost::VhostBackend as _;
use vhost::vhost_user::Frontend;

const DEADLINE: Duration = Duration::from_secs(10);

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vhost-device-kfd"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("RUST_LOG");
    command
}

/// Runs it to its end: status, output, messages.
fn run(command: &mut Command) -> (ExitStatus, String, String) {
    let output = command.output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status, text(output.stdout), text(output.stderr))
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Running {
    /// Waits until it ends: status and messages.
    fn end(&mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                let mut messages = String::new();
                let stderr = self.0.stderr.as_mut().expect("piped");
                stderr.read_to_string(&mut messages).expect("text");
                return (status, messages);
            }
            assert!(start.elapsed() < DEADLINE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn start(command: &mut Command, socket: &Path) -> Running {
    let mut running = Running(command.spawn().expect("it starts"));
    let start = Instant::now();
    while !socket.exists() {
        assert!(running.0.try_wait().expect("a child").is_none(), "it ended: {:?}", running.end());
        assert!(start.elapsed() < DEADLINE, "no socket");
        std::thread::sleep(Duration::from_millis(5));
    }
    running
}

/// Connects. A socket has its name before it listens.
fn connect(socket: &Path) -> Frontend {
    let start = Instant::now();
    loop {
        match Frontend::connect(socket, 2) {
            Ok(frontend) => return frontend,
            Err(error) => assert!(start.elapsed() < DEADLINE, "cannot connect: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn capabilities_are_printed_whatever_else_is_asked() {
    let (status, out, err) = run(program().args(["--fd=3", "--print-capabilities", "--nonsense"]));
    assert!(status.success());
    assert_eq!(out, "{\"type\": \"gpu\", \"features\": []}\n");
    assert_eq!(err, "");
}

#[test]
fn a_wrong_command_line_is_refused_at_once() {
    for args in [
        &[][..],
        &["--fd=3", "--socket-path=x"],
        &["--nonsense"],
        &["--socket-path=x", "--log-level=loud"],
        &["--socket-path=x", "--gpu=mi210"],
        &["--socket-path=x", "--gpu=soft:mi999"],
        &["--socket-path=x", "--gpu=soft:mi210", "--kfd"],
        &["--socket-path=x", "--window=3G"],
        &["--socket-path=x", "--max-contexts=0"],
        &["--socket-path=x", "--max-memory=lots"],
        &["--socket-path=x", "--max-vram=0"],
        &["--socket-path=x", "--share-gpus=first"],
        &["--socket-path=x", "--vm-id=mine"],
        &["worker", "--daemon=1", "--gpu=soft:mi999"],
    ] {
        let (status, out, err) = run(program().args(args));
        assert_eq!((status.code(), out.as_str()), (Some(2), ""), "{args:?}");
        assert!(err.contains("error:"), "{err}");
    }
}

#[test]
fn what_cannot_be_listened_on_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("precious");
    std::fs::write(&file, "data").expect("written");
    let (status, _, err) = run(program().arg("--socket-path").arg(&file));
    assert_eq!(status.code(), Some(1));
    assert!(err.contains("precious is there and is no socket"), "{err}");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "data");

    let (status, _, err) = run(program().arg("--socket-path").arg(dir.path().join("no/such/socket")));
    assert_eq!(status.code(), Some(1));
    assert!(err.contains("cannot listen on") && err.contains("No such file"), "{err}");
    for (fd, why) in [("1", "standard streams"), ("77", "Bad file descriptor"), ("-5", "standard streams")] {
        let (status, _, err) = run(program().arg(format!("--fd={fd}")));
        assert_eq!(status.code(), Some(1), "{fd}");
        assert!(err.contains(why), "{err}");
    }
}

#[test]
fn what_the_gpu_does_not_have_is_refused_by_name() {
    for (option, why) in [
        ("--allow-profiling", "software GPUs have no profiler"),
        ("--share-gpus=0,4", "--share-gpus names GPU 4, but there are 1"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let (status, _, err) = run(program().arg(option).arg("--socket-path").arg(&socket));
        assert_eq!(status.code(), Some(1));
        assert!(err.contains(why), "{err}");
        assert!(!socket.exists());
    }
}

#[test]
fn it_ends_with_its_vmm() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let mut running = start(program().arg("--socket-path").arg(&socket), &socket);
    let frontend = connect(&socket);
    assert_ne!(frontend.get_features().expect("GET_FEATURES"), 0);
    drop(frontend);
    let (status, messages) = running.end();
    assert!(status.success(), "{messages}");
    assert!(messages.contains("contexts get the software GPU mi210"), "{messages}");
    assert!(!socket.exists());
}

#[test]
fn it_ends_at_once_when_it_is_told_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    for connected in [false, true] {
        let mut running = start(program().arg("--socket-path").arg(&socket), &socket);
        let frontend = connected.then(|| {
            let frontend = connect(&socket);
            frontend.set_owner().expect("SET_OWNER");
            frontend
        });
        let pid = rustix::process::Pid::from_child(&running.0);
        let start = Instant::now();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        running.end();
        assert!(start.elapsed() < Duration::from_secs(1));
        drop(frontend);
        // The next one takes the name over.
    }
}

#[test]
fn what_it_needs_and_cannot_have_is_said_before_a_vm_waits_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    for (args, why) in [
        (["--kfd=/nonexistent"], "cannot use /nonexistent: No such file"),
        (["--kfd=/etc/passwd"], "cannot use /etc/passwd: it is no device file"),
        (["--metrics-path=/nonexistent/file"], "cannot write /nonexistent/file: No such file"),
    ] {
        let (status, _, err) = run(program().arg("--socket-path").arg(&socket).args(args));
        assert_eq!(status.code(), Some(1), "{args:?}");
        assert!(err.contains(why), "{err}");
        assert!(!socket.exists());
    }
    // A worker is nothing for people, and ends at once: this process is not its daemon's.
    for daemon in ["--daemon=1", "--daemon=0"] {
        let (status, _, err) = run(program().args(["worker", daemon]));
        assert_eq!(status.code(), Some(1));
        assert!(err.contains("ERROR"), "{err}");
    }
    let own = format!("--daemon={}", std::process::id());
    let (status, _, err) = run(program().args(["worker", &own]));
    assert_eq!(status.code(), Some(1));
    assert!(err.contains("workers are started by the daemon only"), "{err}");
}

#[test]
fn a_window_is_for_software_gpus() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let args = ["--window=1G", "--kfd=/dev/null"];
    let (status, _, err) = run(program().args(args).arg("--socket-path").arg(&socket));
    assert_eq!(status.code(), Some(1));
    assert!(err.contains("--window is for the software GPU"), "{err}");
    assert!(!socket.exists());
    let mut running = start(program().arg("--window=1G").arg("--socket-path").arg(&socket), &socket);
    let frontend = connect(&socket);
    drop(frontend);
    assert!(running.end().0.success());
}

#[test]
fn its_metrics_are_a_file_until_a_signal_ends_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (socket, metrics) = (dir.path().join("socket"), dir.path().join("metrics.json"));
    let mut command = program();
    command.arg("--socket-path").arg(&socket).arg("--metrics-path").arg(&metrics);
    let mut running = start(&mut command, &socket);
    let frontend = connect(&socket);
    assert_ne!(frontend.get_features().expect("GET_FEATURES"), 0);
    let pid = rustix::process::Pid::from_child(&running.0);
    // As an orchestrator may: the file is gone, and comes back with the end at the latest.
    std::fs::remove_file(&metrics).expect("written at the start");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let (status, _) = running.end();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    let text = std::fs::read_to_string(&metrics).expect("written at the end");
    assert!(text.contains(&format!("\"pid\": {}", pid.as_raw_pid())), "{text}");
    assert!(!socket.exists());
}

/// Speaks to a program on a descriptor, until it ends with the connection.
fn speak(mut running: Running, frontend: Frontend) {
    assert_ne!(frontend.get_features().expect("GET_FEATURES"), 0);
    drop(frontend);
    let (status, messages) = running.end();
    assert!(status.success(), "{messages}");
}

#[test]
fn a_socket_can_be_passed_listening_or_connected() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let listener = OwnedFd::from(UnixListener::bind(&socket).expect("a socket"));
    let running = Running(with_fd(&listener).spawn().expect("it starts"));
    speak(running, connect(&socket));

    let (here, there) = UnixStream::pair().expect("a pair");
    let there = OwnedFd::from(there);
    let running = Running(with_fd(&there).spawn().expect("it starts"));
    drop(there);
    speak(running, Frontend::from_stream(here, 2));

    let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("a file"));
    let (status, _, err) = run(&mut with_fd(&file));
    assert_eq!(status.code(), Some(1));
    assert!(err.contains("is no Unix socket: Socket operation on non-socket"), "{err}");
}

/// The program with a descriptor of this process.
fn with_fd(fd: &OwnedFd) -> Command {
    let mut command = program();
    command.arg(format!("--fd={}", fd.as_raw_fd()));
    // Children of other tests may get it too, and close it when they end.
    fcntl_setfd(fd, FdFlags::empty()).expect("an open descriptor");
    command
}
