//! The event page: one 64-bit slot for each signal event, written by the GPU.

use std::fmt;
use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::Mapping;

/// `KFD_SIGNAL_EVENT_LIMIT`: slots that an event page has at least.
pub(super) const SIGNAL_EVENT_LIMIT: u32 = 4096;

/// Bytes of the kernel's own event page.
pub(super) const PAGE_BYTES: u64 = SIGNAL_EVENT_LIMIT as u64 * 8;

/// `UNSIGNALED_EVENT_SLOT`.
pub(super) const UNSIGNALED: u64 = u64::MAX;

/// The memory of an event page, shared with the program and the GPU.
pub(crate) trait Slots: Send + Sync {
    /// The value of slot `index`; [`u64::MAX`] (unsignaled) for one that the page does not have.
    fn load(&self, index: u32) -> u64;

    /// Sets slot `index`; nothing happens for one that the page does not have.
    fn store(&self, index: u32, value: u64);
}

/// An event page in use (`struct kfd_signal_page`).
pub(super) struct SignalPage {
    slots: Arc<dyn Slots>,
    /// Where the driver's own page can be mapped; `None` for a buffer of the process.
    mapping: Option<Mapping>,
}

impl fmt::Debug for SignalPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalPage").field("mapping", &self.mapping).finish_non_exhaustive()
    }
}

impl SignalPage {
    /// Takes memory into use, all slots unsignaled.
    pub(super) fn new(slots: Arc<dyn Slots>, mapping: Option<Mapping>) -> Self {
        for index in 0..SIGNAL_EVENT_LIMIT {
            slots.store(index, UNSIGNALED);
        }
        Self { slots, mapping }
    }

    pub(super) fn is_signaled(&self, index: u32) -> bool {
        self.slots.load(index) != UNSIGNALED
    }

    /// Acknowledges a signal, or makes the slot of a new event ready.
    pub(super) fn clear(&self, index: u32) {
        self.slots.store(index, UNSIGNALED);
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
