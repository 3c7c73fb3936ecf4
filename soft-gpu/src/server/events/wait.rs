//! Waiting for events (`kfd_wait_on_events`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::args::WaitEventsArgs;
use protocol::kfd::constants::{EventType, WAIT_FOREVER, WaitResult};
use protocol::kfd::types::EventData;
use protocol::kfd::{Call, UserMem};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::super::sleep::unparker;
use super::table::{Events, Registration, Table};

/// Most events in one call. The kernel allocates 56 bytes for each in one piece, of at most 4 MiB
/// (`alloc_event_waiters`), and answers `ENOMEM` beyond.
const MOST_WAITED: u32 = (4 << 20) / 56;

/// Events that are read from the program at once.
const READ_AT_ONCE: usize = 64;

/// Bytes of one element of the program's array.
const ELEMENT: u64 = size_of::<EventData>() as u64;

/// One call that waits. The thread sleeps in [`std::thread::park`], so whoever changes an event needs no lock
/// of the waiter.
#[derive(Debug)]
pub(super) struct Waiter {
    thread: Thread,
    /// For each element of the call, written under the table's lock.
    slots: Vec<AtomicU8>,
}

/// State of an element: nothing yet.
const PENDING: u8 = 0;
/// State of an element: the event was signaled.
const ACTIVATED: u8 = 1;
/// State of an element, on top: the event is gone.
const DESTROYED: u8 = 2;

impl Waiter {
    fn new(len: usize) -> Self {
        Self { thread: std::thread::current(), slots: (0..len).map(|_| AtomicU8::new(PENDING)).collect() }
    }

    pub(super) fn activate(&self, slot: usize) {
        self.mark(slot, ACTIVATED);
    }

    pub(super) fn fail(&self, slot: usize) {
        self.mark(slot, DESTROYED);
    }

    fn mark(&self, slot: usize, bit: u8) {
        if let Some(state) = self.slots.get(slot) {
            state.fetch_or(bit, Ordering::SeqCst);
            self.thread.unpark();
        }
    }

    fn has(&self, slot: usize, bit: u8) -> bool {
        self.slots.get(slot).is_some_and(|state| state.load(Ordering::SeqCst) & bit != 0)
    }

    /// `test_event_condition`: looks at the elements in order, so an earlier one decides.
    fn condition(&self, all: bool) -> WaitResult {
        let mut activated = 0;
        for state in &self.slots {
            let state = state.load(Ordering::SeqCst);
            if state & DESTROYED != 0 {
                return WaitResult::FAIL;
            }
            if state & ACTIVATED != 0 {
                if !all {
                    return WaitResult::COMPLETE;
                }
                activated += 1;
            }
        }
        if activated == self.slots.len() { WaitResult::COMPLETE } else { WaitResult::TIMEOUT }
    }
}

/// One element of the call as the program gave it.
#[derive(Clone, Copy)]
struct Wanted {
    id: u32,
    /// Age that the program has seen last; 0 if it does not use ages.
    age: u64,
}

/// The elements of the call, and whether the program's array could be read to its end.
struct Request {
    wanted: Vec<Wanted>,
    readable: bool,
}

/// Bytes for the program: where, and what.
type Payload = (u64, Vec<u8>);

impl Events {
    /// `kfd_wait_on_events`.
    ///
    /// # Errors
    /// `EINVAL` for an unknown id, `EFAULT` where the array cannot be read or a payload not written, `EIO` when
    /// an event was destroyed meanwhile, `ENOMEM` for too many events, and `ERESTARTSYS` when the call was
    /// interrupted: the rest of the time-out stands in `args` then, and events that had reset themselves for
    /// this call are set again.
    pub(crate) fn wait(&self, args: &mut WaitEventsArgs, call: &dyn Call) -> Result<(), Errno> {
        let result = self.wait_result(args, call);
        match result {
            Ok(WaitResult::FAIL) => {
                args.wait_result = WaitResult::FAIL.0;
                Err(Errno::EIO)
            }
            Ok(result) => {
                args.wait_result = result.0;
                Ok(())
            }
            Err(errno) => {
                args.wait_result = WaitResult::FAIL.0;
                Err(errno)
            }
        }
    }

    fn wait_result(&self, args: &mut WaitEventsArgs, call: &dyn Call) -> Result<WaitResult, Errno> {
        let started = Instant::now();
        if args.num_events > MOST_WAITED {
            return Err(Errno::ENOMEM);
        }
        let request = read_request(call.mem(), args);
        let waiter = Arc::new(Waiter::new(request.wanted.len()));
        let all = args.wait_for_all != 0;

        let first = {
            let mut table = self.lock();
            match table.register(&waiter, &request).map(|()| waiter.condition(all)) {
                Ok(WaitResult::TIMEOUT) => None,
                result => Some(table.finish(&waiter, &request.wanted, args.events_ptr, result)),
            }
        };
        let (result, payloads) = match first {
            Some(finished) => finished?,
            None => {
                let result = sleep(&waiter, all, started, args, call);
                self.lock().finish(&waiter, &request.wanted, args.events_ptr, result)?
            }
        };
        for (addr, bytes) in payloads {
            call.mem().write(addr, &bytes)?;
        }
        Ok(result)
    }
}

/// Reads the array of events, as far as it can be read.
fn read_request(mem: &dyn UserMem, args: &WaitEventsArgs) -> Request {
    let mut wanted = Vec::new();
    let mut left = args.num_events as usize;
    let mut addr = args.events_ptr;
    while left > 0 {
        let mut chunk = [EventData::new_zeroed(); READ_AT_ONCE];
        let mut count = left.min(READ_AT_ONCE);
        // A chunk that cannot be read as a whole is read element by element, to find the one that is at fault.
        while mem.read(addr, chunk.get_mut(..count).unwrap_or_default().as_mut_bytes()).is_err() {
            if count == 1 {
                return Request { wanted, readable: false };
            }
            count = 1;
        }
        wanted.extend(chunk.iter().take(count).map(|event| Wanted {
            id: event.event_id,
            age: u64::read_from_prefix(&event.body).map_or(0, |(age, _)| age),
        }));
        left -= count;
        addr = addr.wrapping_add(count as u64 * ELEMENT);
    }
    Request { wanted, readable: true }
}

/// Sleeps until the condition holds, an event is gone, the time is over, or the call is interrupted.
fn sleep(
    waiter: &Waiter,
    all: bool,
    started: Instant,
    args: &mut WaitEventsArgs,
    call: &dyn Call,
) -> Result<WaitResult, Errno> {
    let timeout = match args.timeout {
        WAIT_FOREVER => None,
        ms => Some(Duration::from_millis(u64::from(ms.min(i32::MAX as u32)))),
    };
    let mut fired = call.interrupt().wake_on_fire(unparker(waiter.thread.clone()));
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        if fired {
            if let Some(left) = left.filter(|_| args.timeout != 0) {
                args.timeout = u32::try_from(left.as_millis()).unwrap_or(WAIT_FOREVER - 1);
            }
            return Err(Errno::ERESTARTSYS);
        }
        let result = waiter.condition(all);
        if result != WaitResult::TIMEOUT {
            return Ok(result);
        }
        match left {
            Some(Duration::ZERO) => return Ok(WaitResult::TIMEOUT),
            Some(left) => std::thread::park_timeout(left),
            None => std::thread::park(),
        }
        fired = call.interrupt().fired();
    }
}

impl Table {
    /// `init_event_waiter` for each element. An event that resets itself is consumed here, and stays consumed
    /// if a later element turns out bad.
    fn register(&mut self, waiter: &Arc<Waiter>, request: &Request) -> Result<(), Errno> {
        for (slot, wanted) in request.wanted.iter().enumerate() {
            let event = self.events.get_mut(&wanted.id).ok_or(Errno::EINVAL)?;
            let uses_age = event.kind == EventType::SIGNAL && wanted.age != 0;
            let activated = event.signaled || (uses_age && event.age != wanted.age);
            event.signaled = event.signaled && !event.auto_reset;
            if activated {
                waiter.activate(slot);
            }
            event.waiters.push(Registration { waiter: Arc::clone(waiter), slot, queued: !activated });
        }
        if request.readable { Ok(()) } else { Err(Errno::EFAULT) }
    }

    /// The end of a wait: what goes to the program, and out of the events' queues.
    fn finish(
        &mut self,
        waiter: &Arc<Waiter>,
        wanted: &[Wanted],
        array: u64,
        result: Result<WaitResult, Errno>,
    ) -> Result<(WaitResult, Vec<Payload>), Errno> {
        let finished = result.and_then(|result| match result {
            WaitResult::COMPLETE => Ok((result, self.payloads(waiter, wanted, array)?)),
            _ => Ok((result, Vec::new())),
        });
        self.unregister(waiter, wanted, result == Err(Errno::ERESTARTSYS));
        finished
    }

    /// `free_waiters`. With `undo`, events that reset themselves for this call are signaled again.
    fn unregister(&mut self, waiter: &Arc<Waiter>, wanted: &[Wanted], undo: bool) {
        for (slot, wanted) in wanted.iter().enumerate() {
            if waiter.has(slot, DESTROYED) {
                continue;
            }
            let Some(event) = self.events.get_mut(&wanted.id) else { continue };
            let before = event.waiters.len();
            event.waiters.retain(|other| other.slot != slot || !Arc::ptr_eq(&other.waiter, waiter));
            let was_ours = event.waiters.len() != before;
            if undo && was_ours && event.auto_reset && waiter.has(slot, ACTIVATED) {
                event.set();
            }
        }
    }

    /// `copy_signaled_event_data`: what is written into the program's array for the events that fired.
    ///
    /// # Errors
    /// `EINVAL` if one of the events is gone.
    fn payloads(&self, waiter: &Waiter, wanted: &[Wanted], array: u64) -> Result<Vec<Payload>, Errno> {
        let mut payloads = Vec::new();
        for (slot, wanted) in wanted.iter().enumerate() {
            let event = match self.events.get(&wanted.id) {
                Some(event) if !waiter.has(slot, DESTROYED) => event,
                Some(_) | None => return Err(Errno::EINVAL),
            };
            if !waiter.has(slot, ACTIVATED) {
                continue;
            }
            let bytes = match event.kind {
                EventType::MEMORY => event.memory.as_bytes().to_vec(),
                EventType::SIGNAL if wanted.age != 0 => event.age.to_le_bytes().to_vec(),
                _ => continue,
            };
            payloads.push((array.wrapping_add(slot as u64 * ELEMENT), bytes));
        }
        Ok(payloads)
    }
}
