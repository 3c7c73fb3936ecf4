//! Native KFD on the real KFD of Debian's kernels 6.12 and 7.x, without a GPU, and on the software one.
//!
//! The expected files were printed by the real one. The kernel's first is also what the software KFD answers.

use std::{process::Command, time::Duration};

use vm_tests::{Config, Kernel, Result, Run, Vm, command, programs};

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

/// The words that people need from a kernel of 7.2 or later without GPU, whose KFD cannot be opened.
const NO_GPU: &str = "/dev/kfd cannot be opened: the kernel's KFD has no GPU, and Linux 7.2 and later cannot be asked without \
                      one (EINVAL)";

/// Programs get a status, people the reason, once for each attempt; nothing is kept that hinders the next.
fn assert_says_that_there_is_no_gpu(stdout: &str, stderr: &str) {
    assert_eq!(stdout, "open KERNEL_IO_CHANNEL_NOT_OPENED\nother-mappings-are-whole yes\n", "{stderr}");
    let log: Vec<_> = stderr.lines().filter(|line| line.contains(" hsakmt")).collect();
    assert!(log.len() == 1 && log[0].contains(NO_GPU), "{stderr}");
}

/// Debian's kernel of 7.3, from the backports of Debian 13.
#[test]
fn a_kernel_of_7_2_or_later_says_that_it_has_no_gpu() -> Result<()> {
    const OURS: &str = "/kfdvirt";
    let program = programs::compile_c("conditions", &["-lhsakmt"])?;
    let library = programs::thunk_dir()?.join("libhsakmt.so.1");
    let mut config = Config::stock()?;
    config.kernel = Kernel::newest_7()?;
    let release = config.kernel.release().to_owned();
    let mut vm = Vm::boot(&config.module("amdgpu").program(&program).library(OURS, &library)?)?;

    assert!(vm.get_text("/proc/version")?.contains(&release));
    // KFD is there, with its topology: it is not that the driver is missing.
    assert_eq!(vm.get_text("/sys/module/amdgpu/initstate")?, "live");
    let nodes = "/sys/devices/virtual/kfd/kfd/topology/nodes";
    assert!(vm.get_text(&format!("{nodes}/0/properties"))?.contains("cpu_cores_count 2\n"));
    let output = vm.run(&Run::new(["conditions-lhsakmt"]).env("LD_LIBRARY_PATH", OURS))?;
    assert_says_that_there_is_no_gpu(&output.stdout, &output.stderr);
    vm.power_off()
}

#[test]
fn softgpu_without_gpu_is_as_a_kernel_of_7_3_without() -> Result<()> {
    let mut run = Command::new(programs::softgpu()?);
    run.args(["run", "--profile", "cpu-only", "--kernel", "7.3", "--"]);
    run.arg(programs::compile_c("conditions", &["-lhsakmt"])?);
    let finished = command::finish(run.env("LD_LIBRARY_PATH", programs::thunk_dir()?), LIMIT)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_says_that_there_is_no_gpu(&text(&finished.stdout), &text(&finished.stderr));
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
