//! Memory as waves see it.

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
}
