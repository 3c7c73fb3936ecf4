//! The files behind the device nodes: all memory of the GPU that a CPU can map lies in them.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// Size of the `kfd` file in bytes (sparse): doorbells and MMIO pages. It has 255 places for doorbells
/// at multiples of 4 GiB, where the thunk of ROCm 5.2 needs them.
pub const KFD_FILE_SIZE: u64 = 1 << 40;

/// Size of each render file in bytes (sparse): VRAM and GTT of one GPU.
pub const RENDER_FILE_SIZE: u64 = 1 << 40;

/// Sparse shared-memory files, one for `/dev/kfd` and one for each render node.
///
/// The software GPU allocates inside them and answers `mmap` with offsets into them, so that under
/// the launcher, where these very files stand at `/dev/kfd` and `/dev/dri/renderD*`, a program's
/// `mmap` needs no help.
#[derive(Debug)]
pub struct BackingFiles {
    /// Behind `/dev/kfd`, [`KFD_FILE_SIZE`] bytes.
    pub kfd: OwnedFd,
    /// Render minor and the file behind it, [`RENDER_FILE_SIZE`] bytes each.
    pub render: Vec<(u32, OwnedFd)>,
}

impl BackingFiles {
    /// Anonymous files (memfd), for use in one process and over transports that pass descriptors.
    ///
    /// # Errors
    /// Whatever `memfd_create` and `ftruncate` answer.
    pub fn anonymous(render_minors: &[u32]) -> std::io::Result<Self> {
        let kfd = anonymous_file("kfd", KFD_FILE_SIZE)?;
        let render = render_minors
            .iter()
            .map(|&minor| Ok((minor, anonymous_file(&format!("renderD{minor}"), RENDER_FILE_SIZE)?)))
            .collect::<std::io::Result<_>>()?;
        Ok(Self { kfd, render })
    }
}

fn anonymous_file(name: &str, size: u64) -> std::io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, size)?;
    Ok(fd)
}
