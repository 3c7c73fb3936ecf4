use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;
use std::time::Instant;

use protocol::kfd::FileId;
use protocol::wire::{IoctlAnswer, IoctlCall};

use super::super::testing::{FakeDevice, encoded, obliging};
use super::*;

/// An IOCTL whose answer has its arguments turned around.
fn turn(request: &Request<'_>) -> Option<Result<Vec<u8>, Errno>> {
    let Request::Ioctl(IoctlCall { args, request: code, .. }) = request else { return obliging(request) };
    let turned: Vec<u8> = args.iter().rev().copied().collect();
    let answer = IoctlAnswer { result: code.cast_signed(), args: &turned, writes: &[] };
    Some(Ok(encoded(&Answer::Ioctl(answer))))
}

fn ioctl(request: u32, args: &[u8]) -> Encoded {
    let call = IoctlCall { file: FileId(1), request, args, memory: &[], descriptors: &[] };
    Encoded::new(&Request::Ioctl(call))
}

fn arguments(answer: Answer<'_>) -> Result<Vec<u8>, Errno> {
    let Answer::Ioctl(answer) = answer else { return Err(Errno::EPROTO) };
    Ok(answer.args.to_vec())
}

fn calls(device: &Arc<FakeDevice>, spin: Duration) -> Arc<Calls> {
    Arc::new(Calls::new(Arc::clone(device) as Arc<dyn Device>, spin).unwrap())
}

/// All calls wait until the test answers them.
fn waits() -> Arc<FakeDevice> {
    FakeDevice::new(Box::new(|_, request| match request {
        Request::Ioctl(_) => None,
        request => obliging(request),
    }))
}

#[test]
fn calls_are_answered_whoever_sleeps() {
    for spin in [Duration::ZERO, Duration::from_millis(2)] {
        let device = FakeDevice::new(Box::new(|_, request| turn(request)));
        let calls = calls(&device, spin);
        for round in 0..200_u8 {
            let sent = calls.send(ioctl(1, &[round, 1, 2]), INLINE, Wait::Short, arguments);
            assert_eq!(sent, Ok(vec![2, 1, round]));
        }
    }
}

#[test]
fn a_call_costs_no_submission_while_the_worker_is_awake_and_the_guest_looks() {
    let device = FakeDevice::new(Box::new(|_, request| turn(request)));
    device.stay_awake();
    let calls = calls(&device, Duration::from_secs(5));
    calls.send(ioctl(1, &[1]), INLINE, Wait::Short, arguments).unwrap();
    let before = device.submissions();
    for _ in 0..100 {
        calls.send(ioctl(1, &[1]), INLINE, Wait::Short, arguments).unwrap();
    }
    assert_eq!(device.submissions(), before);
}

#[test]
fn long_messages_go_both_ways_and_their_blobs_are_used_again() {
    let device = FakeDevice::new(Box::new(|_, request| turn(request)));
    let calls = calls(&device, Duration::from_micros(50));
    let sent: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let turned: Vec<u8> = sent.iter().rev().copied().collect();
    for _ in 0..5 {
        let back = calls.send(ioctl(1, &sent), sent.len() + 64, Wait::Short, arguments);
        assert_eq!(back.as_ref(), Ok(&turned));
    }
    assert_eq!(device.blobs(), 2, "the area, and one for the messages");
    let too_long = calls.send(ioctl(1, &[]), MESSAGE_MAX + 1, Wait::Short, arguments);
    assert_eq!(too_long, Err(Errno::E2BIG));
}

#[test]
fn the_worker_may_refuse_a_command_and_lie_about_lengths() {
    let device = FakeDevice::new(Box::new(|_, request| match request {
        Request::Ioctl(call) if call.request == 1 => Some(Err(Errno::EAGAIN)),
        Request::Ioctl(_) => Some(Ok(vec![0xff; 20])),
        request => obliging(request),
    }));
    let calls = calls(&device, Duration::from_micros(50));
    assert_eq!(calls.send(ioctl(1, &[]), INLINE, Wait::Short, arguments), Err(Errno::EAGAIN));
    assert_eq!(calls.send(ioctl(2, &[]), INLINE, Wait::Short, arguments), Err(Errno::EPROTO));
    assert_eq!(calls.tell(&Request::Cancel { slot: 3 }), Ok(()), "and it goes on");
}

/// Acceptance of the project: two hundred threads wait, and are woken in an order of somebody else's.
#[test]
fn two_hundred_threads_wait_and_are_woken_in_any_order() {
    const THREADS: usize = 300;
    let device = waits();
    let calls = calls(&device, Duration::from_micros(20));
    let (done, order) = (AtomicUsize::new(0), AtomicU64::new(0x9e37_79b9));
    thread::scope(|scope| {
        for number in 0..THREADS as u32 {
            let (calls, done) = (&calls, &done);
            scope.spawn(move || {
                let interrupt = Interrupt::new();
                let args = number.to_le_bytes();
                let back = calls.send(ioctl(1, &args), INLINE, Wait::Blocking(&interrupt), arguments);
                assert_eq!(back.map(|back| back.len()), Ok(4));
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut slots = device.waiting(THREADS);
        assert_eq!(done.load(Ordering::SeqCst), 0);
        while !slots.is_empty() {
            let seed = order.load(Ordering::Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.store(seed, Ordering::Relaxed);
            let slot = slots.swap_remove((seed >> 33) as usize % slots.len());
            let answer = IoctlAnswer { result: 0, args: &[0; 4], writes: &[] };
            device.finish(slot, Ok(encoded(&Answer::Ioctl(answer))));
            if slots.len().is_multiple_of(50) {
                // Calls of others come between.
                calls.tell(&Request::Cancel { slot: 0 }).unwrap();
            }
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), THREADS);
    assert_eq!(device.blobs(), 2, "more slots than one area has");
}

#[test]
fn threads_hammer_the_same_slots() {
    const THREADS: u8 = 16;
    let device = FakeDevice::new(Box::new(|_, request| turn(request)));
    let calls = calls(&device, Duration::from_micros(5));
    let start = Barrier::new(usize::from(THREADS));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (calls, start) = (&calls, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..300_u32 {
                    let wait = if round.is_multiple_of(3) { Wait::Long } else { Wait::Short };
                    let args = [thread, round as u8];
                    let back = calls.send(ioctl(1, &args), INLINE, wait, arguments);
                    assert_eq!(back, Ok(vec![round as u8, thread]));
                }
            });
        }
    });
}

#[test]
fn a_worker_that_dies_ends_all_calls_within_a_second() {
    const THREADS: usize = 40;
    let device = waits();
    let calls = calls(&device, Duration::from_micros(20));
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..THREADS)
            .map(|_| {
                let calls = &calls;
                scope.spawn(move || {
                    let interrupt = Interrupt::new();
                    calls.send(ioctl(1, &[]), INLINE, Wait::Blocking(&interrupt), arguments)
                })
            })
            .collect();
        device.waiting(THREADS);
        let killed = Instant::now();
        device.kill_worker();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Err(Errno::ENODEV));
        }
        assert!(killed.elapsed() < Duration::from_secs(1), "{:?}", killed.elapsed());
        assert_eq!(calls.tell(&Request::Cancel { slot: 3 }), Err(Errno::ENODEV), "and later ones");
    });
}

#[test]
fn a_worker_that_is_gone_before_the_first_call_is_found_out() {
    let device = waits();
    device.kill_worker();
    let calls = calls(&device, Duration::from_micros(20));
    let asked = Instant::now();
    assert_eq!(calls.tell(&Request::Cancel { slot: 3 }), Err(Errno::ENODEV));
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[test]
fn an_interrupt_ends_the_call_that_waits_and_no_other() {
    let cancelled = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&cancelled);
    let device = FakeDevice::new(Box::new(move |_, request| match request {
        Request::Ioctl(_) => None,
        Request::Cancel { slot } => {
            seen.lock().unwrap().push(*slot);
            Some(Ok(Vec::new()))
        }
        request => obliging(request),
    }));
    let calls = calls(&device, Duration::from_micros(20));
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| calls.send(ioctl(1, &[]), INLINE, Wait::Blocking(&interrupt), arguments));
        let slots = device.waiting(1);
        interrupt.fire();
        // The call cancels itself where it had not yet said that it can be interrupted.
        let start = Instant::now();
        while cancelled.lock().unwrap().is_empty() && start.elapsed() < Duration::from_secs(20) {
            thread::yield_now();
        }
        // First of all: a thread that waits for ever would hide what is wrong.
        device.finish(slots[0], Err(Errno::ERESTARTSYS));
        assert_eq!(*cancelled.lock().unwrap(), slots);
        assert_eq!(waiting.join().unwrap(), Err(Errno::ERESTARTSYS));
    });
    // One that has fired before ends it at once; one that fires later ends nothing.
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| calls.send(ioctl(1, &[]), INLINE, Wait::Blocking(&interrupt), arguments));
        let slots = device.waiting(1);
        device.finish(slots[0], Err(Errno::ERESTARTSYS));
        assert_eq!(waiting.join().unwrap(), Err(Errno::ERESTARTSYS));
    });
    assert_eq!(cancelled.lock().unwrap().len(), 2);
    interrupt.fire();
    assert_eq!(cancelled.lock().unwrap().len(), 2);
}
