//! What the first process does with the kernel: mounts, modules, the port to the host, the end.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    mount::MountFlags,
    system::{RebootCommand, finit_module, reboot},
};
use vm_tests::wire::{PORT, Source};

/// How long the devices of the guest may take to appear.
const DEVICES: Duration = Duration::from_secs(30);

/// The file systems that every program expects.
pub fn mount_basics() -> io::Result<()> {
    let basics = [
        ("proc", "/proc", ""),
        ("sysfs", "/sys", ""),
        ("devtmpfs", "/dev", "mode=0755"),
        ("tmpfs", "/dev/shm", "mode=1777"),
        ("devpts", "/dev/pts", "ptmxmode=0666"),
        ("tmpfs", "/tmp", "mode=1777"),
        ("tmpfs", "/run", "mode=0755"),
    ];
    for (fstype, target, options) in basics {
        mount(&Source::Name(fstype.to_owned()), target, fstype, false, options)?;
    }
    Ok(())
}

/// Mounts one file system.
pub fn mount(source: &Source, target: &str, fstype: &str, read_only: bool, options: &str) -> io::Result<()> {
    let source = match source {
        Source::Name(name) => PathBuf::from(name),
        Source::Disk(serial) => wait_for(&format!("disk {serial}"), || disk(serial))?,
    };
    fs::create_dir_all(target)?;
    let flags = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    let options = CString::new(options)?;
    rustix::mount::mount(&source, target, fstype, flags, Some(options.as_c_str())).map_err(|errno| {
        let message = format!("Failed to mount {fstype} {} on {target}: {errno}", source.display());
        io::Error::new(io::Error::from(errno).kind(), message)
    })
}

/// Loads a module; one that is there already is as good.
pub fn load_module(path: &str, parameters: &str) -> io::Result<()> {
    let file = File::open(path)?;
    match finit_module(&file, &CString::new(parameters)?, 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        loaded => Ok(loaded?),
    }
}

/// The serial port to the host.
pub fn open_port() -> io::Result<File> {
    let device = wait_for(&format!("port {PORT}"), || {
        let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.filter_map(Result::ok);
        let ours = |entry: &fs::DirEntry| is(&entry.path().join("name"), PORT);
        Some(PathBuf::from("/dev").join(ports.into_iter().find(ours)?.file_name()))
    })?;
    File::options().read(true).write(true).open(device)
}

/// Switches the machine off or reboots it, with whatever runs on it; returns only if that fails.
pub fn end(how: RebootCommand) -> io::Result<()> {
    rustix::fs::sync();
    Ok(reboot(how)?)
}

fn disk(serial: &str) -> Option<PathBuf> {
    let disks = fs::read_dir("/sys/block").ok()?.filter_map(Result::ok);
    let ours = |entry: &fs::DirEntry| is(&entry.path().join("serial"), serial);
    Some(PathBuf::from("/dev").join(disks.into_iter().find(ours)?.file_name()))
}

/// Whether a file of sysfs says exactly this.
fn is(file: &std::path::Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|contents| contents.trim_end() == text)
}

/// Looks until the thing is there and its device node too, which the kernel makes a little later.
fn wait_for(what: &str, look: impl Fn() -> Option<PathBuf>) -> io::Result<PathBuf> {
    let deadline = Instant::now() + DEVICES;
    while Instant::now() < deadline {
        if let Some(device) = look().filter(|device| device.exists()) {
            return Ok(device);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("The {what} did not appear within {DEVICES:?}")))
}
