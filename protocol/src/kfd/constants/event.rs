//! Events.

super::kfd_consts! {
    /// Signal events of a process; one 8-byte slot each in the event page.
    SIGNAL_EVENT_LIMIT: u32 = 4096, "KFD_SIGNAL_EVENT_LIMIT";
    /// Time-out of WAIT_EVENTS, in milliseconds, that never comes. From `kfd_events.h`.
    WAIT_FOREVER: u32 = 0xffff_ffff, "KFD_EVENT_TIMEOUT_INFINITE";
}

super::kfd_values! {
    /// Kind of an event (CREATE_EVENT).
    pub struct EventType: u32 {
        /// Set by the GPU's signal or by SET_EVENT.
        SIGNAL = 0, "KFD_IOC_EVENT_SIGNAL";
        /// A GPU came or went.
        NODECHANGE = 1, "KFD_IOC_EVENT_NODECHANGE";
        /// A GPU changed its state.
        DEVICESTATECHANGE = 2, "KFD_IOC_EVENT_DEVICESTATECHANGE";
        /// GPU reset or hang.
        HW_EXCEPTION = 3, "KFD_IOC_EVENT_HW_EXCEPTION";
        /// System event.
        SYSTEM_EVENT = 4, "KFD_IOC_EVENT_SYSTEM_EVENT";
        /// Debugger event.
        DEBUG_EVENT = 5, "KFD_IOC_EVENT_DEBUG_EVENT";
        /// Profiler event.
        PROFILE_EVENT = 6, "KFD_IOC_EVENT_PROFILE_EVENT";
        /// Queue event.
        QUEUE_EVENT = 7, "KFD_IOC_EVENT_QUEUE_EVENT";
        /// Memory exception.
        MEMORY = 8, "KFD_IOC_EVENT_MEMORY";
    }

    /// `wait_result` of WAIT_EVENTS.
    pub struct WaitResult: u32 {
        /// What was waited for has happened.
        COMPLETE = 0, "KFD_IOC_WAIT_RESULT_COMPLETE";
        /// The time is over.
        TIMEOUT = 1, "KFD_IOC_WAIT_RESULT_TIMEOUT";
        /// The call failed, for instance because an event was destroyed.
        FAIL = 2, "KFD_IOC_WAIT_RESULT_FAIL";
    }

    /// What a reset hit (`reset_type` of a hardware exception).
    pub struct HwExceptionReset: u32 {
        /// The whole GPU.
        WHOLE_GPU = 0, "KFD_HW_EXCEPTION_WHOLE_GPU_RESET";
        /// One engine.
        PER_ENGINE = 1, "KFD_HW_EXCEPTION_PER_ENGINE_RESET";
    }

    /// Why (`reset_cause` of a hardware exception).
    pub struct HwExceptionCause: u32 {
        /// It no longer answered.
        GPU_HANG = 0, "KFD_HW_EXCEPTION_GPU_HANG";
        /// An uncorrectable memory error.
        ECC = 1, "KFD_HW_EXCEPTION_ECC";
    }

    /// `error_type` of a memory exception.
    pub struct MemoryError: u32 {
        /// A page fault.
        NO_RAS = 0, "KFD_MEM_ERR_NO_RAS";
        /// Error in on-chip memory.
        SRAM_ECC = 1, "KFD_MEM_ERR_SRAM_ECC";
        /// A wave read poisoned data.
        POISON_CONSUMED = 2, "KFD_MEM_ERR_POISON_CONSUMED";
        /// The GPU hung.
        GPU_HANG = 3, "KFD_MEM_ERR_GPU_HANG";
    }
}
