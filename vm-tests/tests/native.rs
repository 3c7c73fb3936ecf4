//! Native KFD on the real KFD of Debian's kernel 6.12, without a GPU, and on the software one.
//!
//! The expected files were printed by the real one. The kernel's first is also what the software KFD answers.

use std::{process::Command, time::Duration};

use vm_tests::{Config, Result, Run, Vm, command, programs};

/// A guest under TCG on a busy machine is many times slower than the program's waits.
const LIMIT: Duration = Duration::from_secs(300);

const CALLS: &str = include_str!("native/calls.expected");
const ERRORS: &str = include_str!("native/errors.expected");

/// Cases E01, E03, F01, F02.
#[test]
fn native_kfd_works_on_the_kernels_kfd_and_tells_errors_apart() -> Result<()> {
    let program = programs::static_bin("native_kfd")?;
    let mut vm = Vm::boot(&Config::stock()?.module("amdgpu").program(&program))?;
    let calls = vm.run(&Run::new(["native_kfd", "calls"]).timeout(LIMIT))?.success()?;
    let errors = vm.run(&Run::new(["native_kfd", "errors"]).timeout(LIMIT))?.success()?;
    vm.power_off()?;
    assert_eq!(calls, CALLS, "left the kernel's KFD, right what it answered before");
    assert_eq!(errors, ERRORS, "left the kernel's KFD, right what it answered before");
    Ok(())
}

#[test]
fn native_kfd_works_on_the_software_kfd_as_on_the_kernels() -> Result<()> {
    let program = programs::static_bin("native_kfd")?;
    let mut run = Command::new(programs::softgpu()?);
    run.args(["run", "--profile", "cpu-only", "--kernel", "6.12", "--"]).arg(&program).arg("calls");
    let calls = command::succeed(&mut run, LIMIT)?;
    assert_eq!(calls, CALLS, "left the software KFD, right the kernel's");
    Ok(())
}
