//! The engine's way to its device: typed ioctls, files and mappings of one [`Process`].

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use protocol::Errno;
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::topology::Tree;
use protocol::kfd::{
    Call, Caller, FileId, Interrupt, Ioctl, Kfd, Mapping, Node, PassedFd, Process, ProcessId, UserMem,
};

/// A process's files of one device.
pub(crate) struct Channel {
    device: Arc<dyn Kfd>,
    process: Arc<dyn Process>,
    mem: Arc<dyn UserMem>,
    kfd: FileId,
    /// Render nodes by minor. They stay open as long as the process: closing one would end its address space.
    render: RwLock<BTreeMap<u32, FileId>>,
    /// The process that opened it.
    pid: u32,
    /// Whether a call found out that this is another process.
    inherited: AtomicBool,
}

impl Channel {
    /// Attaches this process and opens `/dev/kfd`.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(crate) fn open(device: Arc<dyn Kfd>, mem: Arc<dyn UserMem>) -> Result<Self, Errno> {
        let pid = std::process::id();
        let caller = Caller {
            id: ProcessId(u64::from(pid)),
            pid,
            // The kernel decides by the credentials; a device in this process has nobody to protect from it.
            privileged: false,
            mem: Some(Arc::clone(&mem)),
        };
        let process = device.attach(caller)?;
        let kfd = process.open(Node::Kfd)?;
        let (render, inherited) = (RwLock::default(), AtomicBool::new(false));
        Ok(Self { device, process, mem, kfd, render, pid, inherited })
    }

    /// Whether KFD has refused a call because this process is a child of the one that opened it. A fork by the bare
    /// system call runs no handler of the C library, and this is how such a child finds out.
    pub(crate) fn is_inherited(&self) -> bool {
        self.inherited.load(Ordering::Acquire)
    }

    /// The files of the topology directory.
    pub(crate) fn topology(&self) -> Result<Tree, Errno> {
        self.device.topology()
    }

    /// The open `/dev/kfd`.
    pub(crate) fn kfd_file(&self) -> FileId {
        self.kfd
    }

    /// The open render node with this minor, opened at the first use.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(crate) fn render_file(&self, minor: u32) -> Result<FileId, Errno> {
        if let Some(&file) = self.render.read().unwrap_or_else(PoisonError::into_inner).get(&minor) {
            return Ok(file);
        }
        // Held while opening, so that two threads do not open it twice: KFD takes one file for each GPU.
        let mut render = self.render.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&file) = render.get(&minor) {
            return Ok(file);
        }
        let file = self.process.open(Node::Render(minor))?;
        render.insert(minor, file);
        Ok(file)
    }

    /// An ioctl of `/dev/kfd`, made again when a signal interrupts it or the kernel asks for it.
    pub(crate) fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) -> Result<(), Errno> {
        self.repeat(self.kfd, ioctl.request(), args.as_mut_bytes(), None)
    }

    /// An ioctl in whose arguments the number `fd` stands for a file of the device.
    pub(crate) fn ioctl_with_file<A: UapiStruct>(
        &self,
        ioctl: Ioctl,
        args: &mut A,
        fd: i32,
        file: FileId,
    ) -> Result<(), Errno> {
        self.repeat(self.kfd, ioctl.request(), args.as_mut_bytes(), Some((fd, file)))
    }

    /// An ioctl whose struct is bytes: one of a render node, or of `/dev/kfd` where the request says how long it is.
    /// `args` has the size that `request` names.
    pub(crate) fn ioctl_bytes(&self, file: FileId, request: u32, args: &mut [u8]) -> Result<(), Errno> {
        self.repeat(file, request, args, None)
    }

    /// What stands behind a range of a file.
    pub(crate) fn mapping(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        self.process.mmap(file, offset, len)
    }

    /// `EINTR` comes after a signal handler, `EAGAIN` where KFD had to give way to a page fault or a reset.
    fn repeat(
        &self,
        file: FileId,
        request: u32,
        args: &mut [u8],
        named: Option<(i32, FileId)>,
    ) -> Result<(), Errno> {
        loop {
            let call = EngineCall {
                mem: &*self.mem,
                named,
                interrupt: Interrupt::new(),
                installed: Mutex::default(),
            };
            match self.process.ioctl(file, request, args, &call) {
                Ok(_) => {
                    call.keep_installed();
                    return Ok(());
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(errno) => {
                    if errno == Errno::EBADF && file == self.kfd && std::process::id() != self.pid {
                        self.inherited.store(true, Ordering::Release);
                    }
                    return Err(errno);
                }
            }
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("kfd", &self.kfd)
            .field("render", &self.render)
            .finish_non_exhaustive()
    }
}

/// One call of the engine. Descriptors that the device installs are closed unless the call succeeds.
struct EngineCall<'a> {
    mem: &'a dyn UserMem,
    named: Option<(i32, FileId)>,
    interrupt: Interrupt,
    installed: Mutex<Vec<OwnedFd>>,
}

impl EngineCall<'_> {
    /// Leaves the descriptors to whoever reads their numbers in the arguments.
    fn keep_installed(self) {
        for fd in self.installed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let _number = fd.into_raw_fd();
        }
    }
}

impl Call for EngineCall<'_> {
    fn mem(&self) -> &dyn UserMem {
        self.mem
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        match self.named {
            Some((number, file)) if number == fd => Ok(PassedFd::File(file)),
            _ => duplicate(fd).map(PassedFd::Foreign),
        }
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
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
    // SAFETY: the number is not negative, and the borrow ends with the next statement. If it is not open, or
    // another thread closes it meanwhile, fcntl answers EBADF; nothing is read through it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 0).map_err(crate::errno_of)
}

#[cfg(test)]
mod tests {
    use protocol::kfd::args::GetVersionArgs;
    use softgpu::Profile;

    use crate::engine::rig;

    use super::*;

    #[test]
    fn a_render_node_is_opened_once() {
        let engine = rig::engine(Profile::Mi210);
        let first = engine.channel.render_file(128).unwrap();
        assert_eq!(engine.channel.render_file(128), Ok(first));
        assert_eq!(engine.channel.render_file(191), Err(Errno::ENOENT));
    }

    #[test]
    fn an_ioctl_fills_its_struct_in() {
        let engine = rig::engine(Profile::Mi210);
        let mut args = GetVersionArgs::default();
        engine.channel.ioctl(Ioctl::GetVersion, &mut args).unwrap();
        assert_eq!(args.major_version, 1);
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_ebadf() {
        assert_eq!(duplicate(-1).err(), Some(Errno::EBADF));
        assert_eq!(duplicate(1_000_000).err(), Some(Errno::EBADF));
    }
}
