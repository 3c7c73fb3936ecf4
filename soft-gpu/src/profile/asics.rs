//! The GPUs that profiles are made of, one function each.
//!
//! Numbers are those of AMD's data sheets (memory, CUs, clocks), of topology files and `rocminfo`
//! output that people published from real cards (grouping, firmware, caches, heap sizes), and of the
//! kernel's tables (caches of GC 9.4.2 in `kfd_crat.c`, GB_ADDR_CONFIG in `gfx_v9_0.c` and
//! `gfx_v9_4_3.c`, revision offsets in `soc15.c` and `soc21.c`, families in `amdgpu_drm.h`).

use protocol::kfd::topology::{Apertures, GfxVersion, QueueSizes};

use super::gpu::{CacheSizes, Clocks, Drm, Features, Firmware, GpuSpec, Pci, Sdma, Shaders, Vram, VramType};

const AMD: u16 = 0x1002;
const MIB: u64 = 1 << 20;

/// Instinct MI210: gfx90a, 104 CUs, 64 GiB HBM2e at 4096 bit and 3.2 Gbit/s (1638 GB/s).
pub fn mi210() -> GpuSpec {
    let gfx = GfxVersion::new(9, 0, 10);
    GpuSpec {
        asic_name: "aldebaran".to_owned(),
        pci: Pci { revision: 2, subsystem_device: 0x0c34, ..pci(0x740f) },
        // 64 GiB less the 16 MiB that the firmware keeps.
        vram: large_bar(65_520 * MIB, VramType::Hbm, 4096),
        shaders: Shaders {
            xccs: 1,
            engines: 8,
            arrays_per_engine: 1,
            cus_per_array: 14,
            cu_masks: vec![0x1fff; 8],
            simds_per_cu: 4,
            waves_per_simd: 8,
            wave_size: 64,
            scratch_slots_per_cu: 32,
            lds_kib: 64,
        },
        caches: CacheSizes {
            l1: 16,
            l1_line: 64,
            instruction: 32,
            instruction_line: 64,
            scalar: 16,
            scalar_line: 64,
            l2: 8192,
            l2_line: 128,
            ..CacheSizes::default()
        },
        sdma: Sdma { engines: 2, xgmi_engines: 3, queues_per_engine: 8 },
        firmware: Firmware { mec: 92, sdma: 9, ..Firmware::default() },
        clocks: clocks(1700, 500, 1600, 400),
        drm: Drm {
            chip_rev: 1,
            external_rev: 0x3c + 1,
            gb_addr_config: 0x2a11_4042,
            tcc_blocks: 32,
            ..drm(141)
        },
        features: Features { ras: true, ..features(gfx) },
        ..blank(gfx)
    }
}

/// Instinct MI300X in SPX mode: gfx942, 8 XCCs of 38 CUs, 192 GiB HBM3 at 8192 bit.
pub fn mi300x() -> GpuSpec {
    let gfx = GfxVersion::new(9, 4, 2);
    GpuSpec {
        asic_name: "ip discovery".to_owned(),
        pci: Pci { subsystem_device: 0x74a1, link_gen: 5, ..pci(0x74a1) },
        vram: large_bar(196_288 * MIB, VramType::Hbm, 8192),
        shaders: Shaders {
            xccs: 8,
            engines: 4,
            arrays_per_engine: 1,
            cus_per_array: 10,
            cu_masks: vec![0x3ff, 0x3ff, 0x1ff, 0x1ff],
            simds_per_cu: 4,
            waves_per_simd: 8,
            wave_size: 64,
            scratch_slots_per_cu: 32,
            lds_kib: 64,
        },
        caches: CacheSizes {
            l1: 32,
            l1_line: 128,
            instruction: 64,
            instruction_line: 64,
            scalar: 16,
            scalar_line: 64,
            l2: 4096,
            l2_line: 128,
            l3: 262_144,
            l3_line: 64,
            ..CacheSizes::default()
        },
        sdma: Sdma { engines: 2, xgmi_engines: 14, queues_per_engine: 8 },
        firmware: Firmware { mec: 177, sdma: 24, ..Firmware::default() },
        clocks: clocks(2100, 132, 1300, 900),
        drm: Drm {
            chip_rev: 1,
            external_rev: 0x46 + 1,
            gb_addr_config: 0x2a11_4042,
            tcc_blocks: 16,
            ..drm(141)
        },
        features: Features { ras: true, ..features(gfx) },
        ..blank(gfx)
    }
}

/// Radeon RX 7900 XTX: gfx1100, 96 CUs, 24 GiB GDDR6 at 384 bit and 20 Gbit/s (960 GB/s).
pub fn rx7900xtx() -> GpuSpec {
    let gfx = GfxVersion::new(11, 0, 0);
    GpuSpec {
        asic_name: "ip discovery".to_owned(),
        pci: Pci { revision: 0xc8, subsystem_device: 0x0e3b, ..pci(0x744c) },
        vram: large_bar(24_560 * MIB, VramType::Gddr6, 384),
        shaders: Shaders {
            xccs: 1,
            engines: 6,
            arrays_per_engine: 2,
            cus_per_array: 8,
            cu_masks: vec![0xff; 12],
            simds_per_cu: 2,
            waves_per_simd: 16,
            wave_size: 32,
            scratch_slots_per_cu: 32,
            lds_kib: 64,
        },
        caches: CacheSizes {
            l1: 32,
            l1_line: 128,
            instruction: 32,
            instruction_line: 128,
            scalar: 16,
            scalar_line: 64,
            gl1: 256,
            gl1_line: 128,
            l2: 6144,
            l2_line: 128,
            l3: 98_304,
            l3_line: 64,
        },
        // 8 queues of an engine, 2 of them kept for paging and graphics.
        sdma: Sdma { engines: 2, xgmi_engines: 0, queues_per_engine: 6 },
        firmware: Firmware { mec: 2150, sdma: 21, mes: 83, mes_api: 14 },
        clocks: clocks(2482, 500, 1249, 96),
        drm: Drm {
            external_rev: 1,
            gb_addr_config: 0x0000_0545,
            tcc_blocks: 24,
            render_backends: 24,
            ..drm(145)
        },
        features: Features { cp_queues: 8, ..features(gfx) },
        ..blank(gfx)
    }
}

/// What is known of a GPU by its instruction set alone: a card of this module, or a blank spec with
/// the family and a GB_ADDR_CONFIG that address libraries accept for it.
pub fn by_gfx(gfx: GfxVersion) -> GpuSpec {
    match (gfx.major, gfx.minor, gfx.stepping) {
        (9, 0, 10) => mi210(),
        (9, 4, 2) => mi300x(),
        (11, 0, 0) => rx7900xtx(),
        _ => {
            let (family, gb_addr_config) = family(gfx);
            GpuSpec { drm: Drm { gb_addr_config, ..drm(family) }, ..blank(gfx) }
        }
    }
}

/// `AMDGPU_FAMILY_*` and GB_ADDR_CONFIG (golden values of `gfx_v9_0.c`; later chips: values read from
/// cards of the generation, see Mesa's drm-shim).
fn family(gfx: GfxVersion) -> (u32, u32) {
    match (gfx.major, gfx.minor, gfx.stepping) {
        (8, 0, 1) => (135, 0x2201_0001),
        (..=8, _, _) => (130, 0x2201_1003),
        (9, 0, 2) => (142, 0x2400_0042),
        (9, 0, 12) => (142, 0x2201_0042),
        (9, 0, 4) => (141, 0x2410_4041),
        (9, _, _) => (141, 0x2a11_4042),
        (10, 3, 3) => (144, 0x0000_0142),
        (10, 3, 5) => (146, 0x0000_0142),
        (10, 3, 6) => (149, 0x0000_0042),
        (10, _, _) => (143, 0x0000_0044),
        (11, 5, _) => (150, 0x0000_0242),
        (11, 0, 3) => (148, 0x0000_0242),
        (11, _, _) => (145, 0x0000_0545),
        _ => (152, 0x0820_0545),
    }
}

/// A spec that still lacks what differs between GPUs; the place in the machine is filled in later.
pub(super) fn blank(gfx: GfxVersion) -> GpuSpec {
    GpuSpec {
        node: 0,
        gpu_id: 0,
        render_minor: 0,
        asic_name: String::new(),
        gfx,
        unique_id: 0,
        hive_id: 0,
        pci: pci(0),
        vram: Vram { size: 0, visible: 0, kind: VramType::Unknown, bus_width: 0 },
        shaders: Shaders {
            xccs: 1,
            engines: 1,
            arrays_per_engine: 1,
            cus_per_array: 1,
            cu_masks: vec![1],
            simds_per_cu: 4,
            waves_per_simd: 10,
            wave_size: 64,
            scratch_slots_per_cu: 32,
            lds_kib: 64,
        },
        caches: CacheSizes::default(),
        sdma: Sdma { engines: 0, xgmi_engines: 0, queues_per_engine: 0 },
        firmware: Firmware::default(),
        clocks: clocks(0, 0, 0, 0),
        drm: drm(0),
        features: features(gfx),
        queue_sizes: QueueSizes::default(),
        apertures: Apertures::of(gfx),
    }
}

fn pci(device: u16) -> Pci {
    Pci { vendor: AMD, device, subsystem_vendor: AMD, link_gen: 4, lanes: 16, ..Pci::default() }
}

fn large_bar(size: u64, kind: VramType, bus_width: u32) -> Vram {
    Vram { size, visible: size, kind, bus_width }
}

fn clocks(engine_max: u32, engine_min: u32, memory_max: u32, memory_min: u32) -> Clocks {
    Clocks { engine_max, engine_min, memory_max, memory_min, counter_khz: 100_000 }
}

fn drm(family: u32) -> Drm {
    Drm {
        family,
        chip_rev: 0,
        external_rev: 0,
        ids_flags: 0,
        gb_addr_config: 0,
        tcc_blocks: 0,
        render_backends: 0,
    }
}

/// What follows from the instruction set.
fn features(gfx: GfxVersion) -> Features {
    Features {
        mes: gfx.has_mes(),
        xnack: gfx.has_xnack_per_process(),
        svm: gfx.major >= 9,
        ras: false,
        pci_atomics: true,
        gws: 64,
        cp_queues: 24,
        max_queues_per_process: gfx.max_queues_per_process(),
    }
}
