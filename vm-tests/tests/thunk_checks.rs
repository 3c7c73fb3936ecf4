//! More than a thousand results of Debian 12's libhsakmt, each with the source of the right one: on the software GPU,
//! and as far as they need no GPU also on the KFD of Debian's kernel.

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
struct Expected<'a> {
    id: &'a str,
    needs: Needs,
    value: &'a str,
    source: &'a str,
}

fn expected(file: &str) -> Vec<Expected<'_>> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| parse(line).unwrap_or_else(|| panic!("not `id | needs | value | source`: {line}")))
        .collect()
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
fn differences(expected: &[&Expected<'_>], output: &str) -> Vec<String> {
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

fn softgpu_run(profile: &str, arguments: &[&str]) -> Result<command::Finished> {
    let mut command = Command::new(programs::softgpu()?);
    command.args(["run", "--profile", profile, "--"]).arg(thunk_checks()?).args(arguments);
    command::finish(&mut command, LIMIT)
}

/// Compares, and shows what the program and the device complained about.
fn assert_as_expected(lines: &[&Expected<'_>], finished: &command::Finished) {
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

#[test]
fn debian_12s_thunk_gets_what_the_kernel_gives() -> Result<()> {
    let file = file("thunk_checks.expected");
    let lines = expected(&file);
    assert_as_expected(&lines.iter().collect::<Vec<_>>(), &softgpu_run("mi210", &[])?);
    Ok(())
}

#[test]
fn two_gpus_use_each_others_memory() -> Result<()> {
    let file = file("two_gpus.expected");
    let lines = expected(&file);
    assert_as_expected(&lines.iter().collect::<Vec<_>>(), &softgpu_run("two-gpu", &["--two-gpus"])?);
    Ok(())
}

#[test]
fn without_gpu_calls_the_same_holds_on_the_software_gpu() -> Result<()> {
    let file = file("thunk_checks.expected");
    let lines = expected(&file);
    let lines: Vec<_> = lines.iter().filter(|line| line.needs == Needs::Nothing).collect();
    assert_as_expected(&lines, &softgpu_run("mi210", &["--no-gpu"])?);
    Ok(())
}

#[test]
fn without_gpu_calls_the_same_holds_on_the_kernels_own_kfd() -> Result<()> {
    let file = file("thunk_checks.expected");
    let lines = expected(&file);
    let lines: Vec<_> = lines.iter().filter(|line| line.needs == Needs::Nothing).collect();
    let mut vm = Vm::boot(&Config::stock()?.module("amdgpu").program(&thunk_checks()?))?;

    let output = vm.run(&Run::new(["thunk_checks-lhsakmt", "--no-gpu"]).timeout(LIMIT))?;

    let differences = differences(&lines, &output.stdout);
    assert!(
        differences.is_empty(),
        "{} differences, {:?}:\n{}\n{}",
        differences.len(),
        output.end,
        differences.join("\n"),
        output.stderr
    );
    output.success()?;
    vm.power_off()
}
