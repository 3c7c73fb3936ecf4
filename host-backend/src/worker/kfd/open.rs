//! Opens the KFD of a worker.

use std::sync::Arc;

use protocol::kfd::Kfd;
use softgpu::{BackingFiles, Kernel, SoftGpu};

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
    /// Not there yet.
    #[error("this build executes calls on software GPUs only, not on {0}")]
    Native(String),
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
        Gpu::Kfd(path) => Err(OpenError::Native(path.display().to_string())),
    }
}
