//! Memory that the library gives to a queue: read and write pointers, end-of-pipe buffer, context save area.
//!
//! KFD compares start and length of the mapping that each lies in (`kfd_queue_acquire_buffers`), so each is a buffer of
//! its own with exactly the size.

use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::hsakmt::{MemFlags, Status};

use super::super::topology::{Node, Snapshot};
use super::super::{Engine, Result};
use super::save_area::SaveArea;

pub(super) const PAGE: u64 = 4096;
/// Read and write pointer of a queue, in a page of their own. Not in one cache line: one side writes each.
const READ_POINTER: u64 = 0;
const WRITE_POINTER: u64 = 128;

/// A buffer that is mapped to the GPU of a queue.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) address: u64,
    pub(super) size: u64,
}

/// What a queue has of the library's memory.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) pointers: Option<Buffer>,
    pub(super) eop: Option<Buffer>,
    pub(super) save_area: Option<SaveArea>,
}

/// Buffers that no queue has any more. KFD may refuse to take one back for a moment; nobody else knows of it then.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<Vec<(u64, u64)>>);

impl Leftovers {
    fn put(&self, address: u64, size: u64) {
        self.lock().push((address, size));
    }

    /// Gives back what can be given back.
    pub(super) fn free(&self, engine: &Engine) {
        let all = std::mem::take(&mut *self.lock());
        for (address, size) in all {
            let freed = engine.unmap_memory(address).and_then(|()| engine.free_memory(address, size));
            if let Err(status) = freed {
                log::warn!("{size} bytes of a queue at {address:#x} cannot be freed yet: {status}");
                self.put(address, size);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The GPU for which buffers are made.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) engine: &'a Engine,
    pub(super) snapshot: &'a Snapshot,
    pub(super) node: &'a Node,
    /// The thunk's id of the node.
    pub(super) node_id: u32,
}

impl Parts {
    /// Addresses of the library's read and write pointer.
    pub(super) fn pointer_addresses(&self) -> Option<(u64, u64)> {
        let page = self.pointers.as_ref()?.address;
        Some((page + READ_POINTER, page + WRITE_POINTER))
    }

    /// Gives everything back. What KFD does not take back now stays for a later time.
    pub(super) fn free(&self, engine: &Engine) {
        if let Some(save_area) = &self.save_area {
            save_area.free(engine);
        }
        for buffer in [&self.eop, &self.pointers].into_iter().flatten() {
            buffer.free(engine);
        }
        engine.queues.leftovers.free(engine);
    }
}

impl Buffer {
    /// `size` bytes of a node's memory, mapped to the GPU of `place`.
    fn new(place: Place<'_>, home: u32, size: u64, flags: MemFlags) -> Result<Self> {
        let engine = place.engine;
        let address = engine.alloc_memory(home, size, 0, flags)?;
        match engine.map_memory_to_nodes(address, size, 0, &[place.node_id]) {
            Ok(_) => Ok(Self { address, size }),
            Err(status) => {
                log::debug!(
                    "{size} bytes at {address:#x} cannot be mapped to node {}: {status}",
                    place.node_id
                );
                if let Err(status) = engine.free_memory(address, size) {
                    log::warn!("{size} bytes at {address:#x} cannot be freed: {status}");
                }
                Err(status)
            }
        }
    }

    /// Read and write pointers for a queue whose program does not bring its own.
    ///
    /// MES pins the page of the write pointer, which KFD allows for memory of this very GPU's GTT only; otherwise it
    /// is ordinary memory. Uncached by the GPU either way: both sides poll it.
    pub(super) fn pointers(place: Place<'_>) -> Result<Self> {
        let flags = MemFlags::HOST_ACCESS | MemFlags::EXECUTE_ACCESS | MemFlags::UNCACHED;
        let (home, flags) = if place.node.hardware.has_mes() {
            (place.node_id, flags | MemFlags::NON_PAGED | MemFlags::GTT_ACCESS)
        } else {
            place.paged(flags)
        };
        Self::new(place, home, PAGE, flags).map_err(no_memory("read and write pointers"))
    }

    /// End-of-pipe buffer: VRAM that only the GPU sees.
    pub(super) fn eop(place: Place<'_>, size: u32) -> Result<Self> {
        let flags = MemFlags::NON_PAGED | MemFlags::EXECUTE_ACCESS | MemFlags::COARSE_GRAIN;
        Self::new(place, place.node_id, u64::from(size), flags).map_err(no_memory("end-of-pipe buffer"))
    }

    /// System memory of the program near the GPU, for a context save area.
    pub(super) fn system(place: Place<'_>, size: u64) -> Result<Self> {
        let (home, flags) = place.paged(MemFlags::HOST_ACCESS | MemFlags::EXECUTE_ACCESS);
        Self::new(place, home, size, flags).map_err(no_memory("context save area"))
    }

    /// Puts it where it is freed next.
    pub(super) fn free(&self, engine: &Engine) {
        engine.queues.leftovers.put(self.address, self.size);
    }
}

impl Place<'_> {
    /// The node that paged memory comes from, the CPU at the other end of the GPU's PCIe link, and the flags for it.
    /// Without such a CPU the memory is bound to no node.
    fn paged(self, flags: MemFlags) -> (u32, MemFlags) {
        match self.snapshot.nearest_cpu(self.node_id) {
            Some(cpu) => (cpu, flags),
            None => (0, flags | MemFlags::NO_NUMA_BIND),
        }
    }
}

/// Whatever the reason, a queue whose memory cannot be had is `NO_MEMORY`.
fn no_memory(what: &str) -> impl Fn(Status) -> Status {
    move |status| {
        log::debug!("no {what} for a queue: {status}");
        Status::NoMemory
    }
}
