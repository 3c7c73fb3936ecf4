//! A device between the engine and a software GPU that sees each ioctl first: failures, interruptions, and answers of
//! kernels that the software GPU is not.

use std::sync::{Arc, Mutex, PoisonError};

use protocol::Errno;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Call, Caller, FileId, Kfd, Mapping, Node, Process, Transfer, request_nr};
use softgpu::{BackingFiles, Config, Kernel, Machine, Profile, SoftGpu};

use crate::engine::{Engine, Options, rig};

/// What a hook makes of a call, by its number: an answer, or nothing, which lets it through. Sees the arguments before
/// the device. A mapping of a file counts as a call with the number [`MMAP`].
type Hook = dyn Fn(u32, &mut [u8]) -> Option<Result<i32, Errno>> + Send + Sync;

/// No ioctl has this number.
pub(in crate::engine) const MMAP: u32 = 0x100;

/// The device.
struct Hooked {
    inner: Arc<dyn Kfd>,
    hook: Arc<Hook>,
}

struct HookedProcess {
    inner: Arc<dyn Process>,
    hook: Arc<Hook>,
}

/// An engine whose ioctls go through `hook`.
pub(in crate::engine) fn engine(
    profile: Profile,
    kernel: Kernel,
    hook: impl FnMut(u32, &mut [u8]) -> Option<Result<i32, Errno>> + Send + 'static,
) -> Engine {
    let hook = Mutex::new(hook);
    engine_hooked(profile, kernel, move |nr, args| {
        let mut hook = hook.lock().unwrap_or_else(PoisonError::into_inner);
        (*hook)(nr, args)
    })
}

/// An engine that tells `before` of each ioctl, from several threads at once.
pub(in crate::engine) fn engine_unlocked(
    profile: Profile,
    kernel: Kernel,
    before: impl Fn(u32) + Send + Sync + 'static,
) -> Engine {
    engine_hooked(profile, kernel, move |nr, _| {
        before(nr);
        None
    })
}

fn engine_hooked(
    profile: Profile,
    kernel: Kernel,
    hook: impl Fn(u32, &mut [u8]) -> Option<Result<i32, Errno>> + Send + Sync + 'static,
) -> Engine {
    let inner = rig::device_with_kernel(profile, kernel);
    let device: Arc<dyn Kfd> = Arc::new(Hooked { inner, hook: Arc::new(hook) });
    rig::engine_on(&device, Options::default())
}

/// An engine on a machine that is no built-in profile.
pub(in crate::engine) fn engine_of_machine(machine: Machine) -> Engine {
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memory files");
    let device: Arc<dyn Kfd> = Arc::new(SoftGpu::new(Config { machine, backing }).expect("a machine"));
    rig::engine_on(&device, Options::default())
}

/// An engine on a kernel whose interface has this minor number.
pub(in crate::engine) fn engine_of_minor(profile: Profile, minor: u32) -> Engine {
    let mut engine = rig::engine(profile);
    engine.version.kernel_interface_minor_version = minor;
    engine
}

impl Kfd for Hooked {
    fn topology(&self) -> Result<Tree, Errno> {
        self.inner.topology()
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        let inner = self.inner.attach(caller)?;
        Ok(Arc::new(HookedProcess { inner, hook: Arc::clone(&self.hook) }))
    }
}

impl Process for HookedProcess {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        self.inner.open(node)
    }

    fn close(&self, file: FileId) {
        self.inner.close(file);
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.inner.transfer(file, request)
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let answer = (self.hook)(u32::from(request_nr(request)), args);
        answer.unwrap_or_else(|| self.inner.ioctl(file, request, args, call))
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        match (self.hook)(MMAP, &mut []) {
            Some(Err(errno)) => Err(errno),
            Some(Ok(_)) | None => self.inner.mmap(file, offset, len),
        }
    }
}
