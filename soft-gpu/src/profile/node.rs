//! The topology node of a GPU, as `kfd_topology_add_device` fills it.

use protocol::kfd::topology::{GfxVersion, MemBank, Node, NodeProperties, QueueSizes};

use super::caches::caches;
use super::gpu::GpuSpec;
use crate::Kernel;

/// `HSA_MEM_HEAP_TYPE_FB_PUBLIC`.
const HEAP_FB_PUBLIC: u32 = 1;
/// `HSA_MEM_HEAP_TYPE_FB_PRIVATE`.
const HEAP_FB_PRIVATE: u32 = 2;

/// Builds the node of a GPU without its links, and the sizes that follow from its properties.
/// `simd_id_base` is the first SIMD id, `cpu_mhz` the highest clock of CPU 0.
pub fn gpu_node(spec: &GpuSpec, kernel: Kernel, simd_id_base: u32, cpu_mhz: u32) -> (Node, QueueSizes) {
    let mut properties = properties(spec, kernel, simd_id_base, cpu_mhz);
    let sizes = queue_sizes(spec.gfx, &properties);
    properties.cwsr_size = sizes.cwsr;
    properties.ctl_stack_size = sizes.ctl_stack;
    let bank = MemBank {
        heap_type: if spec.vram.is_large_bar() { HEAP_FB_PUBLIC } else { HEAP_FB_PRIVATE },
        size_in_bytes: spec.vram.size,
        flags: 0,
        width: spec.vram.bus_width,
        mem_clk_max: spec.clocks.memory_max,
    };
    let node = Node {
        id: spec.node,
        gpu_id: spec.gpu_id,
        name: spec.asic_name.clone(),
        properties,
        mem_banks: vec![bank],
        caches: caches(&spec.shaders, &spec.caches, simd_id_base),
        ..Node::default()
    };
    (node, sizes)
}

/// The sizes for a queue: what the node says, where it says it, else what the kernel computes.
pub fn queue_sizes(gfx: GfxVersion, properties: &NodeProperties) -> QueueSizes {
    let computed = QueueSizes::of(gfx, properties);
    let said = |said: u32, computed: u32| if said == 0 { computed } else { said };
    QueueSizes {
        cwsr: said(properties.cwsr_size, computed.cwsr),
        ctl_stack: said(properties.ctl_stack_size, computed.ctl_stack),
        ..computed
    }
}

fn properties(spec: &GpuSpec, kernel: Kernel, simd_id_base: u32, cpu_mhz: u32) -> NodeProperties {
    let s = &spec.shaders;
    NodeProperties {
        simd_count: s.cus() * s.simds_per_cu,
        simd_id_base,
        max_waves_per_simd: s.waves_per_simd,
        lds_size_in_kb: s.lds_kib,
        num_gws: spec.features.gws,
        wave_front_size: s.wave_size,
        array_count: s.engines * s.arrays_per_engine * s.xccs,
        simd_arrays_per_engine: s.arrays_per_engine,
        cu_per_simd_array: s.cus_per_array,
        simd_per_cu: s.simds_per_cu,
        max_slots_scratch_cu: s.scratch_slots_per_cu,
        gfx_target_version: spec.gfx.encode(),
        vendor_id: spec.pci.vendor.into(),
        device_id: spec.pci.device.into(),
        location_id: spec.pci.location,
        domain: spec.pci.domain,
        drm_render_minor: spec.render_minor,
        hive_id: spec.hive_id,
        num_sdma_engines: spec.sdma.engines,
        num_sdma_xgmi_engines: spec.sdma.xgmi_engines,
        num_sdma_queues_per_engine: spec.sdma.queues_per_engine,
        num_cp_queues: spec.features.cp_queues,
        max_engine_clk_fcompute: spec.clocks.engine_max,
        fw_version: spec.firmware.mec,
        capability: capability(spec, kernel),
        debug_prop: debug_prop(spec),
        sdma_fw_version: spec.firmware.sdma,
        unique_id: spec.unique_id,
        num_xcc: s.xccs,
        max_engine_clk_ccompute: cpu_mhz,
        ..NodeProperties::default()
    }
}

/// The `HSA_CAP_*` bits (`kfd_topology_set_capabilities` and the end of `kfd_topology_add_device`).
fn capability(spec: &GpuSpec, kernel: Kernel) -> u32 {
    let gfx = spec.gfx;
    let bit = |n: u32, on: bool| u32::from(on) << n;
    // Four watch points: the bit says that there are some, the field holds the logarithm.
    let mut cap = bit(7, true) | 2 << 8;
    if gfx.major < 9 {
        // Doorbell type 1.0, except on Tonga, whose queues are mapped twice.
        let tonga = gfx == GfxVersion::new(8, 0, 2);
        return cap | bit(12, gfx.major == 8 && !tonga) | bit(14, tonga) | bit(27, spec.features.svm);
    }
    // Doorbell type 2.0 and trap debugging with its two launch controls.
    cap |= 2 << 12 | bit(15, true) | bit(16, true) | bit(17, true);
    cap |= bit(18, has_precise_memory(gfx));
    cap |= bit(20, spec.features.ras) | bit(21, spec.features.ras) | bit(26, spec.features.ras);
    cap |= (spec.drm.chip_rev & 0xf) << 22;
    cap |= bit(27, spec.features.svm);
    cap |= bit(29, debug_firmware(spec));
    cap |= bit(30, gfx.major >= 12);
    cap | bit(31, kernel != Kernel::Linux6_12 && has_queue_reset(gfx))
}

/// GC 9.4.2 (gfx90a) up to 9.5.0.
fn has_precise_memory(gfx: GfxVersion) -> bool {
    gfx.major == 9 && (gfx == GfxVersion::new(9, 0, 10) || gfx.minor >= 4)
}

fn has_queue_reset(gfx: GfxVersion) -> bool {
    match gfx.major {
        9 => gfx.minor >= 4,
        11 => gfx.minor == 0 && matches!(gfx.stepping, 0 | 2 | 3),
        major => major >= 12,
    }
}

/// `kfd_topology_set_dbg_firmware_support`.
fn debug_firmware(spec: &GpuSpec) -> bool {
    let mec = spec.firmware.mec;
    match (spec.gfx.major, spec.gfx.minor, spec.gfx.stepping) {
        (9, 0, 0) => mec >= 459 + 32768,
        (9, 0, 2 | 4 | 6 | 12) => mec >= 459,
        (9, 0, 8) => mec >= 60,
        (9, 0, 10) => mec >= 51,
        (10, 1, 3) | (10, 3, 3) => false,
        (10, 1, _) => mec >= 144,
        (10, 3, 0..=5) => mec >= 89,
        (11, _, _) => spec.firmware.mes_api >= 14 && spec.firmware.mes >= 64,
        _ => true,
    }
}

/// The `HSA_DBG_*` bits: address mask of the watch points, and whether TTMPs always hold the dispatch
/// (`kfd_dbg_has_ttmps_always_setup`).
fn debug_prop(spec: &GpuSpec) -> u64 {
    let (low, high) = match (spec.gfx.major, spec.gfx.minor) {
        (..9, _) => return 0,
        (9, 4..) => (7, 30),
        (9, _) => (6, 29),
        _ => (7, 29),
    };
    let ttmps = match spec.gfx.major {
        9 | 10 => spec.gfx != GfxVersion::new(9, 0, 10),
        11 => spec.firmware.mes >= 70,
        _ => true,
    };
    low | high << 4 | u64::from(ttmps) << 10
}
