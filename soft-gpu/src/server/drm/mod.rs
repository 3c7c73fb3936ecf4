//! Render nodes: the DRM calls that libdrm, libdrm_amdgpu and the thunk make (`drm_ioctl`, amdgpu).
//!
//! Graphics and command submission through DRM are not there: contexts, command streams and synchronisation
//! objects answer `EOPNOTSUPP`, and GET_CAP says that there are no synchronisation objects.

mod gem;
mod info;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use protocol::Errno;
use protocol::drm::args::{Client, GetCap, Version};
use protocol::drm::{DrmIoctl, Known, cap};
use protocol::kfd::{
    Call, Mapping, Pages, ProcessId, Transfer, UserMem, request_reads, request_size, request_writes,
};

use super::dispatch::with;
use crate::device::{Device, Gpu};
use crate::mem::GpuVm;
use crate::server::memory::{render_mmap, render_place};

/// An open file of a render node (`struct drm_file`).
#[derive(Debug)]
pub(crate) struct DrmFile {
    pub(crate) gpu: Arc<Gpu>,
    /// Whose memory its buffers count as.
    pub(crate) opener: ProcessId,
    /// Tells this file from every other one, for the right to map a buffer.
    pub(crate) id: u64,
    /// Its page tables (`struct amdgpu_vm`).
    pub(crate) vm: Arc<GpuVm>,
    /// Whether a process has made them its own through ACQUIRE_VM; stays set for good.
    pub(crate) compute: AtomicBool,
    handles: gem::Handles,
}

/// A file that a process acquired for KFD lives until that process ends, closed or not.
impl Drop for DrmFile {
    fn drop(&mut self) {
        self.handles.clear(self.id, &self.vm);
    }
}

/// What a handler works with.
struct Cx<'a> {
    device: &'a Device,
    file: &'a DrmFile,
    call: &'a dyn Call,
}

impl DrmFile {
    pub(crate) fn new(gpu: Arc<Gpu>, opener: ProcessId) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self {
            gpu,
            opener,
            id,
            vm: Arc::new(GpuVm::new()),
            compute: AtomicBool::new(false),
            handles: gem::Handles::default(),
        }
    }

    /// `mmap` of a render node.
    pub(crate) fn mmap(&self, offset: u64, len: u64) -> Result<Mapping, Errno> {
        render_mmap(self, offset, len)
    }

    /// Gives a buffer other pages.
    pub(crate) fn place(&self, offset: u64, len: u64, pages: Pages<'_>) -> Result<(), Errno> {
        render_place(self, offset, len, pages)
    }
}

/// The part of `drm_ioctl` before the argument struct is looked at. A direction counts if both the request and
/// the driver's table have it.
pub(crate) fn transfer(request: u32) -> Result<Transfer, Errno> {
    let size = request_size(request);
    Ok(match DrmIoctl::select(request)? {
        Known::Declared(ioctl) => {
            let direction = ioctl.decl().direction;
            Transfer {
                size,
                from_user: direction.copies_in() && request_writes(request),
                to_user: direction.copies_out() && request_reads(request),
            }
        }
        Known::Other => Transfer { size, from_user: false, to_user: false },
    })
}

/// `drm_ioctl`.
pub(crate) fn ioctl(
    device: &Device,
    file: &DrmFile,
    request: u32,
    args: &mut [u8],
    call: &dyn Call,
) -> Result<i32, Errno> {
    let cx = Cx { device, file, call };
    let Known::Declared(ioctl) = DrmIoctl::select(request)? else {
        log::warn!("DRM call {request:#x} is not supported");
        return Err(Errno::EOPNOTSUPP);
    };
    match ioctl {
        DrmIoctl::Version => with(args, |a| version(&cx, a)),
        DrmIoctl::GetClient => with(args, get_client),
        DrmIoctl::GetCap => with(args, get_cap),
        DrmIoctl::AmdgpuInfo => with(args, |a| info::info(&cx, a)),
        DrmIoctl::GemClose => with(args, |a| gem::close(&cx, a)),
        DrmIoctl::PrimeHandleToFd => with(args, |a| gem::export(&cx, a)),
        DrmIoctl::PrimeFdToHandle => with(args, |a| gem::import(&cx, a)),
        DrmIoctl::AmdgpuGemCreate => with(args, |a| gem::create(&cx, a)),
        DrmIoctl::AmdgpuGemMmap => with(args, |a| gem::mmap(&cx, a)),
        DrmIoctl::AmdgpuGemMetadata => with(args, |a| gem::metadata(&cx, a)),
        DrmIoctl::AmdgpuGemWaitIdle => with(args, |a| gem::wait_idle(&cx, a)),
        DrmIoctl::AmdgpuGemVa => with(args, |a| gem::va(&cx, a)),
        DrmIoctl::AmdgpuGemOp => with(args, |a| gem::op(&cx, a)),
    }
}

/// `drm_version`, with the numbers of Linux 6.12's amdgpu.
fn version(cx: &Cx<'_>, args: &mut Version) -> Result<(), Errno> {
    (args.version_major, args.version_minor, args.version_patchlevel) = (3, 61, 0);
    let mem = cx.call.mem();
    copy_field(mem, args.name, &mut args.name_len, "amdgpu")?;
    copy_field(mem, args.date, &mut args.date_len, "0")?;
    copy_field(mem, args.desc, &mut args.desc_len, "AMD GPU")
}

/// `drm_copy_field`: as much as fits; the length is the true one.
fn copy_field(mem: &dyn UserMem, buffer: u64, len: &mut u64, value: &str) -> Result<(), Errno> {
    let fits = usize::try_from(*len).unwrap_or(usize::MAX).min(value.len());
    *len = value.len() as u64;
    match value.as_bytes().get(..fits) {
        Some(bytes) if !bytes.is_empty() && buffer != 0 => Ok(mem.write(buffer, bytes)?),
        Some(_) | None => Ok(()),
    }
}

/// `drm_getclient`: says that the caller is authenticated.
fn get_client(args: &mut Client) -> Result<(), Errno> {
    /// `overflowuid`: the kernel tells nobody's user.
    const NOBODY: u64 = 65534;
    if args.idx != 0 {
        return Err(Errno::EINVAL);
    }
    *args = Client { auth: 1, uid: NOBODY, ..Client::default() };
    Ok(())
}

/// `drm_getcap` of a driver without display.
fn get_cap(args: &mut GetCap) -> Result<(), Errno> {
    /// `DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT`.
    const IMPORT_AND_EXPORT: u64 = 3;
    args.value = match args.capability {
        cap::TIMESTAMP_MONOTONIC => 1,
        cap::PRIME => IMPORT_AND_EXPORT,
        cap::SYNCOBJ | cap::SYNCOBJ_TIMELINE => 0,
        _ => {
            args.value = 0;
            return Err(Errno::EOPNOTSUPP);
        }
    };
    Ok(())
}
