//! Queues.

super::kfd_consts! {
    /// Highest share of a queue, in per cent. Bits 8 to 15 of the same field choose a die for PM4 queues.
    MAX_QUEUE_PERCENTAGE: u32 = 100, "KFD_MAX_QUEUE_PERCENTAGE";
    /// Highest priority.
    MAX_QUEUE_PRIORITY: u32 = 15, "KFD_MAX_QUEUE_PRIORITY";
    /// Smallest ring in bytes; mainline raises a smaller one to this.
    MIN_QUEUE_RING_SIZE: u32 = 1024, "KFD_MIN_QUEUE_RING_SIZE";
}

super::kfd_values! {
    /// Kind of a queue (`queue_type` of CREATE_QUEUE).
    pub struct QueueType: u32 {
        /// Compute with PM4 packets.
        COMPUTE = 0, "KFD_IOC_QUEUE_TYPE_COMPUTE";
        /// Copy engine, any that is not for links.
        SDMA = 1, "KFD_IOC_QUEUE_TYPE_SDMA";
        /// Compute with AQL packets.
        COMPUTE_AQL = 2, "KFD_IOC_QUEUE_TYPE_COMPUTE_AQL";
        /// Copy engine for XGMI links.
        SDMA_XGMI = 3, "KFD_IOC_QUEUE_TYPE_SDMA_XGMI";
        /// The copy engine that `sdma_engine_id` names (interface 1.17).
        SDMA_BY_ENG_ID = 4, "KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID";
    }
}
