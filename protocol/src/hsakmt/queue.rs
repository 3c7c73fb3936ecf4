//! Queues.

use super::declare::{hsa_enums, hsa_structs};

/// A queue id that no queue has (`INVALID_QUEUEID`).
pub const INVALID_QUEUE_ID: u64 = u64::MAX;

hsa_enums! {
    /// What kind of packets a queue takes, and which engine.
    pub struct QueueType: u32, "HSA_QUEUE_TYPE" {
        /// Compute, PM4.
        COMPUTE = 1, "HSA_QUEUE_COMPUTE";
        /// SDMA for PCI.
        SDMA = 2, "HSA_QUEUE_SDMA";
        /// Video decode; not supported.
        MULTIMEDIA_DECODE = 3, "HSA_QUEUE_MULTIMEDIA_DECODE";
        /// Video encode; not supported.
        MULTIMEDIA_ENCODE = 4, "HSA_QUEUE_MULTIMEDIA_ENCODE";
        /// SDMA for XGMI.
        SDMA_XGMI = 5, "HSA_QUEUE_SDMA_XGMI";
        /// SDMA of the engine that the call names (interface 1.17).
        SDMA_BY_ENG_ID = 6, "HSA_QUEUE_SDMA_BY_ENG_ID";
        /// Reserved for the operating system.
        COMPUTE_OS = 11, "HSA_QUEUE_COMPUTE_OS";
        /// Reserved for the operating system.
        SDMA_OS = 12, "HSA_QUEUE_SDMA_OS";
        /// Reserved for the operating system.
        MULTIMEDIA_DECODE_OS = 13, "HSA_QUEUE_MULTIMEDIA_DECODE_OS";
        /// Reserved for the operating system.
        MULTIMEDIA_ENCODE_OS = 14, "HSA_QUEUE_MULTIMEDIA_ENCODE_OS";
        /// Compute, AQL.
        COMPUTE_AQL = 21, "HSA_QUEUE_COMPUTE_AQL";
        /// DMA with AQL packets; not supported.
        DMA_AQL = 22, "HSA_QUEUE_DMA_AQL";
        /// DMA with AQL packets over XGMI; not supported.
        DMA_AQL_XGMI = 23, "HSA_QUEUE_DMA_AQL_XGMI";
    }

    /// How urgent a queue is. The header's enum has negative values and 0xffffffff, so it is 8 bytes wide.
    pub struct QueuePriority: i64, "HSA_QUEUE_PRIORITY" {
        /// Lowest.
        MINIMUM = -3, "HSA_QUEUE_PRIORITY_MINIMUM";
        /// Low.
        LOW = -2, "HSA_QUEUE_PRIORITY_LOW";
        /// Below normal.
        BELOW_NORMAL = -1, "HSA_QUEUE_PRIORITY_BELOW_NORMAL";
        /// Normal.
        NORMAL = 0, "HSA_QUEUE_PRIORITY_NORMAL";
        /// Above normal.
        ABOVE_NORMAL = 1, "HSA_QUEUE_PRIORITY_ABOVE_NORMAL";
        /// High.
        HIGH = 2, "HSA_QUEUE_PRIORITY_HIGH";
        /// Highest.
        MAXIMUM = 3, "HSA_QUEUE_PRIORITY_MAXIMUM";
    }
}

hsa_structs! {
    /// What a queue is reached by: the answer of hsaKmtCreateQueue.
    pub struct QueueResource: "HsaQueueResource", 52 {
        /// Id of the queue, for the thunk's other functions. (out)
        pub queue_id: u64, "QueueId";
        /// Address of the doorbell. (out)
        pub queue_doorbell: u64, "QueueDoorBell";
        /// Address of the write pointer: in for AQL queues, out for the others.
        pub queue_write_ptr: u64, "QueueWptrValue";
        /// Address of the read pointer: in for AQL queues, out for the others.
        pub queue_read_ptr: u64, "QueueRptrValue";
        /// Address of the word for exceptions of the queue, or 0. (in)
        pub error_reason: u64, "ErrorReason";
        /// Software back ends only: GPU address of a progress fence. (out)
        pub sdma_progress_fence_va: u64, "SdmaProgressFenceVA", V396;
        /// Software back ends only: bytes at the end of the ring that are not the caller's. (out)
        pub sdma_hw_queue_epilogue_bytes: u32, "SdmaHwQueueEpilogueBytes", V396;
    }

    /// What hsaKmtGetQueueInfo answers.
    pub struct QueueInfo: "HsaQueueInfo", 76 {
        /// Error state.
        pub queue_detail_error: u32, "QueueDetailError";
        /// Extended type.
        pub queue_type_extended: u32, "QueueTypeExtended";
        /// Compute units that the queue may use.
        pub num_cu_assigned: u32, "NumCUAssigned";
        /// Address of the mask of compute units.
        pub cu_mask_info: u64, "CUMaskInfo";
        /// Address of the context save area.
        pub user_context_save_area: u64, "UserContextSaveArea";
        /// Bytes of saved waves.
        pub save_area_size_in_bytes: u64, "SaveAreaSizeInBytes";
        /// Address of the control stack in use.
        pub control_stack_top: u64, "ControlStackTop";
        /// Bytes of control stack in use.
        pub control_stack_used_in_bytes: u64, "ControlStackUsedInBytes";
        /// Address of a [`ContextSaveAreaHeader`].
        pub save_area_header: u64, "SaveAreaHeader";
        /// Reserved.
        pub reserved2: u64, "Reserved2";
        /// Size of the whole save area in bytes.
        pub save_area_alloc_size: u64, "SaveAreaAllocSize", V396;
    }

    /// The start of a context save area. The kernel fills in the first four words.
    pub struct ContextSaveAreaHeader: "HsaUserContextSaveAreaHeader", 40 {
        /// Offset in bytes of the control stack in use.
        pub control_stack_offset: u32, "ControlStackOffset";
        /// Its size in bytes.
        pub control_stack_size: u32, "ControlStackSize";
        /// Offset in bytes of the saved waves.
        pub wave_state_offset: u32, "WaveStateOffset";
        /// Their size in bytes.
        pub wave_state_size: u32, "WaveStateSize";
        /// Offset in bytes of room for a debugger.
        pub debug_offset: u32, "DebugOffset";
        /// Its size in bytes.
        pub debug_size: u32, "DebugSize";
        /// Address of the word for exceptions of the queue, or 0.
        pub error_reason: u64, "ErrorReason";
        /// Event that is set after an exception, or 0.
        pub error_event_id: u32, "ErrorEventId";
        /// Reserved.
        pub reserved1: u32, "Reserved1";
    }

    /// A queue as hsaKmtReportQueue would tell it; nothing implements that.
    pub struct QueueReport: "HsaQueueReport", 20 {
        /// VMID.
        pub vmid: u32, "VMID";
        /// Address of the ring.
        pub queue_address: u64, "QueueAddress";
        /// Size of the ring in bytes.
        pub queue_size: u64, "QueueSize";
    }
}
