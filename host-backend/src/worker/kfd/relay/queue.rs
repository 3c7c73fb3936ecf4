//! One queue's doorbell: what was rung, and what is to be rung.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::kfd::args::CreateQueueArgs;
use protocol::kfd::constants::QueueType;
use vm_memory::{Bytes as _, VolatileMemory as _};

use crate::worker::kfd::blob::Blob;
use crate::worker::kfd::mapping::Mapped;
use crate::worker::kfd::space::Pin;

/// What stands in a doorbell that nobody has rung: the first value of an AQL queue is 0.
const NOT_RUNG: u64 = u64::MAX;

/// When a doorbell is rung once more, because the queue does not move; then twice as long after that, and so on.
const AGAIN: Duration = Duration::from_millis(1);
const AGAIN_MAX: Duration = Duration::from_secs(1);

/// What a doorbell counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The last packet that is there.
    Aql,
    /// 32-bit words before which packets are there; the read pointer is one in the ring.
    Pm4,
    /// The same in bytes; the read pointer counts on.
    Sdma,
}

/// A queue.
#[derive(Debug)]
pub(in crate::worker::kfd) struct Queue {
    /// Its doorbell's place in the file.
    doorbell: u64,
    kind: Kind,
    /// Bytes.
    ring_size: u32,
    write: Option<Pin>,
    read: Option<Pin>,
    /// What was rung last.
    last: Option<u64>,
    /// The read pointer when the doorbell was rung, and when it will be rung again.
    stands: Option<(u64, Instant, Duration)>,
}

impl Queue {
    /// A queue that was just made, with what is known of its pointers.
    pub(in crate::worker::kfd) fn new(
        args: &CreateQueueArgs,
        write: Option<Pin>,
        read: Option<Pin>,
    ) -> Queue {
        let kind = match QueueType(args.queue_type) {
            QueueType::COMPUTE_AQL => Kind::Aql,
            QueueType::COMPUTE => Kind::Pm4,
            _ => Kind::Sdma,
        };
        let (doorbell, ring_size) = (args.doorbell_offset, args.ring_size);
        Queue { doorbell, kind, ring_size, write, read, last: None, stands: None }
    }

    pub(super) fn doorbell(&self) -> u64 {
        self.doorbell
    }

    pub(super) fn set_ring_size(&mut self, bytes: u32) {
        self.ring_size = bytes;
    }

    /// Looks whether the guest has rung, and rings. Returns whether something was done.
    pub(super) fn look(&mut self, guest: &Blob, device: &Mapped, offset: usize, now: Instant) -> bool {
        let rung = take(guest, offset).map(|value| complete(value, self.last.unwrap_or(0)));
        let written = self.write.as_ref().and_then(Pin::load).and_then(|pointer| self.of_pointer(pointer));
        // Never backwards.
        let value = rung.into_iter().chain(written).chain(self.last).max();
        let Some(value) = value else { return false };
        let moved = rung.is_some() || self.last != Some(value);
        if moved {
            self.stands = None;
        } else if !self.is_due(value, now) {
            return false;
        }
        self.last = Some(value);
        // One aligned store. It cannot fail: offsets of doorbells are multiples of their size.
        drop(device.slice().store(value.to_le(), offset, Ordering::Release));
        self.note(value, now);
        moved
    }

    /// The doorbell that a write pointer stands for; `None` for a queue without packets.
    fn of_pointer(&self, pointer: u64) -> Option<u64> {
        match self.kind {
            Kind::Aql => pointer.checked_sub(1),
            Kind::Pm4 | Kind::Sdma => (pointer > 0).then_some(pointer),
        }
    }

    /// Whether the queue has not done what it was rung for.
    fn is_behind(&self, value: u64, read: u64) -> bool {
        match self.kind {
            Kind::Aql => read <= value,
            Kind::Sdma => read < value,
            Kind::Pm4 => {
                u64::from(self.ring_size / 4).checked_sub(1).is_some_and(|mask| value & mask != read)
            }
        }
    }

    /// Whether the queue stands still although there is something to do, long enough for another try.
    fn is_due(&mut self, value: u64, now: Instant) -> bool {
        let Some((stood, at, pause)) = self.stands else { return false };
        let read = self.read.as_ref().and_then(Pin::load).unwrap_or(u64::MAX);
        if !self.is_behind(value, read) {
            self.stands = None;
            return false;
        }
        if read != stood {
            self.stands = Some((read, now + AGAIN, AGAIN));
            return false;
        }
        now >= at && pause <= AGAIN_MAX
    }

    /// The doorbell was rung.
    fn note(&mut self, value: u64, now: Instant) {
        let Some(read) = self.read.as_ref().and_then(Pin::load) else { return };
        let pause = self.stands.map_or(AGAIN, |(_, _, pause)| pause.saturating_mul(2).min(AGAIN_MAX));
        self.stands = self.is_behind(value, read).then(|| (read, now + pause, pause));
    }
}

/// Takes out what was stored in a slot, so that the same value stored again is seen.
fn take(guest: &Blob, offset: usize) -> Option<u64> {
    let memory = guest.memory().ok()?;
    let slot = memory.get_atomic_ref::<AtomicU64>(offset).ok()?;
    if slot.load(Ordering::Relaxed) == NOT_RUNG {
        return None;
    }
    Some(u64::from_le(slot.swap(NOT_RUNG, Ordering::AcqRel))).filter(|value| *value != NOT_RUNG)
}

/// Nobody has rung.
pub(super) fn forget(guest: &Blob, offset: usize) {
    if let Ok(memory) = guest.memory() {
        // A page that is too short has no doorbell there.
        drop(memory.store(NOT_RUNG, offset, Ordering::Release));
    }
}

/// The full value of a store of four bytes, whose upper half still says that nobody has rung: the nearest one that is not
/// before the last value, unless the step would be more than half of the 32-bit range. A full value is taken as it is.
fn complete(value: u64, last: u64) -> u64 {
    const LOW: u64 = 0xffff_ffff;
    if value >> 32 != LOW {
        return value;
    }
    let ahead = (value & LOW).wrapping_sub(last & LOW) & LOW;
    if ahead < 1 << 31 { last.wrapping_add(ahead) } else { last }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;
    use crate::worker::GuestBlob;
    use crate::worker::kfd::blob::Blobs;
    use crate::worker::kfd::mapping;
    use crate::worker::kfd::space::{AddressRange, Space, SpaceLimits};

    /// A queue with pointers, its guest's page and the device's.
    struct Rig {
        queue: Queue,
        blobs: Blobs,
        device: Mapped,
    }

    const PAGES: u32 = 1;
    const POINTERS: u32 = 2;
    const SLOT: usize = 24;

    fn file(len: u64) -> Arc<OwnedFd> {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, len).expect("truncate");
        Arc::new(file)
    }

    impl Rig {
        fn new(kind: QueueType, at: u64) -> Rig {
            let mappings = Arc::default();
            let blobs = Blobs::new(Arc::clone(&mappings));
            for (id, size) in [(PAGES, 8192), (POINTERS, 4096)] {
                blobs.attach(GuestBlob { id, size, pieces: vec![(file(size), 0, size)] });
            }
            let page = AddressRange { base: at, len: 4096 };
            let limits = SpaceLimits { bytes: 4096, aliases: 1 };
            let space = Arc::new(Space::reserve(page, limits, Arc::clone(&mappings)).expect("free"));
            space.alias(page, blobs.get(POINTERS).expect("there"), 0).expect("mapped");
            let pin = |offset| space.pin(AddressRange { base: at + offset, len: 8 }).ok();
            let args = CreateQueueArgs { queue_type: kind.0, ring_size: 4096, ..Default::default() };
            let queue = Queue::new(&args, pin(0), pin(8));
            let device = mapping::file(&file(8192), 0, 8192, &mappings).expect("mapped");
            let rig = Rig { queue, blobs, device };
            rig.device.slice().store(NOT_RUNG, SLOT, Ordering::Relaxed).expect("inside");
            rig.ring(NOT_RUNG);
            rig
        }

        fn ring(&self, value: u64) {
            let page = self.blobs.get(PAGES).expect("there");
            page.memory().expect("mapped").store(value, SLOT, Ordering::Relaxed).expect("inside");
        }

        /// Write pointer and read pointer.
        fn points(&self, write: u64, read: u64) {
            let blob = self.blobs.get(POINTERS).expect("there");
            let memory = blob.memory().expect("mapped");
            memory.store(write, 0, Ordering::Relaxed).expect("inside");
            memory.store(read, 8, Ordering::Relaxed).expect("inside");
        }

        /// What the device was rung with, if it was.
        fn look(&mut self, now: Instant) -> Option<u64> {
            let slice = self.device.slice();
            slice.store(NOT_RUNG, SLOT, Ordering::Relaxed).expect("inside");
            let page = self.blobs.get(PAGES).expect("there");
            self.queue.look(&page, &self.device, SLOT, now);
            let value = self.device.slice().load::<u64>(SLOT, Ordering::Relaxed).expect("inside");
            (value != NOT_RUNG).then_some(value)
        }
    }

    #[test]
    fn an_aql_doorbell_is_the_last_packet_and_never_goes_back() {
        let mut rig = Rig::new(QueueType::COMPUTE_AQL, 34 << 40);
        let now = Instant::now();
        assert_eq!(rig.look(now), None, "no packet");
        rig.ring(0);
        assert_eq!(rig.look(now), Some(0));
        rig.points(7, 7);
        assert_eq!(rig.look(now), Some(6), "from the write pointer");
        rig.ring(5);
        assert_eq!(rig.look(now), Some(6), "a late store of another producer");
        assert_eq!(rig.look(now), None);
        rig.ring(6);
        assert_eq!(rig.look(now), Some(6), "the same value again");
    }

    #[test]
    fn an_sdma_doorbell_is_the_write_pointer() {
        let mut rig = Rig::new(QueueType::SDMA, 35 << 40);
        let now = Instant::now();
        assert_eq!(rig.look(now), None);
        rig.points(64, 0);
        assert_eq!(rig.look(now), Some(64));
        rig.ring(128);
        assert_eq!(rig.look(now), Some(128));
        rig.points(96, 0);
        assert_eq!(rig.look(now), None);
    }

    #[test]
    fn a_queue_that_stands_still_is_rung_ever_less_often() {
        let mut rig = Rig::new(QueueType::SDMA, 36 << 40);
        let start = Instant::now();
        rig.points(64, 0);
        let times = (0..4000).map(|ms| start + Duration::from_millis(ms));
        let rung: Vec<u128> =
            times.filter_map(|now| rig.look(now).map(|_| now.duration_since(start).as_millis())).collect();
        assert_eq!(&rung[..8], [0, 1, 3, 7, 15, 31, 63, 127]);
        rig.points(64, 64);
        assert_eq!(rig.look(start + Duration::from_secs(9)), None, "it has done its work");
        assert_eq!(rig.queue.stands, None);
    }

    #[test]
    fn stores_of_four_bytes_are_completed() {
        assert_eq!(complete(0xffff_ffff_0000_0007, 5), 7);
        assert_eq!(complete(0xffff_ffff_0000_0001, 0xffff_ffff), 0x1_0000_0001);
        assert_eq!(complete(0xffff_ffff_0000_0004, 0x1_0000_0005), 0x1_0000_0005, "late store");
        assert_eq!(complete(7, 5), 7);
    }
}
