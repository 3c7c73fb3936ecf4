//! A device between the engine and a software GPU. Each operation passes the gate of [`faults`] and hooks of the test,
//! and what is alive in the device is counted.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::drm::{DrmIoctl, Known};
use protocol::kfd::topology::Tree;
use protocol::kfd::{
    Call, Caller, Family, FileId, Interrupt, Ioctl, Kfd, Mapping, Node, PassedFd, Process, Transfer, UserMem,
    request_type,
};

use super::faults::{self, Operation};

/// What a test does to the device's operations. Each default does nothing.
pub(crate) trait Hooks: Send + Sync {
    /// The files of the topology.
    fn topology(&self, device: &dyn Kfd) -> Result<Tree, Errno> {
        device.topology()
    }

    /// An answer to `open` instead of the device's.
    fn open(&self, _node: Node) -> Option<Result<FileId, Errno>> {
        None
    }

    /// An answer to the ioctl with this number instead of the device's.
    fn ioctl(&self, _nr: u32, _args: &mut [u8]) -> Option<Result<i32, Errno>> {
        None
    }

    /// What becomes of an ioctl that the device has carried out.
    fn done(&self, _nr: u32, _args: &mut [u8], _call: &dyn Call) -> Result<(), Errno> {
        Ok(())
    }
}

/// No hooks.
pub(crate) struct Untouched;

impl Hooks for Untouched {}

/// Objects of the device that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alive {
    pub(crate) buffers: i64,
    pub(crate) queues: i64,
    pub(crate) events: i64,
    /// Descriptors that the device gave to the process and that are open still.
    pub(crate) descriptors: usize,
}

/// What went on.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    alive: Alive,
    installed: Vec<Installed>,
    calls: Vec<Ioctl>,
}

/// A descriptor, and which file it is: the number may be another file's later.
#[derive(Clone, Copy, Debug)]
struct Installed {
    fd: RawFd,
    file: (u64, u64),
}

impl Record {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there.
    pub(crate) fn alive(&self) -> Alive {
        let mut state = self.state();
        state.installed.retain(|one| identity(one.fd) == Some(one.file));
        Alive { descriptors: state.installed.len(), ..state.alive }
    }

    /// The ioctls of `/dev/kfd` that went well since the last time.
    pub(crate) fn calls(&self) -> Vec<Ioctl> {
        std::mem::take(&mut self.state().calls)
    }

    fn note(&self, ioctl: Ioctl) {
        let mut state = self.state();
        state.calls.push(ioctl);
        let Alive { buffers, queues, events, .. } = &mut state.alive;
        match ioctl {
            Ioctl::AllocMemoryOfGpu | Ioctl::ImportDmabuf | Ioctl::IpcImportHandle => *buffers += 1,
            Ioctl::FreeMemoryOfGpu => *buffers -= 1,
            Ioctl::CreateQueue => *queues += 1,
            Ioctl::DestroyQueue => *queues -= 1,
            Ioctl::CreateEvent => *events += 1,
            Ioctl::DestroyEvent => *events -= 1,
            _ => {}
        }
    }
}

/// Device and inode of an open descriptor.
fn identity(fd: RawFd) -> Option<(u64, u64)> {
    let stat = std::fs::metadata(format!("/proc/self/fd/{fd}")).ok()?;
    use std::os::unix::fs::MetadataExt;
    Some((stat.dev(), stat.ino()))
}

/// A device over another one, and what goes on there.
pub(crate) fn over(inner: Arc<dyn Kfd>, hooks: impl Hooks + 'static) -> (Arc<dyn Kfd>, Arc<Record>) {
    let record = Arc::new(Record::default());
    let device = Device { inner, hooks: Arc::new(hooks), record: Arc::clone(&record) };
    (Arc::new(device), record)
}

struct Device {
    inner: Arc<dyn Kfd>,
    hooks: Arc<dyn Hooks>,
    record: Arc<Record>,
}

impl Kfd for Device {
    fn topology(&self) -> Result<Tree, Errno> {
        faults::gate(Operation::Topology)?;
        self.hooks.topology(&*self.inner)
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        let inner = self.inner.attach(caller)?;
        Ok(Arc::new(Space { inner, hooks: Arc::clone(&self.hooks), record: Arc::clone(&self.record) }))
    }
}

struct Space {
    inner: Arc<dyn Process>,
    hooks: Arc<dyn Hooks>,
    record: Arc<Record>,
}

/// The ioctl of `/dev/kfd` that a request selects.
fn kfd_ioctl(request: u32) -> Option<Ioctl> {
    (request_type(request) == b'K').then(|| Ioctl::from_request(request, Family::Rocm)).flatten()
}

fn name(request: u32) -> &'static str {
    match (kfd_ioctl(request), DrmIoctl::select(request)) {
        (Some(ioctl), _) => ioctl.name(),
        (None, Ok(Known::Declared(call))) => call.decl().name,
        _ => "another ioctl",
    }
}

impl Process for Space {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        faults::gate(Operation::open(node))?;
        self.hooks.open(node).unwrap_or_else(|| self.inner.open(node))
    }

    fn close(&self, file: FileId) {
        self.inner.close(file);
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.inner.transfer(file, request)
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        faults::gate(Operation::Ioctl(name(request)))?;
        let nr = u32::from(protocol::kfd::request_nr(request));
        if let Some(answer) = self.hooks.ioctl(nr, args) {
            return answer;
        }
        let done = self.inner.ioctl(file, request, args, &Watched { call, record: &self.record })?;
        if let Some(ioctl) = kfd_ioctl(request) {
            self.record.note(ioctl);
        }
        self.hooks.done(nr, args, call)?;
        Ok(done)
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        faults::gate(Operation::DeviceMap)?;
        self.inner.mmap(file, offset, len)
    }
}

/// A call whose new descriptors are noted.
struct Watched<'a> {
    call: &'a dyn Call,
    record: &'a Record,
}

impl Call for Watched<'_> {
    fn mem(&self) -> &dyn UserMem {
        self.call.mem()
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        self.call.descriptor(fd)
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        let number = fd.as_fd().as_raw_fd();
        if let Some(file) = identity(number) {
            self.record.state().installed.push(Installed { fd: number, file });
        }
        self.call.install(fd)
    }

    fn interrupt(&self) -> &Interrupt {
        self.call.interrupt()
    }
}
