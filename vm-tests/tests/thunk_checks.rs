//! More than a thousand results of libhsakmt, each with the source of the right one, from Debian 12's library and from
//! ours: on the software GPU, and as far as they need no GPU also on the KFD of Debian's kernel.

use std::{path::PathBuf, process::Command, time::Duration};

use vm_tests::checks::{Expected, Needs, deviating, deviations, differences, expected, file};
use vm_tests::{Config, Result, Run, Vm, command, programs};

/// A run takes half a minute on two idle cores.
const LIMIT: Duration = Duration::from_secs(600);

/// Whose library is tried, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Debian,
    Ours,
    /// Ours with `HSA_USE_SVM=0`: registered memory is what it was before SVM.
    OursWithoutSvm,
}

/// The expected lines with the values that our library gives where it deviates.
fn of_library<'a>(lines: &[Expected<'a>], file: &'a str, library: Library) -> Vec<Expected<'a>> {
    deviating(lines, &deviations(file), |deviation| match deviation.when {
        "always" => true,
        "svm" => library == Library::Ours,
        "no-svm" => library == Library::OursWithoutSvm,
        _ => panic!("neither always, svm nor no-svm: {deviation:?}"),
    })
}

fn thunk_checks() -> Result<PathBuf> {
    programs::compile_c("thunk_checks", &["-lhsakmt"])
}

fn softgpu_run(library: Library, profile: &str, arguments: &[&str]) -> Result<command::Finished> {
    let mut command = Command::new(programs::softgpu()?);
    command.args(["run", "--profile", profile, "--"]).arg(thunk_checks()?).args(arguments);
    if library != Library::Debian {
        command.env("LD_LIBRARY_PATH", programs::thunk_dir()?);
    }
    if library == Library::OursWithoutSvm {
        command.env("HSA_USE_SVM", "0");
    }
    command::finish(&mut command, LIMIT)
}

/// Compares, and shows what the program and the device complained about.
fn assert_as_expected(lines: &[Expected<'_>], finished: &command::Finished) {
    let output = String::from_utf8_lossy(&finished.stdout);
    let differences = differences(lines, &output);
    let messages = String::from_utf8_lossy(&finished.stderr);
    assert!(
        differences.is_empty() && finished.status.success(),
        "{} differences, {}:\n{}\n{messages}",
        differences.len(),
        finished.status,
        differences.join("\n")
    );
}

#[test]
fn each_expected_value_stands_once_and_has_a_source() {
    let file = file("thunk_checks.expected");
    let lines = expected(&file);
    let mut ids: Vec<_> = lines.iter().map(|line| line.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), lines.len(), "an id stands twice");
    assert!(lines.len() >= 1000, "{} lines", lines.len());
}

/// What `library` is to give on this profile.
fn assert_gives(library: Library, profile: &str, arguments: &[&str], lines: &[Expected<'_>]) -> Result<()> {
    assert_as_expected(lines, &softgpu_run(library, profile, arguments)?);
    Ok(())
}

fn without_gpu(lines: Vec<Expected<'_>>) -> Vec<Expected<'_>> {
    lines.into_iter().filter(|line| line.needs == Needs::Nothing).collect()
}

#[test]
fn debian_12s_thunk_gets_what_the_kernel_gives() -> Result<()> {
    let file = file("thunk_checks.expected");
    assert_gives(Library::Debian, "mi210", &[], &expected(&file))
}

#[test]
fn our_thunk_gets_the_same_where_no_deviation_is_written() -> Result<()> {
    let (file, table) = (file("thunk_checks.expected"), file("deviations"));
    let lines = of_library(&expected(&file), &table, Library::Ours);
    assert_gives(Library::Ours, "mi210", &[], &lines)
}

#[test]
fn our_thunk_without_svm_deviates_less() -> Result<()> {
    let (file, table) = (file("thunk_checks.expected"), file("deviations"));
    let lines = of_library(&expected(&file), &table, Library::OursWithoutSvm);
    assert_gives(Library::OursWithoutSvm, "mi210", &[], &lines)
}

/// What a guest is compared with.
#[test]
fn memory_that_the_cpu_does_not_see_makes_the_written_difference() -> Result<()> {
    let (file, table, private) =
        (file("thunk_checks.expected"), file("deviations"), file("guest.deviations"));
    let lines = of_library(&expected(&file), &table, Library::Ours);
    let lines = deviating(&lines, &deviations(&private), |deviation| match deviation.when {
        "private" => true,
        "guest" | "window" | "no-window" | "names" => false,
        _ => panic!("no word of guest.deviations: {deviation:?}"),
    });
    assert_gives(Library::Ours, "mi210-private", &[], &lines)
}

#[test]
fn two_gpus_use_each_others_memory() -> Result<()> {
    let file = file("two_gpus.expected");
    for library in [Library::Debian, Library::Ours] {
        assert_gives(library, "two-gpu", &["--two-gpus"], &expected(&file))?;
    }
    Ok(())
}

#[test]
fn without_gpu_calls_the_same_holds_on_the_software_gpu() -> Result<()> {
    let (file, table) = (file("thunk_checks.expected"), file("deviations"));
    let lines = expected(&file);
    let ours = of_library(&lines, &table, Library::Ours);
    assert_gives(Library::Debian, "mi210", &["--no-gpu"], &without_gpu(lines))?;
    assert_gives(Library::Ours, "mi210", &["--no-gpu"], &without_gpu(ours))
}

#[test]
fn without_gpu_calls_the_same_holds_on_the_kernels_own_kfd() -> Result<()> {
    const OURS: &str = "/kfdvirt";
    let (file, table) = (file("thunk_checks.expected"), file("deviations"));
    let lines = expected(&file);
    let ours = of_library(&lines, &table, Library::Ours);
    let library = programs::thunk_dir()?.join("libhsakmt.so.1");
    let config = Config::stock()?.module("amdgpu").program(&thunk_checks()?);
    let mut vm = Vm::boot(&config.library(OURS, &library)?)?;

    let run = Run::new(["thunk_checks-lhsakmt", "--no-gpu"]).timeout(LIMIT);
    for (lines, run) in [(lines, run.clone()), (ours, run.env("LD_LIBRARY_PATH", OURS))] {
        let output = vm.run(&run)?;
        let differences = differences(&without_gpu(lines), &output.stdout);
        assert!(
            differences.is_empty(),
            "{} differences, {run:?} {:?}:\n{}\n{}",
            differences.len(),
            output.end,
            differences.join("\n"),
            output.stderr
        );
        output.success()?;
    }
    vm.power_off()
}
