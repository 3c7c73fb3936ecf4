//! The process that becomes the program: builds the private namespace around itself, puts the filter
//! on and executes the program.
//!
//! It runs between `fork` and `execve` of a process that may have had threads: memory allocation is
//! fine there (glibc and musl both keep their allocators usable in the child), locks of the standard
//! library are not, so nothing here prints, logs or touches the environment of the process.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ftruncate, openat};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::channel::{Channel, Kind};
use super::graft::Stage;
use super::notify;
use super::sysview::{DeviceNode, Dir};
use crate::backing::{KFD_FILE_SIZE, RENDER_FILE_SIZE};

/// Everything that the program-to-be needs, made before the fork.
pub struct Spec {
    /// Program, by path or to be found in `PATH`.
    pub program: CString,
    /// Its arguments, the zeroth included.
    pub argv: Vec<CString>,
    /// Its environment.
    pub envp: Vec<CString>,
    /// What it sees of the device.
    pub view: Dir,
    /// Minors of the render nodes.
    pub minors: Vec<u32>,
    /// The signal mask that it starts with.
    pub mask: libc::sigset_t,
    /// Whether the supervisor answers calls that open files.
    pub opens: bool,
}

/// Directories to prepare things in, hidden meanwhile: the first that exists. What is prepared refers
/// to nothing below them.
const STAGING: [&str; 5] = ["/tmp", "/run", "/mnt", "/var/tmp", "/dev/shm"];

/// Runs in the child. Returns only with what went wrong.
pub fn become_program(spec: &Spec, supervisor: &Channel) -> String {
    match prepare(spec, supervisor) {
        Ok(true) => {}
        Ok(false) => return "the supervisor is gone".to_owned(),
        Err(error) => return error,
    }
    let errno = execute(spec);
    let _ = supervisor.send(Kind::ExecFailed, &errno.to_string(), &[]);
    String::new()
}

fn prepare(spec: &Spec, supervisor: &Channel) -> Result<bool, String> {
    let text = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("cannot {what}: {error}")
    };
    enter_namespaces()?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| text("bind to the parent's life")(e.into()))?;
    let directory = named_directory();
    let staging = mount_staging()?;
    let files = make_files(&staging, &spec.minors).map_err(text("make the device files"))?;
    let mut stage = Stage::new(staging.clone(), device_path);
    stage.graft(Path::new("/"), &spec.view).map_err(|error| error.to_string())?;
    unmount(&staging, UnmountFlags::DETACH).map_err(|e| text("detach the staging directory")(e.into()))?;
    // Below /dev and /sys it is still the directory that the new one hides.
    if let Some(directory) = directory {
        let _ = rustix::process::chdir(directory);
    }

    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    supervisor.send(Kind::Staged, "", &borrowed).map_err(text("send the device files"))?;
    drop(files);
    match supervisor.receive().map_err(text("hear from the supervisor"))? {
        Some(message) if message.kind == Kind::Go => {}
        _ => return Ok(false),
    }
    let listener = notify::install(spec.opens).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => "cannot install the seccomp filter: another one with a listener is active \
                              (softgpu run inside softgpu run is not possible)"
            .to_owned(),
        _ => text("install the seccomp filter")(error),
    })?;
    supervisor.send(Kind::Listener, "", &[listener.as_fd()]).map_err(text("send the listener"))?;
    Ok(true)
}

/// A mount namespace of our own; together with a user namespace where that is what it takes. There the
/// caller's own ids are mapped to themselves and nothing else.
fn enter_namespaces() -> Result<(), String> {
    if unshare(UnshareFlags::NEWNS).is_err() {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|error| {
            format!("cannot make a user namespace: {error} (are unprivileged user namespaces allowed here?)")
        })?;
        let write = |name: &str, text: String| {
            fs::write(format!("/proc/self/{name}"), text)
                .map_err(|error| format!("cannot write /proc/self/{name}: {error}"))
        };
        write("setgroups", "deny".to_owned())?;
        write("uid_map", format!("{uid} {uid} 1"))?;
        write("gid_map", format!("{gid} {gid} 1"))?;
    }
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).map_err(|error| {
        format!("cannot make the mounts private: {error} (does a security module restrict user namespaces?)")
    })
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the flags do not name FILES, which is what makes unshare unsafe.
    unsafe { unshare_unsafe(flags) }
}

/// The working directory's path, if that leads to it: it may have been removed, or covered by a mount.
fn named_directory() -> Option<PathBuf> {
    let path = std::env::current_dir().ok()?;
    let identity = |path: &Path| rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let same = identity(&path).is_some_and(|found| Some(found) == identity(Path::new(".")));
    same.then_some(path)
}

fn mount_staging() -> Result<PathBuf, String> {
    let mut last = "none of them exists".to_owned();
    for dir in STAGING {
        match mount("softgpu", dir, "tmpfs", MountFlags::NOSUID, c"mode=0755") {
            Ok(()) => return Ok(PathBuf::from(dir)),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("cannot mount a tmpfs on any of {}: {last}", STAGING.join(", ")))
}

/// Where the backing file of a node is below the staging directory.
fn device_path(staging: &Path, node: DeviceNode) -> PathBuf {
    match node {
        DeviceNode::Kfd => staging.join("device/kfd"),
        DeviceNode::Render(minor) => staging.join(format!("device/renderD{minor}")),
    }
}

/// The sparse files on a tmpfs of their own. Its size is a bound on what the GPUs' memory may take
/// from the machine, which the software GPU's accounting keeps below what the profile has.
fn make_files(staging: &Path, minors: &[u32]) -> io::Result<Vec<OwnedFd>> {
    let dir = staging.join("device");
    fs::create_dir(&dir)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    // The first touch of large buffers is four times faster with huge pages, where the kernel has them.
    if mount("softgpu", &dir, "tmpfs", flags, c"mode=0755,size=90%,huge=advise").is_err() {
        mount("softgpu", &dir, "tmpfs", flags, c"mode=0755,size=90%")?;
    }
    let nodes = std::iter::once((DeviceNode::Kfd, KFD_FILE_SIZE))
        .chain(minors.iter().map(|&minor| (DeviceNode::Render(minor), RENDER_FILE_SIZE)));
    nodes
        .map(|(node, size)| {
            let path = device_path(staging, node);
            let fd = openat(CWD, &path, OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC, Mode::empty())?;
            // Set apart from creation, so that the caller's umask has no say.
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o666))?;
            ftruncate(&fd, size)?;
            Ok(fd)
        })
        .collect()
}

/// Executes the program; returns the error number of the failure.
fn execute(spec: &Spec) -> i32 {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&spec.argv), pointers(&spec.envp));
    // Rust's runtime ignores SIGPIPE in the supervisor; programs expect the default.
    // SAFETY: SIG_DFL is a valid disposition and this process has one thread.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // SAFETY: the mask is initialised and the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const spec.mask, std::ptr::null_mut()) };
    // SAFETY: both arrays end in a null pointer and hold pointers to strings that live as long as `spec`.
    unsafe { libc::execvpe(spec.program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
