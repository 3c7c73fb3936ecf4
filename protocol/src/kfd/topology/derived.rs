//! What follows from a node's properties without being written in them.

use std::fmt;

use super::records::NodeProperties;

/// Bytes of a page of the host (x86-64).
const PAGE: u64 = 4096;

/// An instruction set architecture of a GPU: `gfx90a` is 9.0.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GfxVersion {
    /// First number of the name.
    pub major: u8,
    /// Second number, one hexadecimal digit in the name.
    pub minor: u8,
    /// Last number, one hexadecimal digit in the name.
    pub stepping: u8,
}

/// A `gfx_target_version` that names no instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "gfx_target_version {0} names no instruction set: expected major * 10000 + minor * 100 + stepping, minor and stepping at most 15"
)]
pub struct BadGfxVersion(pub u64);

impl GfxVersion {
    /// `gfx major.minor.stepping`.
    #[must_use]
    pub const fn new(major: u8, minor: u8, stepping: u8) -> Self {
        Self { major, minor, stepping }
    }

    /// From `gfx_target_version`; `None` for 0, a node without a GPU (or a kernel before the key).
    ///
    /// # Errors
    /// Values whose minor or stepping cannot be written as one hexadecimal digit.
    pub fn decode(value: u64) -> Result<Option<Self>, BadGfxVersion> {
        if value == 0 {
            return Ok(None);
        }
        let part = |number: u64, most: u8| u8::try_from(number).ok().filter(|&n| n <= most);
        let parts = (part(value / 10_000, 99), part(value / 100 % 100, 15), part(value % 100, 15));
        match parts {
            (Some(major @ 1..), Some(minor), Some(stepping)) => Ok(Some(Self { major, minor, stepping })),
            _ => Err(BadGfxVersion(value)),
        }
    }

    /// As in `gfx_target_version`.
    #[must_use]
    pub fn encode(self) -> u32 {
        u32::from(self.major) * 10_000 + u32::from(self.minor) * 100 + u32::from(self.stepping)
    }

    /// Whether queues are scheduled by MES firmware (gfx11 and later) instead of HWS.
    #[must_use]
    pub fn has_mes(self) -> bool {
        self.major >= 11
    }

    /// Whether XNACK (retry of faulting accesses) can be chosen for each process
    /// (`KFD_SUPPORT_XNACK_PER_PROCESS`: GC 9.4.2 to 9.4.4 and 9.5.0).
    #[must_use]
    pub fn has_xnack_per_process(self) -> bool {
        matches!(
            self,
            Self { major: 9, minor: 0, stepping: 10 }
                | Self { major: 9, minor: 4, stepping: 0..=2 }
                | Self { major: 9, minor: 5, stepping: 0 }
        )
    }

    /// Bytes of a doorbell (`kfd_device_info_init`).
    #[must_use]
    pub fn doorbell_size(self) -> u32 {
        if self.major >= 9 { 8 } else { 4 }
    }

    /// Most queues of one process on one GPU (`pqm_create_queue`).
    #[must_use]
    pub fn max_queues_per_process(self) -> u32 {
        if self.major == 9 && (self.minor == 4 || self.minor == 5) { 255 } else { 127 }
    }

    /// VGPR bytes of a CU (`kfd_get_vgpr_size_per_cu`).
    fn vgpr_bytes(self) -> u64 {
        match (self.major, self.minor, self.stepping) {
            (9, 0, 8 | 10) | (9, 4, _) | (9, 5, 0) | (12, 5, 0 | 1) => 0x8_0000,
            (11, 0, 0 | 1) | (11, 5, 1) | (12, 0, 0 | 1) => 0x6_0000,
            _ => 0x4_0000,
        }
    }

    fn is_12_5(self) -> bool {
        matches!(self, Self { major: 12, minor: 5, stepping: 0 | 1 })
    }
}

impl fmt::Display for GfxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gfx{}{:x}{:x}", self.major, self.minor, self.stepping)
    }
}

/// Sizes that KFD demands of the buffers of a compute queue
/// (`kfd_queue_ctx_save_restore_size` in `kfd_queue.c`). Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSizes {
    /// Control stack of one XCC: a queue must give exactly this.
    pub ctl_stack: u32,
    /// Control stack and wave state of one XCC: a queue must give at least this.
    pub cwsr: u32,
    /// Memory for the debugger, of one XCC.
    pub debug_memory: u32,
    /// End-of-pipe buffer, exactly; 0 where none is wanted.
    pub eop_buffer: u32,
}

impl QueueSizes {
    /// The sizes for a node; all 0 below gfx 8.0.1 and for nodes without SIMDs, and where the numbers
    /// overflow (no GPU has such).
    ///
    /// `array_count` of the files counts over all XCCs; here it is divided again, as in the kernel.
    #[must_use]
    pub fn of(gfx: GfxVersion, p: &NodeProperties) -> Self {
        Self::compute(gfx, p).unwrap_or_default()
    }

    fn compute(gfx: GfxVersion, p: &NodeProperties) -> Option<Self> {
        if gfx < GfxVersion::new(8, 0, 1) {
            return None;
        }
        let xccs = p.num_xcc.max(1);
        let cus = u64::from(p.simd_count.checked_div(p.simd_per_cu)?.checked_div(xccs)?);
        if cus == 0 {
            return None;
        }
        let waves = waves(gfx, cus, p, xccs);
        let lds = match gfx {
            GfxVersion { major: 9, minor: 5, stepping: 0 } => u64::from(p.lds_size_in_kb) * 1024,
            gfx if gfx.is_12_5() => u64::from(p.lds_size_in_kb) * 1024,
            _ => 0x1_0000,
        };
        let (sgprs, hw_registers) = if gfx.is_12_5() { (0x8000, 0x8000) } else { (0x4000, 0x1000) };
        let work_group_data = align(cus.checked_mul(gfx.vgpr_bytes() + sgprs + lds + hw_registers)?)?;
        let wave_bytes = if gfx >= GfxVersion::new(10, 1, 0) { 12 } else { 8 };
        // 40 bytes are the header (`struct kfd_context_save_area_header`).
        let mut ctl_stack = align(waves.checked_mul(wave_bytes)?.checked_add(8 + 40)?)?;
        if gfx.major == 10 {
            ctl_stack = ctl_stack.min(0x7000);
        }
        Some(Self {
            ctl_stack: u32::try_from(ctl_stack).ok()?,
            cwsr: u32::try_from(ctl_stack.checked_add(work_group_data)?).ok()?,
            debug_memory: u32::try_from(waves.checked_mul(32)?.checked_next_multiple_of(64)?).ok()?,
            eop_buffer: if gfx == GfxVersion::new(8, 0, 2) { 0x8000 } else { 0x1000 },
        })
    }

    /// Bytes of the whole context save area of a queue on a node with `num_xcc` XCCs: the one length
    /// that KFD accepts for its mapping, given the queue's own `ctx_save_restore_area_size`.
    #[must_use]
    pub fn save_area(&self, area_size: u32, num_xcc: u32) -> Option<u64> {
        let one = u64::from(area_size) + u64::from(self.debug_memory);
        align(one.checked_mul(u64::from(num_xcc.max(1)))?)
    }
}

/// Waves of one XCC that can be saved.
fn waves(gfx: GfxVersion, cus: u64, p: &NodeProperties, xccs: u32) -> u64 {
    if gfx.is_12_5() {
        return cus * 64;
    }
    if gfx >= GfxVersion::new(10, 1, 0) {
        return cus * 32;
    }
    let arrays = p.array_count / xccs;
    match arrays.checked_div(p.simd_arrays_per_engine) {
        Some(engines) => (cus * 40).min(u64::from(engines) * 512),
        None => cus * 40,
    }
}

fn align(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}

/// Address ranges of a GPU in a 64-bit process, limits inclusive (`kfd_init_apertures`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apertures {
    /// First address of the LDS aperture.
    pub lds_base: u64,
    /// Last address of the LDS aperture.
    pub lds_limit: u64,
    /// First address of the scratch aperture.
    pub scratch_base: u64,
    /// Last address of the scratch aperture.
    pub scratch_limit: u64,
    /// First address that a buffer can have.
    pub gpuvm_base: u64,
    /// Last address that a buffer can have.
    pub gpuvm_limit: u64,
}

impl Apertures {
    /// The apertures of a discrete GPU.
    ///
    /// From gfx9 on LDS and scratch are chosen by the high 16 bits of the address; GPUVM is the lower
    /// half of 48 bits (`AMDGPU_GMC_HOLE_START`). Before, GPUVM has 40 bits and the other two lie in
    /// the hole above it. The lowest 64 KiB are reserved (`AMDGPU_VA_RESERVED_BOTTOM`).
    #[must_use]
    pub fn of(gfx: GfxVersion) -> Self {
        const LOW_4G: u64 = 0xffff_ffff;
        let v9 = gfx.major >= 9;
        let lds_base = if v9 { 1 << 48 } else { 1 << 61 };
        let scratch_base = if v9 { 2 << 48 } else { (1 << 61) + (1 << 32) };
        Self {
            lds_base,
            lds_limit: lds_base | LOW_4G,
            scratch_base,
            scratch_limit: scratch_base | LOW_4G,
            gpuvm_base: 1 << 16,
            gpuvm_limit: if v9 { (1 << 47) - 1 } else { (1 << 40) - 1 },
        }
    }
}

impl NodeProperties {
    /// SDMA queues that can exist at a time: (PCIe engines, XGMI engines).
    #[must_use]
    pub fn sdma_queues(&self) -> (u64, u64) {
        let per_engine = u64::from(self.num_sdma_queues_per_engine);
        let queues = |engines: u32| u64::from(engines) * per_engine;
        (queues(self.num_sdma_engines), queues(self.num_sdma_xgmi_engines))
    }
}
