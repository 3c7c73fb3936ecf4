//! Every key of the topology files, declared once: struct field, sysfs key, type, and where it exists.
//!
//! The order of declaration is the order in which the kernel writes (`node_show`, `mem_show`,
//! `kfd_cache_show`, `iolink_show` and `sysprops_show` in `kfd_topology.c`).

use super::Layout;

/// On which nodes a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On every node.
    All,
    /// Only on nodes with a GPU.
    Gpu,
}

/// Which kernels write a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// All that are imitated.
    Always,
    /// Mainline after 6.12, and ROCm's driver.
    After6_12,
    /// ROCm's driver only.
    Rocm,
}

impl Since {
    /// Whether a kernel with this layout writes the key.
    #[must_use]
    pub fn is_in(self, layout: Layout) -> bool {
        match self {
            Since::Always => true,
            Since::After6_12 => layout != Layout::Linux6_12,
            Since::Rocm => layout == Layout::Rocm,
        }
    }
}

/// One key of a topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As in the file.
    pub name: &'static str,
    /// Bits of the value: 32 or 64.
    pub bits: u32,
    /// On which nodes it is written.
    pub scope: Scope,
    /// Which kernels write it.
    pub since: Since,
}

/// What became of a value given to [`Record::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Stored.
    Done,
    /// The record has no such key.
    Unknown,
    /// The value needs more bits than the field has.
    TooBig,
}

/// A struct whose fields are the keys of one kind of file.
pub trait Record: Default {
    /// The keys, in the kernel's order.
    const KEYS: &'static [Key];

    /// The values, in the order of [`Record::KEYS`].
    fn values(&self) -> Vec<u64>;

    /// Stores the value of one key.
    fn set(&mut self, key: &str, value: u64) -> Set;
}

macro_rules! records {
    ($($(#[$doc:meta])* pub struct $name:ident {
        $($(#[$fdoc:meta])* $key:literal $field:ident: $ty:ident, $scope:ident, $since:ident;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        impl Record for $name {
            const KEYS: &'static [Key] = &[$(
                Key { name: $key, bits: $ty::BITS, scope: Scope::$scope, since: Since::$since },
            )*];

            fn values(&self) -> Vec<u64> {
                vec![$(u64::from(self.$field),)*]
            }

            fn set(&mut self, key: &str, value: u64) -> Set {
                match key {
                    $($key => match $ty::try_from(value) {
                        Ok(value) => {
                            self.$field = value;
                            Set::Done
                        }
                        Err(_) => Set::TooBig,
                    },)*
                    _ => Set::Unknown,
                }
            }
        }
    )*};
}

records! {
    /// `system_properties`.
    pub struct SystemProperties {
        /// OEM id of the firmware's table.
        "platform_oem" platform_oem: u64, All, Always;
        /// OEM table id of the firmware's table.
        "platform_id" platform_id: u64, All, Always;
        /// OEM revision of the firmware's table.
        "platform_rev" platform_rev: u64, All, Always;
    }

    /// `nodes/N/properties`.
    pub struct NodeProperties {
        /// CPU cores (logical processors) of the node; 0 on a discrete GPU.
        "cpu_cores_count" cpu_cores_count: u32, All, Always;
        /// SIMDs of the GPU over all XCCs; 0 without a GPU.
        "simd_count" simd_count: u32, All, Always;
        /// Number of `mem_banks` directories.
        "mem_banks_count" mem_banks_count: u32, All, Always;
        /// Number of `caches` directories.
        "caches_count" caches_count: u32, All, Always;
        /// Number of `io_links` directories.
        "io_links_count" io_links_count: u32, All, Always;
        /// Number of `p2p_links` directories.
        "p2p_links_count" p2p_links_count: u32, All, Always;
        /// Lowest APIC id of the node.
        "cpu_core_id_base" cpu_core_id_base: u32, All, Always;
        /// First SIMD id; KFD counts from `0x80001000` for GPUs without an entry in a firmware table.
        "simd_id_base" simd_id_base: u32, All, Always;
        /// Wave slots of a SIMD.
        "max_waves_per_simd" max_waves_per_simd: u32, All, Always;
        /// KiB of LDS of a CU.
        "lds_size_in_kb" lds_size_in_kb: u32, All, Always;
        /// KiB of GDS.
        "gds_size_in_kb" gds_size_in_kb: u32, All, Always;
        /// Entries for global wave sync; 0 without hardware scheduling.
        "num_gws" num_gws: u32, All, Always;
        /// Lanes of a wave, 32 or 64.
        "wave_front_size" wave_front_size: u32, All, Always;
        /// Shader arrays over all engines and XCCs.
        "array_count" array_count: u32, All, Always;
        /// Shader arrays of a shader engine. 0 in some firmware tables.
        "simd_arrays_per_engine" simd_arrays_per_engine: u32, All, Always;
        /// CUs of a shader array, disabled ones included.
        "cu_per_simd_array" cu_per_simd_array: u32, All, Always;
        /// SIMDs of a CU.
        "simd_per_cu" simd_per_cu: u32, All, Always;
        /// Waves with scratch of a CU.
        "max_slots_scratch_cu" max_slots_scratch_cu: u32, All, Always;
        /// Instruction set: see [`GfxVersion`](super::GfxVersion); 0 without a GPU.
        "gfx_target_version" gfx_target_version: u32, All, Always;
        /// PCI vendor.
        "vendor_id" vendor_id: u32, All, Always;
        /// PCI device.
        "device_id" device_id: u32, All, Always;
        /// PCI bus << 8 | device << 3 | function; the number of the partition is ORed in where the
        /// device has several nodes.
        "location_id" location_id: u32, All, Always;
        /// PCI domain.
        "domain" domain: u32, All, Always;
        /// N of `/dev/dri/renderDN`, 128 and up; 0 without a GPU.
        "drm_render_minor" drm_render_minor: u32, All, Always;
        /// XGMI hive; 0 outside of one.
        "hive_id" hive_id: u64, All, Always;
        /// SDMA engines for PCIe.
        "num_sdma_engines" num_sdma_engines: u32, All, Always;
        /// SDMA engines for XGMI.
        "num_sdma_xgmi_engines" num_sdma_xgmi_engines: u32, All, Always;
        /// Queues of an SDMA engine without the reserved ones.
        "num_sdma_queues_per_engine" num_sdma_queues_per_engine: u32, All, Always;
        /// Hardware queues of the compute pipes.
        "num_cp_queues" num_cp_queues: u32, All, Always;
        /// Bytes that the kernel needs for the context of one queue in one XCC.
        "cwsr_size" cwsr_size: u32, All, Always;
        /// Bytes of control stack within `cwsr_size`.
        "ctl_stack_size" ctl_stack_size: u32, All, Always;
        /// Highest shader clock, MHz.
        "max_engine_clk_fcompute" max_engine_clk_fcompute: u32, Gpu, Always;
        /// Written as 0 since the memory banks hold it.
        "local_mem_size" local_mem_size: u64, Gpu, Always;
        /// Version of the compute firmware (MEC).
        "fw_version" fw_version: u32, Gpu, Always;
        /// `HSA_CAP_*` bits.
        "capability" capability: u32, Gpu, Always;
        /// More `HSA_CAP2_*` bits.
        "capability2" capability2: u32, Gpu, After6_12;
        /// `HSA_DBG_*` bits.
        "debug_prop" debug_prop: u64, Gpu, Always;
        /// Version of the SDMA firmware.
        "sdma_fw_version" sdma_fw_version: u32, Gpu, Always;
        /// Serial number of the device.
        "unique_id" unique_id: u64, Gpu, Always;
        /// XCCs of the node.
        "num_xcc" num_xcc: u32, Gpu, Always;
        /// Highest CPU clock, MHz (of CPU 0, on every node).
        "max_engine_clk_ccompute" max_engine_clk_ccompute: u32, All, Always;
    }

    /// `nodes/N/mem_banks/M/properties`.
    pub struct MemBank {
        /// `HSA_MEM_HEAP_TYPE_*`: 0 system, 1 VRAM that the CPU sees, 2 VRAM that it does not see.
        "heap_type" heap_type: u32, All, Always;
        /// Bytes.
        "size_in_bytes" size_in_bytes: u64, All, Always;
        /// Bit 0 hot pluggable, bit 1 non-volatile.
        "flags" flags: u32, All, Always;
        /// Width of the bus in bits.
        "width" width: u32, All, Always;
        /// Highest memory clock, MHz.
        "mem_clk_max" mem_clk_max: u32, All, Always;
    }

    /// `nodes/N/caches/C/properties`, without its `sibling_map`.
    pub struct CacheProperties {
        /// Lowest id of a core or CU that uses the cache.
        "processor_id_low" processor_id_low: u32, All, Always;
        /// 1, 2, 3.
        "level" level: u32, All, Always;
        /// KiB.
        "size" size: u32, All, Always;
        /// Bytes of a line; 0 where unknown.
        "cache_line_size" cache_line_size: u32, All, Always;
        /// Lines of a tag.
        "cache_lines_per_tag" cache_lines_per_tag: u32, All, Always;
        /// Ways, 0xff fully associative.
        "association" association: u32, All, Always;
        /// Nanoseconds.
        "latency" latency: u32, All, Always;
        /// `HSA_CACHE_TYPE_*`: bit 0 data, 1 instruction, 2 CPU, 3 GPU.
        "type" kind: u32, All, Always;
        /// KiB that can be kept for persistent lines.
        "persisting_cache_size_max" persisting_cache_size_max: u32, All, Rocm;
    }

    /// `nodes/N/io_links/L/properties` and `nodes/N/p2p_links/L/properties`.
    pub struct IoLink {
        /// `HSA_IOLINKTYPE_*`: 1 HyperTransport, 2 PCIe, 5 QPI, 11 XGMI.
        "type" kind: u32, All, Always;
        /// Version of the link.
        "version_major" version_major: u32, All, Always;
        /// Version of the link.
        "version_minor" version_minor: u32, All, Always;
        /// The node that owns the file.
        "node_from" node_from: u32, All, Always;
        /// The node at the other end.
        "node_to" node_to: u32, All, Always;
        /// Cost of the hop.
        "weight" weight: u32, All, Always;
        /// Nanoseconds.
        "min_latency" min_latency: u32, All, Always;
        /// Nanoseconds.
        "max_latency" max_latency: u32, All, Always;
        /// MB/s.
        "min_bandwidth" min_bandwidth: u32, All, Always;
        /// MB/s.
        "max_bandwidth" max_bandwidth: u32, All, Always;
        /// Bytes.
        "recommended_transfer_size" recommended_transfer_size: u32, All, Always;
        /// One bit per SDMA engine to copy with.
        "recommended_sdma_engine_id_mask" recommended_sdma_engine_id_mask: u32, All, Always;
        /// Bit 0 enabled, 1 not coherent, 2 no 32-bit atomics, 3 no 64-bit atomics, 4 no peer DMA.
        "flags" flags: u32, All, Always;
    }
}
