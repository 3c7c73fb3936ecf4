//! Memory of the GPU: the arenas inside the backing files, host mappings, GPU page tables.
//!
//! All of it is shared with programs that may be hostile: their CPUs and our queues store to it at
//! any time. So nothing here hands out a Rust reference to bytes; access is by copy or by atomic.

mod arena;
mod cached;
mod host;
mod vm;

pub use arena::{Arena, OutOfSpace};
pub use cached::CachedTables;
pub use host::{AccessError, HostMem, HostSlice, ShareError};
pub use vm::{GpuVm, MapError, MapFlags, Mapped, MappingOwner, PageTables};

/// Size of a page of CPU and GPU page tables in bytes (`PAGE_SIZE`, `AMDGPU_GPU_PAGE_SIZE`).
pub const PAGE_SIZE: u64 = 4096;
