//! When a thread that looks at doorbells looks again.
//!
//! Doorbells are plain memory, so somebody has to look: the worker of a process's queues does, and in a virtual machine's host
//! the relay from the guest's doorbells to the device's.

use std::time::{Duration, Instant};

/// How long a thread looks without sleeping after something was done.
const HOT: Duration = Duration::from_micros(200);
/// How long after that it sleeps shortly.
const WARM: Duration = Duration::from_millis(20);
/// Sleeps right after the hot time, and the longest ones.
const WARM_SLEEP: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(100));
const IDLE_SLEEP: Duration = Duration::from_millis(4);
/// How long it sleeps shortly after a call that waits: whoever rings before it waits is heard, and a program that only waits
/// does not cost the time of one that works.
const LOOK: Duration = Duration::from_millis(1);

/// Without pause while there is something to do and for a moment after, then with growing sleeps of 10 us to 4 ms.
#[derive(Debug)]
pub struct Pace {
    /// Whether it looks without pause at all; else it sleeps shortly instead.
    spins: bool,
    quiet_since: Instant,
    sleep: Duration,
    /// Until when sleeps are short again, and the next of them.
    look: Option<(Instant, Duration)>,
}

impl Pace {
    /// As after something was done. `spins`: whether the thread may look without pause.
    #[must_use]
    pub fn new(spins: bool) -> Self {
        Self { spins, quiet_since: Instant::now(), sleep: WARM_SLEEP.0, look: None }
    }

    /// Sleeps shortly for a moment, then as before.
    pub fn look(&mut self) {
        self.look = Some((Instant::now() + LOOK, WARM_SLEEP.0));
    }

    /// How long to sleep after a look that found something to do, or nothing. `None`: not at all. A sleep of zero only lets other
    /// threads run.
    pub fn after(&mut self, busy: bool) -> Option<Duration> {
        if busy {
            *self = Self::new(self.spins);
            return (!self.spins).then_some(WARM_SLEEP.0);
        }
        let quiet = self.quiet_since.elapsed();
        if self.spins && quiet < HOT {
            return Some(Duration::ZERO);
        }
        if let Some((until, sleep)) = self.look {
            let short = quiet >= WARM && Instant::now() < until;
            self.look = short.then(|| (until, (sleep * 5 / 4).min(WARM_SLEEP.1)));
            if short {
                return Some(sleep);
            }
        }
        let sleep = self.sleep.min(if quiet < WARM { WARM_SLEEP.1 } else { IDLE_SLEEP });
        self.sleep = (self.sleep * 5 / 4).min(IDLE_SLEEP);
        Some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_wait_is_looked_for_shortly_and_work_for_long() {
        let mut pace = Pace::new(true);
        pace.quiet_since -= Duration::from_secs(1);
        pace.sleep = IDLE_SLEEP;
        assert_eq!(pace.after(false), Some(IDLE_SLEEP));
        pace.look();
        assert_eq!(pace.after(false), Some(WARM_SLEEP.0));
        let mut looks = 0;
        while pace.after(false).is_some_and(|sleep| sleep <= WARM_SLEEP.1) {
            looks += 1;
            thread::sleep(WARM_SLEEP.1);
        }
        assert!(looks > 0 && looks <= 10, "{looks} in a moment");
        assert_eq!(pace.after(false), Some(IDLE_SLEEP), "as before");
        assert_eq!(pace.after(true), None);
        thread::sleep(2 * HOT);
        assert!(pace.after(false).is_some_and(|sleep| sleep <= WARM_SLEEP.1));
    }

    #[test]
    fn where_nobody_may_spin_every_look_is_followed_by_a_sleep() {
        let mut pace = Pace::new(false);
        assert_eq!([true, true, false].map(|busy| pace.after(busy)), [Some(WARM_SLEEP.0); 3]);
    }
}
