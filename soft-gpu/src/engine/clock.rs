//! The GPU's clock counter, which timestamps are taken from.

use rustix::time::{ClockId, clock_gettime};

/// A counter that runs at the rate of the GPU's reference clock.
///
/// It follows `CLOCK_MONOTONIC_RAW`, so that runtimes find a fixed relation between the counters that
/// GET_CLOCK_COUNTERS reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuClock {
    hz: u64,
}

const NANOSECONDS: u128 = 1_000_000_000;

impl GpuClock {
    /// A clock of `hz` ticks per second.
    #[must_use]
    pub const fn new(hz: u64) -> Self {
        Self { hz }
    }

    /// Ticks now.
    #[must_use]
    pub fn now(self) -> u64 {
        let time = clock_gettime(ClockId::MonotonicRaw);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
        self.at(u128::from(seconds) * NANOSECONDS + u128::from(nanoseconds))
    }

    /// Ticks at a time of `CLOCK_MONOTONIC_RAW`, wrapping like the counter.
    #[must_use]
    pub const fn at(self, nanoseconds: u128) -> u64 {
        (nanoseconds.wrapping_mul(self.hz as u128) / NANOSECONDS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_as_many_ticks_as_the_frequency_says() {
        // MI210 and newer count at 100 MHz (`gpu_counter_freq` 100000 kHz in AMDGPU_INFO_DEV_INFO).
        let clock = GpuClock::new(100_000_000);
        assert_eq!(clock.at(1_000_000_000), 100_000_000);
        assert_eq!(clock.at(10), 1);
    }

    #[test]
    fn time_goes_forward() {
        let clock = GpuClock::new(1_000_000_000);
        let first = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(clock.now() - first >= 1_000_000);
    }
}
