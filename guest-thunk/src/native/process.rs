//! One process's files on the kernel's devices.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use protocol::Errno;
use protocol::drm::{self, DrmIoctl, Known};
use protocol::kfd::flat::Declared;
use protocol::kfd::ioctl::{Direction, Manner, Reach, Reaches};
use protocol::kfd::{
    Call, Family, FileId, Ioctl, Mapping, Node, Process, Transfer, request_reads, request_size, request_type,
    request_writes,
};

use super::Device;
use super::descriptors::Descriptors;
use crate::kernel_ioctl::kernel_ioctl;

/// Type letter of KFD's requests (`AMDKFD_IOCTL_BASE`).
const KFD_TYPE: u8 = b'K';

/// This process, as the kernel's KFD knows it.
pub(super) struct NativeProcess {
    device: Arc<Device>,
    /// Which attachment this is: its files are its own.
    number: u64,
}

impl NativeProcess {
    pub(super) fn new(device: Arc<Device>, number: u64) -> Self {
        Self { device, number }
    }

    /// Refuses a forked child: it has the parent's memory, but not its KFD process.
    fn own_process(&self) -> Result<(), Errno> {
        if self.device.fork.is_here() { Ok(()) } else { Err(Errno::EBADF) }
    }

    fn descriptor(&self, id: FileId) -> Result<Arc<OwnedFd>, Errno> {
        self.device.files.with(self.number, id, |entry| Ok(Arc::clone(&entry.fd)))
    }

    /// A call that may name descriptors, or sleep.
    fn ioctl_with_descriptors(
        &self,
        fd: &OwnedFd,
        declared: Declaration,
        request: u32,
        args: &mut [u8],
        call: &dyn Call,
    ) -> Result<i32, Errno> {
        if declared.reaches(args).any(|reach| reach.blocking) && call.interrupt().fired() {
            return Err(Errno::ERESTARTSYS);
        }
        let descriptors = Descriptors::exchange(declared, args, call, |id| self.descriptor(id))?;
        let result = kernel_ioctl(fd, request, args);
        descriptors.restore(args);
        let value = result?;
        // SAFETY: the kernel has just executed the call successfully, with these arguments.
        unsafe { descriptors.hand_out(args, call) }?;
        Ok(value)
    }
}

impl Process for NativeProcess {
    /// # Errors
    /// Those of `open(2)`, each logged once with what to do about it ([`explain`](super::explain)); `EBADF`
    /// in a forked child.
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        self.own_process()?;
        let fd = self.device.open(node)?;
        Ok(self.device.files.add(self.number, node, fd))
    }

    /// The kernel's file ends when calls that run on it have returned and its [`Mapping`]s are dropped.
    fn close(&self, file: FileId) {
        if self.own_process().is_ok() {
            self.device.files.remove(self.number, file);
        }
    }

    /// By protocol's declarations. A call that they do not have may exist in the kernel all the same;
    /// [`Process::ioctl`] asks it.
    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.own_process()?;
        let size = request_size(request);
        match self.device.files.with(self.number, file, |entry| Ok(entry.node))? {
            Node::Kfd => {
                check_letter(request, KFD_TYPE)?;
                let direction = kfd_call(request).ok_or(Errno::ENOTTY)?.decl().direction;
                Ok(Transfer { size, from_user: direction.copies_in(), to_user: direction.copies_out() })
            }
            Node::Render(_) => {
                let direction = match DrmIoctl::select(request)? {
                    Known::Declared(call) => call.decl().direction,
                    Known::Other => Direction::ReadWrite,
                };
                // A direction counts if both the request and the driver's table have it (drm_ioctl).
                let from_user = direction.copies_in() && request_writes(request);
                Ok(Transfer { size, from_user, to_user: direction.copies_out() && request_reads(request) })
            }
        }
    }

    /// The kernel's own answer: `EINTR` and `EAGAIN` as they are, nothing is made again here.
    ///
    /// # Errors
    /// `EBADF` in a forked child and for a file that is not open; `ENOTTY` for a request of another letter
    /// than the device's; `EINVAL` if `args` has not the size that the request names; then the kernel's.
    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        self.own_process()?;
        self.device.files.with(self.number, file, |entry| {
            check_letter(request, letter(entry.node))?;
            if args.len() != request_size(request) {
                return Err(Errno::EINVAL);
            }
            let manner = match entry.node {
                Node::Kfd => Ioctl::manner_of(request),
                Node::Render(_) => Manner::Special,
            };
            match manner {
                // Nearly all calls, and those that a program makes all the time.
                Manner::Plain => kernel_ioctl(&entry.fd, request, args),
                Manner::Sleeps if call.interrupt().fired() => Err(Errno::ERESTARTSYS),
                Manner::Sleeps => kernel_ioctl(&entry.fd, request, args),
                Manner::Special => {
                    let declared = Declaration::of(entry.node, request);
                    self.ioctl_with_descriptors(&entry.fd, declared, request, args, call)
                }
            }
        })
    }

    /// The file's own descriptor, shared by all its mappings. What stands at the offset is the kernel's
    /// business: it answers when the memory is mapped.
    ///
    /// # Errors
    /// `EBADF` as above, `EINVAL` for a range that no file has.
    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        self.own_process()?;
        let fd = self.descriptor(file)?;
        // KFD's offsets use the upper bits for the kind of memory (`KFD_MMAP_TYPE_MASK`), so all 64 bits are
        // in use; what must not happen is a range that wraps around.
        if len == 0 || offset.checked_add(len - 1).is_none() {
            return Err(Errno::EINVAL);
        }
        Ok(Mapping { fd, offset, len, writable: true })
    }
}

impl Drop for NativeProcess {
    fn drop(&mut self) {
        // A child leaves the list alone: it may have abandoned it, and closing is not its business.
        if self.own_process().is_ok() {
            self.device.files.remove_all_of(self.number);
        }
    }
}

fn letter(node: Node) -> u8 {
    match node {
        Node::Kfd => KFD_TYPE,
        Node::Render(_) => drm::TYPE,
    }
}

fn check_letter(request: u32, letter: u8) -> Result<(), Errno> {
    if request_type(request) == letter { Ok(()) } else { Err(Errno::ENOTTY) }
}

/// The KFD call that a request selects. The two lines of kernels differ in a few numbers; where both have
/// one, the request code of the uapi header decides, and mainline's else.
fn kfd_call(request: u32) -> Option<Ioctl> {
    let mainline = Ioctl::from_request(request, Family::Mainline);
    let rocm = Ioctl::from_request(request, Family::Rocm);
    rocm.filter(|ioctl| ioctl.request() == request).or(mainline).or(rocm)
}

/// What protocol says about a call, if it has it.
#[derive(Clone, Copy)]
enum Declaration {
    Kfd(Ioctl),
    Drm(DrmIoctl),
    /// Nothing is known: the arguments go to the kernel as they are.
    Unknown,
}

impl Declaration {
    fn of(node: Node, request: u32) -> Self {
        match node {
            Node::Kfd => kfd_call(request).map_or(Self::Unknown, Self::Kfd),
            Node::Render(_) => match DrmIoctl::select(request) {
                Ok(Known::Declared(call)) => Self::Drm(call),
                Ok(Known::Other) | Err(_) => Self::Unknown,
            },
        }
    }
}

impl Declared for Declaration {
    fn reaches(self, args: &[u8]) -> Reaches<'_> {
        match self {
            Self::Kfd(ioctl) => ioctl.reaches(args),
            Self::Drm(call) => call.reaches(args),
            Self::Unknown => Reaches::new(Reach::NONE, None, args),
        }
    }
}

#[cfg(test)]
mod tests;
