//! The addresses of a context: one range that guest and worker keep for each other, and the guest's memory in it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::kfd::{Fault, Shared, UserMem};
use vm_memory::{Bytes as _, VolatileSlice};

use super::blob::Blob;
use super::mapping::{self, Mappings, PAGE, Taken};

/// Addresses, not empty, the end not beyond 2^64 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    pub(super) base: u64,
    pub(super) len: u64,
}

impl AddressRange {
    /// `None` for an empty range, or one that wraps around.
    pub(super) fn new(base: u64, len: u64) -> Option<AddressRange> {
        (len > 0 && base.checked_add(len).is_some()).then_some(AddressRange { base, len })
    }

    pub(super) fn end(self) -> u64 {
        self.base + self.len
    }

    pub(super) fn contains(self, other: AddressRange) -> bool {
        self.base <= other.base && other.end() <= self.end()
    }

    pub(super) fn is_of_pages(self) -> bool {
        self.base.is_multiple_of(PAGE) && self.len.is_multiple_of(PAGE)
    }
}

/// What a context may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceLimits {
    /// Bytes that are aliased.
    pub(super) bytes: u64,
    /// Aliases.
    pub(super) aliases: usize,
}

/// The range, reserved in this process as long as this lives.
#[derive(Debug)]
pub(super) struct Space {
    range: AddressRange,
    limits: SpaceLimits,
    mappings: Arc<Mappings>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By first address; they do not overlap.
    aliases: BTreeMap<u64, Alias>,
    bytes: u64,
}

/// A part of a blob at addresses of the guest.
#[derive(Debug)]
struct Alias {
    len: u64,
    /// Kept from being released.
    _blob: Arc<Blob>,
    _taken: Taken,
    /// How many rely on it: [`Pin`]s.
    pins: usize,
}

impl Space {
    /// Reserves the range.
    ///
    /// # Errors
    /// `EEXIST` if something of this process is there.
    pub(super) fn reserve(
        range: AddressRange,
        limits: SpaceLimits,
        mappings: Arc<Mappings>,
    ) -> Result<Space, Errno> {
        mapping::reserve(range.base, range.len)?;
        Ok(Space { range, limits, mappings, state: Mutex::default() })
    }

    /// The range.
    pub(super) fn range(&self) -> AddressRange {
        self.range
    }

    /// Makes a part of a blob, from `offset` on, the memory at these addresses.
    ///
    /// # Errors
    /// `EINVAL` for what is no whole pages of range and blob; `EEXIST` where something is; `ENOMEM` beyond a limit; the
    /// kernel's.
    pub(super) fn alias(&self, at: AddressRange, blob: Arc<Blob>, offset: u64) -> Result<(), Errno> {
        if !at.is_of_pages() || !offset.is_multiple_of(PAGE) || !self.range.contains(at) {
            return Err(Errno::EINVAL);
        }
        let pieces = blob.part(offset, at.len).ok_or(Errno::EINVAL)?;
        let mut state = self.lock();
        if state.overlaps(at) {
            return Err(Errno::EEXIST);
        }
        let bytes = state.bytes.checked_add(at.len).filter(|sum| *sum <= self.limits.bytes);
        let (Some(bytes), true) = (bytes, state.aliases.len() < self.limits.aliases) else {
            let (bytes, count) = (state.bytes, state.aliases.len());
            log::warn!("the guest shares {bytes} bytes in {count} ranges already; more is beyond the limit");
            return Err(Errno::ENOMEM);
        };
        // One more for the part of the reservation behind it.
        let taken = self.mappings.take(pieces.len() + 1)?;
        // SAFETY: the addresses lie in the reservation and no alias is there, and the lock keeps it so.
        if let Err(errno) = unsafe { mapping::over(at.base, &pieces) } {
            log::warn!("{:#x} bytes of a blob cannot be mapped at {:#x}: {errno}", at.len, at.base);
            // SAFETY: as above.
            unsafe { mapping::empty(at.base, at.len) };
            return Err(errno);
        }
        state.bytes = bytes;
        state.aliases.insert(at.base, Alias { len: at.len, _blob: blob, _taken: taken, pins: 0 });
        Ok(())
    }

    /// Takes an alias away.
    ///
    /// # Errors
    /// `EINVAL` if these are not exactly the addresses of one; `EBUSY` while something relies on it.
    pub(super) fn unalias(&self, at: AddressRange) -> Result<(), Errno> {
        let mut state = self.lock();
        let alias = state.aliases.get(&at.base).filter(|alias| alias.len == at.len).ok_or(Errno::EINVAL)?;
        if alias.pins > 0 {
            return Err(Errno::EBUSY);
        }
        let alias = state.aliases.remove(&at.base);
        state.bytes -= at.len;
        // SAFETY: the addresses were those of an alias, on which nobody relies, and the lock keeps it so.
        unsafe { mapping::empty(at.base, at.len) };
        drop(state);
        // This may say that the blob is released.
        drop(alias);
        Ok(())
    }

    /// Keeps memory as it is, as long as the pin lives.
    ///
    /// # Errors
    /// `EFAULT` unless all of it is aliased.
    pub(super) fn pin(self: &Arc<Self>, at: AddressRange) -> Result<Pin, Errno> {
        let mut state = self.lock();
        if !state.covers(at) {
            return Err(Errno::EFAULT);
        }
        state.of(at).for_each(|alias| alias.pins += 1);
        drop(state);
        Ok(Pin { space: Arc::clone(self), at })
    }

    /// Whether all of it is aliased.
    pub(super) fn covers(&self, at: AddressRange) -> bool {
        self.lock().covers(at)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `copy` on the memory, if it is all aliased.
    fn with(&self, addr: u64, len: usize, copy: impl FnOnce(VolatileSlice<'_>) -> bool) -> Result<(), Fault> {
        let fault = Fault { addr, len: len as u64 };
        if len == 0 {
            return Ok(());
        }
        let at = AddressRange::new(addr, len as u64).ok_or(fault)?;
        // Held while copying: an alias that goes away meanwhile would be a fault of this process.
        let state = self.lock();
        if !state.covers(at) {
            return Err(fault);
        }
        // SAFETY: all of it is mapped, which the lock keeps so until the slice is gone.
        let memory = unsafe { mapping::memory(addr, len) };
        let copied = copy(memory);
        drop(state);
        if copied { Ok(()) } else { Err(fault) }
    }
}

impl State {
    fn overlaps(&self, at: AddressRange) -> bool {
        let before = self.aliases.range(..at.end()).next_back();
        before.is_some_and(|(base, alias)| base + alias.len > at.base)
    }

    /// The aliases that have some of these addresses.
    fn of(&mut self, at: AddressRange) -> impl Iterator<Item = &mut Alias> {
        let first = self.aliases.range(..=at.base).next_back().map_or(at.base, |(base, _)| *base);
        let range = (Bound::Included(first), Bound::Excluded(at.end()));
        let touched = self.aliases.range_mut(range).filter(move |(base, alias)| **base + alias.len > at.base);
        touched.map(|(_, alias)| alias)
    }

    fn covers(&self, at: AddressRange) -> bool {
        let mut next = at.base;
        let Some((&first, _)) = self.aliases.range(..=at.base).next_back() else { return false };
        for (&base, alias) in self.aliases.range(first..at.end()) {
            if base > next {
                return false;
            }
            next = base + alias.len;
        }
        next >= at.end()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // The aliases go after this, and with them perhaps blobs: nothing of them is mapped then.
        // SAFETY: the reservation is this value's, and whatever relied on it held a reference.
        unsafe { mapping::give_back(self.range.base, self.range.len) };
    }
}

/// Memory of the guest on which something relies.
#[derive(Debug)]
pub(super) struct Pin {
    space: Arc<Space>,
    at: AddressRange,
}

impl Pin {
    /// Reads the word at the beginning of the pinned memory; `None` if that is not aligned or too short.
    pub(super) fn load(&self) -> Option<u64> {
        if self.at.len < 8 {
            return None;
        }
        // SAFETY: the pin keeps the memory mapped.
        let memory = unsafe { mapping::memory(self.at.base, 8) };
        memory.load::<u64>(0, Ordering::Acquire).ok()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.space.lock().of(self.at).for_each(|alias| alias.pins = alias.pins.saturating_sub(1));
    }
}

/// The guest's memory outside of a call: what is aliased.
#[derive(Debug)]
pub(super) struct GuestMem(pub(super) Arc<Space>);

impl UserMem for GuestMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.0.with(addr, buf.len(), |memory| memory.read_slice(buf, 0).is_ok())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        self.0.with(addr, buf.len(), |memory| memory.write_slice(buf, 0).is_ok())
    }

    /// Memory is shared by a call that registers it, and by nothing else.
    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn is_mapped(&self, addr: u64, len: u64) -> bool {
        AddressRange::new(addr, len).is_some_and(|at| self.0.covers(at))
    }
}
