//! Interrupts that waves ask for.
//!
//! Waves run on several threads, of which only that of the queues speaks to the process: it hands on what all of them sent.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::engine::Interrupts;

/// Bits of the event id that an interrupt of a wave carries (`kfd_int_process_v9.c`).
const ID_BITS: u32 = 24;
/// Different ids that are remembered, as many as a process has signal events. With more, the driver is told to look at all.
const MOST: usize = 4096;

/// What waves sent since it was handed on.
#[derive(Debug, Default)]
pub(super) struct Messages(Mutex<Sent>);

#[derive(Debug, Default)]
struct Sent {
    ids: BTreeSet<u32>,
    more: bool,
}

impl Messages {
    pub(super) fn send(&self, id: u32) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.ids.len() < MOST {
            sent.ids.insert(id);
        } else {
            sent.more = true;
        }
    }

    /// Tells the process. A message that was sent twice in the meantime is one: a signal is no counter.
    pub(super) fn hand_on(&self, interrupts: &dyn Interrupts) {
        let Sent { ids, more } = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for id in ids {
            interrupts.signal_event(id, ID_BITS);
        }
        if more {
            interrupts.signal_event(0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::GpuFault;

    #[derive(Default)]
    struct Log(Mutex<Vec<(u32, u32)>>);

    impl Interrupts for Log {
        fn signal_event(&self, id: u32, bits: u32) {
            self.0.lock().unwrap().push((id, bits));
        }
        fn memory_fault(&self, _: u32, _: GpuFault) {}
        fn queue_exception(&self, _: u32, _: u64) {}
    }

    #[test]
    fn more_messages_than_events_make_the_driver_look_at_all() {
        let (messages, log) = (Messages::default(), Log::default());
        (0..2).for_each(|_| messages.send(7));
        messages.hand_on(&log);
        messages.hand_on(&log);
        assert_eq!(log.0.lock().unwrap().drain(..).collect::<Vec<_>>(), [(7, 24)]);
        (0..5000).for_each(|id| messages.send(id));
        messages.hand_on(&log);
        let told = log.0.lock().unwrap();
        assert_eq!((told.len(), told.last()), (4097, Some(&(0, 0))));
    }
}
