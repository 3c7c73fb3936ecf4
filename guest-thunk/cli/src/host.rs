//! What a host has for virtual machines with GPUs: QEMU, KVM, AMD GPUs, and what locks the workers of `vhost-device-kfd` in.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use hsakmt::native::{Native, Paths, explain};
use protocol::Errno;
use protocol::kfd::topology::Topology;
use protocol::kfd::{Kfd as _, Node};

use crate::report::Report;

/// The first QEMU that lends a vhost-user device of any kind to users (`vhost-user-test-device-pci`), major and minor version.
const QEMU_NEEDED: (u32, u32) = (11, 1);
/// The device of QEMU that passes ours on.
const QEMU_DEVICE: &str = "vhost-user-test-device-pci";

/// Where the doctor looks.
#[derive(Clone, Debug)]
pub struct Places {
    /// The kernel's driver for AMD GPUs.
    pub gpu: Paths,
    /// The device of KVM.
    pub kvm: PathBuf,
    /// Settings of the kernel.
    pub sysctl: PathBuf,
    /// The list of the kernel's security modules.
    pub lsm: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            gpu: Paths::default(),
            kvm: "/dev/kvm".into(),
            sysctl: "/proc/sys".into(),
            lsm: "/sys/kernel/security/lsm".into(),
        }
    }
}

/// Looks at everything.
pub fn examine(places: &Places, qemu: &OsStr) -> Report {
    let mut report = Report::default();
    report.usable = look_at_qemu(&mut report, qemu);
    look_at_kvm(&mut report, places);
    look_at_gpus(&mut report, &places.gpu);
    look_at_jail(&mut report, places);
    report
}

/// Whether it can lend our device to a guest.
fn look_at_qemu(report: &mut Report, qemu: &OsStr) -> bool {
    let name = qemu.display();
    let version = match output(qemu, &["--version"]) {
        Ok(text) => version(&text),
        Err(error) => {
            report.bad(format!(
                "{name} cannot be run ({error}): install QEMU 11.1 or later, or name it with --qemu"
            ));
            return false;
        }
    };
    let Some((major, minor)) = version else {
        report.bad(format!("{name} does not say which version of QEMU it is"));
        return false;
    };
    if (major, minor) < QEMU_NEEDED {
        let (needed, needed_minor) = QEMU_NEEDED;
        report.bad(format!(
            "{name} is QEMU {major}.{minor}, which has no {QEMU_DEVICE}: {needed}.{needed_minor} or later is needed \
             (Debian 13's backports have it)"
        ));
        return false;
    }
    let has_device = output(qemu, &["-device", "help"]).is_ok_and(|text| text.contains(QEMU_DEVICE));
    if has_device {
        report.good(format!("{name} is QEMU {major}.{minor} and has {QEMU_DEVICE}"));
    } else {
        report.bad(format!("{name} is QEMU {major}.{minor} and was built without {QEMU_DEVICE}"));
    }
    has_device
}

/// What a program prints, if it ends well.
fn output(program: &OsStr, args: &[&str]) -> Result<String, String> {
    let ran =
        Command::new(program).args(args).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if ran.status.success() {
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    } else {
        Err(ran.status.to_string())
    }
}

/// Out of "QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)".
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once("version ")?.1.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn look_at_kvm(report: &mut Report, places: &Places) {
    match File::options().read(true).write(true).open(&places.kvm) {
        Ok(_) => report.good(format!("{} opens: -accel kvm may be used", places.kvm.display())),
        Err(error) => report.note(format!(
            "{} does not open ({error}): guests run under QEMU's emulation (-accel tcg), many times slower",
            places.kvm.display()
        )),
    }
}

/// No GPU is no reason to go without: there is the software GPU.
fn look_at_gpus(report: &mut Report, paths: &Paths) {
    const WITHOUT: &str = "vhost-device-kfd --gpu soft:mi210 needs none";
    if let Err(error) = File::options().read(true).write(true).open(&paths.kfd) {
        let errno = error.raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::EIO);
        return report.note(format!("{}; {WITHOUT}", explain(errno, Node::Kfd, paths)));
    }
    let tree = Native::new(paths.clone()).topology();
    let gpus = match tree.map(|tree| Topology::parse(&tree)) {
        Ok(Ok(parsed)) => {
            parsed.topology.gpus().map(|gpu| (gpu.name.clone(), gpu.memory_size() >> 20)).collect()
        }
        Ok(Err(error)) => {
            return report.note(format!("the topology of the GPUs cannot be read: {error}; {WITHOUT}"));
        }
        Err(errno) => {
            return report.note(format!("the topology of the GPUs cannot be read: {errno}; {WITHOUT}"));
        }
    };
    let gpus: Vec<(String, u64)> = gpus;
    if gpus.is_empty() {
        report.note(format!("{} opens and has no GPU; {WITHOUT}", paths.kfd.display()));
    }
    for (name, mib) in gpus {
        report.good(format!(
            "{} has the GPU {name} with {mib} MiB: vhost-device-kfd --kfd",
            paths.kfd.display()
        ));
    }
}

/// What the workers are locked in with, as far as the kernel may go without it.
fn look_at_jail(report: &mut Report, places: &Places) {
    let root = rustix::process::geteuid().is_root();
    let is = |name: &str, value: &str| {
        fs::read_to_string(places.sysctl.join(name)).is_ok_and(|text| text.trim() == value)
    };
    let forbidden = is("user/max_user_namespaces", "0")
        || is("kernel/unprivileged_userns_clone", "0")
        || is("kernel/apparmor_restrict_unprivileged_userns", "1");
    if forbidden && !root {
        report.note(
            "this user may have no user namespaces (see user.max_user_namespaces and kernel.*userns* of sysctl): workers of \
             vhost-device-kfd share the daemon's namespaces",
        );
    }
    match fs::read_to_string(&places.lsm) {
        Ok(modules) if modules.trim().split(',').any(|module| module == "landlock") => {
            report.good("the kernel has Landlock, which keeps workers from files");
        }
        Ok(_) => report.note("the kernel runs without Landlock (lsm= on its command line): workers may open files of their user"),
        Err(_) => report.note(format!("whether the kernel has Landlock is not to be seen ({})", places.lsm.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::report::Line;

    fn places(dir: &std::path::Path) -> Places {
        let gpu = Paths {
            kfd: dir.join("kfd"),
            topology: dir.join("topology"),
            module: dir.join("amdgpu"),
            ..Paths::default()
        };
        Places { gpu, kvm: dir.join("kvm"), sysctl: dir.join("sys"), lsm: dir.join("lsm") }
    }

    /// A program that answers as QEMU does.
    fn qemu(dir: &std::path::Path, version: &str, devices: &str) -> PathBuf {
        let path = dir.join(format!("qemu-{version}-{}", devices.len()));
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'QEMU emulator version {version} (Debian)'; \
             else echo 'name \"{devices}\", bus PCI'; fi\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn has(report: &Report, text: &str) -> bool {
        report.lines.iter().any(|line| line.to_string().contains(text))
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version("QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)"), Some((11, 1)));
        assert_eq!(version("QEMU emulator version 7.2"), Some((7, 2)));
        for text in ["", "version ", "version x.1", "version 99999999999.1", "QEMU emulator 11.1"] {
            assert_eq!(version(text), None, "{text}");
        }
    }

    #[test]
    fn only_a_qemu_with_the_device_will_do() {
        let dir = tempfile::tempdir().unwrap();
        let places = places(dir.path());
        for (version, device, usable, says) in [
            ("11.1.3", QEMU_DEVICE, true, "ok       "),
            ("12.0.0", QEMU_DEVICE, true, "ok       "),
            ("11.1.3", "virtio-gpu-pci", false, "was built without"),
            ("10.0.13", "vhost-user-gpu-pci", false, "11.1 or later is needed"),
        ] {
            let report = examine(&places, qemu(dir.path(), version, device).as_os_str());
            assert_eq!(report.usable, usable, "{version} {device}: {:?}", report.lines);
            assert!(report.lines[0].to_string().contains(says), "{:?}", report.lines);
        }
        let report = examine(&places, OsStr::new("/nonexistent/qemu"));
        assert!(!report.usable && has(&report, "cannot be run"), "{:?}", report.lines);
    }

    #[test]
    fn a_host_without_gpu_and_kvm_is_told_what_it_goes_without() {
        let dir = tempfile::tempdir().unwrap();
        let mut report = Report::default();
        look_at_kvm(&mut report, &places(dir.path()));
        look_at_gpus(&mut report, &places(dir.path()).gpu);
        assert!(report.lines.iter().all(|line| matches!(line, Line::Note(_))), "{:?}", report.lines);
        assert!(has(&report, "-accel tcg") && has(&report, "soft:mi210"), "{:?}", report.lines);
        fs::write(dir.path().join("kvm"), "").unwrap();
        let mut report = Report::default();
        look_at_kvm(&mut report, &places(dir.path()));
        assert!(matches!(&report.lines[..], [Line::Good(_)]), "{:?}", report.lines);
    }

    #[test]
    fn a_kernel_with_and_without_landlock_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let places = places(dir.path());
        for (list, says) in
            [("capability,landlock,yama\n", "has Landlock"), ("capability\n", "without Landlock")]
        {
            fs::write(&places.lsm, list).unwrap();
            let mut report = Report::default();
            look_at_jail(&mut report, &places);
            assert!(has(&report, says), "{:?}", report.lines);
        }
    }
}
