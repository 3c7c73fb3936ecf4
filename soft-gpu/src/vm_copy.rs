//! Copies from and to another address space, or the own one, that answer bad addresses instead of faulting.

use protocol::kfd::Fault;

/// Addresses from here up are the kernel's or not canonical (`access_ok` looks at the sign bit).
const FIRST_KERNEL_ADDR: u64 = 1 << 63;

/// Copies `buf.len()` bytes from address `addr` of process `pid`.
///
/// # Errors
/// The whole access as a [`Fault`] if any byte cannot be read, or if the process is gone.
pub fn read(pid: u32, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
    let fault = Fault { addr, len: buf.len() as u64 };
    let mut done = 0;
    while done < buf.len() {
        let rest = buf.get_mut(done..).ok_or(fault)?;
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let remote = remote(addr, done, rest.len()).ok_or(fault)?;
        // SAFETY: `local` is one valid iovec over `rest`, which is borrowed mutably until after the call;
        // `remote` is only an address that the kernel checks.
        let copied =
            unsafe { libc::process_vm_readv(raw_pid(pid), &raw const local, 1, &raw const remote, 1, 0) };
        done += progress(copied).ok_or(fault)?;
    }
    Ok(())
}

/// Copies `buf` to address `addr` of process `pid`. A page that the process may not write is not written.
///
/// # Errors
/// The whole access as a [`Fault`] if any byte cannot be written; a prefix may have been.
pub fn write(pid: u32, addr: u64, buf: &[u8]) -> Result<(), Fault> {
    let fault = Fault { addr, len: buf.len() as u64 };
    let mut done = 0;
    while done < buf.len() {
        let rest = buf.get(done..).ok_or(fault)?;
        let local = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        let remote = remote(addr, done, rest.len()).ok_or(fault)?;
        // SAFETY: `local` is one valid iovec over `rest`, which the call only reads; `remote` is only an
        // address that the kernel checks. With the own pid the caller of this function names memory that the
        // program gave to the device, as with a system call that fills a buffer.
        let copied =
            unsafe { libc::process_vm_writev(raw_pid(pid), &raw const local, 1, &raw const remote, 1, 0) };
        done += progress(copied).ok_or(fault)?;
    }
    Ok(())
}

/// A short copy is progress (the call moves 2 GiB at most, and stops before a bad page): the next round
/// continues or finds the bad page at its start. Nothing copied is the end.
fn progress(copied: isize) -> Option<usize> {
    usize::try_from(copied).ok().filter(|&copied| copied > 0)
}

fn remote(addr: u64, done: usize, len: usize) -> Option<libc::iovec> {
    let at = addr.checked_add(u64::try_from(done).ok()?)?;
    let end = at.checked_add(u64::try_from(len).ok()?)?;
    let base = usize::try_from(at).ok()?;
    (end <= FIRST_KERNEL_ADDR)
        .then(|| libc::iovec { iov_base: std::ptr::without_provenance_mut(base), iov_len: len })
}

/// No process has a pid that does not fit; -1 is answered with ESRCH.
fn raw_pid(pid: u32) -> i32 {
    i32::try_from(pid).unwrap_or(-1)
}
