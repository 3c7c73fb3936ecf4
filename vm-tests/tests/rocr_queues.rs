//! Queues at work for Debian's own HSA runtime under `softgpu run`: `c/rocr_queues.c`.
//!
//! The runtime knows our queues only through its own structures in memory, so this checks what no test of ours can
//! about itself: that signals, mailboxes, SDMA packets and error words are those of the hardware.

use std::{process::Command, time::Duration};

use vm_tests::{Result, command, programs};

const LIMIT: Duration = Duration::from_secs(240);

/// What the runtime says in the end: `hsa_status_t` of the queue's error callback, address and reason of the fault.
fn run(profile: &str, how: &str, ending: &str) -> Result<()> {
    let program = programs::compile_c("rocr_queues.c", &["-l:libhsa-runtime64.so.1"])?;
    let mut softgpu = Command::new(programs::softgpu()?);
    softgpu.args(["run", "--profile", profile, "--"]).arg(program).arg(how);
    let output = command::succeed(&mut softgpu, LIMIT)?;
    let lines: Vec<&str> = output.lines().filter(|line| !line.contains("leak detected")).collect();
    let expected = ["2000 barriers", "copies arrive and take time", ending, "end"];
    assert_eq!(lines, expected, "{profile}, {how}");
    Ok(())
}

#[test]
fn a_kernel_dispatch_is_an_invalid_code_object() -> Result<()> {
    // hsa.h: HSA_STATUS_ERROR_INVALID_CODE_OBJECT
    run("mi210", "dispatch", "dispatch: queue error 0x1010, fault at 0, reason 0")
}

#[test]
fn packets_of_unknown_type_or_format_are_malformed() -> Result<()> {
    // hsa.h: HSA_STATUS_ERROR_INVALID_PACKET_FORMAT
    run("small-bar", "packet", "packet: queue error 0x1009, fault at 0, reason 0")?;
    run("mi210", "vendor", "vendor: queue error 0x1009, fault at 0, reason 0")
}

#[test]
fn a_fault_has_its_page_and_reason() -> Result<()> {
    // hsa_ext_amd.h: HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT. The page of the signal that the barrier names.
    run("two-gpu", "fault", "fault: queue error 0, fault at 0x123000, reason 0x1")
}
