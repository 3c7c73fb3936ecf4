//! A software AMD GPU behind the KFD boundary.
//!
//! It implements [`protocol::kfd::Kfd`]: it answers the KFD ioctls as the kernel does on the
//! machine that its profile describes, and processes the queues that a process creates.

pub mod backing;
pub mod engine;
pub mod kernel;
pub mod mem;

pub use backing::BackingFiles;
pub use kernel::Kernel;
