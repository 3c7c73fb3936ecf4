//! An engine over a software GPU whose calls can be made to fail, and which counts what it has given out.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use protocol::Errno;
use protocol::hsakmt::MemFlags;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Call, Caller, FileId, Ioctl, Kfd, Mapping, Node, Process, Transfer};
use softgpu::local_mem::LocalMem;
use softgpu::{Kernel, Profile};

use super::super::vm::{PAGE, fault};
use crate::engine::{Engine, Options, rig};

pub(super) const CPU: u32 = 0;
pub(super) const GPU: u32 = 1;

/// Paged system memory.
pub(super) const PAGED: MemFlags = MemFlags::HOST_ACCESS;
/// System memory of KFD's.
pub(super) const GTT: MemFlags = MemFlags::HOST_ACCESS.union(MemFlags::NON_PAGED);
/// VRAM for the GPU alone.
pub(super) const VRAM: MemFlags = MemFlags::NON_PAGED;
/// VRAM that the CPU sees.
pub(super) const VISIBLE: MemFlags = GTT;

/// No call fails.
const NEVER: u32 = u32::MAX;

/// What fails, and what is there.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// How many ioctls and mmaps from now on go well.
    countdown: AtomicU32,
    shape: Shape,
    buffers: AtomicUsize,
    calls: Mutex<Vec<Ioctl>>,
}

impl Plan {
    /// Lets the call number `at` from now on fail, counted from 0.
    pub(super) fn fail_at(&self, at: u32) {
        self.countdown.store(at, Ordering::SeqCst);
    }

    /// Lets no call fail. Gives whether one has.
    pub(super) fn stop(&self) -> bool {
        self.countdown.swap(NEVER, Ordering::SeqCst) == NEVER
    }

    /// KFD's buffers that are there.
    pub(super) fn buffers(&self) -> usize {
        self.buffers.load(Ordering::SeqCst)
    }

    /// The ioctls since the last time.
    pub(super) fn calls(&self) -> Vec<Ioctl> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn gate(&self) -> Result<(), Errno> {
        let left = self.countdown.load(Ordering::SeqCst);
        if left == NEVER {
            return Ok(());
        }
        self.countdown.store(left.wrapping_sub(1), Ordering::SeqCst);
        if left == 0 { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    fn note(&self, ioctl: Ioctl) {
        self.calls.lock().unwrap().push(ioctl);
        match ioctl {
            Ioctl::AllocMemoryOfGpu | Ioctl::ImportDmabuf | Ioctl::IpcImportHandle => {
                self.buffers.fetch_add(1, Ordering::SeqCst);
            }
            Ioctl::FreeMemoryOfGpu => {
                self.buffers.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}

/// How the machine differs from its profile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// The GPU's first and last address.
    pub(super) gpuvm: Option<(u64, u64)>,
    /// The GPU is part of a node with a CPU.
    pub(super) combined: bool,
    /// The kernel has only the old call for apertures.
    pub(super) old: bool,
}

impl Shape {
    fn aperture(self, call: &dyn Call, args: &[u8]) -> Result<(), Errno> {
        let Some((base, limit)) = self.gpuvm else { return Ok(()) };
        let list = u64::from_le_bytes(args[..8].try_into().unwrap());
        // Of the first GPU, in `struct kfd_process_device_apertures`.
        call.mem().write(list + 32, &base.to_le_bytes())?;
        call.mem().write(list + 40, &limit.to_le_bytes())?;
        Ok(())
    }
}

struct Device(Arc<dyn Kfd>, Arc<Plan>);

impl Kfd for Device {
    fn topology(&self) -> Result<Tree, Errno> {
        let mut tree = self.0.topology()?;
        if self.1.shape.combined {
            let properties = tree.files.get_mut("nodes/1/properties").unwrap();
            let text = String::from_utf8(properties.clone()).unwrap();
            *properties = text.replace("cpu_cores_count 0\n", "cpu_cores_count 4\n").into_bytes();
        }
        Ok(tree)
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        Ok(Arc::new(Space(self.0.attach(caller)?, Arc::clone(&self.1))))
    }
}

struct Space(Arc<dyn Process>, Arc<Plan>);

impl Process for Space {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        self.0.open(node)
    }

    fn close(&self, file: FileId) {
        self.0.close(file);
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.0.transfer(file, request)
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let ioctl = Ioctl::from_request(request, protocol::kfd::Family::Rocm);
        // What gives back does not fail for want of memory.
        if !matches!(ioctl, Some(Ioctl::FreeMemoryOfGpu | Ioctl::UnmapMemoryFromGpu)) {
            self.1.gate()?;
        }
        if ioctl == Some(Ioctl::GetProcessAperturesNew) && self.1.shape.old {
            return Err(Errno::EINVAL);
        }
        let done = self.0.ioctl(file, request, args, call)?;
        if ioctl == Some(Ioctl::GetProcessAperturesNew) {
            self.1.shape.aperture(call, args)?;
        }
        if let Some(ioctl) = ioctl {
            self.1.note(ioctl);
        }
        Ok(done)
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        self.1.gate()?;
        self.0.mmap(file, offset, len)
    }
}

/// An engine and its plan.
pub(super) struct Kit {
    pub(super) engine: Engine,
    pub(super) plan: Arc<Plan>,
}

impl Kit {
    /// One that is set up.
    pub(super) fn new(profile: Profile) -> Self {
        Self::with(profile, Kernel::Linux6_12, Options::default())
    }

    pub(super) fn with(profile: Profile, kernel: Kernel, options: Options) -> Self {
        let kit = Self::raw(profile, kernel, options);
        kit.engine.acquire_system_properties().expect("the topology");
        kit.plan.calls();
        kit
    }

    /// One whose topology nobody has asked for.
    pub(super) fn raw(profile: Profile, kernel: Kernel, options: Options) -> Self {
        Self::shaped(profile, kernel, options, Shape::default())
    }

    /// The same on another machine than the profile's.
    pub(super) fn shaped(profile: Profile, kernel: Kernel, options: Options, shape: Shape) -> Self {
        let plan = Arc::new(Plan { countdown: AtomicU32::new(NEVER), shape, ..Plan::default() });
        let device: Arc<dyn Kfd> =
            Arc::new(Device(rig::device_with_kernel(profile, kernel), Arc::clone(&plan)));
        let engine = Engine::new(&device, Arc::new(LocalMem), options).expect("the software GPU opens");
        Self { engine, plan }
    }

    /// Registers through KFD's userptr, as before there was SVM.
    pub(super) fn without_svm(profile: Profile) -> Self {
        Self::with(profile, Kernel::Linux6_12, Options { svm: false, ..Options::default() })
    }

    pub(super) fn alloc(&self, node: u32, size: u64, flags: MemFlags) -> u64 {
        self.engine.alloc_memory(node, size, 0, flags).expect("memory")
    }

    /// What there is: buffers of the table, of KFD, and bytes of addresses of this thread.
    pub(super) fn count(&self) -> (usize, usize, u64) {
        (self.engine.memory.table().len(), self.plan.buffers(), fault::held())
    }
}

/// Stores a byte into memory of the engine.
pub(super) fn store(address: u64, byte: u8) {
    let pointer: *mut u8 = std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap());
    // SAFETY: tests give addresses of memory that they have allocated and that may be written; others look at it
    // through volatile accesses too.
    unsafe { pointer.write_volatile(byte) };
}

/// Loads a byte.
pub(super) fn load(address: u64) -> u8 {
    let pointer: *const u8 = std::ptr::with_exposed_provenance(usize::try_from(address).unwrap());
    // SAFETY: tests give addresses of memory that they have allocated and that may be read.
    unsafe { pointer.read_volatile() }
}

/// A list that a program was told.
pub(super) fn list(address: u64, count: u32) -> Vec<u32> {
    if count == 0 {
        return Vec::new();
    }
    let pointer: *const u32 = std::ptr::with_exposed_provenance(usize::try_from(address).unwrap());
    // SAFETY: the library gave address and length of a list that it keeps.
    unsafe { std::slice::from_raw_parts(pointer, usize::try_from(count).unwrap()) }.to_vec()
}

/// Memory of the program: whole pages, zeroed, at a page's start.
pub(super) struct Own(Vec<u8>, u64);

impl Own {
    pub(super) fn new(pages: u64) -> Self {
        let bytes = usize::try_from((pages + 1) * PAGE).unwrap();
        let mut memory = vec![0u8; bytes];
        let start = memory.as_mut_ptr().expose_provenance() as u64;
        Self(memory, start.next_multiple_of(PAGE))
    }

    pub(super) fn address(&self) -> u64 {
        assert!(!self.0.is_empty());
        self.1
    }
}
