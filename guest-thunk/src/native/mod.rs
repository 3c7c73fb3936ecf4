//! [`Kfd`] over the kernel's `/dev/kfd`, render nodes and sysfs.
//!
//! The kernel knows a process by its address space and takes calls on `/dev/kfd` only from the process that
//! opened it. So a [`Native`] serves the process in which it was made and no other. A forked child gets
//! `EBADF` for everything; [`Native::abandon_in_child`] lets it close what it inherited.
//!
//! Three things differ from other implementations of the trait:
//! - An [`Interrupt`](protocol::kfd::Interrupt) that fires while the kernel sleeps in a call does not end it.
//!   A signal to that thread does, with a handler that was installed without `SA_RESTART`: the call answers
//!   `EINTR` and may be made again with the same arguments. One that has fired before ends a blocking call
//!   before it begins.
//! - A caller's memory is this process's own, and the kernel reaches it by itself: `Call::mem` is not used
//!   ([`KernelReaches`]).
//! - The kernel compares only the number of a request with its table. Here the letter must be right too
//!   (`ENOTTY`), because other letters are calls of the file system layer, whose argument is not the struct
//!   that the request's size names.

mod descriptors;
mod explain;
mod files;
mod group;
mod process;
mod tree;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use protocol::Errno;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Caller, Fault, Kfd, Node, Process, Shared, UserMem};
use rustix::fs::{CWD, Mode, OFlags, openat};

pub use explain::{OpenProblem, Owner, Reason, explain};

use crate::errno_of;
use crate::fork::ForkMark;
use files::Files;
use process::NativeProcess;

/// Where the kernel's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The KFD device.
    pub kfd: PathBuf,
    /// Directory of the render nodes (`renderD128` and up).
    pub render_nodes: PathBuf,
    /// Root of the topology tree.
    pub topology: PathBuf,
    /// The driver's directory, which is there while the module is loaded or built in.
    pub module: PathBuf,
    /// Names of groups (`group(5)`), for messages.
    pub groups: PathBuf,
    /// State of the calling thread (`proc_pid_status(5)`; seccomp filters are a thread's), for messages.
    pub status: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            kfd: "/dev/kfd".into(),
            render_nodes: "/dev/dri".into(),
            topology: "/sys/devices/virtual/kfd/kfd/topology".into(),
            module: "/sys/module/amdgpu".into(),
            groups: "/etc/group".into(),
            status: "/proc/thread-self/status".into(),
        }
    }
}

impl Paths {
    /// Path of a device node.
    #[must_use]
    pub fn node(&self, node: Node) -> PathBuf {
        match node {
            Node::Kfd => self.kfd.clone(),
            Node::Render(minor) => self.render_nodes.join(format!("renderD{minor}")),
        }
    }
}

/// The GPUs of this machine, through its kernel.
pub struct Native {
    device: Arc<Device>,
}

/// The caller's memory, for [`Native`]: the kernel reaches it by itself, so nobody reads or writes it through
/// this, and whoever tries gets a [`Fault`].
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelReaches;

impl UserMem for KernelReaches {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { addr, len: buf.len() as u64 })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        Err(Fault { addr, len: buf.len() as u64 })
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// What the processes of one [`Native`] have in common.
struct Device {
    paths: Paths,
    open_render_node: RenderOpener,
    files: Files,
    fork: ForkMark,
    processes: AtomicU64,
    /// Error of the last failed open that was told, so that a program that tries again and again does not
    /// fill its log.
    told: AtomicI32,
}

/// How a render node is opened: `open(2)`, read and write, close-on-exec.
pub type RenderOpener = fn(&Path) -> std::io::Result<OwnedFd>;

impl Native {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(paths: Paths) -> Self {
        Self::with_render_opener(paths, |path| Ok(open_device(path)?))
    }

    /// Opens nothing yet. Render nodes are opened by somebody else: KFD's address space hangs on the open file, so whoever
    /// shares the GPU with this process (libdrm) has to share that too.
    #[must_use]
    pub fn with_render_opener(paths: Paths, open_render_node: RenderOpener) -> Self {
        let (files, fork) = (Files::new(), ForkMark::new());
        let (processes, told) = (AtomicU64::new(0), AtomicI32::new(0));
        Self { device: Arc::new(Device { paths, open_render_node, files, fork, processes, told }) }
    }

    /// In a forked child: closes the descriptors that it inherited. The parent's files are untouched, and no
    /// lock is taken, which a thread of the parent may have held at the fork. In the process that made this
    /// it does nothing.
    ///
    /// All processes attached to this `Native` stay unusable in the child (`EBADF`); it makes a new one.
    pub fn abandon_in_child(&self) {
        if self.device.fork.is_here() {
            return;
        }
        for fd in self.device.files.abandon() {
            // SAFETY: the number is a descriptor that this process inherited, and by the contract of
            // `abandon` no value of this address space closes it any more.
            unsafe { rustix::io::close(fd) };
        }
    }
}

impl Default for Native {
    fn default() -> Self {
        Self::new(Paths::default())
    }
}

impl Kfd for Native {
    /// Files that this process may not see because of its device cgroup (`EPERM`) are [`Tree::denied`].
    ///
    /// # Errors
    /// `ENOENT` without KFD; `EACCES` and others if a file cannot be read; `E2BIG` for a tree beyond all
    /// bounds.
    fn topology(&self) -> Result<Tree, Errno> {
        tree::read_dir(&self.device.paths.topology)
    }

    /// # Errors
    /// `EINVAL` for another process than this one, which the kernel would not serve here; `EBADF` in a child
    /// of the process that made this.
    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        if !self.device.fork.is_here() {
            return Err(Errno::EBADF);
        }
        if caller.pid != self.device.fork.pid() {
            let own = self.device.fork.pid();
            log::error!("the kernel's KFD serves process {own} here, not process {}", caller.pid);
            return Err(Errno::EINVAL);
        }
        let number = self.device.processes.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(NativeProcess::new(Arc::clone(&self.device), number)))
    }
}

impl Device {
    /// `open(2)` of a device node, with a message for whoever has to act if it fails.
    fn open(&self, node: Node) -> Result<OwnedFd, Errno> {
        let path = self.paths.node(node);
        let opened = match node {
            Node::Kfd => open_device(&path),
            Node::Render(_) => (self.open_render_node)(&path)
                .map_err(|error| error.raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::EIO)),
        };
        opened.inspect_err(|&errno| self.tell(node, errno))
    }

    /// Says once what is wrong. A render node that is missing or denied is normal: so are GPUs hidden from
    /// containers.
    fn tell(&self, node: Node, errno: Errno) {
        let hidden = matches!(node, Node::Render(_)) && matches!(errno, Errno::ENOENT | Errno::EPERM);
        let known = self.told.swap(errno.raw(), Ordering::Relaxed) == errno.raw();
        if hidden || known {
            log::debug!(
                "{}: open failed again or for a reason that is normal: {errno}",
                self.paths.node(node).display()
            );
        } else {
            log::error!("{}", explain(errno, node, &self.paths));
        }
    }
}

fn open_device(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::io::retry_on_intr(|| openat(CWD, path, flags, Mode::empty())).map_err(errno_of)
}
