//! The supervisor of one run of `prog.c`: receives its calls and answers them, as the launcher does.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::{Interrupt, Shared, SharedBacking, UserMem};
use softgpu::launcher::tracee::files::SharedFiles;
use softgpu::launcher::tracee::{ParkedCalls, TraceeMem};

/// A run that takes longer is a failure.
const RUN_TIME: Duration = Duration::from_secs(60);
const RESTART: i32 = -512;

/// Builds the program into a directory that goes with the second value.
pub fn compile() -> (PathBuf, Option<tempfile::TempDir>) {
    if let Some(path) = std::env::var_os("CONVERT_PROGRAM") {
        return (path.into(), None);
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("prog");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/convert/prog.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o"]).arg(&program);
    let output = cc.output().expect("a C compiler named cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (program, Some(dir))
}

/// A blocking call of the program.
pub struct Waiting {
    interrupt: Arc<Interrupt>,
    woken: Arc<Mutex<bool>>,
    /// What the program passed.
    pub addr: u64,
    /// What the program passed.
    pub len: u64,
}

impl Waiting {
    /// Lets the call succeed.
    pub fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.interrupt.fire();
    }
}

#[derive(Default)]
struct Calls {
    parked: Mutex<HashMap<u32, Arc<Interrupt>>>,
}

impl ParkedCalls for Calls {
    fn is_parked(&self, tid: u32) -> bool {
        self.parked.lock().unwrap().contains_key(&tid)
    }

    fn release(&self, tid: u32) {
        if let Some(interrupt) = self.parked.lock().unwrap().get(&tid) {
            interrupt.fire();
        }
    }
}

struct Piece {
    addr: u64,
    len: u64,
    at: *mut u8,
}

// SAFETY: the mapping stays for the life of the process and is only used atomically or by volatile copies.
unsafe impl Send for Piece {}

struct Shop {
    listener: OwnedFd,
    mem: TraceeMem,
    calls: Arc<Calls>,
    pieces: Mutex<Vec<Piece>>,
    waits: Mutex<Vec<Waiting>>,
    new_wait: Sender<Waiting>,
    /// Result of the last sharing outside of a call.
    out: Mutex<Option<Result<(), Errno>>>,
    restarts: AtomicUsize,
    stubborn: AtomicBool,
}

/// One run at a time: the runs are full of busy threads, and what is tested has deadlines.
static ONE: Mutex<()> = Mutex::new(());

/// One run of the program.
pub struct Run {
    child: Child,
    shop: Arc<Shop>,
    new_waits: Receiver<Waiting>,
    threads: Vec<JoinHandle<()>>,
    _dir: Option<tempfile::TempDir>,
    _one: MutexGuard<'static, ()>,
}

impl Run {
    /// Starts `prog.c` in `mode` and answers its calls.
    pub fn start(mode: &str) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (program, dir) = compile();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(program);
        command.arg(mode).stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        let listener = receive_descriptor(&ours);
        let pid = child.id();
        let calls = Arc::new(Calls::default());
        let parked: Arc<dyn ParkedCalls> = calls.clone();
        let (new_wait, new_waits) = channel();
        let shop = Arc::new(Shop {
            listener,
            mem: TraceeMem::new(pid, pidfd(pid), parked, Arc::new(SharedFiles::new([]))),
            calls,
            pieces: Mutex::default(),
            waits: Mutex::default(),
            new_wait,
            out: Mutex::default(),
            restarts: AtomicUsize::default(),
            stubborn: AtomicBool::default(),
        });
        let serving = Arc::clone(&shop);
        let threads = vec![std::thread::spawn(move || serving.serve())];
        Self { child, shop, new_waits, threads, _dir: dir, _one: one }
    }

    /// Waits for the program's end, which has to be a success.
    pub fn finish(&mut self) {
        if !self.has_ended(RUN_TIME) {
            let stacks = self.describe();
            self.kill();
            panic!("the program did not end\n{stacks}{}", self.output());
        }
        let status = self.child.wait().unwrap();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        let output = self.output();
        print!("{output}");
        assert!(status.success(), "{status}\n{output}");
    }

    /// Waits by pidfd: a `waitpid` of this process would take the stops that the conversion waits for.
    fn has_ended(&self, limit: Duration) -> bool {
        let pidfd = pidfd(self.child.id());
        let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one pollfd that outlives the call.
        unsafe { libc::poll(&raw mut poll, 1, i32::try_from(limit.as_millis()).unwrap()) > 0 }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().flatten() {
            for file in ["stat", "wchan", "syscall"] {
                text += &std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
                text += "\n";
            }
        }
        text
    }

    fn output(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text).unwrap();
        }
        if let Some(mut err) = self.child.stderr.take() {
            err.read_to_string(&mut text).unwrap();
        }
        text
    }

    /// How many calls were answered with a restart.
    pub fn restarts(&self) -> usize {
        self.shop.restarts.load(Ordering::Relaxed)
    }

    /// There were restarts.
    pub fn assert_restarted(&self) {
        assert!(self.restarts() > 0);
    }

    /// The next blocking call of the program.
    pub fn await_wait(&self) -> Waiting {
        self.new_waits.recv_timeout(RUN_TIME).expect("the program waits")
    }

    /// Shares memory outside of any call.
    pub fn share(&self, addr: u64, len: u64) -> Result<Vec<Shared>, Errno> {
        self.shop.mem.share(addr, len, true)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: i32) {
        send(self.child.id(), signal);
    }

    /// Waits until a thread other than the first, which waits in a call, is in `state`.
    pub fn await_state(&self, state: char) {
        let begin = Instant::now();
        let pid = self.child.id();
        loop {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
            let mut others = tasks.filter(|task| task.file_name().to_str() != Some(&pid.to_string()));
            let stat = others.next().map(|task| std::fs::read_to_string(task.path().join("stat")).unwrap());
            let seen = stat.and_then(|stat| stat.rsplit(") ").next()?.chars().next());
            if seen == Some(state) {
                return;
            }
            assert!(begin.elapsed() < RUN_TIME, "state {seen:?}, not {state}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the process after a time.
    pub fn kill_after(&self, delay: Duration) -> JoinHandle<()> {
        let pid = self.child.id();
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            send(pid, libc::SIGKILL);
        })
    }

    /// Kills the process and waits for everything to end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        assert!(self.has_ended(RUN_TIME));
        self.child.wait().unwrap();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }

    /// Has the blocking call of the first thread restarted.
    pub fn release(&self) {
        self.shop.calls.release(self.child.id());
    }

    /// Traces the program's first thread as a debugger does.
    pub fn attach(&self) {
        // SAFETY: the request takes no memory.
        let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, self.child.id(), 0, 0) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    /// Stops tracing it.
    pub fn detach(&self) {
        let pid = self.child.id().cast_signed();
        // SAFETY: the request takes no memory.
        unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0) };
        // The thread waits for an answer: the wait has to end before it can stop.
        self.release();
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) }, pid);
        // SAFETY: the request takes no memory.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0) }, 0);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(pid: u32, signal: i32) {
    // SAFETY: sending a signal touches no memory of ours.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

fn pidfd(pid: u32) -> OwnedFd {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
}

fn receive_descriptor(socket: &UnixStream) -> OwnedFd {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut iov = [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let message = control.drain().next().expect("the program sends its listener");
    let RecvAncillaryMessage::ScmRights(mut fds) = message else { panic!("not a descriptor") };
    fds.next().unwrap()
}

#[derive(Clone, Copy)]
struct Notification {
    id: u64,
    tid: u32,
    request: u64,
    addr: u64,
}

impl Shop {
    fn serve(self: Arc<Self>) {
        let mut threads = Vec::new();
        while let Some(notification) = self.receive() {
            let Some(call) = notification else { continue };
            let interrupt = Arc::new(Interrupt::new());
            self.calls.parked.lock().unwrap().insert(call.tid, Arc::clone(&interrupt));
            let shop = Arc::clone(&self);
            threads.push(std::thread::spawn(move || {
                let result = shop.execute(call, &interrupt);
                shop.calls.parked.lock().unwrap().remove(&call.tid);
                let (val, error) = match result {
                    Ok(value) => (value, 0),
                    Err(errno) => (0, -errno.raw()),
                };
                if error == RESTART {
                    shop.restarts.fetch_add(1, Ordering::Relaxed);
                }
                shop.answer(call.id, val, error, 0);
            }));
        }
        self.waits.lock().unwrap().drain(..).for_each(|wait| wait.wake());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// The next call; an inner `None` for one that was let through, an outer one at the end.
    fn receive(&self) -> Option<Option<Notification>> {
        let mut poll = libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one pollfd that outlives the call.
        unsafe { libc::poll(&raw mut poll, 1, -1) };
        if poll.revents & libc::POLLHUP != 0 {
            return None;
        }
        // SAFETY: all-zero bytes are a valid `seccomp_notif`.
        let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` is a zeroed `seccomp_notif` that outlives the call.
        let result = unsafe {
            libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &raw mut raw)
        };
        if result != 0 {
            return Some(None);
        }
        if i64::from(raw.data.nr) == libc::SYS_mmap {
            self.answer(raw.id, 0, 0, 1);
            return Some(None);
        }
        let [_, request, addr, ..] = raw.data.args;
        Some(Some(Notification { id: raw.id, tid: raw.pid, request, addr }))
    }

    fn answer(&self, id: u64, val: i64, error: i32, flags: u32) {
        let mut response = libc::seccomp_notif_resp { id, val, error, flags };
        // SAFETY: `response` outlives the call. The program may be dead: nobody needs the answer then.
        unsafe {
            libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &raw mut response)
        };
    }

    fn execute(self: &Arc<Self>, call: Notification, interrupt: &Arc<Interrupt>) -> Result<i64, Errno> {
        let mem = self.mem.of_call(call.tid);
        let mut bytes = [0; 24];
        mem.read(call.addr, &mut bytes)?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (addr, len, value) = (word(0), word(8), word(16));
        match call.request & 0xff {
            1 => self.share(&mem.share(addr, len, value != 0)?, value != 0),
            2 => {
                let counter = self.counter(addr);
                for _ in 0..value {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                Ok(0)
            }
            3 => {
                bytes[16..].copy_from_slice(&self.sum(addr, len).to_le_bytes());
                mem.write(call.addr, &bytes)?;
                Ok(0)
            }
            4 => self.wait(interrupt, addr, len, value),
            5 => {
                let waits: Vec<Waiting> = self.waits.lock().unwrap().drain(..).collect();
                let open = waits.iter().filter(|wait| !wait.interrupt.fired());
                let count = open.inspect(|wait| wait.wake()).count();
                i64::try_from(count).map_err(|_| Errno::EIO)
            }
            6 => {
                self.share_out(addr, len, value);
                Ok(0)
            }
            7 => {
                let result = *self.out.lock().unwrap();
                result.unwrap_or(Err(Errno::EAGAIN)).map(|()| 0)
            }
            8 => {
                let mut buffer = vec![0; len as usize];
                mem.read(addr, &mut buffer)?;
                if value != 0 {
                    mem.write(addr, &buffer)?;
                }
                Ok(0)
            }
            9 => {
                if self.stubborn.swap(true, Ordering::Relaxed) {
                    return Ok(0);
                }
                std::thread::sleep(Duration::from_millis(value));
                assert!(interrupt.fired());
                Err(Errno::ERESTARTSYS)
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn share(&self, shared: &[Shared], writable: bool) -> Result<i64, Errno> {
        let mut pieces = self.pieces.lock().unwrap();
        for piece in shared {
            let SharedBacking::Descriptor { fd, offset } = &piece.backing else { return Err(Errno::EIO) };
            let prot = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
            let (len, offset) = (piece.len as usize, offset.cast_signed());
            // SAFETY: a new mapping at an address of the kernel's choice; it is never unmapped.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, fd.as_raw_fd(), offset)
            };
            assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            pieces.push(Piece { addr: piece.addr, len: piece.len, at: at.cast() });
        }
        i64::try_from(shared.len()).map_err(|_| Errno::EIO)
    }

    /// Where the newest mapping has the byte at `addr`.
    fn locate(&self, addr: u64) -> *mut u8 {
        let pieces = self.pieces.lock().unwrap();
        let piece = pieces.iter().rev().find(|piece| (piece.addr..piece.addr + piece.len).contains(&addr));
        let piece = piece.expect("memory that was shared");
        piece.at.wrapping_add((addr - piece.addr) as usize)
    }

    fn counter(&self, addr: u64) -> &AtomicU64 {
        let at: *mut u64 = self.locate(addr).cast();
        // SAFETY: `at` lies in a mapping that stays, and is aligned because `addr` is.
        unsafe { AtomicU64::from_ptr(at) }
    }

    fn sum(&self, addr: u64, len: u64) -> u64 {
        // SAFETY: `locate` returns an address inside a mapping that stays.
        let byte = |at| u64::from(unsafe { self.locate(at).read_volatile() });
        let page = |start: u64| {
            let base = self.locate(start);
            // SAFETY: pieces are whole pages, so the page of `base` is mapped.
            (0..4096).map(|at| u64::from(unsafe { base.wrapping_add(at).read_volatile() })).sum::<u64>()
        };
        if addr.is_multiple_of(4096) && len.is_multiple_of(4096) {
            (addr..addr + len).step_by(4096).map(page).sum()
        } else {
            (addr..addr + len).map(byte).sum()
        }
    }

    /// Blocks until woken, by the program or after `millis` if those are not 0.
    fn wait(&self, interrupt: &Arc<Interrupt>, addr: u64, len: u64, millis: u64) -> Result<i64, Errno> {
        let woken = Arc::new(Mutex::new(false));
        let waiting = || Waiting { interrupt: Arc::clone(interrupt), woken: Arc::clone(&woken), addr, len };
        if millis == 0 {
            self.waits.lock().unwrap().push(waiting());
        }
        let _ = self.new_wait.send(waiting());
        let begin = Instant::now();
        while !interrupt.fired() {
            if millis != 0 && begin.elapsed() >= Duration::from_millis(millis) {
                return Ok(0);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if *woken.lock().unwrap() { Ok(0) } else { Err(Errno::ERESTARTSYS) }
    }

    fn share_out(self: &Arc<Self>, addr: u64, len: u64, millis: u64) {
        *self.out.lock().unwrap() = None;
        let shop = Arc::clone(self);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(millis));
            let result = shop.mem.share(addr, len, true).and_then(|pieces| shop.share(&pieces, true));
            *shop.out.lock().unwrap() = Some(result.map(drop));
        });
    }
}
