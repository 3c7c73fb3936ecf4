//! Memory.

use std::ffi::c_int;
use std::os::fd::IntoRawFd;

use protocol::hsakmt::{GraphicsResourceInfo, MemFlags, PointerInfo, SharedMemoryHandle, Status};

use crate::ffi::{Array, Out, Struct};
use crate::guard::entry;
use crate::library;

/// A C address. It is a number to this library, which never follows it.
type Address = u64;

entry! {
    /// Allocates memory that GPUs can reach.
    fn hsaKmtAllocMemory(node: u32, size: u64, flags: MemFlags, address: Out<Address>) {
        alloc(node, size, 0, flags, address)
    }

    /// The same with an alignment: a power of two, in bytes; 0 for the smallest.
    fn hsaKmtAllocMemoryAlign(node: u32, size: u64, alignment: u64, flags: MemFlags, address: Out<Address>) {
        alloc(node, size, alignment, flags, address)
    }

    /// Frees memory.
    fn hsaKmtFreeMemory(address: Address, size: u64) {
        library::engine()?.free_memory(address, size)
    }

    /// Bytes of a GPU's memory that can be allocated still.
    fn hsaKmtAvailableMemory(node: u32, bytes: Out<u64>) {
        let engine = library::engine()?;
        let bytes = bytes.required()?;
        bytes.set(engine.available_memory(node)?);
        Ok(())
    }

    /// Registers the program's own memory for all GPUs.
    fn hsaKmtRegisterMemory(address: Address, size: u64) {
        library::engine()?.register_memory(address, size)
    }

    /// Registers the program's own memory for some GPUs.
    fn hsaKmtRegisterMemoryToNodes(address: Address, size: u64, count: u64, nodes: Array<u32>) {
        let engine = library::engine()?;
        engine.register_memory_to_nodes(address, size, &nodes.copy(count)?)
    }

    /// Registers the program's own memory with attributes.
    fn hsaKmtRegisterMemoryWithFlags(address: Address, size: u64, flags: MemFlags) {
        library::engine()?.register_memory_with_flags(address, size, flags)
    }

    /// Registers a dma-buf.
    fn hsaKmtRegisterGraphicsHandleToNodes(
        handle: u64,
        info: Struct<GraphicsResourceInfo>,
        count: u64,
        nodes: Array<u32>,
    ) {
        let engine = library::engine()?;
        let info = info.required()?;
        if count == 0 && !nodes.is_null() {
            return Err(Status::InvalidParameter);
        }
        info.set(&engine.register_graphics_handle_to_nodes(handle, &nodes.copy(count)?, 0)?);
        Ok(())
    }

    /// Makes a dma-buf of a buffer.
    fn hsaKmtExportDMABufHandle(address: Address, size: u64, fd: Out<c_int>, offset: Out<u64>) {
        let engine = library::engine()?;
        let (fd, offset) = (fd.required()?, offset.required()?);
        let (descriptor, at) = engine.export_dmabuf(address, size)?;
        fd.set(descriptor.into_raw_fd());
        offset.set(at);
        Ok(())
    }

    /// Makes a handle for other processes.
    fn hsaKmtShareMemory(address: Address, size: u64, handle: Struct<SharedMemoryHandle>) {
        let engine = library::engine()?;
        let handle = handle.required()?;
        handle.set(&engine.share_memory(address, size)?);
        Ok(())
    }

    /// Takes another process's handle.
    fn hsaKmtRegisterSharedHandle(handle: Struct<SharedMemoryHandle>, address: Out<Address>, size: Out<u64>) {
        register_shared(handle, address, size, None)
    }

    /// Takes another process's handle, for some GPUs.
    fn hsaKmtRegisterSharedHandleToNodes(
        handle: Struct<SharedMemoryHandle>,
        address: Out<Address>,
        size: Out<u64>,
        count: u64,
        nodes: Array<u32>,
    ) {
        register_shared(handle, address, size, Some(&nodes.copy(count)?))
    }

    /// Takes a registration back.
    fn hsaKmtDeregisterMemory(address: Address) {
        library::engine()?.deregister_memory(address)
    }

    /// Maps a buffer to the GPUs that it was registered for.
    fn hsaKmtMapMemoryToGPU(address: Address, size: u64, alternate: Out<Address>) {
        let mapped = library::engine()?.map_memory(address, size)?;
        alternate.set(mapped);
        Ok(())
    }

    /// Maps a buffer to these GPUs and no others.
    fn hsaKmtMapMemoryToGPUNodes(
        address: Address,
        size: u64,
        alternate: Out<Address>,
        flags: u32,
        count: u64,
        nodes: Array<u32>,
    ) {
        let mapped = library::engine()?.map_memory_to_nodes(address, size, flags, &nodes.copy(count)?)?;
        alternate.set(mapped);
        Ok(())
    }

    /// Unmaps a buffer from all GPUs.
    fn hsaKmtUnmapMemoryToGPU(address: Address) {
        library::engine()?.unmap_memory(address)
    }

    /// Unmaps a buffer of the graphics driver from all GPUs: it is mapped as any other.
    fn hsaKmtUnmapGraphicHandle(node: u32, address: Address, size: u64) {
        let _ = (node, size);
        library::engine()?.unmap_memory(address)
    }

    /// What is known about an address.
    fn hsaKmtQueryPointerInfo(address: Address, info: Struct<PointerInfo>) {
        let info = info.required()?;
        let engine = library::engine()?;
        // What is not known is of an unknown type, and says so.
        let found = engine.pointer_info(address).inspect_err(|_| info.set(&PointerInfo::default()))?;
        info.set(&found);
        Ok(())
    }

    /// Keeps a pointer of the program's with a buffer.
    fn hsaKmtSetMemoryUserData(address: Address, user_data: u64) {
        library::engine()?.set_memory_user_data(address, user_data)
    }

    /// Cache policy of a GPU's default and alternate apertures.
    fn hsaKmtSetMemoryPolicy(node: u32, default: u32, alternate: u32, base: Address, size: u64) {
        library::engine()?.set_memory_policy(node, default, alternate, base, size)
    }
}

fn alloc(node: u32, size: u64, alignment: u64, flags: MemFlags, address: Out<Address>) -> hsakmt::Result<()> {
    let engine = library::engine()?;
    let address = address.required()?;
    // With FixedAddress the caller says where.
    let wanted = address.get()?;
    address.set(engine.alloc_memory_at(node, size, alignment, flags, wanted)?);
    Ok(())
}

fn register_shared(
    handle: Struct<SharedMemoryHandle>,
    address: Out<Address>,
    size: Out<u64>,
    nodes: Option<&[u32]>,
) -> hsakmt::Result<()> {
    let engine = library::engine()?;
    let (address, size) = (address.required()?, size.required()?);
    let handle = handle.get()?;
    let (at, bytes) = engine.register_shared_handle(&handle, nodes)?;
    address.set(at);
    size.set(bytes);
    Ok(())
}
