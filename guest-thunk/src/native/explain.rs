//! Why a device could not be opened, in a sentence for whoever has to do something about it.
//!
//! Programs get one status for all of it (`HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED`); people have to load
//! a module, join a group or change a container, and the error number alone does not tell which.

use std::fmt;
use std::path::{Path, PathBuf};

use protocol::Errno;
use protocol::kfd::Node;
use rustix::process::{getegid, geteuid, getgroups};

use super::{Paths, group, tree};

/// A device that could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be opened: {reason} ({errno})", path.display())]
pub struct OpenProblem {
    /// The device.
    pub path: PathBuf,
    /// What `open(2)` answered.
    pub errno: Errno,
    /// What that means.
    pub reason: Reason,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `/dev/kfd` is not there, or nothing is behind it.
    NoKfd {
        /// Whether the kernel's driver is there: then the device file is missing, else the driver.
        driver: bool,
    },
    /// The render node is not there, or nothing is behind it.
    NoRenderNode,
    /// The file's mode does not let this user in.
    Permission {
        /// Who owns the file; `None` where not even that can be seen.
        owner: Option<Owner>,
        /// The user who asked.
        uid: u32,
    },
    /// The file's mode lets this user in, and something else does not.
    Forbidden {
        /// Whether a seccomp filter is at work in this process.
        seccomp: bool,
    },
    /// A seccomp filter refuses the very system call.
    Seccomp,
    /// Somebody else has it alone.
    Busy,
    /// KFD is there, and has no GPU: Linux 7.2 and later refuse to open it then.
    NoGpu,
    /// KFD refused this process.
    Refused,
    /// No descriptor is left.
    NoDescriptor {
        /// In the whole system, else in this process.
        system: bool,
    },
    /// None of the above.
    Other,
}

/// Owner and mode of a device file, seen by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Owning user.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Name of the group, if `/etc/group` has it.
    pub group: Option<String>,
    /// Whether this process is in the group.
    pub member: bool,
}

/// The group that stands for all that a user namespace does not know (`/proc/sys/kernel/overflowgid`).
const OVERFLOW_GID: u32 = 65534;

/// Mode bits of a class of users: read and write.
const READ_WRITE: u32 = 0o6;

impl Owner {
    /// Whether the mode lets this user open the file for reading and writing (`acl(5)` and capabilities left
    /// aside).
    fn allows(&self, uid: u32) -> bool {
        let shift = match (self.uid == uid, self.member) {
            (true, _) => 6,
            (false, true) => 3,
            (false, false) => 0,
        };
        uid == 0 || (self.mode >> shift) & READ_WRITE == READ_WRITE
    }
}

/// What `explain` looks at.
#[derive(Clone, Debug)]
struct Evidence {
    owner: Option<Owner>,
    uid: u32,
    seccomp: bool,
    driver: bool,
}

impl Evidence {
    fn gather(path: &Path, paths: &Paths) -> Self {
        let status = tree::read_start(&paths.status, 1 << 16).unwrap_or_default();
        Self {
            owner: owner(path, &paths.groups),
            uid: geteuid().as_raw(),
            seccomp: filtered(&status),
            driver: rustix::fs::stat(&paths.module).is_ok(),
        }
    }
}

/// Explains a failed `open(2)` of a device node, after a look at the file and at this process.
#[must_use]
pub fn explain(errno: Errno, node: Node, paths: &Paths) -> OpenProblem {
    let path = paths.node(node);
    let reason = reason(errno, node, Evidence::gather(&path, paths));
    OpenProblem { path, errno, reason }
}

fn reason(errno: Errno, node: Node, evidence: Evidence) -> Reason {
    match (errno, node) {
        (Errno::ENOENT | Errno::ENXIO | Errno::ENODEV, Node::Kfd) => {
            Reason::NoKfd { driver: evidence.driver }
        }
        (Errno::ENOENT | Errno::ENXIO | Errno::ENODEV, Node::Render(_)) => Reason::NoRenderNode,
        (Errno::EACCES | Errno::EPERM, _) => {
            let allowed = evidence.owner.as_ref().is_some_and(|owner| owner.allows(evidence.uid));
            if allowed || errno == Errno::EPERM {
                Reason::Forbidden { seccomp: evidence.seccomp }
            } else {
                Reason::Permission { owner: evidence.owner, uid: evidence.uid }
            }
        }
        (Errno::ENOSYS, _) => Reason::Seccomp,
        (Errno::EBUSY, _) => Reason::Busy,
        (Errno::EINVAL, Node::Kfd) => Reason::NoGpu,
        (Errno::ENOMEM, Node::Kfd) => Reason::Refused,
        (Errno::EMFILE | Errno::ENFILE, _) => Reason::NoDescriptor { system: errno == Errno::ENFILE },
        _ => Reason::Other,
    }
}

fn owner(path: &Path, groups: &Path) -> Option<Owner> {
    let stat = rustix::fs::stat(path).ok()?;
    let text = tree::read_start(groups, group::MAX_FILE).unwrap_or_default();
    let (uid, gid) = (stat.st_uid, stat.st_gid);
    let others = getgroups().unwrap_or_default();
    Some(Owner {
        uid,
        gid,
        mode: stat.st_mode & 0o7777,
        group: group::name_of(&text, gid).map(str::to_owned),
        member: getegid().as_raw() == gid || others.iter().any(|group| group.as_raw() == gid),
    })
}

/// Whether the text of `/proc/PID/status` says that a seccomp filter is at work (`Seccomp:` 1 or 2).
fn filtered(status: &[u8]) -> bool {
    let value = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Seccomp:"));
    value.is_some_and(|value| !matches!(value.trim_ascii(), b"0" | b""))
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Permission { owner: Some(owner), uid } => return permission(f, owner, *uid),
            Self::Permission { owner: None, uid } => {
                return write!(f, "user {uid} may not search a directory on the way to it");
            }
            Self::NoKfd { driver: false } => {
                "it does not exist, and the kernel's driver is not there either; load it (modprobe amdgpu), and \
                 see the kernel log if that makes no /dev/kfd"
            }
            Self::NoKfd { driver: true } => {
                "it does not exist although the kernel's driver amdgpu is there; in a container, pass the device \
                 in (--device /dev/kfd); otherwise the kernel may be built without KFD (CONFIG_HSA_AMD)"
            }
            Self::NoRenderNode => {
                "the GPU's render node does not exist here; in a container, pass the device in \
                 (--device /dev/dri)"
            }
            Self::Forbidden { seccomp: false } => {
                "the file's mode would allow it, but the device cgroup of a container or a security module does \
                 not"
            }
            Self::Forbidden { seccomp: true } => {
                "the file's mode would allow it, but the device cgroup of a container or a security module does \
                 not, or the seccomp filter that this process runs under"
            }
            Self::Seccomp => "a seccomp filter refuses the system call that opens files",
            Self::Busy => "another program has it for itself",
            Self::NoGpu => "the kernel's KFD has no GPU, and Linux 7.2 and later cannot be asked without one",
            Self::Refused => {
                "KFD refused this process, for a reason of its own and not because memory ran out: most often the \
                 driver could not initialise a GPU; see the kernel log"
            }
            Self::NoDescriptor { system: false } => {
                "this process has all the descriptors open that it may have (ulimit -n)"
            }
            Self::NoDescriptor { system: true } => {
                "the whole system has all the files open that it may have (sysctl fs.file-max)"
            }
            Self::Other => "the kernel refuses it for a reason that its log may tell",
        };
        f.write_str(text)
    }
}

/// The sentence for a mode that does not let the user in.
fn permission(f: &mut fmt::Formatter<'_>, owner: &Owner, uid: u32) -> fmt::Result {
    let Owner { gid, mode, .. } = owner;
    let name = owner.group.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
    write!(f, "it belongs to the group {name}({gid}) with mode {mode:04o}, and user {uid} is ")?;
    if owner.member {
        return f.write_str("in that group, which the mode does not let in");
    }
    f.write_str("not in that group; ")?;
    match &owner.group {
        _ if *gid == OVERFLOW_GID => {
            f.write_str("the group is one that this container or user namespace does not know")
        }
        Some(name) => write!(f, "add the user to it (usermod -aG {name} USER) and log in again"),
        None => write!(f, "the group has no name here: give its number to the container (--group-add {gid})"),
    }
}

#[cfg(test)]
mod tests;
