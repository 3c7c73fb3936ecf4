//! Queue processing: what the command processor and the SDMA engines do.
//!
//! The engine knows GPU memory ([`crate::mem`]) and the packets of its queues. What it has to tell
//! the process that owns a queue goes through [`Interrupts`].
//!
//! `worker` has the thread that lets queues take turns, `queue` a queue with its ring, doorbell and
//! position. Each family of packets has a folder: [`aql`], [`pm4`], [`sdma`], with a decoder that knows
//! every opcode by name and a machine that executes one step at a time. No step waits. [`compute`] runs kernels.

mod access;
mod aql;
mod atomics;
mod bits;
mod clock;
mod compare;
mod compute;
mod context;
pub(crate) mod doorbell;
mod pace;
mod pm4;
mod queue;
mod sdma;
mod stream;
mod transfer;
mod worker;

pub use clock::GpuClock;
pub use pace::Pace;
pub(crate) use queue::{QueueConfig, QueueKind};
pub(crate) use worker::{Engine, EngineConfig};

/// What the GPU tells the kernel driver about one process.
///
/// Called by the worker while it holds its queues: an implementation must not change queues.
pub trait Interrupts: Send + Sync {
    /// An end-of-pipe interrupt with an event id as payload, `valid_id_bits` low bits of which are
    /// meaningful (`kfd_signal_event_interrupt`). The mailbox was written before.
    fn signal_event(&self, event_id: u32, valid_id_bits: u32);

    /// An access that the page tables of `gpu_id` do not allow (`kfd_signal_vm_fault_event`).
    fn memory_fault(&self, gpu_id: u32, fault: GpuFault);

    /// A queue stopped with exceptions: mask of `KFD_EC_MASK(code)` bits
    /// (`kfd_dbg_send_exception_to_runtime` and the queue error event).
    fn queue_exception(&self, queue_id: u32, exceptions: u64);
}

/// A GPU memory access that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("GPU page fault at {va:#x} ({})", if *.write { "write" } else { "read" })]
pub struct GpuFault {
    /// First faulting GPU virtual address, not rounded to a page.
    pub va: u64,
    /// Whether the access was a store or an atomic.
    pub write: bool,
    /// Whether nothing is mapped there (`NotPresent`); otherwise the mapping lacks the permission.
    pub not_present: bool,
}

#[cfg(test)]
mod tests;
