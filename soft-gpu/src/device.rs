//! The device: the GPUs of one machine, and the processes that use them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use protocol::Errno;
use protocol::kfd::ioctl::Family;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Caller, Kfd, Process, ProcessId};

use rustix::time::{ClockId, clock_gettime};

use crate::backing::{BackingFiles, KFD_FILE_SIZE, RENDER_FILE_SIZE};
use crate::kernel::Kernel;
use crate::mem::{Arena, HostMem, OutOfSpace, PAGE_SIZE};
use crate::profile::{GpuSpec, Machine};
use crate::server::files::FileTable;
use crate::server::memory::DeviceMemory;
use crate::server::memory::bo::MmapNodes;
use crate::server::process::{Client, ProcessState};
use crate::server::queues::slots::Slots;
use crate::server::smi::SmiClients;

/// What a software GPU is made from.
#[derive(Debug)]
pub struct Config {
    /// The machine, with the kernel whose KFD is imitated.
    pub machine: Machine,
    /// The files that all memory with CPU access lies in.
    pub backing: BackingFiles,
}

/// Why a software GPU could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// The backing files lack one for a GPU.
    #[error("no backing file for render node {0}")]
    NoRenderFile(u32),
    /// Two GPUs share what must tell them apart.
    #[error("two GPUs have the GPU id {gpu_id:#x} or the render minor {render_minor}")]
    NotUnique {
        /// GPU id of the second.
        gpu_id: u32,
        /// Render minor of the second.
        render_minor: u32,
    },
    /// A backing file cannot be mapped.
    #[error("cannot map the backing file of {node}: {source}")]
    Map {
        /// Which node's file.
        node: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// The software GPU: implements [`Kfd`].
#[derive(Debug)]
pub struct SoftGpu(Arc<Device>);

impl SoftGpu {
    /// Makes the machine that `config` describes.
    ///
    /// # Errors
    /// [`NewError`] where the parts of `config` contradict each other.
    pub fn new(config: Config) -> Result<Self, NewError> {
        Device::new(config).map(|device| SoftGpu(Arc::new(device)))
    }

    /// Lets no process have more than `bytes` of VRAM, on all GPUs together, from now on: what is beyond answers
    /// `ENOMEM`, and AVAILABLE_MEMORY tells no more than what is left of it.
    pub fn limit_vram_per_process(&self, bytes: u64) {
        self.0.memory.limits.limit_vram_per_process(bytes);
    }
}

#[cfg(test)]
impl SoftGpu {
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.0
    }

    pub(crate) fn processes(&self) -> Vec<Arc<ProcessState>> {
        self.0.processes()
    }
}

impl Kfd for SoftGpu {
    fn topology(&self) -> Result<Tree, Errno> {
        Ok(self.0.machine.tree())
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        Ok(Arc::new(Client::new(Arc::clone(&self.0), caller)))
    }
}

/// Everything that the processes share.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) kernel: Kernel,
    pub(crate) gpus: Vec<Arc<Gpu>>,
    pub(crate) files: FileTable,
    /// The file behind `/dev/kfd`: doorbells, the MMIO page, the driver's own event pages.
    pub(crate) kfd_arena: Arena,
    pub(crate) machine: Machine,
    /// Limits, and buffers that processes share.
    pub(crate) memory: DeviceMemory,
    /// First page of the `kfd` file, never given out.
    _kfd_first_page: Option<HostMem>,
    /// The processes that have opened `/dev/kfd`, for calls that name another process.
    processes: Mutex<BTreeMap<ProcessId, Weak<ProcessState>>>,
}

/// One GPU.
#[derive(Debug)]
pub(crate) struct Gpu {
    /// Its numbers.
    pub(crate) spec: GpuSpec,
    /// The file behind the render node: all memory of this GPU that a CPU can map.
    pub(crate) arena: Arena,
    /// What can be mapped through the render node.
    pub(crate) nodes: MmapNodes,
    /// The registers that programs may write (MMIO remap), a page of the `kfd` file.
    pub(crate) mmio: HostMem,
    /// Who reads what happens to the GPU.
    pub(crate) smi: SmiClients,
    /// SDMA queues and the number of queues.
    pub(crate) queue_slots: Slots,
    /// First page of the render file, never given out.
    _first_page: Option<HostMem>,
}

/// Takes a backing file into use. Its first page stays reserved: to programs, offset 0 means "no offset", and
/// on `/dev/kfd` the MMIO page of no GPU.
fn arena(node: String, fd: OwnedFd, len: u64) -> Result<(Arena, Option<HostMem>), NewError> {
    let arena = Arena::new(fd, len).map_err(|source| NewError::Map { node, source })?;
    let first_page = arena.alloc(PAGE_SIZE, PAGE_SIZE).ok();
    Ok((arena, first_page))
}

fn map_error(node: &str, error: OutOfSpace) -> NewError {
    NewError::Map { node: node.to_owned(), source: std::io::Error::other(error) }
}

impl Device {
    /// Nodes of the topology, those of CPUs too (`kfd_topology_get_num_devices`).
    pub(crate) fn node_count(&self) -> usize {
        self.machine.topology.nodes.len()
    }

    fn new(config: Config) -> Result<Self, NewError> {
        let Config { machine, backing } = config;
        let (kfd_arena, _kfd_first_page) = arena("kfd".to_owned(), backing.kfd, KFD_FILE_SIZE)?;
        let mut render_files = backing.render;
        let mut gpus: Vec<Arc<Gpu>> = Vec::with_capacity(machine.gpus.len());
        for spec in &machine.gpus {
            let GpuSpec { gpu_id, render_minor, .. } = *spec;
            if gpus.iter().any(|gpu| gpu.spec.gpu_id == gpu_id || gpu.spec.render_minor == render_minor) {
                return Err(NewError::NotUnique { gpu_id, render_minor });
            }
            let file = render_files.iter().position(|(minor, _)| *minor == render_minor);
            let (_, fd) = render_files.swap_remove(file.ok_or(NewError::NoRenderFile(render_minor))?);
            let (arena, _first_page) = arena(format!("renderD{render_minor}"), fd, RENDER_FILE_SIZE)?;
            let mmio = kfd_arena.alloc(PAGE_SIZE, PAGE_SIZE).map_err(|error| map_error("kfd", error))?;
            let nodes = MmapNodes::default();
            gpus.push(Arc::new(Gpu {
                spec: spec.clone(),
                arena,
                nodes,
                mmio,
                queue_slots: Slots::new(spec),
                smi: SmiClients::default(),
                _first_page,
            }));
        }
        let vram = machine.gpus.iter().map(|gpu| gpu.vram.size).collect();
        let memory = DeviceMemory::new(machine.system_memory(), vram)
            .map_err(|source| NewError::Map { node: "dma-bufs".to_owned(), source })?;
        Ok(Self {
            kernel: machine.kernel,
            gpus,
            files: FileTable::default(),
            kfd_arena,
            _kfd_first_page,
            machine,
            memory,
            processes: Mutex::default(),
        })
    }

    /// The GPU with this KFD id (`kfd_device_by_id`).
    pub(crate) fn gpu(&self, gpu_id: u32) -> Option<&Arc<Gpu>> {
        self.gpus.iter().find(|gpu| gpu.spec.gpu_id == gpu_id)
    }

    /// The GPU behind `/dev/dri/renderD<minor>`.
    pub(crate) fn gpu_of_minor(&self, minor: u32) -> Option<&Arc<Gpu>> {
        self.gpus.iter().find(|gpu| gpu.spec.render_minor == minor)
    }

    /// Whether the machine's KFD is built with shared virtual memory and some GPU has it. A machine without GPU
    /// has not: Debian's kernel, which it is compared with, is built without (`CONFIG_HSA_AMD_SVM`).
    pub(crate) fn has_svm(&self) -> bool {
        self.gpus.iter().any(|gpu| gpu.spec.features.svm)
    }

    /// Which ioctl table the imitated kernel has.
    pub(crate) fn family(&self) -> Family {
        match self.kernel {
            Kernel::Linux6_12 | Kernel::Linux7_3 => Family::Mainline,
            Kernel::Rocm => Family::Rocm,
        }
    }

    /// The process with this process id, if it has opened `/dev/kfd` (`kfd_lookup_process_by_pid`).
    pub(crate) fn process_by_pid(&self, pid: u32) -> Option<Arc<ProcessState>> {
        self.processes().into_iter().find(|process| process.caller.pid == pid)
    }

    /// Every process that has opened `/dev/kfd` and still lives.
    pub(crate) fn processes(&self) -> Vec<Arc<ProcessState>> {
        let table = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        table.values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn add_process(&self, process: &Arc<ProcessState>) {
        let mut table = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(process.caller.id, Arc::downgrade(process));
    }

    pub(crate) fn remove_process(&self, id: ProcessId) {
        let mut table = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        table.remove(&id);
    }
}

impl Gpu {
    /// The time stamp counter (`amdgpu_gfx_get_gpu_clock_counter`), which runs along with
    /// `CLOCK_MONOTONIC_RAW`.
    pub(crate) fn clock_counter(&self) -> u64 {
        let ticks = u128::from(clock_ns(ClockId::MonotonicRaw)) * u128::from(self.spec.clocks.counter_khz)
            / 1_000_000;
        // Wraps as the counter does.
        (ticks & u128::from(u64::MAX)) as u64
    }
}

/// A clock's time in ns.
pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
