//! Replaces private memory of a stopped program by shared memory with the same contents.
//!
//! The program's own thread creates the memfd, because it needs a descriptor of it, and maps it over the range;
//! here it is fetched and filled. In between nothing of the program runs.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use protocol::Errno;
use rustix::fs::SealFlags;

use super::error::ConvertError;
use super::files::errno;
use super::inject::Borrowed;
use crate::proc_maps::{PAGE, Region};
use crate::vm_copy;

/// Bytes that exist twice at one time.
pub(super) const CHUNK: u64 = 64 << 20;
/// Bytes that are copied at one time: they stay in the cache.
pub(super) const BUFFER: u64 = 256 << 10;
/// What `/proc/PID/maps` shows (`/memfd:kfd-userptr`), with its null byte.
const NAME: &[u8; 16] = b"kfd-userptr\0\0\0\0\0";

/// Memory to be replaced.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The memory, private.
    pub region: Region,
    /// It is part of the first thread's stack.
    pub is_stack: bool,
    /// It is the lowest part of that stack, which grows downwards when it is used below.
    pub end_of_stack: bool,
}

/// Replaces all `pieces`. What was replaced before an error stays replaced, which the program cannot tell.
///
/// # Errors
/// Memory, descriptors or mappings ran out, or the program forbids itself these calls.
pub fn convert(thread: &mut Borrowed, pieces: &[Piece]) -> Result<Arc<OwnedFd>, ConvertError> {
    let number = create(thread)?;
    let converted = fetch(thread.tid(), number).and_then(|memfd| {
        fill_and_map(thread, &memfd, number, pieces)?;
        Ok(Arc::new(OwnedFd::from(memfd)))
    });
    // Whatever happened, the program must not find a descriptor that it did not open.
    let closed = thread.call("close", libc::SYS_close, [u64::from(number), 0, 0, 0, 0, 0]);
    let memfd = converted?;
    closed?;
    Ok(memfd)
}

/// Creates a memfd in the program. Its name stands on the thread's stack for that moment.
fn create(thread: &mut Borrowed) -> Result<u32, ConvertError> {
    let tid = thread.tid();
    let fault = |_| ConvertError::Own { what: "the program's stack", errno: Errno::EFAULT };
    let mut saved = [0; NAME.len()];
    let at = place_for_name(thread.stack_pointer(), |at| vm_copy::read(tid, at, &mut saved).is_ok());
    let at = at.ok_or(ConvertError::Own { what: "the program's stack", errno: Errno::EFAULT })?;
    vm_copy::write(tid, at, NAME).map_err(fault)?;
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let no_exec = u64::from(libc::MFD_NOEXEC_SEAL);
    let mut create = |flags| thread.call("memfd_create", libc::SYS_memfd_create, [at, flags, 0, 0, 0, 0]);
    let created = create(flags | no_exec).or_else(|error| match error {
        // Before Linux 6.3.
        ConvertError::Call { errno: Errno::EINVAL, .. } => create(flags),
        other => Err(other),
    });
    vm_copy::write(tid, at, &saved).map_err(fault)?;
    u32::try_from(created?).map_err(|_| ConvertError::Call { name: "memfd_create", errno: Errno::EBADF })
}

/// Where a signal handler's frame would start, below the red zone of the System V ABI; or the top of the stack,
/// where the stack has not grown as far as that. A thread that has just started has nothing mapped above.
fn place_for_name(stack_pointer: u64, mut is_mapped: impl FnMut(u64) -> bool) -> Option<u64> {
    const RED_ZONE: u64 = 128;
    let below = stack_pointer.checked_sub(RED_ZONE + NAME.len() as u64);
    below.into_iter().chain([stack_pointer]).find(|&at| is_mapped(at))
}

/// Our own descriptor of the program's memfd.
fn fetch(tid: u32, number: u32) -> Result<File, ConvertError> {
    let own = |what: &'static str| move |errno| ConvertError::Own { what, errno };
    let by_pidfd = pidfd_of_thread(tid).and_then(|pidfd| get_fd(&pidfd, number));
    let file = by_pidfd.map_err(own("taking the program's memfd"))?;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if link.is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"/memfd:kfd-userptr")) {
        Ok(file)
    } else {
        // A thread with a descriptor table of its own, and no way to name it (before Linux 6.9).
        Err(ConvertError::Own {
            what: "the program's memfd is not where it was created",
            errno: Errno::EBADF,
        })
    }
}

fn pidfd_of_thread(tid: u32) -> Result<OwnedFd, Errno> {
    let open = |flags: u32| {
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, flags) };
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(last_errno)?;
        // SAFETY: the kernel just returned `fd` and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    open(libc::PIDFD_THREAD).or_else(|_: Errno| {
        let group = super::threads::thread_group(tid).ok_or(Errno::ESRCH)?;
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, group, 0) };
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(last_errno)?;
        // SAFETY: the kernel just returned `fd` and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    })
}

fn get_fd(pidfd: &OwnedFd, number: u32) -> Result<File, Errno> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(last_errno)?;
    // SAFETY: the kernel just returned `fd` and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn last_errno() -> Errno {
    errno(&std::io::Error::last_os_error())
}

fn fill_and_map(
    thread: &mut Borrowed,
    memfd: &File,
    number: u32,
    pieces: &[Piece],
) -> Result<(), ConvertError> {
    let own = |what: &'static str| move |errno| ConvertError::Own { what, errno };
    let size = pieces.iter().map(|piece| piece.region.len()).sum();
    memfd.set_len(size).map_err(|error| own("sizing the memfd")(errno(&error)))?;
    // The device maps it: nobody may take pages away from under it.
    rustix::fs::fcntl_add_seals(memfd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(|error| own("sealing the memfd")(errno(&error.into())))?;
    let mut copier = Copier::new(thread.tid(), size);
    let mut offset = 0;
    for piece in pieces {
        if piece.end_of_stack {
            grow_stack(thread, &piece.region)?;
        }
        let mut start = piece.region.start;
        while start < piece.region.end {
            let len = CHUNK.min(piece.region.end - start);
            copier.copy(&piece.region, start, len, memfd, offset)?;
            map(thread, &piece.region, start, len, number, offset)?;
            start += len;
            offset += len;
        }
    }
    Ok(())
}

pub(super) fn protection(region: &Region) -> u64 {
    let bits =
        [(region.read, libc::PROT_READ), (region.write, libc::PROT_WRITE), (region.exec, libc::PROT_EXEC)];
    bits.iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | u64::from(bit.cast_unsigned()))
}

fn map(
    thread: &mut Borrowed,
    region: &Region,
    start: u64,
    len: u64,
    number: u32,
    offset: u64,
) -> Result<(), ConvertError> {
    let flags = u64::from((libc::MAP_SHARED | libc::MAP_FIXED).cast_unsigned());
    let args = [start, len, protection(region), flags, u64::from(number), offset];
    thread.call("mmap", libc::SYS_mmap, args).map(drop)
}

/// A fault below the stack makes it grow only if the lowest mapping is one that grows. The converted
/// memory is none, so a page that is one goes below it first.
fn grow_stack(thread: &mut Borrowed, region: &Region) -> Result<(), ConvertError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN | libc::MAP_FIXED_NOREPLACE;
    let flags = u64::from(flags.cast_unsigned());
    let page = region.start.checked_sub(PAGE).ok_or(ConvertError::Range { addr: 0, errno: Errno::EFAULT })?;
    thread.call("mmap", libc::SYS_mmap, [page, PAGE, protection(region), flags, u64::MAX, 0]).map(drop)
}

/// Copies memory of the program into a file, without the pages that were never touched.
struct Copier {
    tid: u32,
    pagemap: Option<File>,
    buffer: Vec<u8>,
}

impl Copier {
    /// For pieces of `size` bytes in total.
    fn new(tid: u32, size: u64) -> Self {
        let pagemap = File::open(format!("/proc/{tid}/pagemap")).ok();
        Self { tid, pagemap, buffer: vec![0; size.min(BUFFER) as usize] }
    }

    fn copy(
        &mut self,
        region: &Region,
        start: u64,
        len: u64,
        memfd: &File,
        offset: u64,
    ) -> Result<(), ConvertError> {
        for (first, run) in self.touched(region, start, len)? {
            let mut done = 0;
            while done < run {
                let at = first + done;
                let size = (run - done).min(BUFFER);
                let buffer = self.buffer.get_mut(..size as usize).unwrap_or_default();
                vm_copy::read(self.tid, at, buffer)
                    .map_err(|_| ConvertError::Range { addr: at, errno: Errno::EFAULT })?;
                memfd
                    .write_all_at(buffer, offset + (at - start))
                    .map_err(|error| ConvertError::Own { what: "filling the memfd", errno: errno(&error) })?;
                done += size;
            }
        }
        Ok(())
    }

    /// Runs of pages that have contents. Only of anonymous memory is an absent page known to be zero.
    fn touched(&self, region: &Region, start: u64, len: u64) -> Result<Vec<(u64, u64)>, ConvertError> {
        let everything = Ok(vec![(start, len)]);
        let Some(pagemap) = self.pagemap.as_ref().filter(|_| !region.is_file()) else { return everything };
        let pages = len.min(CHUNK) / PAGE;
        let mut entries = vec![0; pages as usize * 8];
        match pagemap.read_exact_at(&mut entries, start / PAGE * 8) {
            Ok(()) => runs(&entries, start),
            Err(_) => everything,
        }
    }
}

/// Entries of `/proc/PID/pagemap` as runs of pages that are in memory or swapped out.
///
/// A guard page (`MADV_GUARD_INSTALL`) is no memory: a device that faults it in gets `EFAULT`.
fn runs(entries: &[u8], start: u64) -> Result<Vec<(u64, u64)>, ConvertError> {
    const PRESENT_OR_SWAPPED: u64 = 0b11 << 62;
    const GUARD: u64 = 1 << 58;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut at = start;
    for entry in entries.as_chunks::<8>().0 {
        let entry = u64::from_le_bytes(*entry);
        if entry & GUARD != 0 {
            return Err(ConvertError::Range { addr: at, errno: Errno::EFAULT });
        }
        if entry & PRESENT_OR_SWAPPED != 0 {
            match runs.last_mut() {
                Some((first, run)) if *first + *run == at => *run += PAGE,
                _ => runs.push((at, PAGE)),
            }
        }
        at += PAGE;
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_pages_that_are_present_or_swapped() {
        // Bits 63 (present), 62 (swapped), 61 (file or shared): Documentation/admin-guide/mm/pagemap.rst.
        let entries = [1u64 << 63, 1 << 62, 0, 1 << 61, 1 << 63];
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        assert_eq!(runs(&bytes, 0x1000).unwrap(), [(0x1000, 0x2000), (0x5000, 0x1000)]);
    }

    #[test]
    fn the_name_goes_to_whichever_side_of_the_stack_pointer_is_mapped() {
        let stack_pointer = 0x7f00_0000_1010;
        let page = |addr: u64| addr & !(PAGE - 1);
        assert_eq!(place_for_name(stack_pointer, |_| true), Some(stack_pointer - 144));
        let grown_so_far = |at| page(at) == page(stack_pointer);
        assert_eq!(place_for_name(stack_pointer, grown_so_far), Some(stack_pointer));
        assert_eq!(place_for_name(stack_pointer, |_| false), None);
        assert_eq!(place_for_name(3, |_| false), None);
    }

    #[test]
    fn a_guard_page_is_no_memory() {
        // Bit 58: Documentation/admin-guide/mm/pagemap.rst of Linux 6.15.
        let bytes = (1u64 << 58).to_le_bytes();
        assert_eq!(runs(&bytes, 0x1000).unwrap_err().errno(), Errno::EFAULT);
    }
}
