//! Descriptors of the files that a program has mapped shared.
//!
//! Memory that was converted stays known for as long as somebody holds it. Other shared memory (the
//! program's own memfd, `/dev/shm`, shared anonymous memory) is looked for where the kernel shows it:
//! `/proc/PID/map_files` (needs `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN` in the initial user namespace),
//! the descriptors that the process has open, and the path of the mapping. Shared anonymous memory of a
//! program without those rights is therefore not found: `EOPNOTSUPP`.
//!
//! A file found so is the program's: it can truncate it under whoever maps it.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use protocol::Errno;
use rustix::fs::{FileType, Stat, fstat, major, minor};

use crate::proc_maps::Region;

/// Device and inode number of a file: who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    dev: (u32, u32),
    inode: u64,
}

impl FileKey {
    /// Of an open file.
    ///
    /// # Errors
    /// What `fstat` says.
    pub fn of(fd: impl AsFd) -> Result<Self, Errno> {
        let stat = fstat(fd).map_err(|error| errno(&error.into()))?;
        Ok(Self::from_stat(&stat))
    }

    fn from_stat(stat: &Stat) -> Self {
        Self { dev: (major(stat.st_dev), minor(stat.st_dev)), inode: stat.st_ino }
    }

    pub(super) fn of_region(region: &Region) -> Self {
        Self { dev: region.dev, inode: region.inode }
    }
}

/// The shared files of all programs of a run.
#[derive(Debug, Default)]
pub struct SharedFiles {
    device: HashSet<FileKey>,
    known: Mutex<HashMap<FileKey, Weak<OwnedFd>>>,
}

/// More descriptors of one process than this are not looked through.
const DESCRIPTORS_MAX: usize = 1 << 16;

impl SharedFiles {
    /// `device` are the files that hold the device's own memory. A program that hands a mapping of them
    /// back as its memory is refused, as the kernel refuses a driver's mappings (`hmm_vma_walk_test`).
    #[must_use]
    pub fn new(device: impl IntoIterator<Item = FileKey>) -> Self {
        Self { device: device.into_iter().collect(), known: Mutex::default() }
    }

    /// Remembers a file for as long as somebody holds it.
    pub fn remember(&self, key: FileKey, file: &Arc<OwnedFd>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, file| file.strong_count() > 0);
        known.insert(key, Arc::downgrade(file));
    }

    /// The file behind a shared mapping of process `pid`; `whole` is the mapping.
    ///
    /// # Errors
    /// `EFAULT` for a device's mapping, `EOPNOTSUPP` for a file that cannot be found.
    pub fn find(&self, pid: u32, whole: &Region, writable: bool) -> Result<Arc<OwnedFd>, Errno> {
        let key = FileKey::of_region(whole);
        if self.device.contains(&key) {
            return Err(Errno::EFAULT);
        }
        let known =
            self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).and_then(Weak::upgrade);
        if let Some(file) = known {
            return Ok(file);
        }
        let file = Arc::new(look_for(pid, whole, key, writable)?);
        self.remember(key, &file);
        Ok(file)
    }
}

/// Whether the mapping is one of memory that was converted, by its name.
pub(super) fn is_converted(region: &Region) -> bool {
    region.name.starts_with(b"/memfd:kfd-userptr")
}

fn look_for(pid: u32, whole: &Region, key: FileKey, writable: bool) -> Result<OwnedFd, Errno> {
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", whole.start, whole.end));
    let candidates = std::iter::once(mapped).chain(whole.path().map(|path| {
        let inside = path.strip_prefix("/").unwrap_or(&path).to_path_buf();
        PathBuf::from(format!("/proc/{pid}/root")).join(inside)
    }));
    for path in candidates.chain(descriptors(pid)) {
        match open_if_same(&path, key, writable) {
            Ok(Some(file)) => return Ok(file),
            Ok(None) => {}
            Err(Errno::EFAULT) => return Err(Errno::EFAULT),
            Err(error) => log::debug!("{}: {error}", path.display()),
        }
    }
    if is_converted(whole) {
        return Err(Errno::EOPNOTSUPP);
    }
    log::warn!(
        "process {pid} shares {} at {:#x} with others, and there is no way to reach that memory from here",
        String::from_utf8_lossy(&whole.name),
        whole.start
    );
    Err(Errno::EOPNOTSUPP)
}

fn descriptors(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    entries.take(DESCRIPTORS_MAX).filter_map(|entry| Some(entry.ok()?.path()))
}

/// Opens `path` if it is the file `key`. Looked at before it is opened: opening a device node, or a pipe,
/// would do something.
fn open_if_same(path: &Path, key: FileKey, writable: bool) -> Result<Option<OwnedFd>, Errno> {
    let stat = rustix::fs::stat(path).map_err(|error| errno(&error.into()))?;
    if FileKey::from_stat(&stat) != key {
        return Ok(None);
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::EFAULT);
    }
    let file = open(path, true).or_else(|error| if writable { Err(error) } else { open(path, false) })?;
    Ok((FileKey::of(&file)? == key).then(|| file.into()))
}

fn open(path: &Path, write: bool) -> Result<File, Errno> {
    let mut options = OpenOptions::new();
    options.read(true).write(write).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path).map_err(|error| errno(&error))
}

pub(super) fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::EIO)
}
