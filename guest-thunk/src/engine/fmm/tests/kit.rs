//! An engine over a software GPU on a machine of any shape, which counts what it has given out.

use std::sync::Arc;

use protocol::Errno;
use protocol::hsakmt::MemFlags;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Call, Ioctl, Kfd};
use softgpu::{Kernel, Profile};

use super::super::vm::PAGE;
use crate::engine::testing::device::{self, Hooks, Record};
use crate::engine::testing::faults;
use crate::engine::{Engine, Options, rig};

pub(super) const CPU: u32 = 0;
pub(super) const GPU: u32 = 1;
/// The second GPU of a machine with two.
pub(super) const SECOND: u32 = 2;

/// Paged system memory.
pub(super) const PAGED: MemFlags = MemFlags::HOST_ACCESS;
/// System memory of KFD's.
pub(super) const GTT: MemFlags = MemFlags::HOST_ACCESS.union(MemFlags::NON_PAGED);
/// VRAM for the GPU alone.
pub(super) const VRAM: MemFlags = MemFlags::NON_PAGED;
/// VRAM that the CPU sees.
pub(super) const VISIBLE: MemFlags = GTT;

/// How the machine differs from its profile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// The GPU's first and last address.
    pub(super) gpuvm: Option<(u64, u64)>,
    /// The GPU is part of a node with a CPU.
    pub(super) combined: bool,
    /// So many nodes of processors more, at the end.
    pub(super) more_cpus: u32,
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

impl Hooks for Shape {
    fn topology(&self, device: &dyn Kfd) -> Result<Tree, Errno> {
        let mut tree = device.topology()?;
        if self.combined {
            let properties = tree.files.get_mut("nodes/1/properties").unwrap();
            let text = String::from_utf8(properties.clone()).unwrap();
            *properties = text.replace("cpu_cores_count 0\n", "cpu_cores_count 4\n").into_bytes();
        }
        // Without its links, which say whose they are.
        let files = tree.files.iter().filter_map(|(path, text)| Some((path.strip_prefix("nodes/0/")?, text)));
        let cpu: Vec<_> = files
            .filter(|(path, _)| !path.starts_with("io_links"))
            .map(|(path, text)| (path.to_owned(), text.clone()))
            .collect();
        for node in 2..2 + self.more_cpus {
            tree.files.extend(cpu.iter().map(|(path, text)| (format!("nodes/{node}/{path}"), text.clone())));
        }
        Ok(tree)
    }

    fn ioctl(&self, nr: u32, _args: &mut [u8]) -> Option<Result<i32, Errno>> {
        let refused = self.old && nr == u32::from(Ioctl::GetProcessAperturesNew.nr());
        refused.then_some(Err(Errno::EINVAL))
    }

    fn done(&self, nr: u32, args: &mut [u8], call: &dyn Call) -> Result<(), Errno> {
        let apertures = nr == u32::from(Ioctl::GetProcessAperturesNew.nr());
        if apertures { self.aperture(call, args) } else { Ok(()) }
    }
}

/// An engine, and what went on in its device.
pub(super) struct Kit {
    pub(super) engine: Engine,
    pub(super) record: Arc<Record>,
}

impl Kit {
    /// One that is set up.
    pub(super) fn new(profile: Profile) -> Self {
        Self::with(profile, Kernel::Linux6_12, Options::default())
    }

    pub(super) fn with(profile: Profile, kernel: Kernel, options: Options) -> Self {
        let kit = Self::raw(profile, kernel, options);
        kit.engine.acquire_system_properties().expect("the topology");
        kit.record.calls();
        kit
    }

    /// One whose topology nobody has asked for.
    pub(super) fn raw(profile: Profile, kernel: Kernel, options: Options) -> Self {
        Self::shaped(profile, kernel, options, Shape::default())
    }

    /// The same on another machine than the profile's.
    pub(super) fn shaped(profile: Profile, kernel: Kernel, options: Options, shape: Shape) -> Self {
        let (device, record) = device::over(rig::device_with_kernel(profile, kernel), shape);
        Self { engine: rig::engine_on(&device, options), record }
    }

    /// Registers through KFD's userptr, as before there was SVM.
    pub(super) fn without_svm(profile: Profile) -> Self {
        Self::with(profile, Kernel::Linux6_12, Options { svm: false, ..Options::default() })
    }

    pub(super) fn alloc(&self, node: u32, size: u64, flags: MemFlags) -> u64 {
        self.engine.alloc_memory(node, size, 0, flags).expect("memory")
    }

    /// What there is: buffers of the table, of KFD, and bytes of addresses of this thread.
    pub(super) fn count(&self) -> (usize, i64, u64) {
        self.engine.close_memory();
        (self.engine.memory.table().len(), self.record.alive().buffers, faults::held())
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
