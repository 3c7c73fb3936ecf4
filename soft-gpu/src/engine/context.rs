//! What executing a packet works with, and how it can end.

use std::sync::Arc;

use super::clock::GpuClock;
use super::{GpuFault, Interrupts};
use crate::mem::GpuVm;

/// The surroundings of a packet: the memory and the interrupt line of one (process, GPU).
#[derive(Clone, Copy)]
pub(super) struct Cx<'a> {
    pub(super) vm: &'a Arc<GpuVm>,
    pub(super) clock: GpuClock,
    pub(super) interrupts: &'a dyn Interrupts,
}

/// How one step of a queue went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Something was done; `cost` is about the nanoseconds that it took.
    Progress { cost: u32 },
    /// The queue waits for memory to change.
    Waiting,
    /// The ring is empty.
    Idle,
}

/// What most packets cost.
pub(super) const PACKET: Step = Step::Progress { cost: 100 };

/// Why a queue stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// A memory access that the page tables do not allow.
    Fault(GpuFault),
    /// A packet that the processor refuses.
    Exception(Exception),
}

impl From<GpuFault> for Stop {
    fn from(fault: GpuFault) -> Self {
        Stop::Fault(fault)
    }
}

impl From<Exception> for Stop {
    fn from(exception: Exception) -> Self {
        Stop::Exception(exception)
    }
}

/// What the packet processor reports when it stops at a packet.
#[derive(Debug)]
pub(super) struct Exception {
    pub(super) kind: ExceptionKind,
    /// What was wrong, with the packet's words.
    pub(super) message: String,
}

/// Kinds of exceptions at packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExceptionKind {
    /// A wave stopped itself with a trap.
    Trap,
    /// A wave came to an instruction that cannot be executed.
    IllegalInstruction,
    /// A dispatch of no work.
    DispatchDim,
    /// A dispatch with more LDS than there is.
    GroupSegment,
    /// A kernel that cannot be run.
    DispatchCode,
    /// A workgroup that is too large.
    GroupSize,
    /// A packet of unknown or unsupported type.
    Unsupported,
    /// A vendor-specific packet of unknown or unsupported format.
    VendorUnsupported,
}

impl ExceptionKind {
    /// `KFD_EC_MASK` of the exception code.
    pub(super) const fn mask(self) -> u64 {
        let code = match self {
            // EC_QUEUE_WAVE_ABORT, EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION, EC_QUEUE_PACKET_DISPATCH_DIM_INVALID,
            // _GROUP_SEGMENT_SIZE_INVALID, _CODE_INVALID, EC_QUEUE_PACKET_UNSUPPORTED,
            // EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID, EC_QUEUE_PACKET_VENDOR_UNSUPPORTED of
            // enum kfd_dbg_trap_exception_code.
            ExceptionKind::Trap => 1,
            ExceptionKind::IllegalInstruction => 4,
            ExceptionKind::DispatchDim => 16,
            ExceptionKind::GroupSegment => 17,
            ExceptionKind::DispatchCode => 18,
            ExceptionKind::GroupSize => 21,
            ExceptionKind::Unsupported => 20,
            ExceptionKind::VendorUnsupported => 23,
        };
        1 << (code - 1)
    }

    /// What the packet processor stores in the queue's inactive signal, as ROCr's queue event handler
    /// (`AqlQueue::DynamicQueueEventsHandler`) reads it.
    pub(super) const fn inactive_signal_value(self) -> i64 {
        match self {
            ExceptionKind::DispatchDim => 2,
            ExceptionKind::GroupSegment => 4,
            ExceptionKind::DispatchCode => 8,
            ExceptionKind::GroupSize => 64,
            ExceptionKind::IllegalInstruction => 0x4000_0000,
            ExceptionKind::Trap => 0x8000_0000,
            ExceptionKind::Unsupported => 32,
            ExceptionKind::VendorUnsupported => 256,
        }
    }
}
