//! Topology trees in directories: reading them, bounded, and writing them.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use protocol::kfd::topology::{MAX_FILE, Tree};

/// Most files and directories that are read. A host with 64 partitions has about 5,000.
const MAX_ENTRIES: usize = 200_000;

/// Deepest directory: `nodes/N/caches/C`.
const MAX_DEPTH: usize = 4;

/// Why a directory could not be read as a topology tree.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A call of the operating system failed.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A symbolic link, which no topology has: it may lead anywhere, also in a circle.
    #[error("{} is a symbolic link, which a topology tree does not have", .0.display())]
    Symlink(PathBuf),
    /// A device, a pipe or a socket.
    #[error("{} is neither a file nor a directory", .0.display())]
    Special(PathBuf),
    /// Directories within directories beyond what a topology has.
    #[error("{} is nested deeper than a topology tree is", .0.display())]
    TooDeep(PathBuf),
    /// More entries than any topology has.
    #[error("{} holds more than {MAX_ENTRIES} files", .0.display())]
    TooMany(PathBuf),
    /// A name that is no text.
    #[error("{} has a name that is not UTF-8", .0.display())]
    Name(PathBuf),
}

/// Reads every file below `root`, at most one page of each. Files that answer `EPERM` become
/// [`Tree::denied`]; `EACCES` is an error, because no KFD answers it.
///
/// # Errors
/// [`ReadError`].
pub fn read_dir(root: &Path) -> Result<Tree, ReadError> {
    let mut tree = Tree::default();
    let mut entries = 0;
    let mut todo = VecDeque::from([(root.to_owned(), String::new(), 0)]);
    while let Some((dir, prefix, depth)) = todo.pop_front() {
        let io = |source| ReadError::Io { path: dir.clone(), source };
        for entry in fs::read_dir(&dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            let path = entry.path();
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(ReadError::TooMany(root.to_owned()));
            }
            let name = entry.file_name().into_string().map_err(|_| ReadError::Name(path.clone()))?;
            let relative = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(|source| ReadError::Io { path: path.clone(), source })?;
            if kind.is_symlink() {
                return Err(ReadError::Symlink(path));
            } else if kind.is_dir() {
                if depth == MAX_DEPTH {
                    return Err(ReadError::TooDeep(path));
                }
                todo.push_back((path, format!("{relative}/"), depth + 1));
            } else if kind.is_file() {
                read_into(&mut tree, &path, relative)?;
            } else {
                return Err(ReadError::Special(path));
            }
        }
    }
    Ok(tree)
}

fn read_into(tree: &mut Tree, path: &Path, relative: String) -> Result<(), ReadError> {
    match read_page(path) {
        Ok(bytes) => {
            tree.files.insert(relative, bytes);
            Ok(())
        }
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            tree.denied.insert(relative);
            Ok(())
        }
        Err(source) => Err(ReadError::Io { path: path.to_owned(), source }),
    }
}

/// At most one page and one byte, so that the parser sees that there is more. A file that was
/// exchanged for a link or a pipe in the meantime is neither followed nor waited for.
fn read_page(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a tree could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A call of the operating system failed.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// What was written.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The directory has contents and the caller did not ask to replace them.
    #[error("{} is not empty: use another directory, or --force to replace a topology in it", .0.display())]
    NotEmpty(PathBuf),
    /// The directory has contents that are no topology, which are not removed even by force.
    #[error("{} holds something else than a topology: it is not replaced", .0.display())]
    NotATopology(PathBuf),
    /// A path in the tree that would leave the directory.
    #[error("{0:?} is no path within a topology tree")]
    BadPath(String),
}

/// Writes the files below `root`, which is made if need be. `force` replaces a topology that is
/// there; anything else is left alone. Denied files are not written.
///
/// # Errors
/// [`WriteError`].
pub fn write_dir(tree: &Tree, root: &Path, force: bool) -> Result<(), WriteError> {
    for path in tree.files.keys().chain(&tree.denied) {
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(WriteError::BadPath(path.clone()));
        }
    }
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| WriteError::Io { path, source }
    };
    fs::create_dir_all(root).map_err(at(root))?;
    if fs::read_dir(root).map_err(at(root))?.next().is_some() {
        remove_topology(root, force)?;
    }
    for dir in tree.directories() {
        let dir = root.join(dir);
        fs::create_dir_all(&dir).map_err(at(&dir))?;
    }
    for (path, bytes) in &tree.files {
        let path = root.join(path);
        fs::write(&path, bytes).map_err(at(&path))?;
    }
    Ok(())
}

/// Removes a topology, if that is all there is.
fn remove_topology(root: &Path, force: bool) -> Result<(), WriteError> {
    if !force {
        return Err(WriteError::NotEmpty(root.to_owned()));
    }
    let io = |source| WriteError::Io { path: root.to_owned(), source };
    const OURS: [&str; 3] = ["generation_id", "system_properties", "nodes"];
    // Every topology has one. A directory with nothing but some other `nodes` in it is not ours to empty.
    if !root.join(OURS[0]).is_file() {
        return Err(WriteError::NotATopology(root.to_owned()));
    }
    for entry in fs::read_dir(root).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if !OURS.iter().any(|ours| name == *ours) {
            return Err(WriteError::NotATopology(root.to_owned()));
        }
    }
    for name in OURS {
        let path = root.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(WriteError::Io { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{Kernel, Profile};

    fn tree() -> Tree {
        Profile::TwoGpu.machine(Kernel::Linux6_12).tree()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        write_dir(&tree(), &dir.path().join("a/b"), false).expect("written");
        assert_eq!(read_dir(&dir.path().join("a/b")).expect("read"), tree());
    }

    #[test]
    fn a_directory_with_contents_is_replaced_only_by_force_and_only_if_it_is_a_topology() {
        let dir = tempfile::tempdir().expect("a directory");
        write_dir(&tree(), dir.path(), false).expect("written");
        assert!(matches!(write_dir(&tree(), dir.path(), false), Err(WriteError::NotEmpty(_))));
        let smaller = Profile::CpuOnly.machine(Kernel::Linux6_12).tree();
        write_dir(&smaller, dir.path(), true).expect("replaced");
        assert_eq!(read_dir(dir.path()).expect("read"), smaller);
        fs::write(dir.path().join("thesis.tex"), "x").expect("written");
        assert!(matches!(write_dir(&tree(), dir.path(), true), Err(WriteError::NotATopology(_))));
        assert!(dir.path().join("nodes/0/properties").exists());
        let cluster = tempfile::tempdir().expect("a directory");
        fs::create_dir(cluster.path().join("nodes")).expect("a directory");
        assert!(matches!(write_dir(&tree(), cluster.path(), true), Err(WriteError::NotATopology(_))));
        assert!(cluster.path().join("nodes").exists());
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        for path in ["../x", "/x", "nodes//x", "nodes/./x", ""] {
            let dir = tempfile::tempdir().expect("a directory");
            let mut tree = Tree::default();
            tree.files.insert(path.to_owned(), Vec::new());
            assert!(matches!(write_dir(&tree, dir.path(), true), Err(WriteError::BadPath(_))), "{path}");
        }
    }

    #[test]
    fn links_pipes_and_endless_depth_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("nodes")).expect("made");
        symlink(dir.path(), dir.path().join("nodes/0")).expect("made");
        assert!(matches!(read_dir(dir.path()), Err(ReadError::Symlink(_))));
        fs::remove_file(dir.path().join("nodes/0")).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("generation_id"), rustix::fs::Mode::RWXU)
            .expect("made");
        assert!(matches!(read_dir(dir.path()), Err(ReadError::Special(_))));
        fs::remove_file(dir.path().join("generation_id")).expect("removed");
        fs::create_dir_all(dir.path().join("nodes/0/caches/0/deeper")).expect("made");
        assert!(matches!(read_dir(dir.path()), Err(ReadError::TooDeep(_))));
    }

    #[test]
    fn a_long_file_is_read_up_to_a_page_and_a_byte() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("generation_id"), vec![b'1'; 1 << 20]).expect("written");
        let tree = read_dir(dir.path()).expect("read");
        assert_eq!(tree.files["generation_id"].len(), MAX_FILE + 1);
    }
}
