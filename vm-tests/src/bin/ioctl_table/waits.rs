//! WAIT_EVENTS: time-outs, ages, bad elements, signals, threads.

use std::time::{Duration, Instant};

use protocol::kfd::args::WaitEventsArgs;
use protocol::kfd::constants::{EventType, WAIT_FOREVER};
use protocol::kfd::ioctl::Ioctl;
use protocol::kfd::types::EventData;

use crate::calls::{Edges, Kfd, Outcome, line};
use crate::events::{create, destroy, reset, set, signal};

pub fn run(kfd: &Kfd) {
    time_outs(kfd);
    any_and_all(kfd);
    auto_reset(kfd);
    ages(kfd);
    bad_elements(kfd);
    pointers(kfd);
    other_types(kfd);
    signals(kfd);
    threads(kfd);
}

fn element(event_id: u32, age: u64) -> EventData {
    let mut data = EventData { event_id, ..Default::default() };
    if let Some(place) = data.body.first_chunk_mut::<8>() {
        *place = age.to_le_bytes();
    }
    data
}

fn age_of(data: &EventData) -> u64 {
    data.body.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn wait_on(kfd: &Kfd, data: &mut [EventData], all: u32, timeout: u32) -> (Outcome, WaitEventsArgs) {
    let mut args = WaitEventsArgs {
        events_ptr: data.as_mut_ptr().expose_provenance() as u64,
        num_events: u32::try_from(data.len()).unwrap_or(u32::MAX),
        wait_for_all: all,
        timeout,
        wait_result: 77,
    };
    let result = kfd.call(Ioctl::WaitEvents, &mut args);
    (result, args)
}

/// Waits and prints what comes back.
fn wait(name: &str, kfd: &Kfd, ids: &[u32], all: u32, timeout: u32) {
    let mut data: Vec<EventData> = ids.iter().map(|&id| element(id, 0)).collect();
    let (result, args) = wait_on(kfd, &mut data, all, timeout);
    line(name, result, &format!("wait_result {}", args.wait_result));
}

fn time_outs(kfd: &Kfd) {
    let id = signal(kfd, 0);
    wait("WAIT 0 ms", kfd, &[id], 0, 0);
    for ms in [1, 50, 200] {
        let started = Instant::now();
        wait(&format!("WAIT {ms} ms"), kfd, &[id], 0, ms);
        line(
            &format!("WAIT {ms} ms lasts so long"),
            Ok(0),
            &format!("{}", started.elapsed() >= Duration::from_millis(ms.into())),
        );
    }
    wait("WAIT for nothing, any", kfd, &[], 0, WAIT_FOREVER);
    wait("WAIT for nothing, all", kfd, &[], 1, WAIT_FOREVER);
    line("SET_EVENT", set(kfd, id), "");
    for ms in [0, 1, 0x7fff_ffff, 0x8000_0000, WAIT_FOREVER - 1, WAIT_FOREVER] {
        wait(&format!("WAIT {ms:#x} ms for a set event"), kfd, &[id], 0, ms);
    }
    let mut data = [element(id, 0)];
    let (result, args) = wait_on(kfd, &mut data, 0, 1234);
    line("WAIT leaves the time-out", result, &format!("{}", args.timeout));
}

fn any_and_all(kfd: &Kfd) {
    let (a, b, c) = (signal(kfd, 0), signal(kfd, 0), signal(kfd, 0));
    line("SET_EVENT b", set(kfd, b), "");
    for (name, all) in [("any", 0), ("all", 1), ("all as 2", 2), ("all as 0x80000000", 0x8000_0000)] {
        wait(&format!("WAIT {name} of a"), kfd, &[a], all, 0);
        wait(&format!("WAIT {name} of b"), kfd, &[b], all, 0);
        wait(&format!("WAIT {name} of a b c"), kfd, &[a, b, c], all, 0);
        wait(&format!("WAIT {name} of b b b"), kfd, &[b, b, b], all, 0);
    }
    line("SET_EVENT a", set(kfd, a), "");
    wait("WAIT all of a b", kfd, &[a, b], 1, 0);
    line("RESET_EVENT b", reset(kfd, b), "");
    wait("WAIT all of a b again", kfd, &[a, b], 1, 0);
}

fn auto_reset(kfd: &Kfd) {
    let (a, b) = (signal(kfd, 1), signal(kfd, 1));
    line("SET_EVENT of an auto-reset event", set(kfd, a), "");
    wait("WAIT for it", kfd, &[a], 0, 0);
    wait("WAIT for it again", kfd, &[a], 0, 0);
    line("SET_EVENT twice", set(kfd, a).and_then(|_| set(kfd, a)), "");
    wait("WAIT once", kfd, &[a], 0, 0);
    wait("WAIT twice", kfd, &[a], 0, 0);
    line("SET_EVENT, then named twice", set(kfd, a), "");
    wait("WAIT all of a a", kfd, &[a, a], 1, 0);
    wait("WAIT for a after it", kfd, &[a], 0, 0);
    line("SET_EVENT a, not b", set(kfd, a), "");
    wait("WAIT all of a b", kfd, &[a, b], 1, 0);
    wait("WAIT for a after the time-out", kfd, &[a], 0, 0);
    line("SET_EVENT a and b", set(kfd, a).and_then(|_| set(kfd, b)), "");
    wait("WAIT any of a b", kfd, &[a, b], 0, 0);
    wait("WAIT for b after it", kfd, &[b], 0, 0);
    line("SET_EVENT, RESET_EVENT", set(kfd, a).and_then(|_| reset(kfd, a)), "");
    wait("WAIT after RESET_EVENT", kfd, &[a], 0, 0);
}

fn ages(kfd: &Kfd) {
    for (name, auto) in [("manual", 0), ("auto", 1)] {
        let id = signal(kfd, auto);
        let look = |when: &str, age: u64| {
            let mut data = [element(id, age)];
            let (result, args) = wait_on(kfd, &mut data, 0, 0);
            let rest = format!("wait_result {} age {}", args.wait_result, age_of(&data[0]));
            line(&format!("WAIT for a {name} event {when}, age {age}"), result, &rest);
        };
        for age in [0, 1, 2, u64::MAX] {
            look("never set", age);
        }
        for _ in 0..3 {
            line("SET_EVENT", set(kfd, id), "");
        }
        for age in [0, 1, 2, 3, 4, 5, 4, 0] {
            look("set three times", age);
        }
        line("RESET_EVENT", reset(kfd, id), "");
        for age in [4, 3, 0] {
            look("reset", age);
        }
        let other = signal(kfd, 0);
        let mut data = [element(id, 1), element(other, 1)];
        let (result, args) = wait_on(kfd, &mut data, 1, 0);
        let rest = format!("wait_result {} ages {} {}", args.wait_result, age_of(&data[0]), age_of(&data[1]));
        line("WAIT for all with ages", result, &rest);
        let (result, args) = wait_on(kfd, &mut data, 0, 0);
        let rest = format!("wait_result {} ages {} {}", args.wait_result, age_of(&data[0]), age_of(&data[1]));
        line("WAIT for any with ages", result, &rest);
    }
}

fn bad_elements(kfd: &Kfd) {
    let (a, b) = (signal(kfd, 1), signal(kfd, 0));
    for bad in [0, 4000, 0x4fff_ffff, u32::MAX] {
        wait(&format!("WAIT for {bad:#x}"), kfd, &[bad], 0, 0);
    }
    line("SET_EVENT a", set(kfd, a), "");
    wait("WAIT any of a and a bad id", kfd, &[a, 4000], 0, 0);
    wait("WAIT for a after it", kfd, &[a], 0, 0);
    line("SET_EVENT a", set(kfd, a), "");
    wait("WAIT any of a bad id and a", kfd, &[4000, a], 0, 0);
    wait("WAIT for a after it", kfd, &[a], 0, 0);
    line("DESTROY_EVENT b", destroy(kfd, b), "");
    wait("WAIT for a destroyed event", kfd, &[b], 0, 0);
}

fn pointers(kfd: &Kfd) {
    let edges = Edges::map();
    let (a, b) = (signal(kfd, 1), signal(kfd, 0));
    let at = |name: &str, events_ptr: u64, num_events: u32| {
        let mut args = WaitEventsArgs { events_ptr, num_events, wait_result: 77, ..Default::default() };
        let result = kfd.call(Ioctl::WaitEvents, &mut args);
        line(
            &format!("WAIT for {num_events:#x} at {name}"),
            result,
            &format!("wait_result {}", args.wait_result),
        );
    };
    let bytes = |elements: &[EventData]| -> Vec<u8> {
        elements.iter().flat_map(|data| zerocopy::IntoBytes::as_bytes(data).to_vec()).collect()
    };
    for (name, addr) in [
        ("NULL", 0),
        ("top", u64::MAX - 47),
        ("kernel", 0xffff_8000_0000_0000),
        ("untouchable", edges.nowhere()),
        ("half untouchable", edges.nowhere() - 24),
        ("zeros", edges.read_only()),
    ] {
        at(name, addr, 1);
    }
    at("NULL", 0, 0);
    // The kernel allocates 56 bytes each, at most 4 MiB in one piece.
    edges.store(edges.writable(), &bytes(&[element(4000, 0)]));
    for number in [2, 74_898, 74_899, 0x10_0000, u32::MAX] {
        at("an array whose first id is bad", edges.writable(), number);
    }
    // A good element, then the end of what can be read (the third page reads as zeros: id 0).
    let last = edges.read_only() - 48;
    edges.store(last, &bytes(&[element(a, 0)]));
    line("SET_EVENT a", set(kfd, a), "");
    at("a good element before zeros", last, 2);
    wait("WAIT for a after it", kfd, &[a], 0, 0);
    // Ages are written back where the array cannot be written.
    line("SET_EVENT b", set(kfd, b), "");
    let wait_at = |name: &str, addr: u64, elements: &[EventData]| {
        edges.store(addr, &bytes(elements));
        at(name, addr, u32::try_from(elements.len()).unwrap_or(u32::MAX));
    };
    wait_at("a good element with an age", edges.writable(), &[element(b, 1)]);
}

fn other_types(kfd: &Kfd) {
    for kind in [EventType::MEMORY, EventType::HW_EXCEPTION, EventType::DEBUG_EVENT, EventType(77)] {
        let (_, args) = create(kfd, kind.0, 0);
        let id = args.event_id;
        wait(&format!("WAIT for an event of type {}", kind.0), kfd, &[id], 0, 0);
        let mut data = [element(id, 9)];
        let (result, args) = wait_on(kfd, &mut data, 0, 0);
        let rest = format!("wait_result {} age {}", args.wait_result, age_of(&data[0]));
        line(&format!("WAIT for an event of type {} with an age", kind.0), result, &rest);
        line(&format!("DESTROY_EVENT of type {}", kind.0), destroy(kfd, id), "");
    }
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// A timer signal after 100 ms, whose handler does nothing and which restarts nothing or everything.
fn alarm(restart: bool) {
    let flags = if restart { libc::SA_RESTART } else { 0 };
    // SAFETY: all-zero bytes are a valid sigaction (no handler, empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the action is initialised, and its handler does nothing, which is async-signal-safe.
    let result = unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0, "sigaction");
    let once = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: 0, tv_usec: 100_000 },
    };
    // SAFETY: the new value is initialised, and no old one is asked for.
    let result = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, std::ptr::null_mut()) };
    assert_eq!(result, 0, "setitimer");
}

fn signals(kfd: &Kfd) {
    let (a, b) = (signal(kfd, 1), signal(kfd, 0));
    line("SET_EVENT a", set(kfd, a), "");
    for (name, ms) in [("10 s", 10_000), ("for ever", WAIT_FOREVER)] {
        alarm(false);
        let mut data = [element(a, 0), element(b, 0)];
        let (result, args) = wait_on(kfd, &mut data, 1, ms);
        let rest = if ms == WAIT_FOREVER {
            format!("time-out {:#x}", args.timeout)
        } else {
            format!("time-out is less {} but not nothing {}", args.timeout < ms, args.timeout > ms / 2)
        };
        line(
            &format!("WAIT {name} for all of a b with a signal"),
            result,
            &format!("wait_result {} {rest}", args.wait_result),
        );
        wait("WAIT for a after it", kfd, &[a], 0, 0);
        line("SET_EVENT a", set(kfd, a), "");
    }
    alarm(true);
    let started = Instant::now();
    wait("WAIT 300 ms with a signal that restarts", kfd, &[b], 0, 300);
    let elapsed = started.elapsed();
    line("which lasts so long", Ok(0), &format!("{}", elapsed >= Duration::from_millis(280)));
}

/// Runs a wait in a thread, gives it time to sleep, runs `body`, and prints the results.
fn while_waiting(name: &str, kfd: &Kfd, ids: &[u32], all: u32, body: impl FnOnce()) {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut data: Vec<EventData> = ids.iter().map(|&id| element(id, 0)).collect();
            wait_on(kfd, &mut data, all, 20_000)
        });
        std::thread::sleep(Duration::from_millis(300));
        body();
        let (result, args) = waiting.join().expect("the waiting thread");
        line(name, result, &format!("wait_result {}", args.wait_result));
    });
}

fn threads(kfd: &Kfd) {
    let (a, b) = (signal(kfd, 1), signal(kfd, 0));
    while_waiting("WAIT for a, which is set", kfd, &[a], 0, || {
        line("SET_EVENT a", set(kfd, a), "");
    });
    wait("WAIT for a after it", kfd, &[a], 0, 0);
    while_waiting("WAIT for all of a b, set one after the other", kfd, &[a, b], 1, || {
        line("SET_EVENT a", set(kfd, a), "");
        line("SET_EVENT b", set(kfd, b), "");
    });
    line("RESET_EVENT b", reset(kfd, b), "");
    let c = signal(kfd, 0);
    while_waiting("WAIT for c, which is destroyed", kfd, &[c], 0, || {
        line("DESTROY_EVENT c", destroy(kfd, c), "");
    });
    let c = signal(kfd, 0);
    while_waiting("WAIT for all of b c, c destroyed", kfd, &[b, c], 1, || {
        line("DESTROY_EVENT c", destroy(kfd, c), "");
    });
    let ids: Vec<u32> = (0..20).map(|_| signal(kfd, 1)).collect();
    let results = std::thread::scope(|scope| {
        let waiting: Vec<_> = ids
            .iter()
            .map(|&id| {
                scope.spawn(move || {
                    let (result, args) = wait_on(kfd, &mut [element(id, 0)], 0, 20_000);
                    result == Ok(0) && args.wait_result == 0
                })
            })
            .collect();
        let sets = ids.iter().rev().filter(|id| set(kfd, **id) == Ok(0)).count();
        (sets, waiting.into_iter().map(|thread| thread.join().unwrap_or(false)).filter(|ok| *ok).count())
    });
    line("20 threads, each with its event", Ok(0), &format!("{results:?}"));
}
