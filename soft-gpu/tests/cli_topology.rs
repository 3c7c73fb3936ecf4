//! `softgpu profiles` and `softgpu topology` as programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn softgpu(args: &[&str], dir: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_softgpu");
    Command::new(program).args(args).current_dir(dir).output().expect("softgpu starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn profiles_are_listed() {
    let out = softgpu(&["profiles"], Path::new("/"));
    assert!(out.status.success(), "{out:?}");
    let names: Vec<String> = text(&out.stdout)
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    assert_eq!(names, ["mi210", "mi300x", "rx7900xtx", "two-gpu", "small-bar", "mi210-private", "cpu-only"]);
}

#[test]
fn a_topology_is_written_and_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = softgpu(&["topology", "t", "--profile", "rx7900xtx"], dir.path());
    assert!(out.status.success(), "{out:?}");
    let properties = fs::read_to_string(dir.path().join("t/nodes/1/properties")).expect("a file");
    // 96 CUs of two SIMDs; gfx1100.
    assert!(properties.contains("\nsimd_count 192\n"));
    assert!(properties.contains("\ngfx_target_version 110000\n"));
    assert!(dir.path().join("t/nodes/0/caches").is_dir());

    let again = softgpu(&["topology", "t"], dir.path());
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("not empty"), "{again:?}");
    assert!(softgpu(&["topology", "t", "--profile", "cpu-only", "--force"], dir.path()).status.success());
    assert!(!dir.path().join("t/nodes/1").exists());
}

#[test]
fn the_kernel_decides_about_the_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    for (kernel, has_it) in [("6.12", false), ("7.3", true), ("rocm", true)] {
        let out = softgpu(&["topology", kernel, "--kernel", kernel], dir.path());
        assert!(out.status.success(), "{out:?}");
        let properties =
            fs::read_to_string(dir.path().join(kernel).join("nodes/1/properties")).expect("a file");
        assert_eq!(properties.contains("\ncapability2 "), has_it, "{kernel}");
    }
}

#[test]
fn a_given_tree_is_passed_on_or_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(softgpu(&["topology", "a"], dir.path()).status.success());
    assert!(softgpu(&["topology", "b", "--topology", "a"], dir.path()).status.success());
    let name = |tree: &str| dir.path().join(tree).join("nodes/1/properties");
    assert_eq!(fs::read(name("a")).expect("a file"), fs::read(name("b")).expect("a file"));

    let without = fs::read_to_string(name("a")).expect("a file").replace("drm_render_minor 128\n", "");
    fs::write(name("a"), without).expect("written");
    let out = softgpu(&["topology", "c", "--topology", "a"], dir.path());
    assert_eq!(out.status.code(), Some(1));
    let expected =
        "softgpu: a: node 1 has a GPU, but its drm_render_minor is 0 and not between 128 and 255\n";
    assert_eq!(text(&out.stderr), expected);
    assert!(!dir.path().join("c").exists());
}
