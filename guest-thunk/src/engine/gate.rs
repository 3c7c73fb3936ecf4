//! Where the engine takes addresses and memory of this process. Tests let that fail, and count what is held
//! (`testing::faults` stands here then).

use super::Result;

/// Before a system call that takes addresses.
pub(crate) fn before_map() -> rustix::io::Result<()> {
    Ok(())
}

/// Before a system call that takes just this range.
pub(crate) fn before_map_at(_start: u64, _len: u64) -> rustix::io::Result<()> {
    Ok(())
}

/// Bytes of addresses that are held more and less.
pub(crate) fn note_held(_more: u64, _less: u64) {}

/// Before memory is allocated whose size a caller or the kernel chooses.
pub(crate) fn before_reserve() -> Result<()> {
    Ok(())
}
