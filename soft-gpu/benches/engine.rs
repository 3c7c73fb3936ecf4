//! Queues in process: SDMA copies against `memcpy` of the same size in the same run, and the time from a doorbell to
//! the signal of a barrier packet.
//!
//! `cargo bench -p softgpu --bench engine`

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use protocol::kfd::args::{AcquireVmArgs, AllocMemoryOfGpuArgs, CreateQueueArgs, MapMemoryToGpuArgs};
use protocol::kfd::constants::{AllocFlags, QueueType};
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{Caller, FileId, Ioctl, Kfd, Node, Process, ProcessId};
use softgpu::local_mem::{LocalCall, LocalMem};
use softgpu::mem::HostMem;
use softgpu::{BackingFiles, Config, GpuSpec, Kernel, Profile, SoftGpu};

const DRM_FD: i32 = 900_000;

struct Program {
    process: Arc<dyn Process>,
    kfd: FileId,
    drm: FileId,
    spec: GpuSpec,
    next_va: u64,
}

struct Buffer {
    va: u64,
    mem: HostMem,
}

struct Queue {
    ring: Buffer,
    pointers: Buffer,
    doorbells: HostMem,
    slot: usize,
    written: u64,
}

const WRITE_POINTER: usize = 56;
const READ_POINTER: usize = 128;

impl Program {
    fn new() -> Self {
        let machine = Profile::Mi210.machine(Kernel::Linux6_12);
        let spec = machine.gpus[0].clone();
        let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memfd");
        let gpu = SoftGpu::new(Config { machine, backing }).expect("a built-in profile");
        let caller = Caller { id: ProcessId(1), pid: 1, privileged: false, mem: Some(Arc::new(LocalMem)) };
        let process = gpu.attach(caller).expect("attach");
        let kfd = process.open(Node::Kfd).expect("kfd");
        let drm = process.open(Node::Render(spec.render_minor)).expect("render");
        let program = Self { process, kfd, drm, spec, next_va: 0x20_0000_0000 };
        let drm_fd = DRM_FD.cast_unsigned();
        program.ioctl(Ioctl::AcquireVm, &mut AcquireVmArgs { drm_fd, gpu_id: program.spec.gpu_id });
        program
    }

    fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) {
        let call = LocalCall::new().with_file(DRM_FD, self.drm);
        self.process
            .ioctl(self.kfd, ioctl.request(), args.as_mut_bytes(), &call)
            .unwrap_or_else(|errno| panic!("{}: {errno}", ioctl.name()));
    }

    fn buffer(&mut self, size: u64, flags: AllocFlags) -> Buffer {
        let gpu_id = self.spec.gpu_id;
        let va = self.next_va;
        self.next_va += size.next_multiple_of(2 << 20) + (2 << 20);
        let flags = (flags | AllocFlags::WRITABLE).0;
        let mut alloc = AllocMemoryOfGpuArgs { va_addr: va, size, gpu_id, flags, ..Default::default() };
        self.ioctl(Ioctl::AllocMemoryOfGpu, &mut alloc);
        let gpus = [gpu_id];
        let device_ids_array_ptr = gpus.as_ptr().expose_provenance() as u64;
        let mut map =
            MapMemoryToGpuArgs { handle: alloc.handle, device_ids_array_ptr, n_devices: 1, n_success: 0 };
        self.ioctl(Ioctl::MapMemoryToGpu, &mut map);
        let mapping = self.process.mmap(self.drm, alloc.mmap_offset, size).expect("mmap");
        Buffer { va, mem: HostMem::map_descriptor(&mapping.fd, mapping.offset, size).expect("map") }
    }

    fn queue(&mut self, kind: QueueType) -> Queue {
        let sizes = self.spec.queue_sizes;
        let area = u64::from(sizes.cwsr + sizes.debug_memory).next_multiple_of(4096);
        let (ring, pointers) = (self.buffer(65536, AllocFlags::GTT), self.buffer(4096, AllocFlags::GTT));
        let save_area = self.buffer(area, AllocFlags::GTT);
        for slot in (0..65536).step_by(64) {
            ring.mem.write(slot, &1u32.to_le_bytes()).expect("inside");
        }
        let mut args = CreateQueueArgs {
            ring_base_address: ring.va,
            ring_size: 65536,
            write_pointer_address: pointers.va + WRITE_POINTER as u64,
            read_pointer_address: pointers.va + READ_POINTER as u64,
            gpu_id: self.spec.gpu_id,
            queue_type: kind.0,
            queue_percentage: 100,
            ctx_save_restore_address: save_area.va,
            ctx_save_restore_size: sizes.cwsr,
            ctl_stack_size: sizes.ctl_stack,
            ..Default::default()
        };
        self.ioctl(Ioctl::CreateQueue, &mut args);
        let mapping = self.process.mmap(self.kfd, args.doorbell_offset & !0x1fff, 8192).expect("doorbells");
        let doorbells = HostMem::map_descriptor(&mapping.fd, mapping.offset, 8192).expect("map");
        let slot = usize::try_from(args.doorbell_offset & 0x1fff).expect("small");
        Queue { ring, pointers, doorbells, slot, written: 0 }
    }
}

impl Queue {
    /// Writes words; the first of them last, as AQL wants it.
    fn place(&mut self, words: &[u32]) {
        let at = |index: u64| usize::try_from((self.written + index) * 4 % 65536).expect("small");
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
}

fn halves(value: u64) -> [u32; 2] {
    [value & 0xffff_ffff, value >> 32].map(|half| u32::try_from(half).expect("32 bits"))
}

fn copies(c: &mut Criterion) {
    const SIZE: u64 = 64 << 20;
    let mut program = Program::new();
    let (src, dst) = (program.buffer(SIZE, AllocFlags::GTT), program.buffer(SIZE, AllocFlags::GTT));
    let size = usize::try_from(SIZE).expect("small");
    src.mem.fill(0, size, 0x5a).expect("inside");
    dst.mem.fill(0, size, 0).expect("inside");
    let mut group = c.benchmark_group("copy 64 MiB");
    group.throughput(Throughput::Bytes(SIZE)).sample_size(20);
    group.bench_function("memcpy", |b| b.iter(|| src.mem.copy_to(0, &dst.mem, 0, size).expect("inside")));
    let mut queue = program.queue(QueueType::SDMA);
    let ([s0, s1], [d0, d1]) = (halves(src.va), halves(dst.va));
    let packet = [1, u32::try_from(SIZE - 1).expect("30 bits"), 0, s0, s1, d0, d1];
    group.bench_function("SDMA", |b| {
        b.iter(|| {
            queue.place(&packet);
            let end = queue.written * 4;
            queue.ring(end, end);
            let read = queue.pointers.mem.atomic_u64(READ_POINTER).expect("aligned");
            while black_box(read.load(Ordering::Acquire)) != end {
                std::thread::yield_now();
            }
        });
    });
    group.finish();
}

fn barriers(c: &mut Criterion) {
    let mut program = Program::new();
    let signal = program.buffer(4096, AllocFlags::GTT);
    let mut queue = program.queue(QueueType::COMPUTE_AQL);
    let mut packet = [0u32; 16];
    packet[0] = 3;
    [packet[14], packet[15]] = halves(signal.va);
    let value = signal.mem.atomic_u64(8).expect("aligned");
    c.bench_function("doorbell to signal of a barrier packet", |b| {
        b.iter(|| {
            value.store(1, Ordering::Relaxed);
            queue.place(&packet);
            let packets = queue.written / 16;
            queue.ring(packets, packets - 1);
            while black_box(value.load(Ordering::Acquire)) != 0 {
                std::thread::yield_now();
            }
        });
    });
}

criterion_group!(benches, copies, barriers);
criterion_main!(benches);
