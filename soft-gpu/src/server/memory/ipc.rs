//! ROCm's own way to share buffers between processes: 128-bit handles (`kfd_ipc.c` of the out-of-tree driver).

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use protocol::Errno;
use protocol::kfd::args::{IpcExportHandleArgs, IpcImportHandleArgs};
use protocol::kfd::constants::AllocFlags;

use super::bo::{Bo, BoKind};
use super::{dmabuf, make_handle, split_handle};
use crate::server::dispatch::Cx;

/// Buffers by share handle. A handle is good as long as its buffer lives in any process.
#[derive(Debug, Default)]
pub(super) struct IpcHandles {
    by_handle: Mutex<HashMap<[u32; 4], Shared>>,
}

#[derive(Debug)]
struct Shared {
    bo: Weak<Bo>,
    flags: u32,
}

impl IpcHandles {
    /// The share handle of a buffer, the same one each time.
    fn export(&self, bo: &Arc<Bo>, flags: u32) -> [u32; 4] {
        let mut table = self.by_handle.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, shared| shared.bo.strong_count() > 0);
        let known = table.iter().find(|(_, shared)| shared.bo.as_ptr() == Arc::as_ptr(bo));
        if let Some((handle, _)) = known {
            return *handle;
        }
        let mut handle = random_handle();
        while handle == [0; 4] || table.contains_key(&handle) {
            handle = random_handle();
        }
        table.insert(handle, Shared { bo: Arc::downgrade(bo), flags });
        handle
    }

    fn import(&self, handle: [u32; 4]) -> Option<(Arc<Bo>, u32)> {
        let table = self.by_handle.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = table.get(&handle)?;
        Some((shared.bo.upgrade()?, shared.flags))
    }
}

/// 128 bits that cannot be guessed: the standard library keys its hashers from the system's random numbers.
fn random_handle() -> [u32; 4] {
    let word = |salt: u64| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(salt);
        hasher.finish()
    };
    let (a, b) = (word(0), word(1));
    [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
}

/// `kfd_ioctl_ipc_export_handle`.
///
/// # Errors
/// `EINVAL` for an unknown GPU or buffer, `EPERM` for userptr memory, which cannot be shared.
pub(crate) fn ipc_export(cx: &Cx<'_>, args: &mut IpcExportHandleArgs) -> Result<(), Errno> {
    let bo = {
        let state = cx.process.memory.lock();
        let gpu = state.gpu_index(args.gpu_id)?;
        state.bound(gpu)?;
        let (_, number) = split_handle(args.handle);
        Arc::clone(&state.buffer(gpu, number).ok_or(Errno::EINVAL)?.bo)
    };
    if bo.kind == BoKind::Userptr {
        return Err(Errno::EPERM);
    }
    args.share_handle = cx.process.device.memory.ipc.export(&bo, args.flags);
    Ok(())
}

/// `kfd_ioctl_ipc_import_handle`.
///
/// # Errors
/// `EINVAL` for an unknown GPU and for a share handle that stands for nothing (any more).
pub(crate) fn ipc_import(cx: &Cx<'_>, args: &mut IpcImportHandleArgs) -> Result<(), Errno> {
    let memory = &cx.process.memory;
    let (bo, flags) = cx.process.device.memory.ipc.import(args.share_handle).ok_or(Errno::EINVAL)?;
    let mut state = memory.lock();
    let index = state.gpu_index(args.gpu_id)?;
    let viewer = state.bound(index)?.id;
    let mmap_offset = bo.mmap_offset;
    let vram = bo.kind == BoKind::Vram;
    let number = state.insert(index, dmabuf::imported(bo, index, args.gpu_id, args.va_addr, viewer))?;
    args.handle = make_handle(args.gpu_id, number);
    args.mmap_offset = mmap_offset;
    args.flags = flags | if vram { AllocFlags::VRAM.0 } else { AllocFlags::GTT.0 };
    Ok(())
}
