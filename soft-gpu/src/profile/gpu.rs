//! What one GPU is: the facts that its topology node, its DRM answers and its limits are made from.

use protocol::kfd::topology::{Apertures, GfxVersion, QueueSizes};

/// One GPU (one KFD node with a render node).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSpec {
    /// Number of the topology node.
    pub node: u32,
    /// KFD id: what ioctls name the GPU by.
    pub gpu_id: u32,
    /// N of `/dev/dri/renderDN`.
    pub render_minor: u32,
    /// Name of the topology node, as the kernel writes it.
    pub asic_name: String,
    /// Instruction set.
    pub gfx: GfxVersion,
    /// Serial number of the device.
    pub unique_id: u64,
    /// XGMI hive, 0 for none.
    pub hive_id: u64,
    /// Place and ids on the PCI bus.
    pub pci: Pci,
    /// Local memory.
    pub vram: Vram,
    /// Compute units.
    pub shaders: Shaders,
    /// Cache sizes.
    pub caches: CacheSizes,
    /// SDMA engines.
    pub sdma: Sdma,
    /// Firmware versions.
    pub firmware: Firmware,
    /// Clocks.
    pub clocks: Clocks,
    /// What only the DRM interface tells.
    pub drm: Drm,
    /// What the GPU can do and how it is driven.
    pub features: Features,
    /// Sizes that KFD demands of a compute queue's buffers.
    pub queue_sizes: QueueSizes,
    /// Address ranges of a 64-bit process.
    pub apertures: Apertures,
}

/// Place and ids on the PCI bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pci {
    /// Domain (segment).
    pub domain: u32,
    /// Bus, device and function as in `location_id`: bus << 8 | device << 3 | function.
    pub location: u32,
    /// Vendor, 0x1002 for AMD.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Revision.
    pub revision: u8,
    /// Vendor of the board.
    pub subsystem_vendor: u16,
    /// Board.
    pub subsystem_device: u16,
    /// Generation of the link (4 is 16 GT/s).
    pub link_gen: u32,
    /// Lanes of the link.
    pub lanes: u32,
}

impl Pci {
    /// Bus number.
    #[must_use]
    pub fn bus(&self) -> u8 {
        self.location.to_be_bytes()[2]
    }

    /// Device number (slot) on the bus.
    #[must_use]
    pub fn slot(&self) -> u8 {
        self.location.to_be_bytes()[3] >> 3
    }

    /// Function number.
    #[must_use]
    pub fn function(&self) -> u8 {
        self.location.to_be_bytes()[3] & 7
    }

    /// `0000:03:00.0`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus(), self.slot(), self.function())
    }
}

/// Memory technology (`AMDGPU_VRAM_TYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum VramType {
    /// Not known.
    Unknown = 0,
    /// HBM, HBM2, HBM2e, HBM3.
    Hbm = 6,
    /// GDDR6.
    Gddr6 = 9,
}

/// Local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vram {
    /// Bytes that KFD reports.
    pub size: u64,
    /// Bytes of it that the CPU reaches through the PCI BAR.
    pub visible: u64,
    /// Technology.
    pub kind: VramType,
    /// Bits of the bus.
    pub bus_width: u32,
}

impl Vram {
    /// Whether the CPU sees all of it (`kfd_dev_is_large_bar`): then KFD reports a public heap and a
    /// link from the CPU to the GPU.
    #[must_use]
    pub fn is_large_bar(&self) -> bool {
        self.visible >= self.size
    }
}

/// Compute units and how they are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaders {
    /// Accelerated compute dies of the node.
    pub xccs: u32,
    /// Shader engines of one XCC.
    pub engines: u32,
    /// Shader arrays of an engine.
    pub arrays_per_engine: u32,
    /// CUs of an array, disabled ones included.
    pub cus_per_array: u32,
    /// Enabled CUs of each array of one XCC, engine by engine. All XCCs are alike.
    pub cu_masks: Vec<u32>,
    /// SIMDs of a CU.
    pub simds_per_cu: u32,
    /// Wave slots of a SIMD.
    pub waves_per_simd: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Waves with scratch of a CU.
    pub scratch_slots_per_cu: u32,
    /// KiB of LDS of a CU.
    pub lds_kib: u32,
}

impl Shaders {
    /// Enabled CUs of the node.
    #[must_use]
    pub fn cus(&self) -> u32 {
        self.cu_masks.iter().map(|mask| mask.count_ones()).sum::<u32>().saturating_mul(self.xccs)
    }
}

/// Cache sizes in KiB (0: there is none) and lines in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSizes {
    /// Vector data cache of a CU.
    pub l1: u32,
    /// Its line.
    pub l1_line: u32,
    /// Instruction cache, shared by two CUs.
    pub instruction: u32,
    /// Its line.
    pub instruction_line: u32,
    /// Scalar data cache, shared by two CUs.
    pub scalar: u32,
    /// Its line.
    pub scalar_line: u32,
    /// Cache of a shader array (gfx10 and gfx11).
    pub gl1: u32,
    /// Its line.
    pub gl1_line: u32,
    /// Second level.
    pub l2: u32,
    /// Its line.
    pub l2_line: u32,
    /// Memory-side cache.
    pub l3: u32,
    /// Its line.
    pub l3_line: u32,
}

/// SDMA engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdma {
    /// Engines for PCIe.
    pub engines: u32,
    /// Engines for XGMI.
    pub xgmi_engines: u32,
    /// Queues of each engine that KFD gives out.
    pub queues_per_engine: u32,
}

/// Firmware versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Firmware {
    /// Compute (MEC).
    pub mec: u32,
    /// SDMA.
    pub sdma: u32,
    /// Scheduler (MES), gfx11 and later; 0 before.
    pub mes: u32,
    /// Interface of the scheduler.
    pub mes_api: u32,
}

/// Clocks in MHz, the counter's in kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Highest shader clock.
    pub engine_max: u32,
    /// Lowest shader clock.
    pub engine_min: u32,
    /// Highest memory clock.
    pub memory_max: u32,
    /// Lowest memory clock.
    pub memory_min: u32,
    /// Rate of the GPU's time stamp counter, kHz.
    pub counter_khz: u32,
}

/// What only the DRM interface tells (`AMDGPU_INFO_DEV_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drm {
    /// `AMDGPU_FAMILY_*`.
    pub family: u32,
    /// Revision of the chip (A0 is 0).
    pub chip_rev: u32,
    /// Revision within the family.
    pub external_rev: u32,
    /// `AMDGPU_IDS_FLAGS_*`: 1 fusion (APU).
    pub ids_flags: u64,
    /// Register GB_ADDR_CONFIG, also in GET_TILE_CONFIG. OpenCL's address library stops the program
    /// if it is nonsense.
    pub gb_addr_config: u32,
    /// Second-level cache channels.
    pub tcc_blocks: u32,
    /// Render backends (0 on compute-only chips).
    pub render_backends: u32,
}

/// What the GPU can do and how it is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Queues are scheduled by MES firmware (gfx11 and later).
    pub mes: bool,
    /// XNACK can be chosen for each process.
    pub xnack: bool,
    /// Shared virtual memory (the SVM ioctl).
    pub svm: bool,
    /// ECC and RAS: sets the EDC bits and the RAS event bit of the capability.
    pub ras: bool,
    /// PCIe atomics reach system memory.
    pub pci_atomics: bool,
    /// GWS entries.
    pub gws: u32,
    /// Hardware queues of the compute pipes.
    pub cp_queues: u32,
    /// Most queues of one process on this GPU; beyond is `ENOSPC`.
    pub max_queues_per_process: u32,
}

impl GpuSpec {
    /// Bytes of a doorbell.
    #[must_use]
    pub fn doorbell_size(&self) -> u32 {
        self.gfx.doorbell_size()
    }
}
