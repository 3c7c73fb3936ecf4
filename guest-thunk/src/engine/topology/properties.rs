//! `HsaNodeProperties` of a node.

use protocol::drm::info::InfoDevice;
use protocol::hsakmt::{Capability, EngineId, EngineVersion, NodeProperties};
use protocol::kfd::topology::{self, BadGfxVersion, GfxVersion};

use super::asics;
use super::cpuinfo::CpuInfo;
use super::names::{self, Products};

/// Bytes of scalar registers of a CU, on all GPUs.
const SGPR_SIZE: u32 = 0x4000;

/// What a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// `AMDName`.
    pub(super) name: String,
    /// The instruction set that it has.
    pub(super) hardware: GfxVersion,
    /// The instruction set that programs are told.
    pub(super) gfx: GfxVersion,
}

impl Identity {
    /// The GPU of a node, by device id or else by `gfx_target_version`; `None` for a node without SIMDs and for a
    /// GPU that neither tells. `forced` is what `HSA_OVERRIDE_GFX_VERSION` says.
    ///
    /// # Errors
    /// A `gfx_target_version` that names no instruction set.
    pub(super) fn of(
        node: &topology::NodeProperties,
        forced: Option<GfxVersion>,
    ) -> Result<Option<Self>, BadGfxVersion> {
        if node.simd_count == 0 {
            return Ok(None);
        }
        let target = GfxVersion::decode(u64::from(node.gfx_target_version))?;
        let asic = asics::find(node.device_id, target);
        let Some(hardware) = asic.map(|asic| asic.gfx).or(target).or(forced) else { return Ok(None) };
        let gfx = forced.unwrap_or(hardware);
        let name = asic.map_or_else(|| names::of_gfx(gfx), |asic| asic.name.to_owned());
        Ok(Some(Self { name, hardware, gfx }))
    }
}

/// What is not in a node's own files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    /// This machine's processors.
    pub(super) cpus: &'a CpuInfo,
    /// Product names.
    pub(super) products: &'a Products,
    /// Whether the SVM interface is used.
    pub(super) svm: bool,
}

/// The properties of a node, all but the numbers of banks, caches and links. `gpu` and `device` are what is known
/// of its GPU, if it has one that can be used.
pub(super) fn of_node(
    node: &topology::Node,
    gpu: Option<&Identity>,
    device: Option<&InfoDevice>,
    context: &Context<'_>,
) -> NodeProperties {
    let p = &node.properties;
    let mut properties = common(p);
    // Firmware tables describe GPUs that no driver took: a program that saw their SIMDs would use them.
    if gpu.is_some() || p.simd_count == 0 {
        set_gpu_keys(&mut properties, p);
    }
    if let Some(gpu) = gpu {
        properties.kfd_gpu_id = node.gpu_id;
        set_identity(&mut properties, p, gpu);
    }
    if !context.svm {
        properties.capability = properties.capability.without(Capability::SVM_API_SUPPORTED);
    }
    if let Some(device) = device {
        set_device(&mut properties, device, context);
    }
    if node.is_cpu() {
        set_processor(&mut properties, context.cpus);
    }
    properties
}

fn common(p: &topology::NodeProperties) -> NodeProperties {
    NodeProperties {
        num_cpu_cores: p.cpu_cores_count,
        c_compute_id_lo: p.cpu_core_id_base,
        vendor_id: low_half(p.vendor_id),
        device_id: low_half(p.device_id),
        location_id: p.location_id,
        domain: p.domain,
        hive_id: p.hive_id,
        unique_id: p.unique_id,
        max_engine_clock_mhz_c_compute: p.max_engine_clk_ccompute,
        ..NodeProperties::default()
    }
}

/// What KFD tells of a GPU, as it is.
fn set_gpu_keys(to: &mut NodeProperties, p: &topology::NodeProperties) {
    to.num_f_compute_cores = p.simd_count;
    to.f_compute_id_lo = p.simd_id_base;
    to.capability = p.capability.into();
    to.capability2 = p.capability2.into();
    to.debug_properties = p.debug_prop.into();
    to.max_waves_per_simd = p.max_waves_per_simd;
    to.lds_size_in_kb = p.lds_size_in_kb;
    to.gds_size_in_kb = p.gds_size_in_kb;
    to.wave_front_size = p.wave_front_size;
    to.num_arrays = p.simd_arrays_per_engine;
    to.num_cu_per_array = p.cu_per_simd_array;
    to.num_simd_per_cu = p.simd_per_cu;
    to.max_slots_scratch_cu = p.max_slots_scratch_cu;
    to.local_mem_size = p.local_mem_size;
    to.max_engine_clock_mhz_f_compute = p.max_engine_clk_fcompute;
    to.drm_render_minor = i32::try_from(p.drm_render_minor).unwrap_or(0);
    to.ucode_engine_versions = EngineVersion::default().with(EngineVersion::UCODE_SDMA, p.sdma_fw_version);
    to.num_sdma_engines = p.num_sdma_engines;
    to.num_sdma_xgmi_engines = p.num_sdma_xgmi_engines;
    to.num_sdma_queues_per_engine = saturate(p.num_sdma_queues_per_engine);
    to.num_cp_queues = saturate(p.num_cp_queues);
    to.num_gws = saturate(p.num_gws);
    to.num_xcc = p.num_xcc;
    to.cwsr_size = p.cwsr_size;
    to.ctl_stack_size = p.ctl_stack_size;
}

/// What follows from what the GPU is.
fn set_identity(to: &mut NodeProperties, p: &topology::NodeProperties, gpu: &Identity) {
    to.engine_id = engine_id(gpu.gfx, p.fw_version);
    if gpu.gfx != gpu.hardware {
        to.override_engine_id = engine_id(gpu.gfx, 0);
    }
    to.amd_name = names::bytes(&gpu.name);
    // Shader engines: firmware tables may say that each has 0 arrays.
    to.num_shader_banks = p.array_count.checked_div(p.simd_arrays_per_engine).unwrap_or(0);
    to.vgpr_size_per_cu = vgpr_size(gpu.gfx);
    to.sgpr_size_per_cu = SGPR_SIZE;
    // Kernels before 6.5 do not tell it: their GPUs have one.
    to.num_xcc = p.num_xcc.max(1);
}

fn set_device(to: &mut NodeProperties, device: &InfoDevice, context: &Context<'_>) {
    to.family_id = device.family;
    to.integrated = u8::from(device.ids_flags & names::FUSION != 0);
    to.wall_clock_khz = device.gpu_counter_freq.into();
    to.marketing_name = names::wide(&names::product(context.products, device, context.cpus));
}

/// The name of the node's first processor. A node that has a GPU too keeps the chip's name.
fn set_processor(to: &mut NodeProperties, cpus: &CpuInfo) {
    let Some(processor) = cpus.with_apic_id(to.c_compute_id_lo) else { return };
    to.marketing_name = names::wide(&processor.model_name);
    if to.device_id == 0 {
        to.amd_name = names::bytes(&processor.model_name);
    }
}

/// Instruction set and microcode version, of which there is room for 10 bits.
fn engine_id(gfx: GfxVersion, firmware: u32) -> EngineId {
    EngineId::default()
        .with(EngineId::UCODE, firmware)
        .with(EngineId::MAJOR, gfx.major.into())
        .with(EngineId::MINOR, gfx.minor.into())
        .with(EngineId::STEPPING, gfx.stepping.into())
}

/// Bytes of vector registers of a CU, as the thunk tells them.
fn vgpr_size(gfx: GfxVersion) -> u32 {
    match (gfx.major, gfx.minor, gfx.stepping) {
        (9, 0, 8 | 10) | (9, 4, _) | (9, 5, 0) => 0x8_0000,
        (11, 0, 0 | 1) | (12, 0, 0 | 1) => 0x6_0000,
        _ => 0x4_0000,
    }
}

fn low_half(id: u32) -> u16 {
    u16::try_from(id & 0xffff).unwrap_or(0)
}

fn saturate(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
