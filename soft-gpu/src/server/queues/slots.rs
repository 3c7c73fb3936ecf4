//! Queues that a GPU has a fixed number of, for all processes: SDMA queues, and queues as a whole.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Errno;

use super::properties::RingKind;
use crate::device::Gpu;
use crate::profile::GpuSpec;

/// `max_num_of_queues_per_device`, a module parameter.
const MAX_QUEUES_PER_DEVICE: u32 = 4096;

/// The slots of one GPU.
#[derive(Debug)]
pub(crate) struct Slots {
    queues: AtomicU32,
    sdma: Mutex<Sdma>,
}

/// Free SDMA queues by number: engine `number % engines`, queue `number / engines` of it.
#[derive(Debug)]
struct Sdma {
    engines: u32,
    xgmi_engines: u32,
    free: Vec<bool>,
    free_xgmi: Vec<bool>,
}

/// Queues of each engine that the kernel driver keeps for itself: one for paging and one for graphics, on SDMA 6
/// and later (`kfd_device_info_set_sdma_info`).
fn reserved_queues(spec: &GpuSpec) -> u32 {
    if spec.gfx.major >= 11 { 2 } else { 0 }
}

impl Slots {
    pub(crate) fn new(spec: &GpuSpec) -> Self {
        let (engines, xgmi_engines) = (spec.sdma.engines, spec.sdma.xgmi_engines);
        let reserved = reserved_queues(spec);
        let all = spec.sdma.queues_per_engine.saturating_add(reserved);
        let numbers = |engines: u32| 0..engines.saturating_mul(all);
        let free = numbers(engines).map(|number| number >= engines.saturating_mul(reserved)).collect();
        let free_xgmi = numbers(xgmi_engines).map(|_| true).collect();
        Self { queues: AtomicU32::new(0), sdma: Mutex::new(Sdma { engines, xgmi_engines, free, free_xgmi }) }
    }
}

/// A queue of a GPU, counted while this lives.
#[derive(Debug)]
pub(super) struct QueueCount(Arc<Gpu>);

impl QueueCount {
    /// # Errors
    /// `EPERM` when the GPU has as many queues as it may (`create_queue_cpsch`).
    pub(super) fn take(gpu: &Arc<Gpu>) -> Result<Self, Errno> {
        let more = |count: u32| (count < MAX_QUEUES_PER_DEVICE).then_some(count + 1);
        match gpu.queue_slots.queues.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Self(Arc::clone(gpu))),
            Err(_) => Err(Errno::EPERM),
        }
    }
}

impl Drop for QueueCount {
    fn drop(&mut self) {
        self.0.queue_slots.queues.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An SDMA queue, free again when this is dropped.
#[derive(Debug)]
pub(super) struct SdmaSlot {
    gpu: Arc<Gpu>,
    number: u32,
    xgmi: bool,
    /// The engine, counted over both kinds: those for PCIe come first.
    pub(super) engine: u32,
    /// The queue of that engine.
    pub(super) queue: u32,
}

impl SdmaSlot {
    /// Takes the first free queue that `kind` allows (`allocate_sdma_queue`).
    ///
    /// # Errors
    /// `ENOMEM` where there is none, `EINVAL` for kinds that are not SDMA.
    pub(super) fn take(gpu: &Arc<Gpu>, kind: RingKind) -> Result<Self, Errno> {
        let mut sdma = gpu.queue_slots.sdma.lock().unwrap_or_else(PoisonError::into_inner);
        let (xgmi, wanted) = match kind {
            RingKind::Sdma => (false, None),
            RingKind::SdmaXgmi => (true, None),
            RingKind::SdmaEngine(engine) if engine < sdma.engines => (false, Some(engine)),
            RingKind::SdmaEngine(engine) => (true, engine.checked_sub(sdma.engines)),
            RingKind::Pm4 | RingKind::Aql => return Err(Errno::EINVAL),
        };
        let (first, engines) = if xgmi { (sdma.engines, sdma.xgmi_engines) } else { (0, sdma.engines) };
        let free = if xgmi { &mut sdma.free_xgmi } else { &mut sdma.free };
        let (number, slot) = (0..)
            .zip(free.iter_mut())
            .find(|(number, free)| **free && wanted.is_none_or(|engine| number % engines == engine))
            .ok_or(Errno::ENOMEM)?;
        *slot = false;
        drop(sdma);
        let (engine, queue) = (first + number % engines, number / engines);
        Ok(Self { gpu: Arc::clone(gpu), number, xgmi, engine, queue })
    }

    /// What the queue is, now that its engine is known.
    pub(super) fn kind(&self) -> RingKind {
        if self.xgmi { RingKind::SdmaXgmi } else { RingKind::Sdma }
    }
}

impl Drop for SdmaSlot {
    fn drop(&mut self) {
        let mut sdma = self.gpu.queue_slots.sdma.lock().unwrap_or_else(PoisonError::into_inner);
        let free = if self.xgmi { &mut sdma.free_xgmi } else { &mut sdma.free };
        if let Some(slot) = usize::try_from(self.number).ok().and_then(|number| free.get_mut(number)) {
            *slot = true;
        }
    }
}
