//! What native KFD says when the device cannot be opened (cases E01, E03).

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use hsakmt::native::{Native, Paths};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::program::{Program, in_a_child, line};

/// Groups and users of Debian.
const RENDER: u32 = 109;
const VIDEO: u32 = 44;
const NOBODY: u32 = 65534;

pub fn run() {
    let dir = std::env::temp_dir().join("native_kfd");
    fs::create_dir_all(&dir).expect("a directory");
    let groups = dir.join("group");
    fs::write(&groups, format!("root:x:0:\nvideo:x:{VIDEO}:\nrender:x:{RENDER}:\n")).expect("a file");
    let paths = Paths { groups, ..Paths::default() };

    open("no such file", &Paths { kfd: dir.join("kfd"), ..paths.clone() });
    open("no driver", &Paths { kfd: dir.join("kfd"), module: dir.join("amdgpu"), ..paths.clone() });
    chown(&paths.kfd, Some(0), Some(RENDER)).expect("chown");
    for (mode, gid) in [(0o660, VIDEO), (0o660, RENDER), (0o600, RENDER), (0o666, VIDEO)] {
        fs::set_permissions(&paths.kfd, Permissions::from_mode(mode)).expect("chmod");
        let name = format!("mode {mode:o}, group {gid}");
        in_a_child(&name, || {
            become_user(gid);
            open(&name, &paths);
        });
    }
    open("root, with any mode", &paths);
    in_a_child("no descriptors", || {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).expect("setrlimit");
        open("no descriptors", &paths);
    });
}

/// Opens three times: the reason is told once.
fn open(name: &str, paths: &Paths) {
    let native = Native::new(paths.clone());
    for _ in 0..3 {
        line(name, Program::open(&native).map(|_| 0), "");
    }
}

/// A user that is in this group alone.
fn become_user(gid: u32) {
    // SAFETY: the one group lives through the call.
    let groups = unsafe { libc::setgroups(1, &raw const gid) };
    assert_eq!(groups, 0, "setgroups");
    // SAFETY: no memory is involved.
    let group = unsafe { libc::setgid(gid) };
    assert_eq!(group, 0, "setgid");
    // SAFETY: no memory is involved.
    let user = unsafe { libc::setuid(NOBODY) };
    assert_eq!(user, 0, "setuid");
}
