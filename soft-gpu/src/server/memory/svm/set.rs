//! Setting attributes: new ranges, split ranges, page tables.

use std::sync::{Arc, PoisonError};

use protocol::Errno;
use protocol::kfd::constants::{AllocFlags, SvmLocation};
use protocol::kfd::types::SvmAttribute;

use super::super::State;
use super::range::{Attrs, Range};
use crate::mem::PAGE_SIZE;
use crate::server::dispatch::Cx;

/// `svm_range_set_attr`. An error of the last step leaves the attributes set, as in the kernel.
pub(super) fn set(cx: &Cx<'_>, addr: u64, size: u64, list: &[SvmAttribute]) -> Result<(), Errno> {
    // Ranges are only made and split under this one (`process_info->lock`). The lock of the state is let go in between.
    let _one = cx.process.memory.svm_set.lock().unwrap_or_else(PoisonError::into_inner);
    let xnack = cx.process.xnack();
    let pages = prepare(cx, addr, size, list, xnack)?;
    let mut result = Ok(());
    for page in pages {
        match set_range(cx, page, list, xnack) {
            Err(Errno::ERESTARTSYS) => return Err(Errno::ERESTARTSYS),
            Err(errno) => result = Err(errno),
            Ok(()) => {}
        }
    }
    result
}

/// Checks the call and makes ranges of exactly its pages; the first page of each.
fn prepare(cx: &Cx<'_>, addr: u64, size: u64, list: &[SvmAttribute], xnack: bool) -> Result<Vec<u64>, Errno> {
    let mut state = cx.process.memory.lock();
    state.check_attrs(list)?;
    // kgd_process_info comes with the first page tables.
    if state.gpus.iter().all(|gpu| gpu.drm.is_none()) {
        return Err(Errno::EINVAL);
    }
    let (first, last) = (addr / PAGE_SIZE, addr.saturating_add(size - 1) / PAGE_SIZE);
    state.drop_stale(cx.call.mem(), first, last);
    state.check_range(cx.call.mem(), addr, size)?;
    state.add_ranges(cx, first, last, xnack)?;
    Ok(state.svm.meeting(first, last))
}

/// Sets the attributes of one range, and maps it where that takes it. A range that another call dropped meanwhile,
/// because its memory is gone, needs nothing.
fn set_range(cx: &Cx<'_>, page: u64, list: &[SvmAttribute], xnack: bool) -> Result<(), Errno> {
    let mut state = cx.process.memory.lock();
    let Some(before) = state.svm.get(page).map(|range| range.attrs) else { return Ok(()) };
    let mut attrs = before;
    let update = state.apply_attrs(&mut attrs, list, xnack);
    let Some(range) = state.svm.get_mut(page) else { return Ok(()) };
    range.attrs = attrs;
    let moved = range.prefetch_now();
    if !(update || moved || xnack) {
        return Ok(());
    }
    let Some(target) = state.map_target(page, xnack)? else { return Ok(()) };
    drop(state);
    // Not under the lock: sharing stops the program's threads, and one that waits in a call for the lock cannot stop.
    let memory = target.share(cx.call.mem());
    let mut state = cx.process.memory.lock();
    match memory {
        Ok(memory) => state.map_range(&target, memory),
        Err(Errno::ERESTARTSYS) => {
            // The call is made again, and must find this range as it was: one whose attributes are set already is
            // not mapped anew.
            state.svm.get_mut(page).into_iter().for_each(|range| range.attrs = before);
            Err(Errno::ERESTARTSYS)
        }
        Err(errno) => Err(errno),
    }
}

impl State {
    /// Makes ranges out of exactly the pages `first..=last`: existing ones are split at the ends, the rest gets new
    /// ones (`svm_range_add`).
    fn add_ranges(&mut self, cx: &Cx<'_>, first: u64, last: u64, xnack: bool) -> Result<(), Errno> {
        let access = if xnack { self.svm_gpus() } else { 0 };
        let limits = &cx.process.device.memory.limits;
        let mut fresh = Vec::new();
        for (page, pages) in self.svm.gaps(first, last) {
            // svm_range_new counts it as userptr memory unless it can be taken away (XNACK).
            let charge = if xnack {
                None
            } else {
                Some(limits.charge(cx.process.caller.id, 0, pages * PAGE_SIZE, AllocFlags::USERPTR)?)
            };
            let range = Range {
                pages,
                attrs: Attrs::new(access),
                actual: SvmLocation::SYSMEM,
                mapped: false,
                backing: Arc::default(),
                charge,
            };
            fresh.push((page, range));
        }
        self.svm.split(first);
        if let Some(end) = last.checked_add(1) {
            self.svm.split(end);
        }
        for (page, range) in fresh {
            self.svm.insert(page, range);
        }
        Ok(())
    }
}

impl Range {
    /// `svm_range_trigger_migration`: the prefetch location is where the memory is from now on. Whether the kernel
    /// would have moved it, after which it maps it anew.
    fn prefetch_now(&mut self) -> bool {
        let target = self.attrs.prefetch;
        let stays = target == SvmLocation::UNDEFINED
            || (target == SvmLocation::SYSMEM && self.actual == SvmLocation::SYSMEM);
        if !stays {
            self.actual = target;
        }
        !stays
    }
}
