//! A software AMD GPU behind the KFD boundary.
//!
//! It implements [`protocol::kfd::Kfd`]: it answers the KFD ioctls as the kernel does on the
//! machine that its profile describes, and processes the queues that a process creates.

pub mod backing;
pub mod cli;
pub mod device;
pub mod engine;
pub mod isa;
pub mod kernel;
pub mod launcher;
pub mod local_mem;
pub mod loopback;
pub mod mem;
pub mod proc_maps;
pub mod profile;
pub mod seqpacket;
mod server;
mod vm_copy;

pub use backing::BackingFiles;
pub use device::{Config, NewError, SoftGpu};
pub use kernel::Kernel;
pub use profile::{GpuSpec, Machine, Profile};
