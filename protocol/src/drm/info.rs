//! The structs that AMDGPU_INFO answers.

use crate::kfd::structs::uapi_structs;

uapi_structs! {
    /// `struct drm_amdgpu_info_device` as of Linux 6.12; older headers end earlier.
    pub struct InfoDevice: "drm_amdgpu_info_device", 440 {
        /// PCI device id.
        pub device_id: u32,
        /// Revision of the chip.
        pub chip_rev: u32,
        /// Revision within the family.
        pub external_rev: u32,
        /// PCI revision.
        pub pci_rev: u32,
        /// `AMDGPU_FAMILY_*`.
        pub family: u32,
        /// The uapi's `num_shader_engines`.
        pub num_shader_engines: u32,
        /// The uapi's `num_shader_arrays_per_engine`.
        pub num_shader_arrays_per_engine: u32,
        /// Rate of the time stamp counter, kHz.
        pub gpu_counter_freq: u32,
        /// Highest shader clock, kHz.
        pub max_engine_clock: u64,
        /// Highest memory clock, kHz.
        pub max_memory_clock: u64,
        /// Enabled compute units.
        pub cu_active_number: u32,
        /// The uapi's `cu_ao_mask`.
        pub cu_ao_mask: u32,
        /// Enabled compute units of each shader array.
        pub cu_bitmap: [[u32; 4]; 4],
        /// The uapi's `enabled_rb_pipes_mask`.
        pub enabled_rb_pipes_mask: u32,
        /// The uapi's `num_rb_pipes`.
        pub num_rb_pipes: u32,
        /// The uapi's `num_hw_gfx_contexts`.
        pub num_hw_gfx_contexts: u32,
        /// Generation of the PCIe link.
        pub pcie_gen: u32,
        /// `AMDGPU_IDS_FLAGS_*`.
        pub ids_flags: u64,
        /// First GPU address for programs.
        pub virtual_address_offset: u64,
        /// End of the GPU addresses for programs.
        pub virtual_address_max: u64,
        /// Alignment of mappings in bytes.
        pub virtual_address_alignment: u32,
        /// The uapi's `pte_fragment_size`.
        pub pte_fragment_size: u32,
        /// The uapi's `gart_page_size`.
        pub gart_page_size: u32,
        /// The uapi's `ce_ram_size`.
        pub ce_ram_size: u32,
        /// `AMDGPU_VRAM_TYPE_*`.
        pub vram_type: u32,
        /// Bits of the memory bus.
        pub vram_bit_width: u32,
        /// The uapi's `vce_harvest_config`.
        pub vce_harvest_config: u32,
        /// The uapi's `gc_double_offchip_lds_buf`.
        pub gc_double_offchip_lds_buf: u32,
        /// The uapi's `prim_buf_gpu_addr`.
        pub prim_buf_gpu_addr: u64,
        /// The uapi's `pos_buf_gpu_addr`.
        pub pos_buf_gpu_addr: u64,
        /// The uapi's `cntl_sb_buf_gpu_addr`.
        pub cntl_sb_buf_gpu_addr: u64,
        /// The uapi's `param_buf_gpu_addr`.
        pub param_buf_gpu_addr: u64,
        /// The uapi's `prim_buf_size`.
        pub prim_buf_size: u32,
        /// The uapi's `pos_buf_size`.
        pub pos_buf_size: u32,
        /// The uapi's `cntl_sb_buf_size`.
        pub cntl_sb_buf_size: u32,
        /// The uapi's `param_buf_size`.
        pub param_buf_size: u32,
        /// Lanes of a wave.
        pub wave_front_size: u32,
        /// The uapi's `num_shader_visible_vgprs`.
        pub num_shader_visible_vgprs: u32,
        /// Compute units of a shader array.
        pub num_cu_per_sh: u32,
        /// The uapi's `num_tcc_blocks`.
        pub num_tcc_blocks: u32,
        /// The uapi's `gs_vgt_table_depth`.
        pub gs_vgt_table_depth: u32,
        /// The uapi's `gs_prim_buffer_depth`.
        pub gs_prim_buffer_depth: u32,
        /// The uapi's `max_gs_waves_per_vgt`.
        pub max_gs_waves_per_vgt: u32,
        /// Lanes of the PCIe link.
        pub pcie_num_lanes: u32,
        /// The uapi's `cu_ao_bitmap`.
        pub cu_ao_bitmap: [[u32; 4]; 4],
        /// First address above the hole.
        pub high_va_offset: u64,
        /// End of the addresses above the hole.
        pub high_va_max: u64,
        /// The uapi's `pa_sc_tile_steering_override`.
        pub pa_sc_tile_steering_override: u32,
        /// Explicit padding.
        pub _hole356: u32,
        /// The uapi's `tcc_disabled_mask`.
        pub tcc_disabled_mask: u64,
        /// Lowest shader clock, kHz.
        pub min_engine_clock: u64,
        /// Lowest memory clock, kHz.
        pub min_memory_clock: u64,
        /// The uapi's `tcp_cache_size`.
        pub tcp_cache_size: u32,
        /// The uapi's `num_sqc_per_wgp`.
        pub num_sqc_per_wgp: u32,
        /// The uapi's `sqc_data_cache_size`.
        pub sqc_data_cache_size: u32,
        /// The uapi's `sqc_inst_cache_size`.
        pub sqc_inst_cache_size: u32,
        /// The uapi's `gl1c_cache_size`.
        pub gl1c_cache_size: u32,
        /// The uapi's `gl2c_cache_size`.
        pub gl2c_cache_size: u32,
        /// The uapi's `mall_size`.
        pub mall_size: u64,
        /// The uapi's `enabled_rb_pipes_mask_hi`.
        pub enabled_rb_pipes_mask_hi: u32,
        /// The uapi's `shadow_size`.
        pub shadow_size: u32,
        /// The uapi's `shadow_alignment`.
        pub shadow_alignment: u32,
        /// The uapi's `csa_size`.
        pub csa_size: u32,
        /// The uapi's `csa_alignment`.
        pub csa_alignment: u32,
        /// Explicit padding at the end.
        pub _tail: u32,
    }

    /// `struct drm_amdgpu_heap_info`.
    pub struct HeapInfo: "drm_amdgpu_heap_info", 32 {
        /// All of it, bytes.
        pub total_heap_size: u64,
        /// What is not pinned, bytes.
        pub usable_heap_size: u64,
        /// What is in use, bytes.
        pub heap_usage: u64,
        /// Largest buffer that makes sense, bytes.
        pub max_allocation: u64,
    }

    /// `struct drm_amdgpu_memory_info`.
    pub struct MemoryInfo: "drm_amdgpu_memory_info", 96 {
        /// Local memory.
        pub vram: HeapInfo,
        /// Local memory that the CPU reaches.
        pub cpu_accessible_vram: HeapInfo,
        /// System memory that the GPU reaches.
        pub gtt: HeapInfo,
    }

    /// `struct drm_amdgpu_info_vram_gtt`.
    pub struct InfoVramGtt: "drm_amdgpu_info_vram_gtt", 24 {
        /// Local memory, bytes.
        pub vram_size: u64,
        /// What the CPU reaches of it, bytes.
        pub vram_cpu_accessible_size: u64,
        /// System memory that the GPU reaches, bytes.
        pub gtt_size: u64,
    }

    /// `struct drm_amdgpu_info_hw_ip`.
    pub struct InfoHwIp: "drm_amdgpu_info_hw_ip", 32 {
        /// Major version of the driver's block.
        pub hw_ip_version_major: u32,
        /// Minor version of the driver's block.
        pub hw_ip_version_minor: u32,
        /// None are defined.
        pub capabilities_flags: u64,
        /// Alignment of a command buffer's start, bytes.
        pub ib_start_alignment: u32,
        /// Alignment of a command buffer's size, bytes.
        pub ib_size_alignment: u32,
        /// One bit for each ring.
        pub available_rings: u32,
        /// Version of the hardware: 8 bits each of major, minor, revision.
        pub ip_discovery_version: u32,
    }

    /// `struct drm_amdgpu_info_firmware`.
    pub struct InfoFirmware: "drm_amdgpu_info_firmware", 8 {
        /// Version.
        pub ver: u32,
        /// Feature version.
        pub feature: u32,
    }

    /// `struct drm_amdgpu_info_gds`.
    pub struct InfoGds: "drm_amdgpu_info_gds", 32 {
        /// The uapi's `gds_gfx_partition_size`.
        pub gds_gfx_partition_size: u32,
        /// The uapi's `compute_partition_size`.
        pub compute_partition_size: u32,
        /// The uapi's `gds_total_size`.
        pub gds_total_size: u32,
        /// The uapi's `gws_per_gfx_partition`.
        pub gws_per_gfx_partition: u32,
        /// The uapi's `gws_per_compute_partition`.
        pub gws_per_compute_partition: u32,
        /// The uapi's `oa_per_gfx_partition`.
        pub oa_per_gfx_partition: u32,
        /// The uapi's `oa_per_compute_partition`.
        pub oa_per_compute_partition: u32,
        /// Explicit padding.
        pub _pad: u32,
    }
}
