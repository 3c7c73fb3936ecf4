//! Atomic operations on GPU memory.

use std::sync::atomic::Ordering;

use super::GpuFault;
use super::atomics::{Atomic, Function};
use crate::mem::GpuVm;

/// Carries out `op` in one step that CPU atomics respect; returns the value from before.
pub(super) fn atomic(vm: &GpuVm, op: Atomic, addr: u64, src: u64, compare: u64) -> Result<u64, GpuFault> {
    const DONE: Ordering = Ordering::AcqRel;
    if op.wide {
        return vm.atomic_u64(addr, |value| match op.function {
            Function::Add => value.fetch_add(src, DONE),
            _ => value
                .fetch_update(DONE, Ordering::Acquire, |old| Some(op.apply(old, src, compare)))
                .unwrap_or_else(|old| old),
        });
    }
    let low = |wide: u64| u32::try_from(wide & 0xffff_ffff).unwrap_or(0);
    let old = vm.atomic_u32(addr, |value| match op.function {
        Function::Add => value.fetch_add(low(src), DONE),
        _ => value
            .fetch_update(DONE, Ordering::Acquire, |old| Some(low(op.apply(u64::from(old), src, compare))))
            .unwrap_or_else(|old| old),
    })?;
    Ok(u64::from(old))
}
