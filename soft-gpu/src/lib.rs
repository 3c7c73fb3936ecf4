//! A software AMD GPU behind the KFD boundary.
//!
//! It implements [`protocol::kfd::Kfd`]: it answers the KFD ioctls as the kernel does on the
//! machine that its profile describes, and processes the queues that a process creates.

pub mod backing;
#[allow(dead_code, reason = "some of what the core offers is for calls that are not in yet")]
pub mod device;
pub mod engine;
pub mod kernel;
pub mod mem;
#[allow(dead_code, reason = "some of what the core offers is for calls that are not in yet")]
mod server;

pub use backing::BackingFiles;
pub use device::SoftGpu;
pub use kernel::Kernel;
