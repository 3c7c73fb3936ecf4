//! The worker of these tests.

use std::os::fd::AsRawFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use vhost_device_kfd::worker::jail::{self, Policy, Rule, Verdict};
use vhost_device_kfd::worker::kfd::{self, Config, KfdExecutor};
use vhost_device_kfd::worker::{Done, Executor, GuestBlob, Released, end_with, run, start};

use super::attempts::ATTEMPTS;
use super::rig::{CHOICE, Choice, DAEMON, TRY, gpu, policy};

/// Whether this process is one.
pub fn is_one() -> bool {
    std::env::var_os(CHOICE).is_some()
}

/// What a worker of the daemon does, with an executor of the test.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::Builder::new().filter_level(log::LevelFilter::Info).init();
    let choice = Choice::from(std::env::var(CHOICE)?.as_str());
    let daemon = rustix::process::Pid::from_raw(std::env::var(DAEMON)?.parse()?).ok_or("0")?;
    // SAFETY: nothing is open in this process.
    let socket = unsafe { start(daemon) }?;
    jail::leave()?;
    end_with(daemon)?;
    for name in ["user", "mnt", "net", "ipc"] {
        println!("namespace {name} {}", std::fs::read_link(format!("/proc/self/ns/{name}"))?.display());
    }
    if choice == Choice::Threads {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
    }
    let executor = KfdExecutor::new(kfd::open(&gpu())?, Config { window: true, ..Config::default() });
    jail::lock(&rules(&choice))?;
    Ok(run(socket, Arc::new(Tries(executor)))?)
}

fn rules(choice: &Choice) -> Policy {
    match choice {
        Choice::All | Choice::Threads => policy(),
        Choice::Without(name) => policy().without(name),
        Choice::WithOpen => {
            let mut rules = policy().without("SYS_openat").rules().to_vec();
            rules.push(Rule {
                name: "SYS_openat",
                number: libc::SYS_openat,
                verdict: Verdict::Allow,
                why: "to show that files are denied all the same",
            });
            Policy::new(rules)
        }
    }
}

/// What the daemon's workers have, and attempts beside it.
struct Tries(KfdExecutor);

impl Executor for Tries {
    fn attach(&self, blob: GuestBlob) {
        self.0.attach(blob);
    }

    fn detach(&self, id: u32, released: Released) {
        self.0.detach(id, released);
    }

    fn submit(&self, ring: Option<u8>, bytes: &[u8], done: Done) {
        match std::str::from_utf8(bytes).ok().and_then(|text| text.strip_prefix(TRY)) {
            None => self.0.submit(ring, bytes, done),
            Some(command) if attempt(command) => done.complete(),
            Some(_) => done.fail(),
        }
    }

    fn end(&self) {
        self.0.end();
    }
}

/// Whether it could be done.
fn attempt(command: &str) -> bool {
    if let Some(attempt) = ATTEMPTS.iter().find(|attempt| attempt.name == command) {
        println!("{command} answers {}", (attempt.make)());
        return true;
    }
    if let Some(path) = command.strip_prefix("open ") {
        let opened = std::fs::File::open(path);
        return opened.inspect_err(|error| println!("{path}: {error}")).is_ok();
    }
    match command {
        "sleep" => std::thread::sleep(Duration::from_millis(300)),
        "work" => work(),
        other => panic!("unknown command {other}"),
    }
    true
}

/// What executors do, whichever they are.
fn work() {
    // Threads start, have names, wait for each other and end; there is more than one arena of memory then.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let start = Arc::new(std::sync::Barrier::new(threads + 1));
    let started: Vec<_> = (0..=threads)
        .map(|number| {
            let start = Arc::clone(&start);
            let thread = std::thread::Builder::new().name(format!("worker {number}"));
            let grows = move || {
                start.wait();
                std::thread::yield_now();
                std::thread::sleep(Duration::from_millis(1));
                (0..300_000_u64).collect::<Vec<_>>().len()
            };
            thread.spawn(grows).expect("a thread")
        })
        .collect();
    for thread in started {
        assert_eq!(thread.join().expect("no panic"), 300_000);
    }
    // Memory is mapped and let go of.
    let fd = std::io::stdout().as_raw_fd();
    let mut list = vec![fd; 1 << 20];
    list.resize(1 << 22, 7);
    drop(list);
}
