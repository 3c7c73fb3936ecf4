//! CREATE_QUEUE.

use std::collections::btree_map::Entry;
use std::sync::{Arc, PoisonError, Weak};

use protocol::Errno;
use protocol::kfd::args::CreateQueueArgs;
use protocol::kfd::constants::ExceptionCode;

use super::doorbells::{self, DoorbellIds};
use super::properties::{Properties, RingKind};
use super::slots::{QueueCount, SdmaSlot};
use super::{Buffers, MAX_QUEUES, ProcessGpu, Queue, Source, State, clock};
use crate::device::Gpu;
use crate::engine::doorbell::Doorbell;
use crate::engine::{Engine, EngineConfig, Interrupts, QueueConfig, QueueKind};
use crate::mem::{GpuVm, HostMem, PAGE_SIZE};
use crate::server::dispatch::Cx;
use crate::server::memory::QueueBuffer;

/// Hardware ignores the lower bits of a ring's address (`cp_hqd_pq_base` holds it shifted by 8).
const RING_ALIGN: u64 = 256;

/// `kfd_ioctl_create_queue`.
pub(in crate::server) fn create(cx: &Cx<'_>, args: &mut CreateQueueArgs) -> Result<(), Errno> {
    let mut properties = Properties::from_user(args)?;
    let gpu = cx.process.device.gpu(args.gpu_id).ok_or(Errno::EINVAL)?;
    // kfd_bind_process_to_device: without page tables.
    let vm = cx.process.memory.vm(args.gpu_id).map_err(|_| Errno::ESRCH)?;
    if let RingKind::SdmaEngine(engine) = properties.kind
        && engine >= gpu.spec.sdma.engines.saturating_add(gpu.spec.sdma.xgmi_engines)
    {
        return Err(Errno::EINVAL);
    }
    if gpu.spec.gfx.major < 9 {
        log::error!(
            "queues of {} are not supported: doorbells and packets of gfx9 and later are",
            gpu.spec.gfx
        );
        return Err(Errno::EOPNOTSUPP);
    }
    let mut state = cx.process.queues.lock();
    let pages = cx.process.memory.doorbells(&cx.process.device, args.gpu_id)?;
    let buffers = acquire_buffers(cx, gpu, &properties)?;
    let engine = process_gpu(cx, &mut state, gpu, &vm);
    let (id, queue, doorbell) = allocate(&mut state, gpu, &mut properties, buffers)?;
    let start = Start { id, engine: &engine, pages: &pages, doorbell };
    // Before the first packet: exceptions are looked up here.
    let save_area = if properties.kind.is_compute() { properties.save_area } else { 0 };
    cx.process.queues.sources().insert(id, Source { gpu_id: args.gpu_id, vm, save_area });
    if let Err(errno) = start.run(gpu, &queue) {
        cx.process.queues.sources().remove(&id);
        return Err(errno);
    }
    state.commit(id, queue);
    drop(state);
    let new = ExceptionCode::QUEUE_NEW.mask().unwrap_or(0);
    cx.process.debug.raise_queue(id, args.gpu_id, new);
    args.queue_id = id;
    args.doorbell_offset = doorbells::offset_for_user(&pages, doorbell, gpu);
    Ok(())
}

/// `kfd_queue_acquire_buffers`: each buffer is one mapping of exactly the size that is expected.
fn acquire_buffers(cx: &Cx<'_>, gpu: &Gpu, p: &Properties) -> Result<Buffers, Errno> {
    let (memory, gpu_id) = (&cx.process.memory, gpu.spec.gpu_id);
    let get = |va, size| memory.acquire_queue_buffer(gpu_id, va, size);
    let write_pointer = get(p.write_pointer, PAGE_SIZE)?;
    let read_pointer = get(p.read_pointer, PAGE_SIZE)?;
    let ring = get(p.ring, u64::from(p.ring_size))?;
    let mut buffers = Buffers {
        ring,
        _write_pointer: write_pointer,
        _read_pointer: read_pointer,
        _eop: None,
        _save_area: None,
    };
    if !p.kind.is_compute() {
        return Ok(buffers);
    }
    if p.eop != 0 {
        if p.eop_size < gpu.spec.queue_sizes.eop_buffer {
            return Err(Errno::EINVAL);
        }
        buffers._eop = Some(get(p.eop, u64::from(p.eop_size).next_multiple_of(PAGE_SIZE))?);
    }
    buffers._save_area = Some(acquire_save_area(cx, gpu, p)?);
    Ok(buffers)
}

fn acquire_save_area(cx: &Cx<'_>, gpu: &Gpu, p: &Properties) -> Result<QueueBuffer, Errno> {
    let sizes = &gpu.spec.queue_sizes;
    if p.ctl_stack_size != sizes.ctl_stack || p.save_area_size < sizes.cwsr {
        return Err(Errno::EINVAL);
    }
    let one = u64::from(p.save_area_size) + u64::from(sizes.debug_memory);
    let all = one.checked_mul(u64::from(gpu.spec.shaders.xccs)).ok_or(Errno::EINVAL)?;
    let size = all.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    cx.process.memory.acquire_save_area(gpu.spec.gpu_id, p.save_area, size)
}

/// The process on the GPU, made by its first queue there. Returns its engine.
fn process_gpu(cx: &Cx<'_>, state: &mut State, gpu: &Gpu, vm: &Arc<GpuVm>) -> Arc<Engine> {
    match state.gpus.entry(gpu.spec.gpu_id) {
        Entry::Occupied(entry) => Arc::clone(&entry.get().engine),
        Entry::Vacant(entry) => {
            let interrupts: Weak<dyn Interrupts> = Arc::downgrade(cx.process) as Weak<dyn Interrupts>;
            let config =
                EngineConfig { gpu_id: gpu.spec.gpu_id, vm: Arc::clone(vm), clock: clock(gpu), interrupts };
            let engine = Arc::new(Engine::new(config));
            cx.process
                .queues
                .engines
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Arc::clone(&engine));
            let doorbells = DoorbellIds::new(gpu.spec.gfx);
            entry.insert(ProcessGpu { engine: Arc::clone(&engine), doorbells, queue_count: 0, gws: 0 });
            engine
        }
    }
}

/// Takes what a queue needs, in the kernel's order (`pqm_create_queue`, `init_user_queue`, `create_queue_cpsch`):
/// id, queue, doorbell. What was taken is given back on an error.
fn allocate(
    state: &mut State,
    gpu: &Arc<Gpu>,
    properties: &mut Properties,
    buffers: Buffers,
) -> Result<(u32, Queue, u32), Errno> {
    let process_gpu = state.gpus.get_mut(&gpu.spec.gpu_id).ok_or(Errno::EINVAL)?;
    if process_gpu.queue_count >= gpu.spec.features.max_queues_per_process {
        return Err(Errno::ENOSPC);
    }
    let mut ids = (0u32..).take(MAX_QUEUES);
    let id = ids.find(|id| !state.queues.contains_key(id)).ok_or(Errno::ENOMEM)?;
    if gpu.spec.features.mes {
        buffers._write_pointer.check_mes_write_pointer(gpu.spec.gpu_id)?;
    }
    let count = QueueCount::take(gpu)?;
    let sdma = if properties.kind.is_compute() { None } else { Some(SdmaSlot::take(gpu, properties.kind)?) };
    let (doorbell, dynamic) = match &sdma {
        Some(slot) => {
            properties.kind = slot.kind();
            (doorbells::sdma_doorbell(gpu.spec.gfx, slot), None)
        }
        None => {
            let doorbell = process_gpu.doorbells.take()?;
            (doorbell, Some(doorbell))
        }
    };
    let queue = Queue {
        gpu: Arc::clone(gpu),
        properties: properties.clone(),
        doorbell: dynamic,
        has_gws: false,
        buffers,
        _sdma: sdma,
        _count: count,
    };
    Ok((id, queue, doorbell))
}

/// A queue that is ready to be given to its engine.
struct Start<'a> {
    id: u32,
    engine: &'a Engine,
    pages: &'a HostMem,
    doorbell: u32,
}

impl Start<'_> {
    fn run(&self, gpu: &Gpu, queue: &Queue) -> Result<(), Errno> {
        let p = &queue.properties;
        let kind = match p.kind {
            RingKind::Pm4 => QueueKind::Pm4,
            RingKind::Aql => QueueKind::Aql,
            RingKind::Sdma | RingKind::SdmaXgmi | RingKind::SdmaEngine(_) => QueueKind::Sdma,
        };
        let offset = usize::try_from(doorbells::byte_offset(self.doorbell)).map_err(|_| Errno::EINVAL)?;
        let config = QueueConfig {
            id: self.id,
            kind,
            ring: aligned_ring(p.ring),
            ring_size: u64::from(p.ring_size),
            read_pointer: p.read_pointer,
            write_pointer: p.write_pointer,
            doorbell: Doorbell::reset(self.pages, offset).ok_or(Errno::EINVAL)?,
            gfx: gpu.spec.gfx.encode(),
            active: p.is_active(),
        };
        self.engine.add(config).map_err(|error| {
            log::error!("{error}");
            Errno::ENOMEM
        })
    }
}

impl State {
    fn commit(&mut self, id: u32, queue: Queue) {
        if let Some(gpu) = self.gpus.get_mut(&queue.gpu.spec.gpu_id) {
            gpu.queue_count += 1;
        }
        self.queues.insert(id, queue);
    }
}

/// See [`RING_ALIGN`].
pub(super) fn aligned_ring(address: u64) -> u64 {
    address & !(RING_ALIGN - 1)
}
