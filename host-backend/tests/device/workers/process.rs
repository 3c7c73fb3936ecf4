//! The worker of these tests: a process of the test's own program, which runs the one test that calls [`run`].

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::SendFlags;
use vhost_device_kfd::link::{FromWorker, Stock};
use vhost_device_kfd::worker::{Done, Executor, GuestBlob, Released, run as serve, start};
use vhost_device_kfd::workers::Program;

use super::support::Mode;

const MODE: &str = "KFD_TEST_WORKER";
const DAEMON: &str = "KFD_TEST_DAEMON";

/// What starts such a worker.
pub fn program(mode: Mode) -> Program {
    let test = "workers::a_worker_executes_what_its_context_submits";
    Program::own([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(MODE, format!("{mode:?}"))
        .env(DAEMON, std::process::id().to_string())
}

/// Whether this process is one.
pub fn is_worker() -> bool {
    std::env::var_os(MODE).is_some()
}

/// Is one.
pub fn run() {
    let daemon = std::env::var(DAEMON).expect("set").parse().expect("a number");
    let daemon = rustix::process::Pid::from_raw(daemon).expect("a process");
    // SAFETY: the test harness has no descriptors of its own but the standard streams.
    let socket = unsafe { start(daemon) }.expect("started as a worker");
    let mode = std::env::var(MODE).expect("set");
    let Some(mode) = Mode::ALL.into_iter().find(|known| format!("{known:?}") == mode) else {
        panic!("unknown mode {mode}")
    };
    misbehave(mode, &socket);
    let executor = Arc::new(Obedient { mode, ..Obedient::default() });
    let socket = Arc::new(socket);
    executor.state.lock().expect("no panic").socket = Some(Arc::clone(&socket));
    serve(socket, executor).expect("the daemon goes on");
    std::process::exit(0);
}

/// What is wrong from the beginning.
fn misbehave(mode: Mode, socket: &OwnedFd) {
    let send = |bytes: &[u8]| rustix::net::send(socket, bytes, SendFlags::NOSIGNAL).map(drop);
    match mode {
        Mode::NeverReady => sleep_for_ever(),
        Mode::SaysFailed => {
            FromWorker::failed(&"no GPU\nhere").send(socket).expect("sent");
            sleep_for_ever();
        }
        Mode::ExitsAtOnce => std::process::exit(9),
        Mode::SendsGarbage => {
            let _ = send(&[0xff; 100]);
            sleep_for_ever();
        }
        Mode::SendsTooMuch => {
            let _ = send(&[0; 5000]);
            sleep_for_ever();
        }
        Mode::SendsNothing => {
            let _ = send(&[]);
            sleep_for_ever();
        }
        Mode::ReadyForEver => while FromWorker::Ready.send(socket).is_ok() {},
        Mode::AnswersWhatIsNotAsked => {
            let _ = FromWorker::Done { ticket: 12345, ok: true }.send(socket);
            sleep_for_ever();
        }
        Mode::ReleasesWhatItHas => {
            // The first number that is given is 1.
            let _ = FromWorker::Ready.send(socket);
            std::thread::sleep(Duration::from_millis(200));
            let _ = FromWorker::Released { attachment: 1 }.send(socket);
            sleep_for_ever();
        }
        Mode::AsksForEver => {
            let _ = FromWorker::Ready.send(socket);
            while (FromWorker::Ask { stock: Stock::Host, bytes: 0 }).send(socket).is_ok() {}
            sleep_for_ever();
        }
        Mode::GivesBackWhatItHasNot => {
            let _ = FromWorker::Ready.send(socket);
            let _ = FromWorker::GiveBack { stock: Stock::Vram(1), bytes: 1 }.send(socket);
            sleep_for_ever();
        }
        Mode::TakesNothing => {
            FromWorker::Ready.send(socket).expect("sent");
            sleep_for_ever();
        }
        Mode::Obeys | Mode::HangsAtTheEnd | Mode::Prints => {}
    }
}

fn sleep_for_ever() {
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

#[derive(Default)]
struct Obedient {
    mode: Mode,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    socket: Option<Arc<OwnedFd>>,
    /// Who waits for the device process's answer, and what it should be: that memory is granted, or so much is left.
    asked: Option<(Done, Option<u64>)>,
    blobs: Vec<GuestBlob>,
    kept: Vec<Done>,
    /// Released when it is told to.
    clings: bool,
    clung: Vec<Released>,
}

impl Executor for Obedient {
    fn attach(&self, blob: GuestBlob) {
        self.state.lock().expect("no panic").blobs.push(blob);
    }

    fn detach(&self, id: u32, released: Released) {
        let mut state = self.state.lock().expect("no panic");
        state.blobs.retain(|blob| blob.id != id);
        if state.clings { state.clung.push(released) } else { released.complete() }
    }

    fn submit(&self, _ring: Option<u8>, bytes: &[u8], done: Done) {
        let mut state = self.state.lock().expect("no panic");
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let mut words = text.split(' ');
        let command = words.next().expect("a word");
        let mut number = || words.next().expect("a number").parse::<u64>().expect("a number");
        match command {
            "complete" => {}
            "fail" => return done.fail(),
            "keep" => return state.kept.push(done),
            "let" => state.kept.drain(..).for_each(Done::complete),
            "look" => look(state.socket.as_ref().expect("set").as_raw_fd()),
            "take" | "left" | "host" => {
                let (gpu, bytes) = (u32::try_from(number()).expect("an id"), number());
                let (ask, left) = if command == "left" { (0, Some(bytes)) } else { (bytes, None) };
                let stock = if command == "host" { Stock::Host } else { Stock::Vram(gpu) };
                state.asked = Some((done, left));
                return state.say(&FromWorker::Ask { stock, bytes: ask });
            }
            "give" => {
                let stock = Stock::Vram(u32::try_from(number()).expect("an id"));
                state.say(&FromWorker::GiveBack { stock, bytes: number() });
            }
            "pid" => state.write(number(), number(), &std::process::id().to_le_bytes()),
            "write" => {
                let (id, offset, value) = (number(), number(), number());
                state.write(id, offset, &value.to_le_bytes());
            }
            // As `write`, where the blob may have been taken away.
            "try" => {
                let (id, offset, value) = (number(), number(), number());
                if !state.blobs.iter().any(|blob| u64::from(blob.id) == id) {
                    return done.fail();
                }
                state.write(id, offset, &value.to_le_bytes());
            }
            "fds" if number() != open_guest_memory() => return done.fail(),
            "fds" => {}
            "cling" => state.clings = true,
            "release" => {
                state.clings = false;
                state.clung.drain(..).for_each(Released::complete);
            }
            "die" => kill_itself(),
            "exit" => std::process::exit(3),
            "print" => {
                for line in 0..number() {
                    println!("line {line} \x1b[31m");
                }
            }
            other => panic!("unknown command {other}"),
        }
        done.complete();
    }

    fn granted(&self, granted: bool, left: u64) {
        let asked = self.state.lock().expect("no panic").asked.take();
        let (done, expected) = asked.expect("nothing is answered that was not asked");
        if expected.map_or(granted, |expected| left == expected) { done.complete() } else { done.fail() }
    }

    fn end(&self) {
        if self.mode == Mode::HangsAtTheEnd {
            sleep_for_ever();
        }
    }
}

fn kill_itself() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    unreachable!()
}

impl State {
    fn say(&self, message: &FromWorker) {
        message.send(self.socket.as_ref().expect("set")).expect("sent");
    }

    /// Writes into a blob, as far as the bytes are in one piece.
    fn write(&self, id: u64, mut offset: u64, bytes: &[u8]) {
        let blob = self.blobs.iter().find(|blob| u64::from(blob.id) == id).expect("attached");
        for (file, start, len) in &blob.pieces {
            if offset < *len {
                let file = File::from(file.try_clone().expect("a descriptor"));
                return file.write_all_at(bytes, start + offset).expect("written");
            }
            offset -= len;
        }
        panic!("beyond the blob");
    }
}

/// Descriptors of the guest's memory that are open here.
fn open_guest_memory() -> u64 {
    let listed = std::fs::read_dir("/proc/self/fd").expect("a directory");
    let links = listed.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_str().is_some_and(|link| link.starts_with("/memfd:guest"))).count() as u64
}

/// Nothing of the daemon is here but what it gave.
fn look(socket: i32) {
    let listed = std::fs::read_dir("/proc/self/fd").expect("a directory");
    let mut open: Vec<i32> = listed
        .map(|entry| entry.expect("an entry").file_name().to_str().expect("text").parse().expect("a number"))
        .collect();
    open.sort_unstable();
    // The last one is the directory itself.
    open.pop();
    assert_eq!(open, [0, 1, 2, socket]);
    assert_eq!(std::fs::read_link("/proc/self/fd/0").expect("a link").to_str(), Some("/dev/null"));
    assert_eq!(std::env::current_dir().expect("a directory").to_str(), Some("/"));
    let allowed = [MODE, DAEMON, "RUST_LOG"];
    for (name, _) in std::env::vars() {
        assert!(allowed.contains(&name.as_str()), "{name} is in the environment");
    }
}
