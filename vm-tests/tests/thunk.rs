//! Our libhsakmt in the place of Debian's: Debian's ROCm must not be able to tell.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vm_tests::{Result, Root, RootCommand, command, programs};

const LIMIT: Duration = Duration::from_secs(120);

/// Every built-in machine.
const PROFILES: [&str; 6] = ["mi210", "mi300x", "rx7900xtx", "two-gpu", "small-bar", "cpu-only"];

/// The library that Debian 12 has, where the linker finds it.
const DEBIAN_12: &str = "/usr/lib/x86_64-linux-gnu/libhsakmt.so.1";

/// The names that a library exports, with their version nodes (`hsaKmtOpenKFD@@HSAKMT_1`), but the name of the node.
fn exports(library: &Path) -> Result<BTreeSet<String>> {
    let output =
        command::succeed(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library), LIMIT)?;
    let names = output.lines().filter_map(|line| line.split_whitespace().nth(2));
    Ok(names.filter(|name| !name.starts_with("HSAKMT_1")).map(str::to_owned).collect())
}

#[test]
fn every_name_of_the_table_is_exported_and_nothing_else() -> Result<()> {
    let exported = exports(&programs::thunk_dir()?.join("libhsakmt.so.1"))?;
    let table = command::succeed(
        Command::new(programs::softgpu()?.with_file_name("hsakmt-names")).arg("list"),
        LIMIT,
    )?;
    let expected: BTreeSet<String> = table.lines().map(|name| format!("{name}@@HSAKMT_1")).collect();
    assert!(expected.len() > 200, "{table}");
    assert_eq!(exported, expected);
    Ok(())
}

#[test]
fn every_name_that_debian_exports_is_ours_too() -> Result<()> {
    let ours = exports(&programs::thunk_dir()?.join("libhsakmt.so.1"))?;
    let root = Root::trixie()?;
    for library in [Path::new(DEBIAN_12), &root.dir().join(DEBIAN_12.trim_start_matches('/'))] {
        let debian = exports(library)?;
        assert!(debian.len() >= 67, "{}: {} names", library.display(), debian.len());
        let missing: Vec<_> = debian.difference(&ours).collect();
        assert_eq!(missing, Vec::<&String>::new(), "{}", library.display());
    }
    Ok(())
}

/// A program of Debian 12 under a profile, with our library or Debian's.
fn debian_12(profile: &str, program: &str, library: Option<&Path>) -> Result<command::Finished> {
    let mut command = Command::new(programs::softgpu()?);
    command.args(["run", "--profile", profile, "--", program]);
    if let Some(dir) = library {
        command.env("LD_LIBRARY_PATH", dir);
    }
    command::finish(&mut command, LIMIT)
}

/// A program of Debian 13 in its root.
fn debian_13(root: &Root, profile: &str, program: &str, library: Option<&Path>) -> Result<command::Finished> {
    let softgpu = programs::softgpu()?;
    let inside = RootCommand::host(&softgpu);
    let mut command = root.command(inside).args(["run", "--profile", profile, "--", program]);
    command = command.bind(softgpu.parent().unwrap_or(Path::new("/")));
    if let Some(dir) = library {
        command = command.bind(dir).env("LD_LIBRARY_PATH", RootCommand::host(dir));
    }
    command::finish(&mut command.build(), LIMIT)
}

fn lines(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output).lines().map(str::to_owned).collect()
}

fn assert_same(what: &str, debian: &command::Finished, ours: &command::Finished) {
    let (theirs, mine) = (lines(&debian.stdout), lines(&ours.stdout));
    let differences: Vec<String> = theirs
        .iter()
        .zip(&mine)
        .filter(|(theirs, mine)| theirs != mine)
        .map(|(theirs, mine)| format!("Debian: {theirs}\n  ours: {mine}"))
        .collect();
    assert!(
        theirs == mine && debian.status == ours.status,
        "{what}: {} lines and {} with Debian's library, {} and {} with ours\n{}\n{}\n{}",
        theirs.len(),
        debian.status,
        mine.len(),
        ours.status,
        differences.join("\n"),
        String::from_utf8_lossy(&debian.stderr),
        String::from_utf8_lossy(&ours.stderr),
    );
    assert!(theirs.len() > 30, "{what}: an output of {} lines proves nothing", theirs.len());
}

/// Without `mi300x`: it has two CPU nodes, and where the host has one NUMA node Debian's 5.2.3 gives up the whole
/// topology. Our library shows it, and ROCr 5.2.3 then stops at the CPU node without caches.
#[test]
fn rocminfo_5_2_3_prints_the_same() -> Result<()> {
    let dir = programs::thunk_dir()?;
    for profile in PROFILES.into_iter().filter(|profile| *profile != "mi300x") {
        let debian = debian_12(profile, "rocminfo", None)?;
        let ours = debian_12(profile, "rocminfo", Some(&dir))?;
        assert_same(&format!("rocminfo 5.2.3, {profile}"), &debian, &ours);
    }
    Ok(())
}

#[test]
fn rocminfo_6_1_2_prints_the_same() -> Result<()> {
    let (root, dir) = (Root::trixie()?, programs::thunk_dir()?);
    for profile in PROFILES {
        let debian = debian_13(&root, profile, "rocminfo", None)?;
        let ours = debian_13(&root, profile, "rocminfo", Some(&dir))?;
        assert_same(&format!("rocminfo 6.1.2, {profile}"), &debian, &ours);
    }
    Ok(())
}
