//! What can be done with a queue: update, CU mask, information, global wave sync, its end.

use std::sync::{Arc, MutexGuard};

use protocol::Errno;
use protocol::hsakmt::{QueueInfo, QueuePriority, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::{
    AllocQueueGwsArgs, DestroyQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs, UpdateQueueArgs,
};

use super::super::{Engine, Result};
use super::create::{kernel_priority, kernel_ring_size};
use super::table::{Life, MAX_CU_MASK_BITS, Queue};

/// How DESTROY_QUEUE ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// The GPU did not let go of the queue and is reset; the queue is gone.
    Hung(Errno),
    /// The queue still is.
    Refused(Errno),
}

impl Engine {
    /// Changes ring, share and priority of a queue. A share or an address of 0 stops it.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for the priority or an id of no queue; `ERROR` where KFD refuses.
    pub fn update_queue(
        &self,
        queue: u64,
        percentage: u32,
        priority: QueuePriority,
        address: u64,
        size: u64,
    ) -> Result<()> {
        let queue_priority = kernel_priority(priority)?;
        let queue = self.queue(queue)?;
        let _life = alive(&queue)?;
        let mut args = UpdateQueueArgs {
            ring_base_address: address,
            queue_id: queue.kernel_id,
            ring_size: kernel_ring_size(size)?,
            queue_percentage: percentage,
            queue_priority,
        };
        self.channel.ioctl(Ioctl::UpdateQueue, &mut args).map_err(|errno| {
            log::debug!("KFD does not update queue {}: {errno}, for {args:x?}", queue.kernel_id);
            Status::Error
        })
    }

    /// Ends a queue and frees what the library gave to it. Nothing of it runs afterwards.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for an id of no queue; `ERROR` where KFD refuses, or where the GPU hung: in the second case
    /// the queue is gone nevertheless.
    pub fn destroy_queue(&self, queue: u64) -> Result<()> {
        let id = queue;
        let queue = self.queue(id)?;
        let mut life = alive(&queue)?;
        let end = self.end_kernel_queue(queue.kernel_id);
        if let End::Refused(errno) = end {
            log::error!("KFD does not destroy queue {}: {errno}", queue.kernel_id);
            return Err(Status::Error);
        }
        life.ended = true;
        drop(life);
        self.queues.table().remove(id);
        self.queues.doorbells.give_back(queue.gpu_id);
        queue.parts.free(self);
        match end {
            End::Hung(errno) => {
                log::error!("the GPU hung when queue {} was destroyed: {errno}", queue.kernel_id);
                Err(Status::Error)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn end_kernel_queue(&self, queue_id: u32) -> End {
        let mut args = DestroyQueueArgs { queue_id, ..Default::default() };
        match self.channel.ioctl(Ioctl::DestroyQueue, &mut args) {
            Ok(()) => End::Done,
            // pqm_destroy_queue goes on after these two, and its id is free for the next queue.
            Err(errno @ (Errno::ETIME | Errno::EIO)) => End::Hung(errno),
            Err(errno) => End::Refused(errno),
        }
    }

    /// Chooses the CUs of a queue: `bits` bits in words of 32 at address `mask`. KFD looks at the first 1,024.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for an id of no queue, no mask, or `bits` that is 0 or not in whole words; `ERROR` where the
    /// mask cannot be read or KFD refuses it.
    pub fn set_queue_cu_mask(&self, queue: u64, mask: u64, bits: u32) -> Result<()> {
        if mask == 0 || bits == 0 || !bits.is_multiple_of(32) {
            log::debug!("no CU mask: {bits} bits at {mask:#x}");
            return Err(Status::InvalidParameter);
        }
        let queue = self.queue(queue)?;
        let mut life = alive(&queue)?;
        let num_cu_mask = bits.min(MAX_CU_MASK_BITS);
        let mut args = SetCuMaskArgs { queue_id: queue.kernel_id, num_cu_mask, cu_mask_ptr: mask };
        self.channel.ioctl(Ioctl::SetCuMask, &mut args).map_err(|errno| {
            log::debug!(
                "KFD refuses a CU mask of {bits} bits at {mask:#x} for queue {}: {errno}",
                queue.kernel_id
            );
            Status::Error
        })?;
        // SAFETY: KFD has read these words just now, so they are there; the array is the caller's own during the call.
        unsafe { queue.cu_mask.copy_from(mask, num_cu_mask) };
        life.cu_mask_bits = num_cu_mask;
        Ok(())
    }

    /// Where the saved waves of a stopped compute queue lie, and its CU mask.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for an id of no queue; `ERROR` for a queue without save area or one that is not stopped.
    pub fn queue_info(&self, queue: u64) -> Result<QueueInfo> {
        let queue = self.queue(queue)?;
        let life = alive(&queue)?;
        let Some(area) = &queue.parts.save_area else {
            log::debug!("queue {} saves no waves", queue.kernel_id);
            return Err(Status::Error);
        };
        let mut args = GetQueueWaveStateArgs {
            ctl_stack_address: area.address,
            queue_id: queue.kernel_id,
            ..Default::default()
        };
        self.channel.ioctl(Ioctl::GetQueueWaveState, &mut args).map_err(|errno| {
            log::debug!("KFD tells no state of queue {}: {errno}", queue.kernel_id);
            Status::Error
        })?;
        let waves = area.wave_state();
        Ok(QueueInfo {
            num_cu_assigned: life.cu_mask_bits,
            cu_mask_info: queue.cu_mask.address(),
            user_context_save_area: waves,
            save_area_size_in_bytes: u64::from(args.save_area_used_size),
            control_stack_top: waves.saturating_sub(u64::from(args.ctl_stack_used_size)),
            control_stack_used_in_bytes: u64::from(args.ctl_stack_used_size),
            save_area_header: area.address,
            save_area_alloc_size: area.sizes.total,
            ..Default::default()
        })
    }

    /// Gives the GPU's global wave sync to a queue, or takes it back with `gws` 0. Returns the first entry.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for an id of no queue, or nothing to take back; `OUT_OF_RESOURCES` if another queue has it;
    /// `NOT_SUPPORTED` without it; `ERROR`.
    pub fn alloc_queue_gws(&self, queue: u64, gws: u32) -> Result<u32> {
        let queue = self.queue(queue)?;
        let _life = alive(&queue)?;
        let mut args = AllocQueueGwsArgs { queue_id: queue.kernel_id, num_gws: gws, ..Default::default() };
        match self.channel.ioctl(Ioctl::AllocQueueGws, &mut args) {
            Ok(()) => Ok(args.first_gws),
            Err(errno) => {
                log::debug!("KFD gives no global wave sync ({gws}) to queue {}: {errno}", queue.kernel_id);
                Err(match errno {
                    Errno::EINVAL => Status::InvalidParameter,
                    Errno::EBUSY => Status::OutOfResources,
                    Errno::ENODEV => Status::NotSupported,
                    _ => Status::Error,
                })
            }
        }
    }

    /// KFD's id of a queue (`hsaKmtGetKernelQueueId`).
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for an id of no queue.
    pub fn kernel_queue_id(&self, queue: u64) -> Result<u32> {
        Ok(self.queue(queue)?.kernel_id)
    }

    fn queue(&self, id: u64) -> Result<Arc<Queue>> {
        self.queues.table().get(id).ok_or_else(|| no_queue(id))
    }
}

fn alive(queue: &Queue) -> Result<MutexGuard<'_, Life>> {
    queue.alive().ok_or_else(|| no_queue(u64::from(queue.kernel_id)))
}

fn no_queue(id: u64) -> Status {
    log::debug!("{id:#x} is the id of no queue");
    Status::InvalidParameter
}
