//! Queue ids: numbers that stand for a queue, and for nothing once it is gone.
//!
//! AMD's library gives out addresses of its records and believes whatever comes back. Here an id is only looked
//! up, and none is given twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::parts::Parts;

/// The queues of the process by id.
#[derive(Debug, Default)]
pub(super) struct Table {
    queues: BTreeMap<u64, Arc<Queue>>,
    last: u64,
}

impl Table {
    /// Keeps a queue and says its id: never 0, and never `INVALID_QUEUEID`, which nobody lives to see.
    pub(super) fn insert(&mut self, queue: Arc<Queue>) -> u64 {
        self.last = self.last.saturating_add(1);
        self.queues.insert(self.last, queue);
        self.last
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Queue>> {
        self.queues.get(&id).map(Arc::clone)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.queues.remove(&id);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }
}

/// A queue of the program.
#[derive(Debug)]
pub(super) struct Queue {
    /// KFD's id of its GPU.
    pub(super) gpu_id: u32,
    /// KFD's id of the queue, unique in the process while the queue lives.
    pub(super) kernel_id: u32,
    pub(super) parts: Parts,
    pub(super) cu_mask: CuMask,
    life: Mutex<Life>,
}

/// What changes of a queue. Its lock is held while the kernel changes the queue, so that none of its calls meets the
/// id of a queue that was destroyed meanwhile, which KFD gives to the next one.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) ended: bool,
    /// Bits of the CU mask that count.
    pub(super) cu_mask_bits: u32,
}

impl Queue {
    pub(super) fn new(gpu_id: u32, kernel_id: u32, parts: Parts, compute_units: u32) -> Self {
        let (cu_mask, cu_mask_bits) = CuMask::all(compute_units);
        Self { gpu_id, kernel_id, parts, cu_mask, life: Mutex::new(Life { ended: false, cu_mask_bits }) }
    }

    /// Keeps the queue as it is; `None` if it has ended.
    pub(super) fn alive(&self) -> Option<MutexGuard<'_, Life>> {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        (!life.ended).then_some(life)
    }
}

/// Bits of a CU mask that KFD looks at; it cuts longer masks (`kfd_ioctl_set_cu_mask`).
pub(super) const MAX_CU_MASK_BITS: u32 = 1024;
const WORDS: usize = 32;

/// The CU mask of a queue, at an address that a program may read from as long as the queue lives (`CUMaskInfo` of
/// `HsaQueueInfo`).
#[derive(Debug)]
pub(super) struct CuMask([AtomicU32; WORDS]);

impl CuMask {
    /// One set bit for each CU, and how many bits that is in whole words.
    fn all(compute_units: u32) -> (Self, u32) {
        let units = compute_units.min(MAX_CU_MASK_BITS);
        let word = |index: u32| match units.saturating_sub(index * 32) {
            32.. => u32::MAX,
            rest => (1u32 << rest) - 1,
        };
        let mut words = 0..;
        let mask = [(); WORDS].map(|()| AtomicU32::new(word(words.next().unwrap_or(0))));
        (Self(mask), units.next_multiple_of(32))
    }

    /// Takes over the words of a mask of `bits` bits; what is longer than KFD's longest is left out.
    ///
    /// # Safety
    /// `bits / 32` words can be read at `address`.
    pub(super) unsafe fn copy_from(&self, address: u64, bits: u32) {
        let words = core::ptr::with_exposed_provenance::<u32>(usize::try_from(address).unwrap_or(0));
        let count = usize::try_from(bits / 32).unwrap_or(0);
        for (index, to) in self.0.iter().take(count).enumerate() {
            // SAFETY: the caller promises `count` words; C does not promise their alignment.
            let word = unsafe { words.wrapping_add(index).read_unaligned() };
            to.store(word, Ordering::Relaxed);
        }
    }

    /// Where the words are.
    pub(super) fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    #[cfg(test)]
    pub(super) fn words(&self) -> Vec<u32> {
        self.0.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(gpu_id: u32) -> Arc<Queue> {
        Arc::new(Queue::new(gpu_id, 0, Parts::default(), 104))
    }

    #[test]
    fn an_id_is_never_given_twice_and_never_0() {
        let mut table = Table::default();
        let first = table.insert(queue(1));
        assert_ne!(first, 0);
        table.remove(first);
        let second = table.insert(queue(1));
        assert_ne!(first, second);
        assert!(table.get(first).is_none());
        assert!(table.get(second).is_some());
    }

    #[test]
    fn ids_that_were_not_given_are_of_no_queue() {
        let mut table = Table::default();
        let id = table.insert(queue(7));
        for wrong in [0, id + 1, u64::MAX, 0x7fff_0000_1000] {
            assert!(table.get(wrong).is_none(), "{wrong:#x}");
            table.remove(wrong);
        }
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn an_ended_queue_is_not_alive_any_more() {
        let queue = queue(1);
        queue.alive().unwrap().ended = true;
        assert!(queue.alive().is_none());
    }

    #[test]
    fn a_new_mask_has_a_bit_for_each_cu_and_whole_words() {
        for (units, bits, first, last) in [
            (0, 0, 0, 0),
            (1, 32, 1, 0),
            (32, 32, u32::MAX, 0),
            (104, 128, u32::MAX, 0),
            (1024, 1024, u32::MAX, u32::MAX),
            (u32::MAX, 1024, u32::MAX, u32::MAX),
        ] {
            let (mask, count) = CuMask::all(units);
            let words = mask.words();
            assert_eq!((count, words[0], words[31]), (bits, first, last), "{units} CUs");
        }
        assert_eq!(CuMask::all(104).0.words()[3], 0xff);
    }

    #[test]
    fn a_mask_that_is_too_long_is_cut() {
        let mask = CuMask::all(8).0;
        let copy = |words: &[u32]| {
            let bits = u32::try_from(words.len()).unwrap() * 32;
            // SAFETY: so many words the slice has.
            unsafe { mask.copy_from(words.as_ptr().expose_provenance() as u64, bits) };
            mask.words()
        };
        assert_eq!(copy(&[5, 6])[..3], [5, 6, 0]);
        assert_eq!(copy(&[9; 40]), [9; 32]);
    }
}
