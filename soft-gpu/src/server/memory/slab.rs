//! Small numbers for things, lowest free number first (the kernel's `idr_alloc` from 0).

use std::collections::BTreeSet;

/// Values by number.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: BTreeSet<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: BTreeSet::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value under the lowest free number below `limit`; gives it back if there is none.
    pub(super) fn insert(&mut self, value: T, limit: usize) -> Result<u32, T> {
        if let Some(number) = self.free.pop_first() {
            if let Some(entry) = self.entries.get_mut(number as usize) {
                *entry = Some(value);
            }
            return Ok(number);
        }
        match u32::try_from(self.entries.len()) {
            Ok(number) if self.entries.len() < limit => {
                self.entries.push(Some(value));
                Ok(number)
            }
            _ => Err(value),
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(usize::try_from(number).ok()?)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.entries.get_mut(usize::try_from(number).ok()?)?.take()?;
        self.free.insert(number);
        Some(value)
    }

    /// Every value, in order of number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }

    /// Empties it.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.free.clear();
        std::mem::take(&mut self.entries).into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_given_out() {
        let mut slab = Slab::default();
        let numbers: Vec<_> = (0..4).map(|value| slab.insert(value, 4).expect("room")).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(slab.insert(9, 4), Err(9));
        assert_eq!((slab.remove(2), slab.remove(1), slab.remove(1)), (Some(2), Some(1), None));
        assert_eq!(slab.insert(10, 4), Ok(1));
        assert_eq!(slab.insert(11, 4), Ok(2));
        assert_eq!((slab.get(1), slab.get(7), slab.get(u32::MAX)), (Some(&10), None, None));
        assert_eq!(slab.take_all(), [0, 10, 11, 3]);
        assert_eq!(slab.insert(5, 4), Ok(0));
    }
}
