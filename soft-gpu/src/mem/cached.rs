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

    /// Reads `N` bytes at each of `lanes`' addresses into their arrays.
    ///
    /// # Errors
    /// The first address that faults; those before it were read.
    #[inline]
    pub fn gather<'b, const N: usize>(
        &self,
        lanes: impl Iterator<Item = (u64, &'b mut [u8; N])>,
    ) -> Result<(), GpuFault> {
        // Mostly all are in one mapping.
        let mut near = None;
        for (va, buf) in lanes {
            match near.and_then(|entry: Entry<'a>| entry.part(va, N, false)) {
                Some(slice) if slice.read(0, buf).is_ok() => {}
                _ => {
                    self.read(va, buf)?;
                    near = self.entry(va);
                }
            }
        }
        Ok(())
    }

    /// Writes `N` bytes at each of `lanes`' addresses, in order.
    ///
    /// # Errors
    /// The first address that faults; those before it were written.
    #[inline]
    pub fn scatter<const N: usize>(
        &self,
        lanes: impl Iterator<Item = (u64, [u8; N])>,
    ) -> Result<(), GpuFault> {
        let mut near = None;
        for (va, bytes) in lanes {
            match near.and_then(|entry: Entry<'a>| entry.part(va, N, true)) {
                Some(slice) if slice.write(0, &bytes).is_ok() => {}
                _ => {
                    self.write(va, &bytes)?;
                    near = self.entry(va);
                }
            }
        }
        Ok(())
    }

    /// What is remembered of the mapping of an address.
    fn entry(&self, va: u64) -> Option<Entry<'a>> {
        self.entries.iter().filter_map(Cell::get).find(|entry| entry.rest(va, false).is_some())
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
    /// `len` bytes from `va` on; `None` if they are not all in it, or must not be written.
    #[inline(always)]
    fn part(self, va: u64, len: usize, write: bool) -> Option<HostSlice<'a>> {
        let offset = usize::try_from(va.wrapping_sub(self.start)).ok()?;
        if write && !self.writable {
            return None;
        }
        self.memory.slice(offset, len).ok()
    }

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
