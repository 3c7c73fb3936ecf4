//! Memory of another process made shared in place, against real programs.
//!
//! `convert/prog.c` is the program; here its ioctls are answered as the launcher does.

mod convert {
    pub mod supervisor;
}

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use convert::supervisor::{Run, compile};

/// Runs one mode of the program to its end, which has to be a success.
fn run(mode: &str) -> Run {
    let mut run = Run::start(mode);
    run.finish();
    run
}

#[test]
fn contents_survive_and_both_sides_see_each_others_stores() {
    assert!(run("contents").restarts() > 0, "a single-threaded program is converted by its own thread");
}

#[test]
fn the_stack_still_grows_below_shared_memory() {
    run("stack_end");
}

#[test]
fn no_increment_is_lost_while_or_after_the_page_is_converted() {
    run("atomics");
}

#[test]
fn many_conversions_follow_each_other() {
    run("many");
}

#[test]
fn a_range_over_memory_of_all_kinds_keeps_protections_and_files() {
    run("kinds");
}

#[test]
fn copies_obey_the_protections_of_the_pages() {
    run("copies");
}

#[test]
fn threads_that_come_and_go_do_not_escape() {
    run("comers_and_goers");
}

#[test]
fn a_process_whose_threads_all_wait_for_answers_is_converted() {
    assert!(run("waiters").restarts() >= 21, "20 calls and one wait were restarted");
}

#[test]
fn the_only_thread_is_borrowed_from_its_blocking_call() {
    run("lonely_wait");
}

#[test]
fn a_borrowed_thread_goes_on_in_its_system_call() {
    run("borrowed");
}

#[test]
fn a_storm_of_signals_neither_loses_nor_repeats_a_call() {
    run("signals");
}

#[test]
fn processes_in_the_same_memory_are_stopped_too() {
    run("same_memory");
}

#[test]
fn a_process_whose_first_thread_has_ended_is_converted() {
    run("first_thread_ends");
}

#[test]
fn a_thread_that_does_not_stop_is_left_alone_after_a_time() {
    run("stubborn");
}

#[test]
fn a_forked_child_shares_the_pages() {
    run("forked");
}

#[test]
fn nothing_is_left_when_descriptors_run_out() {
    run("limits");
}

#[test]
fn a_debugger_is_named_and_makes_it_busy() {
    let mut run = Run::start("traced");
    let wait = run.await_wait();
    run.attach();
    wait.wake();
    let _restarted = run.await_wait();
    run.detach();
    run.await_wait().wake();
    run.finish();
}

#[test]
fn a_stopped_process_is_converted_and_stays_stopped() {
    let mut run = Run::start("serve_outside");
    let wait = run.await_wait();
    run.signal(libc::SIGSTOP);
    // The first thread has to take the signal, and waits for the answer to its call.
    run.release();
    run.await_state('T');
    run.share(wait.addr, 4 << 20).expect("shared");
    run.await_state('T');
    run.signal(libc::SIGCONT);
    run.await_state('S');
    run.kill();
}

#[test]
fn a_process_that_is_killed_meanwhile_is_an_error_and_no_hang() {
    for delay in [0, 1, 3, 10, 30] {
        let mut run = Run::start("serve_outside");
        let wait = run.await_wait();
        let begin = Instant::now();
        let killer = run.kill_after(Duration::from_millis(delay));
        let result = run.share(wait.addr, wait.len);
        killer.join().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5), "killed after {delay} ms: {result:?}");
        run.kill();
        assert!(run.share(wait.addr, 4096).is_err());
    }
}

/// As root the tests above run as root; the ordinary user's case is another one for the kernel.
#[test]
fn an_unprivileged_user_converts_as_well() {
    if !rustix::process::geteuid().is_root() {
        return run("contents").assert_restarted();
    }
    let (program, _dir) = compile();
    let own = std::env::current_exe().unwrap();
    let tests = ["contents_survive", "no_increment_is_lost", "a_process_whose_threads_all"];
    // The files may lie where that user cannot reach: it gets them as descriptors.
    let program = std::fs::File::open(program).unwrap();
    let own = std::fs::File::open(own).unwrap();
    let path = |file: &std::fs::File| {
        use std::os::fd::AsRawFd;
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
        format!("/proc/self/fd/{}", file.as_raw_fd())
    };
    let mut command = Command::new(path(&own));
    command.args(tests).env("CONVERT_PROGRAM", path(&program)).uid(65534).gid(65534).current_dir("/");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("3 passed"), "{text}");
}
