//! The event page: one 64-bit slot for each signal event, written by the GPU.

use std::sync::atomic::Ordering;

use protocol::Errno;
use protocol::kfd::Mapping;
use protocol::kfd::constants::SIGNAL_EVENT_LIMIT;

use crate::mem::{Arena, HostMem};

/// Bytes of the kernel's own event page.
pub(super) const PAGE_BYTES: u64 = SIGNAL_EVENT_LIMIT as u64 * 8;

/// `UNSIGNALED_EVENT_SLOT`.
pub(super) const UNSIGNALED: u64 = u64::MAX;

/// An event page in use (`struct kfd_signal_page`).
#[derive(Debug)]
pub(super) struct SignalPage {
    slots: HostMem,
    /// Where the driver's own page can be mapped; `None` for a buffer of the process.
    mapping: Option<Mapping>,
}

impl SignalPage {
    /// Takes a buffer into use, all slots unsignaled.
    pub(super) fn new(slots: HostMem) -> Self {
        let page = Self { slots, mapping: None };
        for index in 0..SIGNAL_EVENT_LIMIT {
            page.clear(index);
        }
        page
    }

    /// The driver's own page, which programs map through `/dev/kfd` (`allocate_signal_page`).
    pub(super) fn of_the_driver(arena: &Arena) -> Result<Self, Errno> {
        let slots = arena.alloc(PAGE_BYTES, PAGE_BYTES).map_err(|_| Errno::ENOMEM)?;
        let (fd, offset) = slots.file_range().ok_or(Errno::ENOMEM)?;
        let mapping = Mapping { fd, offset, len: PAGE_BYTES, writable: true };
        Ok(Self { mapping: Some(mapping), ..Self::new(slots) })
    }

    /// Whether the GPU has written to slot `index`; false for one that the page does not have.
    pub(super) fn is_signaled(&self, index: u32) -> bool {
        let slot = self.slots.atomic_u64(index as usize * 8);
        slot.is_some_and(|slot| slot.load(Ordering::SeqCst) != UNSIGNALED)
    }

    /// Acknowledges a signal, or makes the slot of a new event ready.
    pub(super) fn clear(&self, index: u32) {
        if let Some(slot) = self.slots.atomic_u64(index as usize * 8) {
            slot.store(UNSIGNALED, Ordering::SeqCst);
        }
    }

    /// The first `len` bytes, for a program to map (`kfd_event_mmap`).
    pub(super) fn map(&self, len: u64) -> Result<Mapping, Errno> {
        // The kernel compares powers of two of pages; the page itself is one, so a plain comparison is the same.
        if len > PAGE_BYTES {
            return Err(Errno::EINVAL);
        }
        let mapping = self.mapping.as_ref().ok_or(Errno::EINVAL)?;
        Ok(Mapping { len, ..mapping.clone() })
    }

    /// Offset in `/dev/kfd` at which the driver's own page lies.
    pub(super) fn offset(&self) -> Option<u64> {
        self.mapping.as_ref().map(|mapping| mapping.offset)
    }
}
