//! Events in the program's memory.

use std::fmt;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::hsakmt::event::EventMember;
use protocol::hsakmt::{Event, EventData, EventPayload, EventType};

/// An `HsaEvent` where the program can see it.
///
/// Several threads of a program may wait for one event, and it may stand in one list twice, so what a wait writes
/// back can meet what another one reads. Its 32-bit words are therefore atomics; to C it is the plain struct.
#[repr(transparent)]
pub struct SharedEvent([AtomicU32; WORDS]);

/// Bytes of a word.
const WORD: usize = size_of::<u32>();
const WORDS: usize = size_of::<Event>() / WORD;
const ID: usize = offset_of!(Event, event_id) / WORD;
const DATA: usize = offset_of!(Event, event_data) / WORD;
const KIND: usize = DATA + offset_of!(EventData, event_type) / WORD;
const PAYLOAD: usize = DATA + offset_of!(EventData, event_data) / WORD;

const _: () = assert!(size_of::<SharedEvent>() == size_of::<Event>());
const _: () = assert!(align_of::<SharedEvent>() == align_of::<Event>());

impl SharedEvent {
    /// KFD's id of the event.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0[ID].load(Ordering::Relaxed)
    }

    /// The kind of event, as the program's struct says it.
    #[must_use]
    pub fn kind(&self) -> EventType {
        EventType(self.0[KIND].load(Ordering::Relaxed))
    }

    /// All of it.
    #[must_use]
    pub fn get(&self) -> Event {
        zerocopy::transmute!(self.0.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// Writes a member of the union `EventData`; what is behind it stays.
    pub(super) fn set_payload<T: EventMember>(&self, member: &T) {
        let words = EventPayload::new(member).0;
        let count = size_of_val(member) / WORD;
        for (to, from) in self.0.iter().skip(PAYLOAD).zip(words).take(count) {
            to.store(from, Ordering::Relaxed);
        }
    }
}

impl From<Event> for SharedEvent {
    fn from(event: Event) -> Self {
        let words: [u32; WORDS] = zerocopy::transmute!(event);
        Self(words.map(AtomicU32::new))
    }
}

impl fmt::Debug for SharedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use protocol::hsakmt::{HwException, MemoryAccessFault};

    use super::*;

    #[test]
    fn an_event_is_its_struct() {
        let mut event = Event { event_id: 77, ..Default::default() };
        event.event_data.event_type = EventType::MEMORY;
        event.event_data.hw_data1 = 0x1122_3344_5566_7788;
        event.event_data.hw_data3 = 9;
        let shared = SharedEvent::from(event);
        assert_eq!((shared.id(), shared.kind()), (77, EventType::MEMORY));
        assert_eq!(shared.get(), event);
    }

    #[test]
    fn a_payload_changes_nothing_else() {
        let mut event = Event { event_id: 1, ..Default::default() };
        event.event_data.hw_data1 = u64::MAX;
        event.event_data.event_data = EventPayload([u32::MAX; 5]);
        let shared = SharedEvent::from(event);
        let exception = HwException { node_id: 2, reset_type: 0, memory_lost: 1, ..Default::default() };
        shared.set_payload(&exception);
        let now = shared.get();
        assert_eq!({ now.event_data.event_data }.get::<HwException>(), exception);
        assert_eq!({ now.event_data.event_data }.0[4], u32::MAX, "the struct of 16 bytes ends before");
        assert_eq!({ now.event_data.hw_data1 }, u64::MAX);
        let fault = MemoryAccessFault { node_id: 1, virtual_address: 0x7000, ..Default::default() };
        shared.set_payload(&fault);
        assert_eq!({ shared.get().event_data.event_data }.get::<MemoryAccessFault>(), fault);
        assert_eq!({ shared.get().event_data.hw_data1 }, u64::MAX);
    }
}
