//! Calls to the worker: a slot is filled and submitted, the answer waited for and copied out (`protocol::wire::area`).
//!
//! A call costs no system call while the worker is awake and answers while the thread looks for the answer ([`Spin`]). Else the
//! worker is woken by an EXECBUFFER, and the thread sleeps ([`Sleepers`]).

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use protocol::Errno;
use protocol::kfd::Interrupt;
use protocol::wire::area::{INLINE, MAX_AREAS, SLOTS};
use protocol::wire::{Answer, Command, MESSAGE_MAX, Request, Submission as Message};

use super::area::{Area, Areas, Slot};
use super::device::{Device, Submission};
use super::payload::{Payload, Payloads};
use super::sleep::{Sleepers, WAKE_RING};
use super::spin::Spin;

/// Rings of a context.
pub(super) const RINGS: u32 = WAKE_RING + 1;

/// The slot of [`Request::AddSlots`], which is needed when all others are in use.
const HOUSEKEEPING: u32 = 0;

/// Longest answer of a worker, in bytes, to which its length is compared before anything is allocated.
const ROOM_MAX: usize = MESSAGE_MAX;

thread_local! {
    /// Where messages are made and answers are looked at. Taken out meanwhile, so that a call within a call has its own.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How a call is waited for.
#[derive(Clone, Copy)]
pub(super) enum Wait<'a> {
    /// The answer comes soon.
    Short,
    /// The answer may take long.
    Long,
    /// The call sleeps until somebody does something, or until this fires.
    Blocking(&'a Interrupt),
}

/// A request as bytes.
pub(super) struct Encoded {
    command: Command,
    buffer: Vec<u8>,
}

impl Encoded {
    pub(super) fn new(request: &Request<'_>) -> Self {
        // While a thread ends its buffer may be gone.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        buffer.clear();
        request.encode(&mut buffer);
        Self { command: request.command(), buffer }
    }
}

/// The calls of a context.
pub(super) struct Calls {
    device: Arc<dyn Device>,
    areas: Areas,
    books: Mutex<Books>,
    /// Held while an area is added, by whoever found no slot.
    growing: Mutex<u32>,
    payloads: Payloads,
    sleepers: Sleepers,
    spin: Spin,
}

struct Books {
    /// Slots that nobody uses. The one that was used last is used next.
    free: Vec<u32>,
    /// Calls that were submitted.
    submitted: u32,
}

impl Calls {
    /// Makes the context and its call area. Threads look for an answer for as long as `spin` before they sleep.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn new(device: Arc<dyn Device>, spin: Duration) -> Result<Self, Errno> {
        device.init_context(RINGS)?;
        let areas = Areas::new(&*device)?;
        let bytes = Message::Setup { resource: areas.resource() }.encode();
        device.submit(Submission { ring: None, bytes: &bytes })?;
        let mut books = Books { free: Vec::new(), submitted: 0 };
        books.free.extend((HOUSEKEEPING + 1..SLOTS).rev());
        Ok(Self {
            device,
            areas,
            books: Mutex::new(books),
            growing: Mutex::new(1),
            payloads: Payloads::default(),
            sleepers: Sleepers::new(),
            spin: Spin::new(spin),
        })
    }

    /// The device.
    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// A short call. `take` looks at the answer.
    ///
    /// # Errors
    /// `ENODEV` once there is no worker; what the worker says of a command that it does not execute; `EPROTO` for an answer that is
    /// none; those of `take`.
    pub(super) fn call<T>(
        self: &Arc<Self>,
        request: &Request<'_>,
        take: impl FnOnce(Answer<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.send(Encoded::new(request), INLINE, Wait::Short, take)
    }

    /// A call whose answer is nothing.
    ///
    /// # Errors
    /// As [`Calls::call`].
    pub(super) fn tell(self: &Arc<Self>, request: &Request<'_>) -> Result<(), Errno> {
        self.call(request, |_| Ok(()))
    }

    /// A call with room for an answer of `room` bytes.
    ///
    /// # Errors
    /// As [`Calls::call`]; `E2BIG` for more than a message may have; `ENOMEM`.
    pub(super) fn send<T>(
        self: &Arc<Self>,
        message: Encoded,
        room: usize,
        wait: Wait<'_>,
        take: impl FnOnce(Answer<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Encoded { command, mut buffer } = message;
        let result = self.exchange(command, &mut buffer, room, wait).and_then(|()| {
            let answer = Answer::decode(command, &buffer).map_err(|error| {
                log::error!("the host's worker answers {} with nonsense: {error}", command.name());
                Errno::EPROTO
            })?;
            take(answer)
        });
        if buffer.capacity() <= 2 * INLINE {
            let _ended = BUFFER.try_with(|kept| kept.set(buffer));
        }
        result
    }

    /// Sends the message in the buffer and puts the answer there.
    fn exchange(
        self: &Arc<Self>,
        command: Command,
        buffer: &mut Vec<u8>,
        room: usize,
        wait: Wait<'_>,
    ) -> Result<(), Errno> {
        if self.sleepers.is_lost() {
            return Err(Errno::ENODEV);
        }
        let longest = buffer.len().max(room);
        let payload = if longest > INLINE { Some(self.payloads.take(&*self.device, longest)?) } else { None };
        if payload.as_ref().is_some_and(|payload| !payload.write(buffer)) {
            return Err(Errno::EIO);
        }
        let room = if payload.is_some() { room } else { INLINE };
        let number = self.claim()?;
        let answered = self.run(number, command, buffer, room, payload.as_ref(), wait);
        match answered {
            // The slot and the payload may still be the worker's: they are nobody's from now on.
            Err(Errno::ENODEV) if self.sleepers.is_lost() => {}
            _ => {
                self.release(number);
                if let Some(payload) = payload {
                    self.payloads.put(payload);
                }
            }
        }
        answered
    }

    fn run(
        self: &Arc<Self>,
        number: u32,
        command: Command,
        buffer: &mut Vec<u8>,
        room: usize,
        payload: Option<&Payload>,
        wait: Wait<'_>,
    ) -> Result<(), Errno> {
        let slot = self.areas.slot(number).ok_or(Errno::EIO)?;
        let room_field = u32::try_from(room).map_err(|_| Errno::E2BIG)?;
        slot.fill(command.id(), buffer, room_field, payload.map_or(0, Payload::resource));
        self.submit(number);
        match wait {
            Wait::Blocking(interrupt) => self.wait_interruptibly(number, &slot, interrupt)?,
            Wait::Short if self.spin.until(|| slot.is_done()) => {}
            Wait::Short | Wait::Long => self.sleep(number, &slot)?,
        }
        let (status, len) = slot.outcome();
        if status != 0 {
            return Err(i32::try_from(status).ok().and_then(Errno::from_raw).unwrap_or(Errno::EPROTO));
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > room.min(ROOM_MAX) {
            log::error!("the host's worker answers with {len} bytes where there is room for {room}");
            return Err(Errno::EPROTO);
        }
        buffer.clear();
        buffer.resize(len, 0);
        let read = match payload {
            Some(payload) => payload.read(buffer),
            None => slot.read(buffer),
        };
        if read { Ok(()) } else { Err(Errno::EPROTO) }
    }

    fn sleep(&self, number: u32, slot: &Slot<'_>) -> Result<(), Errno> {
        self.sleepers.sleep(&self.areas, &*self.device, number, slot)
    }

    /// Waits, and has the worker end the call early when the interrupt fires.
    fn wait_interruptibly(
        self: &Arc<Self>,
        number: u32,
        slot: &Slot<'_>,
        interrupt: &Interrupt,
    ) -> Result<(), Errno> {
        let cancel = Arc::new(Cancel { calls: Arc::clone(self), slot: Mutex::new(Some(number)) });
        if interrupt.wake_on_fire(Waker::from(Arc::clone(&cancel))) {
            cancel.wake_by_ref();
        }
        let slept = self.sleep(number, slot);
        // From now on the slot may become another call's, which nobody wants to end.
        *lock(&cancel.slot) = None;
        slept
    }

    /// Puts a filled slot into the queue, and wakes the worker if it sleeps.
    fn submit(&self, number: u32) {
        {
            let mut books = lock(&self.books);
            self.areas.enqueue(books.submitted, number);
            books.submitted = books.submitted.wrapping_add(1);
            self.areas.submitted().store(books.submitted, Ordering::SeqCst);
        }
        if self.areas.worker_sleeps() {
            let bytes = Message::Kick.encode();
            if let Err(errno) = self.device.submit(Submission { ring: None, bytes: &bytes }) {
                self.sleepers.lose(&format!("the virtio-gpu driver takes no command any more ({errno})"));
            }
        }
    }

    fn claim(self: &Arc<Self>) -> Result<u32, Errno> {
        loop {
            if let Some(number) = lock(&self.books).free.pop() {
                return Ok(number);
            }
            self.grow()?;
        }
    }

    fn release(&self, number: u32) {
        if let Some(slot) = self.areas.slot(number) {
            slot.free();
        }
        lock(&self.books).free.push(number);
    }

    /// Adds an area, unless another thread did.
    ///
    /// # Errors
    /// `EAGAIN` if there are as many as there can be; those of making one and of the worker.
    fn grow(self: &Arc<Self>) -> Result<(), Errno> {
        let mut areas = lock(&self.growing);
        if !lock(&self.books).free.is_empty() {
            return Ok(());
        }
        if *areas == MAX_AREAS {
            log::warn!("{} calls at one time are as many as there can be", MAX_AREAS * SLOTS);
            return Err(Errno::EAGAIN);
        }
        let area = Area::more(&*self.device)?;
        let mut message = Vec::new();
        let request = Request::AddSlots { resource: area.resource() };
        request.encode(&mut message);
        self.run(HOUSEKEEPING, request.command(), &mut message, INLINE, None, Wait::Short)?;
        self.areas.add(*areas, area);
        let first = *areas * SLOTS;
        *areas += 1;
        lock(&self.books).free.extend((first..first + SLOTS).rev());
        Ok(())
    }
}

/// Ends a call that waits.
struct Cancel {
    calls: Arc<Calls>,
    /// Its slot, as long as it runs.
    slot: Mutex<Option<u32>>,
}

impl Wake for Cancel {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// The slot stays the call's until the worker has answered, so that no other call is ended.
    fn wake_by_ref(self: &Arc<Self>) {
        let slot = lock(&self.slot);
        if let Some(slot) = *slot
            && let Err(errno) = self.calls.tell(&Request::Cancel { slot })
        {
            log::debug!("the call in slot {slot} cannot be ended: {errno}");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
