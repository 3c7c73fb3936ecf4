//! Doorbells: eight bytes of shared memory per queue into which programs store write pointers.

use std::sync::atomic::Ordering;

use crate::mem::HostMem;

/// What stands in a doorbell that nobody has rung. The first AQL doorbell value is 0, so zero would
/// not do.
pub(crate) const NOT_RUNG: u64 = u64::MAX;

/// Bytes of one doorbell on gfx9 and later (`doorbell_size` of `kfd_device_info`).
pub(crate) const SIZE: usize = 8;

/// One doorbell.
#[derive(Clone, Debug)]
pub(crate) struct Doorbell {
    mem: HostMem,
}

impl Doorbell {
    /// The doorbell at `offset` of a process's doorbell pages, set to not rung, so that what the last
    /// queue of this slot was told is forgotten. `None` for an offset that is misaligned or outside.
    pub(crate) fn reset(pages: &HostMem, offset: usize) -> Option<Self> {
        let mem = pages.slice(offset, SIZE)?;
        mem.atomic_u64(0)?.store(NOT_RUNG, Ordering::Release);
        Some(Self { mem })
    }

    /// The value that was rung since the last call.
    ///
    /// Hardware sees every store, a poller the last one only; taking the value out at least makes
    /// visible that the same value was rung again.
    pub(super) fn take(&self) -> Option<Rung> {
        let slot = self.mem.atomic_u64(0)?;
        if slot.load(Ordering::Relaxed) == NOT_RUNG {
            return None;
        }
        Rung::from_slot(slot.swap(NOT_RUNG, Ordering::AcqRel))
    }
}

/// A value stored to a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// An eight-byte store.
    Full(u64),
    /// A four-byte store (kfdtest rings AQL queues so): the upper half still reads as not rung.
    Low(u32),
}

impl Rung {
    fn from_slot(value: u64) -> Option<Self> {
        let [low, high] = [value, value >> 32].map(|half| u32::try_from(half & 0xffff_ffff).unwrap_or(0));
        match (high, value) {
            (_, NOT_RUNG) => None,
            (u32::MAX, _) => Some(Rung::Low(low)),
            _ => Some(Rung::Full(value)),
        }
    }

    /// The full value, where the last known one is `last`: the nearest one not before it, unless the
    /// step would be more than half of the 32-bit range.
    pub(super) const fn value(self, last: u64) -> u64 {
        match self {
            Rung::Full(value) => value,
            Rung::Low(low) => {
                let ahead = low.wrapping_sub(last as u32);
                if ahead < 1 << 31 {
                    last.wrapping_add(ahead as u64)
                } else {
                    last.wrapping_sub(last.wrapping_sub(low as u64) & 0xffff_ffff)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_four_bytes_are_completed_from_the_last_one() {
        assert_eq!(Rung::from_slot(0xffff_ffff_0000_0007), Some(Rung::Low(7)));
        assert_eq!(Rung::Low(7).value(5), 7);
        assert_eq!(Rung::Low(1).value(0xffff_ffff), 0x1_0000_0001);
        assert_eq!(Rung::Low(4).value(0x1_0000_0005), 0x1_0000_0004, "late store of an older value");
        assert_eq!(Rung::from_slot(7), Some(Rung::Full(7)));
        assert_eq!(Rung::from_slot(NOT_RUNG), None);
    }
}
