//! Lays a [`Dir`] over the root of the current mount namespace.
//!
//! sysfs and procfs take no new files, so a directory that lacks an entry is replaced by a mirror: a
//! tmpfs directory in which every existing entry is bound (or, for links, copied) and ours are added.
//! Only the narrowest directories are mirrored. Where an entry exists already, ours is bound over it.
//! There is one way for all machines on purpose: an overlay would need a kernel with overlayfs, and
//! would hide what is mounted below.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_bind_recursive, mount_change, mount_move};

use super::sysview::{DeviceNode, Dir, Entry};

/// A step that failed, with what it was about.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {path}: {source}")]
pub struct GraftError {
    step: &'static str,
    path: String,
    source: io::Error,
}

/// Names the step of a failing call.
fn at<T, E: Into<io::Error>>(step: &'static str, path: &Path, result: Result<T, E>) -> Result<T, GraftError> {
    result.map_err(|error| GraftError { step, path: path.display().to_string(), source: error.into() })
}

/// The tmpfs in which everything is prepared, and the backing files in it.
pub struct Stage {
    /// An empty directory of the tmpfs.
    pub dir: PathBuf,
    /// Where the backing file of each device node is.
    pub device: fn(&Path, DeviceNode) -> PathBuf,
    next: u32,
}

impl Stage {
    /// A stage in the empty directory `dir`; `device` says where below it a backing file is.
    pub fn new(dir: PathBuf, device: fn(&Path, DeviceNode) -> PathBuf) -> Self {
        Self { dir, device, next: 0 }
    }

    /// Lays `dir` over the existing directory `real`.
    ///
    /// # Errors
    /// The step that failed; what was mounted before stays mounted.
    pub fn graft(&mut self, real: &Path, dir: &Dir) -> Result<(), GraftError> {
        if dir.replace || dir.hide.is_some() || dir.entries.iter().any(|(name, e)| !fits(&real.join(name), e))
        {
            return self.mirror(real, dir);
        }
        for (name, entry) in &dir.entries {
            self.lay_over(&real.join(name), entry)?;
        }
        Ok(())
    }

    /// Lays one entry over an existing one of its kind.
    fn lay_over(&mut self, path: &Path, entry: &Entry) -> Result<(), GraftError> {
        match entry {
            Entry::Dir(dir) => self.graft(path, dir),
            Entry::Device(node) => {
                at("bind the device file over", path, mount_bind((self.device)(&self.dir, *node), path))
            }
            Entry::File { contents, mode } => {
                let file = self.fresh();
                write_file(&file, contents, *mode)?;
                at("bind a file over", path, mount_bind(&file, path))
            }
            // `fits` is false for links: they are only ever put into a mirror.
            Entry::Link(_) => Ok(()),
        }
    }

    fn mirror(&mut self, real: &Path, dir: &Dir) -> Result<(), GraftError> {
        let shadow = self.fresh();
        at("make", &shadow, fs::create_dir(&shadow))?;
        // A mount point of its own, so that it can be moved with all that is mounted in it.
        at("bind", &shadow, mount_bind(&shadow, &shadow))?;
        at("make private", &shadow, mount_change(&shadow, MountPropagationFlags::PRIVATE))?;
        if !dir.replace {
            copy_entries(real, &shadow, dir)?;
        }
        for (name, entry) in &dir.entries {
            self.add(&real.join(name), &shadow.join(name), entry, dir.replace)?;
        }
        at("move the prepared directory to", real, mount_move(&shadow, real))
    }

    /// Adds our entry to a mirror: new, or laid over what `real` holds.
    fn add(&mut self, real: &Path, target: &Path, entry: &Entry, fresh: bool) -> Result<(), GraftError> {
        match entry {
            Entry::File { contents, mode } => write_file(target, contents, *mode),
            Entry::Link(to) => at("make the link", target, symlink(to, target)),
            Entry::Device(node) => {
                write_file(target, b"", 0o666)?;
                at("bind the device file to", target, mount_bind((self.device)(&self.dir, *node), target))
            }
            Entry::Dir(dir) => {
                at("make", target, fs::create_dir(target))?;
                let existing = !fresh && !dir.replace && real.is_dir();
                if existing {
                    at("bind to", target, mount_bind_recursive(real, target))?;
                    return self.graft(target, dir);
                }
                dir.entries
                    .iter()
                    .try_for_each(|(name, e)| self.add(&real.join(name), &target.join(name), e, true))
            }
        }
    }

    fn fresh(&mut self) -> PathBuf {
        self.next += 1;
        self.dir.join(format!("part{}", self.next))
    }
}

/// Whether `entry` can be laid over what is at `path` without changing the directory around it.
fn fits(path: &Path, entry: &Entry) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else { return false };
    match entry {
        Entry::Dir(_) => meta.is_dir(),
        Entry::File { .. } | Entry::Device(_) => !meta.is_dir() && !meta.is_symlink(),
        Entry::Link(_) => false,
    }
}

fn write_file(path: &Path, contents: &[u8], mode: u32) -> Result<(), GraftError> {
    at("write", path, fs::write(path, contents))?;
    at("set the mode of", path, fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

/// Binds or copies what `real` holds into `shadow`, except what `dir` puts there itself or hides. An
/// entry that may not be bound is left out: the program does without it.
fn copy_entries(real: &Path, shadow: &Path, dir: &Dir) -> Result<(), GraftError> {
    for entry in at("read", real, fs::read_dir(real))? {
        let entry = at("read", real, entry)?;
        let name = entry.file_name();
        if is_ours(&name, dir) {
            continue;
        }
        if let Err(error) = copy_entry(&entry.path(), &shadow.join(&name)) {
            log::debug!("{} is not visible to the program: {error}", entry.path().display());
        }
    }
    Ok(())
}

fn is_ours(name: &OsStr, dir: &Dir) -> bool {
    let hidden = dir.hide.as_ref().is_some_and(|prefix| name.as_bytes().starts_with(prefix.as_bytes()));
    hidden || name.to_str().is_some_and(|name| dir.entries.contains_key(name))
}

fn copy_entry(real: &Path, target: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(real)?.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(real)?, target);
    }
    if kind.is_dir() {
        fs::create_dir(target)?;
    } else {
        fs::write(target, b"")?;
    }
    mount_bind_recursive(real, target)?;
    Ok(())
}
