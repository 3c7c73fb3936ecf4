//! GPU page tables as waves see them.

use std::sync::atomic::Ordering;

use crate::engine::GpuFault;
use crate::isa::exec::{MemFault, Memory};
use crate::mem::PageTables;

/// The tables, held while a slice of a workgroup runs, so that an unmap waits at most so long.
pub(super) struct Tables<'a>(pub(super) PageTables<'a>);

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
        let update = |value: &std::sync::atomic::AtomicU32| {
            value
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(op(old)))
                .unwrap_or_else(|old| old)
        };
        self.0.atomic_u32(addr, update).map_err(fault)
    }

    fn atomic_u64(&self, addr: u64, op: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemFault> {
        aligned(addr, 8)?;
        let update = |value: &std::sync::atomic::AtomicU64| {
            value
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(op(old)))
                .unwrap_or_else(|old| old)
        };
        self.0.atomic_u64(addr, update).map_err(fault)
    }
}
