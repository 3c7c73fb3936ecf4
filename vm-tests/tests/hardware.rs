//! `scripts/test-hardware`, as far as it can be tried without hardware: on the software GPU, and on the kernel's own KFD in a
//! guest without GPU. Its report must hold every section and nothing private.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use softgpu::{Kernel, Profile};
use vm_tests::{Config, Result, Run, Vm, command, programs};

const LIMIT: Duration = Duration::from_secs(300);

/// What every report tells about, in this order.
const SECTIONS: [&str; 17] = [
    "system",
    "topology",
    "kernel log",
    "build: library",
    "build: benchmarks",
    "build: checks",
    "library of rocminfo",
    "checks, the system's library",
    "checks, our library",
    "checks, the difference",
    "checks, our library's log",
    "rocminfo, the system's library",
    "rocminfo, our library",
    "rocminfo, the difference",
    "rocminfo, our library's log",
    "benchmarks",
    "summary",
];

fn script() -> PathBuf {
    programs::crate_dir().join("../scripts/test-hardware")
}

/// The name and the text of each section.
fn sections(report: &str) -> Vec<(&str, &str)> {
    let sections = report.split("\n== ").skip(1);
    sections.map(|section| section.split_once('\n').unwrap_or((section, ""))).collect()
}

fn assert_all_sections(report: &str) {
    let names: Vec<_> = sections(report).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, SECTIONS, "{report}");
}

/// The section's text, of a step that must have ended well.
fn done<'a>(report: &'a str, name: &str) -> &'a str {
    let section = sections(report).into_iter().find(|(found, _)| *found == name);
    let (_, text) = section.unwrap_or_else(|| panic!("no section {name}:\n{report}"));
    assert!(text.contains("\n-- status 0 after "), "{name}:\n{text}");
    text
}

#[test]
fn the_filter_hides_what_is_private_and_nothing_else() -> Result<()> {
    let sample = "unique_id 6003384738012345678\n\
                  hive_id 77\n\
                  Uuid: GPU-534f465400000001, Uuid: CPU-XX\n\
                  serial: 692224000123, serial_number: PCB0123-456, Serial Number: 8F-22\n\
                  disk 550e8400-e29b-41d4-a716-446655440000, card 00:1a:2B:3c:4d:5e, 192.168.1.77\n\
                  jane.doe@example.org\n\
                  /home/jane/src of jane on frankenstein-7, FRANKENSTEIN-7, janet\n\
                  Size: 67108864(0x4000000) KB, 6.12.117+deb13, location_id 25344, 0000:c1:00.0\n\
                  no event at 0x7f9c53a88000, 5.2.3, 0xFFFFFFFFFFFFFFFF\n";
    let expected = "unique_id SERIAL\n\
                    hive_id SERIAL\n\
                    Uuid: GPU-UUID, Uuid: CPU-XX\n\
                    serial: SERIAL, serial_number: SERIAL, Serial Number: SERIAL\n\
                    disk UUID, card MAC, ADDRESS\n\
                    MAIL\n\
                    HOME/src of PRIVATE on PRIVATE, PRIVATE, janet\n\
                    Size: 67108864(0x4000000) KB, 6.12.117+deb13, location_id 25344, 0000:c1:00.0\n\
                    no event at 0x7f9c53a88000, 5.2.3, 0xFFFFFFFFFFFFFFFF\n";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("sample");
    std::fs::write(&file, sample).expect("a file");
    // This machine's own names are not in the sample, unless by chance: the words are given.
    let mut filter = Command::new("sh");
    filter.args(["-c", "exec \"$0\" --filter <\"$1\""]).arg(script()).arg(&file);
    let filtered = command::succeed(filter.env("KFDVIRT_PRIVATE", "jane frankenstein-7"), LIMIT)?;
    assert_eq!(filtered, expected);
    Ok(())
}

/// A host that is called as a thing that the checks speak of, as many virtual machines are.
#[test]
fn a_host_name_that_is_a_common_word_leaves_other_words_alone() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sample = "memory memory, \"memory\" on root@memory: the memory.\nmemory.map memory_lock system-memory /memory/x MEMORY";
    let expected =
        "HOST HOST, \"HOST\" on root@HOST: the HOST.\nmemory.map memory_lock system-memory /memory/x HOST";
    let file = dir.path().join("sample");
    std::fs::write(&file, sample).expect("a file");
    let uname = dir.path().join("uname");
    std::fs::write(&uname, "#!/bin/sh\necho memory\n").expect("a program");
    std::fs::set_permissions(&uname, std::fs::Permissions::from_mode(0o755)).expect("an executable");
    let mut filter = Command::new("sh");
    filter
        .args(["-c", "PATH=$2:$PATH exec \"$0\" --filter <\"$1\""])
        .arg(script())
        .arg(&file)
        .arg(dir.path());
    assert_eq!(command::succeed(&mut filter, LIMIT)?, expected);
    Ok(())
}

#[test]
fn a_report_of_the_software_gpu_has_all_sections_and_nothing_private() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let report = dir.path().join("report");
    programs::thunk_dir()?;
    let checks = programs::compile_c("thunk_checks", &["-lhsakmt"])?;
    let under = format!("{} run --profile two-gpu --", programs::softgpu()?.display());
    let mut run = Command::new(script());
    run.args(["--short", "--no-build", "--under", &under, "--report"])
        .arg(&report)
        .arg("--checks")
        .arg(&checks);
    command::succeed(run.env("KFDVIRT_PRIVATE", "Aldebaran"), LIMIT)?;
    let report = std::fs::read_to_string(report).expect("the report");

    assert_all_sections(&report);
    assert!(done(&report, "topology").contains("gfx_target_version 90010\nvendor_id 4098\n"));
    for library in ["the system's library", "our library"] {
        assert!(done(&report, &format!("rocminfo, {library}")).contains("Name:                    gfx90a"));
        assert!(done(&report, &format!("checks, {library}")).contains("\nopen.first SUCCESS\n"));
    }
    done(&report, "rocminfo, the difference");
    // The second run was that of our library: this is one of its deviations.
    let section = sections(&report).into_iter().find(|(name, _)| *name == "checks, the difference");
    let (_, difference) = section.expect("it is one of the sections");
    assert!(difference.contains("> runtime.enable SUCCESS"), "{difference}");

    let machine = Profile::TwoGpu.machine(Kernel::Linux6_12);
    let ids = machine.gpus.iter().flat_map(|gpu| [gpu.unique_id, gpu.hive_id]);
    let mut private: Vec<String> = ids.flat_map(|id| [id.to_string(), format!("{id:x}")]).collect();
    private.extend(["Aldebaran".to_owned(), programs::crate_dir().display().to_string()]);
    let text = report.to_lowercase();
    for word in private {
        assert!(!text.contains(&word.to_lowercase()), "{word} is in the report:\n{report}");
    }
    assert!(text.contains("gpu-uuid") && text.contains("unique_id serial"), "{report}");
    Ok(())
}

/// The kernel's own KFD, without GPU, and without most of what a system has: steps fail and the report is whole.
#[test]
fn a_report_of_a_guest_without_gpu_is_whole() -> Result<()> {
    const TOOLS: [&str; 26] = [
        "bash", "cat", "cmp", "cp", "date", "diff", "dirname", "dmesg", "env", "find", "grep", "id", "kmod",
        "mktemp", "rm", "rocminfo", "sed", "sh", "sort", "stat", "tail", "tee", "timeout", "tr", "uname",
        "wc",
    ];
    let checks = programs::compile_c("thunk_checks", &["-lhsakmt"])?;
    let library = programs::thunk_dir()?.join("libhsakmt.so.1");
    let scripts = programs::crate_dir().join("../scripts");
    let mut config = Config::stock()?.module("amdgpu").program(&checks);
    for tool in TOOLS {
        config = config.program(&Path::new("/usr/bin").join(tool));
    }
    config = config.file("/bin/lsmod", Path::new("/usr/bin/kmod"));
    for name in ["test-hardware", "with-kfdvirt"] {
        config = config.file(&format!("/kfdvirt/scripts/{name}"), &scripts.join(name));
    }
    let mut vm = Vm::boot(&config.library("/kfdvirt/target/dist/lib", &library)?)?;
    let arguments =
        ["--short", "--no-build", "--checks", "/bin/thunk_checks-lhsakmt", "--report", "/tmp/report"];
    let script = ["bash", "/kfdvirt/scripts/test-hardware"];
    let output = vm.run(&Run::new(script.into_iter().chain(arguments)).timeout(LIMIT))?;
    output.success()?;
    let report = vm.get_text("/tmp/report")?;
    vm.power_off()?;

    assert_all_sections(&report);
    assert!(done(&report, "topology").contains("cpu_cores_count 2\n"));
    assert!(done(&report, "kernel log").contains("amdgpu"));
    for library in ["the system's library", "our library"] {
        assert!(done(&report, &format!("checks, {library}")).contains("\nopen.first SUCCESS\n"));
        assert!(done(&report, &format!("rocminfo, {library}")).contains("Agent 1"), "{report}");
    }
    done(&report, "rocminfo, the difference");
    Ok(())
}
