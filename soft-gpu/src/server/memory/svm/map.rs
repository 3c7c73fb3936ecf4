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

    /// Puts a range into the page tables of the GPUs that may access it (`svm_range_validate_and_map`). GPUs that
    /// lost access keep it until the range goes ("TODO" in `svm_range_set_attr`).
    ///
    /// # Errors
    /// `EINVAL` for a GPU without page tables, `EFAULT` for memory that GPUs cannot get.
    pub(super) fn map_range(&mut self, mem: &dyn UserMem, page: u64, xnack: bool) -> Result<(), Errno> {
        let Some(range) = self.svm.get(page) else { return Ok(()) };
        let (gpus, flags, pages) = (range.attrs.gpus(), range.attrs.flags, range.pages);
        let mut targets = Vec::new();
        for (index, vm) in self.vms().into_iter().enumerate().take(64) {
            match vm {
                _ if gpus & (1 << index) == 0 => {}
                Some(vm) => targets.push(vm),
                // With XNACK every GPU has access from the start, whether it is in use or not.
                None if xnack => {}
                None => return Err(Errno::EINVAL),
            }
        }
        if targets.is_empty() {
            return Ok(());
        }
        let addr = page * PAGE_SIZE;
        let (host, backing, writable) = share(mem, addr, pages * PAGE_SIZE)?;
        let flags = MapFlags {
            writable: writable && !flags.contains(SvmFlags::GPU_RO),
            executable: flags.contains(SvmFlags::GPU_EXEC),
        };
        for vm in targets {
            vm.replace(addr, host.clone(), flags, MappingOwner::Svm).map_err(|error| {
                log::warn!("shared virtual memory at {addr:#x}: {error}");
                Errno::EINVAL
            })?;
        }
        if let Some(range) = self.svm.get_mut(page) {
            (range.mapped, range.backing) = (true, Arc::new(backing));
        }
        Ok(())
    }
}

/// The memory, what it is, and whether it may be written: what the program may only read, GPUs may only read.
fn share(mem: &dyn UserMem, addr: u64, len: u64) -> Result<(HostMem, Vec<Backing>, bool), Errno> {
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
    Ok((host, Backing::of(&pieces), writable))
}
