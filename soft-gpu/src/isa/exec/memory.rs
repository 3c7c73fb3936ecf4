//! Memory as waves see it, and their way to the driver.

use std::ops::Range;

use super::wave::LANES;

/// A memory access that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory fault at {addr:#x} ({})", if *.write { "write" } else { "read" })]
pub struct MemFault {
    /// First faulting address.
    pub addr: u64,
    /// Whether it was a store or an atomic.
    pub write: bool,
    /// Whether nothing is mapped there.
    pub not_present: bool,
}

/// Memory by GPU virtual address.
pub trait Memory {
    /// Reads bytes; aligned words in one access.
    ///
    /// # Errors
    /// The first address that faults.
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), MemFault>;

    /// Writes bytes; aligned words in one access.
    ///
    /// # Errors
    /// The first address that faults.
    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), MemFault>;

    /// Replaces a word by what `op` makes of it, in one step that other processors respect; returns the old one.
    ///
    /// # Errors
    /// A fault, also where `addr` is not aligned.
    fn atomic_u32(&self, addr: u64, op: &mut dyn FnMut(u32) -> u32) -> Result<u32, MemFault>;

    /// See [`Self::atomic_u32`].
    ///
    /// # Errors
    /// A fault, also where `addr` is not aligned.
    fn atomic_u64(&self, addr: u64, op: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemFault>;

    /// Interrupts the driver with 24 bits of data (`s_sendmsg`).
    fn interrupt(&self, data: u32);

    /// Reads `len` bytes (at most 16) for each lane of `mask`.
    ///
    /// # Errors
    /// The first address that faults; lanes before it were read.
    fn gather(
        &self,
        mask: u64,
        addrs: &[u64; LANES],
        len: usize,
        out: &mut [[u8; 16]; LANES],
    ) -> Result<(), MemFault> {
        active(mask).try_for_each(|lane| self.read(addrs[lane], &mut out[lane][..len]))
    }

    /// Writes the bytes of `part` of each lane of `mask`, in order of the lanes.
    ///
    /// # Errors
    /// The first address that faults; lanes before it were written.
    fn scatter(
        &self,
        mask: u64,
        addrs: &[u64; LANES],
        part: Range<usize>,
        data: &[[u8; 16]; LANES],
    ) -> Result<(), MemFault> {
        active(mask).try_for_each(|lane| self.write(addrs[lane], &data[lane][part.clone()]))
    }
}

/// Active lanes, in order.
pub(crate) fn active(mask: u64) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        // (Clears the lowest bit; there is none at the end.)
        rest &= rest.wrapping_sub(1);
        (lane < 64).then_some(lane as usize)
    })
}
