//! What our libhsakmt says in a process that is short of something, or on a system that lacks something: a table of
//! conditions with status and log line. None of them is a crash, a wrong success or a silence.
//!
//! What is real and what is imitated: limits, seccomp filters, personalities and mounts are the kernel's own, and so are the
//! page tables of five levels (a guest under QEMU's TCG). The GPU is softgpu's; no GPU whose addresses end beyond 47 bits is
//! there. Not tried: address sanitizers, and `vm.mmap_rnd_bits` outside of the guest, because it is the whole machine's.

mod machines;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use softgpu::{Kernel, Machine, Profile};
use vm_tests::{Config, Result, Run, Vm, command, programs, wire::End};

const LIMIT: Duration = Duration::from_secs(120);

/// The C program, compiled once.
fn program() -> Result<PathBuf> {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    if let Some(program) = COMPILED.get() {
        return Ok(program.clone());
    }
    let program = programs::compile_c("conditions", &["-lhsakmt"])?;
    Ok(COMPILED.get_or_init(|| program).clone())
}

/// One condition, and what becomes of the program `conditions` then.
struct Row<'a> {
    /// What it is, with the ids of the collected cases.
    name: &'a str,
    machine: &'a Machine,
    /// A program that makes the condition and then runs `conditions`.
    wrapper: &'a [&'a str],
    arguments: &'a [&'a str],
    /// The steps that do not answer SUCCESS under the condition, beside the wait that times out.
    fails: &'a [&'a str],
    /// A part of a log line, at level `warn`. Empty: there is none.
    log: &'a str,
    /// Those of the steps that fail without the condition too.
    stay: &'a [&'a str],
}

impl<'a> Row<'a> {
    fn new(name: &'a str, machine: &'a Machine, arguments: &'a [&'a str]) -> Self {
        Self { name, machine, wrapper: &[], arguments, fails: &[], log: "", stay: &[] }
    }

    fn under(self, wrapper: &'a [&'a str]) -> Self {
        Self { wrapper, ..self }
    }

    fn fails(self, fails: &'a [&'a str], log: &'a str) -> Self {
        Self { fails, log, ..self }
    }

    fn stay(self, stay: &'a [&'a str]) -> Self {
        Self { stay, ..self }
    }

    /// Runs and compares. Gives the messages.
    fn check(&self) -> Result<String> {
        let (stdout, stderr, status) = self.run()?;
        let name = self.name;
        let (limited, free) = stdout.split_once("without limits:\n").unwrap_or((&stdout, ""));
        assert_eq!(failed(limited), self.fails, "{name}\n{stdout}\n{stderr}");
        if self.arguments.first().is_some_and(|when| *when != "tour") && !self.is_for_ever() {
            // What failed leaves nothing behind: without the limit everything works.
            assert_eq!(failed(free), self.stay, "{name}: left a trace\n{stdout}\n{stderr}");
            assert!(free.contains("queue.ring SUCCESS"), "{name}: no whole tour\n{stdout}");
        }
        assert!(stdout.ends_with("other-mappings-are-whole yes\n"), "{name}\n{stdout}\n{stderr}");
        assert_eq!(status, Some(0), "{name}\n{stdout}\n{stderr}");
        let log: Vec<_> = stderr.lines().filter(|line| line.contains(" hsakmt")).collect();
        assert!(log.iter().any(|line| line.contains(self.log)) || self.log.is_empty(), "{name}\n{stderr}");
        assert!(!self.log.is_empty() || log.is_empty(), "{name}: nothing is wrong, and it says\n{stderr}");
        Ok(stderr)
    }

    /// What it printed, its messages, and its status or 128 and its signal.
    fn run(&self) -> Result<(String, String, Option<i32>)> {
        let tree = tempfile::tempdir().expect("a temporary directory");
        machines::write(self.machine, tree.path());
        let program = program()?;
        let mut command = Command::new(programs::softgpu()?);
        command.args(["run", "--topology"]).arg(tree.path()).arg("--").args(self.wrapper).arg(program);
        command
            .args(self.arguments)
            .env("LD_LIBRARY_PATH", programs::thunk_dir()?)
            .env("KFDVIRT_LOG", "warn");
        let finished = command::finish(&mut command, LIMIT)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let status = finished.status.code().or(finished.status.signal().map(|signal| 128 + signal));
        Ok((text(&finished.stdout), text(&finished.stderr), status))
    }

    /// A seccomp filter stays.
    fn is_for_ever(&self) -> bool {
        self.arguments.get(1).is_some_and(|condition| matches!(*condition, "open" | "mbind"))
    }
}

/// The steps of an output that are not as they should be.
fn failed(output: &str) -> Vec<&str> {
    let is_status = |line: &&str| line.chars().last().is_some_and(|last| last.is_ascii_uppercase());
    let lines = output.lines().filter(is_status);
    lines.filter(|line| !line.ends_with(" SUCCESS") && *line != "event.wait WAIT_TIMEOUT").collect()
}

fn profile(profile: Profile) -> Machine {
    profile.machine(Kernel::Linux6_12)
}

/// Case M28: addresses run out. 1 GiB and 8 GiB are too few for 8 GiB of memory that the program does not see; of a GPU that
/// reaches 40 bits a range is reserved at once.
#[test]
fn few_addresses() -> Result<()> {
    let (mi210, small) = (profile(Profile::Mi210), machines::gpu_of_40_bits());
    let no_room = "no addresses for 8589934592 bytes: Cannot allocate memory (os error 12) (ulimit -v and";
    let no_range = "of which no GiB in one piece can be reserved (ulimit -v limits it)";
    let (gib_1, gib_8) = ("1073741824", "8589934592");
    let (gib_64, tib_1) = ("68719476736", "1099511627776");
    // softgpu executes no queues before gfx9.
    let old = "queue.create ERROR";
    for row in [
        Row::new("M28: 1 GiB", &mi210, &["before", "addresses", gib_1])
            .fails(&["much-vram.alloc NO_MEMORY"], no_room),
        Row::new("M28: 1 GiB, later", &mi210, &["after", "addresses", gib_1])
            .fails(&["much-vram.alloc NO_MEMORY"], no_room),
        Row::new("M28: 8 GiB", &mi210, &["before", "addresses", gib_8])
            .fails(&["much-vram.alloc NO_MEMORY"], no_room),
        Row::new("M28: 64 GiB", &mi210, &["before", "addresses", gib_64]),
        Row::new("M28: 1 TiB", &mi210, &["before", "addresses", tib_1]),
        Row::new("M28: 1 GiB, 40 bits", &small, &["before", "addresses", gib_1])
            .fails(&["topology NO_MEMORY"], no_range)
            .stay(&[old]),
        Row::new("M28: 8 GiB, 40 bits", &small, &["before", "addresses", gib_8])
            .fails(&["much-vram.alloc NO_MEMORY", old], "no addresses for 8589934592 bytes: all are taken")
            // The range that was reserved under the limit is the one for the process's life.
            .stay(&["much-vram.alloc NO_MEMORY", old]),
        Row::new("M28: 64 GiB, 40 bits", &small, &["before", "addresses", gib_64])
            .fails(&[old], "")
            .stay(&[old]),
    ] {
        row.check()?;
    }
    Ok(())
}

/// Rust ends a process that has no memory for a list of a few bytes, and says so; AMD's library would answer NO_MEMORY where it
/// looks at what `malloc` gives. A limit: what callers and the kernel choose the size of is an error, not an end.
#[test]
fn no_memory_at_all_ends_the_program_with_a_message() -> Result<()> {
    let machine = profile(Profile::Mi210);
    for arguments in [["before", "addresses", "1"], ["before", "mappings", "0"]] {
        let (stdout, stderr, status) = Row::new("none", &machine, &arguments).run()?;
        let ended = stderr.contains("memory allocation of") && status == Some(134);
        assert!(ended, "{arguments:?}: {status:?}\n{stdout}\n{stderr}");
    }
    Ok(())
}

/// Case M10: addresses alone take no memory.
#[test]
fn m10_reserved_addresses_take_no_memory() -> Result<()> {
    let machine = profile(Profile::Mi210);
    let (stdout, stderr, status) = Row::new("M10", &machine, &["reserve"]).run()?;
    let expected =
        "reserve-32-gib SUCCESS\nreserved 1024 of 1 GiB\ntakes-no-memory yes\nfree-32-gib SUCCESS\n";
    assert!(stdout.contains(expected) && status == Some(0), "{status:?}\n{stdout}\n{stderr}");
    Ok(())
}

/// `ulimit -n`. Each GPU takes two descriptors, its render node's and libdrm's.
#[test]
fn few_descriptors() -> Result<()> {
    let (one, eight, many) = (profile(Profile::Mi210), machines::eight_mi210(1), machines::partitions());
    let none_left =
        "cannot be opened: this process has all the descriptors open that it may have (ulimit -n)";
    for row in [
        Row::new("64, one GPU", &one, &["before", "descriptors", "64"]),
        Row::new("64, eight GPUs", &eight, &["before", "descriptors", "64"]),
        Row::new("64, 32 GPUs", &many, &["before", "descriptors", "64"])
            .fails(&["topology ERROR"], none_left),
        Row::new("E01: none", &one, &["before", "descriptors", "3"])
            .fails(&["open KERNEL_IO_CHANNEL_NOT_OPENED"], none_left),
        Row::new("none for the topology", &one, &["before", "descriptors", "4"])
            .fails(&["topology ERROR"], "KFD's topology cannot be read: EMFILE"),
    ] {
        row.check()?;
    }
    Ok(())
}

/// Case M11: memory takes no descriptors, exported or not; that there is none left is told apart from a lack of memory.
#[test]
fn m11_memory_that_is_exported_needs_no_descriptors() -> Result<()> {
    let machine = profile(Profile::Mi210);
    let row = Row::new("M11", &machine, &["between", "descriptors", "64", "exports"]);
    let (stdout, stderr, status) = row.run()?;
    let all = format!("{status:?}\n{stdout}\n{stderr}");
    let limited = stdout.split_once("without limits:\n").map_or("", |(limited, _)| limited);
    assert!(limited.contains("exported 2000\n"), "{all}");
    assert_eq!(failed(limited), ["export.without-descriptors ERROR"], "{all}");
    assert!(limited.contains("export.again SUCCESS\n") && !stdout.contains(" fails\n"), "{all}");
    assert!(stderr.lines().any(|line| line.contains("descriptor")), "no line names what is missing: {all}");
    assert_eq!(status, Some(0), "{all}");
    Ok(())
}

/// `vm.max_map_count`.
#[test]
fn few_mappings() -> Result<()> {
    let machine = profile(Profile::Mi210);
    let none = [
        "event.create ERROR",
        "host.alloc NO_MEMORY",
        "host-of-one-node.alloc NO_MEMORY",
        "pinned.alloc NO_MEMORY",
        "vram.alloc NO_MEMORY",
        "vram-for-host.alloc NO_MEMORY",
        "much-vram.alloc NO_MEMORY",
        "queue.ring NO_MEMORY",
    ];
    let no_room =
        "no addresses for 65536 bytes: Cannot allocate memory (os error 12) (ulimit -v and vm.max_map_count";
    for row in [
        Row::new("no mapping", &machine, &["after", "mappings", "0"]).fails(&none, no_room),
        Row::new("64 mappings", &machine, &["before", "mappings", "64"]),
    ] {
        row.check()?;
    }
    Ok(())
}

/// Case L01, with numbers: no such address is mapped here. Nothing is truncated.
#[test]
fn l01_addresses_that_no_gpu_reaches() -> Result<()> {
    let machine = profile(Profile::Mi210);
    let (stdout, stderr, status) = Row::new("L01", &machine, &["far"]).run()?;
    assert_eq!(status, Some(0), "{stdout}\n{stderr}");
    assert_far(&stdout, &stderr);
    Ok(())
}

/// Seven addresses, each refused by each call, and the log says what GPUs reach.
fn assert_far(stdout: &str, stderr: &str) {
    let refused = "register ERROR\nmap ERROR\nalloc-fixed NO_MEMORY\npointer-info ERROR\ntype 0\n\
                   free MEMORY_NOT_REGISTERED\n";
    assert_eq!(stdout.matches(refused).count(), 7, "{stdout}\n{stderr}");
    let reason = "0x7fffffffffff, which GPUs reach";
    assert_eq!(stderr.matches(reason).count(), 7, "{stderr}");
    assert!(stderr.contains("0x1000000000000 is no page"), "{stderr}");
}

/// Case E01: each error of `open` has its own explanation, in one line, and its number stays in it. Case E03 (permissions, with
/// real users and groups) is in native.rs.
#[test]
fn e01_devices_that_cannot_be_opened() -> Result<()> {
    let machine = profile(Profile::Mi210);
    let closed = &["open KERNEL_IO_CHANNEL_NOT_OPENED"];
    for (errno, log) in [
        ("12", "KFD refused this process, for a reason of its own and not because memory ran out"),
        ("14", "the kernel refuses it for a reason that its log may tell (EFAULT)"),
        ("22", "the kernel's KFD has no GPU, and Linux 7.2 and later cannot be asked without one (EINVAL)"),
        ("19", "it does not exist although the kernel's driver amdgpu is there"),
        ("13", "the seccomp filter that this process runs under (EACCES)"),
        ("1", "the seccomp filter that this process runs under (EPERM)"),
        ("24", "this process has all the descriptors open that it may have (ulimit -n) (EMFILE)"),
        ("23", "the whole system has all the files open that it may have (sysctl fs.file-max) (ENFILE)"),
        ("38", "a seccomp filter refuses the system call that opens files (ENOSYS)"),
    ] {
        let arguments = ["before", "open", errno];
        let stderr = Row::new(errno, &machine, &arguments).fails(closed, log).check()?;
        // The program opens twice.
        assert_eq!(stderr.lines().filter(|line| line.contains(" hsakmt")).count(), 2, "{errno}\n{stderr}");
    }
    let forbidden =
        "/dev/dri/renderD128 cannot be opened: the file's mode would allow it, but the device cgroup";
    Row::new("E03: kfd, and no render node", &machine, &["between", "open", "13"])
        .fails(&["topology ERROR"], forbidden)
        .check()?;
    // A container without /dev/dri: the CPUs are shown.
    Row::new("no render node", &machine, &["between", "open", "2"])
        .fails(&[], "none of the 1 GPUs that KFD has can be used")
        .check()
        .map(drop)
}

/// Container runtimes block `mbind`: memory then comes from wherever the kernel takes it.
#[test]
fn no_mbind() -> Result<()> {
    let machine = profile(Profile::Mi300x);
    for errno in ["1", "38"] {
        let arguments = ["before", "mbind", errno];
        let log = "memory cannot be bound to NUMA nodes (seccomp, or a kernel without)";
        Row::new(errno, &machine, &arguments).fails(&[], log).check()?;
    }
    Ok(())
}

/// No address is random, all are, or they grow from below; the lowest are taken.
#[test]
fn extremes_of_address_space_layout() -> Result<()> {
    let (mi210, small) = (profile(Profile::Mi210), machines::gpu_of_40_bits());
    let unlimited = ["sh", "-c", "ulimit -s unlimited; exec \"$@\"", "sh"];
    for (machine, fails) in [(&mi210, &[][..]), (&small, &["queue.create ERROR"])] {
        for wrapper in [
            &["setarch", "--addr-no-randomize"][..],
            // ADDR_COMPAT_LAYOUT
            &["setarch", "--addr-compat-layout"],
            &["setarch", "--addr-no-randomize", "--addr-compat-layout"],
            &unlimited,
        ] {
            Row::new(wrapper[1], machine, &["tour"]).under(wrapper).fails(fails, "").check()?;
        }
        Row::new("low addresses taken", machine, &["before", "low"]).fails(fails, "").stay(fails).check()?;
    }
    Ok(())
}

#[test]
fn a_log_that_cannot_be_written_is_said_and_changes_nothing() -> Result<()> {
    let machine = Profile::Mi210.machine(Kernel::Linux6_12);
    let wrapper = ["env", "KFDVIRT_LOG_FILE=/no/such/directory/log"];
    let row = Row::new("log file", &machine, &["tour"]).under(&wrapper);
    row.fails(&[], "KFDVIRT_LOG_FILE cannot be written").check().map(drop)
}

#[test]
fn a_log_level_that_is_none_is_said_and_changes_nothing() -> Result<()> {
    let machine = Profile::Mi210.machine(Kernel::Linux6_12);
    let wrapper = ["env", "KFDVIRT_LOG=loud"];
    let row = Row::new("log level", &machine, &["tour"]).under(&wrapper);
    row.fails(&[], "KFDVIRT_LOG: `loud` is no level").check().map(drop)
}

/// Case T02: a kernel without NUMA, imitated by hiding the nodes in a mount namespace. Debian's library gives up the whole
/// topology of `mi300x` there; ours goes without the caches of the second CPU node.
#[test]
fn t02_a_kernel_without_numa() -> Result<()> {
    let hide = "mount --make-rprivate / && mount -t tmpfs none /sys/devices/system/node && exec \"$@\"";
    let program = program()?;
    for (profile, nodes) in [("two-gpu", "nodes 3\n"), ("mi300x", "nodes 3\n")] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", hide, "sh"]).arg(programs::softgpu()?);
        command.args(["run", "--profile", profile, "--"]).arg(&program).arg("tour");
        command.env("LD_LIBRARY_PATH", programs::thunk_dir()?).env("KFDVIRT_LOG", "warn");
        let finished = command::finish(&mut command, LIMIT)?;
        let (stdout, stderr) =
            (String::from_utf8_lossy(&finished.stdout), String::from_utf8_lossy(&finished.stderr));
        assert!(finished.status.success() && stdout.contains(nodes), "{profile}\n{stdout}\n{stderr}");
        assert_eq!(failed(&stdout), Vec::<&str>::new(), "{profile}\n{stderr}");
        // Without nodes all processors are in the first.
        assert!(stdout.contains("node-0.cpu-caches some\n"), "{profile}\n{stdout}");
        let second = profile == "mi300x";
        assert_eq!(stdout.contains("node-1.cpu-caches none\n"), second, "{profile}\n{stdout}");
    }
    Ok(())
}

/// Case L01 with memory that is there, and the extremes that are a whole system's: a guest whose processor has page tables of
/// five levels, with as much and as little randomness as the kernel allows, where programs may map page 0.
#[test]
fn l01_page_tables_of_five_levels() -> Result<()> {
    let program = program()?;
    let library = programs::thunk_dir()?.join("libhsakmt.so.1");
    // Before the program: without overlayfs softgpu cannot show a device.
    let mut config = Config::stock()?.module("overlay").program(&programs::softgpu()?).program(&program);
    config = config.program(Path::new("/bin/sh")).library("/kfdvirt", &library)?.memory_mib(2048);
    config.qemu_arguments.extend(["-cpu", "max,la57=on"].map(str::to_owned));
    let mut vm = Vm::boot(&config)?;
    let mut run = |script: &str, what: &str| {
        let shell = format!("{script}; exec softgpu run --profile mi210 -- conditions-lhsakmt {what}");
        let run = Run::new(["sh", "-c", &shell]).timeout(LIMIT);
        vm.run(&run.env("LD_LIBRARY_PATH", "/kfdvirt").env("KFDVIRT_LOG", "warn"))
    };

    let far = run("true", "far")?;
    assert_eq!(far.end, End::Status(0), "{}\n{}", far.stdout, far.stderr);
    assert_far(&far.stdout, &far.stderr);
    // The GPU gets addresses of its own for what it does not reach at the program's.
    let reached = "five-levels yes\nregister SUCCESS\nmap SUCCESS\ngpu-reaches-it yes\nunmap SUCCESS\nderegister SUCCESS\n";
    assert!(far.stdout.contains(reached), "{}\n{}", far.stdout, far.stderr);

    for script in [
        "echo 32 >/proc/sys/vm/mmap_rnd_bits; echo 0 >/proc/sys/vm/mmap_min_addr",
        "echo 28 >/proc/sys/vm/mmap_rnd_bits",
        "echo 0 >/proc/sys/kernel/randomize_va_space",
    ] {
        let tour = run(script, "tour")?;
        assert_eq!(tour.end, End::Status(0), "{script}\n{}\n{}", tour.stdout, tour.stderr);
        assert_eq!(failed(&tour.stdout), Vec::<&str>::new(), "{script}\n{}", tour.stderr);
        assert!(tour.stdout.contains("queue.destroy SUCCESS\n"), "{script}\n{}", tour.stdout);
        assert!(!tour.stderr.contains("can't create"), "{script}\n{}", tour.stderr);
    }
    vm.power_off()
}
