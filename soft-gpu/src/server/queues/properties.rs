//! What a program says about its queue, checked before anything is looked up (`set_queue_properties_from_user`).

use protocol::Errno;
use protocol::kfd::args::CreateQueueArgs;
use protocol::kfd::constants::{MAX_QUEUE_PERCENTAGE, MAX_QUEUE_PRIORITY, MIN_QUEUE_RING_SIZE, QueueType};

/// First address that is not a program's (`TASK_SIZE_MAX` with four-level page tables): what `access_ok` refuses.
const TASK_SIZE_MAX: u64 = 0x7fff_ffff_f000;

/// What a ring holds, and which engine reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingKind {
    Pm4,
    Aql,
    Sdma,
    SdmaXgmi,
    /// On the SDMA engine that the program names. Becomes one of the two above.
    SdmaEngine(u32),
}

impl RingKind {
    /// `KFD_IOC_QUEUE_TYPE_*` as the kernel reports it back (`queue_snapshot_entry`).
    pub(super) const fn uapi_type(self) -> QueueType {
        match self {
            RingKind::Pm4 => QueueType::COMPUTE,
            RingKind::Aql => QueueType::COMPUTE_AQL,
            RingKind::Sdma => QueueType::SDMA,
            RingKind::SdmaXgmi => QueueType::SDMA_XGMI,
            RingKind::SdmaEngine(_) => QueueType::SDMA_BY_ENG_ID,
        }
    }
}

/// `struct queue_properties`.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    pub(super) kind: RingKind,
    pub(super) ring: u64,
    /// Bytes.
    pub(super) ring_size: u32,
    pub(super) read_pointer: u64,
    pub(super) write_pointer: u64,
    pub(super) percentage: u32,
    pub(super) priority: u32,
    pub(super) eop: u64,
    /// Bytes; the kernel keeps 32 bits.
    pub(super) eop_size: u32,
    pub(super) save_area: u64,
    /// Bytes for one XCC, without the debugger's memory.
    pub(super) save_area_size: u32,
    pub(super) ctl_stack_size: u32,
}

impl Properties {
    /// Checks the arguments of CREATE_QUEUE. A ring size below the least is raised, in the arguments too.
    ///
    /// # Errors
    /// `EINVAL` for a share, priority or ring size; `EFAULT` for an address that is no program's; `ENOTSUPP` for a
    /// queue type, which is looked at last.
    pub(super) fn from_user(args: &mut CreateQueueArgs) -> Result<Self, Errno> {
        check_share(args.queue_percentage, args.queue_priority)?;
        check_ring(args.ring_base_address, &mut args.ring_size)?;
        access_ok(args.read_pointer_address)?;
        access_ok(args.write_pointer_address)?;
        // Zero, which means none, passes as well.
        access_ok(args.eop_buffer_address)?;
        access_ok(args.ctx_save_restore_address)?;
        Ok(Self {
            kind: ring_kind(args)?,
            ring: args.ring_base_address,
            ring_size: args.ring_size,
            read_pointer: args.read_pointer_address,
            write_pointer: args.write_pointer_address,
            percentage: args.queue_percentage & 0xff,
            priority: args.queue_priority,
            eop: args.eop_buffer_address,
            eop_size: (args.eop_buffer_size & 0xffff_ffff) as u32,
            save_area: args.ctx_save_restore_address,
            save_area_size: args.ctx_save_restore_size,
            ctl_stack_size: args.ctl_stack_size,
        })
    }

    /// Whether the queue runs (`QUEUE_IS_ACTIVE`, but for eviction).
    pub(super) const fn is_active(&self) -> bool {
        self.ring_size > 0 && self.ring != 0 && self.percentage > 0
    }
}

/// Bits 8 to 15 of the percentage choose the die of a PM4 queue and may be anything.
pub(super) fn check_share(percentage: u32, priority: u32) -> Result<(), Errno> {
    if percentage & 0xff > MAX_QUEUE_PERCENTAGE || priority > MAX_QUEUE_PRIORITY {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Address and size of a ring; a size below the least, 0 included, is raised.
pub(super) fn check_ring(address: u64, size: &mut u32) -> Result<(), Errno> {
    access_ok(address)?;
    if *size != 0 && !size.is_power_of_two() {
        return Err(Errno::EINVAL);
    }
    *size = (*size).max(MIN_QUEUE_RING_SIZE);
    Ok(())
}

fn access_ok(address: u64) -> Result<(), Errno> {
    if address < TASK_SIZE_MAX { Ok(()) } else { Err(Errno::EFAULT) }
}

fn ring_kind(args: &CreateQueueArgs) -> Result<RingKind, Errno> {
    match QueueType(args.queue_type) {
        QueueType::COMPUTE => Ok(RingKind::Pm4),
        QueueType::COMPUTE_AQL => Ok(RingKind::Aql),
        QueueType::SDMA => Ok(RingKind::Sdma),
        QueueType::SDMA_XGMI => Ok(RingKind::SdmaXgmi),
        QueueType::SDMA_BY_ENG_ID => Ok(RingKind::SdmaEngine(args.sdma_engine_id)),
        _ => Err(Errno::ENOTSUPP),
    }
}
