//! Our libhsakmt in the place of Debian's: Debian's ROCm must not be able to tell.

mod machines;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vm_tests::{Release, Result, Root, Shown, command, programs};

const LIMIT: Duration = Duration::from_secs(120);

/// Every built-in machine.
const PROFILES: [&str; 7] =
    ["mi210", "mi300x", "rx7900xtx", "two-gpu", "small-bar", "mi210-private", "cpu-only"];

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

#[test]
fn the_static_library_has_the_newest_layout() -> Result<()> {
    static_library_has_layout(&programs::thunk_dir()?, 396)
}

#[test]
#[ignore = "the long form, scripts/test --full: it builds the library three times"]
fn the_static_library_has_each_older_layout() -> Result<()> {
    let dirs = [356, 360, 368].map(|layout| Ok((layout, programs::thunk_dir_of_layout(layout)?)));
    dirs.into_iter()
        .try_for_each(|dir: Result<_>| dir.and_then(|(layout, dir)| static_library_has_layout(&dir, layout)))
}

/// MI210: 104 compute units of four SIMDs, device 0x740f; VRAM, LDS, scratch, SVM and MMIO as memory banks.
fn static_library_has_layout(dir: &Path, layout: u32) -> Result<()> {
    let library = dir.join("libhsakmt.a");
    let library = library.to_str().expect("a path in UTF-8");
    let program =
        programs::compile_c("static_thunk.c", &[library, "-lgcc_s", &format!("-DLAYOUT={layout}")])?;
    let mut command = Command::new(programs::softgpu()?);
    let output = command::succeed(command.args(["run", "--profile", "mi210", "--"]).arg(&program), LIMIT)?;
    let value = |name: &str| output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    for call in ["open", "acquire", "node", "close"] {
        assert_eq!(value(call), Some("0"), "{call}: {output}");
    }
    assert_eq!(value("NumFComputeCores"), Some("416"), "{output}");
    assert_eq!(value("NumMemoryBanks"), Some("5"), "{output}");
    assert_eq!(value("DeviceId"), Some("0x740f"), "{output}");
    assert_ne!(value("KFDGpuID"), Some("0"), "{output}");
    assert_eq!(value("written"), Some(layout.to_string().as_str()), "{output}");
    Ok(())
}

fn lines(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output).lines().map(str::to_owned).collect()
}

fn assert_same(what: &str, [debian, ours]: &[command::Finished; 2]) {
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
}

/// rocminfo prints the same, and at least these many agents.
fn rocminfo_is_the_same(release: &Release, what: &str, shown: Shown<'_>, agents: usize) -> Result<()> {
    let both = release.both(shown, &["rocminfo"])?;
    assert_same(what, &both);
    let output = lines(&both[1].stdout);
    let shown = output.iter().filter(|line| line.starts_with("Agent ")).count();
    assert!(shown >= agents, "{what}: {shown} agents prove nothing:\n{}", output.join("\n"));
    Ok(())
}

/// Without `mi300x`: it has two CPU nodes, and where the host has one NUMA node Debian's 5.2.3 gives up the whole
/// topology. Our library shows it, and ROCr 5.2.3 then stops at the CPU node without caches.
#[test]
fn rocminfo_5_2_3_prints_the_same() -> Result<()> {
    for profile in PROFILES.into_iter().filter(|profile| *profile != "mi300x") {
        let what = format!("rocminfo 5.2.3, {profile}");
        rocminfo_is_the_same(&Release::Twelve, &what, Shown::Profile(profile), 1)?;
    }
    Ok(())
}

#[test]
fn rocminfo_6_1_2_prints_the_same() -> Result<()> {
    let release = Release::thirteen()?;
    for profile in PROFILES {
        let what = format!("rocminfo 6.1.2, {profile}");
        rocminfo_is_the_same(&release, &what, Shown::Profile(profile), 1)?;
    }
    Ok(())
}

/// Shapes of real machines that Debian's library accepts (TOPOLOGIES.md).
#[test]
fn rocminfo_prints_the_same_for_shapes_of_real_machines() -> Result<()> {
    let (twelve, thirteen) = (Release::Twelve, Release::thirteen()?);
    for (name, release, machine, agents) in [
        ("eight MI210, one socket, 5.2.3", &twelve, machines::eight_mi210(1), 9),
        ("eight MI210, one socket, 6.1.2", &thirteen, machines::eight_mi210(1), 9),
        ("eight MI210, two sockets, 6.1.2", &thirteen, machines::eight_mi210(2), 10),
        ("32 partitions, two sockets, 6.1.2", &thirteen, machines::partitions(), 34),
        ("a card without links, 6.1.2", &thirteen, machines::card_without_links(), 2),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        machines::write(&machine, dir.path());
        rocminfo_is_the_same(release, name, Shown::Tree(dir.path()), agents)?;
    }
    Ok(())
}

/// One word of a line of clinfo's messages that no two runs have in common, made equal.
///
/// | masked | why |
/// |---|---|
/// | time stamps | of softgpu's log |
/// | numbers of nine digits and more after `0x` | addresses: the kernel chooses them at random |
/// | words 8 to 11, 14 and 15 of a packet | the same, in halves: code object, kernel arguments, completion signal |
fn masked(line: &str) -> String {
    let mut packet = None;
    let words = line.split(' ').map(|word| {
        if word == "packet" {
            packet = Some(0..);
            return word.to_owned();
        }
        let place: Option<u32> = packet.as_mut().and_then(Iterator::next);
        let digits = word.trim_end_matches(':').strip_prefix("0x").map_or(0, str::len);
        match place {
            Some(8..=11 | 14..) => "ADDRESS".to_owned(),
            _ if word.starts_with("[20") && word.ends_with('Z') => "TIME".to_owned(),
            _ if digits >= 9 => "ADDRESS".to_owned(),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_masked_is_what_differs_from_run_to_run() {
    let line = "[2026-11-30T12:35:21Z ERROR softgpu] GPU 0x7cd stops at 0x7f9c53a88000: packet \
                00011402 1 2 3 4 5 6 7 53a88000 00007f9c 53a8a000 00007f9c 0 0 4a1ffc00 00007f9c";
    let expected = "TIME ERROR softgpu] GPU 0x7cd stops at ADDRESS packet \
                    00011402 1 2 3 4 5 6 7 ADDRESS ADDRESS ADDRESS ADDRESS 0 0 ADDRESS ADDRESS";
    assert_eq!(masked(line), expected);
}

/// clinfo ends at its first kernel where the GPU's instructions are not executed, as rocm.rs says, and prints everything
/// otherwise. Both its streams are compared; two processes write to the second, so its lines have no order.
#[test]
fn clinfo_prints_the_same() -> Result<()> {
    let release = Release::thirteen()?;
    for profile in PROFILES {
        clinfo_is_the_same(&release, profile, Shown::Profile(profile), profile == "rx7900xtx")?;
    }
    Ok(())
}

#[test]
fn clinfo_prints_the_same_for_shapes_of_real_machines() -> Result<()> {
    let release = Release::thirteen()?;
    for (name, machine, ends) in [
        ("eight MI210, one socket", machines::eight_mi210(1), false),
        ("eight MI210, two sockets", machines::eight_mi210(2), false),
        ("32 partitions, two sockets", machines::partitions(), false),
        ("a card without links", machines::card_without_links(), true),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        machines::write(&machine, dir.path());
        clinfo_is_the_same(&release, name, Shown::Tree(dir.path()), ends)?;
    }
    Ok(())
}

/// clinfo prints other devices by their handles, which are addresses of its own; only their number stays.
fn without_handles(output: &[u8]) -> Vec<u8> {
    let lines = lines(output).into_iter().map(|line| match line.split_once('[') {
        Some((name, handles)) if name.contains("P2P devices") => {
            format!("{name}{}", handles.split(',').count())
        }
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

/// Where it ends at its first kernel it prints nothing before that.
fn clinfo_is_the_same(release: &Release, what: &str, shown: Shown<'_>, ends: bool) -> Result<()> {
    let mut both = release.both(shown, &["clinfo"])?;
    for finished in &mut both {
        finished.stdout = without_handles(&finished.stdout);
    }
    assert_same(&format!("clinfo, {what}"), &both);
    let [debian, ours] = both.map(|finished| {
        let mut lines: Vec<_> = lines(&finished.stderr).iter().map(|line| masked(line)).collect();
        lines.sort_unstable();
        (lines, finished.stdout.len())
    });
    assert_eq!(ours, debian, "clinfo, {what}");
    let (messages, printed) = ours;
    let end = messages.iter().any(|line| line.contains("HSA_STATUS_ERROR_INVALID_CODE_OBJECT"));
    assert_eq!((end, printed > 0), (ends, !ends), "{what}: {messages:?}");
    Ok(())
}

/// How a run ends, in short: its status, its agents, and a part of its messages.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The exit status; 134 is an assertion that failed.
    status: i32,
    agents: usize,
    says: &'static str,
}

impl End {
    fn assert(self, what: &str, finished: &command::Finished) {
        let (output, messages) = (lines(&finished.stdout), String::from_utf8_lossy(&finished.stderr));
        let agents = output.iter().filter(|line| line.starts_with("Agent ")).count();
        let status = finished.status.code().or(finished.status.signal().map(|signal| 128 + signal));
        assert_eq!((status, agents), (Some(self.status), self.agents), "{what}\n{output:?}\n{messages}");
        assert!(messages.contains(self.says), "{what}\n{messages}");
    }
}

/// Where the two libraries differ, who is right, and why.
#[test]
fn differences_are_those_that_we_want() -> Result<()> {
    let thirteen = Release::thirteen()?;
    let untaken = machines::untaken_apu();
    // The kernel shows such a node where amdgpu drives no GPU, and there is nothing wrong with its processors: Debian's
    // library ends the program (`assert` in topology_sysfs_get_node_props), ours shows the CPU.
    let assertion = End { status: 134, agents: 0, says: "HSA_OVERRIDE_GFX_VERSION may be needed" };
    let shown = End { status: 0, agents: 1, says: "" };
    let mut table = vec![
        ("a GPU that no driver took, 5.2.3", &Release::Twelve, &untaken, assertion, shown),
        ("a GPU that no driver took, 6.1.2", &thirteen, &untaken, assertion, shown),
    ];
    // Debian's 5.2.3 drops all of a topology with more CPU nodes than the host has NUMA nodes (case T02: no agent, and
    // nobody is told). Ours shows the node without caches, and ROCr 5.2.3 itself says that it needs them; 6.1.2 does not.
    let two_sockets = machines::eight_mi210(2);
    let nothing = End { status: 0, agents: 0, says: "" };
    let no_caches = End { status: 134, agents: 0, says: "CPU cache info missing" };
    if !Path::new("/sys/devices/system/node/node1").exists() {
        let name = "more CPU nodes than the host, 5.2.3";
        table.push((name, &Release::Twelve, &two_sockets, nothing, no_caches));
    }
    for (name, release, machine, debians, our) in table {
        let dir = tempfile::tempdir().expect("a temporary directory");
        machines::write(machine, dir.path());
        let [debian, ours] = release.both(Shown::Tree(dir.path()), &["rocminfo"])?;
        debians.assert(&format!("{name}, Debian's library"), &debian);
        our.assert(&format!("{name}, our library"), &ours);
    }
    Ok(())
}

/// Captures of real machines, which are not part of this repository: a directory of trees, whose names do not matter.
/// Those that Debian's library and ROCr accept must look the same; TOPOLOGIES.md lists what became of the others.
#[test]
#[ignore = "needs captured trees: KFDVIRT_TOPOLOGIES=DIR"]
fn rocminfo_prints_the_same_for_captured_trees() -> Result<()> {
    let dir = std::env::var_os("KFDVIRT_TOPOLOGIES").expect("KFDVIRT_TOPOLOGIES names a directory of trees");
    let thirteen = Release::thirteen()?;
    let mut accepted = 0;
    for entry in std::fs::read_dir(dir).expect("a directory of trees") {
        let tree = entry.expect("an entry").path();
        for (version, release) in [("5.2.3", &Release::Twelve), ("6.1.2", &thirteen)] {
            let both = release.both(Shown::Tree(&tree), &["rocminfo"])?;
            let what = format!("{}, {version}", tree.display());
            if both[0].status.success() && String::from_utf8_lossy(&both[0].stdout).contains("\nAgent ") {
                assert_same(&what, &both);
                accepted += 1;
            } else {
                println!("{what}: not accepted with Debian's library ({})", both[0].status);
            }
        }
    }
    assert!(accepted > 0, "no tree was accepted");
    Ok(())
}
