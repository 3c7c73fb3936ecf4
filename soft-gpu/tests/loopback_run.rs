//! Unmodified programs on a device that is in another process: all they need crosses a socket.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command under `softgpu run` and ends it, with everything below, if it takes too long.
fn softgpu_run(options: &[&str], program: &[&str]) -> Output {
    Command::new("timeout")
        .args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_softgpu"), "run"])
        .args(options)
        .arg("--")
        .args(program)
        .stdin(Stdio::null())
        .output()
        .expect("timeout(1) runs")
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Debian's rocminfo uses events, userptr memory, mappings and render nodes.
#[test]
fn rocminfo_says_over_the_socket_what_it_says_without() {
    let rocminfo = "/usr/bin/rocminfo";
    assert!(Path::new(rocminfo).exists(), "{rocminfo} is missing: scripts/setup installs it");
    let direct = softgpu_run(&["--profile", "mi210"], &[rocminfo]);
    let remote = softgpu_run(&["--profile", "mi210", "--loopback"], &[rocminfo]);
    let (direct_out, direct_err) = text(&direct);
    let (remote_out, remote_err) = text(&remote);
    assert!(direct.status.success(), "{}\n{direct_out}{direct_err}", direct.status);
    assert!(remote.status.success(), "{}\n{remote_out}{remote_err}", remote.status);
    assert!(direct_out.contains("gfx90a") && direct_out.contains("*** Done ***"), "{direct_out}");
    assert_eq!(direct_out, remote_out);
}

#[test]
fn two_hundred_threads_wait_over_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("waiters");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/waiters.c");
    let compiled =
        Command::new("cc").args(["-O1", "-pthread", "-o"]).args([&program, &source]).status().unwrap();
    assert!(compiled.success());
    for options in [&["--profile", "cpu-only", "--loopback"][..], &["--profile", "cpu-only"]] {
        let output = softgpu_run(options, &[program.to_str().unwrap()]);
        let (out, err) = text(&output);
        assert!(output.status.success(), "{options:?}: {}\n{out}{err}", output.status);
        assert_eq!(out, "200 woken, each by its own event\n");
    }
}
