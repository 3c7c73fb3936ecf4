//! More than a thousand results of libhsakmt, each with the source of the right one, from Debian 12's library and from
//! ours: on the software GPU, and as far as they need no GPU also on the KFD of Debian's kernel.

use std::{collections::BTreeMap, path::PathBuf, process::Command, time::Duration};

use vm_tests::{Config, Result, Run, Vm, command, programs};

/// A run takes half a minute on two idle cores.
const LIMIT: Duration = Duration::from_secs(600);

/// Of the expected lines: what it is, and where it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Gpu,
    Nothing,
}

/// A line of the file: `id | gpu or any | value | source`.
#[derive(Clone, Copy, Debug)]
struct Expected<'a> {
    id: &'a str,
    needs: Needs,
    value: &'a str,
    source: &'a str,
}

/// Whose library is tried, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Debian,
    Ours,
    /// Ours with `HSA_USE_SVM=0`: registered memory is what it was before SVM.
    OursWithoutSvm,
}

fn expected(file: &str) -> Vec<Expected<'_>> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| parse(line).unwrap_or_else(|| panic!("not `id | needs | value | source`: {line}")))
        .collect()
}

/// The expected lines with the values that our library gives where it deviates. Each deviation must be one, and must have
/// a line to deviate from.
fn deviating<'a>(lines: &[Expected<'a>], deviations: &'a str, library: Library) -> Vec<Expected<'a>> {
    let mut changed: Vec<Expected<'a>> = lines.to_vec();
    for line in deviations.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.splitn(4, " | ").collect();
        let &[id, when, value, why] = &fields[..] else {
            panic!("not `id | when | our value | why`: {line}");
        };
        let holds = match when {
            "always" => true,
            "svm" => library == Library::Ours,
            "no-svm" => library == Library::OursWithoutSvm,
            _ => panic!("neither always, svm nor no-svm: {line}"),
        };
        let found = changed.iter_mut().find(|line| line.id == id);
        let found = found.unwrap_or_else(|| panic!("nothing to deviate from, or twice the same: {line}"));
        assert_ne!(found.value, value, "no deviation: {line}");
        if holds {
            *found = Expected { value, source: why, ..*found };
        }
    }
    changed
}

fn parse(line: &str) -> Option<Expected<'_>> {
    let mut fields = line.splitn(4, " | ");
    let (id, needs) = (fields.next()?, fields.next()?);
    let needs = match needs {
        "gpu" => Needs::Gpu,
        "any" => Needs::Nothing,
        _ => return None,
    };
    let (value, source) = (fields.next()?, fields.next()?);
    (!source.is_empty()).then_some(Expected { id, needs, value, source })
}

/// Where the output is not what the file says, a line each.
fn differences(expected: &[Expected<'_>], output: &str) -> Vec<String> {
    let mut printed = BTreeMap::new();
    let mut differences = Vec::new();
    for (id, value) in output.lines().filter_map(|line| line.split_once(' ')) {
        if printed.insert(id, value).is_some() {
            differences.push(format!("{id}: printed twice"));
        }
    }
    differences.extend(expected.iter().filter_map(|line| {
        let value = printed.remove(line.id).unwrap_or("nothing");
        let Expected { id, value: right, source, .. } = line;
        (value != *right).then(|| format!("{id}: {value}, but {right} by {source}"))
    }));
    differences.extend(printed.iter().map(|(id, value)| format!("{id}: {value}, but no line expects it")));
    differences
}

fn file(name: &str) -> String {
    let path = programs::crate_dir().join("c/thunk_checks").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
    let (file, deviations) = (file("thunk_checks.expected"), file("deviations"));
    let lines = deviating(&expected(&file), &deviations, Library::Ours);
    assert_gives(Library::Ours, "mi210", &[], &lines)
}

#[test]
fn our_thunk_without_svm_deviates_less() -> Result<()> {
    let (file, deviations) = (file("thunk_checks.expected"), file("deviations"));
    let lines = deviating(&expected(&file), &deviations, Library::OursWithoutSvm);
    assert_gives(Library::OursWithoutSvm, "mi210", &[], &lines)
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
    let (file, deviations) = (file("thunk_checks.expected"), file("deviations"));
    let lines = expected(&file);
    let ours = deviating(&lines, &deviations, Library::Ours);
    assert_gives(Library::Debian, "mi210", &["--no-gpu"], &without_gpu(lines))?;
    assert_gives(Library::Ours, "mi210", &["--no-gpu"], &without_gpu(ours))
}

#[test]
fn without_gpu_calls_the_same_holds_on_the_kernels_own_kfd() -> Result<()> {
    const OURS: &str = "/kfdvirt";
    let (file, deviations) = (file("thunk_checks.expected"), file("deviations"));
    let lines = expected(&file);
    let ours = deviating(&lines, &deviations, Library::Ours);
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
