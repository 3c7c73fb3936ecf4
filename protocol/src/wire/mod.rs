//! What a guest's library and the host's worker say to each other: the serialisation of [`Kfd`](crate::kfd::Kfd).
//!
//! A context has one [`Setup`](submit::Submission::Setup), an EXECBUFFER that names the guest blob in which both talk from
//! then on. That blob is the *call area* ([`area`]): slots for calls, a queue of the slots that were submitted, and a few
//! words. A call is a command of [`command`] in a slot; its answer stands in the same slot. EXECBUFFER is needed only to
//! wake a worker that sleeps ([`Kick`](submit::Submission::Kick)), and for a fence when the guest itself wants to sleep
//! ([`Wake`](submit::Submission::Wake)).
//!
//! # Addresses and memory
//!
//! HELLO agrees on a range of addresses, which both sides keep free for the life of the context. An ALIAS makes a part of a
//! blob the memory at some of them, so that an address in it means the same to the program, the host and the GPUs. Every
//! address of an ioctl that is the GPU's ([`Reach::addresses`](crate::kfd::ioctl::Reach::addresses)) must lie in that range
//! (`EINVAL`), and memory that is registered (userptr) must be aliased wholly (`EFAULT`). It cannot be unaliased before it
//! is freed (`EBUSY`). A blob that loses its aliases after it was detached is released then, not before.
//!
//! What GET_PROCESS_APERTURES says of GPUVM is cut to the range. Memory of the host is not shown: buffers of VRAM and GTT
//! have no place to be mapped, and VRAM that the CPU reaches cannot be had (`EINVAL`).
//!
//! That is different where both sides say [`feature::WINDOW`] in HELLO. Then a PLACE puts memory of the window, a blob of
//! the host's (`HOST3D`) that both sides map, behind such a buffer or behind doorbells. The guest's stores reach doorbells then
//! without a relay: DOORBELLS is `EOPNOTSUPP`.
//!
//! # Order
//!
//! A call begins after every call that was answered before it was submitted. Calls that are under way at one time may be
//! executed in any order and side by side, as those of several threads: those that take long
//! ([`slow`](crate::kfd::ioctl::Reach::slow), [`blocking`](crate::kfd::ioctl::Reach::blocking)) do not delay others. Who needs an
//! order waits for the answer.
//!
//! # Not supported
//!
//! An ioctl that a guest cannot have answers `EOPNOTSUPP`: whatever returns a descriptor or takes one that is no file of the
//! context, shared virtual memory, checkpoints, profiling, and debugging unless the host allows it.
//!
//! Everything is little endian. What is called `reserved` is zero, and a decoder refuses anything else, so that it can get a
//! meaning in a later version. Both sides take the other for hostile: each copies a message out before it looks at it, and
//! believes no length.

pub mod area;
pub mod command;
pub mod structs;
pub mod submit;
pub mod tree;

#[cfg(test)]
mod tests;

pub use command::{Answer, Command, IoctlAnswer, IoctlCall, Request};
pub use submit::Submission;

/// Lowest version of this module that is spoken.
pub const VERSION_MIN: u32 = 1;
/// Highest version of this module that is spoken.
pub const VERSION_MAX: u32 = 1;

/// Bits of [`Hello::features`](structs::Hello) and [`HelloAnswer::features`](structs::HelloAnswer).
pub mod feature {
    /// Memory of the host is shown in the device's window: the guest's driver has it, and the host fills it.
    pub const WINDOW: u64 = 1 << 0;
}

/// Longest request or answer, in bytes.
pub const MESSAGE_MAX: usize = 8 << 20;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A number that no command has.
    #[error("unknown command {0}")]
    Unknown(u32),
    /// Less than the fixed part.
    #[error("{what} of {have} bytes, it has {need}")]
    Short {
        /// Which message.
        what: &'static str,
        /// Bytes of its fixed part.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// What follows the fixed part is not as long as that says.
    #[error("{what} announces {need} more bytes, {have} are there")]
    Tail {
        /// Which message.
        what: &'static str,
        /// Bytes announced.
        need: u64,
        /// Bytes that are there.
        have: usize,
    },
    /// A field without meaning that is not zero.
    #[error("reserved bytes of {0} are not zero")]
    Reserved(&'static str),
    /// A field whose value has no meaning.
    #[error("{what}: {value} is no {field}")]
    Value {
        /// Which message.
        what: &'static str,
        /// Which field.
        field: &'static str,
        /// What it says.
        value: u64,
    },
}
