//! HSA signals in memory: `amd_signal_t` of `amd_hsa_signal.h`.

use std::sync::atomic::Ordering;

use crate::engine::GpuFault;
use crate::engine::context::Cx;

// Byte offsets in amd_signal_t.
const VALUE: u64 = 8;
const EVENT_MAILBOX_PTR: u64 = 16;
const EVENT_ID: u64 = 24;
const START_TS: u64 = 32;
const END_TS: u64 = 40;

/// Bits of the event id that an end-of-pipe interrupt carries (`kfd_int_process_v9.c`).
pub(in crate::engine) const END_OF_PIPE_ID_BITS: u32 = 32;

/// A signal by its handle: the address of the `amd_signal_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Signal(pub(in crate::engine) u64);

impl Signal {
    /// The value.
    pub(in crate::engine) fn load(self, cx: Cx<'_>) -> Result<i64, GpuFault> {
        let value = cx.vm.read_u64(self.0.wrapping_add(VALUE))?.cast_signed();
        std::sync::atomic::fence(Ordering::Acquire);
        Ok(value)
    }

    /// When the work that the signal stands for began and ended, in GPU ticks.
    pub(in crate::engine) fn set_times(self, cx: Cx<'_>, start: u64, end: u64) -> Result<(), GpuFault> {
        cx.vm.write_u64(self.0.wrapping_add(START_TS), start)?;
        cx.vm.write_u64(self.0.wrapping_add(END_TS), end)
    }

    /// Decrements the value and tells whoever sleeps on it.
    pub(in crate::engine) fn decrement(self, cx: Cx<'_>) -> Result<(), GpuFault> {
        // Before the value changes: the waiter may free the signal at once.
        let event = self.event(cx)?;
        cx.vm.atomic_u64(self.0.wrapping_add(VALUE), |value| value.fetch_sub(1, Ordering::AcqRel))?;
        notify(cx, event)
    }

    /// Stores a value and tells whoever sleeps on it.
    pub(in crate::engine) fn store(self, cx: Cx<'_>, value: i64) -> Result<(), GpuFault> {
        let event = self.event(cx)?;
        let store =
            |slot: &std::sync::atomic::AtomicU64| slot.store(value.cast_unsigned(), Ordering::Release);
        cx.vm.atomic_u64(self.0.wrapping_add(VALUE), store)?;
        notify(cx, event)
    }

    fn event(self, cx: Cx<'_>) -> Result<Option<(u64, u32)>, GpuFault> {
        let mailbox = cx.vm.read_u64(self.0.wrapping_add(EVENT_MAILBOX_PTR))?;
        if mailbox == 0 {
            return Ok(None);
        }
        Ok(Some((mailbox, cx.vm.read_u32(self.0.wrapping_add(EVENT_ID))?)))
    }
}

/// Writes the event id to its mailbox slot, then interrupts.
fn notify(cx: Cx<'_>, event: Option<(u64, u32)>) -> Result<(), GpuFault> {
    if let Some((mailbox, event_id)) = event {
        cx.vm.write_u64(mailbox, u64::from(event_id))?;
        cx.interrupts.signal_event(event_id, END_OF_PIPE_ID_BITS);
    }
    Ok(())
}
