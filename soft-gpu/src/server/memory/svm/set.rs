//! Setting attributes: new ranges, split ranges, page tables.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::constants::{AllocFlags, SvmLocation};
use protocol::kfd::types::SvmAttribute;

use super::super::State;
use super::range::{Attrs, Range};
use crate::mem::PAGE_SIZE;
use crate::server::dispatch::Cx;

/// `svm_range_set_attr`. An error of the last step leaves the attributes set, as in the kernel.
pub(super) fn set(cx: &Cx<'_>, addr: u64, size: u64, list: &[SvmAttribute]) -> Result<(), Errno> {
    let mut guard = cx.process.memory.lock();
    let state = &mut *guard;
    state.check_attrs(list)?;
    // kgd_process_info comes with the first page tables.
    if state.gpus.iter().all(|gpu| gpu.drm.is_none()) {
        return Err(Errno::EINVAL);
    }
    let (first, last) = (addr / PAGE_SIZE, addr.saturating_add(size - 1) / PAGE_SIZE);
    state.drop_stale(cx.call.mem(), first, last);
    state.check_range(cx.call.mem(), addr, size)?;
    let xnack = cx.process.xnack();
    state.add_ranges(cx, first, last, xnack)?;
    let mut result = Ok(());
    for page in state.svm.meeting(first, last) {
        let Some(before) = state.svm.get(page).map(|range| range.attrs) else { continue };
        let mut attrs = before;
        let update = state.apply_attrs(&mut attrs, list, xnack);
        let Some(range) = state.svm.get_mut(page) else { continue };
        range.attrs = attrs;
        let moved = range.prefetch_now();
        if (update || moved || xnack)
            && let Err(errno) = state.map_range(cx.call.mem(), page, xnack)
        {
            if errno == Errno::ERESTARTSYS {
                // The call is made again, and must find this range as it was: one whose attributes are set already is
                // not mapped anew.
                state.svm.get_mut(page).into_iter().for_each(|range| range.attrs = before);
                return Err(errno);
            }
            result = Err(errno);
        }
    }
    result
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
