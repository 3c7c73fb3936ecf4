//! This process's own memory, reached through the kernel, so that a bad address is an error and no fault.

use libc::{c_ulong, iovec};
use protocol::Errno;
use protocol::kfd::{Fault, Shared, UserMem};

/// This process's own memory. What the host shares with it cannot be reached so (a driver's mapping), but through its blob.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnMemory;

impl UserMem for OwnMemory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let local = iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        copy(libc::process_vm_readv, addr, local)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        let local = iovec { iov_base: buf.as_ptr().cast_mut().cast(), iov_len: buf.len() };
        copy(libc::process_vm_writev, addr, local)
    }

    /// The transport shares by itself, with blobs.
    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// `process_vm_readv` or `process_vm_writev`.
type Copy = unsafe extern "C" fn(libc::pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> isize;

fn copy(copy: Copy, addr: u64, local: iovec) -> Result<(), Fault> {
    let fault = Fault { addr, len: local.iov_len as u64 };
    if local.iov_len == 0 {
        return Ok(());
    }
    let at = usize::try_from(addr).map_err(|_| fault)?;
    let remote = iovec { iov_base: std::ptr::with_exposed_provenance_mut(at), iov_len: local.iov_len };
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() };
    // SAFETY: both vectors have one element and live through the call. The local one is a slice that the caller lends, which is
    // written by `process_vm_readv` alone (there it is a mutable one); the kernel checks the remote address. Whoever makes the
    // call vouches for the memory behind its addresses, as for an ioctl.
    let copied = unsafe { copy(pid, &raw const local, 1, &raw const remote, 1, 0) };
    if usize::try_from(copied) == Ok(local.iov_len) { Ok(()) } else { Err(fault) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_copied_and_bad_addresses_are_faults() {
        let mut target = [0_u8; 5];
        let addr = target.as_mut_ptr().expose_provenance() as u64;
        OwnMemory.write(addr, b"hello").unwrap();
        let mut back = [0; 5];
        OwnMemory.read(addr, &mut back).unwrap();
        assert_eq!((&back, &target), (b"hello", b"hello"));
        assert_eq!(OwnMemory.read(1, &mut back), Err(Fault { addr: 1, len: 5 }));
        assert!(OwnMemory.write(u64::MAX - 2, b"hello").is_err());
        assert!(OwnMemory.read(1, &mut []).is_ok());
    }
}
