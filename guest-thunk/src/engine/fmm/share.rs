//! Buffers of others: dma-bufs (`hsaKmtRegisterGraphicsHandleToNodes`, `hsaKmtExportDMABufHandle`) and handles between
//! processes (`hsaKmtShareMemory`, `hsaKmtRegisterSharedHandle`), which ROCm's kernel driver has and Linux does not.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use protocol::hsakmt::{GraphicsResourceInfo, MemFlags, RegisterMemFlags, SharedMemoryHandle, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::{
    ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs, IpcExportHandleArgs, IpcImportHandleArgs,
};
use protocol::kfd::constants::AllocFlags;

use super::addresses::{Va, Want};
use super::bo::Bo;
use super::buffers::{Buffer, GpuIds, Kind, Life, Prefer};
use super::machine::{Gpu, Machine};
use super::vm::{Access, PAGE};
use crate::engine::{Engine, Result, room};

/// Images of graphics drivers are tiled in blocks of this size.
const IMAGE_ALIGN: u64 = 256 << 10;
/// Room for metadata at the first try, and the most that is tried. The kernel keeps no more than a page.
const METADATA: u32 = 64;
const MOST_METADATA: u32 = 64 << 10;
/// Kinds of address space in a handle between processes (`HSA_APERTURE_DGPU`, `HSA_APERTURE_DGPU_ALT`).
const APERTURE_DGPU: u32 = 1;
const APERTURE_DGPU_ALT: u32 = 2;

impl Engine {
    /// Imports a dma-buf for these nodes, or without nodes and the flag that asks for addresses, without addresses
    /// (then it is known by a number). `handle` is the descriptor. The metadata lives as long as the registration.
    ///
    /// # Errors
    /// `ERROR` for a descriptor that is no dma-buf of a GPU of this process; `INVALID_NODE_UNIT`; `NO_MEMORY`.
    pub fn register_graphics_handle_to_nodes(
        &self,
        handle: u64,
        nodes: &[u32],
        flags: u32,
    ) -> Result<GraphicsResourceInfo> {
        let machine = self.machine()?;
        let registered = if nodes.is_empty() { GpuIds::default() } else { machine.gpu_ids(nodes)? };
        let told_nodes = self.memory.list(machine, &registered)?;
        let addressed = !nodes.is_empty() || RegisterMemFlags(flags).requires_vaddr();
        // A descriptor has 32 bits; those above are the program's rest of a handle of 64.
        let dmabuf_fd = (handle & u64::from(u32::MAX)) as u32;
        let (info, metadata) = self.dmabuf_info(dmabuf_fd)?;
        let gpu = machine.gpu_by_id(info.gpu_id).ok_or_else(|| {
            log::debug!("the dma-buf is of GPU {:#x}, which this process does not use", info.gpu_id);
            Status::Error
        })?;
        if info.size == 0 {
            return Err(Status::Error);
        }
        let va = graphics_addresses(machine, gpu, info.size, addressed)?;
        let base = gpu.private.as_ref().filter(|_| !gpu.shares).map_or(0, |private| private.base);
        let mut args = ImportDmabufArgs {
            va_addr: if addressed { va.start().saturating_sub(base) } else { 0 },
            handle: 0,
            gpu_id: info.gpu_id,
            dmabuf_fd,
        };
        self.channel.ioctl(Ioctl::ImportDmabuf, &mut args).map_err(|errno| {
            log::debug!("descriptor {dmabuf_fd} cannot be imported: {errno}");
            Status::Error
        })?;
        let bo = Bo::of_handle(&self.channel, args.handle);
        let told = GraphicsResourceInfo {
            memory_address: va.start(),
            size_in_bytes: info.size,
            metadata: metadata.as_ptr().expose_provenance() as u64,
            metadata_size_in_bytes: info.metadata_size,
            node_id: gpu.node,
            size_hint_in_bytes: 0,
        };
        let flags = told_flags(AllocFlags(info.flags)) | MemFlags::COARSE_GRAIN;
        let life = Life { registered, ..Life::new(Some(bo.keep()), Some(va)) };
        let kind = Kind::Graphics(metadata);
        let buffer = Buffer::new(kind, told.memory_address, info.size, gpu.node, flags, life);
        buffer.told().registered.set(told_nodes.as_ref());
        self.memory.insert(Arc::new(buffer));
        Ok(told)
    }

    /// What a dma-buf is, with its metadata.
    fn dmabuf_info(&self, dmabuf_fd: u32) -> Result<(GetDmabufInfoArgs, Box<[u8]>)> {
        let mut room = METADATA;
        loop {
            let mut metadata = zeroed(room)?;
            let mut args = GetDmabufInfoArgs {
                metadata_ptr: metadata.as_mut_ptr().expose_provenance() as u64,
                metadata_size: room,
                dmabuf_fd,
                ..GetDmabufInfoArgs::default()
            };
            match self.channel.ioctl(Ioctl::GetDmabufInfo, &mut args) {
                Ok(()) => {
                    args.metadata_size = args.metadata_size.min(room);
                    return Ok((args, metadata));
                }
                Err(_) if args.metadata_size > room && args.metadata_size <= MOST_METADATA => {
                    room = args.metadata_size;
                }
                Err(errno) => {
                    log::debug!("descriptor {dmabuf_fd} is no dma-buf that KFD knows: {errno}");
                    return Err(Status::Error);
                }
            }
        }
    }

    /// Makes a dma-buf of the buffer that a range lies in. Gives its descriptor, and where in it the range begins, in
    /// bytes. It lives on when the memory is freed.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` before KFD 1.12; `INVALID_PARAMETER` for a range that is not all in one buffer; `ERROR` for memory that
    /// cannot be exported, and if there is no descriptor left.
    pub fn export_dmabuf(&self, address: u64, size: u64) -> Result<(OwnedFd, u64)> {
        self.require_minor(12)?;
        let found = self.memory.with_live(
            |table| table.allocated(address),
            |buffer, life| {
                let offset = address - buffer.address;
                let inside = offset.checked_add(size).is_some_and(|end| end <= buffer.size);
                let handle = life.handle.filter(|_| inside).ok_or(Status::InvalidParameter)?;
                // While nobody else frees it.
                self.export(handle).map(|fd| (fd, offset))
            },
        );
        found.unwrap_or(Err(Status::InvalidParameter)).inspect_err(|status| {
            log::debug!("no dma-buf of {size} bytes at {address:#x}: {status}");
        })
    }

    fn export(&self, handle: u64) -> Result<OwnedFd> {
        let flags = libc::O_CLOEXEC.cast_unsigned();
        let mut args = ExportDmabufArgs { handle, flags, dmabuf_fd: u32::MAX };
        self.channel.ioctl(Ioctl::ExportDmabuf, &mut args).map_err(|errno| {
            match errno {
                protocol::Errno::EMFILE | protocol::Errno::ENFILE => {
                    log::warn!("no descriptor is left for a dma-buf (ulimit -n): {errno}");
                }
                errno => log::debug!("buffer {handle:#x} cannot be exported: {errno}"),
            }
            Status::Error
        })?;
        let fd = i32::try_from(args.dmabuf_fd).map_err(|_| Status::Error)?;
        // SAFETY: a call that succeeded has given this process a new descriptor with this number, and nobody else knows of
        // it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// A handle of a buffer for other processes.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for memory that is not known and sizes of 16 TiB and more; `ERROR` if the kernel cannot.
    pub fn share_memory(&self, address: u64, size: u64) -> Result<SharedMemoryHandle> {
        let machine = self.machine()?;
        let pages = u32::try_from(size / PAGE).map_err(|_| {
            log::debug!("{size} bytes are too many to share");
            Status::InvalidParameter
        })?;
        let shared = self.memory.with_live(
            |table| table.exact(address, None, Prefer::Registered).filter(|found| found.address == address),
            |buffer, life| self.export_handle(machine, buffer, life),
        );
        let args = shared.unwrap_or_else(|| {
            log::debug!("{address:#x} is no memory that could be shared");
            Err(Status::InvalidParameter)
        })?;
        let [a, b, c, d] = args.share_handle;
        Ok(SharedMemoryHandle { words: [a, b, c, d, APERTURE_DGPU, 0, pages, args.gpu_id] })
    }

    fn export_handle(
        &self,
        machine: &Machine,
        buffer: &Buffer,
        life: &mut Life,
    ) -> Result<IpcExportHandleArgs> {
        // System memory is the first GPU's for KFD.
        let own = machine.gpu(buffer.node).or(machine.gpus.first());
        let gpu_id = own.map(|gpu| gpu.gpu_id).ok_or(Status::Error)?;
        let handle = life.handle.ok_or(Status::InvalidParameter)?;
        let mut args = IpcExportHandleArgs { handle, share_handle: [0; 4], gpu_id, flags: buffer.flags.0 };
        self.channel.ioctl(Ioctl::IpcExportHandle, &mut args).map_err(|errno| {
            log::debug!("{:#x} cannot be shared (only ROCm's kernel driver can): {errno}", buffer.address);
            Status::Error
        })?;
        Ok(args)
    }

    /// Imports memory of another process, for all GPUs or for these nodes. Gives its address and size.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for a handle that this library did not make, and an empty list of nodes;
    /// `INVALID_NODE_UNIT`; `NO_MEMORY` if there are no addresses; `ERROR` if the kernel cannot.
    pub fn register_shared_handle(
        &self,
        handle: &SharedMemoryHandle,
        nodes: Option<&[u32]>,
    ) -> Result<(u64, u64)> {
        let machine = self.machine()?;
        let registered = nodes.map_or(Ok(GpuIds::default()), |nodes| machine.gpu_ids(nodes))?;
        let told_nodes = self.memory.list(machine, &registered)?;
        let [a, b, c, d, aperture, _, pages, gpu_id] = handle.words;
        if ![APERTURE_DGPU, APERTURE_DGPU_ALT].contains(&aperture) {
            log::debug!("a handle with address space {aperture} is none that memory can be shared by");
            return Err(Status::InvalidParameter);
        }
        let size = u64::from(pages) * PAGE;
        // The kernel's buffer may be smaller than a forged handle says; it is never mapped beyond.
        let va = if pages == 0 {
            log::debug!("a handle of no pages");
            return Err(Status::Error);
        } else {
            let coherent = aperture == APERTURE_DGPU_ALT;
            machine.addresses.take(Want { coherent, ..Want::seen(size) })?
        };
        let mut args = IpcImportHandleArgs {
            handle: 0,
            va_addr: va.start(),
            mmap_offset: 0,
            share_handle: [a, b, c, d],
            gpu_id,
            flags: 0,
        };
        self.channel.ioctl(Ioctl::IpcImportHandle, &mut args).map_err(|errno| {
            log::debug!("shared memory cannot be imported (only ROCm's kernel driver can): {errno}");
            Status::Error
        })?;
        let bo = Bo::of_handle(&self.channel, args.handle);
        let gpu = machine.gpu_by_id(gpu_id).ok_or(Status::Error)?;
        if args.mmap_offset != 0 {
            self.map_for_cpu(&va, gpu.render, args.mmap_offset, 0, size, Access::ReadWrite)
                .map_err(|_| Status::Error)?;
        }
        let address = va.start();
        let life = Life { registered, ..Life::new(Some(bo.keep()), Some(va)) };
        let buffer = Buffer::new(Kind::Shared, address, size, gpu.node, MemFlags(args.flags), life);
        buffer.told().registered.set(told_nodes.as_ref());
        self.memory.insert(Arc::new(buffer));
        Ok((address, size))
    }
}

/// Addresses for a dma-buf: where its GPU has them.
fn graphics_addresses(machine: &Machine, gpu: &Gpu, size: u64, addressed: bool) -> Result<Va> {
    let size = size.checked_next_multiple_of(PAGE).ok_or(Status::Error)?;
    if !addressed {
        return machine.addresses.take_number(size);
    }
    match &gpu.private {
        Some(private) if !gpu.shares => private.numbers.take(size, IMAGE_ALIGN),
        _ => machine.addresses.take(Want { align: IMAGE_ALIGN, ..Want::hidden(size) }),
    }
}

/// What KFD's flags of a dma-buf are to programs.
fn told_flags(flags: AllocFlags) -> MemFlags {
    let public = flags.contains(AllocFlags::PUBLIC);
    let extended = flags.contains(AllocFlags::EXT_COHERENT);
    let read_only = !flags.contains(AllocFlags::WRITABLE);
    let set = |wanted: bool, flag: MemFlags| if wanted { flag } else { MemFlags::default() };
    set(public, MemFlags::HOST_ACCESS)
        | set(extended, MemFlags::EXTENDED_COHERENT)
        | set(read_only, MemFlags::READ_ONLY)
}

fn zeroed(len: u32) -> Result<Box<[u8]>> {
    let len = usize::try_from(len).map_err(|_| Status::NoMemory)?;
    room::filled(len, 0).map(Vec::into_boxed_slice)
}
