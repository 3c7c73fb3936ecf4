//! Everything that a program has allocated, registered or imported, and how it is found again.
//!
//! Two locks: the table's, which is held for lookups and changes of the table alone, and one for each [`Buffer`], which
//! is held through KFD's calls about that buffer. So threads meet only on the same buffer. Never is the second taken
//! while the first is held.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::hsakmt::MemFlags;

use super::Viewed;
use super::addresses::Va;
use super::vm::{PAGE, page_floor};

pub(super) use table::{Prefer, Table};

mod table;

/// What a buffer is.
#[derive(Debug)]
pub(super) enum Kind {
    /// Memory that KFD or the library allocated, with addresses.
    Memory,
    /// The program's own memory of a system without discrete GPUs: KFD knows nothing of it.
    Host,
    /// Addresses without memory.
    Reserved,
    /// Memory without addresses: the program knows it by a number.
    Number,
    /// Memory that the program registered.
    User(User),
    /// A dma-buf, with its metadata.
    Graphics(
        #[allow(dead_code, reason = "never read: the program has its address as long as this lives")]
        Box<[u8]>,
    ),
    /// Memory of another process.
    Shared,
}

/// Memory of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Whether GPUs reach it through SVM, at the program's own address.
    pub(super) svm: bool,
}

impl User {
    /// Where the GPU's address of it is in the page.
    pub(super) fn offset(&self) -> u64 {
        self.address - page_floor(self.address)
    }
}

/// A list of node ids. Lists are kept for ever, each once: programs are given their addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nodes(Arc<Vec<u32>>);

impl Nodes {
    pub(super) fn new(nodes: Vec<u32>) -> Self {
        Self(Arc::new(nodes))
    }
}

impl Deref for Nodes {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.0
    }
}

impl Borrow<[u32]> for Nodes {
    fn borrow(&self) -> &[u32] {
        self
    }
}

/// A list of KFD's ids of GPUs, mostly of none, which is passed on without copying it.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuIds(Option<Arc<Vec<u32>>>);

impl GpuIds {
    pub(super) fn new(gpu_ids: Vec<u32>) -> Self {
        Self((!gpu_ids.is_empty()).then(|| Arc::new(gpu_ids)))
    }
}

impl Deref for GpuIds {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        self.0.as_ref().map_or(&[], |gpu_ids| gpu_ids)
    }
}

/// One buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) kind: Kind,
    /// First address for GPUs.
    pub(super) address: u64,
    /// Bytes for GPUs.
    pub(super) size: u64,
    /// Node that it is on.
    pub(super) node: u32,
    /// As the program asked for it.
    pub(super) flags: MemFlags,
    life: Mutex<Life>,
    told: Told,
    /// When it was allocated or last registered, and last mapped; 0 if it is not.
    registered_at: AtomicU64,
    mapped_at: AtomicU64,
}

/// What changes with KFD's calls about a buffer.
#[derive(Debug)]
pub(super) struct Life {
    /// KFD's handle.
    pub(super) handle: Option<u64>,
    /// Its addresses.
    pub(super) va: Option<Va>,
    /// It is in the table no more.
    pub(super) gone: bool,
    /// How often it is registered; memory of programs only.
    pub(super) registrations: u32,
    /// How often it is mapped; only of memory of programs this counts beyond one.
    pub(super) maps: u32,
    /// GPU ids that it is registered for; empty for all.
    pub(super) registered: GpuIds,
    /// GPU ids that it is mapped to.
    pub(super) mapped: Vec<u32>,
    /// Of memory that the CPU may not touch: it is mapped for debuggers all the same.
    pub(super) viewed: Option<Viewed>,
}

/// What programs are told without waiting for KFD, nor for a lock.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) registered: NodeList,
    pub(super) mapped: NodeList,
    pub(super) user_data: AtomicU64,
}

/// Where a list of nodes is that is kept for ever: its address and, in the low bits, its length. Programs get both, which must
/// belong together.
#[derive(Debug, Default)]
pub(super) struct NodeList(AtomicU64);

impl NodeList {
    /// More nodes than KFD has.
    const COUNT_BITS: u32 = 16;

    pub(super) fn set(&self, nodes: Option<&Nodes>) {
        self.0.store(nodes.map_or(0, Self::pack), Ordering::Release);
    }

    /// Address and length.
    pub(super) fn get(&self) -> (u64, u32) {
        let packed = self.0.load(Ordering::Acquire);
        let count = packed & ((1 << Self::COUNT_BITS) - 1);
        (packed >> Self::COUNT_BITS, u32::try_from(count).unwrap_or(0))
    }

    fn pack(nodes: &Nodes) -> u64 {
        let (address, count) = (nodes.as_ptr().expose_provenance() as u64, nodes.len() as u64);
        let fits = address >> (u64::BITS - Self::COUNT_BITS) == 0 && count >> Self::COUNT_BITS == 0;
        if fits {
            return address << Self::COUNT_BITS | count;
        }
        // No allocator uses such addresses, even where pages have five levels.
        log::warn!("a list of {count} nodes at {address:#x} cannot be told");
        0
    }
}

impl Life {
    pub(super) fn new(handle: Option<u64>, va: Option<Va>) -> Self {
        Self {
            handle,
            va,
            gone: false,
            registrations: 0,
            maps: 0,
            registered: GpuIds::default(),
            mapped: Vec::new(),
            viewed: None,
        }
    }
}

impl Buffer {
    pub(super) fn new(kind: Kind, address: u64, size: u64, node: u32, flags: MemFlags, life: Life) -> Self {
        Self {
            kind,
            address,
            size,
            node,
            flags,
            life: Mutex::new(life),
            told: Told::default(),
            registered_at: AtomicU64::new(0),
            mapped_at: AtomicU64::new(0),
        }
    }

    /// Waits until nobody else changes it.
    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What programs are told.
    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    pub(super) fn user(&self) -> Option<&User> {
        match &self.kind {
            Kind::User(user) => Some(user),
            _ => None,
        }
    }

    /// Whether the table has it under its address for GPUs. Memory in SVM has none that is only its own.
    fn has_address(&self) -> bool {
        self.user().is_none_or(|user| !user.svm)
    }

    pub(super) fn stamp_registered(&self, at: u64) {
        self.registered_at.store(at, Ordering::Relaxed);
    }

    /// Whether this is memory that the library allocated, and later than that was registered.
    fn was_allocated_after(&self, registered: &Buffer) -> bool {
        let at = |buffer: &Buffer| buffer.registered_at.load(Ordering::Relaxed);
        self.user().is_none() && at(self) > at(registered)
    }

    pub(super) fn stamp_mapped(&self, at: u64) {
        self.mapped_at.store(at, Ordering::Relaxed);
    }

    fn stamp(&self, prefer: Prefer) -> u64 {
        let registered = self.registered_at.load(Ordering::Relaxed);
        match prefer {
            Prefer::Registered => registered,
            // Among those that are not mapped, the one that was registered last.
            Prefer::Mapped => match self.mapped_at.load(Ordering::Relaxed) {
                0 => registered,
                at => at | 1 << 63,
            },
        }
    }

    /// Whether an address in the first page of memory of the program's for GPUs means it: it has to have the same
    /// place in the page.
    fn starts_like(&self, address: u64, size: Option<u64>) -> bool {
        let same = |user: &User| user.offset() == address % PAGE && size.is_none_or(|size| size == user.size);
        self.user().is_none_or(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_nodes_is_told_whole() {
        let (list, nodes): (_, Nodes) = (NodeList::default(), Nodes::new(vec![1, 5, 2]));
        assert_eq!(list.get(), (0, 0));
        list.set(Some(&nodes));
        assert_eq!(list.get(), (nodes.as_ptr() as u64, 3));
        list.set(None);
        assert_eq!(list.get(), (0, 0));
    }

    #[test]
    fn a_list_that_does_not_fit_is_not_told() {
        let list = NodeList::default();
        list.set(Some(&Nodes::new(vec![0; 1 << 16])));
        assert_eq!(list.get(), (0, 0));
    }
}
