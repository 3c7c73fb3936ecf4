//! Page tables with a memory of the mappings that were used last.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::host::HostSlice;
use super::vm::PageTables;
use crate::engine::GpuFault;

/// Mappings remembered.
const WAYS: usize = 4;

/// A mapping.
#[derive(Clone, Copy)]
struct Entry<'a> {
    start: u64,
    memory: HostSlice<'a>,
    writable: bool,
}

/// Held page tables that find the mappings used last without a search. Mappings cannot change while the tables are held, so
/// nothing that is remembered becomes wrong.
pub struct CachedTables<'a> {
    tables: &'a PageTables<'a>,
    entries: [Cell<Option<Entry<'a>>>; WAYS],
    oldest: Cell<usize>,
}

impl<'a> CachedTables<'a> {
    /// Remembers nothing yet.
    #[must_use]
    pub fn new(tables: &'a PageTables<'a>) -> Self {
        Self { tables, entries: Default::default(), oldest: Cell::new(0) }
    }

    /// The memory from `va` on to the end of its mapping.
    #[inline]
    fn reach(&self, va: u64, write: bool) -> Result<HostSlice<'a>, GpuFault> {
        for entry in self.entries.iter().filter_map(Cell::get) {
            if let Some(slice) = entry.rest(va, write) {
                return Ok(slice);
            }
        }
        self.search(va, write)
    }

    #[cold]
    fn search(&self, va: u64, write: bool) -> Result<HostSlice<'a>, GpuFault> {
        let (start, memory, writable) =
            self.tables.mapping(va).ok_or(GpuFault { va, write, not_present: true })?;
        let entry = Entry { start, memory, writable };
        let at = self.oldest.get();
        self.entries[at % WAYS].set(Some(entry));
        self.oldest.set((at + 1) % WAYS);
        entry.rest(va, write).ok_or(GpuFault { va, write, not_present: false })
    }

    /// Reads `buf.len()` bytes at `va`.
    ///
    /// # Errors
    /// The first address that faults; `buf` is filled up to it.
    #[inline]
    pub fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), GpuFault> {
        match self.reach(va, false)?.read(0, buf) {
            Ok(()) => Ok(()),
            // It reaches over the end of a mapping.
            Err(_) => self.tables.read(va, buf),
        }
    }

    /// Writes `buf` at `va`.
    ///
    /// # Errors
    /// The first address that faults; bytes before it are written.
    #[inline]
    pub fn write(&self, va: u64, buf: &[u8]) -> Result<(), GpuFault> {
        match self.reach(va, true)?.write(0, buf) {
            Ok(()) => Ok(()),
            Err(_) => self.tables.write(va, buf),
        }
    }

    /// See [`PageTables::atomic_u32`].
    ///
    /// # Errors
    /// A write fault where stores are not allowed, and for an address that is not aligned.
    #[inline]
    pub fn atomic_u32(&self, va: u64) -> Result<&'a AtomicU32, GpuFault> {
        self.reach(va, true)?.atomic_u32(0).ok_or(GpuFault { va, write: true, not_present: false })
    }

    /// See [`PageTables::atomic_u64`].
    ///
    /// # Errors
    /// A write fault where stores are not allowed, and for an address that is not aligned.
    #[inline]
    pub fn atomic_u64(&self, va: u64) -> Result<&'a AtomicU64, GpuFault> {
        self.reach(va, true)?.atomic_u64(0).ok_or(GpuFault { va, write: true, not_present: false })
    }
}

impl<'a> Entry<'a> {
    /// The memory from `va` on; `None` if that is not in it, or must not be written.
    #[inline]
    fn rest(self, va: u64, write: bool) -> Option<HostSlice<'a>> {
        let offset = usize::try_from(va.wrapping_sub(self.start)).ok()?;
        let len = self.memory.len();
        if offset >= len || (write && !self.writable) {
            return None;
        }
        self.memory.slice(offset, len - offset).ok()
    }
}
