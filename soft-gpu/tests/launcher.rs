//! The launcher with a device that needs no GPU: what it does for programs of all kinds.

mod support;

use std::time::Duration;

use support::{Outcome, finish, finish_as_nobody, launch, program, supervise_if_asked};

const LIMIT: Duration = Duration::from_secs(60);

/// No test of its own: the supervisor process of the other tests.
#[test]
fn supervisor_process() {
    supervise_if_asked();
}

/// Runs a program of `tests/programs` under the launcher, as root (where the tests run as root) and as
/// an unprivileged user.
fn run(name: &str, args: &[&str], check: impl Fn(&Outcome)) {
    let program = program(name);
    let words: Vec<&str> = std::iter::once(program.to_str().unwrap()).chain(args.iter().copied()).collect();
    check(&finish(launch(&words), LIMIT));
    if let Some(outcome) = finish_as_nobody(&words, LIMIT) {
        check(&outcome);
    }
}

fn prints(text: &'static str, code: i32) -> impl Fn(&Outcome) {
    move |outcome| {
        assert!(outcome.stdout.contains(text), "{outcome:?}");
        assert_eq!(outcome.status.code(), Some(code), "{outcome:?}");
    }
}

#[test]
fn static_program_with_raw_system_calls_gets_the_version_from_a_character_device() {
    run("version", &[], prints("result 0 version 1.17 char 1 major 511", 0));
}

#[test]
fn calls_under_a_storm_of_signals_are_executed_exactly_once() {
    run("storm", &["100000"], |outcome| {
        assert!(outcome.stdout.contains("calls 100000 wrong 0 "), "{outcome:?}");
        assert!(outcome.stdout.contains("alarms 1"), "{outcome:?}");
    });
}

#[test]
fn a_signal_without_restart_makes_a_wait_eintr() {
    run("waits", &["interrupt"], prints("result Interrupted system call handled 1 prompt 1", 0));
}

#[test]
fn a_restarting_signal_runs_its_handler_and_the_wait_goes_on() {
    run("waits", &["restart"], prints("result 0 handled 1 whole 1", 0));
    run("waits", &["storm"], prints("result 0 handled 1 whole 1", 0));
}

#[test]
fn a_signal_for_a_thread_that_waits_reaches_it() {
    run("waits", &["thread"], prints("result Interrupted system call handled 1 prompt 1", 0));
}

#[test]
fn a_signal_for_the_process_reaches_one_of_its_waiting_threads() {
    run("waits", &["shared"], prints("handled 1 prompt 1 whole 1 wrong 0", 0));
}

#[test]
fn two_hundred_threads_wait_together() {
    run("waits", &["many"], prints("wrong 0 together 1", 0));
}

/// Case F01: a child of a process that opened KFD starts from zero, and its parent goes on working.
#[test]
fn fifty_children_get_ebadf_on_the_inherited_file_and_open_their_own() {
    run("family", &["bomb", "50"], prints("children 50 bad 0 own 0", 0));
}

#[test]
fn a_child_that_calls_first_does_not_own_its_parents_file() {
    run("family", &["inherit"], prints("child 0 parent 0", 0));
}

#[test]
fn a_program_that_executes_itself_is_a_new_process_to_the_device() {
    run("family", &["exec"], prints("old 1 new 0", 0));
}

#[test]
fn a_grandchild_is_served_after_the_program_has_ended_and_the_status_is_the_programs() {
    run("family", &["daemon"], prints("grandchild 0", 5));
}

#[test]
fn render_descriptors_work_in_children_and_bad_offsets_are_refused() {
    run("family", &["pass"], prints("child 0 beyond Invalid argument", 0));
}

#[test]
fn the_device_learns_of_closed_files() {
    run("family", &["closes"], prints("left 1 works 0", 0));
}

const PYTHON: &str = r"
import fcntl, mmap, os, stat, struct
fd = os.open('/dev/kfd', os.O_RDWR)
version = bytearray(8)
fcntl.ioctl(fd, 0x80084b01, version)
print('version', struct.unpack('II', version))
node = os.stat('/dev/dri/renderD128')
print('render', stat.S_ISCHR(node.st_mode), os.major(node.st_rdev), os.minor(node.st_rdev))
render = os.open('/dev/dri/renderD128', os.O_RDWR)
memory = mmap.mmap(render, 8192, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=4096)
memory[4096:4100] = b'data'
again = mmap.mmap(render, 4096, mmap.MAP_SHARED, mmap.PROT_READ, offset=8192)
print('memory', again[:4])
print(open('/sys/class/kfd/kfd/topology/nodes/1/gpu_id').read().strip())
print(os.path.basename(os.path.realpath('/sys/dev/char/226:128/device')))
try:
    mmap.mmap(fd, 4096, mmap.MAP_SHARED, offset=4096)
except OSError as error:
    print('kfd', error.errno)
";

#[test]
fn python_uses_ioctl_mmap_and_sysfs() {
    let expected = "version (1, 17)\nrender True 226 128\nmemory b'data'\n1234\n0000:c1:00.0\nkfd 22\n";
    let check = |outcome: &Outcome| {
        assert!(outcome.stdout.contains(expected), "{outcome:?}");
        assert!(outcome.status.success(), "{outcome:?}");
    };
    check(&finish(launch(&["python3", "-c", PYTHON]), LIMIT));
}

#[test]
fn lsmod_shows_amdgpu() {
    let outcome = finish(launch(&["sh", "-c", "lsmod | grep amdgpu"]), LIMIT);
    assert!(outcome.stdout.contains("amdgpu"), "{outcome:?}");
}

#[test]
fn exit_status_and_signal_are_passed_on() {
    use std::os::unix::process::ExitStatusExt;
    let code = |script: &str| finish(launch(&["sh", "-c", script]), LIMIT).status;
    assert_eq!(code("exit 0").code(), Some(0));
    assert_eq!(code("exit 77").code(), Some(77));
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGUSR1] {
        assert_eq!(code(&format!("kill -{signal} $$")).signal(), Some(signal));
    }
}

#[test]
fn environment_arguments_and_standard_streams_are_the_programs() {
    let script = "read line; echo \"$line $0 $1 $VARIABLE\"; echo error >&2";
    let mut command = launch(&["sh", "-c", script, "zero", "one two"]);
    command.env("VARIABLE", "value");
    let outcome = support::finish_with_input(command, b"input\n", LIMIT);
    assert!(outcome.stdout.contains("input zero one two value\n"), "{outcome:?}");
    assert!(outcome.stderr.contains("error\n"), "{outcome:?}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let outcome = finish(launch(&["/no/such/program"]), LIMIT);
    assert!(outcome.stderr.contains("cannot execute /no/such/program: No such file"), "{outcome:?}");
}

#[test]
fn nested_runs_are_refused_by_name() {
    let exe = std::env::current_exe().unwrap();
    let script = format!(
        "{}=true exec {} supervisor_process --exact --nocapture --quiet",
        support::SUPERVISE,
        exe.display()
    );
    let outcome = finish(launch(&["sh", "-c", &script]), LIMIT);
    assert!(outcome.stderr.contains("softgpu run inside softgpu run is not possible"), "{outcome:?}");
}
