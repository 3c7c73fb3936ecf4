//! `softgpu run`, the command, with the software GPU.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{finish, program};

const LIMIT: Duration = Duration::from_secs(60);

fn softgpu_run(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softgpu"));
    command.arg("run").args(args).stdin(Stdio::null());
    command
}

#[test]
fn exit_statuses_are_the_programs_or_those_of_env() {
    let code = |args: &[&str]| finish(softgpu_run(args), LIMIT).status.code();
    assert_eq!(code(&["--", "sh", "-c", "exit 9"]), Some(9));
    assert_eq!(code(&["/no/such/program"]), Some(127));
    assert_eq!(code(&["/etc/passwd"]), Some(126));
    assert_eq!(code(&["--topology", "/no/such/directory", "true"]), Some(125));
}

#[test]
fn options_end_at_the_program() {
    let outcome = finish(softgpu_run(&["--profile", "cpu-only", "echo", "--profile", "x"]), LIMIT);
    assert_eq!(outcome.stdout, "--profile x\n", "{outcome:?}");
}

/// `KFD_IOCTL_MAJOR_VERSION` and `_MINOR_VERSION` of the kernels (`kfd_ioctl.h`).
#[test]
fn the_kernel_option_selects_the_version() {
    let program = program("version");
    for (kernel, version) in [("6.12", "1.17"), ("7.3", "1.23")] {
        let outcome = finish(softgpu_run(&["--kernel", kernel, program.to_str().unwrap()]), LIMIT);
        assert!(outcome.stdout.contains(&format!("version {version} ")), "{outcome:?}");
    }
}

#[test]
fn topology_is_that_of_the_profile() {
    let script = "cat /sys/class/kfd/kfd/topology/nodes/*/properties | grep gfx_target_version; ls /dev/dri";
    let outcome = finish(softgpu_run(&["--profile", "two-gpu", "--", "sh", "-c", script]), LIMIT);
    assert_eq!(outcome.stdout.matches("gfx_target_version 90010").count(), 2, "{outcome:?}");
    assert!(outcome.stdout.contains("renderD128\nrenderD129\n"), "{outcome:?}");
}

/// Instructions are counted in engine/tests/kernels.rs; this program has no kernels.
#[test]
fn the_report_is_written_when_the_program_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let args = ["--report", report.to_str().unwrap(), "--", "sh", "-c", "exit 3"];
    assert_eq!(finish(softgpu_run(&args), LIMIT).status.code(), Some(3));
    assert_eq!(std::fs::read_to_string(report).unwrap(), "instructions\tresults\tfamily\topcode\n");
    let args = ["--report", "/no/such/directory/report", "true"];
    assert_eq!(finish(softgpu_run(&args), LIMIT).status.code(), Some(125));
}

#[test]
fn disasm_says_how_a_code_object_comes_out_of_what_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("bundle");
    std::fs::write(&bundle, b"__CLANG_OFFLOAD_BUNDLE__ and more").unwrap();
    for (file, said) in
        [(bundle, "clang-offload-bundler"), (env!("CARGO_BIN_EXE_softgpu").into(), "not code for AMD GPUs")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_softgpu"));
        command.arg("disasm").arg(&file);
        let outcome = finish(command, LIMIT);
        assert!(!outcome.status.success() && outcome.stderr.contains(said), "{outcome:?}");
    }
}

#[test]
fn the_trace_has_a_line_for_each_call() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.json");
    let program = program("version");
    let args = ["--trace", trace.to_str().unwrap(), "--", program.to_str().unwrap()];
    assert!(finish(softgpu_run(&args), LIMIT).status.success());
    let text = std::fs::read_to_string(trace).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [open, version] = &lines[..] else { panic!("{text}") };
    assert_eq!((&open["number"], &open["call"], &open["node"]), (&1.into(), &"open".into(), &"kfd".into()));
    assert_eq!((&version["number"], &version["call"]), (&2.into(), &"AMDKFD_IOC_GET_VERSION".into()));
    assert_eq!(version["out"]["minor_version"], 17);
}

#[test]
fn the_programs_descriptor_limit_is_its_own_and_not_the_devices() {
    let family = program("family");
    let script = format!(
        "ulimit -Sn 100; exec {} run sh -c 'ulimit -Sn; {} bomb 120'",
        env!("CARGO_BIN_EXE_softgpu"),
        family.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null());
    let outcome = finish(command, LIMIT);
    assert!(outcome.stdout.starts_with("100\n"), "{outcome:?}");
    assert!(outcome.stdout.contains("children 120 bad 0 own 0"), "{outcome:?}");
}

#[test]
fn events_are_created_and_destroyed_exactly_once_under_a_storm_of_signals() {
    let program = program("events");
    let outcome = finish(softgpu_run(&[program.to_str().unwrap(), "50000"]), LIMIT);
    assert!(outcome.stdout.contains("rounds 50000 moved 0 failed 0 alarms 1"), "{outcome:?}");
}

/// The launcher holds copies of a program's descriptors while it looks at them; it is no owner of the files.
#[test]
fn a_file_answers_at_each_descriptor_number() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softgpu"));
    command.arg("run").arg(program("descriptors")).arg("numbers").stdin(Stdio::null());
    let outcome = finish(command, LIMIT);
    assert_eq!((outcome.status.code(), outcome.stdout.as_str()), (Some(0), ""), "{outcome:?}");
}

#[test]
fn threads_keep_the_device_when_the_first_thread_has_ended() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softgpu"));
    command.arg("run").arg(program("descriptors")).arg("leader").stdin(Stdio::null());
    let outcome = finish(command, LIMIT);
    assert_eq!(outcome.stdout, "held 0 fresh 0\n", "{outcome:?}");
}

/// Runs `strict MODE` on the software GPU and returns what it printed.
fn strict(kernel: &str, mode: &str) -> String {
    let outcome =
        finish(softgpu_run(&["--kernel", kernel, program("strict").to_str().unwrap(), mode]), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    outcome.stdout
}

#[test]
fn touching_doorbells_through_the_render_node_is_sigbus() {
    assert_eq!(strict("6.12", "sigbus"), format!("mapped\nsignal {}\n", libc::SIGBUS));
}

#[test]
fn a_working_directory_in_dev_or_sys_is_the_one_with_the_device() {
    let list = |dir: &str, what: &str| {
        finish(
            {
                let mut command = softgpu_run(&["--", "ls", "-d", what]);
                command.current_dir(dir);
                command
            },
            LIMIT,
        )
    };
    assert_eq!(list("/dev", "kfd").stdout, "kfd\n");
    assert_eq!(list("/sys/class", "kfd/kfd").stdout, "kfd/kfd\n");
    assert_eq!(list("/tmp", ".").stdout, ".\n");
}

/// do_sys_ftruncate, vfs_truncate and vfs_fallocate refuse devices; O_TRUNC is for regular files (handle_truncate).
#[test]
fn nothing_changes_the_size_of_a_device() {
    let expected = "ftruncate Invalid argument\nfallocate No such device\ntruncate Invalid argument\n\
        truncate render Invalid argument\nexclusive File exists\ndirectory Not a directory\nopen done\ncreat done\n\
        open render done\nclose-on-exec 0 1\naccess 2 1\nversion done\nfstat done\ncharacter device 1\n";
    assert_eq!(strict("6.12", "truncate"), expected);
}

#[test]
fn registered_memory_that_the_program_truncates_ends_the_run_by_name() {
    let outcome = finish(softgpu_run(&[program("strict").to_str().unwrap(), "emptied"]), LIMIT);
    assert_eq!(outcome.status.code(), Some(125), "{outcome:?}");
    assert!(outcome.stderr.contains("truncated a file that it had registered"), "{outcome:?}");
}

#[test]
fn memory_of_the_device_is_no_shared_virtual_memory() {
    // svm_range_is_valid: VM_PFNMAP is EFAULT.
    assert_eq!(strict("6.12", "svm"), "device Bad address\nown taken\n");
}

/// Case F01 too: what its parent opened is of no use to a child.
#[test]
fn a_childs_calls_on_its_parents_file_are_refused() {
    // kfd_mmap of 6.12 looks for the caller's own process, that of 7.3 compares it with the opener.
    assert_eq!(strict("6.12", "fork"), "ioctl Bad file descriptor mmap Invalid argument\n");
    assert_eq!(strict("7.3", "fork"), "ioctl Bad file descriptor mmap Bad file descriptor\n");
}

/// Case E06: tools that read KFD's sysfs by themselves find as many GPUs as the calls have.
#[test]
fn e06_sysfs_and_calls_have_the_same_number_of_gpus() {
    for (profile, gpus) in [("mi210", 1), ("two-gpu", 2), ("rx7900xtx", 1)] {
        let script = format!(
            "cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -vcx 0; exec {} gpus",
            program("strict").display()
        );
        let outcome = finish(softgpu_run(&["--profile", profile, "sh", "-c", &script]), LIMIT);
        assert_eq!(outcome.stdout, format!("{gpus}\ngpus {gpus}\n"), "{outcome:?}");
    }
}

/// Case E01, the server's part: a KFD that refuses the process says so when it is opened (`kfd_create_process` of Linux
/// 7.2 and later), by whatever call and to whatever program.
#[test]
fn e01_without_a_gpu_linux_7_3_refuses_the_open() {
    let outcome = |kernel: &str, script: &str| {
        let args = ["--profile", "cpu-only", "--kernel", kernel, "--", "sh", "-c", script];
        finish(softgpu_run(&args), LIMIT)
    };
    let refused = outcome("7.3", "cd /dev; exec 3<>kfd");
    assert!(!refused.status.success(), "{refused:?}");
    let text =
        "test -c /dev/kfd && cat /dev/kfd; cat < /dev/null; cat /etc/hostname > /dev/null && echo others";
    let refused = outcome("7.3", text);
    assert!(refused.stderr.contains("/dev/kfd: Invalid argument"), "{refused:?}");
    assert_eq!(refused.stdout, "others\n", "{refused:?}");
    assert!(outcome("6.12", "exec 3<>/dev/kfd").status.success());
}

/// What the launcher has to say must not end it: 101 would be the status of a panic.
#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let code = |args: &[&str]| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = softgpu_run(args);
        command.env("RUST_LOG", "trace").stderr(full).stdout(Stdio::null());
        command.status().unwrap().code()
    };
    assert_eq!(code(&["/no/such/program"]), Some(127));
    assert_eq!(code(&["/etc/passwd"]), Some(126));
    assert_eq!(code(&["--topology", "/no/such/directory", "true"]), Some(125));
    assert_eq!(code(&["sh", "-c", "exit 9"]), Some(9));
    assert_eq!(code(&["--no-such-option"]), Some(2));
}

/// Out of descriptors at the hard limit, the launcher cannot look at those of the program: such calls fail, and none
/// goes to the kernel's file behind the node, which would answer `ENOTTY`.
#[test]
fn calls_that_the_launcher_has_no_descriptors_for_fail_and_say_so() {
    let script =
        format!("ulimit -n 60; exec {} run {} 50", env!("CARGO_BIN_EXE_softgpu"), program("crowd").display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null());
    let outcome = finish(command, LIMIT);
    assert!(outcome.stdout.contains(" other 0 bad 0 own 0\n"), "{outcome:?}");
    let number = |word: &str| -> u32 {
        let mut words = outcome.stdout.split_whitespace().skip_while(|other| *other != word);
        words.nth(1).and_then(|number| number.parse().ok()).expect("a number")
    };
    assert!(number("ok") > 0 && number("refused") > 0, "{outcome:?}");
    assert!(outcome.stderr.contains("no more descriptors"), "{outcome:?}");
}

/// Runs `private MODE` and compares what it prints, as whoever runs the tests and, where that is root, as somebody
/// without rights.
fn private(mode: &str, expected: &str) {
    let program = program("private");
    let mut commands = vec![softgpu_run(&[program.to_str().unwrap(), mode])];
    // The target directory need not be open to others.
    let dir = tempfile::tempdir().unwrap();
    if rustix::process::geteuid().is_root() {
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let [softgpu, copy] = ["softgpu", "private"].map(|name| dir.path().join(name));
        std::fs::copy(env!("CARGO_BIN_EXE_softgpu"), &softgpu).unwrap();
        std::fs::copy(program, &copy).unwrap();
        let mut command = Command::new(softgpu);
        command.arg("run").arg(copy).arg(mode).stdin(Stdio::null()).uid(65534).gid(65534).current_dir("/");
        commands.push(command);
    }
    for command in commands {
        let outcome = finish(command, LIMIT);
        assert_eq!(outcome.stdout, expected, "{outcome:?}");
        assert!(outcome.status.success(), "{outcome:?}");
    }
}

#[test]
fn memory_that_the_gpu_used_is_the_programs_alone_again() {
    private("alone", "shared 1 child 1\nfreed 0 shared 0 child 0\nwrong 0 cleared 1\n");
}

#[test]
fn no_increment_is_lost_while_memory_is_shared_and_private_again_a_hundred_times() {
    private("threads", "failed 0 left 0 lost 0\n");
}

#[test]
fn memory_stays_shared_until_the_last_registration_of_it_is_gone() {
    private("overlap", "0 still 1 0 then 0 value 7\n");
}

#[test]
fn a_child_registers_what_its_parent_had_shared_at_the_fork() {
    private("child", "freed 0 shared 0 child 0 value 5\n");
}
