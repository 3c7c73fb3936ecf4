//! Free ranges of numbers, found in logarithmic time.

use std::collections::{BTreeMap, BTreeSet};

/// What is free of one or more ranges of addresses.
///
/// The smallest free range that is big enough is taken: that keeps big ones whole.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Length by start.
    free: BTreeMap<u64, u64>,
    /// (length, start).
    by_len: BTreeSet<(u64, u64)>,
}

impl Ranges {
    /// All of `[start, start + len)` is free.
    pub(super) fn new(start: u64, len: u64) -> Self {
        let mut ranges = Self::default();
        ranges.put(start, len);
        ranges
    }

    /// Takes `len` bytes that start at a multiple of `align`, a power of two.
    pub(super) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        if len == 0 {
            return None;
        }
        let (free_start, free_len, start) =
            self.by_len.range((len, 0)..).find_map(|&(free_len, free_start)| {
                let start = free_start.checked_next_multiple_of(align)?;
                let skipped = start - free_start;
                (skipped.checked_add(len)? <= free_len).then_some((free_start, free_len, start))
            })?;
        self.cut(free_start, free_len, start, len);
        Some(start)
    }

    /// Takes exactly this range, if it is free.
    pub(super) fn take_at(&mut self, start: u64, len: u64) -> bool {
        let Some(end) = start.checked_add(len).filter(|_| len != 0) else { return false };
        let Some((&free_start, &free_len)) = self.free.range(..=start).next_back() else { return false };
        if end > free_start + free_len {
            return false;
        }
        self.cut(free_start, free_len, start, len);
        true
    }

    /// Gives a range back that was taken, or adds a new one.
    pub(super) fn put(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut start, mut len) = (start, len);
        if let Some((&before, &before_len)) = self.free.range(..start).next_back()
            && before + before_len == start
        {
            self.remove(before, before_len);
            (start, len) = (before, before_len + len);
        }
        if let Some(&behind_len) = self.free.get(&(start + len)) {
            self.remove(start + len, behind_len);
            len += behind_len;
        }
        self.insert(start, len);
    }

    fn cut(&mut self, free_start: u64, free_len: u64, start: u64, len: u64) {
        self.remove(free_start, free_len);
        let before = start - free_start;
        if before > 0 {
            self.insert(free_start, before);
        }
        let behind = free_len - before - len;
        if behind > 0 {
            self.insert(start + len, behind);
        }
    }

    fn insert(&mut self, start: u64, len: u64) {
        self.free.insert(start, len);
        self.by_len.insert((len, start));
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.free.remove(&start);
        self.by_len.remove(&(len, start));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_aligned_cut_and_joined() {
        let mut ranges = Ranges::new(0x1000, 0x10000);
        assert_eq!(ranges.take(0x2000, 0x4000), Some(0x4000));
        assert_eq!(ranges.take(0x3000, 0x1000), Some(0x1000), "the smaller hole before");
        assert_eq!(ranges.take(0x10000, 0x1000), None);
        ranges.put(0x4000, 0x2000);
        ranges.put(0x1000, 0x3000);
        assert_eq!(ranges.take(0x10000, 0x1000), Some(0x1000));
    }

    #[test]
    fn exact_ranges_are_taken_once() {
        let mut ranges = Ranges::new(0x1000, 0x10000);
        assert!(ranges.take_at(0x2000, 0x1000));
        assert!(!ranges.take_at(0x2000, 0x1000));
        assert!(!ranges.take_at(0x1000, 0x2000));
        assert!(
            !ranges.take_at(0x10000, 0x2000) && !ranges.take_at(u64::MAX, 2) && !ranges.take_at(0, 0x1000)
        );
    }

    #[test]
    fn nothing_and_too_much_cannot_be_taken() {
        let mut ranges = Ranges::new(0, u64::MAX);
        assert_eq!(ranges.take(0, 1), None);
        assert!(!ranges.take_at(5, 0));
        assert_eq!(Ranges::new(u64::MAX - 10, 5).take(1, 1 << 63), None);
        assert_eq!(ranges.take(u64::MAX, 1), Some(0));
    }

    proptest! {
        /// Nothing is handed out twice, and all of it comes back.
        #[test]
        fn what_is_taken_is_disjoint_and_comes_back(steps in prop::collection::vec((any::<bool>(), 1u64..64, 0u32..5), 1..200)) {
            let mut ranges = Ranges::new(100, 1000);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (put, len, align) in steps {
                if put && !taken.is_empty() {
                    let (start, len) = taken.swap_remove(usize::try_from(len).unwrap() % taken.len());
                    ranges.put(start, len);
                } else if let Some(start) = ranges.take(len, 1 << align) {
                    prop_assert_eq!(start % (1 << align), 0);
                    prop_assert!(start >= 100 && start + len <= 1100);
                    prop_assert!(taken.iter().all(|&(other, n)| start + len <= other || other + n <= start));
                    taken.push((start, len));
                }
            }
            for (start, len) in taken {
                ranges.put(start, len);
            }
            prop_assert_eq!(ranges.take(1000, 1), Some(100));
        }
    }
}
