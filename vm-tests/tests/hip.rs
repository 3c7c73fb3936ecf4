//! `hip/hip_kernels`: a program of HIP's on Debian's own runtimes, on the software GPU. It checks every result on the CPU itself, and
//! prints a table; here the table must be whole and right.

use std::{ffi::OsStr, path::Path};

use vm_tests::table::{self, Sharing, Table};
use vm_tests::{Release, Result, Shown, kernels, programs};

/// HIP 5.2.3 ends a program in `hipHostUnregister` where the GPU sees registered memory at the program's own address, as with any
/// libhsakmt that uses SVM. (It takes one address out of its list twice.)
const WITHOUT_SVM: [&str; 2] = ["env", "HSA_USE_SVM=0"];

/// Runs it with Debian's library and with ours.
fn is_right(release: &Release, profile: &str, processor: &str, arguments: &[&str]) -> Result<()> {
    let program = kernels::compile_hip("hip_kernels")?;
    let ours = programs::thunk_dir()?;
    for library in [None, Some(ours.as_path())] {
        let options: &[&str] = if needs_no_svm(release, library) { &WITHOUT_SVM } else { &[] };
        let argv: Vec<&OsStr> = options
            .iter()
            .map(OsStr::new)
            .chain([program.as_os_str()])
            .chain(arguments.iter().map(OsStr::new))
            .collect();
        let finished = release.run(Shown::Profile(profile), &argv, library)?;
        let output = String::from_utf8_lossy(&finished.stdout);
        let messages = String::from_utf8_lossy(&finished.stderr);
        assert!(finished.status.success(), "{profile}: {}\n{output}\n{messages}", finished.status);
        let table = Table::parse(&output);
        assert!(table.device.contains(&format!("({processor}:")), "{output}");
        table.assert_all_right(&table::HIP);
        assert_eq!(table.sharing(table::HOST_REGISTER), Sharing::Works);
        println!("{output}");
    }
    Ok(())
}

fn needs_no_svm(release: &Release, library: Option<&Path>) -> bool {
    matches!(release, Release::Twelve) && library.is_some()
}

fn everything_is_right(arguments: &[&str]) -> Result<()> {
    let thirteen = Release::thirteen()?;
    is_right(&Release::Twelve, "mi210", "gfx90a", arguments)?;
    is_right(&thirteen, "mi210", "gfx90a", arguments)?;
    is_right(&thirteen, "mi300x", "gfx942", arguments)
}

#[test]
fn kernels_and_copies_are_right_on_debians_runtimes() -> Result<()> {
    everything_is_right(&[])
}

#[test]
#[ignore = "the long form, scripts/test --full"]
fn kernels_of_millions_of_items_are_right_on_debians_runtimes() -> Result<()> {
    everything_is_right(&["large"])
}
