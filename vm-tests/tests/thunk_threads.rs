//! What a program's threads may do to our libhsakmt.

use std::process::Command;
use std::time::Duration;

use vm_tests::{Result, command, programs};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs a C program on our library under the software GPU, with everything logged to nowhere.
fn run(source: &str) -> Result<String> {
    let mut run = Command::new(programs::softgpu()?);
    run.args(["run", "--profile", "mi210", "--"]).arg(programs::compile_c(source, &["-lhsakmt"])?);
    run.env("LD_LIBRARY_PATH", programs::thunk_dir()?);
    run.env("KFDVIRT_LOG", "trace").env("KFDVIRT_LOG_FILE", "/dev/null");
    command::succeed(&mut run, LIMIT)
}

#[test]
fn a_thread_that_is_cancelled_in_a_call_takes_nothing_down() -> Result<()> {
    assert_eq!(run("cancelled_calls.c")?, "cancelled 61\n");
    Ok(())
}

#[test]
fn a_child_that_is_forked_among_busy_threads_can_make_calls() -> Result<()> {
    assert_eq!(run("fork_among_threads.c")?, "children that hung: 0\n");
    Ok(())
}

#[test]
fn a_child_that_is_forked_while_the_library_is_opened_first_can_open_it() -> Result<()> {
    assert_eq!(run("fork_in_first_open.c")?, "children that hung: 0\n");
    Ok(())
}
