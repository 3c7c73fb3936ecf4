//! How threads sleep for answers: one of them, the leader, waits for the device, the others for it.
//!
//! The leader has the one Wake under way and polls its fence. Whenever that signals it looks at the slots of all who sleep and
//! wakes those whose answer is there; once its own is, another one leads on.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use protocol::Errno;
use protocol::wire::Submission as Message;
use protocol::wire::area::{MAX_AREAS, SLOTS};
use rustix::event::{PollFd, PollFlags, poll};

use super::area::{Areas, Slot};
use super::device::{Device, Submission};

/// The ring of Wakes: fences of one ring signal in order, and no other fence is to wait for one.
pub(super) const WAKE_RING: u32 = 1;

/// Fences in a row that signalled for nothing, after which there is no worker any more. Between them the leader sleeps, 1 ms
/// first and then twice as long each time: a quarter of a second in all.
const STRIKES: u32 = 8;

/// Who sleeps.
pub(super) struct Sleepers {
    crowd: Mutex<Crowd>,
    /// One for each slot, made with its area.
    beds: [OnceLock<Box<[Condvar]>>; MAX_AREAS as usize],
    lost: AtomicBool,
}

#[derive(Default)]
struct Crowd {
    /// Whether somebody leads.
    led: bool,
    /// Slots of those who do not.
    asleep: Vec<u32>,
}

impl Sleepers {
    pub(super) fn new() -> Self {
        let beds = [const { OnceLock::new() }; MAX_AREAS as usize];
        Self { crowd: Mutex::default(), beds, lost: AtomicBool::new(false) }
    }

    /// Whether there is no worker any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// There is no worker any more: all calls fail, now and later.
    pub(super) fn lose(&self, why: &str) {
        if self.lost.swap(true, Ordering::AcqRel) {
            return;
        }
        log::error!("the GPU is lost: {why}; see what the daemon vhost-device-kfd on the host says");
        let crowd = self.lock();
        crowd.asleep.iter().for_each(|&number| self.wake(number));
    }

    /// Sleeps until the answer in a slot is there.
    ///
    /// # Errors
    /// `ENODEV` once there is no worker.
    pub(super) fn sleep(
        &self,
        areas: &Areas,
        device: &dyn Device,
        number: u32,
        slot: &Slot<'_>,
    ) -> Result<(), Errno> {
        slot.set_sleeps();
        let mut crowd = self.lock();
        loop {
            let (done, lost) = (slot.is_done(), self.is_lost());
            if done || lost {
                // Whoever was woken to lead may leave at once: then the next one is asked.
                if !crowd.led
                    && let Some(&next) = crowd.asleep.first()
                {
                    self.wake(next);
                }
                return if done { Ok(()) } else { Err(Errno::ENODEV) };
            }
            if crowd.led {
                crowd.asleep.push(number);
                let bed = self.bed(number).ok_or(Errno::EIO)?;
                crowd = bed.wait(crowd).unwrap_or_else(PoisonError::into_inner);
                crowd.asleep.retain(|&other| other != number);
            } else {
                crowd.led = true;
                drop(crowd);
                self.lead(areas, device, slot);
                crowd = self.lock();
                crowd.led = false;
            }
        }
    }

    /// Waits for the device until the leader's own answer is there, or no worker.
    fn lead(&self, areas: &Areas, device: &dyn Device, slot: &Slot<'_>) {
        let mut strikes = 0;
        loop {
            // In this order: an answer that the look at the slots misses counts after `seen`, and the Wake completes at once.
            let seen = areas.wakes();
            self.wake_the_answered(areas);
            if slot.is_done() || self.is_lost() {
                return;
            }
            let bytes = Message::Wake { seen }.encode();
            let submission = Submission { ring: Some(WAKE_RING), bytes: &bytes };
            let waited = device.submit_with_fence(submission).and_then(|fence| wait_for(&fence));
            if let Err(errno) = waited {
                return self.lose(&format!("the virtio-gpu driver takes no command any more ({errno})"));
            }
            if areas.wakes() != seen {
                strikes = 0;
                continue;
            }
            if strikes == STRIKES {
                return self.lose("the host's worker process is gone");
            }
            thread::sleep(Duration::from_millis(1 << strikes));
            strikes += 1;
        }
    }

    fn wake_the_answered(&self, areas: &Areas) {
        let crowd = self.lock();
        let answered = |number: &u32| areas.slot(*number).is_none_or(|slot| slot.is_done());
        crowd.asleep.iter().copied().filter(answered).for_each(|number| self.wake(number));
    }

    fn wake(&self, number: u32) {
        if let Some(bed) = self.bed(number) {
            bed.notify_one();
        }
    }

    /// Where the thread sleeps whose call is in this slot. All are used with the one lock.
    fn bed(&self, number: u32) -> Option<&Condvar> {
        let area = self.beds.get((number / SLOTS) as usize)?;
        let beds = area.get_or_init(|| (0..SLOTS).map(|_| Condvar::new()).collect());
        beds.get((number % SLOTS) as usize)
    }

    fn lock(&self) -> MutexGuard<'_, Crowd> {
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until a fence signals; signals of other kinds are for their handlers.
fn wait_for(fence: &OwnedFd) -> Result<(), Errno> {
    let wait = || poll(&mut [PollFd::new(fence, PollFlags::IN)], None);
    rustix::io::retry_on_intr(wait).map(drop).map_err(crate::errno_of)
}
