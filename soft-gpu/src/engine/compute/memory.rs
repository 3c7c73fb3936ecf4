//! GPU page tables as waves see them.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::messages::Messages;
use crate::engine::GpuFault;
use crate::isa::exec::{LANES, MemFault, Memory, active};
use crate::mem::{CachedTables, PageTables};

/// The tables, held while a slice of a workgroup runs, so that an unmap waits at most so long.
pub(super) struct Tables<'a>(CachedTables<'a>, &'a Messages);

impl<'a> Tables<'a> {
    pub(super) fn new(tables: &'a PageTables<'a>, messages: &'a Messages) -> Self {
        Self(CachedTables::new(tables), messages)
    }
}

#[cold]
fn fault(fault: GpuFault) -> MemFault {
    MemFault { addr: fault.va, write: fault.write, not_present: fault.not_present }
}

/// Atomics have to be aligned, as on hardware.
fn aligned(addr: u64, size: u64) -> Result<(), MemFault> {
    if addr.is_multiple_of(size) { Ok(()) } else { Err(MemFault { addr, write: true, not_present: false }) }
}

impl Memory for Tables<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), MemFault> {
        self.0.read(addr, buf).map_err(fault)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), MemFault> {
        self.0.write(addr, buf).map_err(fault)
    }

    fn atomic_u32(&self, addr: u64, op: &mut dyn FnMut(u32) -> u32) -> Result<u32, MemFault> {
        aligned(addr, 4)?;
        let word = self.0.atomic_u32(addr).map_err(fault)?;
        let update = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(op(old)));
        Ok(update.unwrap_or_else(|old| old))
    }

    fn atomic_u64(&self, addr: u64, op: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemFault> {
        aligned(addr, 8)?;
        let word = self.0.atomic_u64(addr).map_err(fault)?;
        let update = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(op(old)));
        Ok(update.unwrap_or_else(|old| old))
    }

    fn interrupt(&self, data: u32) {
        self.1.send(data);
    }

    // As the trait's, with one call for all lanes.
    fn gather(
        &self,
        mask: u64,
        addrs: &[u64; LANES],
        len: usize,
        out: &mut [[u8; 16]; LANES],
    ) -> Result<(), MemFault> {
        match len {
            1 => self.gather_each::<1>(mask, addrs, out),
            2 => self.gather_each::<2>(mask, addrs, out),
            4 => self.gather_each::<4>(mask, addrs, out),
            8 => self.gather_each::<8>(mask, addrs, out),
            16 => self.gather_each::<16>(mask, addrs, out),
            _ => active(mask).try_for_each(|lane| self.read(addrs[lane], &mut out[lane][..len])),
        }
    }

    fn scatter(
        &self,
        mask: u64,
        addrs: &[u64; LANES],
        part: Range<usize>,
        data: &[[u8; 16]; LANES],
    ) -> Result<(), MemFault> {
        match (part.start, part.len()) {
            (0, 1) => self.scatter_each::<1>(mask, addrs, data),
            (0, 2) => self.scatter_each::<2>(mask, addrs, data),
            (0, 4) => self.scatter_each::<4>(mask, addrs, data),
            (0, 8) => self.scatter_each::<8>(mask, addrs, data),
            (0, 16) => self.scatter_each::<16>(mask, addrs, data),
            _ => active(mask).try_for_each(|lane| self.write(addrs[lane], &data[lane][part.clone()])),
        }
    }
}

impl Tables<'_> {
    fn gather_each<const N: usize>(
        &self,
        mask: u64,
        addrs: &[u64; LANES],
        out: &mut [[u8; 16]; LANES],
    ) -> Result<(), MemFault> {
        let lanes = addrs.iter().zip(out).enumerate().filter(|(lane, _)| mask >> lane & 1 != 0);
        let lanes = lanes.filter_map(|(_, (addr, out))| Some((*addr, out.first_chunk_mut::<N>()?)));
        self.0.gather(lanes).map_err(fault)
    }

    fn scatter_each<const N: usize>(
        &self,
        mask: u64,
        addrs: &[u64; LANES],
        data: &[[u8; 16]; LANES],
    ) -> Result<(), MemFault> {
        let lanes = addrs.iter().zip(data).enumerate().filter(|(lane, _)| mask >> lane & 1 != 0);
        let lanes = lanes.filter_map(|(_, (addr, data))| Some((*addr, *data.first_chunk::<N>()?)));
        self.0.scatter(lanes).map_err(fault)
    }
}
