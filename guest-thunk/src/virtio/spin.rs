//! How long a thread looks for an answer before it sleeps.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Looks between two looks at the clock.
const LOOKS: u32 = 64;

/// Calls in a row without luck after which most are not tried.
const UNLUCKY: u32 = 8;

/// Of those, one in so many is tried all the same: things may have changed.
const TRY_AGAIN: u32 = 64;

/// A bounded time in which a thread looks for an answer. It learns: where the answer does not come meanwhile (the host has too few
/// processors, or the calls are long), threads soon stop looking and sleep at once.
#[derive(Debug)]
pub(super) struct Spin {
    most: Duration,
    /// Calls in a row whose answer did not come in time.
    misses: AtomicU32,
}

impl Spin {
    /// Looks for so long at most; zero is not at all.
    pub(super) fn new(most: Duration) -> Self {
        Self { most, misses: AtomicU32::new(0) }
    }

    /// Looks whether it `is_done`, for a while.
    pub(super) fn until(&self, is_done: impl Fn() -> bool) -> bool {
        let misses = self.misses.load(Ordering::Relaxed);
        let tried = misses < UNLUCKY || misses.is_multiple_of(TRY_AGAIN);
        let done = is_done() || (tried && self.look(&is_done));
        // Whoever counts at the same time may be lost: it is no more than a habit.
        let now = if done { 0 } else { misses.wrapping_add(1).max(1) };
        if now != misses {
            self.misses.store(now, Ordering::Relaxed);
        }
        done
    }

    fn look(&self, is_done: &impl Fn() -> bool) -> bool {
        if self.most.is_zero() {
            return false;
        }
        let start = Instant::now();
        while start.elapsed() < self.most {
            for _ in 0..LOOKS {
                if is_done() {
                    return true;
                }
                spin_loop();
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_never_comes_is_soon_not_looked_for() {
        let spin = Spin::new(Duration::from_micros(10));
        let looks = Cell::new(0);
        let count = |spin: &Spin| {
            looks.set(0);
            let done = spin.until(|| {
                looks.set(looks.get() + 1);
                false
            });
            assert!(!done);
            looks.get()
        };
        for _ in 0..UNLUCKY {
            assert!(count(&spin) > 1);
        }
        let many: Vec<_> = (0..2 * TRY_AGAIN).map(|_| count(&spin)).collect();
        assert_eq!(many.iter().filter(|&&looks| looks > 1).count(), 2);
        assert!(spin.until(|| true), "once with luck");
        assert!(count(&spin) > 1, "and it is tried again");
    }

    #[test]
    fn none_is_one_look() {
        let spin = Spin::new(Duration::ZERO);
        let looks = Cell::new(0);
        assert!(!spin.until(|| {
            looks.set(looks.get() + 1);
            false
        }));
        assert_eq!(looks.get(), 1);
    }
}
