//! AMDGPU_INFO (`amdgpu_info_ioctl`).

use protocol::Errno;
use protocol::drm::args::AmdgpuInfo;
use protocol::drm::info::{HeapInfo, InfoDevice, InfoFirmware, InfoGds, InfoHwIp, InfoVramGtt, MemoryInfo};
use protocol::drm::{firmware, hw_ip, query};
use protocol::kfd::topology::GfxVersion;
use zerocopy::{Immutable, IntoBytes};

use super::Cx;
use crate::profile::GpuSpec;

/// `amdgpu_info_ioctl`: the answer is cut to the caller's buffer.
pub(super) fn info(cx: &Cx<'_>, args: &mut AmdgpuInfo) -> Result<(), Errno> {
    if args.return_size == 0 || args.return_pointer == 0 {
        return Err(Errno::EINVAL);
    }
    let spec = &cx.file.gpu.spec;
    match args.query {
        query::ACCEL_WORKING => answer(cx, args, &1_u32),
        query::HW_IP_INFO => answer(cx, args, &hw_ip_info(spec, args)?),
        query::HW_IP_COUNT => answer(cx, args, &hw_ip_count(spec, args)?),
        query::TIMESTAMP => answer(cx, args, &cx.file.gpu.clock_counter()),
        query::FW_VERSION => answer(cx, args, &firmware_version(spec, args)?),
        // Memory stays where it was allocated, and the CPU reaches it without faults.
        query::NUM_BYTES_MOVED | query::NUM_EVICTIONS | query::NUM_VRAM_CPU_PAGE_FAULTS => {
            answer(cx, args, &0_u64)
        }
        query::VRAM_USAGE => answer(cx, args, &memory(cx).vram.heap_usage),
        query::VIS_VRAM_USAGE => answer(cx, args, &memory(cx).cpu_accessible_vram.heap_usage),
        query::GTT_USAGE => answer(cx, args, &memory(cx).gtt.heap_usage),
        query::GDS_CONFIG => answer(cx, args, &gds(spec)),
        query::VRAM_GTT => answer(cx, args, &vram_gtt(cx)),
        query::READ_MMR_REG => read_registers(cx, args),
        query::DEV_INFO => answer(cx, args, &device(spec)),
        query::MEMORY => answer(cx, args, &memory(cx)),
        query::VRAM_LOST_COUNTER => answer(cx, args, &0_u32),
        query::RAS_ENABLED_FEATURES => answer(cx, args, &0_u64),
        other => {
            log::debug!("AMDGPU_INFO query {other:#x} is not supported");
            Err(Errno::EINVAL)
        }
    }
}

fn answer(cx: &Cx<'_>, args: &AmdgpuInfo, value: &(impl IntoBytes + Immutable)) -> Result<(), Errno> {
    let bytes = value.as_bytes();
    let len = bytes.len().min(args.return_size as usize);
    Ok(cx.call.mem().write(args.return_pointer, bytes.get(..len).unwrap_or(bytes))?)
}

/// `AMDGPU_VA_RESERVED_TOP`: trap handler page, SEQ64 and context save areas.
const VA_RESERVED_TOP: u64 = (1 << 16) + (2 << 20) + (2 << 20);
/// `AMDGPU_VA_RESERVED_BOTTOM`.
const VA_RESERVED_BOTTOM: u64 = 1 << 16;
/// `AMDGPU_GMC_HOLE_START` and `_END`: addresses that are not canonical.
const HOLE: (u64, u64) = (0x0000_8000_0000_0000, 0xffff_8000_0000_0000);
/// Size of the address space of gfx9 and later, 48 bits.
const VM_SIZE: u64 = (1 << 48) - VA_RESERVED_TOP;
/// Bytes of a page.
const PAGE: u32 = 4096;
/// Fragment of page tables: 2 MiB (`amdgpu_vm_adjust_size`: 9 bits on gfx9 and later).
const FRAGMENT: u32 = PAGE << 9;

fn device(spec: &GpuSpec) -> InfoDevice {
    let shaders = &spec.shaders;
    let khz = |mhz: u32| u64::from(mhz) * 1000;
    InfoDevice {
        device_id: spec.pci.device.into(),
        chip_rev: spec.drm.chip_rev,
        external_rev: spec.drm.external_rev,
        pci_rev: spec.pci.revision.into(),
        family: spec.drm.family,
        num_shader_engines: shaders.engines,
        num_shader_arrays_per_engine: shaders.arrays_per_engine,
        gpu_counter_freq: spec.clocks.counter_khz,
        max_engine_clock: khz(spec.clocks.engine_max),
        max_memory_clock: khz(spec.clocks.memory_max),
        min_engine_clock: khz(spec.clocks.engine_min),
        min_memory_clock: khz(spec.clocks.memory_min),
        cu_active_number: shaders.cus(),
        cu_bitmap: cu_bitmap(spec),
        num_rb_pipes: spec.drm.render_backends,
        enabled_rb_pipes_mask: low_bits(spec.drm.render_backends),
        // Eight contexts since gfx7.
        num_hw_gfx_contexts: 8,
        ids_flags: spec.drm.ids_flags,
        virtual_address_offset: VA_RESERVED_BOTTOM,
        virtual_address_max: VM_SIZE.min(HOLE.0),
        high_va_offset: HOLE.1,
        high_va_max: HOLE.1 | VM_SIZE,
        virtual_address_alignment: PAGE,
        pte_fragment_size: FRAGMENT,
        gart_page_size: PAGE,
        vram_type: spec.vram.kind as u32,
        vram_bit_width: spec.vram.bus_width,
        wave_front_size: shaders.wave_size,
        num_cu_per_sh: shaders.cus_per_array,
        num_tcc_blocks: spec.drm.tcc_blocks,
        pcie_gen: spec.pci.link_gen,
        pcie_num_lanes: spec.pci.lanes,
        tcp_cache_size: spec.caches.l1,
        sqc_data_cache_size: spec.caches.scalar,
        sqc_inst_cache_size: spec.caches.instruction,
        gl1c_cache_size: spec.caches.gl1,
        gl2c_cache_size: spec.caches.l2,
        mall_size: u64::from(spec.caches.l3) * 1024,
        ..InfoDevice::default()
    }
}

/// Enabled CUs by shader engine and array. Engines from the fifth on take the free places of the later columns,
/// as in the driver (`gfx_v9_0_get_cu_info`: engine `i`, array `j` stands at `[i % 4][j + i / 4]`).
fn cu_bitmap(spec: &GpuSpec) -> [[u32; 4]; 4] {
    let mut bitmap = [[0; 4]; 4];
    let arrays = spec.shaders.arrays_per_engine.max(1) as usize;
    for (index, mask) in spec.shaders.cu_masks.iter().enumerate() {
        let (engine, array) = (index / arrays, index % arrays);
        let place = bitmap.get_mut(engine % 4).and_then(|row: &mut [u32; 4]| row.get_mut(array + engine / 4));
        if let Some(place) = place {
            *place = *mask;
        }
    }
    bitmap
}

fn low_bits(count: u32) -> u32 {
    1_u32.checked_shl(count).map_or(u32::MAX, |bit| bit - 1)
}

/// Version of the graphics block that an instruction set comes with (`GC_HWIP`): the numbers differ for the
/// Instinct GPUs of gfx9.
fn graphics_version(gfx: GfxVersion) -> (u32, u32, u32) {
    match (gfx.major, gfx.minor, gfx.stepping) {
        (9, 0, 0) => (9, 0, 1),
        (9, 0, 6) => (9, 4, 0),
        (9, 0, 8) => (9, 4, 1),
        (9, 0, 10) => (9, 4, 2),
        (9, 4, 2) => (9, 4, 3),
        (major, minor, stepping) => (major.into(), minor.into(), stepping.into()),
    }
}

/// `amdgpu_hw_ip_info`. No ring is reported as available, because there is no command submission.
fn hw_ip_info(spec: &GpuSpec, args: &AmdgpuInfo) -> Result<InfoHwIp, Errno> {
    /// `AMDGPU_HW_IP_INSTANCE_MAX_COUNT`.
    const INSTANCES: u32 = 64;
    let [kind, instance, ..] = args.params;
    if instance >= INSTANCES || kind > hw_ip::LAST {
        return Err(Errno::EINVAL);
    }
    let (major, minor, revision) = graphics_version(spec.gfx);
    Ok(match kind {
        hw_ip::GFX | hw_ip::COMPUTE => InfoHwIp {
            hw_ip_version_major: major,
            hw_ip_version_minor: minor,
            ib_start_alignment: 32,
            ib_size_alignment: 32,
            ip_discovery_version: major << 16 | minor << 8 | revision,
            ..InfoHwIp::default()
        },
        hw_ip::DMA => InfoHwIp { ib_start_alignment: 256, ib_size_alignment: 4, ..InfoHwIp::default() },
        // No such block: nothing is filled in.
        _ => InfoHwIp::default(),
    })
}

/// AMDGPU_INFO_HW_IP_COUNT: blocks that the GPU lacks are `EINVAL`.
fn hw_ip_count(spec: &GpuSpec, args: &AmdgpuInfo) -> Result<u32, Errno> {
    let [kind, ..] = args.params;
    match kind {
        hw_ip::GFX | hw_ip::COMPUTE => Ok(spec.shaders.xccs),
        hw_ip::DMA => Ok(spec.sdma.engines.saturating_add(spec.sdma.xgmi_engines)),
        _ => Err(Errno::EINVAL),
    }
}

/// `amdgpu_firmware_info`: version 0 for firmware that the profile does not know.
fn firmware_version(spec: &GpuSpec, args: &AmdgpuInfo) -> Result<InfoFirmware, Errno> {
    let [kind, instance, index, _] = args.params;
    if instance != 0 {
        return Err(Errno::EINVAL);
    }
    let engines = spec.sdma.engines.saturating_add(spec.sdma.xgmi_engines);
    let ver = match kind {
        firmware::GFX_MEC if index > 1 => return Err(Errno::EINVAL),
        firmware::GFX_MEC => spec.firmware.mec,
        firmware::SDMA if index >= engines => return Err(Errno::EINVAL),
        firmware::SDMA => spec.firmware.sdma,
        firmware::MES => spec.firmware.mes,
        1..=firmware::LAST if kind != 0x09 => 0,
        _ => return Err(Errno::EINVAL),
    };
    Ok(InfoFirmware { ver, feature: 0 })
}

fn gds(spec: &GpuSpec) -> InfoGds {
    InfoGds { gws_per_compute_partition: spec.features.gws, ..InfoGds::default() }
}

fn vram_gtt(cx: &Cx<'_>) -> InfoVramGtt {
    let memory = memory(cx);
    InfoVramGtt {
        vram_size: memory.vram.usable_heap_size,
        vram_cpu_accessible_size: memory.cpu_accessible_vram.usable_heap_size,
        gtt_size: memory.gtt.usable_heap_size,
    }
}

fn memory(cx: &Cx<'_>) -> MemoryInfo {
    let spec = &cx.file.gpu.spec;
    let heap = |size: u64, used: u64| HeapInfo {
        total_heap_size: size,
        usable_heap_size: size,
        heap_usage: used,
        max_allocation: size / 4 * 3,
    };
    let limits = &cx.device.memory.limits;
    let index = cx.device.gpus.iter().position(|gpu| std::sync::Arc::ptr_eq(gpu, &cx.file.gpu)).unwrap_or(0);
    let used = limits.vram_used(index);
    let visible = spec.vram.visible.min(spec.vram.size);
    MemoryInfo {
        vram: heap(spec.vram.size, used),
        // It is not told where buffers lie: with a small BAR as little as possible lies in it.
        cpu_accessible_vram: heap(visible, if spec.vram.is_large_bar() { used } else { 0 }),
        gtt: heap(limits.gtt_limit(), limits.gtt_used()),
    }
}

/// An address range of GEM_VA without the sign extension of the upper half (`amdgpu_gem_va_ioctl`).
///
/// # Errors
/// `EINVAL` for what is reserved, in the hole or past the end.
pub(super) fn checked_va(va: u64, len: u64) -> Result<u64, Errno> {
    if va < VA_RESERVED_BOTTOM || (HOLE.0..HOLE.1).contains(&va) {
        return Err(Errno::EINVAL);
    }
    let va = va & ((1 << 48) - 1);
    match va.checked_add(len) {
        Some(end) if end <= VM_SIZE => Ok(va),
        Some(_) | None => Err(Errno::EINVAL),
    }
}

/// AMDGPU_INFO_READ_MMR_REG. Of the registers that the driver allows, the software GPU has GB_ADDR_CONFIG.
fn read_registers(cx: &Cx<'_>, args: &AmdgpuInfo) -> Result<(), Errno> {
    /// Dword offset of GB_ADDR_CONFIG on gfx9 to gfx11.
    const GB_ADDR_CONFIG: u32 = 0x263e;
    /// `AMDGPU_INFO_MMR_SE_INDEX_MASK`, and the same for the array: all of them.
    const ALL: u32 = 0xff;
    /// `AMDGPU_GFX_MAX_SE` and `AMDGPU_GFX_MAX_SH_PER_SE`.
    const MOST: (u32, u32) = (4, 2);
    let [offset, count, instance, _] = args.params;
    let (engine, array) = (instance & ALL, instance >> 8 & ALL);
    if (engine != ALL && engine >= MOST.0) || (array != ALL && array >= MOST.1) || count > 128 {
        return Err(Errno::EINVAL);
    }
    match (offset, count) {
        (_, 0) => Ok(()),
        (GB_ADDR_CONFIG, 1) => answer(cx, args, &cx.file.gpu.spec.drm.gb_addr_config),
        // As for an offset that the driver does not allow.
        _ => Err(Errno::EFAULT),
    }
}
