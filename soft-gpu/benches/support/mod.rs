//! What the benchmarks share.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

#[path = "../../tests/support/program.rs"]
pub mod program;
pub mod queue;
pub mod under_run;

use std::time::Duration;

/// Something that can be timed: makes so many steps and says how long they took.
pub type Timed<'a> = (&'a str, &'a mut dyn FnMut(u64) -> Duration);

/// Times the candidates in turn, `rounds` times `steps` steps each, and prints the best time of a step and its
/// ratio to that of the first candidate. Taking turns and minima, because other work on the machine comes and goes.
pub fn compare(title: &str, rounds: usize, steps: u64, candidates: &mut [Timed<'_>]) {
    let mut best = vec![Duration::MAX; candidates.len()];
    for _ in 0..rounds {
        for ((_, time), best) in candidates.iter_mut().zip(&mut best) {
            *best = time(steps).min(*best);
        }
    }
    println!("{title}: the best of {rounds} rounds of {steps}");
    for ((name, _), time) in candidates.iter().zip(&best) {
        let nanos = time.as_nanos() as f64 / steps as f64;
        println!("  {name:<24} {nanos:>12.0} ns  {:>8.2}", time.as_secs_f64() / best[0].as_secs_f64());
    }
}

/// Steps one after the other as [`compare`] and criterion's `iter_custom` want them.
pub fn time(steps: u64, mut step: impl FnMut()) -> Duration {
    let start = std::time::Instant::now();
    for _ in 0..steps {
        step();
    }
    start.elapsed()
}
