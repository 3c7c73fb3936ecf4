//! The calls of a context: which are under way, their answers, and who sleeps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::Interrupt;
use protocol::wire::Answer;
use protocol::wire::area::MAX_AREAS;

use super::area::{Area, Place, Slot, slot_in};
use super::blob::Blobs;
use crate::worker::Done;

/// What guest and worker share of a context's calls.
#[derive(Debug)]
pub(super) struct Session {
    first: Area,
    areas: RwLock<Vec<Area>>,
    /// Slots whose calls are under way.
    running: Mutex<HashMap<u32, Option<Arc<Interrupt>>>>,
    wakes: Mutex<Wakes>,
    kick: Mutex<bool>,
    kicked: Condvar,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Wakes {
    completed: u32,
    wakes: u32,
    /// The guest sleeps until this is done.
    held: Option<Done>,
}

/// A call that has to be answered. Dropping it answers `EIO`.
#[derive(Debug)]
pub(super) struct Call {
    session: Arc<Session>,
    number: u32,
    slot: Slot,
    place: Place,
    answered: bool,
}

/// What a call asks.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) command: u32,
    pub(super) request: Vec<u8>,
}

impl Session {
    pub(super) fn new(first: Area) -> Session {
        Session {
            areas: RwLock::new(vec![first.clone()]),
            first,
            running: Mutex::default(),
            wakes: Mutex::default(),
            kick: Mutex::new(false),
            kicked: Condvar::new(),
            ended: AtomicBool::new(false),
        }
    }

    /// The words and the queue.
    pub(super) fn area(&self) -> &Area {
        &self.first
    }

    /// # Errors
    /// `ENOMEM` if there are too many.
    pub(super) fn add_area(&self, area: Area) -> Result<(), Errno> {
        let mut areas = self.areas.write().unwrap_or_else(PoisonError::into_inner);
        if areas.len() >= MAX_AREAS as usize {
            return Err(Errno::ENOMEM);
        }
        areas.push(area);
        Ok(())
    }

    /// Takes the call in a slot over. What is none, or under way already, is passed over; what cannot be read is answered.
    pub(super) fn take(self: &Arc<Self>, number: u32, blobs: &Blobs) -> Option<(Call, Message)> {
        let slot = slot_in(&self.areas.read().unwrap_or_else(PoisonError::into_inner), number);
        let Some(slot) = slot.filter(Slot::is_submitted) else {
            log::debug!("slot {number} was submitted and is not");
            return None;
        };
        if lock(&self.running).insert(number, None).is_some() {
            log::debug!("slot {number} was submitted twice");
            return None;
        }
        let read = slot.read(blobs);
        let mut call =
            Call { session: Arc::clone(self), number, slot, place: Place::default(), answered: false };
        match read {
            Ok(submitted) => {
                call.place = submitted.place;
                Some((call, Message { command: submitted.command, request: submitted.request }))
            }
            Err(errno) => {
                call.finish(Err(errno));
                None
            }
        }
    }

    /// Ends a call that waits.
    pub(super) fn cancel(&self, number: u32) {
        if let Some(Some(interrupt)) = lock(&self.running).get(&number) {
            interrupt.fire();
        }
    }

    /// `done` is completed as soon as there are other wakes than the guest has seen.
    pub(super) fn wake(&self, seen: u32, done: Done) {
        let mut wakes = lock(&self.wakes);
        let complete =
            if wakes.wakes != seen || self.has_ended() { Some(done) } else { wakes.held.replace(done) };
        drop(wakes);
        if let Some(done) = complete {
            done.complete();
        }
    }

    /// There are more calls.
    pub(super) fn kick(&self) {
        *lock(&self.kick) = true;
        self.kicked.notify_one();
    }

    /// Waits until there is another call than the `taken` ones: spins for a while, then sleeps.
    pub(super) fn wait_for_more(&self, taken: u32, spin: Duration) {
        let more = || self.first.submitted() != taken || self.has_ended();
        let start = Instant::now();
        while start.elapsed() < spin {
            for _ in 0..20 {
                if more() {
                    return;
                }
                std::hint::spin_loop();
            }
            // Others may have to run so that there is more.
            std::thread::yield_now();
        }
        self.first.set_asleep(true);
        let mut kick = lock(&self.kick);
        while !*kick && !more() {
            kick = self.kicked.wait(kick).unwrap_or_else(PoisonError::into_inner);
        }
        *kick = false;
        drop(kick);
        self.first.set_asleep(false);
    }

    /// No more calls are taken, and those that wait end.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        for interrupt in lock(&self.running).values().flatten() {
            interrupt.fire();
        }
        self.kick();
        let held = lock(&self.wakes).held.take();
        if let Some(done) = held {
            done.complete();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn complete(&self, slot: &Slot) {
        let mut wakes = lock(&self.wakes);
        wakes.completed = wakes.completed.wrapping_add(1);
        self.first.set_completed(wakes.completed);
        if !slot.guest_sleeps() {
            return;
        }
        wakes.wakes = wakes.wakes.wrapping_add(1);
        self.first.set_wakes(wakes.wakes);
        let held = wakes.held.take();
        drop(wakes);
        if let Some(done) = held {
            done.complete();
        }
    }
}

impl Call {
    /// Bytes that the answer may have.
    pub(super) fn room(&self) -> usize {
        self.place.room()
    }

    /// What ends the call early.
    pub(super) fn interrupt(&self) -> Arc<Interrupt> {
        let interrupt = Arc::new(Interrupt::new());
        lock(&self.session.running).insert(self.number, Some(Arc::clone(&interrupt)));
        // Whoever ends the session fires what is registered after it said so.
        if self.session.has_ended() {
            interrupt.fire();
        }
        interrupt
    }

    /// Gives the guest its answer, or the errno of what was not executed.
    pub(super) fn finish(mut self, answer: Result<&Answer<'_>, Errno>) {
        self.answer(answer);
    }

    fn answer(&mut self, answer: Result<&Answer<'_>, Errno>) {
        self.answered = true;
        // First: the guest may use the slot again as soon as it is answered.
        lock(&self.session.running).remove(&self.number);
        self.slot.answer(&self.place, answer);
        self.session.complete(&self.slot);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(Err(Errno::EIO));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
