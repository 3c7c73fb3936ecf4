//! `c/hsa_kernels`: kernels compiled by clang for gfx90a and gfx942, dispatched through Debian's own HSA runtimes on the software
//! GPU. The program checks every result on the CPU itself; here it must have done so.

use std::path::Path;

use vm_tests::{Release, Result, Shown, kernels, programs};

/// Kernels that the program has.
const KERNELS: usize = 11;

/// Runs the program with Debian's libhsakmt and with ours; returns what each printed.
fn run(release: &Release, profile: &str, object: &Path, what: &[&str]) -> Result<[String; 2]> {
    let program = programs::compile_c("hsa_kernels", &["-l:libhsa-runtime64.so.1", "-lm"])?;
    let mut argv =
        vec![program.to_str().expect("a path in UTF-8"), object.to_str().expect("a path in UTF-8")];
    argv.extend(what);
    let mut printed = [String::new(), String::new()];
    for (printed, library) in printed.iter_mut().zip([None, Some(programs::thunk_dir()?)]) {
        let finished = release.run(Shown::Profile(profile), &argv, library.as_deref())?;
        *printed = String::from_utf8_lossy(&finished.stdout).into_owned();
        assert!(
            finished.status.success(),
            "{argv:?} on {profile}: {}\n{printed}\n{}",
            finished.status,
            String::from_utf8_lossy(&finished.stderr)
        );
    }
    Ok(printed)
}

#[test]
fn kernels_compute_what_the_cpu_does() -> Result<()> {
    let thirteen = Release::thirteen()?;
    for (release, profile, processor) in [
        (&Release::Twelve, "mi210", "gfx90a"),
        (&thirteen, "mi210", "gfx90a"),
        (&thirteen, "mi300x", "gfx942"),
    ] {
        let object = kernels::compile_kernels("corpus.cl", processor)?;
        for printed in run(release, profile, &object, &[])? {
            assert_eq!(printed.matches(" right, ").count(), KERNELS, "{processor}:\n{printed}");
            assert!(printed.ends_with("all right\n"), "{processor}:\n{printed}");
        }
    }
    Ok(())
}

#[test]
fn kernels_that_fault_or_trap_are_reported_as_the_runtime_expects() -> Result<()> {
    let object = kernels::compile_kernels("corpus.cl", "gfx90a")?;
    for printed in run(&Release::Twelve, "mi210", &object, &["fault"])? {
        assert_eq!(printed, "memory fault at 0x123456789000\n");
    }
    for printed in run(&Release::Twelve, "mi210", &object, &["trap"])? {
        // HSA_STATUS_ERROR_EXCEPTION
        assert!(printed.starts_with("queue error 0x1016\n"), "{printed}");
    }
    Ok(())
}
