//! Kernels in virtual machines: HIP's and OpenCL's, on Debian 13's unmodified runtimes and our library, in guests whose GPU a
//! `vhost-device-kfd` on the host shows them. HIP programs are compiled on the host; OpenCL compiles in the guest.

use std::time::{Duration, Instant};

use vm_tests::table::{self, Sharing, Table};
use vm_tests::{Kernel, Result, RocmGuest, Run, kernels, programs};

/// For a program in a guest under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the host may take to end what a guest's program left.
const GONE: Duration = Duration::from_secs(20);

/// What the program printed; it has ended well, and so has its worker on the host.
fn printed(guest: &mut RocmGuest, argv: &[&str]) -> Result<String> {
    let start = Instant::now();
    let output = guest.run(Run::new(argv.iter().copied()).timeout(LIMIT))?.success()?;
    guest.daemon().wait_for_workers(0, GONE)?;
    println!("{argv:?}: {:.1} s\n{output}", start.elapsed().as_secs_f64());
    Ok(output)
}

fn hip_is_right(guest: &mut RocmGuest, processor: &str) -> Result<()> {
    let program = guest.program(&kernels::compile_hip("hip_kernels")?)?;
    let table = Table::parse(&printed(guest, &[&program])?);
    assert!(table.device.contains(&format!("({processor}:")), "{table:?}");
    table.assert_all_right(&table::HIP);
    // A stock guest has no way to share memory of the program's own. Copies do not need it.
    assert_eq!(table.sharing(table::HOST_REGISTER), Sharing::IsRefused);
    Ok(())
}

fn opencl_is_right(guest: &mut RocmGuest, processor: &str) -> Result<()> {
    let program = programs::compile_c("opencl_kernels.c", &["-l:libOpenCL.so.1", "-lm"])?;
    let (program, source) = (guest.program(&program)?, guest.program(&kernels::source("opencl.cl"))?);
    let output = printed(guest, &[&program, &source])?;
    let table = Table::parse(&output);
    assert!(table.device.contains(&format!("({processor}:")), "{output}");
    assert!(output.contains("compiled in "), "{output}");
    table.assert_all_right(&table::OPENCL);
    assert_eq!(table.sharing(table::MAPPED_BUFFER), Sharing::IsRefused);
    Ok(())
}

/// Two programs with four queues each, at once. Stock guests share no memory of their own, and processes none with each other.
fn queues_work(guest: &mut RocmGuest, processor: &str) -> Result<()> {
    let program = programs::compile_c("hsa_queues", &["-l:libhsa-runtime64.so.1"])?;
    let program = guest.program(&program)?;
    let object = guest.program(&kernels::compile_kernels("queues.cl", processor)?)?;
    let output = printed(guest, &[&program, &object, "two", "1000"])?;
    assert_eq!(
        output.lines().collect::<Vec<_>>(),
        [
            "320 turns of 4 queues",
            "memory of two processes: refused",
            "a chain of 64 signals",
            "100 rounds of barriers between queues",
            "1000 dispatches back to back",
            "pinned memory with 4 queues and the CPU",
            "registered memory: refused",
            "all right",
        ]
    );
    let output = printed(guest, &[&program, &object, "endless"])?;
    assert!(output.contains("a process with an endless kernel ends"), "{output}");
    Ok(())
}

fn kernels_are_right(gpu: &str, processor: &str) -> Result<()> {
    let start = Instant::now();
    let mut guest = RocmGuest::boot(Kernel::stock()?, gpu, |_| ())?;
    println!("{gpu}: booted in {:.1} s", start.elapsed().as_secs_f64());
    hip_is_right(&mut guest, processor)?;
    opencl_is_right(&mut guest, processor)?;
    queues_work(&mut guest, processor)?;
    guest.power_off()
}

#[test]
fn kernels_of_gfx90a_are_right_in_a_guest() -> Result<()> {
    kernels_are_right("soft:mi210", "gfx90a")
}

#[test]
fn kernels_of_gfx942_are_right_in_a_guest() -> Result<()> {
    kernels_are_right("soft:mi300x", "gfx942")
}
