//! Opens the KFD of a worker.

use std::path::PathBuf;
use std::sync::Arc;

use hsakmt::native::{Native, Paths};
use protocol::Errno;
use protocol::kfd::{Caller, Kfd, ProcessId};
use softgpu::{BackingFiles, Kernel, SoftGpu};

use super::kernel::KernelKfd;
use crate::gpu::Gpu;

/// Why there is no KFD.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The software GPU has no memory.
    #[error("no memory for the software GPU: {0}")]
    Memory(#[from] std::io::Error),
    /// It cannot be made.
    #[error("no software GPU: {0}")]
    Soft(#[from] softgpu::NewError),
    /// The kernel's cannot be opened.
    #[error("cannot open {}: {errno}", path.display())]
    Kernel {
        /// The device file that was named; a render node may be what fails.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
}

/// Opens it. Needs files and memory that a locked-in process may not get.
///
/// # Errors
/// [`OpenError`].
pub fn open(gpu: &Gpu) -> Result<Arc<dyn Kfd>, OpenError> {
    match gpu {
        Gpu::Soft(profile) => {
            let machine = profile.machine(Kernel::default());
            let backing = BackingFiles::anonymous(&machine.render_minors())?;
            Ok(Arc::new(SoftGpu::new(softgpu::Config { machine, backing })?))
        }
        Gpu::Kfd(path) => {
            let pid = std::process::id();
            let caller = Caller { id: ProcessId(pid.into()), pid, privileged: false, mem: None };
            let native = Native::new(Paths { kfd: path.clone(), ..Paths::default() });
            let opened = KernelKfd::open(&native, caller);
            Ok(Arc::new(opened.map_err(|errno| OpenError::Kernel { path: path.clone(), errno })?))
        }
    }
}
