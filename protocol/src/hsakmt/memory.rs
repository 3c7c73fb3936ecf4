//! Memory: allocation and mapping flags, what a pointer is, memory of others.

use super::declare::{hsa_enums, hsa_structs, hsa_words};

hsa_enums! {
    /// How the CPU caches memory.
    pub struct CachingType: u32, "HSA_CACHING_TYPE" {
        /// Cached.
        CACHED = 0, "HSA_CACHING_CACHED";
        /// Not cached.
        NONCACHED = 1, "HSA_CACHING_NONCACHED";
        /// Write-combined.
        WRITECOMBINED = 2, "HSA_CACHING_WRITECOMBINED";
        /// Reserved.
        RESERVED = 3, "HSA_CACHING_RESERVED";
    }

    /// Size of pages.
    pub struct PageSize: u32, "HSA_PAGE_SIZE" {
        /// 4 KiB.
        KB4 = 0, "HSA_PAGE_SIZE_4KB";
        /// 64 KiB.
        KB64 = 1, "HSA_PAGE_SIZE_64KB";
        /// 2 MiB.
        MB2 = 2, "HSA_PAGE_SIZE_2MB";
        /// 1 GiB.
        GB1 = 3, "HSA_PAGE_SIZE_1GB";
    }

    /// What an address belongs to.
    pub struct PointerType: u32, "HSA_POINTER_TYPE" {
        /// Nothing that the thunk knows.
        UNKNOWN = 0, "HSA_POINTER_UNKNOWN";
        /// Memory that the thunk allocated.
        ALLOCATED = 1, "HSA_POINTER_ALLOCATED";
        /// Memory of the program that it registered.
        REGISTERED_USER = 2, "HSA_POINTER_REGISTERED_USER";
        /// A buffer of a graphics driver (dma-buf).
        REGISTERED_GRAPHICS = 3, "HSA_POINTER_REGISTERED_GRAPHICS";
        /// Memory of another process.
        REGISTERED_SHARED = 4, "HSA_POINTER_REGISTERED_SHARED";
        /// Addresses without memory. Since 6.2.4.
        RESERVED_ADDR = 5, "HSA_POINTER_RESERVED_ADDR";
    }
}

impl PageSize {
    /// The size in bytes, of the values that have a name.
    #[must_use]
    pub const fn bytes(self) -> Option<u64> {
        match self {
            PageSize::KB4 => Some(4 << 10),
            PageSize::KB64 => Some(64 << 10),
            PageSize::MB2 => Some(2 << 20),
            PageSize::GB1 => Some(1 << 30),
            _ => None,
        }
    }
}

hsa_words! {
    /// What memory to allocate. From 2026 on also how to map it.
    pub struct MemFlags: u32, "HsaMemFlags" {
        /// Never paged out: VRAM on a GPU node, pinned system memory on a CPU node.
        NON_PAGED, non_paged: 0, "NonPaged";
        /// The GPU may not write.
        READ_ONLY, read_only: 3, "ReadOnly";
        /// The CPU reaches it.
        HOST_ACCESS, host_access: 6, "HostAccess";
        /// No other kind of memory instead.
        NO_SUBSTITUTE, no_substitute: 7, "NoSubstitute";
        /// Global data share.
        GDS_MEMORY, gds_memory: 8, "GDSMemory";
        /// Scratch: addresses now, memory when it is mapped.
        SCRATCH, scratch: 9, "Scratch";
        /// All atomic operations must work.
        ATOMIC_ACCESS_FULL, atomic_access_full: 10, "AtomicAccessFull";
        /// PCI atomic operations must work.
        ATOMIC_ACCESS_PARTIAL, atomic_access_partial: 11, "AtomicAccessPartial";
        /// The GPU may execute it.
        EXECUTE_ACCESS, execute_access: 12, "ExecuteAccess";
        /// Coherent at the start and end of kernels only.
        COARSE_GRAIN, coarse_grain: 13, "CoarseGrain";
        /// An AQL ring, which some GPUs must see twice.
        AQL_QUEUE_MEMORY, aql_queue_memory: 14, "AQLQueueMemory";
        /// At the address that the caller gives.
        FIXED_ADDRESS, fixed_address: 15, "FixedAddress";
        /// On any NUMA node.
        NO_NUMA_BIND, no_numa_bind: 16, "NoNUMABind";
        /// Not in the GPU's caches.
        UNCACHED, uncached: 17, "Uncached";
        /// Memory without addresses: the answer is a handle. Since 6.2.4.
        NO_ADDRESS, no_address: 18, "NoAddress";
        /// Addresses without memory. Since 6.2.4.
        ONLY_ADDRESS, only_address: 19, "OnlyAddress";
        /// Atomic operations are coherent in the whole system. Since 6.2.4.
        EXTENDED_COHERENT, extended_coherent: 20, "ExtendedCoherent";
        /// GTT memory, which the queue scheduler reaches too. Since 6.2.4.
        GTT_ACCESS, gtt_access: 21, "GTTAccess";
        /// Contiguous in VRAM. Since 6.2.4.
        CONTIGUOUS, contiguous: 22, "Contiguous";
        /// Code of blit kernels. Since August 2025.
        EXECUTE_BLIT, execute_blit: 23, "ExecuteBlit";
        /// What belongs to a queue. Since 2026.
        QUEUE_OBJECT, queue_object: 24, "QueueObject";
    } ranges {
        /// [`CachingType`] as a number.
        CACHE_POLICY, cache_policy: 1, 2, "CachePolicy";
        /// [`PageSize`] as a number.
        PAGE_SIZE, page_size: 4, 2, "PageSize";
    }

    /// How to map memory: the argument of hsaKmtMapMemoryToGPUNodes before 2026.
    pub struct MemMapFlags: u32, "HsaMemMapFlags" {
        /// The GPU may not write.
        READ_ONLY, read_only: 3, "ReadOnly";
        /// The CPU reaches it.
        HOST_ACCESS, host_access: 6, "HostAccess";
        /// Move the memory to the node.
        MIGRATE, migrate: 7, "Migrate";
        /// Only find out whether it would work.
        PROBE, probe: 8, "Probe";
    } ranges {
        /// [`CachingType`] as a number.
        CACHE_POLICY, cache_policy: 1, 2, "CachePolicy";
        /// [`PageSize`] as a number.
        PAGE_SIZE, page_size: 4, 2, "PageSize";
    }

    /// How to register a graphics buffer (hsaKmtRegisterGraphicsHandleToNodesExt).
    pub struct RegisterMemFlags: u32, "HSA_REGISTER_MEM_FLAGS" {
        /// The buffer gets an address.
        REQUIRES_VADDR, requires_vaddr: 0, "requiresVAddr";
        /// The handle is a KMT handle (Windows). Since 2026.
        KMT_HANDLE, kmt_handle: 1, "kmtHandle";
    }
}

impl MemFlags {
    /// How the CPU caches the memory.
    #[must_use]
    pub const fn caching(self) -> CachingType {
        CachingType(self.cache_policy())
    }

    /// The size of pages.
    #[must_use]
    pub const fn pages(self) -> PageSize {
        PageSize(self.page_size())
    }

    /// The size of pages in bytes: two bits have four values, so there always is one.
    #[must_use]
    pub const fn page_bytes(self) -> u64 {
        match self.pages().bytes() {
            Some(bytes) => bytes,
            None => 4 << 10,
        }
    }
}

hsa_structs! {
    /// A handle that another process can register (`HsaSharedMemoryHandle`, an array in C).
    pub struct SharedMemoryHandle: "HsaSharedMemoryHandle", 32 {
        /// Opaque words.
        pub words: [u32; 8], "HsaSharedMemoryHandle";
    }

    /// A range of addresses.
    pub struct MemoryRange: "HsaMemoryRange", 16 {
        /// First address.
        pub memory_address: u64, "MemoryAddress";
        /// Size in bytes.
        pub size_in_bytes: u64, "SizeInBytes";
    }

    /// A registered graphics buffer: the answer of hsaKmtRegisterGraphicsHandleToNodes.
    pub struct GraphicsResourceInfo: "HsaGraphicsResourceInfo", 40 {
        /// Address. (out)
        pub memory_address: u64, "MemoryAddress";
        /// Size in bytes. (out)
        pub size_in_bytes: u64, "SizeInBytes";
        /// Address of the metadata, which the thunk keeps until the buffer is deregistered. (out)
        pub metadata: u64, "Metadata";
        /// Its size in bytes. (out)
        pub metadata_size_in_bytes: u32, "MetadataSizeInBytes";
        /// Node of the buffer. (out) Reserved in 5.2.3.
        pub node_id: u32, "NodeId";
        /// Size in bytes where the handle does not tell it. (in)
        pub size_hint_in_bytes: u64, "SizeHintInBytes", V396;
    }

    /// Metadata of a Windows surface.
    pub struct WddmSurfaceMetadata: "HsaWddmSurfaceMetadata", 24 {
        /// Version of this struct.
        pub version: u32, "version";
        /// Swizzle mode.
        pub swizzle_mode: u32, "swizzle_mode";
        /// Swizzle of the tile.
        pub tile_swizzle: u32, "tile_swizzle";
        /// Compression mode.
        pub compression_mode: u32, "compression_mode";
        /// Biggest compressed block.
        pub max_comp_blk: u32, "max_comp_blk";
        /// Biggest uncompressed block.
        pub max_uncomp_blk: u32, "max_uncomp_blk";
    }

    /// What the thunk knows about an address: the answer of hsaKmtQueryPointerInfo.
    pub struct PointerInfo: "HsaPointerInfo", 68 {
        /// What the address belongs to.
        pub type_: PointerType, "Type";
        /// Node of the memory.
        pub node: u32, "Node";
        /// Flags of the allocation.
        pub mem_flags: MemFlags, "MemFlags";
        /// First address for the CPU.
        pub cpu_address: u64, "CPUAddress";
        /// First address for the GPU.
        pub gpu_address: u64, "GPUAddress";
        /// Size in bytes.
        pub size_in_bytes: u64, "SizeInBytes";
        /// Nodes that the memory is registered to.
        pub n_registered_nodes: u32, "NRegisteredNodes";
        /// Nodes that the memory is mapped to.
        pub n_mapped_nodes: u32, "NMappedNodes";
        /// Address of an array of node ids.
        pub registered_nodes: u64, "RegisteredNodes";
        /// Address of an array of node ids.
        pub mapped_nodes: u64, "MappedNodes";
        /// What hsaKmtSetMemoryUserData stored.
        pub user_data: u64, "UserData";
    }

    /// Tiling of a GPU: the answer of hsaKmtGetTileConfig.
    pub struct GpuTileConfig: "HsaGpuTileConfig", 64 {
        /// Address of an array of tile configurations. (in)
        pub tile_config: u64, "TileConfig";
        /// Address of an array of macro tile configurations. (in)
        pub macro_tile_config: u64, "MacroTileConfig";
        /// Elements of the first array: in room, out used.
        pub num_tile_configs: u32, "NumTileConfigs";
        /// Elements of the second array: in room, out used.
        pub num_macro_tile_configs: u32, "NumMacroTileConfigs";
        /// The register GB_ADDR_CONFIG. (out)
        pub gb_addr_config: u32, "GbAddrConfig";
        /// Banks. (out)
        pub num_banks: u32, "NumBanks";
        /// Ranks. (out)
        pub num_ranks: u32, "NumRanks";
        /// Reserved.
        pub reserved: [u32; 7], "Reserved";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_and_caching_are_numbers_inside_the_flags() {
        let flags = MemFlags::HOST_ACCESS.with(MemFlags::PAGE_SIZE, 2).with(MemFlags::CACHE_POLICY, 1);
        assert_eq!(flags.0, 1 << 6 | 2 << 4 | 1 << 1);
        assert_eq!((flags.pages(), flags.page_bytes()), (PageSize::MB2, 2 << 20));
        assert_eq!(flags.caching(), CachingType::NONCACHED);
        assert!(flags.host_access() && !flags.non_paged());
        let sizes: Vec<_> = (0..4).map(|size| MemFlags(size << 4).page_bytes()).collect();
        assert_eq!(sizes, [4 << 10, 64 << 10, 2 << 20, 1 << 30]);
        assert_eq!(PageSize(4).bytes(), None);
    }
}
