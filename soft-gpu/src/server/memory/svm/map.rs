//! Ranges in the page tables of GPUs.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::UserMem;
use protocol::kfd::constants::SvmFlags;

use super::super::State;
use super::range::Backing;
use crate::mem::{GpuVm, HostMem, MapFlags, MappingOwner, PAGE_SIZE};

impl State {
    /// The page tables of each GPU that has some.
    pub(in super::super) fn vms(&self) -> Vec<Option<Arc<GpuVm>>> {
        self.gpus.iter().map(|gpu| gpu.drm.as_ref().map(|drm| Arc::clone(&drm.vm))).collect()
    }

    /// See [`super::Ranges::drop_stale`].
    pub(in super::super) fn drop_stale(&mut self, mem: &dyn UserMem, first: u64, last: u64) {
        if self.svm.overlaps(first, last) {
            let vms = self.vms();
            self.svm.drop_stale(mem, &vms, first, last);
        }
    }

    /// What it takes to put a range into the page tables of the GPUs that may access it; `None` if there are none.
    ///
    /// # Errors
    /// `EINVAL` for a GPU without page tables.
    pub(super) fn map_target(&self, page: u64, xnack: bool) -> Result<Option<Target>, Errno> {
        let Some(range) = self.svm.get(page) else { return Ok(None) };
        let gpus = range.attrs.gpus();
        let mut vms = Vec::new();
        for (index, vm) in self.vms().into_iter().enumerate().take(64) {
            match vm {
                _ if gpus & (1 << index) == 0 => {}
                Some(vm) => vms.push(vm),
                // With XNACK every GPU has access from the start, whether it is in use or not.
                None if xnack => {}
                None => return Err(Errno::EINVAL),
            }
        }
        let target = Target { page, pages: range.pages, flags: range.attrs.flags, vms };
        Ok((!target.vms.is_empty()).then_some(target))
    }

    /// Puts a range into the page tables of the GPUs that may access it (`svm_range_validate_and_map`). GPUs that
    /// lost access keep it until the range goes ("TODO" in `svm_range_set_attr`).
    ///
    /// # Errors
    /// `EINVAL` where something else was mapped on a GPU meanwhile.
    pub(super) fn map_range(&mut self, target: &Target, memory: Memory) -> Result<(), Errno> {
        let Some(range) = self.svm.get_mut(target.page).filter(|range| range.pages == target.pages) else {
            return Ok(());
        };
        let Memory { host, backing, writable } = memory;
        let addr = target.page * PAGE_SIZE;
        let flags = MapFlags {
            writable: writable && !target.flags.contains(SvmFlags::GPU_RO),
            executable: target.flags.contains(SvmFlags::GPU_EXEC),
        };
        for vm in &target.vms {
            vm.replace(addr, host.clone(), flags, MappingOwner::Svm).map_err(|error| {
                log::warn!("shared virtual memory at {addr:#x}: {error}");
                Errno::EINVAL
            })?;
        }
        (range.mapped, range.backing) = (true, Arc::new(backing));
        Ok(())
    }
}

/// A range that is to be mapped, and where.
pub(super) struct Target {
    page: u64,
    pages: u64,
    flags: SvmFlags,
    vms: Vec<Arc<GpuVm>>,
}

/// The memory of a range, what it is, and whether it may be written.
pub(super) struct Memory {
    host: HostMem,
    backing: Vec<Backing>,
    writable: bool,
}

impl Target {
    /// Makes the memory reachable. What the program may only read, GPUs may only read.
    ///
    /// # Errors
    /// `EFAULT` for memory that GPUs cannot get, and what [`UserMem::share`] answers.
    pub(super) fn share(&self, mem: &dyn UserMem) -> Result<Memory, Errno> {
        let (addr, len) = (self.page * PAGE_SIZE, self.pages * PAGE_SIZE);
        let (pieces, writable) = match mem.share(addr, len, true) {
            Ok(pieces) => (pieces, true),
            Err(Errno::EPERM) => (mem.share(addr, len, false)?, false),
            // Device mappings.
            Err(Errno::EINVAL) => return Err(Errno::EFAULT),
            Err(errno) => return Err(errno),
        };
        let host = HostMem::from_shared(addr, len, writable, &pieces).map_err(|error| {
            log::error!("memory of the caller at {addr:#x}, length {len:#x}: {error}");
            Errno::ENOMEM
        })?;
        Ok(Memory { host, backing: Backing::of(&pieces), writable })
    }
}
