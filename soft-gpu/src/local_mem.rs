//! The caller's side of [`Kfd`](protocol::kfd::Kfd) when caller and device are one process.
//!
//! [`LocalMem`] is the process's own address space and [`LocalCall`] one call from it: unit tests, and programs
//! that use the device as a library. Bad addresses are answered, not faulted on: every access goes through
//! the kernel (`process_vm_readv` and `process_vm_writev` with the own pid), which checks it as
//! `copy_from_user` would.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use protocol::Errno;
use protocol::kfd::{Call, Fault, FileId, Interrupt, PassedFd, Shared, SharedBacking, UserMem};

use crate::proc_maps::{self, Region};
use crate::vm_copy;

/// The address space of this very process.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalMem;

impl UserMem for LocalMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        vm_copy::read(own_pid(), addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        vm_copy::write(own_pid(), addr, buf)
    }

    /// Nothing has to be done: the range is checked and handed back as it is.
    fn share(&self, addr: u64, len: u64, writable: bool) -> Result<Vec<Shared>, Errno> {
        let (_, pieces) = proc_maps::look_up("/proc/self/maps", addr, len, writable)?;
        for piece in &pieces {
            refuse_device_memory(piece)?;
        }
        Ok(vec![Shared { addr, len, backing: SharedBacking::Local }])
    }

    fn is_mapped(&self, addr: u64, len: u64) -> bool {
        proc_maps::is_mapped(own_pid(), addr, len, |addr| self.read(addr, &mut [0]).is_ok())
    }
}

/// A driver's mapping (`VM_PFNMAP`, `VM_IO`) does not show in the memory map, but the kernel refuses to copy
/// from it in the same way as it refuses to give its pages to a device (`EFAULT`).
fn refuse_device_memory(piece: &Region) -> Result<(), Errno> {
    Ok(LocalMem.read(piece.start, &mut [0])?)
}

fn own_pid() -> u32 {
    std::process::id()
}

/// One call of a program that has the device in its own process.
///
/// A descriptor that the device installs belongs to the call until [`LocalCall::keep_installed`] says that
/// the call succeeded; dropped before, the call closes it.
#[derive(Debug, Default)]
pub struct LocalCall {
    mem: LocalMem,
    interrupt: Interrupt,
    files: HashMap<i32, FileId>,
    installed: Mutex<Vec<OwnedFd>>,
}

impl LocalCall {
    /// A call that can be interrupted through [`Call::interrupt`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the number `fd` in the arguments of the call stand for a file of the device: in process there is
    /// no descriptor behind an opened device node.
    #[must_use]
    pub fn with_file(mut self, fd: i32, file: FileId) -> Self {
        self.files.insert(fd, file);
        self
    }

    /// Leaves the descriptors that the call installed to the process. They are numbers in the reply by now.
    pub fn keep_installed(self) {
        let mut installed = self.installed.lock().unwrap_or_else(PoisonError::into_inner);
        for fd in installed.drain(..) {
            let _number = fd.into_raw_fd();
        }
    }
}

impl Call for LocalCall {
    fn mem(&self) -> &dyn UserMem {
        &self.mem
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        if let Some(&file) = self.files.get(&fd) {
            return Ok(PassedFd::File(file));
        }
        duplicate(fd).map(PassedFd::Foreign)
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(|_| Errno::EBADF)?;
        let number = fd.as_raw_fd();
        self.installed.lock().unwrap_or_else(PoisonError::into_inner).push(fd);
        Ok(number)
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

fn duplicate(fd: i32) -> Result<OwnedFd, Errno> {
    if fd < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: the number is not negative, and the borrow ends with the next statement. It may not be open, or
    // be closed by another thread meanwhile: fcntl answers EBADF then, nothing is read through it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 0)
        .map_err(|error| Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EBADF))
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use super::*;
    use crate::proc_maps::PAGE;

    const PAGE_BYTES: usize = PAGE as usize;

    /// Some pages of the own address space, unmapped at the end.
    struct Pages {
        base: *mut core::ffi::c_void,
        pages: usize,
    }

    impl Pages {
        fn new(pages: usize) -> Self {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches nothing.
            let base =
                unsafe { mmap_anonymous(std::ptr::null_mut(), pages * PAGE_BYTES, prot, MapFlags::PRIVATE) };
            Self { base: base.unwrap(), pages }
        }

        fn addr(&self, page: usize) -> u64 {
            (self.base.addr() + page * PAGE_BYTES) as u64
        }

        fn protect(&self, page: usize, flags: MprotectFlags) {
            let at = self.base.wrapping_byte_add(page * PAGE_BYTES);
            // SAFETY: the page lies in this mapping, and no Rust reference to it exists.
            unsafe { mprotect(at, PAGE_BYTES, flags) }.unwrap();
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the mapping was made by `new`, and no Rust reference to it exists.
            unsafe { munmap(self.base, self.pages * PAGE_BYTES) }.unwrap();
        }
    }

    #[test]
    fn a_range_is_found_while_other_threads_map_and_unmap() {
        let pages = Pages::new(4);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        drop([Pages::new(1), Pages::new(7), Pages::new(2)]);
                    }
                });
            }
            let found = (0..500).filter(|_| LocalMem.share(pages.addr(0), 4 * PAGE, true).is_ok()).count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(found, 500);
        });
    }

    #[test]
    fn bytes_cross_pages_both_ways() {
        let pages = Pages::new(2);
        let at = pages.addr(1) - 3;
        LocalMem.write(at, b"abcdef").unwrap();
        let mut back = [0; 6];
        LocalMem.read(at, &mut back).unwrap();
        assert_eq!(&back, b"abcdef");
    }

    // copy_from_user and copy_to_user: EFAULT where the page is missing or lacks the right.
    #[test]
    fn an_access_that_ends_on_a_bad_page_faults() {
        let pages = Pages::new(2);
        let at = pages.addr(1) - 2;
        pages.protect(1, MprotectFlags::READ);
        let fault = Fault { addr: at, len: 4 };
        assert_eq!(LocalMem.write(at, b"abcd"), Err(fault));
        assert_eq!(LocalMem.read(at, &mut [0; 4]), Ok(()));
        pages.protect(1, MprotectFlags::empty());
        assert_eq!(LocalMem.read(at, &mut [0; 4]), Err(fault));
    }

    #[test]
    fn addresses_that_no_program_has_fault() {
        for addr in [0, 8, 1 << 47, 0xffff_ffff_ff60_0000, u64::MAX - 1] {
            assert_eq!(LocalMem.read(addr, &mut [0; 4]), Err(Fault { addr, len: 4 }));
            assert_eq!(LocalMem.write(addr, &[0; 4]), Err(Fault { addr, len: 4 }));
            assert_eq!(LocalMem.read(addr, &mut []), Ok(()), "nothing is copied, so nothing faults");
        }
    }

    #[test]
    fn sharing_hands_back_the_range_itself() {
        let pages = Pages::new(3);
        pages.protect(1, MprotectFlags::READ);
        let shared = LocalMem.share(pages.addr(0), 3 * PAGE, false).unwrap();
        let [piece] = shared.as_slice() else { panic!("one piece, not {shared:?}") };
        assert_eq!((piece.addr, piece.len), (pages.addr(0), 3 * PAGE));
        assert!(matches!(piece.backing, SharedBacking::Local));
        assert_eq!(LocalMem.share(pages.addr(0), 3 * PAGE, true).unwrap_err(), Errno::EPERM);
        pages.protect(1, MprotectFlags::empty());
        assert_eq!(LocalMem.share(pages.addr(0), 3 * PAGE, false).unwrap_err(), Errno::EFAULT);
    }

    fn is_open(fd: i32) -> bool {
        std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok()
    }

    fn some_fd() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn installed_descriptors_are_closed_with_a_failed_call_and_kept_after_success() {
        let failed = LocalCall::new();
        let number = failed.install(some_fd()).unwrap();
        assert!(is_open(number));
        drop(failed);

        let succeeded = LocalCall::new();
        let number = succeeded.install(some_fd()).unwrap();
        succeeded.keep_installed();
        // SAFETY: `install` took the descriptor over and `keep_installed` left it to this process: it is ours.
        let kept = unsafe { OwnedFd::from_raw_fd(number) };
        assert!(rustix::io::fcntl_getfd(&kept).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn descriptors_are_duplicated_or_stand_for_files_of_the_device() {
        let null = some_fd();
        let call = LocalCall::new().with_file(900_000, FileId(7));
        assert!(matches!(call.descriptor(900_000), Ok(PassedFd::File(FileId(7)))));
        assert!(matches!(call.descriptor(null.as_raw_fd()), Ok(PassedFd::Foreign(_))));
        assert!(matches!(call.descriptor(-1), Err(Errno::EBADF)));
        assert!(matches!(call.descriptor(900_001), Err(Errno::EBADF)));
    }

    #[test]
    fn a_call_can_be_interrupted() {
        let call = LocalCall::new();
        assert!(!call.interrupt().fired());
        call.interrupt().fire();
        assert!(call.interrupt().fired());
    }
}
