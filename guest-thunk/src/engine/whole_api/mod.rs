//! Every operation of the device and of this process fails once, at each point of a program that uses the whole engine
//! (cases M25 and M28). The call that meets the failure gives the status that stands in `outcomes.txt`, works when it
//! is made again, and leaves nothing behind; neither does the rest of the program, nor the same program after it.

mod scenario;
mod walk;

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::hsakmt::Status;
use softgpu::local_mem::LocalMem;
use softgpu::{Kernel, Profile};

use super::testing::device::{self, Alive, Record, Untouched};
use super::testing::faults::{self, Operation};
use super::testing::messages;
use super::{Engine, Options, rig};
use scenario::{Machine, Own};
use walk::{Outcome, Walk};

/// For one run of the program, which takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(60);

/// A machine and what the library does on it.
#[derive(Clone)]
struct Case {
    profile: Profile,
    kernel: Kernel,
    options: Options,
    machine: Machine,
}

/// What is there: in the device, of addresses, and of the GPUs' memory as the device tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    alive: Alive,
    addresses: u64,
    available: Vec<u64>,
}

impl Held {
    /// Whether there is no more than in `other`: what a call went on without may be missing.
    fn is_within(&self, other: &Self) -> bool {
        let (Alive { buffers, queues, events, descriptors }, those) = (self.alive, other.alive);
        buffers <= those.buffers
            && (queues, events, descriptors) == (those.queues, those.events, those.descriptors)
            && self.addresses <= other.addresses
            && self.available.iter().zip(&other.available).all(|(has, had)| has >= had)
    }

    fn by(engine: &Engine, record: &Record, machine: Machine) -> Self {
        engine.acquire_system_properties().expect("a topology");
        let available = (1..machine.nodes).map(|gpu| engine.available_memory(gpu).expect("a GPU")).collect();
        engine.release_system_properties().expect("released");
        Self { alive: record.alive(), addresses: faults::held(), available }
    }
}

fn engine(case: &Case) -> (Engine, Arc<Record>) {
    let (device, record) = device::over(rig::device_with_kernel(case.profile, case.kernel), Untouched);
    (rig::engine_on(&device, case.options.clone()), record)
}

/// Runs the program twice on a new engine, the first time with operation number `at` failing. Gives what became of it
/// (`None` if there are not so many operations), and what is there afterwards.
fn run(case: &Case, at: Option<u32>, errno: Errno, place: &Arc<Mutex<String>>) -> (Option<Outcome>, Held) {
    let own = Own::new();
    let (engine, record) = engine(case);
    let mut walk = Walk::new(&engine, at, Arc::clone(place));
    if let Some(at) = at {
        faults::fail_at(at, errno);
    }
    scenario::whole(&mut walk, case.machine, &own);
    faults::stop();
    let outcome = walk.outcome();
    scenario::whole(&mut Walk::new(&engine, at, Arc::clone(place)), case.machine, &own);
    let held = Held::by(&engine, &record, case.machine);
    drop(engine);
    (outcome, held)
}

/// All outcomes of a case, and how many operations there are.
fn sweep(case: &Case, errno: Errno, place: &Arc<Mutex<String>>, tick: impl Fn()) -> (BTreeSet<Outcome>, u32) {
    let unmapped = faults::held();
    let (_, clean) = run(case, None, errno, place);
    let mut outcomes = BTreeSet::new();
    for at in 0.. {
        let (outcome, held) = run(case, Some(at), errno, place);
        tick();
        assert_eq!(faults::held(), unmapped, "operation {at}, {outcome:?}: addresses outlive the engine");
        let Some(outcome) = outcome else { return (outcomes, at) };
        if outcome.status.is_some() {
            assert_eq!(held, clean, "operation {at}, {outcome}: something is left, or is missing");
        } else {
            assert!(held.is_within(&clean), "operation {at}, {outcome}: {held:?}, not {clean:?}");
        }
        outcomes.insert(outcome);
    }
    unreachable!("the program ends")
}

/// The same in a thread of its own, watched: a lock that is kept would stop it for ever.
fn watched(case: Case, errno: Errno) -> BTreeSet<Outcome> {
    messages::keep();
    let place = Arc::new(Mutex::new(String::new()));
    let (send, receive) = channel();
    let inside = Arc::clone(&place);
    let (name, start) = (format!("{:?}, {errno}", case.profile), Instant::now());
    let sweeping =
        std::thread::spawn(move || sweep(&case, errno, &inside, || send.send(()).expect("somebody watches")));
    let mut count = 0;
    loop {
        match receive.recv_timeout(DEADLINE) {
            Ok(()) => count += 1,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let place = place.lock().unwrap_or_else(PoisonError::into_inner);
                panic!("operation {count} failed, and then {place} did not return");
            }
        }
    }
    let (outcomes, operations) = sweeping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    println!("{name}: {operations} operations, {} outcomes, {:?}", outcomes.len(), start.elapsed());
    outcomes
}

/// What is expected.
const OUTCOMES: &str = include_str!("outcomes.txt");

/// The lines for this errno, as outcomes are written. Where a call goes on without, there is a reason.
fn expected(errno: &str) -> BTreeSet<String> {
    let lines = OUTCOMES.lines().filter(|line| !line.starts_with('#'));
    let outcomes = lines.filter_map(|line| {
        let fields: Vec<&str> = line.split(" | ").collect();
        let complete = match fields[..] {
            [_, _, _, "-", reason] => !reason.is_empty(),
            [_, _, _, status] => status != "-",
            _ => false,
        };
        assert!(complete, "not `errno | call | operation | status`, or with `-` and a reason: {line}");
        // Of what no kernel is without, the sweep for ENOTTY tells nothing.
        let told = errno != "ENOTTY" || fields[2] == fields[2].to_uppercase();
        (told && ["any", errno].contains(&fields[0])).then(|| fields[1..4].join(" | "))
    });
    outcomes.collect()
}

fn cases() -> [Case; 4] {
    let case = |profile: Profile, kernel, svm, nodes, gfx9| Case {
        profile,
        kernel,
        options: Options { svm, ..Options::default() },
        machine: Machine {
            nodes,
            handles: kernel == Kernel::Rocm,
            gfx9,
            queue_kinds: if svm { 1 } else { usize::MAX },
            free_address: (1 << 44) + ((profile as u64) << 32),
        },
    };
    [
        case(Profile::Mi210, Kernel::Rocm, false, 2, true),
        case(Profile::TwoGpu, Kernel::Linux6_12, true, 3, true),
        case(Profile::Rx7900xtx, Kernel::Linux7_3, false, 2, false),
        case(Profile::CpuOnly, Kernel::Linux6_12, true, 1, false),
    ]
}

fn every_operation_fails_with(errno: Errno, name: &str) {
    let running = cases().map(|case| std::thread::spawn(move || watched(case, errno)));
    let mut seen = BTreeSet::new();
    for sweep in running {
        let outcomes = sweep.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let answered = |outcome: &&Outcome| errno != Errno::ENOTTY || outcome.operation.may_be_unknown();
        seen.extend(outcomes.iter().filter(answered).map(Outcome::to_string));
    }
    let expected = expected(name);
    let differences = |one: &BTreeSet<String>, other: &BTreeSet<String>, what: &str| {
        one.difference(other).map(|line| format!("{what} {name} | {line}\n")).collect::<String>()
    };
    assert!(
        seen == expected,
        "outcomes.txt differs:\n{}{}",
        differences(&seen, &expected, "new: "),
        differences(&expected, &seen, "gone:")
    );
}

// One after the other: each program has its fixed address to itself.
#[test]
fn every_operation_fails_once_and_nothing_is_left() {
    every_operation_fails_with(Errno::ENOMEM, "ENOMEM");
    every_operation_fails_with(Errno::EINVAL, "EINVAL");
    // A kernel that does not have an ioctl.
    every_operation_fails_with(Errno::ENOTTY, "ENOTTY");
}

#[test]
fn opening_fails_once_and_works_the_next_time() {
    let (device, _) = device::over(rig::device(Profile::Mi210), Untouched);
    let open = || Engine::new(&device, Arc::new(LocalMem), Options::default()).map(drop);
    for (at, operation, status) in [
        (0, Operation::OpenKfd, Status::KernelIoChannelNotOpened),
        (1, Operation::Ioctl("AMDKFD_IOC_GET_VERSION"), Status::Error),
    ] {
        faults::fail_at(at, Errno::ENOMEM);
        assert_eq!(open(), Err(status), "{operation}");
        assert_eq!(faults::stop(), Some(operation));
        assert!(open().is_ok(), "after {operation}");
    }
    faults::fail_at(2, Errno::ENOMEM);
    assert!(open().is_ok());
    assert_eq!(faults::stop(), None, "there are no more operations");
}
