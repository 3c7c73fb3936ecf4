//! `c/hsa_copy`: GPU memory, copies, barriers and sleeping waits through Debian's own HSA runtimes, with Debian's libhsakmt and
//! with ours. The program checks every byte and signal itself; here it must have done so.

use vm_tests::{Release, Result, Shown, command, programs};

/// The kinds of lines that a complete run prints, and how many of each: the table has a row for each size that is shown.
const PARTS: [(&str, usize); 6] = [
    (", GPU gfx", 1),
    (" MiB/s", 8),
    ("copies: 144 of 1 B to 64 MiB, at aligned and other addresses, every byte right", 1),
    ("barriers: 400 of AND and OR wait for their signals", 1),
    ("waits: ", 3),
    ("all right", 1),
];

fn assert_is_complete(what: &str, finished: &command::Finished) {
    let (output, messages) =
        (String::from_utf8_lossy(&finished.stdout), String::from_utf8_lossy(&finished.stderr));
    assert!(finished.status.success(), "{what}: {}\n{output}\n{messages}", finished.status);
    for (part, count) in PARTS {
        let found = output.lines().filter(|line| line.contains(part)).count();
        assert_eq!(found, count, "{what}: lines with {part:?} in\n{output}");
    }
}

fn everything_is_right(release: &Release, name: &str, profiles: &[&str]) -> Result<()> {
    let program = programs::compile_c("hsa_copy", &["-l:libhsa-runtime64.so.1"])?;
    for profile in profiles {
        let [debian, ours] = release.both(Shown::Profile(profile), &[&program])?;
        assert_is_complete(&format!("ROCr {name}, Debian's library, {profile}"), &debian);
        assert_is_complete(&format!("ROCr {name}, our library, {profile}"), &ours);
        println!("ROCr {name}, our library, {profile}:\n{}", String::from_utf8_lossy(&ours.stdout));
    }
    Ok(())
}

#[test]
fn copies_barriers_and_waits_are_right_for_rocr_5_2_3() -> Result<()> {
    everything_is_right(&Release::Twelve, "5.2.3", &["mi210", "mi210-private", "two-gpu"])
}

#[test]
fn copies_barriers_and_waits_are_right_for_rocr_6_1_2() -> Result<()> {
    let profiles = ["mi210", "mi210-private", "two-gpu", "mi300x", "rx7900xtx"];
    everything_is_right(&Release::thirteen()?, "6.1.2", &profiles)
}

/// What the tests in guests do for longer.
#[test]
fn threads_that_allocate_copy_wait_and_free_get_what_they_wrote() -> Result<()> {
    let program = programs::compile_c("hsa_copy", &["-l:libhsa-runtime64.so.1"])?;
    let program = program.to_str().expect("a path in UTF-8");
    let library = programs::thunk_dir()?;
    for (argv, says) in [
        (vec![program, "stress", "4", "4"], "stress: 4 threads"),
        (
            vec![program, "waits", "200"],
            "waits: 200 threads asleep, each woken by its own signal in random order",
        ),
    ] {
        let finished = Release::Twelve.run(Shown::Profile("mi210"), &argv, Some(&library))?;
        let output = String::from_utf8_lossy(&finished.stdout);
        assert!(
            finished.status.success() && output.contains(says) && output.ends_with("all right\n"),
            "{argv:?}: {}\n{output}\n{}",
            finished.status,
            String::from_utf8_lossy(&finished.stderr)
        );
    }
    Ok(())
}
