//! Queues of a process: what `kfd_process_queue_manager.c` and `kfd_device_queue_manager.c` do with the calls.
//!
//! [`mod@create`] makes a queue, [`control`] changes and ends it, [`doorbells`] and [`slots`] give out what there is a
//! fixed number of. Packets are executed by [`crate::engine`], one [`Engine`] per process and GPU.

mod control;
mod create;
mod doorbells;
mod exception;
mod properties;
pub(crate) mod slots;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use protocol::kfd::types::QueueSnapshotEntry;

pub(super) use control::{alloc_gws, destroy, get_wave_state, set_cu_mask, update};
pub(super) use create::create;
pub(crate) use doorbells::{mmap, place};
pub(crate) use exception::send_exception;

use doorbells::DoorbellIds;
use properties::{Properties, RingKind};
use slots::{QueueCount, SdmaSlot};

use super::memory::QueueBuffer;
use crate::device::Gpu;
use crate::engine::{Engine, GpuClock};
use crate::mem::GpuVm;

/// `KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`: queue ids of a process, and doorbells of a process on a GPU.
const MAX_QUEUES: usize = 1024;

/// The queues of a process (`struct process_queue_manager`).
#[derive(Debug, Default)]
pub(crate) struct Queues {
    state: Mutex<State>,
    /// The engines once more, to be woken without waiting for a call that changes queues.
    engines: RwLock<Vec<Arc<Engine>>>,
    /// What exceptions of a queue need to know. A leaf: engine threads take it.
    sources: Mutex<BTreeMap<u32, Source>>,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<u32, Queue>,
    /// By GPU id; made by the first queue.
    gpus: BTreeMap<u32, ProcessGpu>,
}

/// A process on a GPU, as far as queues go (`struct qcm_process_device`).
#[derive(Debug)]
struct ProcessGpu {
    engine: Arc<Engine>,
    doorbells: DoorbellIds,
    queue_count: u32,
    /// GWS entries that a queue of the process has.
    gws: u32,
}

/// A queue.
#[derive(Debug)]
struct Queue {
    gpu: Arc<Gpu>,
    properties: Properties,
    /// Doorbell id, if it is one of the dynamic ones.
    doorbell: Option<u32>,
    has_gws: bool,
    buffers: Buffers,
    _sdma: Option<SdmaSlot>,
    _count: QueueCount,
}

/// What a queue keeps from being unmapped.
#[derive(Debug)]
struct Buffers {
    ring: QueueBuffer,
    _write_pointer: QueueBuffer,
    _read_pointer: QueueBuffer,
    _eop: Option<QueueBuffer>,
    _save_area: Option<QueueBuffer>,
}

/// Where exceptions come from, and where the runtime wants to read of them.
#[derive(Clone, Debug)]
struct Source {
    gpu_id: u32,
    vm: Arc<GpuVm>,
    /// The context save area, which starts with a header; 0 where there is none.
    save_area: u64,
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the engines look at the doorbells at once: the process is active.
    pub(crate) fn wake(&self) {
        for engine in &*self.engines.read().unwrap_or_else(PoisonError::into_inner) {
            engine.wake();
        }
    }

    /// The same for a moment only: the process is going to wait.
    pub(crate) fn look(&self) {
        for engine in &*self.engines.read().unwrap_or_else(PoisonError::into_inner) {
            engine.look();
        }
    }

    fn sources(&self) -> MutexGuard<'_, BTreeMap<u32, Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The GPU of a queue.
    pub(crate) fn gpu_of(&self, queue_id: u32) -> Option<u32> {
        self.sources().get(&queue_id).map(|source| source.gpu_id)
    }

    /// Whether the process has this queue. Takes no lock that a call holds while it changes queues.
    pub(crate) fn contains(&self, queue_id: u32) -> bool {
        self.sources().contains_key(&queue_id)
    }

    /// Whether the process has no queue (`kfd_process_queue_manager`'s list is empty).
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().queues.is_empty()
    }

    /// Every queue as debuggers see it, in order of ids.
    pub(crate) fn snapshot(&self) -> Vec<QueueSnapshotEntry> {
        let state = self.lock();
        state.queues.iter().map(|(&queue_id, queue)| queue.snapshot(queue_id)).collect()
    }

    /// The end of the process: when this returns no queue runs, and their buffers are free.
    pub(crate) fn exit(&self) {
        let mut state = self.lock();
        let ids: Vec<u32> = state.queues.keys().copied().collect();
        for id in ids {
            state.remove(id);
        }
        state.gpus.clear();
        self.engines.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.sources().clear();
    }
}

impl State {
    /// Stops a queue and gives back what it had. `None` if there is none with this id.
    fn remove(&mut self, id: u32) -> Option<()> {
        let queue = self.queues.remove(&id)?;
        if let Some(gpu) = self.gpus.get_mut(&queue.gpu.spec.gpu_id) {
            // Before anything is given back: the engine uses doorbell and buffers.
            gpu.engine.remove(id);
            if let Some(doorbell) = queue.doorbell {
                gpu.doorbells.free(doorbell);
            }
            gpu.queue_count = gpu.queue_count.saturating_sub(1);
            if queue.has_gws {
                gpu.gws = 0;
            }
        }
        Some(())
    }
}

impl Queue {
    /// `set_queue_snapshot_entry`.
    fn snapshot(&self, queue_id: u32) -> QueueSnapshotEntry {
        let p = &self.properties;
        QueueSnapshotEntry {
            exception_status: 0,
            ring_base_address: p.ring,
            write_pointer_address: p.write_pointer,
            read_pointer_address: p.read_pointer,
            ctx_save_restore_address: p.save_area,
            queue_id,
            gpu_id: self.gpu.spec.gpu_id,
            ring_size: p.ring_size,
            queue_type: p.kind.uapi_type().0,
            ctx_save_restore_area_size: p.save_area_size,
            reserved: 0,
        }
    }
}

/// The clock that a GPU's timestamps are taken from.
fn clock(gpu: &Gpu) -> GpuClock {
    GpuClock::new(u64::from(gpu.spec.clocks.counter_khz) * 1000)
}

impl RingKind {
    fn is_compute(self) -> bool {
        matches!(self, RingKind::Pm4 | RingKind::Aql)
    }
}
