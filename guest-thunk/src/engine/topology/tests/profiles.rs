//! The built-in machines: what Debian's thunk reports of them, by the sources that `thunk_checks.expected` names.

use protocol::hsakmt::{HeapType, NodeProperties};
use protocol::kfd::topology::GfxVersion;
use softgpu::Profile;

use crate::engine::{Engine, rig};

fn acquired(profile: Profile) -> Engine {
    let engine = rig::engine(profile);
    engine.acquire_system_properties().expect("a topology");
    engine
}

fn gpu(engine: &Engine) -> (u32, NodeProperties) {
    let snapshot = engine.snapshot().expect("held");
    let (id, _) = snapshot.gpus().next().expect("a GPU");
    (id, engine.node_properties(id).expect("a GPU"))
}

fn text(units: &[u16]) -> String {
    String::from_utf16_lossy(units).trim_end_matches('\0').to_owned()
}

fn ascii(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

#[test]
fn properties_of_mi210() {
    let (id, p) = gpu(&acquired(Profile::Mi210));
    assert_eq!(id, 1);
    assert_eq!((p.num_cpu_cores, p.num_f_compute_cores, p.num_simd_per_cu), (0, 416, 4));
    assert_eq!((p.num_caches, p.num_io_links), (217, 1));
    assert_eq!((p.max_waves_per_simd, p.lds_size_in_kb, p.gds_size_in_kb, p.wave_front_size), (8, 64, 0, 64));
    assert_eq!(
        (p.num_shader_banks, p.num_arrays, p.num_cu_per_array, p.max_slots_scratch_cu),
        (8, 1, 14, 32)
    );
    assert_eq!((p.engine_id.major(), p.engine_id.minor(), p.engine_id.stepping()), (9, 0, 10));
    assert_eq!((p.vendor_id, p.device_id, p.domain), (0x1002, 0x740f, 0));
    assert_eq!(({ p.local_mem_size }, p.max_engine_clock_mhz_f_compute, p.drm_render_minor), (0, 1700, 128));
    assert_eq!((p.num_sdma_engines, p.num_sdma_xgmi_engines, p.num_sdma_queues_per_engine), (2, 3, 8));
    assert_eq!((p.num_cp_queues, p.num_gws), (24, 64));
    assert_eq!((p.vgpr_size_per_cu, p.sgpr_size_per_cu), (0x8_0000, 0x4000));
    assert_eq!((p.num_xcc, p.integrated, { p.override_engine_id }.0), (1, 0, 0));
    assert_ne!((p.kfd_gpu_id, { p.unique_id }), (0, 0));
    let capability = p.capability;
    assert_eq!((capability.doorbell_type(), capability.watch_points_total_bits()), (2, 2));
    assert!(capability.watch_points_supported() && capability.debug_trap_supported());
    assert!(capability.svm_api_supported());
    assert!(!capability.aql_queue_double_map() && !capability.hsammu_present());
    let debug = p.debug_properties;
    assert_eq!((debug.watch_addr_mask_lo_bit(), debug.watch_addr_mask_hi_bit()), (6, 29));
    assert_eq!(ascii(&p.amd_name), "Aldebaran");
}

#[test]
fn what_the_driver_tells_of_mi210() {
    /// `AMDGPU_FAMILY_AI`.
    const FAMILY_AI: u32 = 141;
    let engine = acquired(Profile::Mi210);
    let (_, p) = gpu(&engine);
    assert_eq!((p.family_id, { p.wall_clock_khz }), (FAMILY_AI, 100_000));
}

#[test]
fn vram_of_mi210() {
    let engine = acquired(Profile::Mi210);
    let vram = engine.node_memory_properties(1, 1).expect("a bank")[0];
    assert_eq!(vram.heap_type, HeapType::FRAME_BUFFER_PUBLIC);
    assert_eq!(({ vram.size_in_bytes }, vram.width, vram.memory_clock_max), (68_702_699_520, 4096, 1600));
}

#[test]
fn links_of_mi210_and_its_cpu() {
    let engine = acquired(Profile::Mi210);
    let up = engine.node_io_link_properties(1, 1).expect("a link")[0];
    assert_eq!((up.io_link_type.0, up.node_from, up.node_to, up.weight), (2, 1, 0, 20));
    assert_eq!((up.minimum_bandwidth, up.maximum_bandwidth), (312, 32_000));
    let down = engine.node_io_link_properties(0, 1).expect("a link")[0];
    assert_eq!((down.io_link_type.0, down.node_from, down.node_to), (2, 0, 1));
}

#[test]
fn caches_of_mi210() {
    let engine = acquired(Profile::Mi210);
    let caches = engine.node_cache_properties(1, 0, 217).expect("caches");
    let of_level = |level| caches.iter().filter(move |cache| cache.cache_level == level);
    assert_eq!((of_level(1).count(), of_level(2).count()), (216, 1));
    assert_eq!(of_level(2).map(|cache| cache.cache_size).collect::<Vec<_>>(), [8192]);
    assert_eq!((caches[0].cache_size, caches[0].cache_type.data()), (16, true));
    assert!(caches.iter().all(|cache| cache.sibling_map.contains(&1) && cache.cache_type.hsacu()));
}

#[test]
fn cpu_nodes_have_nothing_of_a_gpu() {
    for profile in [Profile::CpuOnly, Profile::Mi300x] {
        let engine = acquired(profile);
        let p = engine.node_properties(0).expect("a CPU");
        assert!(p.num_cpu_cores >= 1);
        assert_eq!((p.num_f_compute_cores, p.vendor_id, p.device_id, p.wave_front_size), (0, 0, 0, 0));
        assert_eq!(({ p.engine_id }.0, p.num_memory_banks, p.num_xcc), (0, 1, 0));
        assert_eq!(text(&{ p.marketing_name }), ascii(&{ p.amd_name }), "the processor's name");
        let bank = engine.node_memory_properties(0, 1).expect("a bank")[0];
        assert_eq!((bank.heap_type, { bank.virtual_base_address }), (HeapType::SYSTEM, 0));
        assert!({ bank.size_in_bytes } >= 64 << 20);
    }
}

#[test]
fn later_gpus_are_named_by_instruction_set() {
    let (_, p) = gpu(&acquired(Profile::Rx7900xtx));
    assert_eq!((ascii(&p.amd_name), p.vgpr_size_per_cu), ("GFX0b0000".to_owned(), 0x6_0000));
    assert_eq!((p.num_shader_banks, p.num_arrays), (6, 2), "engines, and arrays of each");
    let (id, p) = gpu(&acquired(Profile::Mi300x));
    assert_eq!((id, ascii(&p.amd_name), p.num_xcc), (2, "GFX090402".to_owned(), 8));
}

#[test]
fn two_gpus_of_a_hive_have_an_xgmi_link() {
    let engine = acquired(Profile::TwoGpu);
    let links = engine.node_io_link_properties(1, 2).expect("two links");
    let xgmi = links.iter().find(|link| link.node_to == 2).expect("a link to the other GPU");
    assert_eq!((xgmi.io_link_type.0, xgmi.weight), (11, 15));
}

#[test]
fn private_memory_is_told_as_such() {
    let engine = acquired(Profile::SmallBar);
    let bank = engine.node_memory_properties(1, 1).expect("a bank")[0];
    assert_eq!(bank.heap_type, HeapType::FRAME_BUFFER_PRIVATE);
    let snapshot = engine.snapshot().expect("held");
    assert_eq!(snapshot.nodes[1].gfx, GfxVersion::new(9, 0, 10));
    assert!(snapshot.has_discrete_gpu());
}
