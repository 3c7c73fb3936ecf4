//! Clocks and PC sampling.

use super::declare::{hsa_enums, hsa_structs};

hsa_enums! {
    /// How program counters are sampled. Since 6.2.4.
    pub struct PcSamplingMethod: u32, "HSA_PC_SAMPLING_METHOD_KIND" {
        /// The host interrupts waves.
        HOSTTRAP_V1 = 1, "HSA_PC_SAMPLING_METHOD_KIND_HOSTTRAP_V1";
        /// The hardware picks waves.
        STOCHASTIC_V1 = 2, "HSA_PC_SAMPLING_METHOD_KIND_STOCHASTIC_V1";
    }

    /// What an interval is counted in. Since 6.2.4.
    pub struct PcSamplingUnits: u32, "HSA_PC_SAMPLING_UNIT_INTERVAL" {
        /// Microseconds.
        MICROSECONDS = 0, "HSA_PC_SAMPLING_UNIT_INTERVAL_MICROSECONDS";
        /// Clock cycles.
        CYCLES = 1, "HSA_PC_SAMPLING_UNIT_INTERVAL_CYCLES";
        /// Instructions.
        INSTRUCTIONS = 2, "HSA_PC_SAMPLING_UNIT_INTERVAL_INSTRUCTIONS";
    }
}

hsa_structs! {
    /// Counters that were read at the same time: the answer of hsaKmtGetClockCounters.
    pub struct ClockCounters: "HsaClockCounters", 32 {
        /// Of the GPU, in its own ticks.
        pub gpu_clock_counter: u64, "GPUClockCounter";
        /// CLOCK_MONOTONIC_RAW, in ns.
        pub cpu_clock_counter: u64, "CPUClockCounter";
        /// CLOCK_BOOTTIME, in ns.
        pub system_clock_counter: u64, "SystemClockCounter";
        /// Frequency of the last two in Hz: 10^9.
        pub system_clock_frequency_hz: u64, "SystemClockFrequencyHz";
    }

    /// A way to sample, or what is asked for. Since 6.2.4. The layout is that of `kfd_pc_sample_info`.
    pub struct PcSamplingInfo: "HsaPcSamplingInfo", 40 {
        /// Interval.
        pub value: u64, "value";
        /// Shortest interval.
        pub value_min: u64, "value_min";
        /// Longest interval.
        pub value_max: u64, "value_max";
        /// Flags (`KFD_IOCTL_PCS_FLAG_*`).
        pub flags: u64, "flags";
        /// Method.
        pub method: PcSamplingMethod, "method";
        /// Units of the intervals.
        pub units: PcSamplingUnits, "units";
    }
}
