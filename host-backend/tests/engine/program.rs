//! A program of the guest: the whole engine over the virtio transport, and a worker process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hsakmt::engine::queue::QueueRequest;
use hsakmt::virtio::{Device, OwnMemory, Virtio};
use hsakmt::{Engine, Options};
use protocol::Errno;
use protocol::hsakmt::{MemFlags, QueueResource, QueueType};
use protocol::kfd::Kfd;

use crate::device::LinkDevice;

pub const PAGE: u64 = 4096;
pub const DEADLINE: Duration = Duration::from_secs(60);
/// The GPU's node: the guest's processors are node 0.
pub const GPU: u32 = 1;

/// The program.
pub struct Program {
    pub engine: Engine,
    pub device: Arc<LinkDevice>,
}

/// A queue of SDMA packets.
pub struct Copier<'a> {
    program: &'a Program,
    ring: u64,
    resource: QueueResource,
    end: u64,
}

impl Program {
    pub fn new(gpu: &str) -> Program {
        // A guest's process has one context. Here several have theirs in one process: each takes its addresses before the next
        // looks which are free.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // RUST_LOG says what is shown. Another test may have been first.
        let _ = env_logger::builder().is_test(true).try_init();
        let device = LinkDevice::start(gpu);
        let first = Arc::clone(&device) as Arc<dyn Device>;
        let virtio = Virtio::over(first, Box::new(|| Err(Errno::ENODEV)), Duration::from_micros(50));
        let kfd: Arc<dyn Kfd> = Arc::new(virtio.expect("a worker that answers"));
        let engine = Engine::new(&kfd, Arc::new(OwnMemory), Options::default()).expect("an engine");
        engine.acquire_system_properties().expect("a topology");
        Program { engine, device }
    }

    /// Memory that is mapped to the GPU.
    pub fn memory(&self, node: u32, size: u64, flags: MemFlags) -> u64 {
        let address = self.engine.alloc_memory(node, size, 0, flags).expect("memory");
        self.engine.map_memory_to_nodes(address, size, 0, &[GPU]).expect("it is mapped");
        address
    }

    /// System memory.
    pub fn system(&self, size: u64) -> u64 {
        self.memory(0, size, MemFlags::HOST_ACCESS)
    }

    /// The GPU's own.
    pub fn vram(&self, size: u64) -> u64 {
        self.memory(GPU, size, MemFlags::NON_PAGED | MemFlags::COARSE_GRAIN)
    }

    pub fn free(&self, address: u64, size: u64) {
        self.engine.unmap_memory(address).expect("it is mapped");
        self.engine.free_memory(address, size).expect("it is there");
    }

    pub fn copier(&self) -> Copier<'_> {
        let ring = self.system(16 * PAGE);
        let request = QueueRequest {
            node: GPU,
            queue_type: QueueType::SDMA,
            percentage: 100,
            ring,
            ring_size: 16 * PAGE,
            ..QueueRequest::default()
        };
        let mut resource = QueueResource::default();
        self.engine.create_queue(&request, &mut resource).expect("an SDMA queue");
        Copier { program: self, ring, resource, end: 0 }
    }

    /// Until the worker has let go of all blobs but so many.
    pub fn wait_for_blobs(&self, count: usize) {
        let end = Instant::now() + DEADLINE;
        while self.device.blobs() != count {
            assert!(Instant::now() < end, "{} blobs, not {count}", self.device.blobs());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Copier<'_> {
    /// Copies on the GPU and waits until it says so.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) {
        /// Bytes of one packet at most on all GPUs.
        const MOST: u64 = 1 << 21;
        for start in (0..bytes).step_by(MOST as usize) {
            let len = MOST.min(bytes - start);
            // COPY_LINEAR.
            self.put(&[
                1,
                len as u32 - 1,
                0,
                low(from + start),
                high(from + start),
                low(to + start),
                high(to + start),
            ]);
        }
        let mark = self.program.system(PAGE);
        // FENCE.
        self.put(&[5, low(mark), high(mark), 0x0dd_ba11]);
        self.ring();
        wait_for(mark, 0x0dd_ba11);
        self.program.free(mark, PAGE);
    }

    fn put(&mut self, words: &[u32]) {
        for word in words {
            word32(self.ring + self.end % (16 * PAGE)).store(*word, Ordering::Relaxed);
            self.end += 4;
        }
        assert!(self.end < 16 * PAGE, "the ring is long enough for a test");
    }

    fn ring(&self) {
        word(self.resource.queue_write_ptr).store(self.end, Ordering::Release);
        word(self.resource.queue_doorbell).store(self.end, Ordering::Release);
    }

    pub fn destroy(self) {
        self.program.engine.destroy_queue(self.resource.queue_id).expect("a queue");
        self.program.free(self.ring, 16 * PAGE);
    }
}

fn low(address: u64) -> u32 {
    (address & 0xffff_ffff) as u32
}

fn high(address: u64) -> u32 {
    (address >> 32) as u32
}

/// A word of memory that the program shares with the GPU.
pub fn word(address: u64) -> &'static AtomicU64 {
    let pointer = core::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("64 bits"));
    // SAFETY: the callers' buffers are mapped, of whole words, and only used while they are.
    unsafe { AtomicU64::from_ptr(pointer) }
}

fn word32(address: u64) -> &'static std::sync::atomic::AtomicU32 {
    let pointer = core::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("64 bits"));
    // SAFETY: as above.
    unsafe { std::sync::atomic::AtomicU32::from_ptr(pointer) }
}

pub fn wait_for(address: u64, value: u64) {
    let end = Instant::now() + DEADLINE;
    while word(address).load(Ordering::Acquire) & 0xffff_ffff != value {
        let now = word(address).load(Ordering::Acquire);
        assert!(Instant::now() < end, "{address:#x} is {now:#x}, not {value:#x}");
        std::thread::yield_now();
    }
}

/// Words that say where they are.
pub fn fill(address: u64, bytes: u64, seed: u64) {
    for at in (0..bytes).step_by(8) {
        word(address + at).store(seed.wrapping_add(at), Ordering::Relaxed);
    }
}

/// The first word that is not what [`fill`] wrote.
pub fn wrong(address: u64, bytes: u64, seed: u64) -> Option<u64> {
    (0..bytes).step_by(8).find(|at| word(address + at).load(Ordering::Relaxed) != seed.wrapping_add(*at))
}
