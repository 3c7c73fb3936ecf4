//! What hsaKmtGetVersion, hsaKmtAcquireSystemProperties and the hsaKmtGetNode*Properties functions answer.

use super::declare::{hsa_enums, hsa_structs, hsa_words};

/// Characters of a marketing name, and bytes of an ASIC name (`HSA_PUBLIC_NAME_SIZE`).
pub const PUBLIC_NAME_SIZE: usize = 64;

/// Entries of a sibling map (`HSA_CPU_SIBLINGS`).
pub const CPU_SIBLINGS: usize = 256;

/// A node id that no node has (`INVALID_NODEID`).
pub const INVALID_NODE_ID: u32 = u32::MAX;

/// A process id that no process has (`INVALID_PID`).
pub const INVALID_PID: u32 = u32::MAX;

/// All processors, as an argument of hsaKmtGetNodeCacheProperties (`HSA_PROCESSORID_ALL`).
pub const PROCESSOR_ID_ALL: u32 = u32::MAX;

hsa_enums! {
    /// What kind of memory a bank is.
    pub struct HeapType: u32, "HSA_HEAPTYPE" {
        /// System memory.
        SYSTEM = 0, "HSA_HEAPTYPE_SYSTEM";
        /// VRAM that the CPU can reach.
        FRAME_BUFFER_PUBLIC = 1, "HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC";
        /// VRAM that the CPU cannot reach.
        FRAME_BUFFER_PRIVATE = 2, "HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE";
        /// Global data share.
        GPU_GDS = 3, "HSA_HEAPTYPE_GPU_GDS";
        /// Local data share (the LDS aperture).
        GPU_LDS = 4, "HSA_HEAPTYPE_GPU_LDS";
        /// Scratch (the scratch aperture).
        GPU_SCRATCH = 5, "HSA_HEAPTYPE_GPU_SCRATCH";
        /// System memory that the GPU reaches by its own page tables (the SVM aperture).
        DEVICE_SVM = 6, "HSA_HEAPTYPE_DEVICE_SVM";
        /// The page of registers that flush the host data path.
        MMIO_REMAP = 7, "HSA_HEAPTYPE_MMIO_REMAP";
    }

    /// What kind of link there is between two nodes.
    pub struct IoLinkType: u32, "HSA_IOLINKTYPE" {
        /// Not known.
        UNDEFINED = 0, "HSA_IOLINKTYPE_UNDEFINED";
        /// HyperTransport.
        HYPERTRANSPORT = 1, "HSA_IOLINKTYPE_HYPERTRANSPORT";
        /// PCI Express.
        PCIEXPRESS = 2, "HSA_IOLINKTYPE_PCIEXPRESS";
        /// AMBA.
        AMBA = 3, "HSA_IOLINKTYPE_AMBA";
        /// MIPI.
        MIPI = 4, "HSA_IOLINKTYPE_MIPI";
        /// QuickPath 1.1; the thunk uses it for links between CPU nodes.
        QPI_1_1 = 5, "HSA_IOLINK_TYPE_QPI_1_1";
        /// Reserved.
        RESERVED1 = 6, "HSA_IOLINK_TYPE_RESERVED1";
        /// Reserved.
        RESERVED2 = 7, "HSA_IOLINK_TYPE_RESERVED2";
        /// RapidIO.
        RAPID_IO = 8, "HSA_IOLINK_TYPE_RAPID_IO";
        /// InfiniBand.
        INFINIBAND = 9, "HSA_IOLINK_TYPE_INFINIBAND";
        /// Reserved.
        RESERVED3 = 10, "HSA_IOLINK_TYPE_RESERVED3";
        /// XGMI.
        XGMI = 11, "HSA_IOLINK_TYPE_XGMI";
        /// XGOP.
        XGOP = 12, "HSA_IOLINK_TYPE_XGOP";
        /// GZ.
        GZ = 13, "HSA_IOLINK_TYPE_GZ";
        /// Ethernet with RDMA.
        ETHERNET_RDMA = 14, "HSA_IOLINK_TYPE_ETHERNET_RDMA";
        /// Another way to do RDMA.
        RDMA_OTHER = 15, "HSA_IOLINK_TYPE_RDMA_OTHER";
        /// Another kind.
        OTHER = 16, "HSA_IOLINK_TYPE_OTHER";
    }
}

hsa_words! {
    /// The version of the GPU's engine: gfx version and microcode.
    pub struct EngineId: u32, "HSA_ENGINE_ID" {} ranges {
        /// Microcode version of the packet processor.
        UCODE, ucode: 0, 10, "uCode";
        /// gfx major version.
        MAJOR, major: 10, 6, "Major";
        /// gfx minor version.
        MINOR, minor: 16, 8, "Minor";
        /// gfx stepping.
        STEPPING, stepping: 24, 8, "Stepping";
    }

    /// Versions of other microcode.
    pub struct EngineVersion: u32, "HSA_ENGINE_VERSION" {} ranges {
        /// Microcode version of the SDMA engine.
        UCODE_SDMA, ucode_sdma: 0, 10, "uCodeSDMA";
        /// A second microcode version, not used.
        UCODE_RES, ucode_res: 10, 10, "uCodeRes";
    }

    /// What a node can do: the sysfs key `capability`.
    pub struct Capability: u32, "HSA_CAPABILITY" {
        /// The node may go away.
        HOT_PLUGGABLE, hot_pluggable: 0, "HotPluggable";
        /// The IOMMU translates addresses for the node.
        HSAMMU_PRESENT, hsammu_present: 1, "HSAMMUPresent";
        /// The operating system draws with the node too.
        SHARED_WITH_GRAPHICS, shared_with_graphics: 2, "SharedWithGraphics";
        /// Queue sizes must be powers of two.
        QUEUE_SIZE_POWER_OF_TWO, queue_size_power_of_two: 3, "QueueSizePowerOfTwo";
        /// Queues must be smaller than 4 GiB.
        QUEUE_SIZE_32BIT, queue_size_32bit: 4, "QueueSize32bit";
        /// There are events for idle queues.
        QUEUE_IDLE_EVENT, queue_idle_event: 5, "QueueIdleEvent";
        /// The GPU's virtual addresses are fewer than the CPU's.
        VA_LIMIT, va_limit: 6, "VALimit";
        /// There are watch points.
        WATCH_POINTS_SUPPORTED, watch_points_supported: 7, "WatchPointsSupported";
        /// The AQL ring is mapped twice, one after the other.
        AQL_QUEUE_DOUBLE_MAP, aql_queue_double_map: 14, "AQLQueueDoubleMap";
        /// Debug traps are supported.
        DEBUG_TRAP_SUPPORTED, debug_trap_supported: 15, "DebugTrapSupported";
        /// A debugger may override the exceptions that wave launches enable.
        WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED, wave_launch_trap_override_supported: 16,
            "WaveLaunchTrapOverrideSupported";
        /// A debugger may set the launch mode of waves.
        WAVE_LAUNCH_MODE_SUPPORTED, wave_launch_mode_supported: 17, "WaveLaunchModeSupported";
        /// Memory exceptions can be reported precisely.
        PRECISE_MEMORY_OPERATIONS_SUPPORTED, precise_memory_operations_supported: 18,
            "PreciseMemoryOperationsSupported";
        /// Old meaning of `SRAM_EDC_SUPPORT`; clear.
        DEPRECATED_SRAM_EDC_SUPPORT, deprecated_sram_edc_support: 19, "DEPRECATED_SRAM_EDCSupport";
        /// The GPU's memory has error correction.
        MEM_EDC_SUPPORT, mem_edc_support: 20, "Mem_EDCSupport";
        /// RAS errors are reported by events.
        RAS_EVENT_NOTIFY, ras_event_notify: 21, "RASEventNotify";
        /// The GPU's SRAM has error correction.
        SRAM_EDC_SUPPORT, sram_edc_support: 26, "SRAM_EDCSupport";
        /// The SVM functions work.
        SVM_API_SUPPORTED, svm_api_supported: 27, "SVMAPISupported";
        /// The CPU reaches VRAM coherently.
        COHERENT_HOST_ACCESS, coherent_host_access: 28, "CoherentHostAccess";
        /// The firmware is new enough for a debugger.
        DEBUG_SUPPORTED_FIRMWARE, debug_supported_firmware: 29, "DebugSupportedFirmware";
        /// ALU exceptions can be reported precisely. Reserved before August 2025.
        PRECISE_ALU_OPERATIONS_SUPPORTED, precise_alu_operations_supported: 30,
            "PreciseALUOperationsSupported";
        /// One compute queue can be reset. Reserved before August 2025.
        PER_QUEUE_RESET_SUPPORTED, per_queue_reset_supported: 31, "PerQueueResetSupported";
    } ranges {
        /// Logarithm (base 2) of the number of watch points.
        WATCH_POINTS_TOTAL_BITS, watch_points_total_bits: 8, 4, "WatchPointsTotalBits";
        /// 0: before 1.0, 1: 1.0 (32 bits), 2: 64 bits (gfx9 and later).
        DOORBELL_TYPE, doorbell_type: 12, 2, "DoorbellType";
        /// Revision of the chip.
        ASIC_REVISION, asic_revision: 22, 4, "ASICRevision";
    }

    /// What a node can do: the sysfs key `capability2`.
    pub struct Capability2: u32, "HSA_CAPABILITY2" {
        /// One SDMA queue can be reset.
        PER_SDMA_QUEUE_RESET_SUPPORTED, per_sdma_queue_reset_supported: 0, "PerSDMAQueueResetSupported";
        /// AQL packets are translated to PM4.
        AQL_EMULATION_PM4, aql_emulation_pm4: 1, "AqlEmulationPm4_";
        /// The node works with recoverable page faults.
        STALL_ON_RETRY_FAULT, stall_on_retry_fault: 2, "StallOnRetryFault";
    }

    /// What a debugger can do on a node: the sysfs key `debug_prop`.
    pub struct DebugProperties: u64, "HSA_DEBUG_PROPERTIES" {
        /// Trap temporaries hold the dispatch for every process, not only after it asked for it.
        DISPATCH_INFO_ALWAYS_VALID, dispatch_info_always_valid: 10, "DispatchInfoAlwaysValid";
        /// Each process has its own watch points.
        ADDRESS_WATCHPOINT_SHARE_KIND, address_watchpoint_share_kind: 11, "AddressWatchpointShareKind";
    } ranges {
        /// Lowest bit of a watch point's address mask that counts.
        WATCH_ADDR_MASK_LO_BIT, watch_addr_mask_lo_bit: 0, 4, "WatchAddrMaskLoBit";
        /// Highest one.
        WATCH_ADDR_MASK_HI_BIT, watch_addr_mask_hi_bit: 4, 6, "WatchAddrMaskHiBit";
    }

    /// Properties of a memory bank.
    pub struct MemoryProperty: u32, "HSA_MEMORYPROPERTY" {
        /// The memory may go away.
        HOT_PLUGGABLE, hot_pluggable: 0, "HotPluggable";
        /// The contents survive a power cycle.
        NON_VOLATILE, non_volatile: 1, "NonVolatile";
    }

    /// What a cache is for.
    pub struct CacheType: u32, "HsaCacheType" {
        /// Data.
        DATA, data: 0, "Data";
        /// Instructions.
        INSTRUCTION, instruction: 1, "Instruction";
        /// Of the CPU.
        CPU, cpu: 2, "CPU";
        /// Of the GPU.
        HSACU, hsacu: 3, "HSACU";
    }

    /// Properties of a link.
    pub struct LinkProperty: u32, "HSA_LINKPROPERTY" {
        /// The other bits count, whatever the kind of link.
        OVERRIDE, is_override: 0, "Override";
        /// Not coherent.
        NON_COHERENT, non_coherent: 1, "NonCoherent";
        /// No atomics of 32 bits.
        NO_ATOMICS_32BIT, no_atomics_32bit: 2, "NoAtomics32bit";
        /// No atomics of 64 bits.
        NO_ATOMICS_64BIT, no_atomics_64bit: 3, "NoAtomics64bit";
        /// No peer-to-peer DMA.
        NO_PEER_TO_PEER_DMA, no_peer_to_peer_dma: 4, "NoPeerToPeerDMA";
    }
}

hsa_structs! {
    /// Version of the kernel's interface.
    pub struct VersionInfo: "HsaVersionInfo", 8 {
        /// Major version.
        pub kernel_interface_major_version: u32, "KernelInterfaceMajorVersion";
        /// Minor version.
        pub kernel_interface_minor_version: u32, "KernelInterfaceMinorVersion";
    }

    /// The system: the file `system_properties` and the number of nodes.
    pub struct SystemProperties: "HsaSystemProperties", 16 {
        /// Number of nodes.
        pub num_nodes: u32, "NumNodes";
        /// `platform_oem`, the lower half.
        pub platform_oem: u32, "PlatformOem";
        /// `platform_id`, the lower half.
        pub platform_id: u32, "PlatformId";
        /// `platform_rev`.
        pub platform_rev: u32, "PlatformRev";
    }

    /// A node: the file `properties` and what the thunk finds out elsewhere.
    pub struct NodeProperties: "HsaNodeProperties", 396 {
        /// CPU cores: 0 on a GPU node.
        pub num_cpu_cores: u32, "NumCPUCores";
        /// SIMDs: 0 on a CPU node.
        pub num_f_compute_cores: u32, "NumFComputeCores";
        /// Neural processing units.
        pub num_neural_cores: u32, "NumNeuralCores", V368;
        /// Memory banks.
        pub num_memory_banks: u32, "NumMemoryBanks";
        /// Caches.
        pub num_caches: u32, "NumCaches";
        /// Links, indirect ones too.
        pub num_io_links: u32, "NumIOLinks";
        /// Lowest id of the node's CPU cores.
        pub c_compute_id_lo: u32, "CComputeIdLo";
        /// Lowest id of the node's SIMDs.
        pub f_compute_id_lo: u32, "FComputeIdLo";
        /// What the node can do.
        pub capability: Capability, "Capability";
        /// What else the node can do.
        pub capability2: Capability2, "Capability2", V368;
        /// Waves that a SIMD holds at most.
        pub max_waves_per_simd: u32, "MaxWavesPerSIMD";
        /// LDS of a work-group, in KiB.
        pub lds_size_in_kb: u32, "LDSSizeInKB";
        /// GDS, in KiB.
        pub gds_size_in_kb: u32, "GDSSizeInKB";
        /// Lanes of a wave.
        pub wave_front_size: u32, "WaveFrontSize";
        /// Shader engines.
        pub num_shader_banks: u32, "NumShaderBanks";
        /// Shader arrays of an engine.
        pub num_arrays: u32, "NumArrays";
        /// Compute units of an array.
        pub num_cu_per_array: u32, "NumCUPerArray";
        /// SIMDs of a compute unit.
        pub num_simd_per_cu: u32, "NumSIMDPerCU";
        /// Scratch slots of a compute unit.
        pub max_slots_scratch_cu: u32, "MaxSlotsScratchCU";
        /// Version of the GPU; what HSA_OVERRIDE_GFX_VERSION says, before there was `override_engine_id`.
        pub engine_id: EngineId, "EngineId";
        /// What HSA_OVERRIDE_GFX_VERSION says.
        pub override_engine_id: EngineId, "OverrideEngineId", V360;
        /// PCI vendor.
        pub vendor_id: u16, "VendorId";
        /// PCI device.
        pub device_id: u16, "DeviceId";
        /// PCI bus, device and function.
        pub location_id: u32, "LocationId";
        /// VRAM in bytes.
        pub local_mem_size: u64, "LocalMemSize";
        /// Highest clock of the GPU, in MHz.
        pub max_engine_clock_mhz_f_compute: u32, "MaxEngineClockMhzFCompute";
        /// Highest clock of the CPU, in MHz.
        pub max_engine_clock_mhz_c_compute: u32, "MaxEngineClockMhzCCompute";
        /// Minor number of the render node, negative without one.
        pub drm_render_minor: i32, "DrmRenderMinor";
        /// Name of the product, in UTF-16, ended by zero.
        pub marketing_name: [u16; PUBLIC_NAME_SIZE], "MarketingName";
        /// Name of the chip, in ASCII, ended by zero.
        pub amd_name: [u8; PUBLIC_NAME_SIZE], "AMDName";
        /// Microcode versions.
        pub ucode_engine_versions: EngineVersion, "uCodeEngineVersions";
        /// What a debugger can do.
        pub debug_properties: DebugProperties, "DebugProperties";
        /// XGMI hive, 0 for none.
        pub hive_id: u64, "HiveID";
        /// SDMA engines for PCI.
        pub num_sdma_engines: u32, "NumSdmaEngines";
        /// SDMA engines for XGMI.
        pub num_sdma_xgmi_engines: u32, "NumSdmaXgmiEngines";
        /// Queues of an SDMA engine.
        pub num_sdma_queues_per_engine: u8, "NumSdmaQueuesPerEngine";
        /// Compute queues.
        pub num_cp_queues: u8, "NumCpQueues";
        /// Global wave sync entries.
        pub num_gws: u8, "NumGws";
        /// 1 for an APU. A reserved byte in 5.2.3.
        pub integrated: u8, "Integrated";
        /// PCI domain.
        pub domain: u32, "Domain";
        /// Unique id of the GPU, 0 where there is none.
        pub unique_id: u64, "UniqueID";
        /// Vector registers of a compute unit, in bytes.
        pub vgpr_size_per_cu: u32, "VGPRSizePerCU";
        /// Scalar registers of a compute unit, in bytes.
        pub sgpr_size_per_cu: u32, "SGPRSizePerCU";
        /// Dies. Reserved in 5.2.3, like the next two.
        pub num_xcc: u32, "NumXcc";
        /// KFD's id of the GPU.
        pub kfd_gpu_id: u32, "KFDGpuID";
        /// Family of the GPU (`AMDGPU_FAMILY_*`).
        pub family_id: u32, "FamilyID";
        /// Context save area of a queue, in bytes.
        pub cwsr_size: u32, "CwsrSize", V396;
        /// Control stack in it, in bytes.
        pub ctl_stack_size: u32, "CtlStackSize", V396;
        /// Windows only.
        pub luid_low_part: u32, "LuidLowPart", V396;
        /// Windows only.
        pub luid_high_part: u32, "LuidHighPart", V396;
        /// Frequency of the wall clock, in kHz.
        pub wall_clock_khz: u64, "WallClockKHz", V396;
        /// 1 if memory can be shared over the fabric.
        pub fabric_handle_supported: u32, "FabricHandleSupported", V396;
    }

    /// A memory bank of a node.
    pub struct MemoryProperties: "HsaMemoryProperties", 32 {
        /// What kind of memory it is.
        pub heap_type: HeapType, "HeapType";
        /// Size in bytes.
        pub size_in_bytes: u64, "SizeInBytes";
        /// Properties.
        pub flags: MemoryProperty, "Flags";
        /// Width of the interface in bits.
        pub width: u32, "Width";
        /// Highest clock, in MHz.
        pub memory_clock_max: u32, "MemoryClockMax";
        /// First address of an aperture, 0 if the bank is none.
        pub virtual_base_address: u64, "VirtualBaseAddress";
    }

    /// A cache of a node.
    pub struct CacheProperties: "HsaCacheProperties", 1060 {
        /// Lowest id of the processors that share it.
        pub processor_id_low: u32, "ProcessorIdLow";
        /// 1, 2, 3 ...
        pub cache_level: u32, "CacheLevel";
        /// Size in KiB.
        pub cache_size: u32, "CacheSize";
        /// Size of a line in bytes.
        pub cache_line_size: u32, "CacheLineSize";
        /// Lines of a tag.
        pub cache_lines_per_tag: u32, "CacheLinesPerTag";
        /// Associativity.
        pub cache_associativity: u32, "CacheAssociativity";
        /// Latency in ns.
        pub cache_latency: u32, "CacheLatency";
        /// What it is for.
        pub cache_type: CacheType, "CacheType";
        /// Not 0 for each processor that shares it, counted from `processor_id_low`.
        pub sibling_map: [u32; CPU_SIBLINGS], "SiblingMap";
        /// Biggest part of the L2 cache that can be kept, in bytes.
        pub persisting_cache_size_max: u32, "PersistingCacheSizeMax", V396;
    }

    /// CPU cores of a node. No function answers with it.
    pub struct CComputeProperties: "HsaCComputeProperties", 1024 {
        /// As in [`CacheProperties`].
        pub sibling_map: [u32; CPU_SIBLINGS], "SiblingMap";
    }

    /// A link from one node to another.
    pub struct IoLinkProperties: "HsaIoLinkProperties", 52 {
        /// What kind of link it is.
        pub io_link_type: IoLinkType, "IoLinkType";
        /// Version of the bus.
        pub version_major: u32, "VersionMajor";
        /// Version of the bus.
        pub version_minor: u32, "VersionMinor";
        /// From this node
        pub node_from: u32, "NodeFrom";
        /// to this one.
        pub node_to: u32, "NodeTo";
        /// How far it is; the sum over the parts of an indirect link.
        pub weight: u32, "Weight";
        /// Lowest latency in ns.
        pub minimum_latency: u32, "MinimumLatency";
        /// Highest latency in ns.
        pub maximum_latency: u32, "MaximumLatency";
        /// Lowest bandwidth in MB/s.
        pub minimum_bandwidth: u32, "MinimumBandwidth";
        /// Highest bandwidth in MB/s.
        pub maximum_bandwidth: u32, "MaximumBandwidth";
        /// Size in bytes of transfers that reach the highest bandwidth.
        pub rec_transfer_size: u32, "RecTransferSize";
        /// SDMA engines that reach it, one bit each.
        pub rec_sdma_eng_id_mask: u32, "RecSdmaEngIdMask", V360;
        /// Properties.
        pub flags: LinkProperty, "Flags";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        let id = EngineId::default().with(EngineId::MAJOR, 9).with(EngineId::STEPPING, 0x10a);
        assert_eq!((id.major(), id.minor(), id.stepping(), id.ucode()), (9, 0, 0x0a, 0));
        assert_eq!(id.0, 9 << 10 | 0x0a << 24);
        assert_eq!(format!("{id:?}"), "Major=9 | Stepping=10");
        let debug = DebugProperties::default().with(DebugProperties::WATCH_ADDR_MASK_HI_BIT, 47);
        assert_eq!(debug.watch_addr_mask_hi_bit(), 47);
    }

    #[test]
    fn bits_without_a_name_are_kept_and_printed() {
        let capability = Capability2(1 << 9) | Capability2::STALL_ON_RETRY_FAULT;
        assert!(capability.stall_on_retry_fault() && !capability.aql_emulation_pm4());
        assert_eq!(capability.unknown(), Capability2(1 << 9));
        assert_eq!(format!("{capability:?}"), "StallOnRetryFault | 0x200");
        assert_eq!(format!("{:?}", Capability2(0)), "0");
        assert_eq!(format!("{:?} {:?}", HeapType(7), HeapType(99)), "HSA_HEAPTYPE_MMIO_REMAP 0x63");
    }

    #[test]
    fn a_range_without_bits_holds_nothing() {
        assert_eq!(EngineId(u32::MAX).get(EngineId(0)), 0);
        assert_eq!(EngineId(5).with(EngineId(0), 7), EngineId(5));
    }
}
