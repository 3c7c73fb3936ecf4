//! Debugger and runtime.

super::kfd_consts! {
    /// Codes that a queue raises, as a mask (mainline).
    EC_MASK_QUEUE: u64 = 0x607f_803f, "KFD_EC_MASK_QUEUE";
    /// The same in ROCm's header, without EC_QUEUE_PACKET_RESERVED.
    EC_MASK_QUEUE_ROCM: u64 = 0x607b_803f, "KFD_EC_MASK_QUEUE";
    /// Codes that a GPU raises, as a mask.
    EC_MASK_DEVICE: u64 = 0xf_8000_0000, "KFD_EC_MASK_DEVICE";
    /// Codes that a process raises, as a mask.
    EC_MASK_PROCESS: u64 = 0x1_8000_0000_0000, "KFD_EC_MASK_PROCESS";
    /// Codes about packets, as a mask (mainline).
    EC_MASK_PACKET: u64 = 0x7f_8000, "KFD_EC_MASK_PACKET";
    /// Bit in a returned queue id: the queue could not be suspended or resumed.
    QUEUE_ERROR_BIT: u32 = 30, "KFD_DBG_QUEUE_ERROR_BIT";
    /// Bit in a returned queue id: there is no such queue.
    QUEUE_INVALID_BIT: u32 = 31, "KFD_DBG_QUEUE_INVALID_BIT";
    /// [`QUEUE_ERROR_BIT`] as a mask.
    QUEUE_ERROR_MASK: u32 = 1 << 30, "KFD_DBG_QUEUE_ERROR_MASK";
    /// [`QUEUE_INVALID_BIT`] as a mask.
    QUEUE_INVALID_MASK: u32 = 1 << 31, "KFD_DBG_QUEUE_INVALID_MASK";
}

super::kfd_values! {
    /// Operation of DBG_TRAP (`enum kfd_dbg_trap_operations`).
    pub struct DbgTrapOp: u32 {
        /// Attaches to a process.
        ENABLE = 0, "KFD_IOC_DBG_TRAP_ENABLE";
        /// Detaches.
        DISABLE = 1, "KFD_IOC_DBG_TRAP_DISABLE";
        /// Passes exceptions on to the runtime.
        SEND_RUNTIME_EVENT = 2, "KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT";
        /// Chooses the exceptions that are reported.
        SET_EXCEPTIONS_ENABLED = 3, "KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED";
        /// Chooses the traps that waves take.
        SET_WAVE_LAUNCH_OVERRIDE = 4, "KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE";
        /// Chooses how waves start.
        SET_WAVE_LAUNCH_MODE = 5, "KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE";
        /// Stops queues.
        SUSPEND_QUEUES = 6, "KFD_IOC_DBG_TRAP_SUSPEND_QUEUES";
        /// Lets them run.
        RESUME_QUEUES = 7, "KFD_IOC_DBG_TRAP_RESUME_QUEUES";
        /// Sets a watch point.
        SET_NODE_ADDRESS_WATCH = 8, "KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH";
        /// Removes it.
        CLEAR_NODE_ADDRESS_WATCH = 9, "KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH";
        /// Sets flags of the process.
        SET_FLAGS = 10, "KFD_IOC_DBG_TRAP_SET_FLAGS";
        /// Takes a pending exception.
        QUERY_DEBUG_EVENT = 11, "KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT";
        /// Reads what an exception left.
        QUERY_EXCEPTION_INFO = 12, "KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO";
        /// Lists the queues.
        GET_QUEUE_SNAPSHOT = 13, "KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT";
        /// Lists the GPUs.
        GET_DEVICE_SNAPSHOT = 14, "KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT";
    }

    /// How an override mask is applied (`enum kfd_dbg_trap_override_mode`).
    pub struct DbgTrapOverride: u32 {
        /// Added to what the kernel asks for.
        OR = 0, "KFD_DBG_TRAP_OVERRIDE_OR";
        /// Instead of it.
        REPLACE = 1, "KFD_DBG_TRAP_OVERRIDE_REPLACE";
    }

    /// How waves start (`enum kfd_dbg_trap_wave_launch_mode`).
    pub struct WaveLaunchMode: u32 {
        /// Running.
        NORMAL = 0, "KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL";
        /// Halted.
        HALT = 1, "KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT";
        /// In single-step mode.
        DEBUG = 3, "KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG";
    }

    /// What a watch point reports (`enum kfd_dbg_trap_address_watch_mode`).
    pub struct AddressWatchMode: u32 {
        /// Loads.
        READ = 0, "KFD_DBG_TRAP_ADDRESS_WATCH_MODE_READ";
        /// Stores and atomics.
        NONREAD = 1, "KFD_DBG_TRAP_ADDRESS_WATCH_MODE_NONREAD";
        /// Atomics.
        ATOMIC = 2, "KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ATOMIC";
        /// Everything.
        ALL = 3, "KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL";
    }

    /// Code of an exception (`enum kfd_dbg_trap_exception_code`).
    pub struct ExceptionCode: u32 {
        /// None.
        NONE = 0, "EC_NONE";
        /// A wave called abort.
        QUEUE_WAVE_ABORT = 1, "EC_QUEUE_WAVE_ABORT";
        /// A wave executed a trap.
        QUEUE_WAVE_TRAP = 2, "EC_QUEUE_WAVE_TRAP";
        /// Arithmetic exception.
        QUEUE_WAVE_MATH_ERROR = 3, "EC_QUEUE_WAVE_MATH_ERROR";
        /// Illegal instruction.
        QUEUE_WAVE_ILLEGAL_INSTRUCTION = 4, "EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION";
        /// Memory violation.
        QUEUE_WAVE_MEMORY_VIOLATION = 5, "EC_QUEUE_WAVE_MEMORY_VIOLATION";
        /// Access outside an aperture.
        QUEUE_WAVE_APERTURE_VIOLATION = 6, "EC_QUEUE_WAVE_APERTURE_VIOLATION";
        /// Dispatch packet: dimensions.
        QUEUE_PACKET_DISPATCH_DIM_INVALID = 16, "EC_QUEUE_PACKET_DISPATCH_DIM_INVALID";
        /// Dispatch packet: LDS size.
        QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID = 17,
            "EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID";
        /// Dispatch packet: code object.
        QUEUE_PACKET_DISPATCH_CODE_INVALID = 18, "EC_QUEUE_PACKET_DISPATCH_CODE_INVALID";
        /// Reserved packet type.
        QUEUE_PACKET_RESERVED = 19, "EC_QUEUE_PACKET_RESERVED";
        /// Packet type that this GPU does not support.
        QUEUE_PACKET_UNSUPPORTED = 20, "EC_QUEUE_PACKET_UNSUPPORTED";
        /// Dispatch packet: work-group size.
        QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID = 21, "EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID";
        /// Dispatch packet: registers.
        QUEUE_PACKET_DISPATCH_REGISTER_INVALID = 22, "EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID";
        /// Vendor packet that this GPU does not support.
        QUEUE_PACKET_VENDOR_UNSUPPORTED = 23, "EC_QUEUE_PACKET_VENDOR_UNSUPPORTED";
        /// The queue could not be preempted.
        QUEUE_PREEMPTION_ERROR = 30, "EC_QUEUE_PREEMPTION_ERROR";
        /// A queue was created.
        QUEUE_NEW = 31, "EC_QUEUE_NEW";
        /// A queue was deleted.
        DEVICE_QUEUE_DELETE = 32, "EC_DEVICE_QUEUE_DELETE";
        /// Memory violation.
        DEVICE_MEMORY_VIOLATION = 33, "EC_DEVICE_MEMORY_VIOLATION";
        /// Hardware error.
        DEVICE_RAS_ERROR = 34, "EC_DEVICE_RAS_ERROR";
        /// The GPU stopped.
        DEVICE_FATAL_HALT = 35, "EC_DEVICE_FATAL_HALT";
        /// A GPU is new to the process.
        DEVICE_NEW = 36, "EC_DEVICE_NEW";
        /// The runtime came or went.
        PROCESS_RUNTIME = 48, "EC_PROCESS_RUNTIME";
        /// A GPU was removed.
        PROCESS_DEVICE_REMOVE = 49, "EC_PROCESS_DEVICE_REMOVE";
        /// One above the highest code.
        MAX = 50, "EC_MAX";
    }

    /// State of the runtime (`enum kfd_dbg_runtime_state`).
    pub struct RuntimeState: u32 {
        /// Not enabled.
        DISABLED = 0, "DEBUG_RUNTIME_STATE_DISABLED";
        /// Enabled.
        ENABLED = 1, "DEBUG_RUNTIME_STATE_ENABLED";
        /// Another process uses the GPU's debug resources.
        ENABLED_BUSY = 2, "DEBUG_RUNTIME_STATE_ENABLED_BUSY";
        /// It could not be enabled.
        ENABLED_ERROR = 3, "DEBUG_RUNTIME_STATE_ENABLED_ERROR";
    }
}

super::kfd_flags! {
    /// Traps of a wave (`enum kfd_dbg_trap_mask`).
    pub struct DbgTrapMask: u32 {
        /// Invalid operation.
        FP_INVALID = 1, "KFD_DBG_TRAP_MASK_FP_INVALID";
        /// Denormal input.
        FP_INPUT_DENORMAL = 2, "KFD_DBG_TRAP_MASK_FP_INPUT_DENORMAL";
        /// Division by zero.
        FP_DIVIDE_BY_ZERO = 4, "KFD_DBG_TRAP_MASK_FP_DIVIDE_BY_ZERO";
        /// Overflow.
        FP_OVERFLOW = 8, "KFD_DBG_TRAP_MASK_FP_OVERFLOW";
        /// Underflow.
        FP_UNDERFLOW = 16, "KFD_DBG_TRAP_MASK_FP_UNDERFLOW";
        /// Inexact result.
        FP_INEXACT = 32, "KFD_DBG_TRAP_MASK_FP_INEXACT";
        /// Integer division by zero.
        INT_DIVIDE_BY_ZERO = 64, "KFD_DBG_TRAP_MASK_INT_DIVIDE_BY_ZERO";
        /// Watch point.
        DBG_ADDRESS_WATCH = 128, "KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH";
        /// Memory violation.
        DBG_MEMORY_VIOLATION = 256, "KFD_DBG_TRAP_MASK_DBG_MEMORY_VIOLATION";
        /// First instruction.
        TRAP_ON_WAVE_START = 1 << 30, "KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_START";
        /// Last instruction.
        TRAP_ON_WAVE_END = 1 << 31, "KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_END";
    }

    /// Flags of a debugged process (`enum kfd_dbg_trap_flags`).
    pub struct DbgTrapFlags: u32 {
        /// One memory operation at a time.
        SINGLE_MEM_OP = 1, "KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP";
        /// One arithmetic operation at a time (mainline).
        SINGLE_ALU_OP = 2, "KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP";
        /// Report LDS accesses out of range (mainline).
        LDS_OUT_OF_ADDR_RANGE = 4, "KFD_DBG_TRAP_FLAG_LDS_OUT_OF_ADDR_RANGE";
    }

    /// Flags of the first debugger interface (ROCm).
    pub struct EventFlags: u32 {
        /// Clear what was read.
        CLEAR_STATUS = 1, "KFD_DBG_EV_FLAG_CLEAR_STATUS";
    }

    /// `mode_mask` of RUNTIME_ENABLE.
    pub struct RuntimeMode: u32 {
        /// Enable, not disable.
        ENABLE = 1, "KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK";
        /// Waves get their trap temporaries filled in.
        TTMP_SAVE = 2, "KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK";
    }

    /// `capabilities_mask` of RUNTIME_ENABLE (ROCm).
    pub struct RuntimeCaps: u32 {
        /// GPU core dumps.
        SUPPORTS_CORE_DUMP = 1 << 31, "KFD_RUNTIME_ENABLE_CAPS_SUPPORTS_CORE_DUMP_MASK";
    }
}

impl ExceptionCode {
    /// The code's bit in a mask (`KFD_EC_MASK`): code `n` has bit `n - 1`. `None` for a code that has no bit.
    #[must_use]
    pub const fn mask(self) -> Option<u64> {
        if self.0 >= 1 && self.0 <= 64 { Some(1 << (self.0 - 1)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The masks of the codes whose uapi name starts with `prefix`.
    fn mask_of(prefix: &str) -> u64 {
        let codes = ExceptionCode::NAMES.iter().filter(|(name, _)| name.starts_with(prefix));
        codes.map(|(_, code)| 1_u64 << (code - 1)).fold(0, |a, b| a | b)
    }

    #[test]
    fn the_masks_of_a_group_hold_its_codes() {
        assert_eq!(mask_of("EC_QUEUE_"), EC_MASK_QUEUE);
        assert_eq!(mask_of("EC_QUEUE_PACKET_"), EC_MASK_PACKET);
        assert_eq!(mask_of("EC_DEVICE_"), EC_MASK_DEVICE);
        assert_eq!(mask_of("EC_PROCESS_"), EC_MASK_PROCESS);
        let reserved = ExceptionCode::QUEUE_PACKET_RESERVED.mask();
        assert_eq!(reserved, Some(EC_MASK_QUEUE ^ EC_MASK_QUEUE_ROCM));
        assert_eq!(ExceptionCode::NONE.mask(), None);
    }
}
