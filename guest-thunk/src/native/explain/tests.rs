use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

const KFD: Node = Node::Kfd;
const RENDER: Node = Node::Render(128);

fn root_render(mode: u32, member: bool) -> Option<Owner> {
    Some(Owner { uid: 0, gid: 109, mode, group: Some("render".to_owned()), member })
}

fn evidence(owner: Option<Owner>) -> Evidence {
    Evidence { owner, uid: 1000, seccomp: false, driver: true }
}

/// The sentence for an error on this evidence.
fn sentence(errno: Errno, node: Node, evidence: Evidence) -> String {
    let path = Paths::default().node(node);
    OpenProblem { path, errno, reason: reason(errno, node, evidence) }.to_string()
}

// Case E01: each error has its own explanation, and its number stays in it.
#[test]
fn every_error_of_open_is_explained_apart() {
    let errors = [
        (Errno::ENOENT, "does not exist although the kernel's driver amdgpu is there"),
        (Errno::EACCES, "not in that group"),
        (Errno::EPERM, "device cgroup"),
        (Errno::ENOSYS, "seccomp filter refuses the system call"),
        (Errno::EBUSY, "another program"),
        (Errno::EINVAL, "has no GPU, and Linux 7.2 and later"),
        (Errno::ENOMEM, "not because memory ran out"),
        (Errno::EMFILE, "ulimit -n"),
        (Errno::ENFILE, "fs.file-max"),
        (Errno::EFAULT, "its log may tell"),
    ];
    for (errno, part) in errors {
        let sentence = sentence(errno, KFD, evidence(root_render(0o660, false)));
        assert!(sentence.starts_with("/dev/kfd cannot be opened: "), "{sentence}");
        assert!(sentence.ends_with(&format!("({errno})")), "{sentence}");
        assert!(sentence.contains(part), "{errno}: {sentence}");
        let others = errors.iter().filter(|(other, _)| *other != errno);
        assert!(others.into_iter().all(|(_, part)| !sentence.contains(part)), "{sentence}");
    }
}

// Case E01.
#[test]
fn a_missing_kfd_names_the_module_only_if_that_is_missing() {
    for errno in [Errno::ENOENT, Errno::ENXIO, Errno::ENODEV] {
        let without = sentence(errno, KFD, Evidence { driver: false, ..evidence(None) });
        assert!(without.contains("modprobe amdgpu"), "{without}");
        let with = sentence(errno, KFD, evidence(None));
        assert!(!with.contains("modprobe") && with.contains("--device /dev/kfd"), "{with}");
        let render = sentence(errno, RENDER, evidence(None));
        assert!(
            render.starts_with("/dev/dri/renderD128") && render.contains("--device /dev/dri"),
            "{render}"
        );
    }
}

// Case E03.
#[test]
fn a_missing_group_is_named() {
    for node in [KFD, RENDER] {
        let sentence = sentence(Errno::EACCES, node, evidence(root_render(0o660, false)));
        assert!(sentence.contains("the group render (109) with mode 0660"), "{sentence}");
        assert!(sentence.contains("user 1000 is not in that group"), "{sentence}");
        assert!(sentence.contains("usermod -aG render"), "{sentence}");
    }
}

// Case E03: an image that does not know the host's group.
#[test]
fn a_group_without_a_name_is_told_by_number() {
    let nameless = |gid| Some(Owner { gid, group: None, ..root_render(0o660, false).unwrap() });
    let unnamed = sentence(Errno::EACCES, KFD, evidence(nameless(992)));
    assert!(unnamed.contains("--group-add 992") && !unnamed.contains("usermod"), "{unnamed}");
    let unmapped = sentence(Errno::EACCES, KFD, evidence(nameless(OVERFLOW_GID)));
    assert!(unmapped.contains("user namespace does not know"), "{unmapped}");
}

#[test]
fn a_mode_that_shuts_the_group_out_is_told_from_a_missing_group() {
    let sentence = sentence(Errno::EACCES, KFD, evidence(root_render(0o600, true)));
    assert!(sentence.contains("in that group, which the mode does not let in"), "{sentence}");
    assert!(!sentence.contains("usermod"), "{sentence}");
}

#[test]
fn where_the_mode_allows_it_something_else_forbids() {
    let reason = |errno, owner, seccomp| reason(errno, KFD, Evidence { seccomp, ..evidence(owner) });
    for errno in [Errno::EACCES, Errno::EPERM] {
        for seccomp in [false, true] {
            assert_eq!(reason(errno, root_render(0o666, false), seccomp), Reason::Forbidden { seccomp });
            assert_eq!(reason(errno, root_render(0o660, true), seccomp), Reason::Forbidden { seccomp });
        }
    }
    assert!(Reason::Forbidden { seccomp: true }.to_string().contains("seccomp"));
    assert!(!Reason::Forbidden { seccomp: false }.to_string().contains("seccomp"));
}

#[test]
fn a_directory_that_may_not_be_searched_is_told() {
    let sentence = sentence(Errno::EACCES, RENDER, evidence(None));
    assert!(sentence.contains("user 1000 may not search a directory"), "{sentence}");
}

#[test]
fn modes_are_those_of_the_users_class() {
    let owner = |uid, mode, member| Owner { uid, gid: 109, mode, group: None, member };
    assert!(owner(1000, 0o600, false).allows(1000));
    assert!(!owner(1000, 0o066, true).allows(1000), "the owner's bits win");
    assert!(owner(0, 0o660, true).allows(1000));
    assert!(!owner(0, 0o606, true).allows(1000), "the group's bits win");
    assert!(owner(0, 0o606, false).allows(1000));
    assert!(!owner(0, 0o664, false).allows(1000), "reading is not enough");
    assert!(owner(5, 0o000, false).allows(0), "root passes by");
}

#[test]
fn seccomp_is_seen_in_the_status_of_a_process() {
    let status = |value: &str| format!("Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t{value}\nSeccomp_filters:\t1\n");
    assert!(filtered(status("2").as_bytes()));
    assert!(filtered(status("1").as_bytes()));
    assert!(!filtered(status("0").as_bytes()));
    assert!(!filtered(b"Name:\tx\n"), "a kernel without seccomp");
    assert!(!filtered(b""));
}

#[test]
fn evidence_is_of_the_real_file_and_process() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths {
        kfd: dir.path().join("kfd"),
        groups: dir.path().join("group"),
        module: dir.path().join("amdgpu"),
        ..Paths::default()
    };
    fs::write(&paths.kfd, "").unwrap();
    fs::set_permissions(&paths.kfd, Permissions::from_mode(0o640)).unwrap();
    let own = getegid().as_raw();
    fs::write(&paths.groups, format!("ours:x:{own}:\n")).unwrap();
    let seen = Evidence::gather(&paths.kfd, &paths);
    let owner = seen.owner.clone().unwrap();
    assert_eq!((owner.uid, owner.gid, owner.mode), (geteuid().as_raw(), own, 0o640));
    assert_eq!((owner.group.as_deref(), owner.member), (Some("ours"), true));
    assert!(!seen.driver);
    fs::create_dir(&paths.module).unwrap();
    assert!(Evidence::gather(&paths.kfd, &paths).driver);
    fs::remove_file(&paths.kfd).unwrap();
    assert_eq!(Evidence::gather(&paths.kfd, &paths).owner, None);
    assert_eq!(explain(Errno::ENOENT, KFD, &paths).reason, Reason::NoKfd { driver: true });
}

#[test]
fn missing_or_odd_files_of_evidence_are_no_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths { groups: dir.path().into(), status: dir.path().join("none"), ..Paths::default() };
    let seen = Evidence::gather(Path::new("/dev/null"), &paths);
    assert_eq!(seen.owner.unwrap().group, None);
    assert!(!seen.seccomp);
}
