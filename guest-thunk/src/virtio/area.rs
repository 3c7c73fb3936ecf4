//! The areas that guest and worker share for calls, mapped: words, the queue, and slots.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::Errno;
use protocol::wire::area::{
    AREA_BYTES, INLINE, MAX_AREAS, MORE_BYTES, SLOT_BYTES, SLOT_HEADER, SLOTS, queue_place, slot, slot_place,
    state, word,
};

use super::device::{Device, GuestBlob};
use super::view::View;

/// All areas of a context. There is one at least; more are added and none goes.
pub(super) struct Areas {
    first: Area,
    more: [OnceLock<Area>; MAX_AREAS as usize - 1],
}

/// One area: a blob and its mapping.
pub(super) struct Area {
    view: View,
    blob: Box<dyn GuestBlob>,
}

impl Area {
    fn new(device: &dyn Device, bytes: usize) -> Result<Self, Errno> {
        let blob = device.create_blob(bytes as u64)?;
        let view = View::new(&blob.mapping()?)?;
        // What follows relies on it.
        if view.len() < bytes { Err(Errno::EIO) } else { Ok(Self { view, blob }) }
    }

    /// An area with slots alone.
    ///
    /// # Errors
    /// Those of making and mapping a blob.
    pub(super) fn more(device: &dyn Device) -> Result<Self, Errno> {
        Self::new(device, MORE_BYTES)
    }

    /// The id of its blob.
    pub(super) fn resource(&self) -> u32 {
        self.blob.resource()
    }
}

impl Areas {
    /// The first area.
    ///
    /// # Errors
    /// Those of making and mapping a blob.
    pub(super) fn new(device: &dyn Device) -> Result<Self, Errno> {
        let first = Area::new(device, AREA_BYTES)?;
        Ok(Self { first, more: [const { OnceLock::new() }; MAX_AREAS as usize - 1] })
    }

    /// The id of the first area's blob.
    pub(super) fn resource(&self) -> u32 {
        self.first.resource()
    }

    /// Adds the area with this number, once.
    pub(super) fn add(&self, number: u32, area: Area) {
        let place = number.checked_sub(1).and_then(|place| self.more.get(place as usize));
        let added = place.is_some_and(|place| place.set(area).is_ok());
        debug_assert!(added, "areas are added one after the other");
    }

    /// A slot by number. `None` if no area has it.
    pub(super) fn slot(&self, number: u32) -> Option<Slot<'_>> {
        let (area, start) = slot_place(number)?;
        let area = match area.checked_sub(1) {
            None => &self.first,
            Some(place) => self.more.get(place as usize)?.get()?,
        };
        Slot::new(&area.view, start)
    }

    /// Calls that were submitted. The guest's own.
    pub(super) fn submitted(&self) -> &AtomicU32 {
        self.word(word::SUBMITTED)
    }

    /// Whether the worker sleeps.
    pub(super) fn worker_sleeps(&self) -> bool {
        self.word(word::ASLEEP).load(Ordering::SeqCst) != 0
    }

    /// How many answers came for which somebody slept.
    pub(super) fn wakes(&self) -> u32 {
        self.word(word::WAKES).load(Ordering::SeqCst)
    }

    /// Puts a slot's number into the queue, for the call with this number.
    pub(super) fn enqueue(&self, call: u32, slot: u32) {
        self.word(queue_place(call)).store(slot, Ordering::Release);
    }

    /// A word of the first area. Its places are constants, and those of the queue.
    fn word(&self, offset: usize) -> &AtomicU32 {
        // `Area::new` saw to it that the view is as long as the area.
        self.first.view.word(offset).unwrap_or(&NOWHERE)
    }
}

/// In place of a word that no area has.
static NOWHERE: AtomicU32 = AtomicU32::new(0);

/// A slot of the guest's.
pub(super) struct Slot<'a> {
    view: &'a View,
    start: usize,
    state: &'a AtomicU32,
}

impl<'a> Slot<'a> {
    fn new(view: &'a View, start: usize) -> Option<Self> {
        let state = view.word(start + slot::STATE)?;
        (start + SLOT_BYTES <= view.len()).then_some(Self { view, start, state })
    }

    /// Writes the header of a call, and its request unless that is in a payload's blob (its resource id, else 0).
    pub(super) fn fill(&self, command: u32, request: &[u8], room: u32, payload: u32) {
        let len = request.len() as u32;
        for (offset, value) in [
            (slot::COMMAND, command),
            (slot::REQUEST_LEN, len),
            (slot::ROOM, room),
            (slot::PAYLOAD, payload),
            (slot::STATUS, 0),
            (slot::ANSWER_LEN, 0),
            (slot::SLEEPS, 0),
        ] {
            self.word(offset).store(value, Ordering::Relaxed);
        }
        if payload == 0 {
            let written = request.len() <= INLINE && self.view.write(self.start + SLOT_HEADER, request);
            debug_assert!(written, "a longer request has a payload");
        }
        self.state.store(state::SUBMITTED, Ordering::Release);
    }

    /// Whether the answer is there.
    pub(super) fn is_done(&self) -> bool {
        self.state.load(Ordering::SeqCst) == state::DONE
    }

    /// Says that somebody sleeps for the answer.
    pub(super) fn set_sleeps(&self) {
        self.word(slot::SLEEPS).store(1, Ordering::SeqCst);
    }

    /// Errno of a command that was not executed, or 0; and bytes of the answer.
    pub(super) fn outcome(&self) -> (u32, u32) {
        let of = |offset| self.word(offset).load(Ordering::Relaxed);
        (of(slot::STATUS), of(slot::ANSWER_LEN))
    }

    /// Copies the answer out. `false` if the slot has not so many bytes.
    pub(super) fn read(&self, bytes: &mut [u8]) -> bool {
        bytes.len() <= INLINE && self.view.read(self.start + SLOT_HEADER, bytes)
    }

    /// Nobody's again.
    pub(super) fn free(&self) {
        self.state.store(state::FREE, Ordering::Relaxed);
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // The whole slot lies in the view.
        self.view.word(self.start + offset).unwrap_or(&NOWHERE)
    }
}

const _: () = assert!(SLOTS as usize * SLOT_BYTES == MORE_BYTES);
