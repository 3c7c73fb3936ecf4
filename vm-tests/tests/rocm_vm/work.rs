//! Copies, barriers and waits: `c/hsa_copy`, which checks every byte and signal itself.

use std::path::PathBuf;
use std::time::Duration;

use vm_tests::{Result, RocmGuest, Run, programs, vm_bench};

use crate::LIMIT;

/// The program, for Debian 13's runtime as well as the host's.
pub fn hsa_copy(guest: &mut RocmGuest) -> Result<()> {
    let program: PathBuf = programs::compile_c("hsa_copy", &["-l:libhsa-runtime64.so.1"])?;
    guest.program(&program).map(drop)
}

/// Its name in the guest's `PATH`.
pub const HSA_COPY: &str = "hsa_copy-l-libhsa-runtime64-so-1";

/// Runs it to its end, which must say that all was right.
fn all_right(guest: &mut RocmGuest, arguments: &[&str]) -> Result<String> {
    hsa_copy(guest)?;
    let argv = std::iter::once(HSA_COPY).chain(arguments.iter().copied());
    let output = guest.run(Run::new(argv).timeout(LIMIT))?.success()?;
    assert!(output.ends_with("all right\n"), "{output}");
    Ok(output)
}

pub fn copies_barriers_and_waits_are_right(guest: &mut RocmGuest) -> Result<()> {
    let output = all_right(guest, &[])?;
    println!("{output}");
    assert!(output.contains("copies: 144 of 1 B to 64 MiB"), "{output}");
    Ok(())
}

pub fn two_hundred_threads_wait_for_two_hundred_signals(guest: &mut RocmGuest) -> Result<()> {
    let output = all_right(guest, &["waits", "200"])?;
    assert!(output.contains("200 threads asleep, each woken by its own signal in random order"), "{output}");
    Ok(())
}

/// A short look whether the GPU works.
pub fn sleepers_are_woken(guest: &mut RocmGuest) -> Result<()> {
    all_right(guest, &["waits", "16"]).map(drop)
}

pub fn four_threads_get_what_they_wrote(guest: &mut RocmGuest) -> Result<()> {
    let output = all_right(guest, &["stress", "10", "4"])?;
    assert!(output.contains("stress: 4 threads"), "{output}");
    Ok(())
}

/// A look at whether the benchmark works; its figures mean nothing.
pub fn the_benchmark_measures_all_of_its_rows(guest: &mut RocmGuest) -> Result<()> {
    let rows = vm_bench::in_guest(guest, 20)?;
    for name in vm_bench::ROWS.into_iter().chain(vm_bench::OF_GUESTS) {
        let row = rows.get(name).unwrap_or_else(|| panic!("no {name}: {rows:?}"));
        assert!(row.least > 0.0 && row.least <= row.median && row.median <= row.greatest, "{name}: {row:?}");
    }
    assert_eq!(rows.get(vm_bench::COPY_VRAM).is_some(), guest.has_window(), "{rows:?}");
    let taken = vm_bench::idle(guest, "queue", Duration::from_millis(200))?;
    assert!(taken.all > 0.0 && taken.all >= taken.relay, "{taken:?}");
    Ok(())
}

/// Runs the program eight times at once, and prints what all of them said.
const EIGHT: &str = "for i in 1 2 3 4 5 6 7 8; do $0 stress $1 4 >/tmp/stress.$i 2>&1 & pids=\"$pids $!\"; done; \
                     bad=0; for pid in $pids; do wait $pid || bad=1; done; cat /tmp/stress.*; exit $bad";
/// Seconds that they run, unless this variable says otherwise (scripts/test --full does): CI has no more.
const SECONDS: &str = "20";
const SECONDS_VARIABLE: &str = "KFDVIRT_STRESS_SECONDS";

pub fn eight_processes_of_four_threads_get_what_they_wrote(guest: &mut RocmGuest) -> Result<()> {
    hsa_copy(guest)?;
    let seconds = std::env::var(SECONDS_VARIABLE).unwrap_or_else(|_| SECONDS.to_owned());
    let run = Run::new(["sh", "-c", EIGHT, HSA_COPY, &seconds]).timeout(LIMIT);

    let output = guest.run(run)?.success()?;

    assert_eq!(output.matches("all right\n").count(), 8, "{output}");
    let rounds = output.lines().filter(|line| line.starts_with("stress: 4 threads")).count();
    assert_eq!(rounds, 8, "{output}");
    Ok(())
}
