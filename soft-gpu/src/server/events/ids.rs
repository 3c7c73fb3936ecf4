//! Event ids: the lowest free number of a range, as the kernel's `idr_alloc` gives it.

use std::collections::BTreeSet;

/// Numbers from `first` upwards, each given out once until it is put back.
#[derive(Debug)]
pub(super) struct Ids {
    /// Lowest number that was never given out.
    next: u32,
    /// Numbers below `next` that are free again.
    free: BTreeSet<u32>,
}

impl Ids {
    pub(super) const fn starting_at(first: u32) -> Self {
        Self { next: first, free: BTreeSet::new() }
    }

    /// The lowest free number below `end`.
    pub(super) fn take(&mut self, end: u32) -> Option<u32> {
        if let Some(&lowest) = self.free.first() {
            // Everything below the lowest hole is taken, so a hole past the end means a full range.
            return if lowest < end { self.free.pop_first() } else { None };
        }
        if self.next >= end {
            return None;
        }
        let id = self.next;
        self.next = self.next.checked_add(1)?;
        Some(id)
    }

    /// Makes a number that [`Ids::take`] gave free again.
    pub(super) fn put_back(&mut self, id: u32) {
        self.free.insert(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_free_number_comes_first() {
        let mut ids = Ids::starting_at(1);
        assert_eq!((ids.take(4), ids.take(4), ids.take(4), ids.take(4)), (Some(1), Some(2), Some(3), None));
        ids.put_back(3);
        ids.put_back(1);
        assert_eq!(ids.take(4), Some(1));
        assert_eq!(ids.take(3), None, "3 is the only free number, and past the end");
        assert_eq!(ids.take(4), Some(3));
    }
}
