//! Buffers as descriptors: EXPORT_DMABUF, IMPORT_DMABUF, GET_DMABUF_INFO.
//!
//! A dma-buf of the kernel is a file that holds the buffer. No file of user space can show a slice of the render
//! file *and* tell when its last descriptor is closed, so an exported buffer is one end of a connection that we
//! made: its inode says which buffer it is, and when all descriptors of it are closed, in whatever process, the end
//! that we keep hangs up. Until then the buffer lives, freed or not.
//!
//! A buffer with KFD's WRITABLE is the end of a socket pair (open for reading and writing, as the dma-buf), another
//! the reading end of a pipe. `mmap` of either is `ENODEV`: a CPU maps a buffer through its render node. `lseek`, with
//! which the size of a dma-buf can be asked, does not work either; GET_DMABUF_INFO does.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Errno;
use protocol::kfd::args::{ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::{Call, PassedFd};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fs::fstat;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::bo::{Bo, BoKind};
use super::{Buffer, make_handle, split_handle};
use crate::server::dispatch::Cx;

/// Most hang-ups that one look takes in.
const REAP_BATCH: usize = 64;

/// Every buffer that is exported and has a descriptor somewhere.
#[derive(Debug)]
pub(crate) struct DmaBufs {
    epoll: OwnedFd,
    exported: Mutex<Exported>,
}

#[derive(Debug, Default)]
struct Exported {
    last: u64,
    by_number: HashMap<u64, Export>,
    by_inode: HashMap<Inode, u64>,
}

#[derive(Debug)]
struct Export {
    bo: Arc<Bo>,
    inode: Inode,
    /// Hangs up when the last descriptor of the other end is closed.
    _ours: OwnedFd,
}

/// Device and number of an inode.
type Inode = (u64, u64);

impl DmaBufs {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, exported: Mutex::default() })
    }

    /// A new descriptor for a buffer (`dma_buf_fd`), which importers may write through where `writable`.
    ///
    /// # Errors
    /// `EPERM` for userptr memory (`amdgpu_gem_prime_export`); what making a descriptor answers.
    pub(crate) fn export(&self, bo: &Arc<Bo>, writable: bool) -> Result<OwnedFd, Errno> {
        if bo.kind == BoKind::Userptr {
            return Err(Errno::EPERM);
        }
        self.reap();
        let (ours, theirs) = connection(writable).map_err(errno)?;
        let inode = inode_of(theirs.as_fd()).map_err(errno)?;
        let mut exported = self.exported.lock().unwrap_or_else(PoisonError::into_inner);
        let number = exported.last + 1;
        // Hang-ups are reported whether asked for or not.
        epoll::add(&self.epoll, &ours, EventData::new_u64(number), EventFlags::empty()).map_err(errno)?;
        exported.last = number;
        exported.by_inode.insert(inode, number);
        exported.by_number.insert(number, Export { bo: Arc::clone(bo), inode, _ours: ours });
        Ok(theirs)
    }

    /// The buffer that a descriptor stands for (`dma_buf_get`).
    ///
    /// # Errors
    /// `EINVAL` for a file that is none.
    pub(crate) fn import(&self, fd: BorrowedFd<'_>) -> Result<Arc<Bo>, Errno> {
        self.reap();
        let inode = inode_of(fd).map_err(errno)?;
        let exported = self.exported.lock().unwrap_or_else(PoisonError::into_inner);
        let number = exported.by_inode.get(&inode).ok_or(Errno::EINVAL)?;
        exported.by_number.get(number).map(|export| Arc::clone(&export.bo)).ok_or(Errno::EINVAL)
    }

    /// Lets go of the buffers whose descriptors are all closed. Cheap when there are none.
    pub(crate) fn reap(&self) {
        if self.exported.lock().unwrap_or_else(PoisonError::into_inner).by_number.is_empty() {
            return;
        }
        let mut events = Vec::with_capacity(REAP_BATCH);
        loop {
            events.clear();
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let spare = rustix::buffer::spare_capacity(&mut events);
            if let Err(error) = epoll::wait(&self.epoll, spare, Some(&now)) {
                log::error!("cannot look for closed dma-buf descriptors: {error}");
                return;
            }
            let gone: Vec<Export> = {
                let mut exported = self.exported.lock().unwrap_or_else(PoisonError::into_inner);
                events.iter().filter_map(|event: &Event| exported.remove(event.data.u64())).collect()
            };
            // Buffers and descriptors go without the lock; closing takes the descriptor out of the epoll set.
            if gone.is_empty() {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.exported.lock().unwrap_or_else(PoisonError::into_inner).by_number.len()
    }
}

impl Exported {
    fn remove(&mut self, number: u64) -> Option<Export> {
        let export = self.by_number.remove(&number)?;
        if self.by_inode.get(&export.inode) == Some(&number) {
            self.by_inode.remove(&export.inode);
        }
        Some(export)
    }
}

/// (the end to keep, the end to give away).
fn connection(writable: bool) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    if writable {
        return socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    }
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((writing, reading))
}

fn inode_of(fd: BorrowedFd<'_>) -> rustix::io::Result<Inode> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EIO)
}

/// The buffer behind a descriptor number of the caller.
///
/// # Errors
/// `EBADF` for no descriptor, `EINVAL` for one of something else.
pub(crate) fn from_caller(call: &dyn Call, dmabufs: &DmaBufs, fd: u32) -> Result<Arc<Bo>, Errno> {
    match call.descriptor(fd.cast_signed())? {
        PassedFd::Foreign(fd) => dmabufs.import(fd.as_fd()),
        PassedFd::File(_) => Err(Errno::EINVAL),
    }
}

/// `kfd_ioctl_export_dmabuf`.
pub(crate) fn export_dmabuf(cx: &Cx<'_>, args: &mut ExportDmabufArgs) -> Result<(), Errno> {
    let (bo, writable) = {
        let state = cx.process.memory.lock();
        let (gpu_id, number) = split_handle(args.handle);
        let gpu = state.gpu_index(gpu_id)?;
        let buffer = state.buffer(gpu, number).ok_or(Errno::EINVAL)?;
        (Arc::clone(&buffer.bo), buffer.flags.contains(AllocFlags::WRITABLE))
    };
    let fd = cx.process.device.memory.dmabufs.export(&bo, writable)?;
    args.dmabuf_fd = cx.call.install(fd)?.cast_unsigned();
    Ok(())
}

/// `kfd_ioctl_import_dmabuf`.
pub(crate) fn import_dmabuf(cx: &Cx<'_>, args: &mut ImportDmabufArgs) -> Result<(), Errno> {
    let memory = &cx.process.memory;
    let (index, viewer) = {
        let state = memory.lock();
        let index = state.gpu_index(args.gpu_id)?;
        (index, state.bound(index)?.id)
    };
    let bo = from_caller(cx.call, &cx.process.device.memory.dmabufs, args.dmabuf_fd)?;
    let number = memory.lock().insert(index, imported(bo, index, args.gpu_id, args.va_addr, viewer))?;
    args.handle = make_handle(args.gpu_id, number);
    Ok(())
}

/// A buffer of another handle or process, as seen from one GPU (`import_obj_create`): always writable and
/// executable. Memory of another GPU counts as system memory there (`amdgpu_dma_buf_create_obj`).
pub(super) fn imported(bo: Arc<Bo>, index: usize, gpu_id: u32, va: u64, viewer: u64) -> Buffer {
    let vram = bo.kind == BoKind::Vram && bo.gpu.spec.gpu_id == gpu_id;
    let kind = if vram { AllocFlags::VRAM } else { AllocFlags::GTT };
    let flags = kind | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
    Buffer { bo, va, flags, vram, home: index, viewer, attachments: Vec::new() }
}

/// `kfd_ioctl_get_dmabuf_info`, with the metadata that GEM_METADATA set.
pub(crate) fn get_dmabuf_info(cx: &Cx<'_>, args: &mut GetDmabufInfoArgs) -> Result<(), Errno> {
    let device = &cx.process.device;
    let first = device.gpus.first().ok_or(Errno::EINVAL)?;
    let bo = from_caller(cx.call, &device.memory.dmabufs, args.dmabuf_fd)?;
    let metadata = bo.metadata().data.clone();
    let room = std::mem::replace(&mut args.metadata_size, u32::try_from(metadata.len()).unwrap_or(u32::MAX));
    args.size = bo.size();
    // amdgpu_bo_get_metadata
    if args.metadata_ptr != 0 && (room as usize) < metadata.len() {
        return Err(Errno::EINVAL);
    }
    let vram = bo.kind == BoKind::Vram;
    // System memory has no partition, and the kernel then names the first GPU, whoever's it is.
    args.gpu_id = if vram { bo.gpu.spec.gpu_id } else { first.spec.gpu_id };
    let kind = if vram { AllocFlags::VRAM } else { AllocFlags::GTT };
    args.flags = if bo.public { (kind | AllocFlags::PUBLIC).0 } else { kind.0 };
    if args.metadata_ptr != 0 {
        cx.call.mem().write(args.metadata_ptr, &metadata)?;
    }
    Ok(())
}
