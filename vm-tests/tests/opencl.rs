//! `c/opencl_kernels` on Debian 13's OpenCL, whose compiler compiles the kernels at run time, on the software GPU. The program
//! checks every result on the CPU itself.

use vm_tests::table::{self, Sharing, Table};
use vm_tests::{Release, Result, Shown, kernels, programs};

#[test]
fn kernels_that_the_runtime_compiles_are_right() -> Result<()> {
    let program = programs::compile_c("opencl_kernels.c", &["-l:libOpenCL.so.1", "-lm"])?;
    let source = kernels::source("opencl.cl");
    for (profile, processor) in [("mi210", "gfx90a"), ("mi300x", "gfx942")] {
        for finished in Release::thirteen()?.both(Shown::Profile(profile), &[&program, &source])? {
            let output = String::from_utf8_lossy(&finished.stdout);
            let messages = String::from_utf8_lossy(&finished.stderr);
            assert!(finished.status.success(), "{profile}: {}\n{output}\n{messages}", finished.status);
            let table = Table::parse(&output);
            assert!(table.device.contains(&format!("({processor}:")), "{output}");
            assert!(output.contains("compiled in "), "{output}");
            table.assert_all_right(&table::OPENCL);
            assert_eq!(table.sharing(table::MAPPED_BUFFER), Sharing::Works);
        }
    }
    Ok(())
}
