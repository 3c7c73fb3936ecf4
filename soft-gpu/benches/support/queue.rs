//! Buffers and queues as a program has them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::kfd::Ioctl;
use protocol::kfd::args::CreateQueueArgs;
use protocol::kfd::constants::{AllocFlags, QueueType};
use softgpu::GpuSpec;
use softgpu::mem::HostMem;

use super::program::{Device, Program};

const RING: u64 = 65536;
const WRITE_POINTER: usize = 56;
const READ_POINTER: usize = 128;
/// A packet type that no GPU takes before it is replaced (`hsa_packet_type_t`: INVALID).
const INVALID: u32 = 1;
const BARRIER_AND: u32 = 3;
const KERNEL_DISPATCH: u32 = 2;

/// Memory that the program and the GPU have.
pub struct Buffer {
    pub va: u64,
    pub mem: HostMem,
}

/// Where the next buffer goes in GPU address space.
pub struct Space(u64);

impl Space {
    pub const fn new() -> Self {
        Self(0x20_0000_0000)
    }

    /// A mapped buffer in host memory.
    pub fn buffer<D: Device>(&mut self, program: &Program<D>, size: u64) -> Buffer {
        let va = self.0;
        self.0 += size.next_multiple_of(2 << 20) + (2 << 20);
        let made = program.alloc(va, size, AllocFlags::GTT | AllocFlags::WRITABLE);
        program.map(made.handle);
        Buffer { va, mem: program.device.mmap_render(made.mmap_offset, size) }
    }
}

/// A queue.
pub struct Queue {
    ring: Buffer,
    pointers: Buffer,
    doorbells: HostMem,
    slot: usize,
    written: u64,
}

impl Queue {
    pub fn new<D: Device>(program: &Program<D>, space: &mut Space, spec: &GpuSpec, kind: QueueType) -> Self {
        let sizes = spec.queue_sizes;
        let area = u64::from(sizes.cwsr + sizes.debug_memory).next_multiple_of(4096);
        let [ring, pointers, save_area] = [RING, 4096, area].map(|size| space.buffer(program, size));
        for slot in (0..ring.mem.len()).step_by(64) {
            ring.mem.write(slot, &INVALID.to_le_bytes()).expect("inside");
        }
        let mut args = CreateQueueArgs {
            ring_base_address: ring.va,
            ring_size: 65536,
            write_pointer_address: pointers.va + WRITE_POINTER as u64,
            read_pointer_address: pointers.va + READ_POINTER as u64,
            gpu_id: spec.gpu_id,
            queue_type: kind.0,
            queue_percentage: 100,
            ctx_save_restore_address: save_area.va,
            ctx_save_restore_size: sizes.cwsr,
            ctl_stack_size: sizes.ctl_stack,
            ..Default::default()
        };
        program.ioctl(Ioctl::CreateQueue, &mut args);
        let doorbells = program.device.mmap_kfd(args.doorbell_offset & !0x1fff, 8192);
        let slot = usize::try_from(args.doorbell_offset & 0x1fff).expect("small");
        Self { ring, pointers, doorbells, slot, written: 0 }
    }

    /// Writes words; the first of them last, as AQL wants it.
    fn place(&mut self, words: &[u32]) {
        let at = |index: u64| usize::try_from((self.written + index) * 4 % RING).expect("small");
        for (index, word) in (0..).zip(words).skip(1) {
            self.ring.mem.write(at(index), &word.to_le_bytes()).expect("inside");
        }
        self.ring.mem.atomic_u32(at(0)).expect("aligned").store(words[0], Ordering::Release);
        self.written += words.len() as u64;
    }

    fn ring(&self, write_pointer: u64, doorbell: u64) {
        self.pointers.mem.atomic_u64(WRITE_POINTER).expect("aligned").store(write_pointer, Ordering::Release);
        self.doorbells.atomic_u64(self.slot).expect("aligned").store(doorbell, Ordering::Release);
    }

    /// Executes an SDMA packet: returns when the queue has read it, which it has after the copy.
    pub fn sdma(&mut self, packet: &[u32]) {
        self.place(packet);
        let end = self.written * 4;
        self.ring(end, end);
        until(self.pointers.mem.atomic_u64(READ_POINTER).expect("aligned"), end);
    }
}

/// An AQL queue whose barrier packets count down a signal.
pub struct Barriers {
    queue: Queue,
    signal: Buffer,
    packet: [u32; 16],
}

impl Barriers {
    pub fn new<D: Device>(program: &Program<D>, spec: &GpuSpec) -> Self {
        let mut space = Space::new();
        let signal = space.buffer(program, 4096);
        let mut packet = [0; 16];
        packet[0] = BARRIER_AND;
        [packet[14], packet[15]] = halves(signal.va);
        Self { queue: Queue::new(program, &mut space, spec, QueueType::COMPUTE_AQL), signal, packet }
    }

    /// A barrier-AND packet that waits for nothing, from its doorbell to its signal.
    pub fn round_trip(&mut self) {
        // Offset of the value in `amd_signal_t`.
        let value = self.signal.mem.atomic_u64(8).expect("aligned");
        value.store(1, Ordering::Relaxed);
        self.queue.place(&self.packet);
        let packets = self.queue.written / 16;
        self.queue.ring(packets, packets - 1);
        until(value, 0);
    }
}

/// A kernel: its code and what its descriptor says.
pub struct Kernel<'a> {
    pub code: &'a [u32],
    /// `compute_pgm_rsrc1`, `compute_pgm_rsrc2`, `kernel_code_properties`.
    pub registers: [u32; 3],
    /// Bytes of LDS.
    pub lds: u32,
}

/// An AQL queue that runs kernels.
pub struct Kernels {
    queue: Queue,
    signal: Buffer,
    /// The descriptor, the arguments, then the code.
    code: Buffer,
    lds: u32,
}

impl Kernels {
    const ARGUMENTS: usize = 64;
    const CODE: usize = 256;

    pub fn new<D: Device>(program: &Program<D>, space: &mut Space, spec: &GpuSpec) -> Self {
        let [signal, code] = [4096, 65536].map(|size| space.buffer(program, size));
        Self { queue: Queue::new(program, space, spec, QueueType::COMPUTE_AQL), signal, code, lds: 0 }
    }

    /// Puts a kernel and its arguments in place.
    pub fn load(&mut self, kernel: &Kernel<'_>, arguments: &[u32]) {
        let put = |at: usize, word: u32| self.code.mem.write(at, &word.to_le_bytes()).expect("inside");
        put(16, u32::try_from(Self::CODE).expect("small"));
        for (at, word) in [48, 52, 56].into_iter().zip(kernel.registers) {
            put(at, word);
        }
        for (index, word) in arguments.iter().enumerate() {
            put(Self::ARGUMENTS + index * 4, *word);
        }
        for (index, word) in kernel.code.iter().enumerate() {
            put(Self::CODE + index * 4, *word);
        }
        self.lds = kernel.lds;
    }

    /// Runs the kernel, from its doorbell to its signal.
    pub fn run(&mut self, group: u32, grid: [u32; 2]) {
        // Offset of the value in `amd_signal_t`.
        let value = self.signal.mem.atomic_u64(8).expect("aligned");
        value.store(1, Ordering::Relaxed);
        let mut packet = [0; 16];
        packet[..8].copy_from_slice(&[
            KERNEL_DISPATCH | 3 << 16,
            group | 1 << 16,
            1,
            grid[0],
            grid[1],
            1,
            0,
            self.lds,
        ]);
        [packet[8], packet[9]] = halves(self.code.va);
        [packet[10], packet[11]] = halves(self.code.va + Self::ARGUMENTS as u64);
        [packet[14], packet[15]] = halves(self.signal.va);
        self.queue.place(&packet);
        let packets = self.queue.written / 16;
        self.queue.ring(packets, packets - 1);
        while black_box(value.load(Ordering::Acquire)) != 0 {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

fn until(word: &AtomicU64, value: u64) {
    while black_box(word.load(Ordering::Acquire)) != value {
        std::thread::yield_now();
    }
}

/// An address as two words of a packet.
pub fn halves(value: u64) -> [u32; 2] {
    [value & 0xffff_ffff, value >> 32].map(|half| u32::try_from(half).expect("32 bits"))
}
