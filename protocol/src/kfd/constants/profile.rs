//! Checkpoint and restore, performance counters, sampling, and ROCm's copies.

super::kfd_consts! {
    /// Version that PROFILER reports.
    PROFILER_VERSION: u32 = 1, "KFD_IOC_PROFILER_VERSION_NUM";
}

super::kfd_values! {
    /// Operation of CRIU_OP (`enum kfd_criu_op`).
    pub struct CriuOp: u32 {
        /// Stops the queues and counts what there is.
        PROCESS_INFO = 0, "KFD_CRIU_OP_PROCESS_INFO";
        /// Saves.
        CHECKPOINT = 1, "KFD_CRIU_OP_CHECKPOINT";
        /// Lets the queues run again.
        UNPAUSE = 2, "KFD_CRIU_OP_UNPAUSE";
        /// Makes everything again.
        RESTORE = 3, "KFD_CRIU_OP_RESTORE";
        /// Starts the restored process.
        RESUME = 4, "KFD_CRIU_OP_RESUME";
    }

    /// Operation of PROFILER (`enum kfd_profiler_ops`).
    pub struct ProfilerOp: u32 {
        /// Performance counters.
        PMC = 0, "KFD_IOC_PROFILER_PMC";
        /// Program counter sampling (ROCm).
        PC_SAMPLE = 1, "KFD_IOC_PROFILER_PC_SAMPLE";
        /// Version.
        VERSION = 2, "KFD_IOC_PROFILER_VERSION";
        /// Peak tops limiter (mainline).
        PTL_CONTROL = 3, "KFD_IOC_PROFILER_PTL_CONTROL";
    }

    /// Operation of RLC_SPM (ROCm, `enum kfd_ioctl_spm_op`).
    pub struct SpmOp: u32 {
        /// Takes the monitor.
        ACQUIRE = 0, "KFD_IOCTL_SPM_OP_ACQUIRE";
        /// Gives it back.
        RELEASE = 1, "KFD_IOCTL_SPM_OP_RELEASE";
        /// Names the buffer to fill and reports on the one before.
        SET_DEST_BUF = 2, "KFD_IOCTL_SPM_OP_SET_DEST_BUF";
    }

    /// Operation of PC_SAMPLE (ROCm, `enum kfd_ioctl_pc_sample_op`).
    pub struct PcSampleOp: u32 {
        /// What the GPU can do.
        QUERY_CAPABILITIES = 0, "KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES";
        /// Makes a session.
        CREATE = 1, "KFD_IOCTL_PCS_OP_CREATE";
        /// Ends it.
        DESTROY = 2, "KFD_IOCTL_PCS_OP_DESTROY";
        /// Starts sampling.
        START = 3, "KFD_IOCTL_PCS_OP_START";
        /// Stops sampling.
        STOP = 4, "KFD_IOCTL_PCS_OP_STOP";
    }

    /// How samples are taken (ROCm, `enum kfd_ioctl_pc_sample_method`).
    pub struct PcSampleMethod: u32 {
        /// The host traps the waves.
        HOSTTRAP = 1, "KFD_IOCTL_PCS_METHOD_HOSTTRAP";
        /// The hardware takes them.
        STOCHASTIC = 2, "KFD_IOCTL_PCS_METHOD_STOCHASTIC";
    }

    /// Unit of the sampling interval (ROCm, `enum kfd_ioctl_pc_sample_type`).
    pub struct PcSampleType: u32 {
        /// Microseconds.
        TIME_US = 0, "KFD_IOCTL_PCS_TYPE_TIME_US";
        /// Clock cycles.
        CLOCK_CYCLES = 1, "KFD_IOCTL_PCS_TYPE_CLOCK_CYCLES";
        /// Instructions.
        INSTRUCTIONS = 2, "KFD_IOCTL_PCS_TYPE_INSTRUCTIONS";
    }

    /// Operation of AIS_OP (ROCm, `enum kfd_ais_ops`).
    pub struct AisOp: u32 {
        /// File to GPU memory.
        READ = 1, "KFD_IOC_AIS_READ";
        /// GPU memory to file.
        WRITE = 2, "KFD_IOC_AIS_WRITE";
    }
}

super::kfd_flags! {
    /// Flags of `struct kfd_pc_sample_info` (ROCm).
    pub struct PcSampleFlags: u64 {
        /// The interval is a power of two.
        POWER_OF_2 = 1 << 0, "KFD_IOCTL_PCS_FLAG_POWER_OF_2";
    }

    /// Flags of PC_SAMPLE's query (ROCm).
    pub struct PcSampleQuery: u32 {
        /// Everything that the GPU can do, not only what goes with the sessions that exist.
        FULL = 1 << 0, "KFD_IOCTL_PCS_QUERY_TYPE_FULL";
    }

    /// Flags of CROSS_MEMORY_COPY (ROCm).
    pub struct CrossMemoryFlags: u32 {
        /// To the other process instead of from it.
        RW = 1 << 0, "KFD_CROSS_MEMORY_RW_BIT";
    }
}
