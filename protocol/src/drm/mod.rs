//! The calls of a render node (`include/uapi/drm/drm.h`, `amdgpu_drm.h`) that ROCm's user space makes.

pub mod args;
pub mod info;
mod ioctl;

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

#[cfg(test)]
mod tests;
