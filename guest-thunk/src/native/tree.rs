//! Reads the topology tree: the files that a topology has, bounded, and nothing else that may lie there.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use protocol::Errno;
use protocol::kfd::topology::{MAX_FILE, Tree};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};

use crate::engine::room;
use crate::errno_of;

/// Most files and directory entries of a tree. A host with 64 GPU partitions has about 5,000.
const MAX_ENTRIES: usize = 1 << 16;

/// Most bytes of a tree.
const MAX_BYTES: usize = 64 << 20;

/// How often a tree that changes while it is read is read again.
const ROUNDS: usize = 8;

/// Where the generation of the topology stands.
const GENERATION: &str = "generation_id";

/// Files of each node. The first one decides whether the reader may see the node.
const NODE_FILES: [&str; 3] = ["gpu_id", "name", "properties"];

/// Directories of each node with numbered entries, each of which has `properties`.
const NODE_DIRS: [&str; 4] = ["mem_banks", "caches", "io_links", "p2p_links"];

/// Files and directories by their path relative to the root of the tree.
trait Source {
    /// Entries of a directory that are directories with a decimal number as name, in ascending order; at most
    /// `max`.
    fn numbered(&self, dir: &str, max: usize) -> Result<Vec<u32>, Errno>;

    /// The start of a file: a page and a byte, so that the parser sees that there is more.
    fn read(&self, path: &str) -> Result<Vec<u8>, Errno>;
}

/// Reads the tree below `root`.
///
/// Files that answer `EPERM` are [`Tree::denied`]. What vanishes while it is read, is no file (`ELOOP` for a
/// symbolic link) or has no number is left out: the parser says what is missing. A tree whose generation
/// changed meanwhile is read again.
///
/// # Errors
/// `ENOENT` if there is no tree, `E2BIG` if it is beyond all bounds, or the error of a file that cannot be
/// read.
pub(super) fn read_dir(root: &Path) -> Result<Tree, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty()).map_err(errno_of)?;
    read_stable(&Directory { root })
}

fn read_stable(source: &impl Source) -> Result<Tree, Errno> {
    let mut tree = Tree::default();
    for _ in 0..ROUNDS {
        tree = Reader::new(source).read()?;
        let now = source.read(GENERATION).ok();
        if tree.files.get(GENERATION) == now.as_ref() {
            return Ok(tree);
        }
    }
    log::warn!("the topology changed {ROUNDS} times while it was read");
    Ok(tree)
}

/// One pass over a tree.
struct Reader<'a, S> {
    source: &'a S,
    tree: Tree,
    entries: usize,
    bytes: usize,
}

/// What became of a file.
#[derive(PartialEq, Eq)]
enum Seen {
    Read,
    Denied,
    Gone,
}

impl<'a, S: Source> Reader<'a, S> {
    fn new(source: &'a S) -> Self {
        Self { source, tree: Tree::default(), entries: MAX_ENTRIES, bytes: MAX_BYTES }
    }

    fn read(mut self) -> Result<Tree, Errno> {
        // Read first, so that a change during the rest shows.
        self.file(GENERATION.to_owned())?;
        self.file("system_properties".to_owned())?;
        for node in self.numbered("nodes")? {
            self.node(&format!("nodes/{node}"))?;
        }
        Ok(self.tree)
    }

    fn node(&mut self, dir: &str) -> Result<(), Errno> {
        for name in NODE_FILES {
            // The rest of a denied node is denied too, and nobody looks at it.
            if self.file(format!("{dir}/{name}"))? == Seen::Denied {
                return Ok(());
            }
        }
        for name in NODE_DIRS {
            let dir = format!("{dir}/{name}");
            for number in self.numbered(&dir)? {
                self.file(format!("{dir}/{number}/properties"))?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: String) -> Result<Seen, Errno> {
        self.entries = self.entries.checked_sub(1).ok_or_else(too_big)?;
        match self.source.read(&path) {
            Ok(bytes) => {
                self.bytes = self.bytes.checked_sub(bytes.len()).ok_or_else(too_big)?;
                self.tree.files.insert(path, bytes);
                Ok(Seen::Read)
            }
            Err(Errno::EPERM) => {
                self.tree.denied.insert(path);
                Ok(Seen::Denied)
            }
            Err(errno) if is_gone(errno) => Ok(Seen::Gone),
            Err(errno) => {
                log::warn!("topology file {path} cannot be read: {errno}");
                Err(errno)
            }
        }
    }

    fn numbered(&mut self, dir: &str) -> Result<Vec<u32>, Errno> {
        let numbers = match self.source.numbered(dir, self.entries) {
            Ok(numbers) => numbers,
            Err(errno) if is_gone(errno) => Vec::new(),
            Err(errno) => {
                log::warn!("topology directory {dir} cannot be read: {errno}");
                return Err(errno);
            }
        };
        self.entries = self.entries.checked_sub(numbers.len()).ok_or_else(too_big)?;
        Ok(numbers)
    }
}

fn too_big() -> Errno {
    log::warn!("the topology has more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes");
    Errno::E2BIG
}

/// Errors of what is not there (any more), or is no file or directory: sysfs answers `ENODEV` for a file that
/// was open when its node went.
fn is_gone(errno: Errno) -> bool {
    // Not in protocol's table: no KFD answers them.
    const ENOTDIR: i32 = 20;
    const EISDIR: i32 = 21;
    const ELOOP: i32 = 40;
    matches!(errno, Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::EAGAIN)
        || matches!(errno.raw(), ENOTDIR | EISDIR | ELOOP)
}

/// A tree in the file system.
struct Directory {
    root: OwnedFd,
}

impl Source for Directory {
    fn numbered(&self, dir: &str, max: usize) -> Result<Vec<u32>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.root, dir, flags, Mode::empty()).map_err(errno_of)?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&fd, &mut buffer);
        let (mut numbers, mut left) = (Vec::new(), max);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(errno_of)?;
            left = left.checked_sub(1).ok_or_else(too_big)?;
            let Some(number) = number(entry.file_name().to_bytes()) else { continue };
            let kind = match entry.file_type() {
                // Some file systems do not tell.
                FileType::Unknown => statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            if kind == FileType::Directory {
                room::push(&mut numbers, number).map_err(|_| Errno::ENOMEM)?;
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let mut page = [0; MAX_FILE + 1];
        let length = read_at(&self.root, Path::new(path), OFlags::NOFOLLOW, &mut page)?;
        let text = page.get(..length).unwrap_or_default();
        room::collect(text.len(), text.iter().copied()).map_err(|_| Errno::ENOMEM)
    }
}

/// The start of any file, `max` bytes at most.
pub(super) fn read_start(path: &Path, max: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = room::filled(max, 0).map_err(|_| Errno::ENOMEM)?;
    let length = read_at(CWD, path, OFlags::empty(), &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads as much of a file as there is room for, without waiting for what may stand in its place (a pipe).
fn read_at(
    dir: impl std::os::fd::AsFd,
    path: &Path,
    flags: OFlags,
    buffer: &mut [u8],
) -> Result<usize, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = openat(dir, path, flags, Mode::empty()).map_err(errno_of)?;
    let mut length = 0;
    while let Some(room) = buffer.get_mut(length..).filter(|room| !room.is_empty()) {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *room)).map_err(errno_of)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

/// The number that a name says, if it is the usual way to write it.
fn number(name: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(name).ok()?;
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests;
