//! Debugging: waves, watch points, traps, exceptions, capabilities of the runtime.

use super::declare::{hsa_enums, hsa_structs, hsa_words};

hsa_enums! {
    /// What to do with waves (hsaKmtDbgWavefrontControl, which no current kernel does).
    pub struct DbgWaveOp: u32, "HSA_DBG_WAVEOP" {
        /// Halt them.
        HALT = 1, "HSA_DBG_WAVEOP_HALT";
        /// Let them go on.
        RESUME = 2, "HSA_DBG_WAVEOP_RESUME";
        /// End them.
        KILL = 3, "HSA_DBG_WAVEOP_KILL";
        /// Debug mode.
        DEBUG = 4, "HSA_DBG_WAVEOP_DEBUG";
        /// Let them trap.
        TRAP = 5, "HSA_DBG_WAVEOP_TRAP";
    }

    /// Which waves.
    pub struct DbgWaveMode: u32, "HSA_DBG_WAVEMODE" {
        /// One.
        SINGLE = 0, "HSA_DBG_WAVEMODE_SINGLE";
        /// All of the process.
        BROADCAST_PROCESS = 2, "HSA_DBG_WAVEMODE_BROADCAST_PROCESS";
        /// All of the process on a compute unit.
        BROADCAST_PROCESS_CU = 3, "HSA_DBG_WAVEMODE_BROADCAST_PROCESS_CU";
    }

    /// Kinds of messages to waves.
    pub struct DbgWaveMsgType: u32, "HSA_DBG_WAVEMSG_TYPE" {
        /// Automatic.
        AUTO = 0, "HSA_DBG_WAVEMSG_AUTO";
        /// Of the user.
        USER = 1, "HSA_DBG_WAVEMSG_USER";
        /// Error.
        ERROR = 2, "HSA_DBG_WAVEMSG_ERROR";
    }

    /// Accesses that a watch point reacts to.
    pub struct DbgWatchMode: u32, "HSA_DBG_WATCH_MODE" {
        /// Reads.
        READ = 0, "HSA_DBG_WATCH_READ";
        /// Writes and atomics.
        NONREAD = 1, "HSA_DBG_WATCH_NONREAD";
        /// Atomics.
        ATOMIC = 2, "HSA_DBG_WATCH_ATOMIC";
        /// All.
        ALL = 3, "HSA_DBG_WATCH_ALL";
    }

    /// How exceptions that a debugger enables come together with those of the wave.
    pub struct DbgTrapOverride: u32, "HSA_DBG_TRAP_OVERRIDE" {
        /// Both count.
        OR = 0, "HSA_DBG_TRAP_OVERRIDE_OR";
        /// Only the debugger's count.
        REPLACE = 1, "HSA_DBG_TRAP_OVERRIDE_REPLACE";
    }

    /// What a debugger is told about. Since 6.2.4. The same numbers as
    /// [`ExceptionCode`](crate::kfd::constants::ExceptionCode).
    pub struct DbgExceptionCode: u32, "HSA_DBG_TRAP_EXCEPTION_CODE" {
        /// Nothing.
        NONE = 0, "HSA_DBG_EC_NONE";
        /// A wave aborted.
        QUEUE_WAVE_ABORT = 1, "HSA_DBG_EC_QUEUE_WAVE_ABORT";
        /// A wave trapped.
        QUEUE_WAVE_TRAP = 2, "HSA_DBG_EC_QUEUE_WAVE_TRAP";
        /// A floating-point or integer error.
        QUEUE_WAVE_MATH_ERROR = 3, "HSA_DBG_EC_QUEUE_WAVE_MATH_ERROR";
        /// An illegal instruction.
        QUEUE_WAVE_ILLEGAL_INSTRUCTION = 4, "HSA_DBG_EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION";
        /// A memory violation.
        QUEUE_WAVE_MEMORY_VIOLATION = 5, "HSA_DBG_EC_QUEUE_WAVE_MEMORY_VIOLATION";
        /// An address outside an aperture.
        QUEUE_WAVE_APERTURE_VIOLATION = 6, "HSA_DBG_EC_QUEUE_WAVE_APERTURE_VIOLATION";
        /// A dispatch with bad dimensions.
        QUEUE_PACKET_DISPATCH_DIM_INVALID = 16, "HSA_DBG_EC_QUEUE_PACKET_DISPATCH_DIM_INVALID";
        /// A dispatch with too much LDS.
        QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID = 17,
            "HSA_DBG_EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID";
        /// A dispatch of bad code.
        QUEUE_PACKET_DISPATCH_CODE_INVALID = 18, "HSA_DBG_EC_QUEUE_PACKET_DISPATCH_CODE_INVALID";
        /// A reserved packet.
        QUEUE_PACKET_RESERVED = 19, "HSA_DBG_EC_QUEUE_PACKET_RESERVED";
        /// A packet that is not supported.
        QUEUE_PACKET_UNSUPPORTED = 20, "HSA_DBG_EC_QUEUE_PACKET_UNSUPPORTED";
        /// A dispatch with bad work-groups.
        QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID = 21,
            "HSA_DBG_EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID";
        /// A dispatch with too many registers.
        QUEUE_PACKET_DISPATCH_REGISTER_INVALID = 22, "HSA_DBG_EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID";
        /// A vendor packet that is not supported.
        QUEUE_PACKET_VENDOR_UNSUPPORTED = 23, "HSA_DBG_EC_QUEUE_PACKET_VENDOR_UNSUPPORTED";
        /// A queue could not be preempted.
        QUEUE_PREEMPTION_ERROR = 30, "HSA_DBG_EC_QUEUE_PREEMPTION_ERROR";
        /// A queue is new.
        QUEUE_NEW = 31, "HSA_DBG_EC_QUEUE_NEW";
        /// A queue is gone.
        DEVICE_QUEUE_DELETE = 32, "HSA_DBG_EC_DEVICE_QUEUE_DELETE";
        /// A memory violation of a GPU.
        DEVICE_MEMORY_VIOLATION = 33, "HSA_DBG_EC_DEVICE_MEMORY_VIOLATION";
        /// A RAS error of a GPU.
        DEVICE_RAS_ERROR = 34, "HSA_DBG_EC_DEVICE_RAS_ERROR";
        /// A GPU halted.
        DEVICE_FATAL_HALT = 35, "HSA_DBG_EC_DEVICE_FATAL_HALT";
        /// A GPU is new.
        DEVICE_NEW = 36, "HSA_DBG_EC_DEVICE_NEW";
        /// The runtime came or went.
        PROCESS_RUNTIME = 48, "HSA_DBG_EC_PROCESS_RUNTIME";
        /// A GPU is gone.
        PROCESS_DEVICE_REMOVE = 49, "HSA_DBG_EC_PROCESS_DEVICE_REMOVE";
    }

    /// How waves start.
    pub struct DbgWaveLaunchMode: u32, "HSA_DBG_WAVE_LAUNCH_MODE" {
        /// As always.
        NORMAL = 0, "HSA_DBG_WAVE_LAUNCH_MODE_NORMAL";
        /// Halted.
        HALT = 1, "HSA_DBG_WAVE_LAUNCH_MODE_HALT";
        /// Ended at once.
        KILL = 2, "HSA_DBG_WAVE_LAUNCH_MODE_KILL";
        /// A single step.
        SINGLE_STEP = 3, "HSA_DBG_WAVE_LAUNCH_MODE_SINGLE_STEP";
        /// Not at all.
        DISABLE = 4, "HSA_DBG_WAVE_LAUNCH_MODE_DISABLE";
    }

    /// Control of a node.
    pub struct DbgNodeControl: u32, "HSA_DBG_NODE_CONTROL" {
        /// The header's only value.
        FLAG_MAX = 1, "HSA_DBG_NODE_CONTROL_FLAG_MAX";
    }
}

hsa_words! {
    /// Exceptions of waves that a debugger can enable.
    pub struct DbgTrapMask: u32, "HSA_DBG_TRAP_MASK" {
        /// Invalid floating-point operation.
        FP_INVALID, fp_invalid: 0, "HSA_DBG_TRAP_MASK_FP_INVALID";
        /// Denormal operand.
        FP_INPUT_DENORMAL, fp_input_denormal: 1, "HSA_DBG_TRAP_MASK_FP_INPUT_DENOMAL";
        /// Division of a float by zero.
        FP_DIVIDE_BY_ZERO, fp_divide_by_zero: 2, "HSA_DBG_TRAP_MASK_FP_DIVIDE_BY_ZERO";
        /// Overflow.
        FP_OVERFLOW, fp_overflow: 3, "HSA_DBG_TRAP_MASK_FP_OVERFLOW";
        /// Underflow.
        FP_UNDERFLOW, fp_underflow: 4, "HSA_DBG_TRAP_MASK_FP_UNDERFLOW";
        /// Inexact result.
        FP_INEXACT, fp_inexact: 5, "HSA_DBG_TRAP_MASK_FP_INEXACT";
        /// Division of an integer by zero.
        INT_DIVIDE_BY_ZERO, int_divide_by_zero: 6, "HSA_DBG_TRAP_MASK_INT_DIVIDE_BY_ZERO";
        /// A watch point.
        DBG_ADDRESS_WATCH, dbg_address_watch: 7, "HSA_DBG_TRAP_MASK_DBG_ADDRESS_WATCH";
        /// A memory violation.
        DBG_MEMORY_VIOLATION, dbg_memory_violation: 8, "HSA_DBG_TRAP_MASK_DBG_MEMORY_VIOLATION";
    }

    /// What hsaKmtGetRuntimeCapabilities answers. Since 6.2.4.
    pub struct RuntimeCaps: u32, "HSA_RUNTIME_ENABLE_CAPS" {
        /// Core dumps of GPUs are supported.
        SUPPORTS_CORE_DUMP, supports_core_dump: 31, "HSA_RUNTIME_ENABLE_CAPS_SUPPORTS_CORE_DUMP_MASK";
    }
}

hsa_structs! {
    /// Message to waves of the second hardware generation. The header gives the bits of the first word no names.
    pub struct DbgWaveMsgGen2: "HsaDbgWaveMsgAMDGen2", 8 {
        /// The message.
        pub value: u32, "Value";
        /// Reserved.
        pub reserved2: u32, "Reserved2";
    }

    /// Message to waves.
    pub struct DbgWaveMessage: "HsaDbgWaveMessage", 16 {
        /// Address of data for the waves.
        pub memory_va: u64, "MemoryVA";
        /// The header has a union of one member here (`HsaDbgWaveMessageAMD`).
        pub dbg_wave_msg: DbgWaveMsgGen2, "DbgWaveMsg";
    }
}
