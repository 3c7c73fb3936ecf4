//! Memory: 100,000 buffers, and what GPU page tables cost against `memcpy`.
//!
//! `cargo bench -p softgpu --bench memory`. The first lines are about the buffers (VRAM without CPU access): the time
//! of the first and of the last tenth of the allocations and of the frees, and their ratio.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use protocol::kfd::args::{AcquireVmArgs, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{Caller, FileId, Ioctl, Kfd, Node, Process, ProcessId};
use softgpu::local_mem::{LocalCall, LocalMem};
use softgpu::mem::{Arena, GpuVm, MapFlags, MappingOwner};
use softgpu::{BackingFiles, Config, Kernel, Profile, SoftGpu};

const DRM_FD: i32 = 900_000;
const BUFFERS: usize = 100_000;

struct Program {
    process: Arc<dyn Process>,
    kfd: FileId,
    drm: FileId,
    gpu_id: u32,
}

impl Program {
    fn new() -> Self {
        let machine = Profile::Mi210.machine(Kernel::Linux6_12);
        let (gpu_id, minor) = (machine.gpus[0].gpu_id, machine.gpus[0].render_minor);
        let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memfd");
        let gpu = SoftGpu::new(Config { machine, backing }).expect("a built-in profile");
        let caller = Caller { id: ProcessId(1), pid: 1, privileged: false, mem: Some(Arc::new(LocalMem)) };
        let process = gpu.attach(caller).expect("attach");
        let kfd = process.open(Node::Kfd).expect("kfd");
        let drm = process.open(Node::Render(minor)).expect("render");
        let program = Self { process, kfd, drm, gpu_id };
        program.ioctl(Ioctl::AcquireVm, &mut AcquireVmArgs { drm_fd: DRM_FD.cast_unsigned(), gpu_id });
        program
    }

    fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) {
        let call = LocalCall::new().with_file(DRM_FD, self.drm);
        let result = self.process.ioctl(self.kfd, ioctl.request(), args.as_mut_bytes(), &call);
        result.unwrap_or_else(|errno| panic!("{}: {errno}", ioctl.name()));
    }

    fn alloc(&self, va_addr: u64, size: u64) -> u64 {
        let flags = (AllocFlags::VRAM | AllocFlags::WRITABLE).0;
        let mut args =
            AllocMemoryOfGpuArgs { va_addr, size, flags, gpu_id: self.gpu_id, ..Default::default() };
        self.ioctl(Ioctl::AllocMemoryOfGpu, &mut args);
        args.handle
    }

    fn free(&self, handle: u64) {
        self.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle });
    }
}

/// Runs `step` for every number and says how long the first and the last tenth took.
fn tenths(what: &str, mut step: impl FnMut(usize)) {
    let mut times = [Duration::ZERO; 10];
    for number in 0..BUFFERS {
        let start = Instant::now();
        step(number);
        times[number * 10 / BUFFERS] += start.elapsed();
    }
    let [first, last] = [times[0], times[9]];
    let ratio = last.as_secs_f64() / first.as_secs_f64();
    println!("{BUFFERS} buffers, {what}: first tenth {first:?}, last tenth {last:?}, ratio {ratio:.2}");
}

fn many_buffers() {
    let program = Program::new();
    let mut handles = vec![0; BUFFERS];
    tenths("alloc", |n| {
        handles[n] = program.alloc(0x10_0000_0000 + n as u64 * 0x10000, 4096 * (1 + n as u64 % 5));
    });
    // Every other one first: as fragmented as it gets.
    let order: Vec<usize> = (0..BUFFERS).step_by(2).chain((1..BUFFERS).step_by(2)).collect();
    tenths("free", |n| program.free(handles[order[n]]));
}

fn page_tables(c: &mut Criterion) {
    const SIZE: u64 = 16 << 20;
    const VA: u64 = 0x10_0000_0000;
    let arena = Arena::new(BackingFiles::anonymous(&[]).expect("memfd").kfd, 1 << 30).expect("arena");
    let vm = GpuVm::new();
    let flags = MapFlags { writable: true, executable: false };
    for (number, va) in [(0, VA), (1, VA + SIZE)] {
        let mem = arena.alloc(SIZE, 0).expect("room");
        mem.fill(0, mem.len(), 1).expect("in range");
        vm.map(va, mem, flags, MappingOwner::Buffer(number)).expect("free");
    }
    for number in 0..1000 {
        let mem = arena.alloc(4096, 0).expect("room");
        vm.map(VA * 2 + number * 8192, mem, flags, MappingOwner::Buffer(number)).expect("free");
    }

    let mut group = c.benchmark_group("page tables");
    group.bench_function("read 8 bytes", |b| b.iter(|| vm.read_u64(black_box(VA + 64)).expect("mapped")));
    let tables = vm.access();
    group.bench_function("read 8 bytes, tables held", |b| {
        let mut bytes = [0; 8];
        b.iter(|| tables.read(black_box(VA + 64), &mut bytes).expect("mapped"));
    });
    drop(tables);
    group.throughput(Throughput::Bytes(SIZE));
    group.bench_function("copy 16 MiB", |b| b.iter(|| vm.copy(VA + SIZE, VA, SIZE).expect("mapped")));
    let from = vec![1u8; 16 << 20];
    let mut to = vec![2u8; 16 << 20];
    group.bench_function("memcpy 16 MiB", |b| b.iter(|| to.copy_from_slice(black_box(&from))));
    group.finish();
}

fn all(c: &mut Criterion) {
    many_buffers();
    page_tables(c);
}

criterion_group!(benches, all);
criterion_main!(benches);
