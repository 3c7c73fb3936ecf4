//! Memory (AMD calls it FMM): apertures, buffers, what programs register, and what is known about an address.
//!
//! | part | what it does |
//! |---|---|
//! | [`vm`], [`ranges`], [`addresses`], [`spare`] | this process's address space, and addresses that CPU and GPUs share |
//! | [`buffers`] | the table of all buffers |
//! | [`machine`], [`setup`] | what is found out and done once for each GPU |
//! | [`bo`] | KFD's calls |
//! | [`alloc`], [`map`], [`release`], [`scratch`], [`register`], [`share`], [`info`] | the thunk's functions |
//!
//! Where AMD's library leaves something behind or takes down what is not its own, this one does not: a failing call
//! leaves everything as it was.

mod addresses;
mod alloc;
mod bo;
mod buffers;
mod info;
mod internal;
mod machine;
mod map;
mod ranges;
mod register;
mod release;
mod scratch;
mod setup;
mod share;
mod spare;
#[cfg(test)]
mod tests;
mod vm;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use buffers::{Buffer, Life, Nodes, Table};
pub(crate) use internal::EventPage;
pub(crate) use machine::GpuApertures;
use machine::{Machine, Machines};
use scratch::Scratch;

use super::{Result, room};

/// What this part keeps.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// One set-up at a time.
    setting_up: Mutex<()>,
    machines: Machines,
    table: RwLock<Table>,
    /// Lists of nodes that programs have been told.
    lists: Mutex<BTreeSet<Nodes>>,
    /// Scratch of each GPU that has some.
    scratch: RwLock<Vec<Arc<Scratch>>>,
    /// Counts registrations and mappings.
    clock: AtomicU64,
    /// Mappings for debuggers.
    views: Arc<AtomicUsize>,
}

impl State {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, buffer: Arc<Buffer>) {
        buffer.stamp_registered(self.now());
        self.table_mut().insert(buffer);
    }

    /// Does something with a buffer while nobody else does. One that goes away while waiting for it is looked for
    /// again: another may be there now.
    fn with_live<T>(
        &self,
        find: impl Fn(&Table) -> Option<&Arc<Buffer>>,
        act: impl FnOnce(&Arc<Buffer>, &mut Life) -> T,
    ) -> Option<T> {
        loop {
            let buffer = find(&self.table()).map(Arc::clone)?;
            let mut life = buffer.life();
            if !life.gone {
                return Some(act(&buffer, &mut life));
            }
        }
    }

    /// The list of nodes with these GPU ids, the same one each time; `None` of none.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    fn list(&self, machine: &Machine, gpu_ids: &[u32]) -> Result<Option<Nodes>> {
        self.kept(machine, gpu_ids, |nodes| {
            // A program may name a node again and again; the list that stays has each once.
            let mut each = Vec::new();
            for node in nodes {
                if !each.contains(&node) {
                    room::push(&mut each, node)?;
                }
            }
            Ok(each)
        })
    }

    /// The list of nodes that a buffer is mapped to: never more than there are GPUs.
    fn list_of_mapped(&self, machine: &Machine, gpu_ids: &[u32]) -> Option<Nodes> {
        self.kept(machine, gpu_ids, |nodes| Ok(nodes.collect())).ok().flatten()
    }

    fn kept(
        &self,
        machine: &Machine,
        gpu_ids: &[u32],
        collect: impl FnOnce(&mut dyn Iterator<Item = u32>) -> Result<Vec<u32>>,
    ) -> Result<Option<Nodes>> {
        if gpu_ids.is_empty() {
            return Ok(None);
        }
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        // Nearly always it is known, and short enough to be looked for without allocating.
        let mut few = [0; 8];
        if let Some(few) = few.get_mut(..gpu_ids.len()) {
            for (node, &gpu_id) in few.iter_mut().zip(gpu_ids) {
                *node = machine.node_of(gpu_id);
            }
            if let Some(known) = lists.get(&*few) {
                return Ok(Some(known.clone()));
            }
        }
        let nodes = collect(&mut gpu_ids.iter().map(|&gpu_id| machine.node_of(gpu_id)))?;
        if let Some(known) = lists.get(&*nodes) {
            return Ok(Some(known.clone()));
        }
        let nodes = Nodes::new(nodes);
        lists.insert(nodes.clone());
        Ok(Some(nodes))
    }

    /// Later than all before.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Room for the mappings of memory that the CPU may not touch. A debugger reads it through them; without one they are
/// of no use, and the kernel allows a process only so many mappings.
#[derive(Debug)]
struct Viewed(Arc<AtomicUsize>);

impl Viewed {
    const MOST: usize = 8192;

    fn new(count: &Arc<AtomicUsize>) -> Option<Self> {
        let one = Self(Arc::clone(count));
        // The one that is too many gives itself back.
        (count.fetch_add(1, Ordering::Relaxed) < Self::MOST).then_some(one)
    }
}

impl Drop for Viewed {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
