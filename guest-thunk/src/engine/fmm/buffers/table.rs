//! The buffers by address. Every lookup takes logarithmic time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Buffer;
use crate::engine::fmm::vm::page_floor;

/// Which of several registrations of one address is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::fmm) enum Prefer {
    /// The one that was mapped last.
    Mapped,
    /// The one that was registered last.
    Registered,
}

/// All buffers.
#[derive(Debug, Default)]
pub(in crate::engine::fmm) struct Table {
    /// By first address for GPUs, or number. These do not overlap.
    by_address: BTreeMap<u64, Arc<Buffer>>,
    users: Users,
}

/// Memory of the program, by its own addresses. It may be registered in pieces that overlap.
#[derive(Debug, Default)]
struct Users {
    by_range: BTreeMap<(u64, u64), Arc<Buffer>>,
    /// The same by magnitude of the size: whoever looks for an address has to go back no more than twice that.
    by_class: BTreeMap<(u32, u64, u64), Arc<Buffer>>,
    /// How many there are of each magnitude.
    classes: BTreeMap<u32, usize>,
}

impl Table {
    /// Adds a buffer. One that is there at the same place must be gone before.
    pub(in crate::engine::fmm) fn insert(&mut self, buffer: Arc<Buffer>) {
        if buffer.user().is_some() {
            self.users.insert(&buffer);
        }
        if buffer.has_address() {
            self.by_address.insert(buffer.address, buffer);
        }
    }

    /// Takes a buffer out.
    pub(in crate::engine::fmm) fn remove(&mut self, buffer: &Arc<Buffer>) {
        self.users.remove(buffer);
        let own = |found: &Arc<Buffer>| Arc::ptr_eq(found, buffer);
        if self.by_address.get(&buffer.address).is_some_and(own) {
            self.by_address.remove(&buffer.address);
        }
    }

    /// The buffer that a program means by its first address and, of its own memory, the size, if it tells it.
    pub(in crate::engine::fmm) fn exact(
        &self,
        address: u64,
        size: Option<u64>,
        prefer: Prefer,
    ) -> Option<&Arc<Buffer>> {
        let user = match size {
            Some(size) => self.users.by_range.get(&(address, size)),
            None => self.users.at(address).max_by_key(|buffer| buffer.stamp(prefer)),
        };
        user.or_else(|| {
            let found = self.by_address.get(&page_floor(address))?;
            found.starts_like(address, size).then_some(found)
        })
    }

    /// The buffer that an address lies in: the program's own memory, else memory at the GPU's address.
    ///
    /// Where memory was allocated after the program's was registered, the program's is gone: HIP remembers what it registered for
    /// some copies longer than the program has it, and its addresses may be given out again.
    pub(in crate::engine::fmm) fn containing(&self, address: u64) -> Option<&Arc<Buffer>> {
        let allocated = self.allocated(address);
        match (self.users.containing(address), allocated) {
            (Some(user), Some(newer)) if newer.was_allocated_after(user) => allocated,
            (Some(user), _) => Some(user),
            (None, _) => allocated,
        }
    }

    /// The buffer whose addresses for GPUs an address lies in.
    pub(in crate::engine::fmm) fn allocated(&self, address: u64) -> Option<&Arc<Buffer>> {
        let (&start, buffer) = self.by_address.range(..=address).next_back()?;
        (address - start < buffer.size).then_some(buffer)
    }

    #[cfg(test)]
    pub(in crate::engine::fmm) fn len(&self) -> usize {
        let svm = self.users.by_range.values().filter(|buffer| !buffer.has_address()).count();
        self.by_address.len() + svm
    }
}

fn class(size: u64) -> u32 {
    size.max(1).ilog2()
}

impl Users {
    fn insert(&mut self, buffer: &Arc<Buffer>) {
        let Some(&user) = buffer.user() else { return };
        let class = class(user.size);
        self.by_range.insert((user.address, user.size), Arc::clone(buffer));
        if self.by_class.insert((class, user.address, user.size), Arc::clone(buffer)).is_none() {
            *self.classes.entry(class).or_default() += 1;
        }
    }

    fn remove(&mut self, buffer: &Arc<Buffer>) {
        let Some(&user) = buffer.user() else { return };
        if !self.by_range.get(&(user.address, user.size)).is_some_and(|found| Arc::ptr_eq(found, buffer)) {
            return;
        }
        let class = class(user.size);
        self.by_range.remove(&(user.address, user.size));
        self.by_class.remove(&(class, user.address, user.size));
        if let Some(count) = self.classes.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.classes.remove(&class);
            }
        }
    }

    fn at(&self, address: u64) -> impl Iterator<Item = &Arc<Buffer>> {
        self.by_range.range((address, 0)..=(address, u64::MAX)).map(|(_, buffer)| buffer)
    }

    /// Of several the one that starts last, and of these the longest.
    fn containing(&self, address: u64) -> Option<&Arc<Buffer>> {
        let found = self.classes.keys().filter_map(|&class| {
            let longest = u64::MAX >> (63 - class);
            let first = (class, address.saturating_sub(longest), 0);
            let mut back = self.by_class.range(first..=(class, address, u64::MAX)).rev();
            back.find(|((_, start, size), _)| address - start < *size)
        });
        found.max_by_key(|((_, start, size), _)| (*start, *size)).map(|(_, buffer)| buffer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::hsakmt::MemFlags;

    use super::super::{Kind, Life, User};
    use super::*;

    fn buffer(kind: Kind, address: u64, size: u64) -> Arc<Buffer> {
        Arc::new(Buffer::new(kind, address, size, 0, MemFlags::default(), Life::new(None, None)))
    }

    fn user(address: u64, size: u64, at: u64) -> Arc<Buffer> {
        let user = User { address, size, svm: at == 0 };
        buffer(Kind::User(user), at, 0x4000)
    }

    #[test]
    fn inner_addresses_are_found_and_those_behind_the_end_are_not() {
        let mut table = Table::default();
        let first = buffer(Kind::Memory, 0x10000, 0x2000);
        table.insert(Arc::clone(&first));
        table.insert(buffer(Kind::Memory, 0x14000, 0x1000));
        let inside = |address: u64| table.containing(address).is_some_and(|found| Arc::ptr_eq(found, &first));
        assert!(
            inside(0x10000) && inside(0x11fff) && !inside(0x12000) && !inside(0xffff) && !inside(0x14000)
        );
        assert!(table.exact(0x10000, None, Prefer::Mapped).is_some());
        assert!(
            table.exact(0x10064, Some(1), Prefer::Mapped).is_some(),
            "an address in the first page will do"
        );
        assert!(table.exact(0x11000, None, Prefer::Mapped).is_none());
    }

    // Case M02.
    #[test]
    fn memory_of_programs_is_found_by_its_own_address_and_size() {
        let mut table = Table::default();
        let memory = user(0x10064, 5000, 0x70000);
        table.insert(Arc::clone(&memory));
        let exact = |address, size| table.exact(address, size, Prefer::Registered).is_some();
        assert!(exact(0x10064, None) && exact(0x10064, Some(5000)));
        assert!(!exact(0x10000, None) && !exact(0x10064, Some(4999)));
        assert!(exact(0x70064, None) && exact(0x70064, Some(5000)), "the GPU's address");
        assert!(!exact(0x70000, None) && !exact(0x70064, Some(1)));
        assert!(table.containing(0x10064 + 4999).is_some() && table.containing(0x10064 + 5000).is_none());
        assert!(table.containing(0x70000).is_some(), "the GPU's");
        table.remove(&memory);
        assert!(table.containing(0x10064).is_none() && table.containing(0x70000).is_none());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn of_overlapping_memory_the_latest_is_meant() {
        let mut table = Table::default();
        let (big, small) = (user(0x10000, 0x2000, 0x70000), user(0x10000, 0x1000, 0x80000));
        for (at, buffer) in [(1, &big), (2, &small)] {
            table.insert(Arc::clone(buffer));
            buffer.stamp_registered(at);
        }
        let is = |table: &Table, prefer, other: &Arc<Buffer>| {
            table.exact(0x10000, None, prefer).is_some_and(|found| Arc::ptr_eq(found, other))
        };
        assert!(is(&table, Prefer::Registered, &small) && is(&table, Prefer::Mapped, &small));
        big.stamp_mapped(3);
        assert!(is(&table, Prefer::Registered, &small) && is(&table, Prefer::Mapped, &big));
        table.remove(&small);
        assert!(is(&table, Prefer::Registered, &big));
    }

    #[test]
    fn memory_that_was_allocated_in_the_place_of_registered_memory_is_meant() {
        let mut table = Table::default();
        let (gone, memory, part) =
            (user(0x10013, 0x8000, 0), buffer(Kind::Memory, 0x12000, 0x4000), user(0x13000, 0x800, 0));
        for (at, buffer) in [(1, &gone), (2, &memory), (3, &part)] {
            buffer.stamp_registered(at);
            table.insert(Arc::clone(buffer));
        }
        let is = |address, other: &Arc<Buffer>| {
            table.containing(address).is_some_and(|found| Arc::ptr_eq(found, other))
        };
        assert!(is(0x11fff, &gone) && is(0x12000, &memory) && is(0x15fff, &memory) && is(0x16000, &gone));
        assert!(is(0x13000, &part) && is(0x13800, &memory), "a part of it that was registered since");
    }

    #[test]
    fn another_buffer_at_the_same_place_is_not_removed() {
        let mut table = Table::default();
        let first = user(0x10000, 0x1000, 0);
        table.insert(user(0x10000, 0x1000, 0));
        table.remove(&first);
        assert_eq!(table.len(), 1);
    }

    proptest! {
        /// The same as looking at all of them.
        #[test]
        fn overlapping_memory_is_found_like_by_walking(
            ranges in prop::collection::btree_set((0u64..500, 1u64..300), 0..40),
            addresses in prop::collection::vec(0u64..900, 20),
        ) {
            let mut table = Table::default();
            for &(start, size) in &ranges {
                table.insert(user(start, size, 0));
            }
            for address in addresses {
                let walked = ranges.iter().rfind(|(start, size)| (*start..start + size).contains(&address));
                let found = table.containing(address).and_then(|buffer| buffer.user());
                prop_assert_eq!(found.map(|user| (user.address, user.size)), walked.copied());
            }
        }
    }
}
