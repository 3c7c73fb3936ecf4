//! The device: the GPUs of one machine, and the processes that use them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use protocol::Errno;
use protocol::kfd::ioctl::Family;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Caller, Kfd, Process, ProcessId};

use crate::backing::BackingFiles;
use crate::kernel::Kernel;
use crate::server::files::FileTable;
use crate::server::process::{Client, ProcessState};

/// What a software GPU is made from.
#[derive(Debug)]
pub struct Config {
    /// The topology tree that `/sys` shows.
    pub topology: Tree,
    /// The GPUs in it.
    pub gpus: Vec<GpuIdentity>,
    /// Whose KFD is imitated.
    pub kernel: Kernel,
    /// The files that all memory with CPU access lies in.
    pub backing: BackingFiles,
}

/// How a GPU is named in the topology.
#[derive(Clone, Debug)]
pub struct GpuIdentity {
    /// `nodes/N/gpu_id`.
    pub gpu_id: u32,
    /// `N`.
    pub node_index: u32,
    /// `drm_render_minor` of the node.
    pub render_minor: u32,
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
}

impl Kfd for SoftGpu {
    fn topology(&self) -> Result<Tree, Errno> {
        Ok(self.0.topology.clone())
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
    topology: Tree,
    /// The processes that have opened `/dev/kfd`, for calls that name another process.
    processes: Mutex<BTreeMap<ProcessId, Weak<ProcessState>>>,
}

/// One GPU.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) gpu_id: u32,
    pub(crate) node_index: u32,
    pub(crate) render_minor: u32,
}

impl Device {
    fn new(config: Config) -> Result<Self, NewError> {
        let mut gpus: Vec<Arc<Gpu>> = Vec::with_capacity(config.gpus.len());
        for GpuIdentity { gpu_id, node_index, render_minor } in config.gpus {
            if gpus.iter().any(|gpu| gpu.gpu_id == gpu_id || gpu.render_minor == render_minor) {
                return Err(NewError::NotUnique { gpu_id, render_minor });
            }
            if !config.backing.render.iter().any(|(minor, _)| *minor == render_minor) {
                return Err(NewError::NoRenderFile(render_minor));
            }
            gpus.push(Arc::new(Gpu { gpu_id, node_index, render_minor }));
        }
        Ok(Self {
            kernel: config.kernel,
            gpus,
            files: FileTable::default(),
            topology: config.topology,
            processes: Mutex::default(),
        })
    }

    /// The GPU with this KFD id (`kfd_device_by_id`).
    pub(crate) fn gpu(&self, gpu_id: u32) -> Option<&Arc<Gpu>> {
        self.gpus.iter().find(|gpu| gpu.gpu_id == gpu_id)
    }

    /// The GPU behind `/dev/dri/renderD<minor>`.
    pub(crate) fn gpu_of_minor(&self, minor: u32) -> Option<&Arc<Gpu>> {
        self.gpus.iter().find(|gpu| gpu.render_minor == minor)
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
