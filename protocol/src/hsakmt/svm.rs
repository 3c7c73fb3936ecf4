//! Shared virtual memory: attributes of ranges, and the messages of hsaKmtOpenSMI's descriptor.

use super::declare::{hsa_enums, hsa_structs, hsa_words};

/// Longest message of the SMI descriptor in bytes (`HSA_SMI_EVENT_MSG_SIZE`).
pub const SMI_EVENT_MSG_SIZE: usize = 96;

hsa_words! {
    /// Properties of a range.
    pub struct SvmFlags: u32, "HSA_SVM_FLAGS" {
        /// The CPU reaches it.
        HOST_ACCESS, host_access: 0, "HSA_SVM_FLAG_HOST_ACCESS";
        /// Coherent while kernels run.
        COHERENT, coherent: 1, "HSA_SVM_FLAG_COHERENT";
        /// Shared by the GPUs of a hive.
        HIVE_LOCAL, hive_local: 2, "HSA_SVM_FLAG_HIVE_LOCAL";
        /// The GPU may not write.
        GPU_RO, gpu_ro: 3, "HSA_SVM_FLAG_GPU_RO";
        /// The GPU may execute it.
        GPU_EXEC, gpu_exec: 4, "HSA_SVM_FLAG_GPU_EXEC";
        /// The GPUs mostly read it.
        GPU_READ_MOSTLY, gpu_read_mostly: 5, "HSA_SVM_FLAG_GPU_READ_MOSTLY";
        /// Mapped to the GPUs even when nothing accesses it. Since 6.2.4.
        GPU_ALWAYS_MAPPED, gpu_always_mapped: 6, "HSA_SVM_FLAG_GPU_ALWAYS_MAPPED";
        /// Coherent between GPUs as well. Since 6.2.4.
        EXT_COHERENT, ext_coherent: 7, "HSA_SVM_FLAG_EXT_COHERENT";
    }
}

hsa_enums! {
    /// Attributes of a range.
    pub struct SvmAttrType: u32, "HSA_SVM_ATTR_TYPE" {
        /// Node where the memory should be.
        PREFERRED_LOC = 0, "HSA_SVM_ATTR_PREFERRED_LOC";
        /// Node to move the memory to now.
        PREFETCH_LOC = 1, "HSA_SVM_ATTR_PREFETCH_LOC";
        /// A node that may access it.
        ACCESS = 2, "HSA_SVM_ATTR_ACCESS";
        /// A node that may access it where it is.
        ACCESS_IN_PLACE = 3, "HSA_SVM_ATTR_ACCESS_IN_PLACE";
        /// A node that may not access it.
        NO_ACCESS = 4, "HSA_SVM_ATTR_NO_ACCESS";
        /// [`SvmFlags`] to set.
        SET_FLAGS = 5, "HSA_SVM_ATTR_SET_FLAGS";
        /// [`SvmFlags`] to clear.
        CLR_FLAGS = 6, "HSA_SVM_ATTR_CLR_FLAGS";
        /// Logarithm (base 2) of the pages that move together.
        GRANULARITY = 7, "HSA_SVM_ATTR_GRANULARITY";
    }

    /// Kinds of SMI messages. Since 6.2.4.
    pub struct SmiEvent: u32, "HSA_EVENT_TYPE" {
        /// None.
        NONE = 0, "HSA_SMI_EVENT_NONE";
        /// A GPU access failed.
        VMFAULT = 1, "HSA_SMI_EVENT_VMFAULT";
        /// The GPU is too hot.
        THERMAL_THROTTLE = 2, "HSA_SMI_EVENT_THERMAL_THROTTLE";
        /// A reset begins.
        GPU_PRE_RESET = 3, "HSA_SMI_EVENT_GPU_PRE_RESET";
        /// A reset is over.
        GPU_POST_RESET = 4, "HSA_SMI_EVENT_GPU_POST_RESET";
        /// Memory begins to move.
        MIGRATE_START = 5, "HSA_SMI_EVENT_MIGRATE_START";
        /// Memory has moved.
        MIGRATE_END = 6, "HSA_SMI_EVENT_MIGRATE_END";
        /// A page fault begins.
        PAGE_FAULT_START = 7, "HSA_SMI_EVENT_PAGE_FAULT_START";
        /// A page fault is over.
        PAGE_FAULT_END = 8, "HSA_SMI_EVENT_PAGE_FAULT_END";
        /// Queues are evicted.
        QUEUE_EVICTION = 9, "HSA_SMI_EVENT_QUEUE_EVICTION";
        /// Queues run again.
        QUEUE_RESTORE = 10, "HSA_SMI_EVENT_QUEUE_RESTORE";
        /// A range is unmapped.
        UNMAP_FROM_GPU = 11, "HSA_SMI_EVENT_UNMAP_FROM_GPU";
        /// Number of the bit in the event mask that asks for the messages of all processes.
        ALL_PROCESS = 64, "HSA_SMI_EVENT_ALL_PROCESS";
    }

    /// Why memory moves. Since 6.2.4.
    pub struct MigrateTrigger: u32, "HSA_MIGRATE_TRIGGERS" {
        /// It was asked for.
        PREFETCH = 0, "HSA_MIGRATE_TRIGGER_PREFETCH";
        /// A GPU wanted it.
        PAGEFAULT_GPU = 1, "HSA_MIGRATE_TRIGGER_PAGEFAULT_GPU";
        /// The CPU wanted it.
        PAGEFAULT_CPU = 2, "HSA_MIGRATE_TRIGGER_PAGEFAULT_CPU";
        /// VRAM was full.
        TTM_EVICTION = 3, "HSA_MIGRATE_TRIGGER_TTM_EVICTION";
    }

    /// Why queues are evicted. Since 6.2.4.
    pub struct QueueEvictionTrigger: u32, "HSA_QUEUE_EVICTION_TRIGGERS" {
        /// A range of shared virtual memory moves.
        SVM = 0, "HSA_QUEUE_EVICTION_TRIGGER_SVM";
        /// Pages of the program move.
        USERPTR = 1, "HSA_QUEUE_EVICTION_TRIGGER_USERPTR";
        /// VRAM was full.
        TTM = 2, "HSA_QUEUE_EVICTION_TRIGGER_TTM";
        /// The system suspends.
        SUSPEND = 3, "HSA_QUEUE_EVICTION_TRIGGER_SUSPEND";
        /// A checkpoint is made.
        CRIU_CHECKPOINT = 4, "HSA_QUEUE_EVICTION_CRIU_CHECKPOINT";
        /// A checkpoint is restored.
        CRIU_RESTORE = 5, "HSA_QUEUE_EVICTION_CRIU_RESTORE";
    }

    /// Why a range is unmapped. Since 6.2.4.
    pub struct SvmUnmapTrigger: u32, "HSA_SVM_UNMAP_TRIGGERS" {
        /// The program's mappings change.
        MMU_NOTIFY = 0, "HSA_SVM_UNMAP_TRIGGER_MMU_NOTIFY";
        /// The kernel moves its pages.
        MMU_NOTIFY_MIGRATE = 1, "HSA_SVM_UNMAP_TRIGGER_MMU_NOTIFY_MIGRATE";
        /// The program unmaps it.
        UNMAP_FROM_CPU = 2, "HSA_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU";
    }
}

hsa_structs! {
    /// An attribute and its value.
    pub struct SvmAttribute: "HSA_SVM_ATTRIBUTE", 8 {
        /// [`SvmAttrType`].
        pub type_: u32, "type";
        /// Node, flags or granularity, by type.
        pub value: u32, "value";
    }
}
