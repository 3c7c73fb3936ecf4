//! The call area, as the worker sees it: words, the queue, slots. All of it changes at any time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::Errno;
use protocol::wire::area::{
    AREA_BYTES, INLINE, MORE_BYTES, SLOT_HEADER, queue_place, slot, slot_place, state, word,
};
use protocol::wire::{Answer, MESSAGE_MAX};
use vm_memory::{Bytes as _, VolatileSlice};

use super::blob::{Blob, Blobs};

/// A blob that holds slots, mapped.
#[derive(Clone, Debug)]
pub(super) struct Area(Arc<Blob>);

impl Area {
    /// The first area of a context.
    ///
    /// # Errors
    /// `EINVAL` for a blob of another size; `ENOMEM` if it cannot be mapped.
    pub(super) fn first(blob: Arc<Blob>) -> Result<Area, Errno> {
        Area::new(blob, AREA_BYTES)
    }

    /// A further one.
    ///
    /// # Errors
    /// As for the first.
    pub(super) fn further(blob: Arc<Blob>) -> Result<Area, Errno> {
        Area::new(blob, MORE_BYTES)
    }

    fn new(blob: Arc<Blob>, bytes: usize) -> Result<Area, Errno> {
        if blob.size() != (bytes as u64).next_multiple_of(super::mapping::PAGE) {
            return Err(Errno::EINVAL);
        }
        blob.memory()?;
        Ok(Area(blob))
    }

    fn memory(&self) -> Option<VolatileSlice<'_>> {
        self.0.memory().ok()
    }

    fn load(&self, offset: usize, order: Ordering) -> u32 {
        self.memory().and_then(|memory| memory.load(offset, order).ok()).map_or(0, u32::from_le)
    }

    fn store(&self, offset: usize, value: u32, order: Ordering) {
        if let Some(memory) = self.memory() {
            // It cannot fail: offsets are those of `protocol::wire::area`, which lie in every area.
            drop(memory.store(value.to_le(), offset, order));
        }
    }

    /// Calls that the guest has submitted.
    pub(super) fn submitted(&self) -> u32 {
        self.load(word::SUBMITTED, Ordering::SeqCst)
    }

    /// The slot of a call.
    pub(super) fn queued(&self, call: u32) -> u32 {
        self.load(queue_place(call), Ordering::Relaxed)
    }

    pub(super) fn set_taken(&self, count: u32) {
        self.store(word::TAKEN, count, Ordering::Relaxed);
    }

    pub(super) fn set_asleep(&self, asleep: bool) {
        self.store(word::ASLEEP, asleep.into(), Ordering::SeqCst);
    }

    pub(super) fn set_completed(&self, count: u32) {
        self.store(word::COMPLETED, count, Ordering::SeqCst);
    }

    pub(super) fn set_wakes(&self, count: u32) {
        self.store(word::WAKES, count, Ordering::SeqCst);
    }
}

/// The slot with this number, in one of these areas.
pub(super) fn slot_in(areas: &[Area], number: u32) -> Option<Slot> {
    let (area, at) = slot_place(number)?;
    let area = areas.get(usize::try_from(area).ok()?)?.clone();
    Some(Slot { area, at })
}

/// A slot.
#[derive(Debug)]
pub(super) struct Slot {
    area: Area,
    at: usize,
}

/// What a slot holds, copied out of it.
#[derive(Debug)]
pub(super) struct Submitted {
    /// Number of the command.
    pub(super) command: u32,
    /// The request.
    pub(super) request: Vec<u8>,
    /// Where the answer goes.
    pub(super) place: Place,
}

/// Where an answer goes, and how long it may be.
#[derive(Debug, Default)]
pub(super) struct Place {
    payload: Option<Arc<Blob>>,
    room: usize,
}

impl Place {
    /// Bytes that the answer may have.
    pub(super) fn room(&self) -> usize {
        self.room
    }
}

impl Slot {
    fn header(&self, field: usize, order: Ordering) -> u32 {
        self.area.load(self.at + field, order)
    }

    /// Whether the guest has given it to the worker.
    pub(super) fn is_submitted(&self) -> bool {
        self.header(slot::STATE, Ordering::Acquire) == state::SUBMITTED
    }

    /// Whether the guest sleeps for the answer.
    pub(super) fn guest_sleeps(&self) -> bool {
        self.header(slot::SLEEPS, Ordering::SeqCst) != 0
    }

    /// Copies it out. Each field is read once.
    ///
    /// # Errors
    /// `E2BIG` for a request that is longer than the place that it is in; `ENOENT` where that place is not.
    pub(super) fn read(&self, blobs: &Blobs) -> Result<Submitted, Errno> {
        let field = |field| self.header(field, Ordering::Relaxed);
        let command = field(slot::COMMAND);
        let len = field(slot::REQUEST_LEN) as usize;
        let room = field(slot::ROOM) as usize;
        let payload = match field(slot::PAYLOAD) {
            0 => None,
            id => Some(blobs.wait_for(id)?),
        };
        let bytes = match &payload {
            None => INLINE,
            Some(blob) => usize::try_from(blob.size()).unwrap_or(usize::MAX).min(MESSAGE_MAX),
        };
        if len > bytes {
            return Err(Errno::E2BIG);
        }
        let mut request = vec![0; len];
        let read = match &payload {
            None => self.area.memory().map(|memory| memory.read_slice(&mut request, self.at + SLOT_HEADER)),
            Some(blob) => Some(blob.memory()?.read_slice(&mut request, 0)),
        };
        read.and_then(Result::ok).ok_or(Errno::ENOMEM)?;
        Ok(Submitted { command, request, place: Place { payload, room: room.min(bytes) } })
    }

    /// Writes an answer, or a status alone, and gives the slot back.
    pub(super) fn answer(&self, place: &Place, answer: Result<&Answer<'_>, Errno>) {
        let written = answer.and_then(|answer| self.write(place, answer));
        let (len, status) = match written {
            Ok(len) => (len, 0),
            Err(errno) => (0, errno.raw().unsigned_abs()),
        };
        self.area.store(self.at + slot::STATUS, status, Ordering::Relaxed);
        self.area.store(self.at + slot::ANSWER_LEN, len, Ordering::Relaxed);
        self.area.store(self.at + slot::STATE, state::DONE, Ordering::SeqCst);
    }

    /// Returns how many bytes it has.
    fn write(&self, place: &Place, answer: &Answer<'_>) -> Result<u32, Errno> {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        if bytes.len() > place.room {
            return Err(Errno::E2BIG);
        }
        let written = match &place.payload {
            None => self.area.memory().map(|memory| memory.write_slice(&bytes, self.at + SLOT_HEADER)),
            Some(blob) => Some(blob.memory()?.write_slice(&bytes, 0)),
        };
        written.and_then(Result::ok).ok_or(Errno::ENOMEM)?;
        u32::try_from(bytes.len()).map_err(|_| Errno::E2BIG)
    }
}
