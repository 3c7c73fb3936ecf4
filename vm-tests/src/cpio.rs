//! A writer for the archive format that the kernel unpacks as its initramfs.
//!
//! Format "newc": Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::Path,
};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const CHARACTER: u32 = 0o020_000;

/// An archive under construction. All files belong to root.
pub struct Archive<W: Write> {
    writer: W,
    inode: u32,
    written: u64,
    directories: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// An empty archive.
    pub fn new(writer: W) -> Self {
        Self { writer, inode: 0, written: 0, directories: BTreeSet::new() }
    }

    /// Adds a directory and those above it, where they are missing.
    pub fn directory(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.directories.contains(path) {
            return Ok(());
        }
        self.parents(path)?;
        self.directories.insert(path.to_owned());
        self.member(path, DIRECTORY | 0o755, (0, 0), b"")
    }

    /// Adds a file, and the directories above it.
    pub fn file(&mut self, path: &str, permissions: u32, contents: &[u8]) -> io::Result<()> {
        self.parents(path)?;
        self.member(path, REGULAR | permissions, (0, 0), contents)
    }

    /// Adds a character device.
    pub fn character_device(&mut self, path: &str, permissions: u32, device: (u32, u32)) -> io::Result<()> {
        self.parents(path)?;
        self.member(path, CHARACTER | permissions, device, b"")
    }

    /// Ends the archive and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.member("TRAILER!!!", 0, (0, 0), b"")?;
        self.writer.flush()?;
        Ok(self.writer)
    }

    fn parents(&mut self, path: &str) -> io::Result<()> {
        match Path::new(path.trim_matches('/')).parent().and_then(Path::to_str) {
            Some(parent) => self.directory(parent),
            None => Ok(()),
        }
    }

    fn member(&mut self, path: &str, mode: u32, device: (u32, u32), contents: &[u8]) -> io::Result<()> {
        let too_big =
            |_| io::Error::new(io::ErrorKind::InvalidInput, format!("{path} is too big for the archive"));
        let name = path.trim_start_matches('/');
        let name_size = u32::try_from(name.len() + 1).map_err(too_big)?;
        let size = u32::try_from(contents.len()).map_err(too_big)?;
        self.inode += 1;
        // inode, mode, uid, gid, links, mtime, size, device of the file (2), device number (2), name size, checksum
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0];
        let header: String = fields.iter().map(|field| format!("{field:08X}")).collect();
        self.put(b"070701")?;
        self.put(header.as_bytes())?;
        self.put(name.as_bytes())?;
        self.put(b"\0")?;
        self.pad()?;
        self.put(contents)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Names and contents start and end at multiples of four bytes.
    fn pad(&mut self) -> io::Result<()> {
        while !self.written.is_multiple_of(4) {
            self.put(b"\0")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn gnu_cpio_unpacks_what_we_wrote() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/etc/deep/name", 0o640, b"contents").unwrap();
        archive.file("/etc/odd", 0o755, b"12345").unwrap();
        archive.directory("/proc").unwrap();
        let bytes = archive.finish().unwrap();
        let dir = tempfile::tempdir().unwrap();

        let mut cpio = Command::new("cpio");
        cpio.args(["--extract", "--quiet"]).current_dir(dir.path()).stdin(Stdio::piped());
        let mut child = cpio.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(child.wait().unwrap().success());

        assert_eq!(fs::read(dir.path().join("etc/deep/name")).unwrap(), b"contents");
        assert_eq!(fs::read(dir.path().join("etc/odd")).unwrap(), b"12345");
        assert!(dir.path().join("proc").is_dir());
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(dir.path().join("etc/deep/name")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o640);
    }
}
