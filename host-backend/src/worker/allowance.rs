//! What a worker may use of the memory that the contexts of a device share: VRAM, and system memory that KFD allocates.
//!
//! The device process knows the sum ([`crate::workers::supply`]). A worker asks it before it allocates, and gives back what
//! is freed, but for a little that it keeps: so a program that allocates and frees all the time does not have the device
//! process wake up each time.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use protocol::Errno;

use crate::link::{FromWorker, Stock};

/// What is asked for at a time where something may be kept: a multiple of this (`VRAM_AVAILABILITY_ALIGN` of amdgpu).
const STEP: u64 = 2 << 20;

/// The device process answers at once; it is dead or this worker is being ended when it does not.
const DEADLINE: Duration = Duration::from_secs(10);

/// What this worker was granted and does not use, and the way to more.
#[derive(Debug)]
pub struct Allowance {
    /// `None`: there is no limit, and nobody is asked.
    device: Option<Arc<OwnedFd>>,
    /// Bytes of each kind that are not given back.
    keep: u64,
    unused: Mutex<HashMap<Stock, u64>>,
    /// Held by the one that asks: there is one question at a time.
    asking: Mutex<()>,
    answer: Mutex<Answer>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct Answer {
    last: Option<(bool, u64)>,
    ended: bool,
}

impl Allowance {
    /// As much as the KFD gives.
    #[must_use]
    pub fn unlimited() -> Allowance {
        Allowance::new(None, 0)
    }

    /// What the device process at the other end of the socket grants. So many bytes of each kind are kept when they are freed.
    #[must_use]
    pub fn of(device: Arc<OwnedFd>, keep: u64) -> Allowance {
        Allowance::new(Some(device), keep)
    }

    fn new(device: Option<Arc<OwnedFd>>, keep: u64) -> Allowance {
        let (unused, asking, answer) = (Mutex::default(), Mutex::default(), Mutex::default());
        Allowance { device, keep, unused, asking, answer, answered: Condvar::new() }
    }

    /// Takes so many bytes, until the result is dropped.
    ///
    /// # Errors
    /// `ENOMEM` if there are not as many left.
    pub fn take(self: &Arc<Self>, stock: Stock, bytes: u64) -> Result<Portion, Errno> {
        let portion = || Portion { allowance: Arc::clone(self), stock, bytes };
        let Some(device) = self.device.as_deref() else { return Ok(portion()) };
        if self.take_unused(stock, bytes) {
            return Ok(portion());
        }
        let _one = lock(&self.asking);
        // What another thread has freed meanwhile, or got with what it asked for.
        let have = std::mem::take(lock(&self.unused).entry(stock).or_default());
        let Some(missing) = bytes.checked_sub(have) else {
            self.add_unused(stock, have - bytes);
            return Ok(portion());
        };
        let more = if self.keep == 0 { None } else { missing.checked_next_multiple_of(STEP) };
        for asked in [more, Some(missing)].into_iter().flatten() {
            if self.ask(device, stock, asked).0 {
                self.add_unused(stock, asked - missing);
                return Ok(portion());
            }
        }
        self.add_unused(stock, have);
        Err(Errno::ENOMEM)
    }

    /// Bytes that [`Allowance::take`] would find at most. `None` without a limit.
    pub fn left(&self, stock: Stock) -> Option<u64> {
        let device = self.device.as_deref()?;
        let _one = lock(&self.asking);
        let (_, left) = self.ask(device, stock, 0);
        let unused = lock(&self.unused).get(&stock).copied().unwrap_or(0);
        Some(left.saturating_add(unused))
    }

    /// The device process has answered.
    pub fn answer(&self, granted: bool, left: u64) {
        lock(&self.answer).last = Some((granted, left));
        self.answered.notify_one();
    }

    /// No answer will come, and nothing need be given back any more: the context ends.
    pub fn end(&self) {
        lock(&self.answer).ended = true;
        self.answered.notify_all();
    }

    fn take_unused(&self, stock: Stock, bytes: u64) -> bool {
        let mut unused = lock(&self.unused);
        let rest = unused.get(&stock).and_then(|unused| unused.checked_sub(bytes));
        let Some(rest) = rest else { return false };
        unused.insert(stock, rest);
        true
    }

    fn add_unused(&self, stock: Stock, bytes: u64) {
        *lock(&self.unused).entry(stock).or_default() += bytes;
    }

    /// Whether the bytes are granted, and what is left.
    fn ask(&self, device: &OwnedFd, stock: Stock, bytes: u64) -> (bool, u64) {
        let mut answer = lock(&self.answer);
        if answer.ended {
            return (false, 0);
        }
        answer.last = None;
        if let Err(error) = (FromWorker::Ask { stock, bytes }).send(device) {
            log::debug!("the device process cannot be asked for memory: {error}");
            return (false, 0);
        }
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(answer) = answer.last.take() {
                return answer;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if answer.ended || left.is_zero() {
                // An answer that still came would be taken for that of another question.
                answer.ended = true;
                return (false, 0);
            }
            answer = self.answered.wait_timeout(answer, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give_back(&self, stock: Stock, bytes: u64) {
        let Some(device) = self.device.as_deref() else { return };
        let excess = {
            let mut unused = lock(&self.unused);
            let unused = unused.entry(stock).or_default();
            *unused += bytes;
            let excess = unused.saturating_sub(self.keep);
            *unused -= excess;
            excess
        };
        if excess == 0 || lock(&self.answer).ended {
            return;
        }
        if let Err(error) = (FromWorker::GiveBack { stock, bytes: excess }).send(device) {
            log::debug!("{excess} bytes are not given back: {error}");
        }
    }
}

/// Memory that is in use as long as this lives.
#[derive(Debug)]
pub struct Portion {
    allowance: Arc<Allowance>,
    stock: Stock,
    bytes: u64,
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.allowance.give_back(self.stock, self.bytes);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread::JoinHandle;

    use softgpu::seqpacket;

    use super::*;

    const MIB: u64 = 1 << 20;
    const GPU: Stock = Stock::Vram(7);

    /// A device process with so many bytes. At the end it says what it still has and what it was told.
    fn device(bytes: u64, keep: u64) -> (Arc<Allowance>, JoinHandle<(u64, Vec<FromWorker>)>) {
        let (ours, theirs) = seqpacket::pair().unwrap();
        let allowance = Arc::new(Allowance::of(Arc::new(theirs), keep));
        let answers = Arc::downgrade(&allowance);
        let thread = std::thread::spawn(move || {
            let (mut left, mut heard) = (bytes, Vec::new());
            while let Some(message) = FromWorker::receive(&ours).unwrap() {
                match message {
                    FromWorker::Ask { bytes, .. } => {
                        let rest = left.checked_sub(bytes);
                        left = rest.unwrap_or(left);
                        if let Some(allowance) = answers.upgrade() {
                            allowance.answer(rest.is_some(), left);
                        }
                    }
                    FromWorker::GiveBack { bytes, .. } => left += bytes,
                    ref other => panic!("{other:?}"),
                }
                heard.push(message);
            }
            (left, heard)
        });
        (allowance, thread)
    }

    fn ask(bytes: u64) -> FromWorker {
        FromWorker::Ask { stock: GPU, bytes }
    }

    fn give_back(bytes: u64) -> FromWorker {
        FromWorker::GiveBack { stock: GPU, bytes }
    }

    #[test]
    fn small_buffers_that_come_and_go_ask_once_and_big_ones_go_back() {
        let (allowance, device) = device(64 * MIB, 4 * MIB);
        for _ in 0..10 {
            let small = [allowance.take(GPU, 4096).unwrap(), allowance.take(GPU, 4096).unwrap()];
            drop(small);
        }
        let big = allowance.take(GPU, 32 * MIB).unwrap();
        drop(big);
        drop(allowance);
        let (left, heard) = device.join().unwrap();
        assert_eq!(heard, [ask(2 * MIB), ask(30 * MIB), give_back(28 * MIB)]);
        assert_eq!(left, 60 * MIB);
    }

    #[test]
    fn the_last_byte_can_be_had_and_no_more() {
        let (allowance, device) = device(3 * MIB, 4 * MIB);
        assert_eq!(allowance.left(GPU), Some(3 * MIB));
        assert_eq!(allowance.take(GPU, 3 * MIB + 4096).unwrap_err(), Errno::ENOMEM);
        let all = allowance.take(GPU, 3 * MIB).unwrap();
        assert_eq!(allowance.left(GPU), Some(0));
        assert_eq!(allowance.take(GPU, 4096).unwrap_err(), Errno::ENOMEM);
        drop(all);
        assert_eq!(allowance.left(GPU), Some(3 * MIB), "kept, and counted");
        assert!(allowance.take(GPU, u64::MAX).is_err());
        assert_eq!(allowance.left(GPU), Some(3 * MIB));
        drop(allowance);
        assert_eq!(device.join().unwrap().0, 0);
    }

    #[test]
    fn without_a_reserve_every_byte_is_accounted_for() {
        let (allowance, device) = device(MIB, 0);
        let page = allowance.take(GPU, 4096).unwrap();
        assert_eq!(allowance.left(GPU), Some(MIB - 4096));
        drop(page);
        assert_eq!(allowance.left(GPU), Some(MIB));
        drop(allowance);
        assert_eq!(device.join().unwrap().0, MIB);
    }

    #[test]
    fn threads_get_no_more_together_than_there_is() {
        let (allowance, device) = device(20 * MIB, 2 * MIB);
        let got: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..10).filter_map(|_| allowance.take(GPU, MIB).ok()).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(got.len(), 20);
        drop(got);
        drop(allowance);
        assert_eq!(device.join().unwrap().0, 18 * MIB);
    }

    #[test]
    fn nobody_waits_for_an_answer_at_the_end() {
        let (_silent, theirs) = seqpacket::pair().unwrap();
        let allowance = Arc::new(Allowance::of(Arc::new(theirs), 0));
        let asking = {
            let allowance = Arc::clone(&allowance);
            std::thread::spawn(move || allowance.take(GPU, 1).map(drop))
        };
        std::thread::sleep(Duration::from_millis(20));
        allowance.end();
        assert_eq!(asking.join().unwrap(), Err(Errno::ENOMEM));
        assert_eq!(allowance.take(GPU, 1).unwrap_err(), Errno::ENOMEM);
        assert_eq!(Arc::new(Allowance::unlimited()).take(GPU, u64::MAX).map(drop), Ok(()));
    }
}
