//! A GPU's page tables, an engine and an interrupt line that remembers what came.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use crate::backing::BackingFiles;
use crate::engine::doorbell::Doorbell;
use crate::engine::{Engine, EngineConfig, GpuClock, GpuFault, Interrupts, QueueConfig, QueueKind};
use crate::mem::{Arena, GpuVm, HostMem, MapFlags, MappingOwner};

/// gfx90a as the topology names it.
pub(super) const GFX90A: u32 = 90010;
/// Ticks per second of the rig's GPU: MI210's reference clock.
pub(super) const CLOCK_HZ: u64 = 100_000_000;

const DEADLINE: Duration = Duration::from_secs(20);

/// What the engine told the process.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: Mutex<Vec<Told>>,
}

/// One call of [`Interrupts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Event { id: u32, bits: u32 },
    Fault { gpu_id: u32, fault: GpuFault },
    Exception { queue: u32, mask: u64 },
}

impl Log {
    pub(super) fn all(&self) -> Vec<Told> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, told: Told) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

impl Interrupts for Log {
    fn signal_event(&self, id: u32, bits: u32) {
        self.add(Told::Event { id, bits });
    }

    fn memory_fault(&self, gpu_id: u32, fault: GpuFault) {
        self.add(Told::Fault { gpu_id, fault });
    }

    fn queue_exception(&self, queue: u32, mask: u64) {
        self.add(Told::Exception { queue, mask });
    }
}

/// A process on a GPU.
pub(super) struct Rig {
    pub(super) vm: Arc<GpuVm>,
    pub(super) engine: Engine,
    pub(super) log: Arc<Log>,
    arena: Arena,
    doorbells: HostMem,
    next_va: Mutex<u64>,
    next_queue: Mutex<u32>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let files = BackingFiles::anonymous(&[]).expect("memfd");
        let arena = Arena::new(files.kfd, 1 << 30).expect("arena");
        let (vm, log) = (Arc::new(GpuVm::new()), Arc::new(Log::default()));
        let weak: Weak<dyn Interrupts> = Arc::downgrade(&(Arc::clone(&log) as Arc<dyn Interrupts>));
        let engine = Engine::new(EngineConfig {
            gpu_id: 0x1234,
            vm: Arc::clone(&vm),
            clock: GpuClock::new(CLOCK_HZ),
            interrupts: weak,
        });
        let doorbells = arena.alloc(8192, 8192).expect("doorbells");
        Self {
            vm,
            engine,
            log,
            arena,
            doorbells,
            next_va: Mutex::new(0x7000_0000_0000),
            next_queue: Mutex::new(0),
        }
    }

    /// Memory that the GPU may write, at a fresh address; an unmapped page follows it.
    pub(super) fn memory(&self, len: u64) -> Buffer {
        self.memory_with(len, true)
    }

    /// Memory that the GPU may only read.
    pub(super) fn read_only(&self, len: u64) -> Buffer {
        self.memory_with(len, false)
    }

    fn memory_with(&self, len: u64, writable: bool) -> Buffer {
        let mem = self.arena.alloc(len, 0).expect("room");
        let mut next = self.next_va.lock().unwrap_or_else(PoisonError::into_inner);
        let va = *next;
        *next += len.next_multiple_of(4096) + 4096;
        let flags = MapFlags { writable, ..MapFlags::default() };
        self.vm.map(va, mem.clone(), flags, MappingOwner::Buffer(va)).expect("free address");
        Buffer { va, mem }
    }

    /// The same memory, at an address of this process.
    pub(super) fn map(&self, other: &Buffer) -> Buffer {
        let mem = other.mem.clone();
        let mut next = self.next_va.lock().unwrap_or_else(PoisonError::into_inner);
        let va = *next;
        *next += (mem.len() as u64).next_multiple_of(4096) + 4096;
        let flags = MapFlags { writable: true, ..MapFlags::default() };
        self.vm.map(va, mem.clone(), flags, MappingOwner::Buffer(va)).expect("free address");
        Buffer { va, mem }
    }

    pub(super) fn queue(&self, kind: QueueKind, ring_size: u64) -> RigQueue<'_> {
        self.queue_for(kind, ring_size, GFX90A)
    }

    pub(super) fn queue_for(&self, kind: QueueKind, ring_size: u64, gfx: u32) -> RigQueue<'_> {
        let id = {
            let mut next = self.next_queue.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next - 1
        };
        let (ring, pointers) = (self.memory(ring_size), self.memory(4096));
        if kind == QueueKind::Aql {
            for slot in 0..ring_size / 64 {
                ring.write(slot * 64, &1u16.to_le_bytes());
            }
        }
        let queue = RigQueue { rig: self, id, kind, ring, pointers, ring_size, written: Mutex::new(0) };
        self.engine.add(queue.config(gfx)).expect("thread");
        queue
    }

    /// The doorbell slot of a queue, as a program sees it.
    pub(super) fn ring_raw(&self, id: u32, value: u64) {
        let slot = self.doorbells.atomic_u64(id as usize * 8).expect("in range");
        slot.store(value, std::sync::atomic::Ordering::Release);
    }

    /// Waits until `done`, or fails with what happened.
    pub(super) fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(
                start.elapsed() < DEADLINE,
                "{what} did not happen in {DEADLINE:?}; told: {:?}",
                self.log.all()
            );
            std::thread::yield_now();
        }
    }

    /// Waits until the engine has told `told`.
    pub(super) fn wait_told(&self, told: Told) {
        self.wait(&format!("{told:?}"), || self.log.all().contains(&told));
    }
}

/// Memory of the rig.
#[derive(Clone)]
pub(super) struct Buffer {
    pub(super) va: u64,
    pub(super) mem: HostMem,
}

impl Buffer {
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        self.mem.write(usize::try_from(offset).expect("small"), bytes).expect("in range");
    }

    pub(super) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.mem.read(usize::try_from(offset).expect("small"), &mut bytes).expect("in range");
        bytes
    }

    pub(super) fn u32(&self, offset: u64) -> u32 {
        u32::from_le_bytes(self.read(offset, 4).try_into().expect("four bytes"))
    }

    pub(super) fn u64(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.read(offset, 8).try_into().expect("eight bytes"))
    }

    pub(super) fn set_u32(&self, offset: u64, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }

    pub(super) fn set_u64(&self, offset: u64, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }
}

/// A queue of the rig, used as a program uses it.
pub(super) struct RigQueue<'a> {
    pub(super) rig: &'a Rig,
    pub(super) id: u32,
    pub(super) kind: QueueKind,
    pub(super) ring: Buffer,
    /// The write pointer at 56 and the read pointer at 128, as in `amd_queue_t`.
    pub(super) pointers: Buffer,
    ring_size: u64,
    /// Words written so far.
    written: Mutex<u64>,
}

pub(super) const WRITE_POINTER: u64 = 56;
pub(super) const READ_POINTER: u64 = 128;

impl RigQueue<'_> {
    pub(super) fn config(&self, gfx: u32) -> QueueConfig {
        QueueConfig {
            id: self.id,
            kind: self.kind,
            ring: self.ring.va,
            ring_size: self.ring_size,
            read_pointer: self.pointers.va + READ_POINTER,
            write_pointer: self.pointers.va + WRITE_POINTER,
            doorbell: Doorbell::reset(&self.rig.doorbells, self.id as usize * 8).expect("in range"),
            gfx,
            active: true,
        }
    }

    /// Writes packet words behind the last ones and rings.
    pub(super) fn submit(&self, words: &[u32]) {
        self.place(words);
        self.ring();
    }

    /// Writes packet words; the first word of each AQL packet last.
    pub(super) fn place(&self, words: &[u32]) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let in_ring = self.ring_size / 4;
        self.rig.wait("room in the ring", || {
            self.kind == QueueKind::Aql || self.free_words(*written) >= words.len() as u64
        });
        for (index, word) in (*written..).zip(words) {
            self.ring.set_u32(index % in_ring * 4, *word);
        }
        *written += words.len() as u64;
    }

    fn free_words(&self, written: u64) -> u64 {
        let in_ring = self.ring_size / 4;
        let read = match self.kind {
            QueueKind::Aql => self.read_pointer() * 16,
            QueueKind::Sdma => self.read_pointer() / 4,
            // 32 bits, within the ring.
            QueueKind::Pm4 => {
                let within = u64::from(self.pointers.u32(READ_POINTER));
                written - (written + in_ring - within) % in_ring
            }
        };
        // One word stays free: a full ring looks like an empty one.
        in_ring - 1 - (written - read)
    }

    /// Stores the write pointer and rings the doorbell with it.
    pub(super) fn ring(&self) {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let (pointer, doorbell) = match self.kind {
            QueueKind::Aql => (written / 16, written / 16 - 1),
            QueueKind::Pm4 => (written, written),
            QueueKind::Sdma => (written * 4, written * 4),
        };
        self.pointers.set_u64(WRITE_POINTER, pointer);
        self.rig.ring_raw(self.id, doorbell);
    }

    pub(super) fn read_pointer(&self) -> u64 {
        self.pointers.u64(READ_POINTER)
    }

    /// Waits until every packet is executed.
    pub(super) fn drain(&self) {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        self.rig.wait("the end of the ring", || match self.kind {
            QueueKind::Aql => self.read_pointer() == written / 16,
            QueueKind::Sdma => self.read_pointer() == written * 4,
            QueueKind::Pm4 => u64::from(self.pointers.u32(READ_POINTER)) == written % (self.ring_size / 4),
        });
    }
}

/// Packet words from parts.
pub(super) fn words(parts: &[&[u32]]) -> Vec<u32> {
    parts.concat()
}

/// The halves of an address or value.
pub(super) fn halves(value: u64) -> [u32; 2] {
    let bytes = value.to_le_bytes();
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    [half(0), half(4)]
}

/// Bytes that differ from place to place.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    let mut words: Vec<u32> = (0..u32::try_from(len.div_ceil(4)).expect("small")).collect();
    for word in &mut words {
        *word = word.wrapping_mul(0x9e37_79b1);
    }
    words.as_bytes()[..len].to_vec()
}
