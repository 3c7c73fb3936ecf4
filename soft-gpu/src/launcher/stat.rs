//! `stat` and its kin on the device nodes, and what would change their size: the files behind them are regular, devices they
//! must seem.
//!
//! The reply is the one that the kernel gives for the file, with mode, size and device number of a
//! character device. For paths only those are looked at that can be a device node by their last
//! part; the rest continues at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use protocol::Errno;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, open, openat2, statx};

use super::filter::{Arch, Syscall};
use super::nodes::NodeFile;
use super::notify::{Answer, Notification};
use super::registry::{Descriptor, Registry, unless_short};
use super::server::answer_unseen;
use crate::vm_copy;

/// `PATH_MAX`.
const PATH_MAX: usize = 4096;
/// Permission bits of the nodes: what udev gives `/dev/kfd` on machines for everyone.
const MODE: u32 = libc::S_IFCHR | 0o666;

/// Answers a call of the `stat` family.
pub fn answer(registry: &Registry, call: &Notification) -> Answer {
    let Some(target) = Target::of(call) else { return Answer::Continue };
    let node = match target.node(registry, call.tid) {
        Ok(Some(node)) => node,
        Ok(None) => return Answer::Continue,
        Err(errno) => return answer_unseen(errno),
    };
    let reply = match call.call {
        Syscall::Statx => statx_reply(node, call.args[2], call.args[3]),
        _ => fstat(&node.fd).ok().map(|stat| match call.arch {
            Arch::X86_64 => stat_64(&stat, node),
            Arch::I386 => stat_i386(&stat, node),
        }),
    };
    let Some(reply) = reply else { return Answer::Continue };
    match vm_copy::write(call.tid, target.buffer, &reply) {
        Ok(()) => Answer::Value(0),
        Err(_) => Answer::Error(Errno::EFAULT),
    }
}

/// A device node that a call opens.
pub struct Opening<'a> {
    /// Which.
    pub node: &'a NodeFile,
    /// The call's `O_*`.
    pub flags: OFlags,
}

impl Opening<'_> {
    /// Whether the file behind the node would be truncated: not where the call fails before that.
    #[must_use]
    pub fn truncates(&self) -> bool {
        let refused = OFlags::CREATE | OFlags::EXCL;
        self.flags.contains(OFlags::TRUNC)
            && !self.flags.contains(refused)
            && !self.flags.contains(OFlags::DIRECTORY)
    }

    /// The node as the call opens it, but for what a device ignores.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let ignored = OFlags::TRUNC | OFlags::CREATE | OFlags::NOFOLLOW;
        let flags = self.flags.difference(ignored) | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", self.node.fd.as_raw_fd());
        open(path, flags, Mode::empty())
            .map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO))
    }
}

/// The device node that a call opens, if it is one; not for `O_PATH`, which leaves the device alone.
///
/// # Errors
/// `ENFILE` or `ENOMEM` if this process is short of what it takes to look.
pub fn opening<'a>(registry: &'a Registry, call: &Notification) -> Result<Option<Opening<'a>>, Errno> {
    let creat = flag(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC);
    let [a0, a1, a2, ..] = call.args;
    let (dir, path, flags) = match call.call {
        Syscall::Open => (libc::AT_FDCWD, a0, Some(a1)),
        Syscall::Creat => (libc::AT_FDCWD, a0, Some(creat)),
        Syscall::Openat => (descriptor(a0), a1, Some(a2)),
        // The flags are the first member of struct open_how.
        Syscall::Openat2 => (descriptor(a0), a1, read_word(call.tid, a2)),
        _ => return Ok(None),
    };
    let Some(flags) = flags.filter(|flags| flags & flag(libc::O_PATH) == 0) else { return Ok(None) };
    let follow = flags & flag(libc::O_NOFOLLOW) == 0;
    let target = Target { path: Some(path), dir, empty_is_dir: false, follow, buffer: 0 };
    let flags = OFlags::from_bits_retain(low_word(flags));
    Ok(target.node(registry, call.tid)?.map(|node| Opening { node, flags }))
}

/// Answers `truncate`, `ftruncate` and `fallocate`: `do_sys_ftruncate`, `vfs_truncate` and `vfs_fallocate` refuse what is
/// no regular file.
pub fn truncation(registry: &Registry, call: &Notification) -> Answer {
    let [a0, ..] = call.args;
    let (path, fd, errno) = match call.call {
        Syscall::Truncate => (Some(a0), libc::AT_FDCWD, Errno::EINVAL),
        Syscall::Ftruncate => (None, descriptor(a0), Errno::EINVAL),
        Syscall::Fallocate => (None, descriptor(a0), Errno::ENODEV),
        _ => return Answer::Continue,
    };
    let target = Target { path, dir: fd, empty_is_dir: false, follow: true, buffer: 0 };
    match target.node(registry, call.tid) {
        Ok(Some(_)) => Answer::Error(errno),
        Ok(None) => Answer::Continue,
        Err(errno) => answer_unseen(errno),
    }
}

fn read_word(tid: u32, addr: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    vm_copy::read(tid, addr, &mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
}

/// What a call wants to know about.
struct Target {
    /// `None` for a call by descriptor.
    path: Option<u64>,
    dir: i32,
    /// An empty path means the descriptor itself.
    empty_is_dir: bool,
    follow: bool,
    buffer: u64,
}

impl Target {
    fn of(call: &Notification) -> Option<Self> {
        let [a0, a1, a2, a3, a4, _] = call.args;
        let at = |flags: u64, buffer: u64| Self {
            path: Some(a1),
            dir: descriptor(a0),
            empty_is_dir: flags & flag(libc::AT_EMPTY_PATH) != 0,
            follow: flags & flag(libc::AT_SYMLINK_NOFOLLOW) == 0,
            buffer,
        };
        let by_path =
            |follow| Self { path: Some(a0), dir: libc::AT_FDCWD, empty_is_dir: false, follow, buffer: a1 };
        match call.call {
            Syscall::Stat => Some(by_path(true)),
            Syscall::Lstat => Some(by_path(false)),
            Syscall::Fstat => {
                Some(Self { path: None, dir: descriptor(a0), empty_is_dir: true, follow: true, buffer: a1 })
            }
            Syscall::Fstatat => Some(at(a3, a2)),
            Syscall::Statx => Some(at(a2, a4)),
            _ => None,
        }
    }

    /// The node that it is about, `None` if that is something else.
    ///
    /// # Errors
    /// `ENFILE` or `ENOMEM` if this process is short of what it takes to look.
    fn node<'a>(&self, registry: &'a Registry, tid: u32) -> Result<Option<&'a NodeFile>, Errno> {
        let path = match self.path {
            None => return node_of_descriptor(registry, tid, self.dir),
            Some(0) if self.empty_is_dir => Some(Vec::new()),
            Some(addr) => read_string(tid, addr, PATH_MAX),
        };
        let Some(path) = path else { return Ok(None) };
        if path.is_empty() {
            return if self.empty_is_dir { node_of_descriptor(registry, tid, self.dir) } else { Ok(None) };
        }
        if !may_be_a_node(&path) {
            return Ok(None);
        }
        if let Some(fd) = descriptor_link(&path) {
            return if self.follow { node_of_descriptor(registry, tid, fd) } else { Ok(None) };
        }
        let Some(file) = unless_short(self.resolve(tid, &path))? else { return Ok(None) };
        Ok(fstat(&file).ok().and_then(|stat| registry.nodes.by_stat(&stat)))
    }

    /// Opens the path as the thread would, without opening what it leads to.
    fn resolve(&self, tid: u32, path: &[u8]) -> io::Result<OwnedFd> {
        let nofollow = if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::PATH | OFlags::CLOEXEC | nofollow;
        let start =
            |what: &str| open(format!("/proc/{tid}/{what}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        if path.starts_with(b"/") {
            return Ok(openat2(start("root")?, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?);
        }
        let dir =
            if self.dir == libc::AT_FDCWD { start("cwd")? } else { start(&format!("fd/{}", self.dir))? };
        Ok(openat2(dir, path, flags, Mode::empty(), ResolveFlags::empty())?)
    }
}

/// Reads a string that ends in a null byte, at most `limit` bytes of it. `None` if it has no end or is
/// not readable up to there.
fn read_string(tid: u32, addr: u64, limit: usize) -> Option<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    while text.len() < limit {
        let at = addr.checked_add(u64::try_from(text.len()).ok()?)?;
        // Never across a page: what follows the string may not be mapped.
        let piece = usize::try_from(PAGE - at % PAGE).ok()?.min(limit - text.len()).min(256);
        let mut buffer = vec![0; piece];
        vm_copy::read(tid, at, &mut buffer).ok()?;
        if let Some(end) = buffer.iter().position(|&byte| byte == 0) {
            text.extend(buffer.get(..end)?);
            return Some(text);
        }
        text.extend(buffer);
    }
    None
}

fn node_of_descriptor(registry: &Registry, tid: u32, fd: i32) -> Result<Option<&NodeFile>, Errno> {
    match registry.descriptor(tid, fd) {
        Ok(Descriptor::Device(found)) => Ok(Some(found.node)),
        Err(short @ (Errno::ENFILE | Errno::ENOMEM)) => Err(short),
        Ok(Descriptor::Foreign(_)) | Err(_) => Ok(None),
    }
}

/// Descriptors are 32-bit in registers whose upper half is unspecified.
fn descriptor(register: u64) -> i32 {
    i32::from_ne_bytes(low_word(register).to_ne_bytes())
}

fn low_word(register: u64) -> u32 {
    u32::try_from(register & 0xffff_ffff).unwrap_or(0)
}

fn flag(flag: i32) -> u64 {
    u64::from(flag.unsigned_abs())
}

/// Whether the last part of a path is a name that leads to a node: the nodes' own names, and the
/// numbers in `/dev/fd` and `/proc/self/fd`.
fn may_be_a_node(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or(path);
    name == b"kfd"
        || name.starts_with(b"renderD")
        || name.ends_with(b"-render")
        || descriptor_link(path).is_some()
}

fn descriptor_link(path: &[u8]) -> Option<i32> {
    let number = [&b"/dev/fd/"[..], b"/proc/self/fd/", b"/proc/thread-self/fd/"]
        .iter()
        .find_map(|prefix| path.strip_prefix(*prefix))?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Writes numbers at fixed offsets of a reply.
struct Reply(Vec<u8>);

impl Reply {
    fn put(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        self
    }
}

/// `struct stat` of x86-64 (`arch/x86/include/uapi/asm/stat.h`), 144 bytes.
fn stat_64(stat: &Stat, node: &NodeFile) -> Vec<u8> {
    let (major, minor) = node.device_number();
    Reply(vec![0; 144])
        .put(0, &stat.st_dev.to_le_bytes())
        .put(8, &stat.st_ino.to_le_bytes())
        .put(16, &1u64.to_le_bytes())
        .put(24, &MODE.to_le_bytes())
        .put(28, &stat.st_uid.to_le_bytes())
        .put(32, &stat.st_gid.to_le_bytes())
        .put(40, &rustix::fs::makedev(major, minor).to_le_bytes())
        .put(56, &4096u64.to_le_bytes())
        .put(72, &stat.st_atime.to_le_bytes())
        .put(88, &stat.st_mtime.to_le_bytes())
        .put(104, &stat.st_ctime.to_le_bytes())
        .0
}

/// `struct stat64` of i386, 96 bytes.
fn stat_i386(stat: &Stat, node: &NodeFile) -> Vec<u8> {
    let (major, minor) = node.device_number();
    let seconds = |time: i64| low_word(time.cast_unsigned()).to_le_bytes();
    Reply(vec![0; 96])
        .put(0, &stat.st_dev.to_le_bytes())
        .put(12, &low_word(stat.st_ino).to_le_bytes())
        .put(16, &MODE.to_le_bytes())
        .put(20, &1u32.to_le_bytes())
        .put(24, &stat.st_uid.to_le_bytes())
        .put(28, &stat.st_gid.to_le_bytes())
        .put(32, &rustix::fs::makedev(major, minor).to_le_bytes())
        .put(52, &4096u32.to_le_bytes())
        .put(64, &seconds(stat.st_atime))
        .put(72, &seconds(stat.st_mtime))
        .put(80, &seconds(stat.st_ctime))
        .put(88, &stat.st_ino.to_le_bytes())
        .0
}

/// `struct statx` (`include/uapi/linux/stat.h`), 256 bytes, for the flags and the mask of the caller.
fn statx_reply(node: &NodeFile, flags: u64, mask: u64) -> Option<Vec<u8>> {
    let sync = AtFlags::from_bits_retain(low_word(flags)) & AtFlags::from_bits_retain(0x6000);
    let mask = StatxFlags::from_bits_retain(low_word(mask));
    let own = statx(node.fd.as_fd(), "", sync | AtFlags::EMPTY_PATH, mask).ok()?;
    let (major, minor) = node.device_number();
    let mode = u16::try_from(MODE).unwrap_or(0);
    let reply = Reply(vec![0; 256])
        .put(0, &own.stx_mask.to_le_bytes())
        .put(4, &4096u32.to_le_bytes())
        .put(16, &1u32.to_le_bytes())
        .put(20, &own.stx_uid.to_le_bytes())
        .put(24, &own.stx_gid.to_le_bytes())
        .put(28, &mode.to_le_bytes())
        .put(32, &own.stx_ino.to_le_bytes())
        .put(64, &own.stx_atime.tv_sec.to_le_bytes())
        .put(80, &own.stx_btime.tv_sec.to_le_bytes())
        .put(96, &own.stx_ctime.tv_sec.to_le_bytes())
        .put(112, &own.stx_mtime.tv_sec.to_le_bytes())
        .put(128, &major.to_le_bytes())
        .put(132, &minor.to_le_bytes())
        .put(136, &own.stx_dev_major.to_le_bytes())
        .put(140, &own.stx_dev_minor.to_le_bytes());
    Some(reply.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_can_lead_to_a_node_are_resolved() {
        for path in [
            "/dev/kfd",
            "kfd",
            "/dev/dri/renderD128",
            "/dev/dri/by-path/pci-0000:c1:00.0-render",
            "/dev/kfd/",
        ] {
            assert!(may_be_a_node(path.as_bytes()), "{path}");
        }
        for path in ["/lib/libc.so.6", "/dev", "", "/", "/proc/self/fd", "/dev/kfd2"] {
            assert!(!may_be_a_node(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn strings_end_at_the_null_byte_or_are_refused() {
        let own = std::process::id();
        let text = b"/dev/kfd\0rest".to_vec();
        let addr = text.as_ptr().expose_provenance() as u64;
        assert_eq!(read_string(own, addr, 4096).as_deref(), Some(&b"/dev/kfd"[..]));
        assert_eq!(read_string(own, addr, 4), None);
        assert_eq!(read_string(own, 8, 4096), None);
        assert_eq!(read_string(own, u64::MAX - 1, 4096), None);
    }

    #[test]
    fn descriptor_links_name_descriptors() {
        assert_eq!(descriptor_link(b"/proc/self/fd/17"), Some(17));
        assert_eq!(descriptor_link(b"/dev/fd/3"), Some(3));
        assert_eq!(descriptor_link(b"/dev/fd/3x"), None);
        assert_eq!(descriptor_link(b"/dev/fd/99999999999"), None);
    }

    #[test]
    fn replies_describe_a_character_device_at_the_offsets_of_the_abi() {
        let files = crate::BackingFiles::anonymous(&[129]).unwrap();
        let nodes = super::super::nodes::Nodes::new(&files).unwrap();
        let node = nodes.iter().nth(1).unwrap();
        let reply = stat_64(&fstat(&node.fd).unwrap(), node);
        // The offsets of libc's own struct are the independent source.
        let at = std::mem::offset_of!(libc::stat, st_rdev);
        let rdev = u64::from_le_bytes(reply[at..at + 8].try_into().unwrap());
        assert_eq!((libc::major(rdev), libc::minor(rdev)), (226, 129));
        let at = std::mem::offset_of!(libc::stat, st_mode);
        assert_eq!(u32::from_le_bytes(reply[at..at + 4].try_into().unwrap()), 0o020_666);
        assert_eq!(reply.len(), size_of::<libc::stat>());

        let reply = statx_reply(node, 0, 0x7ff).unwrap();
        let at = std::mem::offset_of!(libc::statx, stx_rdev_minor);
        assert_eq!(u32::from_le_bytes(reply[at..at + 4].try_into().unwrap()), 129);
        let at = std::mem::offset_of!(libc::statx, stx_mode);
        assert_eq!(u16::from_le_bytes(reply[at..at + 2].try_into().unwrap()), 0o020_666);
        assert_eq!(reply.len(), size_of::<libc::statx>());
    }
}
