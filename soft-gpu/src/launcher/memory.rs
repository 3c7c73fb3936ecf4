//! Plain access to another process's memory.

use std::io;

use protocol::Errno;
use protocol::kfd::{Fault, Shared, UserMem};

/// The memory of a process, by `process_vm_readv` and `process_vm_writev`.
#[derive(Debug)]
pub struct ProcessMem {
    pid: i32,
}

impl ProcessMem {
    /// The memory of process (or thread) `pid`.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        Self { pid: i32::try_from(pid).unwrap_or(0) }
    }

    /// Reads a string that ends in a null byte, at most `limit` bytes of it. `None` if it has no end
    /// or is not readable up to there.
    #[must_use]
    pub fn read_string(&self, addr: u64, limit: usize) -> Option<Vec<u8>> {
        const PAGE: u64 = 4096;
        let mut text = Vec::new();
        while text.len() < limit {
            let at = addr.checked_add(u64::try_from(text.len()).ok()?)?;
            // Never across a page: what follows the string may not be mapped.
            let piece = usize::try_from(PAGE - at % PAGE).ok()?.min(limit - text.len()).min(256);
            let mut buffer = vec![0; piece];
            self.read(at, &mut buffer).ok()?;
            if let Some(end) = buffer.iter().position(|&byte| byte == 0) {
                text.extend(buffer.get(..end)?);
                return Some(text);
            }
            text.extend(buffer);
        }
        None
    }
}

fn remote(addr: u64, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: std::ptr::without_provenance_mut(usize::try_from(addr).unwrap_or(0)),
        iov_len: len,
    }
}

fn complete(moved: isize, addr: u64, len: usize) -> Result<(), Fault> {
    if usize::try_from(moved) == Ok(len) {
        return Ok(());
    }
    if moved < 0 {
        log::trace!("memory of another process: {}", io::Error::last_os_error());
    }
    Err(Fault { addr, len: u64::try_from(len).unwrap_or(u64::MAX) })
}

impl UserMem for ProcessMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        if buf.is_empty() {
            return Ok(());
        }
        let local = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        let theirs = remote(addr, buf.len());
        // SAFETY: `local` is the caller's exclusive buffer; the kernel checks the remote range.
        let moved = unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const theirs, 1, 0) };
        complete(moved, addr, buf.len())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        if buf.is_empty() {
            return Ok(());
        }
        let local = libc::iovec { iov_base: buf.as_ptr().cast_mut().cast(), iov_len: buf.len() };
        let theirs = remote(addr, buf.len());
        // SAFETY: `local` is only read; the kernel checks the remote range and its protection.
        let moved =
            unsafe { libc::process_vm_writev(self.pid, &raw const local, 1, &raw const theirs, 1, 0) };
        complete(moved, addr, buf.len())
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_the_null_byte_or_are_refused() {
        let own = ProcessMem::new(std::process::id());
        let text = b"/dev/kfd\0rest".to_vec();
        let addr = text.as_ptr().expose_provenance() as u64;
        assert_eq!(own.read_string(addr, 4096).as_deref(), Some(&b"/dev/kfd"[..]));
        assert_eq!(own.read_string(addr, 4), None);
        assert_eq!(own.read_string(8, 4096), None);
        assert_eq!(own.read_string(u64::MAX - 1, 4096), None);
    }

    #[test]
    fn bad_addresses_are_faults() {
        let own = ProcessMem::new(std::process::id());
        assert_eq!(own.read(16, &mut [0; 8]), Err(Fault { addr: 16, len: 8 }));
        assert_eq!(own.write(16, &[0; 8]), Err(Fault { addr: 16, len: 8 }));
    }
}
