//! `hip/hip_faults`: kernels that must fail, on Debian's own runtimes, with Debian's libhsakmt and with ours. What the runtimes say is
//! theirs; that they say it is the software GPU's doing: a fault, an exception of a queue, the way of a message to the host.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use vm_tests::{Release, Result, Shown, kernels, programs};

/// How a kernel that never ends may delay the end of its program, on a busy machine.
const LEAVING: Duration = Duration::from_secs(10);

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// `main` returns.
    Well,
    /// The runtime aborts.
    Aborted,
    /// It leaves by itself, with this status.
    Left(i32),
}

/// A kernel, how its program ends, and what is printed among other things.
type Case = (&'static str, End, &'static [&'static str]);

const CASES: [Case; 9] = [
    (
        "out-of-bounds",
        End::Aborted,
        &["Memory access fault by GPU node-", "on address 0x123456789000", "Page not present"],
    ),
    ("illegal", End::Aborted, &["HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", "code: 0x2a"]),
    ("trap", End::Aborted, &["HSA_STATUS_ERROR_EXCEPTION", "code: 0x1016"]),
    ("assert", End::Aborted, &["Device-side assertion `value == 42' failed", "HSA_STATUS_ERROR_EXCEPTION"]),
    (
        "printf",
        End::Well,
        &[
            "item 0 of group 0 says yes",
            "item 1 of group 0 says yes",
            "item 0 of group 1 says yes",
            "item 1 of group 1 says yes",
            "synchronize: hipSuccess",
        ],
    ),
    ("misaligned", End::Well, &["all words are right"]),
    ("local", End::Well, &["launch: hipError", "synchronize: hipSuccess"]),
    ("scratch", End::Well, &["all items are right"]),
    ("endless", End::Left(7), &["launch: hipSuccess", "leaving"]),
];

fn fail_in_the_right_way(release: &Release, profile: &str) -> Result<()> {
    let program = kernels::compile_hip("hip_faults")?;
    let ours = programs::thunk_dir()?;
    for library in [None, Some(ours.as_path())] {
        for (case, end, printed) in CASES {
            let start = Instant::now();
            let argv = [program.as_os_str(), OsStr::new(case)];
            let finished = release.run(Shown::Profile(profile), &argv, library)?;
            let output = format!(
                "{}\n{}",
                String::from_utf8_lossy(&finished.stdout),
                String::from_utf8_lossy(&finished.stderr)
            );
            let what = format!("{profile} {case}, library {library:?}: {}\n{output}", finished.status);
            match end {
                End::Well => assert!(finished.status.success(), "{what}"),
                End::Left(status) => assert_eq!(finished.status.code(), Some(status), "{what}"),
                // By the signal, or as a shell tells of it.
                End::Aborted => assert!(
                    !finished.status.success() && matches!(finished.status.code(), None | Some(134)),
                    "{what}"
                ),
            }
            // In any order: both streams are the program's.
            for text in printed {
                assert!(output.contains(text), "`{text}` is missing: {what}");
            }
            assert!(case != "endless" || start.elapsed() < LEAVING, "{:?}: {what}", start.elapsed());
        }
    }
    Ok(())
}

#[test]
fn kernels_that_must_fail_do_so_as_on_hardware_with_debian_12s_hip() -> Result<()> {
    fail_in_the_right_way(&Release::Twelve, "mi210")
}

#[test]
fn kernels_that_must_fail_do_so_as_on_hardware_with_debian_13s_hip() -> Result<()> {
    fail_in_the_right_way(&Release::thirteen()?, "mi300x")
}
