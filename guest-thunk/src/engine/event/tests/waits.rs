//! Waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use protocol::Errno;
use protocol::hsakmt::{Event, HwException, HwExceptionCause, MemoryAccessFault, Status, SyncVar};
use protocol::kfd::Ioctl;
use protocol::kfd::args::WaitEventsArgs;
use protocol::kfd::constants::WaitResult;
use protocol::kfd::types::{EventData, HsaHwExceptionData, HsaMemoryExceptionData};
use softgpu::{Kernel, Profile};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::engine::testing;

const FOREVER: u32 = u32::MAX;
const TIMEOUT: Result<()> = Err(Status::WaitTimeout);

fn any(engine: &Engine, events: &[Option<&SharedEvent>], milliseconds: u32) -> Result<()> {
    engine.wait_on_events(events, false, milliseconds, None)
}

fn all(engine: &Engine, events: &[Option<&SharedEvent>], milliseconds: u32) -> Result<()> {
    engine.wait_on_events(events, true, milliseconds, None)
}

#[test]
fn any_and_all() {
    let engine = engine();
    let events = [signal(&engine), signal(&engine), signal(&engine)];
    let list = events.each_ref().map(Some);
    assert_eq!((any(&engine, &list, 5), all(&engine, &list, 5)), (TIMEOUT, TIMEOUT));
    engine.set_event(&events[2]).unwrap();
    assert_eq!((any(&engine, &list, 5), all(&engine, &list, 5)), (Ok(()), TIMEOUT));
    engine.set_event(&events[0]).unwrap();
    engine.set_event(&events[1]).unwrap();
    assert_eq!((any(&engine, &list, FOREVER), all(&engine, &list, FOREVER)), (Ok(()), Ok(())));
}

#[test]
fn odd_lists() {
    let engine = engine();
    let (set, unset) = (signal(&engine), signal(&engine));
    engine.set_event(&set).unwrap();
    assert_eq!(any(&engine, &[], FOREVER), Ok(()), "no event");
    assert_eq!(all(&engine, &[], FOREVER), Ok(()), "no event");
    assert_eq!(all(&engine, &[Some(&set), Some(&set)], FOREVER), Ok(()), "the same twice");
    assert_eq!(any(&engine, &[Some(&set), None], FOREVER), Err(Status::InvalidHandle), "a null");
    let unknown = SharedEvent::from(Event { event_id: 4000, ..Default::default() });
    assert_eq!(any(&engine, &[Some(&unset), Some(&unknown)], FOREVER), Err(Status::Error), "one unknown id");
    let mut ages = [0; 1];
    let short = engine.wait_on_events(&[Some(&set), Some(&set)], true, 0, Some(&mut ages));
    assert_eq!(short, Err(Status::InvalidParameter));
}

#[test]
fn lists_longer_than_the_stack_array_and_beyond_the_kernels_limit() {
    let engine = engine();
    let (set, unset) = (signal(&engine), signal(&engine));
    engine.set_event(&set).unwrap();
    for count in [15, 16, 17, 4097] {
        let mut list = vec![Some(&unset); count];
        assert_eq!(any(&engine, &list, 0), TIMEOUT, "{count} events");
        list[count - 1] = Some(&set);
        assert_eq!(any(&engine, &list, 0), Ok(()), "{count} events");
    }
    // The kernel's limit, then ours.
    assert_eq!(any(&engine, &vec![Some(&set); 80_000], 0), Err(Status::Error));
    assert_eq!(any(&engine, &vec![Some(&set); (1 << 17) + 1], 0), Err(Status::Error));
}

#[test]
fn a_finite_wait_takes_its_time() {
    let engine = engine();
    let event = signal(&engine);
    let started = Instant::now();
    assert_eq!(engine.wait_on_event(&event, 50, None), TIMEOUT);
    assert!(started.elapsed().as_millis() >= 50);
    assert!(started.elapsed() < DEADLINE);
}

// Case V08: the lock of a waiting call would stop the other thread.
#[test]
fn v08_an_endless_wait_stops_nobody() {
    let engine = engine();
    let event = signal(&engine);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| engine.wait_on_event(&event, FOREVER, None));
        for _ in 0..1000 {
            let other = signal(&engine);
            engine.set_event(&other).unwrap();
            assert_eq!(poll(&engine, &other), Ok(()));
            engine.destroy_event(&other).unwrap();
        }
        assert!(!waiter.is_finished());
        engine.set_event(&event).unwrap();
        assert_eq!(waiter.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn of_200_threads_each_is_woken_by_its_own_event() {
    let engine = engine();
    let events: Vec<_> = (0..200).map(|_| auto_reset(&engine)).collect();
    let woken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let wait = |event| {
            let result = engine.wait_on_event(event, DEADLINE_MS, None);
            woken.fetch_add(1, Ordering::SeqCst);
            result
        };
        let mut threads: Vec<_> =
            events.iter().map(|event| (event, scope.spawn(move || wait(event)))).collect();
        assert_eq!(woken.load(Ordering::SeqCst), 0);
        // Any order but the one in which they began.
        threads.sort_by_key(|(event, _)| event.id().wrapping_mul(0x9e37_79b9));
        for (count, (event, thread)) in threads.into_iter().enumerate() {
            engine.set_event(event).unwrap();
            assert_eq!(thread.join().expect("no panic"), Ok(()));
            assert_eq!(woken.load(Ordering::SeqCst), count + 1);
        }
    });
}

#[test]
fn one_manual_reset_event_wakes_200_threads() {
    let engine = engine();
    let event = signal(&engine);
    let woken = std::thread::scope(|scope| {
        let wait = || engine.wait_on_event(&event, DEADLINE_MS, None);
        let threads: Vec<_> = (0..200).map(|_| scope.spawn(wait)).collect();
        engine.set_event(&event).unwrap();
        threads
            .into_iter()
            .filter(|_| true)
            .map(|thread| thread.join())
            .filter(|r| matches!(r, Ok(Ok(()))))
            .count()
    });
    assert_eq!(woken, 200);
}

#[test]
fn a_wait_for_an_event_that_is_destroyed_fails() {
    let engine = engine();
    let event = signal(&engine);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| engine.wait_on_event(&event, FOREVER, None));
        std::thread::sleep(Duration::from_millis(50));
        engine.destroy_event(&event).unwrap();
        assert_eq!(waiter.join().expect("no panic"), Err(Status::Error));
    });
}

/// Answers WAIT_EVENTS as a kernel would: `answer` gets the arguments and the elements.
fn with_waits(
    profile: Profile,
    mut answer: impl FnMut(&mut WaitEventsArgs, &mut Vec<EventData>) -> std::result::Result<i32, Errno>
    + Send
    + 'static,
) -> Engine {
    use protocol::kfd::UserMem;
    let mem = softgpu::local_mem::LocalMem;
    testing::engine_answered(profile, Kernel::Linux6_12, move |nr, bytes| {
        if nr != u32::from(Ioctl::WaitEvents.nr()) {
            return None;
        }
        let args = WaitEventsArgs::mut_from_bytes(bytes).expect("the struct");
        let mut data = vec![EventData::default(); args.num_events as usize];
        mem.read(args.events_ptr, data.as_mut_bytes()).expect("readable");
        let result = answer(args, &mut data);
        mem.write(args.events_ptr, data.as_bytes()).expect("writable");
        Some(result)
    })
}

#[test]
fn an_interrupted_wait_goes_on_with_the_rest_of_the_time() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let engine = with_waits(Profile::CpuOnly, move |args, _| {
        let mut seen = log.lock().expect("no panic");
        seen.push((args.timeout, args.wait_for_all));
        args.timeout /= 2;
        if seen.len() < 3 {
            return Err(if seen.len() == 1 { Errno::EINTR } else { Errno::EAGAIN });
        }
        args.wait_result = WaitResult::TIMEOUT.0;
        Ok(0)
    });
    let event = signal(&engine);
    assert_eq!(any(&engine, &[Some(&event)], 1000), TIMEOUT);
    assert_eq!(*seen.lock().unwrap(), [(1000, 0), (500, 0), (250, 0)]);
}

#[test]
fn an_answer_that_is_none_is_an_error() {
    let engine = with_waits(Profile::CpuOnly, |args, _| {
        args.wait_result = 7;
        Ok(0)
    });
    assert_eq!(poll(&engine, &signal(&engine)), Err(Status::Error));
}

fn put<T: IntoBytes + zerocopy::Immutable>(data: &mut EventData, body: &T) {
    data.body[..size_of::<T>()].copy_from_slice(body.as_bytes());
}

/// KFD's id of the only GPU of the profile.
fn gpu_id() -> u32 {
    Profile::Mi210.machine(Kernel::Linux6_12).gpus[0].gpu_id
}

/// The data that `HsaEvent` has after the wait of an exception of `gpu_id`.
fn exception(gpu_id: u32) -> (Result<()>, MemoryAccessFault, HwException, SyncVar) {
    let engine = with_waits(Profile::Mi210, move |args, data| {
        let memory = HsaMemoryExceptionData { va: 0x7f00_0000_1000, gpu_id, ..Default::default() };
        put(&mut data[0], &memory);
        put(
            &mut data[1],
            &HsaHwExceptionData { reset_cause: 1, memory_lost: 1, gpu_id, ..Default::default() },
        );
        put(&mut data[2], &memory);
        args.wait_result = WaitResult::COMPLETE.0;
        Ok(0)
    });
    let events =
        [EventType::MEMORY, EventType::HW_EXCEPTION, EventType::SIGNAL].map(|kind| create(&engine, kind));
    let result = any(&engine, &events.each_ref().map(Some), FOREVER);
    let payload = |index: usize| events[index].get().event_data.event_data;
    (result, payload(0).get(), payload(1).get(), payload(2).get())
}

#[test]
fn what_exceptions_tell_comes_back_with_node_ids() {
    let (result, fault, reset, sync) = exception(gpu_id());
    assert_eq!(result, Ok(()));
    assert_eq!(({ fault.node_id }, { fault.virtual_address }), (1, 0x7f00_0000_1000));
    let expected =
        HwException { node_id: 1, reset_type: 0, memory_lost: 1, reset_cause: HwExceptionCause::ECC };
    assert_eq!(reset, expected);
    assert_eq!({ sync.user_data }, 0x1234_5678_9abc_def0, "a signal event has no payload");
}

// Case V03, third part: KFD names a GPU that this process does not see.
#[test]
fn v03_an_exception_of_a_hidden_gpu_is_an_invalid_node() {
    let (result, fault, _, _) = exception(gpu_id() ^ 1);
    assert_eq!(result, Err(Status::InvalidNodeUnit));
    assert_ne!({ fault.virtual_address }, 0x7f00_0000_1000);
}

// Case V03, first part.
#[test]
fn v03_a_memory_event_that_did_not_fire_is_not_taken_for_one_that_did() {
    let engine = rig::engine(Profile::Mi210);
    let (event, memory) = (signal(&engine), create(&engine, EventType::MEMORY));
    let before = memory.get();
    engine.set_event(&event).unwrap();
    assert_eq!(any(&engine, &[Some(&event), Some(&memory)], 0), Ok(()));
    assert_eq!(memory.get(), before);
    engine.reset_event(&event).unwrap();
    assert_eq!(any(&engine, &[Some(&event), Some(&memory)], 0), TIMEOUT);
    assert_eq!(memory.get(), before);
}

// Case V04: an event's age begins with 1 and grows with each set.
#[test]
fn v04_an_age_that_is_not_the_events_returns_at_once_with_the_real_one() {
    let engine = engine();
    let event = signal(&engine);
    for _ in 0..3 {
        engine.set_event(&event).unwrap();
    }
    engine.reset_event(&event).unwrap();
    for seen in [1, 2, 3, 9, u64::MAX] {
        let mut age = seen;
        assert_eq!(engine.wait_on_event(&event, FOREVER, Some(&mut age)), Ok(()), "age {seen}");
        assert_eq!(age, 4);
    }
    let mut age = 4;
    assert_eq!(engine.wait_on_event(&event, 5, Some(&mut age)), TIMEOUT, "nothing new");
    assert_eq!(age, 4);
    let mut age = 0;
    assert_eq!(engine.wait_on_event(&event, 5, Some(&mut age)), TIMEOUT, "ages are not used");
    assert_eq!(age, 0);
}

#[test]
fn v04_no_wake_up_is_lost_between_two_waits() {
    let engine = engine();
    let event = signal(&engine);
    let rounds = 200;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let (mut age, mut last) = (1, 1);
            // Every wait gives an age that is new, and the last one is reached.
            while last < rounds + 1 {
                engine.wait_on_event(&event, DEADLINE_MS, Some(&mut age))?;
                assert!(age > last);
                last = age;
                engine.reset_event(&event)?;
            }
            Ok(last)
        });
        for _ in 0..rounds {
            engine.set_event(&event).unwrap();
        }
        assert_eq!(waiter.join().expect("no panic"), Ok::<u64, Status>(rounds + 1));
    });
}

#[test]
fn ages_are_for_signal_events_and_come_back_by_place() {
    let engine = engine();
    let (a, memory, b) = (signal(&engine), create(&engine, EventType::MEMORY), signal(&engine));
    engine.set_event(&b).unwrap();
    let mut ages = [1, 77, 1, 55];
    let list = [Some(&a), Some(&memory), Some(&b)];
    assert_eq!(engine.wait_on_events(&list, false, 0, Some(&mut ages)), Ok(()));
    assert_eq!(ages, [1, 77, 2, 55]);
}

#[test]
fn v04_kernels_before_1_14_have_no_ages() {
    let engine = testing::engine_of_minor(Profile::CpuOnly, 13);
    let event = signal(&engine);
    engine.set_event(&event).unwrap();
    engine.reset_event(&event).unwrap();
    let mut age = 1;
    assert_eq!(engine.wait_on_event(&event, 0, Some(&mut age)), TIMEOUT, "not compared");
    assert_eq!(age, 1);
}
