//! Queues of an engine over a software GPU, made and used as a program does.

mod calls;
mod control;
mod faults;
mod fork;
mod limits;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::hsakmt::{MemFlags, QueueResource, QueueType, Status};
use protocol::kfd::Kfd;
use softgpu::Profile;

use super::super::{Engine, Options, Result, rig};
use super::QueueRequest;

const PAGE: u64 = 4096;
const DEADLINE: Duration = Duration::from_secs(60);

/// A program that has acquired its topology, and the GPU that it uses.
struct Program {
    engine: Engine,
    gpu: u32,
}

/// A buffer of the program that is mapped to the GPU.
#[derive(Clone, Copy)]
struct Memory {
    address: u64,
    size: u64,
}

/// A queue with its ring. `descriptor` holds the pointers of an AQL queue.
struct TestQueue {
    id: u64,
    ring: Memory,
    descriptor: Option<Memory>,
    doorbell: u64,
    read: u64,
    write: u64,
}

impl Program {
    fn new(profile: Profile) -> Self {
        Self::with(&rig::device(profile), Options::default())
    }

    /// Without shared virtual memory, whose page tables take the software GPU long to fill for each save area.
    fn without_svm(profile: Profile) -> Self {
        Self::with(&rig::device(profile), without_svm())
    }

    fn with(device: &Arc<dyn Kfd>, options: Options) -> Self {
        let engine = rig::engine_on(device, options);
        engine.acquire_system_properties().expect("a topology");
        let snapshot = engine.snapshot().expect("a topology");
        let gpu = snapshot.nodes.iter().position(|node| node.gpu_id != 0).expect("a GPU");
        Self { engine, gpu: u32::try_from(gpu).expect("few nodes") }
    }

    fn try_memory(&self, home: u32, size: u64, flags: MemFlags) -> Result<Memory> {
        let address = self.engine.alloc_memory(home, size, 0, flags)?;
        self.engine.map_memory_to_nodes(address, size, 0, &[self.gpu])?;
        Ok(Memory { address, size })
    }

    /// Ordinary system memory.
    fn paged(&self, size: u64) -> Memory {
        self.try_memory(0, size, MemFlags::HOST_ACCESS).expect("system memory")
    }

    /// Pinned system memory of the GPU.
    fn gtt(&self) -> Memory {
        let flags = MemFlags::HOST_ACCESS | MemFlags::NON_PAGED | MemFlags::GTT_ACCESS;
        self.try_memory(self.gpu, PAGE, flags).expect("GTT memory")
    }

    fn free(&self, memory: Memory) {
        self.engine.unmap_memory(memory.address).expect("it is mapped");
        self.engine.free_memory(memory.address, memory.size).expect("it is there");
    }

    fn request(&self, queue_type: QueueType, ring: Memory) -> QueueRequest {
        QueueRequest {
            node: self.gpu,
            queue_type,
            percentage: 100,
            ring: ring.address,
            ring_size: ring.size,
            ..Default::default()
        }
    }

    fn try_create(&self, request: &QueueRequest, descriptor: Option<Memory>) -> Result<QueueResource> {
        let mut resource = QueueResource::default();
        if let Some(descriptor) = descriptor {
            resource.queue_read_ptr = descriptor.address + 128;
            resource.queue_write_ptr = descriptor.address + 56;
        }
        self.engine.create_queue(request, &mut resource).map(|()| resource)
    }

    fn ring_queue(&self, queue_type: QueueType) -> TestQueue {
        let ring = self.paged(PAGE);
        let resource = self.try_create(&self.request(queue_type, ring), None).expect("a queue");
        TestQueue::new(&resource, ring, None)
    }

    fn aql_queue(&self) -> TestQueue {
        let (ring, descriptor) = (self.paged(PAGE), self.gtt());
        for packet in 0..PAGE / 64 {
            // Every slot starts as an invalid packet.
            word(ring.address + packet * 64).store(1, Ordering::Relaxed);
        }
        // Where read_dispatch_id is in the queue's descriptor (amd_queue_t).
        word(descriptor.address + 136).store(128, Ordering::Relaxed);
        let request = self.request(QueueType::COMPUTE_AQL, ring);
        let resource = self.try_create(&request, Some(descriptor)).expect("a queue");
        TestQueue::new(&resource, ring, Some(descriptor))
    }

    fn destroy(&self, queue: TestQueue) {
        self.engine.destroy_queue(queue.id).expect("a queue");
        self.free(queue.ring);
        if let Some(descriptor) = queue.descriptor {
            self.free(descriptor);
        }
    }

    fn queue_count(&self) -> usize {
        self.engine.queues.table().len()
    }
}

impl TestQueue {
    fn new(resource: &QueueResource, ring: Memory, descriptor: Option<Memory>) -> Self {
        Self {
            id: resource.queue_id,
            ring,
            descriptor,
            doorbell: resource.queue_doorbell,
            read: resource.queue_read_ptr,
            write: resource.queue_write_ptr,
        }
    }

    /// Puts packet `index` in, a barrier that waits for nothing, and rings.
    fn barrier(&self, index: u64, done: u64) {
        let packet = self.ring.address + index % (PAGE / 64) * 64;
        for at in 1..7 {
            word(packet + at * 8).store(0, Ordering::Relaxed);
        }
        word(packet + 56).store(done, Ordering::Relaxed);
        // Barrier-AND, barrier bit, system scope for acquire and release.
        word(packet).store(3 | 1 << 8 | 2 << 9 | 2 << 11, Ordering::Release);
        word(self.write).store(index + 1, Ordering::Release);
        word(self.doorbell).store(index, Ordering::Release);
    }

    /// Puts two words of packets in at a time, at the start of the ring, and rings with `end`.
    fn packets(&self, words: &[u32], end: u64) {
        for (at, pair) in (self.ring.address..).step_by(8).zip(words.chunks(2)) {
            let high = pair.get(1).copied().unwrap_or(0);
            word(at).store(u64::from(pair[0]) | u64::from(high) << 32, Ordering::Relaxed);
        }
        word(self.write).store(end, Ordering::Release);
        word(self.doorbell).store(end, Ordering::Release);
    }
}

fn without_svm() -> Options {
    Options { svm: false, ..Options::default() }
}

/// A word of memory that CPU and GPU share.
fn word(address: u64) -> &'static AtomicU64 {
    let pointer = core::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("64 bits"));
    // SAFETY: the callers' buffers are mapped, of whole words, and only used while they are.
    unsafe { AtomicU64::from_ptr(pointer) }
}

fn wait_for(address: u64, value: u64) {
    let end = Instant::now() + DEADLINE;
    while word(address).load(Ordering::Acquire) != value {
        let now = word(address).load(Ordering::Acquire);
        assert!(Instant::now() < end, "{address:#x} is {now:#x}, not {value:#x}");
        std::thread::yield_now();
    }
}

fn status(result: Result<QueueResource>) -> Option<Status> {
    result.err()
}
