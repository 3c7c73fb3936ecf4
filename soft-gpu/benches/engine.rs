//! Queues: SDMA copies against `memcpy` of the same size, and the time from a doorbell to the signal of a barrier
//! packet, in process and by a program under `softgpu run`.
//!
//! `cargo bench -p softgpu --bench engine`. The first lines compare, with a ratio; the rest is criterion's.

mod support;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group};
use protocol::kfd::constants::QueueType;

use support::program::{DevFiles, Program, mi210};
use support::queue::{Barriers, Queue, Space, halves};
use support::under_run::{self, Asked};
use support::{compare, time};

fn copies(c: &mut Criterion) {
    const SIZE: u64 = 64 << 20;
    let (gpu, spec) = mi210();
    let program = Program::local(&gpu, &spec, 1);
    let mut space = Space::new();
    let [src, dst] = [0x5a, 0].map(|byte| {
        let buffer = space.buffer(&program, SIZE);
        buffer.mem.fill(0, buffer.mem.len(), byte).expect("inside");
        buffer
    });
    let mut queue = Queue::new(&program, &mut space, &spec, QueueType::SDMA);
    let ([s0, s1], [d0, d1]) = (halves(src.va), halves(dst.va));
    let packet = [1, u32::try_from(SIZE - 1).expect("30 bits"), 0, s0, s1, d0, d1];
    let memcpy = || src.mem.copy_to(0, &dst.mem, 0, src.mem.len()).expect("inside");
    let mut sdma = || queue.sdma(&packet);

    compare(
        "copy 64 MiB",
        20,
        2,
        &mut [("memcpy", &mut |steps| time(steps, memcpy)), ("SDMA", &mut |steps| time(steps, &mut sdma))],
    );
    let mut group = c.benchmark_group("copy 64 MiB");
    group.throughput(Throughput::Bytes(SIZE)).sample_size(20);
    group.bench_function("memcpy", |b| b.iter(memcpy));
    group.bench_function("SDMA", |b| b.iter(&mut sdma));
    group.finish();
}

fn barriers(c: &mut Criterion) {
    let (gpu, spec) = mi210();
    let program = Program::local(&gpu, &spec, 1);
    let mut barriers = Barriers::new(&program, &spec);
    let mut in_process = |steps| time(steps, || barriers.round_trip());
    let mut asked = Asked::start();
    let mut under_run = |steps| asked.time("barrier", steps);

    compare(
        "doorbell to signal of a barrier packet",
        20,
        5000,
        &mut [("in process", &mut in_process), ("under softgpu run", &mut under_run)],
    );
    let mut group = c.benchmark_group("doorbell to signal of a barrier packet");
    group.bench_function("in process", |b| b.iter_custom(&mut in_process));
    group.bench_function("under softgpu run", |b| b.iter_custom(&mut under_run));
    group.finish();
    asked.end();
}

/// The program under `softgpu run`.
fn asked() -> impl FnMut(&str, u64) -> Duration {
    let (_, spec) = mi210();
    let program = Program::start(DevFiles::open(&spec), &spec);
    let mut barriers = Barriers::new(&program, &spec);
    move |_, steps| {
        let _open = &program;
        time(steps, || barriers.round_trip())
    }
}

criterion_group!(benches, copies, barriers);

fn main() {
    if !under_run::answer(asked) {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
