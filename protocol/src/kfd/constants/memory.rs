//! Memory: allocation flags, cache policies and the offsets for `mmap` on `/dev/kfd`.

super::kfd_values! {
    /// Cache policy of an aperture (SET_MEMORY_POLICY).
    pub struct CachePolicy: u32 {
        /// Coherent with the CPU.
        COHERENT = 0, "KFD_IOC_CACHE_POLICY_COHERENT";
        /// Not coherent with the CPU.
        NONCOHERENT = 1, "KFD_IOC_CACHE_POLICY_NONCOHERENT";
    }

    /// Registers in the MMIO remap page, by byte offset (`enum kfd_mmio_remap`).
    pub struct MmioRemap: u32 {
        /// Flushes the host data path's memory cache.
        HDP_MEM_FLUSH_CNTL = 0, "KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL";
        /// Flushes the host data path's register cache.
        HDP_REG_FLUSH_CNTL = 4, "KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL";
    }

    /// What an `mmap` offset on `/dev/kfd` stands for (`kfd_priv.h`): the two highest bits.
    pub struct MmapType: u64 {
        /// The process's doorbells on a GPU; the offset that CREATE_QUEUE returns.
        DOORBELL = 3 << 62, "KFD_MMAP_TYPE_DOORBELL";
        /// The event page. Linux 7.3 refuses it.
        EVENTS = 2 << 62, "KFD_MMAP_TYPE_EVENTS";
        /// The kernel's trap handler memory. Linux 7.2 and later refuse it.
        RESERVED_MEM = 1 << 62, "KFD_MMAP_TYPE_RESERVED_MEM";
        /// The MMIO remap page; the offset that ALLOC_MEMORY_OF_GPU returns with MMIO_REMAP.
        MMIO = 0, "KFD_MMAP_TYPE_MMIO";
    }
}

super::kfd_flags! {
    /// Flags of SET_MEMORY_POLICY for the process (interface 1.18).
    pub struct ProcessFlags: u32 {
        /// MFMA instructions with high precision.
        MFMA_HIGH_PRECISION = 1 << 0, "KFD_PROC_FLAG_MFMA_HIGH_PRECISION";
    }

    /// Flags of ALLOC_MEMORY_OF_GPU: where the memory is, and what may be done with it.
    pub struct AllocFlags: u32 {
        /// In the GPU's memory.
        VRAM = 1 << 0, "KFD_IOC_ALLOC_MEM_FLAGS_VRAM";
        /// In system memory of the kernel's choice.
        GTT = 1 << 1, "KFD_IOC_ALLOC_MEM_FLAGS_GTT";
        /// The program's own memory at `mmap_offset`.
        USERPTR = 1 << 2, "KFD_IOC_ALLOC_MEM_FLAGS_USERPTR";
        /// The process's doorbells, so that GPUs can ring them.
        DOORBELL = 1 << 3, "KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL";
        /// The MMIO remap page.
        MMIO_REMAP = 1 << 4, "KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP";
        /// The GPU may write.
        WRITABLE = 1 << 31, "KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE";
        /// The GPU may execute.
        EXECUTABLE = 1 << 30, "KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE";
        /// VRAM that the CPU can reach through the PCI BAR.
        PUBLIC = 1 << 29, "KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC";
        /// No other kind of memory instead.
        NO_SUBSTITUTE = 1 << 28, "KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE";
        /// A ring that some GPUs see twice, one after the other.
        AQL_QUEUE_MEM = 1 << 27, "KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM";
        /// Coherent between GPU and CPU while kernels run.
        COHERENT = 1 << 26, "KFD_IOC_ALLOC_MEM_FLAGS_COHERENT";
        /// Not in the GPU's caches.
        UNCACHED = 1 << 25, "KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED";
        /// Coherent between GPUs as well.
        EXT_COHERENT = 1 << 24, "KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT";
        /// Physically contiguous VRAM.
        CONTIGUOUS = 1 << 23, "KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS";
        /// ROCm's name for the same bit.
        CONTIGUOUS_BEST_EFFORT = 1 << 23, "KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS_BEST_EFFORT";
    }
}

super::kfd_consts! {
    /// Lowest bit of the type in an `mmap` offset.
    MMAP_TYPE_SHIFT: u32 = 62, "KFD_MMAP_TYPE_SHIFT";
    /// Bits of the type in an `mmap` offset.
    MMAP_TYPE_MASK: u64 = 3 << 62, "KFD_MMAP_TYPE_MASK";
    /// Lowest bit of the GPU id in an `mmap` offset.
    MMAP_GPU_ID_SHIFT: u32 = 46, "KFD_MMAP_GPU_ID_SHIFT";
    /// Bits of the GPU id in an `mmap` offset.
    MMAP_GPU_ID_MASK: u64 = 0xffff << 46, "KFD_MMAP_GPU_ID_MASK";
}

/// An `mmap` offset on `/dev/kfd`, in bytes: type, GPU and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmapOffset(pub u64);

impl MmapOffset {
    /// The offset of the first byte. `KFD_MMAP_GPU_ID` keeps 16 bits of the GPU id, which has no more.
    #[must_use]
    pub const fn new(kind: MmapType, gpu_id: u32) -> MmapOffset {
        MmapOffset(kind.0 | (((gpu_id as u64) << MMAP_GPU_ID_SHIFT) & MMAP_GPU_ID_MASK))
    }

    /// What it stands for.
    #[must_use]
    pub const fn kind(self) -> MmapType {
        MmapType(self.0 & MMAP_TYPE_MASK)
    }

    /// The GPU, 0 where there is none (`KFD_MMAP_GET_GPU_ID`).
    #[must_use]
    pub const fn gpu_id(self) -> u32 {
        ((self.0 & MMAP_GPU_ID_MASK) >> MMAP_GPU_ID_SHIFT) as u32
    }

    /// The bits below the GPU id.
    #[must_use]
    pub const fn rest(self) -> u64 {
        self.0 & !(MMAP_TYPE_MASK | MMAP_GPU_ID_MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mmap_offset_holds_type_gpu_and_rest() {
        // The event page of a real KFD without a GPU: seen as 0x8000000000000000 on Linux 6.12.
        assert_eq!(MmapOffset::new(MmapType::EVENTS, 0).0, 0x8000_0000_0000_0000);
        let offset = MmapOffset(MmapOffset::new(MmapType::DOORBELL, 0xabcd).0 | 0x1008);
        assert_eq!((offset.kind(), offset.gpu_id(), offset.rest()), (MmapType::DOORBELL, 0xabcd, 0x1008));
        assert_eq!(MmapOffset::new(MmapType::MMIO, 0x1_ffff).gpu_id(), 0xffff);
        let all = MMAP_TYPE_MASK | MMAP_GPU_ID_MASK | MmapOffset(u64::MAX).rest();
        assert_eq!(all, u64::MAX);
    }
}
