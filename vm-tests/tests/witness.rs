//! The real KFD as a witness: what Debian's kernel 6.12 answers without a GPU, and what the software KFD answers.
//!
//! One static program makes several hundred calls and prints a line for each (`src/bin/ioctl_table`). Nothing of
//! what it should print is written down here: the kernel says it.

use std::{process::Command, time::Duration};

use vm_tests::{Config, Result, Run, Vm, command, programs};

/// The program waits for a few seconds all in all; a guest under TCG on a busy machine is many times slower.
const LIMIT: Duration = Duration::from_secs(300);

/// Lines that the table has at least, so that an empty output cannot pass.
const FEWEST_CALLS: usize = 500;

#[test]
fn software_kfd_answers_every_call_of_the_table_as_the_kernel_does() -> Result<()> {
    let table = programs::static_bin("ioctl_table")?;
    let softgpu = programs::softgpu()?;
    let mut vm = Vm::boot(&Config::stock()?.module("amdgpu").program(&table))?;
    let real = vm.run(&Run::new(["ioctl_table"]).timeout(LIMIT))?.success()?;
    vm.power_off()?;

    let mut run = Command::new(softgpu);
    run.args(["run", "--profile", "cpu-only", "--kernel", "6.12", "--"]).arg(&table);
    let soft = command::succeed(&mut run, LIMIT)?;

    assert!(real.lines().count() >= FEWEST_CALLS, "the table is cut short:\n{real}");
    let differing: Vec<String> = real
        .lines()
        .zip(soft.lines())
        .filter(|(real, soft)| real != soft)
        .map(|(real, soft)| format!("kernel  {real}\nsoftgpu {soft}"))
        .collect();
    assert!(differing.is_empty(), "{} calls differ:\n{}", differing.len(), differing.join("\n"));
    assert_eq!(real.lines().count(), soft.lines().count(), "one of the tables is longer");
    Ok(())
}
