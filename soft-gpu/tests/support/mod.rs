//! What the launcher tests share: a device that needs no GPU, programs to run on it, and a supervisor
//! process to run them under.
//!
//! The supervisor is the test executable itself, started again with a variable set: see
//! [`supervise_if_asked`].

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Call, Caller, FileId, Kfd, Mapping, Node, Process, ProcessId, Transfer};
use protocol::kfd::{request_nr, request_reads, request_size, request_writes};
use softgpu::BackingFiles;
use softgpu::launcher::{LaunchError, Options, Prepared, die_of};

/// Variable that holds the command of a supervisor process.
pub const SUPERVISE: &str = "KFDVIRT_TEST_SUPERVISE";

/// A device with one GPU node that answers GET_VERSION, counts GET_CLOCK_COUNTERS calls, and whose
/// WAIT_EVENTS waits for its time-out or an interrupt.
struct TestKfd(Arc<Device>);

struct Device {
    files: BackingFiles,
    opened: Mutex<HashMap<FileId, (Node, ProcessId)>>,
    next_file: AtomicU64,
    calls: AtomicU64,
}

struct TestProcess {
    device: Arc<Device>,
    id: ProcessId,
}

pub fn topology() -> Tree {
    let mut tree = Tree::default();
    let mut add = |path: &str, text: &str| tree.files.insert(path.to_owned(), text.into());
    add("generation_id", "1\n");
    add("system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
    add("nodes/0/gpu_id", "0\n");
    add("nodes/0/properties", "cpu_cores_count 2\n");
    add("nodes/1/gpu_id", "1234\n");
    add(
        "nodes/1/properties",
        "simd_count 416\nvendor_id 4098\ndevice_id 29711\nlocation_id 49408\ndomain 0\ndrm_render_minor 128\n",
    );
    tree
}

impl Kfd for TestKfd {
    fn topology(&self) -> Result<Tree, Errno> {
        Ok(topology())
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        Ok(Arc::new(TestProcess { device: Arc::clone(&self.0), id: caller.id }))
    }
}

impl TestProcess {
    /// KFD files belong to the process that opened them, render files to whoever has them.
    fn check(&self, file: FileId) -> Result<Node, Errno> {
        match self.device.opened.lock().unwrap().get(&file) {
            Some((Node::Kfd, owner)) if *owner != self.id => Err(Errno::EBADF),
            Some((node, _)) => Ok(*node),
            None => Err(Errno::EBADF),
        }
    }
}

impl Process for TestProcess {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        let id = FileId(self.device.next_file.fetch_add(1, Ordering::SeqCst));
        self.device.opened.lock().unwrap().insert(id, (node, self.id));
        Ok(id)
    }

    fn close(&self, file: FileId) {
        self.device.opened.lock().unwrap().remove(&file);
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.check(file)?;
        let (from_user, to_user) = (request_writes(request), request_reads(request));
        Ok(Transfer { size: request_size(request), from_user, to_user })
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        self.check(file)?;
        match request_nr(request) {
            0x01 => {
                args.get_mut(..8).ok_or(Errno::EINVAL)?.copy_from_slice(&[1, 0, 0, 0, 17, 0, 0, 0]);
                Ok(0)
            }
            // GET_CLOCK_COUNTERS: gpu_clock_counter is the number of calls so far, of all processes;
            // cpu_clock_counter the number of files that this one has open.
            0x05 => {
                let count = self.device.calls.fetch_add(1, Ordering::SeqCst) + 1;
                args.get_mut(..8).ok_or(Errno::EINVAL)?.copy_from_slice(&count.to_le_bytes());
                let files = self.device.opened.lock().unwrap();
                let open = files.values().filter(|(_, owner)| *owner == self.id).count() as u64;
                args.get_mut(8..16).ok_or(Errno::EINVAL)?.copy_from_slice(&open.to_le_bytes());
                Ok(0)
            }
            0x0c => wait(args, call),
            // AMDKFD_IOC_SMI_EVENTS stands for calls that return a descriptor.
            0x1f => {
                let (read, _) = rustix::pipe::pipe().map_err(|_| Errno::EMFILE)?;
                let fd = call.install(read)?;
                args.get_mut(4..8).ok_or(Errno::EINVAL)?.copy_from_slice(&fd.to_le_bytes());
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        if self.check(file)? != Node::Render(128) || offset >= 1 << 20 {
            return Err(Errno::EINVAL);
        }
        let fd = self.device.files.render[0].1.try_clone().map_err(|_| Errno::EMFILE)?;
        Ok(Mapping { fd: Arc::new(fd), offset, len, writable: true })
    }
}

/// Sleeps in small steps until the time-out, which it keeps in the arguments as the kernel does.
fn wait(args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
    let timeout: [u8; 4] = args.get(16..20).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
    let deadline = Instant::now() + Duration::from_millis(u32::from_le_bytes(timeout).into());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if call.interrupt().fired() {
            let left = u32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u32::MAX);
            args.get_mut(16..20).ok_or(Errno::EINVAL)?.copy_from_slice(&left.to_le_bytes());
            return Err(Errno::ERESTARTSYS);
        }
        if left.is_zero() {
            args.get_mut(20..24).ok_or(Errno::EINVAL)?.copy_from_slice(&1u32.to_le_bytes());
            return Ok(0);
        }
        std::thread::sleep(left.min(Duration::from_millis(1)));
    }
}

/// In a process that [`launch`] started: runs the program under the launcher and ends as it ended.
pub fn supervise_if_asked() {
    let Some(command) = std::env::var_os(SUPERVISE) else { return };
    let mut words = command.to_str().unwrap().split('\u{1f}').map(OsString::from);
    let program = words.next().unwrap();
    let env = vec![(OsString::from(SUPERVISE), OsString::new())];
    let options =
        Options { program, args: words.collect(), env, trace: None, kfd_refusal: None, fault: None };
    match supervise(options) {
        Ok(status) => end_like(status),
        Err(error) => {
            eprintln!("supervisor: {error}");
            std::process::exit(125);
        }
    }
}

fn supervise(options: Options) -> Result<ExitStatus, LaunchError> {
    let prepared = Prepared::new(&topology(), options)?;
    let files = prepared.backing_files().unwrap();
    let device =
        Device { files, opened: Mutex::default(), next_file: AtomicU64::new(1), calls: AtomicU64::new(0) };
    prepared.run(Arc::new(TestKfd(Arc::new(device))))
}

fn end_like(status: ExitStatus) -> ! {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(signal) => die_of(signal),
        None => std::process::exit(status.code().unwrap_or(125)),
    }
}

/// A command that runs `words` under a supervisor process.
pub fn launch(words: &[&str]) -> Command {
    launch_by(&std::env::current_exe().unwrap(), words)
}

fn launch_by(supervisor: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(supervisor);
    command
        .args(["supervisor_process", "--exact", "--nocapture", "--quiet"])
        .env(SUPERVISE, words.join("\u{1f}"))
        .stdin(Stdio::null());
    command
}

/// Runs `words` as [`launch`] and [`finish`] do, as uid 65534 without capabilities. `None` where the tests
/// themselves do not run as root.
pub fn finish_as_nobody(words: &[&str], limit: Duration) -> Option<Outcome> {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // The target directory need not be open to others.
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = dir.path().join(name);
        std::fs::copy(from, &to).unwrap();
        to
    };
    let supervisor = copy(&std::env::current_exe().unwrap(), "supervisor");
    let program = copy(Path::new(words[0]), "program");
    let words: Vec<&str> =
        std::iter::once(program.to_str().unwrap()).chain(words[1..].iter().copied()).collect();
    let mut command = launch_by(&supervisor, &words);
    command.uid(65534).gid(65534).current_dir("/");
    Some(finish(command, limit))
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command; after `limit` it is killed and the test fails with what it printed.
pub fn finish(mut command: Command, limit: Duration) -> Outcome {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish_child(child, &command, limit)
}

/// Runs a command that reads `input`.
pub fn finish_with_input(mut command: Command, input: &[u8], limit: Duration) -> Outcome {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    finish_child(child, &command, limit)
}

fn finish_child(mut child: Child, command: &Command, limit: Duration) -> Outcome {
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait_for(&mut child, limit);
    let outcome = |status| Outcome { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
    match status {
        Some(status) => outcome(status),
        None => {
            child.kill().unwrap();
            let status = child.wait().unwrap();
            panic!("{command:?} took longer than {limit:?}: {:?}", outcome(status));
        }
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.unwrap().read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a child up to a deadline.
pub fn wait_for(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Compiles `tests/programs/NAME.c` as a static program, once per test process.
pub fn program(name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut built = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    let binary = dir.join(name);
    if built.contains(name) {
        return binary;
    }
    std::fs::create_dir_all(&dir).unwrap();
    // Under a name of its own, then renamed: other test processes may be running the program. No descriptor of it is
    // kept, with which it could not be executed.
    let unfinished = tempfile::Builder::new().prefix(name).tempfile_in(&dir).unwrap().into_temp_path();
    let status = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-static", "-pthread", "-o"])
        .args([&*unfinished, &source])
        .status()
        .expect("the tests need a C compiler");
    assert!(status.success(), "cannot compile {}", source.display());
    std::fs::set_permissions(&unfinished, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    unfinished.persist(&binary).unwrap();
    built.insert(name.to_owned());
    binary
}
