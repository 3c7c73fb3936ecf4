//! Our libhsakmt gives back all that it takes: after many rounds the process holds what it held before, and valgrind finds
//! no memory lost and no invalid access.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use vm_tests::{Result, command, programs};

const LIMIT: Duration = Duration::from_secs(900);

fn thunk_rounds() -> Result<PathBuf> {
    programs::compile_c("thunk_rounds.c", &["-lhsakmt"])
}

/// Runs a program on our library under the software GPU, and gives its exit status and output.
fn run_on_our_library(program: &[&str]) -> Result<(ExitStatus, String)> {
    let mut run = Command::new(programs::softgpu()?);
    run.args(["run", "--profile", "mi210", "--"]).args(program);
    run.env("LD_LIBRARY_PATH", programs::thunk_dir()?).env("HSA_USERPTR_FOR_PAGED_MEM", "0");
    let finished = command::finish(&mut run, LIMIT)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((finished.status, text(&finished.stdout) + &text(&finished.stderr)))
}

/// The same for a program that has to succeed.
fn on_our_library(program: &[&str]) -> Result<String> {
    let (status, output) = run_on_our_library(program)?;
    assert!(status.success(), "{status}:\n{output}");
    Ok(output)
}

#[test]
fn a_thousand_opens_and_ten_thousand_allocations_leave_nothing() -> Result<()> {
    let program = thunk_rounds()?;
    let output = on_our_library(&[&program.to_string_lossy(), "1000", "10000"])?;
    assert!(output.contains("after: "), "{output}");
    println!("{output}");
    Ok(())
}

/// Runs a program under valgrind, and its children: each process has to end without an error and with nothing lost.
/// Memory of the program cannot be registered there: the launcher shares it by means that valgrind hides. So paged
/// memory is KFD's (`HSA_USERPTR_FOR_PAGED_MEM=0`).
fn under_valgrind(program: &[&str]) -> Result<String> {
    let (status, output) = run_under_valgrind(program)?;
    assert!(status.success(), "{status}:\n{output}");
    Ok(output)
}

/// The same for a program that may fail.
fn run_under_valgrind(program: &[&str]) -> Result<(ExitStatus, String)> {
    let valgrind =
        ["valgrind", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=99"];
    let (status, output) = run_on_our_library(&[&valgrind[..], program].concat())?;
    let summaries = output.lines().filter(|line| line.contains("ERROR SUMMARY: "));
    let (clean, bad): (Vec<_>, Vec<_>) = summaries.partition(|line| line.contains(" 0 errors"));
    assert!(bad.is_empty() && !clean.is_empty(), "{output}");
    Ok((status, output))
}

#[test]
fn valgrind_finds_nothing_lost_and_no_invalid_access() -> Result<()> {
    let output = under_valgrind(&[&thunk_rounds()?.to_string_lossy(), "10", "100", "watched"])?;
    assert!(output.contains("after: "), "{output}");
    Ok(())
}

#[test]
fn valgrind_finds_no_use_of_an_event_that_was_destroyed_during_a_wait() -> Result<()> {
    let program = programs::compile_c("destroyed_events.c", &["-lhsakmt"])?;
    let output = under_valgrind(&[&program.to_string_lossy()])?;
    assert!(output.contains("waits that failed: 4"), "{output}");
    Ok(())
}

/// The checks with the GPU, up to the last part, in which CPU and GPU count together in registered memory.
#[test]
fn valgrind_finds_nothing_in_the_checks_with_the_gpu() -> Result<()> {
    let program = programs::compile_c("thunk_checks", &["-lhsakmt"])?;
    let (_, output) = run_under_valgrind(&[&program.to_string_lossy()])?;
    let (checks, _) = output.split_once("increment.malloc.map ERROR").expect("the last part is begun");
    let checks = checks.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_alphanumeric()));
    assert!(checks.count() > 950, "{output}");
    Ok(())
}

// With forks.
#[test]
fn valgrind_finds_nothing_in_the_checks_without_gpu() -> Result<()> {
    let program = programs::compile_c("thunk_checks", &["-lhsakmt"])?;
    let output = under_valgrind(&[&program.to_string_lossy(), "--no-gpu"])?;
    assert!(output.matches("ERROR SUMMARY: ").count() > 3, "processes that were forked:\n{output}");
    Ok(())
}
