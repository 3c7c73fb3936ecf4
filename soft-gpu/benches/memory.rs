//! Memory: 100,000 buffers, and what GPU page tables cost against `memcpy`.
//!
//! `cargo bench -p softgpu --bench memory`. The first lines are about the buffers (VRAM without CPU access): the time
//! of the first and of the last tenth of the allocations and of the frees (the best of several rounds), and their ratio.

mod support;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use protocol::kfd::constants::AllocFlags;
use softgpu::BackingFiles;
use softgpu::mem::{Arena, GpuVm, MapFlags, MappingOwner};

use support::program::{Program, mi210};

const BUFFERS: usize = 100_000;

/// How often all is done. Of each tenth the best time counts, because other work on the machine comes and goes.
const ROUNDS: usize = 20;

/// Time that this thread ran: nobody else works on these calls.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("not negative")
}

type Tenths = [Duration; 10];

/// Runs `step` for every number and keeps the time of each tenth where it is better than before.
fn tenths(best: &mut Tenths, mut step: impl FnMut(usize)) {
    const TENTH: usize = BUFFERS / 10;
    for (tenth, best) in best.iter_mut().enumerate() {
        let start = thread_time();
        (tenth * TENTH..(tenth + 1) * TENTH).for_each(&mut step);
        *best = (thread_time() - start).min(*best);
    }
}

fn many_buffers() {
    let (gpu, spec) = mi210();
    let flags = AllocFlags::VRAM | AllocFlags::WRITABLE;
    // Every other one first: as fragmented as it gets.
    let order: Vec<usize> = (0..BUFFERS).step_by(2).chain((1..BUFFERS).step_by(2)).collect();
    let [mut alloc, mut free] = [[Duration::MAX; 10]; 2];
    for round in 0..ROUNDS {
        let program = Program::local(&gpu, &spec, round as u64);
        let mut handles = vec![0; BUFFERS];
        tenths(&mut alloc, |n| {
            let (va, size) = (0x10_0000_0000 + n as u64 * 0x10000, 4096 * (1 + n as u64 % 5));
            handles[n] = program.alloc(va, size, flags).handle;
        });
        tenths(&mut free, |n| program.free(handles[order[n]]));
    }
    for (what, [first, .., last]) in [("alloc", alloc), ("free", free)] {
        let ratio = last.as_secs_f64() / first.as_secs_f64();
        println!("{BUFFERS} buffers, {what}: first tenth {first:?}, last tenth {last:?}, ratio {ratio:.2}");
    }
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
