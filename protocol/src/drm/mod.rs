//! The calls of a render node (`include/uapi/drm/drm.h`, `amdgpu_drm.h`) that ROCm's user space makes.

pub mod args;
pub mod info;
mod ioctl;
pub mod virtgpu;

pub use ioctl::{Decl, DrmIoctl, FIRST_DRIVER_NR, Known};

/// Type letter of every DRM request (`DRM_IOCTL_BASE`).
pub const TYPE: u8 = b'd';

/// What an AMDGPU_INFO call asks for (`AMDGPU_INFO_*`).
pub mod query {
    /// Whether the GPU can execute anything: `u32`.
    pub const ACCEL_WORKING: u32 = 0x00;
    /// One kind of engine: [`InfoHwIp`](super::info::InfoHwIp).
    pub const HW_IP_INFO: u32 = 0x02;
    /// Number of engines of a kind: `u32`.
    pub const HW_IP_COUNT: u32 = 0x03;
    /// Time stamp counter of the GPU: `u64`.
    pub const TIMESTAMP: u32 = 0x05;
    /// Version of a firmware: [`InfoFirmware`](super::info::InfoFirmware).
    pub const FW_VERSION: u32 = 0x0e;
    /// Bytes moved between memories: `u64`.
    pub const NUM_BYTES_MOVED: u32 = 0x0f;
    /// Bytes of local memory in use: `u64`.
    pub const VRAM_USAGE: u32 = 0x10;
    /// Bytes of system memory in use by the GPU: `u64`.
    pub const GTT_USAGE: u32 = 0x11;
    /// Global data share: [`InfoGds`](super::info::InfoGds).
    pub const GDS_CONFIG: u32 = 0x13;
    /// Memory sizes: [`InfoVramGtt`](super::info::InfoVramGtt).
    pub const VRAM_GTT: u32 = 0x14;
    /// Values of registers: `u32` each.
    pub const READ_MMR_REG: u32 = 0x15;
    /// The device: [`InfoDevice`](super::info::InfoDevice).
    pub const DEV_INFO: u32 = 0x16;
    /// Bytes of CPU-visible local memory in use: `u64`.
    pub const VIS_VRAM_USAGE: u32 = 0x17;
    /// Buffers that were moved out of the way: `u64`.
    pub const NUM_EVICTIONS: u32 = 0x18;
    /// Memory sizes and use: [`MemoryInfo`](super::info::MemoryInfo).
    pub const MEMORY: u32 = 0x19;
    /// CPU page faults in local memory: `u64`.
    pub const NUM_VRAM_CPU_PAGE_FAULTS: u32 = 0x1e;
    /// How often local memory was lost by a reset: `u32`.
    pub const VRAM_LOST_COUNTER: u32 = 0x1f;
    /// RAS features that are on: `u64`.
    pub const RAS_ENABLED_FEATURES: u32 = 0x20;
}

/// Kinds of engines (`AMDGPU_HW_IP_*`).
pub mod hw_ip {
    /// Graphics.
    pub const GFX: u32 = 0;
    /// Compute rings of the graphics block.
    pub const COMPUTE: u32 = 1;
    /// SDMA.
    pub const DMA: u32 = 2;
    /// The highest that Linux 6.12 knows (VPE).
    pub const LAST: u32 = 9;
}

/// Kinds of firmware (`AMDGPU_INFO_FW_*`).
pub mod firmware {
    /// Compute microcode of the graphics block.
    pub const GFX_MEC: u32 = 0x08;
    /// SDMA microcode.
    pub const SDMA: u32 = 0x0b;
    /// Scheduler microcode (gfx11 and later).
    pub const MES: u32 = 0x1a;
    /// The highest that Linux 6.12 knows (VPE).
    pub const LAST: u32 = 0x1c;
}

/// What a driver can do (`DRM_CAP_*`).
pub mod cap {
    /// Import and export of dma-bufs: both bits are set.
    pub const PRIME: u64 = 0x5;
    /// Time stamps are monotonic.
    pub const TIMESTAMP_MONOTONIC: u64 = 0x6;
    /// Synchronisation objects.
    pub const SYNCOBJ: u64 = 0x13;
    /// Synchronisation objects with points in time.
    pub const SYNCOBJ_TIMELINE: u64 = 0x14;
}

/// Where a buffer may be (`AMDGPU_GEM_DOMAIN_*`).
pub mod domain {
    /// System memory that the GPU does not reach.
    pub const CPU: u64 = 0x1;
    /// System memory that the GPU reaches.
    pub const GTT: u64 = 0x2;
    /// The GPU's memory.
    pub const VRAM: u64 = 0x4;
    /// All of these.
    pub const MEMORY: u64 = CPU | GTT | VRAM;
}

/// Flags of GEM_CREATE (`AMDGPU_GEM_CREATE_*`).
pub mod gem_create {
    /// No CPU maps it.
    pub const NO_CPU_ACCESS: u64 = 1 << 1;
    /// Always mapped in the tables of its file, and never exported.
    pub const VM_ALWAYS_VALID: u64 = 1 << 6;
    /// Those that Linux 6.12 takes from programs: CPU access or none, write combining, cleared, always valid,
    /// explicit synchronisation, discardable, compression (`amdgpu_gem_create_ioctl`).
    pub const KNOWN: u64 = 0x3 | 1 << 2 | 1 << 3 | VM_ALWAYS_VALID | 1 << 7 | 1 << 12 | 1 << 16;
}

/// Operations of GEM_OP (`AMDGPU_GEM_OP_*`).
pub mod gem_op {
    /// What the buffer was created with.
    pub const GET_CREATE_INFO: u32 = 0;
}

/// Operations of GEM_METADATA (`AMDGPU_GEM_METADATA_OP_*`).
pub mod metadata_op {
    /// Stores.
    pub const SET: u32 = 1;
    /// Reads.
    pub const GET: u32 = 2;
}

/// Operations of GEM_VA (`AMDGPU_VA_OP_*`).
pub mod va_op {
    /// Maps a part of a buffer where nothing is mapped.
    pub const MAP: u32 = 1;
    /// Removes a mapping.
    pub const UNMAP: u32 = 2;
    /// Removes what is mapped in a range.
    pub const CLEAR: u32 = 3;
    /// Removes what is mapped in a range and maps a buffer there.
    pub const REPLACE: u32 = 4;
}

/// Flags of GEM_VA (`AMDGPU_VM_*`).
pub mod vm_page {
    /// The GPU may write.
    pub const WRITEABLE: u32 = 1 << 2;
    /// The GPU may fetch instructions.
    pub const EXECUTABLE: u32 = 1 << 3;
    /// Delayed update, readable, writeable, executable, memory type, no-alloc.
    pub const KNOWN: u32 = 1 << 0 | 1 << 1 | WRITEABLE | EXECUTABLE | 0xf << 5 | 1 << 9;
}

#[cfg(test)]
mod tests;
