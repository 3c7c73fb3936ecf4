//! What a context may still have: memory that contexts share, and queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::Errno;
use protocol::kfd::args::AllocMemoryOfGpuArgs;
use protocol::kfd::constants::AllocFlags;

use super::mapping::PAGE;
use crate::link::Stock;
use crate::worker::allowance::{Allowance, Portion};

/// What KFD says as available is a multiple of this (`VRAM_AVAILABILITY_ALIGN` of amdgpu).
const AVAILABLE_STEP: u64 = 2 << 20;

/// The grants of one context.
#[derive(Debug)]
pub(super) struct Grants {
    pub(super) allowance: Arc<Allowance>,
    /// Queues at a time.
    pub(super) queues: u32,
}

impl Grants {
    /// The memory of a buffer on a GPU that the guest sees; `None` for one that takes none of what contexts share.
    ///
    /// # Errors
    /// `ENOMEM` where there is not as much left, as from a GPU that is full.
    pub(super) fn buffer(&self, asked: &AllocMemoryOfGpuArgs) -> Result<Option<Portion>, Errno> {
        let flags = AllocFlags(asked.flags);
        // In the order in which KFD counts them (`amdgpu_amdkfd_reserve_mem_limit`).
        let stock = if flags.contains(AllocFlags::GTT) {
            Stock::Host
        } else if flags.contains(AllocFlags::VRAM) {
            Stock::Vram(asked.gpu_id)
        } else {
            return Ok(None);
        };
        match buffer_bytes(asked) {
            // KFD refuses it.
            None | Some(0) => Ok(None),
            Some(bytes) => self.allowance.take(stock, bytes).map(Some),
        }
    }

    /// What is available of a GPU's memory, where KFD knows of this context alone.
    pub(super) fn available(&self, gpu_id: u32, own: u64) -> u64 {
        match self.allowance.left(Stock::Vram(gpu_id)) {
            None => own,
            Some(left) => own.min(left & !(AVAILABLE_STEP - 1)),
        }
    }

    /// One queue more than `count`.
    ///
    /// # Errors
    /// `ENOSPC` if it would be too many, as from a process that has as many as KFD gives it (`pqm_create_queue`).
    pub(super) fn queue(&self, count: &AtomicU32) -> Result<(), Errno> {
        let more = |now: u32| now.checked_add(1).filter(|sum| *sum <= self.queues);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| Errno::ENOSPC)
    }
}

/// Bytes of a buffer, in whole pages: a ring that appears twice has half the memory.
pub(super) fn buffer_bytes(args: &AllocMemoryOfGpuArgs) -> Option<u64> {
    let twice = AllocFlags(args.flags).contains(AllocFlags::AQL_QUEUE_MEM);
    let size = if twice { args.size >> 1 } else { args.size };
    size.checked_next_multiple_of(PAGE)
}
