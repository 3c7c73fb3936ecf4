//! The one place from which ioctls reach the kernel.

use std::os::fd::OwnedFd;

use protocol::Errno;
use protocol::kfd::request_size;
use rustix::ioctl::{IoctlOutput, Opcode};

use crate::errno_of;

/// `ioctl(2)` of KFD or a render node: one system call.
pub(crate) fn kernel_ioctl(fd: &OwnedFd, request: u32, args: &mut [u8]) -> Result<i32, Errno> {
    debug_assert_eq!(args.len(), request_size(request), "checked by the caller");
    // SAFETY: the drivers copy `_IOC_SIZE` bytes of the argument at most, each way, and `args` has as many
    // (`kfd_ioctl`, `drm_ioctl`); the file is one of theirs, and the request has their letter, so that no
    // other layer of the kernel takes it. The kernel checks the addresses in the arguments; what it writes
    // there is what the caller asked for, who vouches for the memory behind them as for that of any
    // `Process::ioctl`.
    unsafe { rustix::ioctl::ioctl(fd, Request { request, args }) }.map_err(errno_of)
}

/// An ioctl whose argument struct is `args`.
struct Request<'a> {
    request: u32,
    args: &'a mut [u8],
}

// SAFETY: the pointer is that of a slice that is borrowed for the call, with the size that the opcode names
// (`kernel_ioctl`), and nothing but the return value is made of the output.
unsafe impl rustix::ioctl::Ioctl for Request<'_> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.request
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        self.args.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        out: IoctlOutput,
        _extract_output: *mut core::ffi::c_void,
    ) -> rustix::io::Result<Self::Output> {
        Ok(out)
    }
}
