//! `thunk_bench`: our libhsakmt beside Debian's on the same KFD, as ratios.
//!
//! The work is done by vm-tests/c/thunk_bench.c, in a process for each measurement: a library opens KFD once.

mod plan;
mod program;

use std::fmt;
use std::process::ExitCode;

use clap::Parser;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use vm_tests::Error;

use plan::{Group, Scale};
use program::{Bench, Library, Time, Times};

/// Compares our libhsakmt with Debian's on the same KFD and prints a table of ratios, ours to Debian's.
///
/// The libraries take turns (ours, Debian's, Debian's, ours, ...). Of each process the best round counts; the ratio is the
/// median of those of the pairs, and stands with the least and the greatest. CPU time is that of the calling thread in the
/// program and in the kernel, without what the software GPU does. All of it runs on one processor. Instructions are those of user space, counted by callgrind.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// How many processes of each library are compared.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Use the machine's own /dev/kfd instead of the software GPU.
    #[arg(long)]
    native: bool,
    /// Profile of the software GPU.
    #[arg(long, default_value = "mi210")]
    profile: String,
    /// Leave out what needs valgrind.
    #[arg(long)]
    no_instructions: bool,
    /// A look at whether it all works, in seconds; its figures mean nothing.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    let bench = Bench::build((!cli.native).then_some(cli.profile.as_str()))?;
    stay_on_one_processor()?;
    let scale = if cli.quick { Scale::QUICK } else { Scale::FULL };
    let pairs = if cli.quick { 1 } else { cli.pairs };
    if cli.quick {
        println!("--quick: these figures show that the program works, and mean nothing else.\n");
    }
    println!("| what | live buffers | time | CPU time | Debian's time |");
    println!("|---|---|---|---|---|");
    for group in plan::timed(scale) {
        compare(&bench, &group, [(Library::Ours, &group), (Library::Debian, &group)], scale, pairs)?;
    }
    println!("\n| ours alone | live buffers | time to that without | CPU time to that without | without |");
    println!("|---|---|---|---|---|");
    let [none, many] = plan::more_than_debian(scale);
    compare(&bench, &many, [(Library::Ours, &many), (Library::Ours, &none)], scale, pairs)?;
    if !cli.no_instructions {
        println!("\n| what | live buffers | instructions | ours | Debian's |");
        println!("|---|---|---|---|---|");
        for group in plan::counted(scale) {
            count(&bench, &group, scale)?;
        }
    }
    Ok(())
}

/// The programs and the software GPU inherit it. On several processors the scheduler decides anew for each process how far the
/// way of a wake-up is, which moves a ratio by a fifth; on one the ways of both libraries are equal.
fn stay_on_one_processor() -> Result<(), Error> {
    let system = |what| move |errno: rustix::io::Errno| Error::System { what, source: errno.into() };
    let allowed = sched_getaffinity(None).map_err(system("ask which processors there are"))?;
    let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) else {
        return Ok(());
    };
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).map_err(system("stay on one processor"))
}

/// Processes of both sides in turn, and a row for each case: the first side to the second. `shown` says what is measured.
fn compare(
    bench: &Bench,
    shown: &Group,
    sides: [(Library, &Group); 2],
    scale: Scale,
    pairs: u32,
) -> Result<(), Error> {
    let mut runs = [Vec::new(), Vec::new()];
    for pair in 0..pairs {
        for side in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (Some((library, group)), Some(runs)) = (sides.get(side), runs.get_mut(side)) else {
                continue;
            };
            runs.push(bench.time(*library, group, scale)?);
        }
    }
    let [first, second] = runs;
    for case in &shown.cases {
        let best = |runs: &[Times], part: fn(&Time) -> f64| {
            runs.iter().filter_map(|run| run.get(*case).map(part)).collect()
        };
        let ratio = |part| Ratio::of(best(&first, part), &best(&second, part));
        let time = median(&sorted(best(&second, |time| time.elapsed)));
        let (elapsed, cpu) = (ratio(|time| time.elapsed), ratio(|time| time.cpu));
        println!("| {case}{} | {} | {elapsed} | {cpu} | {time:.0} ns |", shown.note, shown.live);
    }
    Ok(())
}

/// One side to the other.
struct Ratio {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Ratio {
    /// Of pairs.
    fn of(first: Vec<f64>, second: &[f64]) -> Self {
        let ratios = sorted(first.into_iter().zip(second).map(|(first, second)| first / second).collect());
        let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Self { median: median(&ratios), least: end(ratios.first()), greatest: end(ratios.last()) }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.least, self.greatest)
    }
}

fn count(bench: &Bench, group: &Group, scale: Scale) -> Result<(), Error> {
    for case in &group.cases {
        let [ours, debian] =
            [Library::Ours, Library::Debian].map(|library| bench.count(library, group, case, scale));
        let (ours, debian) = (ours?, debian?);
        println!(
            "| {case}{} | {} | {:.2} | {ours:.0} | {debian:.0} |",
            group.note,
            group.live,
            ours / debian
        );
    }
    Ok(())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Of sorted values; not a number of none.
fn median(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    if values.len().is_multiple_of(2) {
        f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
    } else {
        at(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_pairs() {
        let ratio = Ratio::of(vec![1.0, 3.0, 8.0], &[2.0, 2.0, 2.0]);
        assert_eq!(ratio.to_string(), "1.50 (0.50 to 4.00)");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median(&sorted(vec![3.0, 1.0, 2.0])) - 2.0).abs() < f64::EPSILON);
        assert!((median(&sorted(vec![4.0, 1.0, 2.0, 3.0])) - 2.5).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
    }
}
