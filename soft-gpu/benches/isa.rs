//! Instructions: how many a wave executes in a second, for each family of opcodes and for a loop of matrix multiplication
//! as a compiler makes it; and the multiplication of matrices of 1024 rows and columns on all cores.
//!
//! `cargo bench -p softgpu --bench isa`. The listings in `isa/` are what LLVM 19 printed: the families of the
//! instructions that stand there, `sgemm` and `hgemm` of `gemm.cl`.

mod support;

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group};

use support::program::{Local, Program, mi210};
use support::queue::{Buffer, Kernel, Kernels, Space, halves};

const FAMILIES: &str = include_str!("isa/families.lst");
const SGEMM: &str = include_str!("isa/sgemm.lst");
const HGEMM: &str = include_str!("isa/hgemm.lst");

/// Repetitions of a family's instructions in the loop around them.
const COPIES: usize = 16;
/// Rows and columns of the matrices.
const N: u32 = 1024;

/// The words of a listing's instructions.
fn words(listing: &str) -> Vec<u32> {
    let encodings = listing.lines().filter_map(|line| line.split_once("// "));
    let words = encodings.flat_map(|(_, words)| words.split_whitespace());
    words.map(|word| u32::from_str_radix(word, 16).expect("a word")).collect()
}

/// What runs kernels, with memory for their data.
struct Bench {
    _program: Program<Local>,
    kernels: Kernels,
    data: Buffer,
}

impl Bench {
    fn new() -> Self {
        let (gpu, spec) = mi210();
        let program = Program::local(&gpu, &spec, 1);
        let mut space = Space::new();
        let data = space.buffer(&program, 3 * u64::from(N * N) * 4);
        let kernels = Kernels::new(&program, &mut space, &spec);
        Self { _program: program, kernels, data }
    }

    fn time(&mut self, group: u32, grid: [u32; 2]) -> Duration {
        let start = Instant::now();
        self.kernels.run(group, grid);
        start.elapsed()
    }

    /// Three matrices.
    fn load_gemm(&mut self, listing: &str, registers: [u32; 3]) {
        let step = u64::from(N * N) * 4;
        let mut arguments: Vec<u32> =
            [0, step, 2 * step].into_iter().flat_map(|at| halves(self.data.va + at)).collect();
        arguments.push(N);
        self.kernels.load(&Kernel { code: &words(listing), registers, lds: 0 }, &arguments);
    }
}

/// One wave in a loop.
fn families(c: &mut Criterion) {
    let mut bench = Bench::new();
    let mut sections = FAMILIES.split("# ").skip(1).filter_map(|section| section.split_once('\n'));
    let (_, prologue) = sections.next().expect("the prologue");
    let mut group = c.benchmark_group("wave64 instructions");
    for (name, body) in sections {
        let (body, per_copy) = (words(body), body.lines().count());
        let mut code = words(prologue);
        (0..COPIES).for_each(|_| code.extend(&body));
        let back = i16::try_from(COPIES * body.len() + 3).expect("short").wrapping_neg().cast_unsigned();
        // s_sub_u32 s8, s8, 1; s_cmp_lg_u32 s8, 0; s_cbranch_scc1; s_endpgm
        code.extend([0x8088_8108, 0xbf07_8008, 0xbf85_0000 | u32::from(back), 0xbf81_0000]);
        // Denormals are kept; two user registers with the address of the arguments.
        let kernel = Kernel { code: &code, registers: [0xf << 16, 2 << 1, 1 << 3], lds: 64 << 10 };
        group.throughput(Throughput::Elements((COPIES * per_copy + 3) as u64));
        group.bench_function(name, |b| {
            b.iter_custom(|loops| {
                let [low, high] = halves(bench.data.va);
                bench.kernels.load(&kernel, &[low, high, u32::try_from(loops).expect("32 bits")]);
                bench.time(64, [64, 1])
            });
        });
    }
    group.finish();
}

/// Matrix multiplication: the loop on one core, and the whole on all.
fn matrices(c: &mut Criterion) {
    let mut bench = Bench::new();
    // What the compiler wrote into the kernels' descriptors.
    bench.load_gemm(SGEMM, [0x00af_0041, 0x18c, 9]);
    let mut group = c.benchmark_group("matrices");
    // The loop has 15 instructions for each of its rounds, of 4 waves.
    group.throughput(Throughput::Elements(u64::from(N) * 15 * 4));
    group.bench_function("sgemm loop, one workgroup", |b| {
        b.iter_custom(|rounds| (0..rounds).map(|_| bench.time(256, [256, 1])).sum());
    });
    group.throughput(Throughput::Elements(u64::from(N) * 15 * u64::from(N * N / 64)));
    group.bench_function("sgemm of 1024 x 1024", |b| {
        b.iter_custom(|rounds| (0..rounds).map(|_| bench.time(256, [N / 64 * 256, N / 4])).sum());
    });
    bench.load_gemm(HGEMM, [0x00af_0043, 0x18c, 9]);
    group.throughput(Throughput::Elements(u64::from(N / 8) * u64::from(N * N / 1024)));
    group.bench_function("fp16 gemm of 1024 x 1024 by v_mfma_f32_32x32x8f16", |b| {
        b.iter_custom(|rounds| (0..rounds).map(|_| bench.time(256, [N / 64 * 256, N / 64])).sum());
    });
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args()
}

criterion_group! { name = benches; config = short(); targets = families, matrices }

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
}
