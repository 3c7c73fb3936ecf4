//! Allocation: `hsaKmtAllocMemory`, `hsaKmtAllocMemoryAlign`.
//!
//! | on | flags | what it is |
//! |---|---|---|
//! | any node | OnlyAddress | addresses, no memory |
//! | a GPU | Scratch | addresses; memory when a part of them is mapped |
//! | a GPU | NonPaged | its memory; with NoAddress known by a number |
//! | a CPU, or a GPU without NonPaged or with GTTAccess | NonPaged | system memory that KFD allocates |
//! | the same | - | system memory of this process that KFD registers |
//! | a CPU, without discrete GPUs | - | memory of this process; KFD knows nothing of it |
//!
//! Nothing is rounded: KFD compares the sizes of what a queue names.

use std::sync::Arc;

use protocol::hsakmt::{MemFlags, Status};
use protocol::kfd::constants::AllocFlags;
use rustix::io;

use super::Viewed;
use super::addresses::{Va, Want};
use super::bo::{Ask, Bo};
use super::buffers::{Buffer, Kind, Life};
use super::machine::{Gpu, Machine, Private};
use super::vm::Access;
use crate::engine::{Engine, Result};

/// What a program asks for, checked.
struct Request<'a> {
    machine: &'a Machine,
    node: u32,
    /// KFD's id of the node's GPU; 0 for a CPU.
    gpu_id: u32,
    size: u64,
    align: u64,
    flags: MemFlags,
    at: Option<u64>,
}

impl Engine {
    /// Allocates `size` bytes, whole pages of the size that the flags name, at multiples of `alignment` (a power of
    /// two; 0 for what suits the size). Gives the address, or the number of memory without addresses.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT`; `INVALID_PARAMETER` for a size, alignment or flags that cannot be; `NO_MEMORY` if memory,
    /// addresses or mappings ran out; `NOT_SUPPORTED` for contiguous memory before KFD 1.16; `NOT_IMPLEMENTED` for
    /// aligned scratch; `ERROR` if KFD refuses system memory for another reason than that there is none.
    pub fn alloc_memory(&self, node: u32, size: u64, alignment: u64, flags: MemFlags) -> Result<u64> {
        self.alloc_memory_at(node, size, alignment, flags, 0)
    }

    /// The same with the address that the program has in mind, which counts with FixedAddress alone.
    ///
    /// # Errors
    /// As [`Engine::alloc_memory`]; `INVALID_PARAMETER` for FixedAddress of 0; `NO_MEMORY` for addresses that are taken or
    /// that a GPU does not reach.
    pub fn alloc_memory_at(
        &self,
        node: u32,
        size: u64,
        alignment: u64,
        flags: MemFlags,
        wanted: u64,
    ) -> Result<u64> {
        if flags.contiguous() {
            self.require_minor(16)?;
        }
        let machine = self.machine()?;
        let gpu_id = machine.gpu_id(node)?;
        check(size, alignment, flags, wanted).inspect_err(|status| {
            log::debug!("{size} bytes, aligned to {alignment}, at {wanted:#x}, {flags:?}: {status}");
        })?;
        let at = flags.fixed_address().then_some(wanted);
        let request = Request { machine, node, gpu_id, size, align: alignment, flags, at };
        let allocated = self.alloc(&request);
        allocated.inspect_err(|status| log::debug!("no {size} bytes on node {node}, {flags:?}: {status}"))
    }

    fn alloc(&self, request: &Request<'_>) -> Result<u64> {
        let flags = request.flags;
        if flags.scratch() {
            let (node, size, at) = (request.node, request.size, request.at);
            return self.alloc_scratch(request.machine, node, size, at);
        }
        if flags.only_address() {
            return self.reserve_addresses(request);
        }
        let device = request.gpu_id != 0 && flags.non_paged() && !flags.gtt_access();
        if device && !self.options.zero_frame_buffer {
            return self.alloc_device(request);
        }
        if !request.machine.discrete {
            return self.alloc_plain(request);
        }
        // Without VRAM, system memory is what takes its place.
        let extra = if device { MemFlags::COARSE_GRAIN } else { MemFlags::default() };
        self.alloc_system(&Request { flags: flags | extra, ..*request })
    }

    /// Address space and nothing else (case M10). A program may map into it what it likes.
    fn reserve_addresses(&self, request: &Request<'_>) -> Result<u64> {
        let va = request.machine.addresses.take(request.want(request.size))?;
        Ok(self.add(request, Kind::Reserved, request.node, Life::new(None, Some(va)), request.size))
    }

    /// Memory of this process for its GPUs, which have the CPU's page tables.
    fn alloc_plain(&self, request: &Request<'_>) -> Result<u64> {
        let flags = request.flags;
        let va = request.machine.addresses.take(request.want(request.size))?;
        let access = match (flags.read_only(), flags.execute_access()) {
            (false, false) => Access::ReadWrite,
            (false, true) => Access::All,
            (true, false) => Access::Read,
            (true, true) => Access::ReadExecute,
        };
        va.map_memory(request.size, access).map_err(out_of_memory(request.size))?;
        Ok(self.add(request, Kind::Host, request.node, Life::new(None, Some(va)), request.size))
    }

    /// System memory that GPUs reach through KFD.
    fn alloc_system(&self, request: &Request<'_>) -> Result<u64> {
        let first = request.machine.gpus.first().ok_or_else(|| {
            log::warn!("no GPU has memory: nothing can be allocated for it");
            Status::Error
        })?;
        let gpu = request.machine.gpu(request.node).unwrap_or(first);
        let paged = !request.flags.non_paged() && self.options.userptr_for_paged_mem;
        if paged { self.alloc_paged(request, gpu) } else { self.alloc_gtt(request, gpu) }
    }

    /// This process's own memory, which KFD registers.
    fn alloc_paged(&self, request: &Request<'_>, gpu: &Gpu) -> Result<u64> {
        if request.flags.no_address() {
            log::debug!("pageable memory without addresses cannot be");
            return Err(Status::InvalidParameter);
        }
        let size = request.doubled()?;
        let va = request.machine.addresses.take(request.want(size))?;
        // KFD registers what can be written, whatever the GPU may do.
        va.map_memory(request.size, Access::ReadWrite).map_err(out_of_memory(request.size))?;
        self.bind(request, &va)?;
        let flags = self.ioc_flags(request) | AllocFlags::USERPTR;
        let ask = Ask { gpu_id: gpu.gpu_id, va: va.start(), size, flags, userptr: va.start() };
        let bo = Bo::new(&self.channel, ask).map_err(refused)?;
        Ok(self.add(request, Kind::Memory, request.node, Life::new(Some(bo.keep()), Some(va)), size))
    }

    /// System memory of KFD's.
    fn alloc_gtt(&self, request: &Request<'_>, gpu: &Gpu) -> Result<u64> {
        let size = request.doubled()?;
        let addresses = &request.machine.addresses;
        let node = if request.flags.gtt_access() { 0 } else { request.node };
        let number = request.flags.no_address();
        let want = Want { seen: request.flags.host_access(), ..request.want(size) };
        let va = if number { addresses.take_number(size)? } else { addresses.take(want)? };
        let flags = self.ioc_flags(request) | AllocFlags::GTT;
        let at = if number { 0 } else { va.start() };
        let bo = Bo::new(&self.channel, Ask { gpu_id: gpu.gpu_id, va: at, size, flags, userptr: 0 });
        let bo = bo.map_err(refused)?;
        if request.flags.host_access() && !number {
            self.map_whole(request, gpu, &va, bo.mmap_offset)?;
        }
        let kind = if number { Kind::Number } else { Kind::Memory };
        Ok(self.add(request, kind, node, Life::new(Some(bo.keep()), Some(va)), size))
    }

    /// Memory of a GPU.
    fn alloc_device(&self, request: &Request<'_>) -> Result<u64> {
        let gpu = request.machine.gpu(request.node).ok_or_else(|| {
            log::warn!("KFD told nothing about the memory of node {}", request.node);
            Status::NoMemory
        })?;
        if request.flags.no_address() {
            return self.alloc_number(request, gpu);
        }
        if let Some(private) = gpu.private.as_ref().filter(|_| !gpu.shares) {
            return self.alloc_private(request, gpu, private);
        }
        let size = request.doubled()?;
        let want = Want {
            seen: request.flags.host_access() || request.at.is_some(),
            coherent: false,
            ..request.want(size)
        };
        let va = request.machine.addresses.take(want)?;
        let bo = self.device_bo(request, gpu, va.start(), size)?;
        let viewed = if request.flags.host_access() {
            self.map_whole(request, gpu, &va, bo.mmap_offset)?;
            None
        } else {
            self.view(request, gpu, &va, bo.mmap_offset)
        };
        let life = Life { viewed, ..Life::new(Some(bo.keep()), Some(va)) };
        Ok(self.add(request, Kind::Memory, request.node, life, size))
    }

    fn alloc_number(&self, request: &Request<'_>, gpu: &Gpu) -> Result<u64> {
        let size = request.doubled()?;
        let va = request.machine.addresses.take_number(size)?;
        let bo = self.device_bo(request, gpu, 0, size)?;
        Ok(self.add(request, Kind::Number, request.node, Life::new(Some(bo.keep()), Some(va)), size))
    }

    fn alloc_private(&self, request: &Request<'_>, gpu: &Gpu, private: &Private) -> Result<u64> {
        if request.flags.host_access() || request.at.is_some() {
            log::warn!("memory of node {} has no addresses of the CPU", request.node);
            return Err(Status::NoMemory);
        }
        let va = private.numbers.take(request.size, request.align.max(private.align))?;
        let bo = self.device_bo(request, gpu, va.start() - private.base, request.size)?;
        let life = Life::new(Some(bo.keep()), Some(va));
        Ok(self.add(request, Kind::Memory, request.node, life, request.size))
    }

    fn device_bo(&self, request: &Request<'_>, gpu: &Gpu, va: u64, size: u64) -> Result<Bo<'_>> {
        let public = if request.flags.host_access() { AllocFlags::PUBLIC } else { AllocFlags(0) };
        let flags = self.ioc_flags(request) | AllocFlags::VRAM | public;
        let ask = Ask { gpu_id: gpu.gpu_id, va, size, flags, userptr: 0 };
        // Whatever the reason: to AMD's library a GPU that gives no memory has none.
        Bo::new(&self.channel, ask).map_err(|_| Status::NoMemory)
    }

    /// Maps a buffer for the CPU; a ring for AQL queues twice, one copy behind the other, as GPUs see it.
    fn map_whole(&self, request: &Request<'_>, gpu: &Gpu, va: &Va, file_offset: u64) -> Result<()> {
        let copies = if request.flags.aql_queue_memory() { 2 } else { 1 };
        for copy in 0..copies {
            let at = copy * request.size;
            self.map_for_cpu(va, gpu.render, file_offset, at, request.size, Access::ReadWrite)?;
        }
        Ok(())
    }

    /// Maps memory that is not for the CPU without any right, so that a debugger finds it. If that does not work there
    /// is nothing wrong.
    fn view(&self, request: &Request<'_>, gpu: &Gpu, va: &Va, file_offset: u64) -> Option<Viewed> {
        let viewed = Viewed::new(&self.memory.views)?;
        let mapped = self.map_for_cpu(va, gpu.render, file_offset, 0, request.size, Access::None);
        mapped.ok().map(|()| viewed)
    }

    /// Takes the memory from the node of the CPU that the program names.
    fn bind(&self, request: &Request<'_>, va: &Va) -> Result<()> {
        let insist = request.flags.no_substitute();
        let wanted = !request.flags.no_numa_bind() && request.machine.cpu_nodes > 1 && request.gpu_id == 0;
        if !wanted {
            return Ok(());
        }
        match va.bind_to_numa(request.size, request.node, insist) {
            Ok(()) => Ok(()),
            // Container runtimes block the call; a kernel without NUMA does not have it.
            Err(error @ (io::Errno::PERM | io::Errno::NOSYS)) => {
                let level = if insist { log::Level::Warn } else { log::Level::Debug };
                log::log!(
                    level,
                    "memory cannot be bound to NUMA nodes (seccomp, or a kernel without): {error}"
                );
                Ok(())
            }
            Err(error) if !insist => {
                log::debug!("memory is not taken from NUMA node {}: {error}", request.node);
                Ok(())
            }
            Err(error) => {
                log::warn!("memory cannot be taken from NUMA node {} alone: {error}", request.node);
                // The kernel's word for a node that has no memory.
                Err(if error == io::Errno::INVAL { Status::NoMemory } else { Status::Error })
            }
        }
    }

    /// KFD's flags for those of the program, without the kind of memory.
    fn ioc_flags(&self, request: &Request<'_>) -> AllocFlags {
        let flags = request.flags;
        let uncached = self.options.disable_cache;
        // ROCm's runtime cannot say what is code: all memory may be executed by GPUs.
        let mut ioc = AllocFlags::EXECUTABLE;
        let mut set = |wanted: bool, flag: AllocFlags| {
            if wanted {
                ioc = ioc | flag;
            }
        };
        set(!flags.read_only(), AllocFlags::WRITABLE);
        set(flags.aql_queue_memory(), AllocFlags::AQL_QUEUE_MEM | AllocFlags::UNCACHED);
        set(!flags.coarse_grain() || uncached, AllocFlags::COHERENT);
        set(flags.uncached() || uncached, AllocFlags::UNCACHED);
        set(flags.extended_coherent(), AllocFlags::EXT_COHERENT);
        set(flags.contiguous(), AllocFlags::CONTIGUOUS);
        ioc
    }

    /// The buffer is the program's from now on.
    fn add(&self, request: &Request<'_>, kind: Kind, node: u32, life: Life, size: u64) -> u64 {
        let address = life.va.as_ref().map_or(0, Va::start);
        let buffer = Buffer::new(kind, address, size, node, request.flags, life);
        self.memory.insert(Arc::new(buffer));
        address
    }
}

impl Request<'_> {
    /// Addresses for `size` bytes that the CPU sees.
    fn want(&self, size: u64) -> Want {
        Want { size, align: self.align, at: self.at, seen: true, coherent: !self.flags.coarse_grain() }
    }

    /// Bytes of addresses: a ring for AQL queues is there twice.
    fn doubled(&self) -> Result<u64> {
        let copies = if self.flags.aql_queue_memory() { 2 } else { 1 };
        self.size.checked_mul(copies).ok_or(Status::NoMemory)
    }
}

/// What needs no GPU to be wrong.
fn check(size: u64, alignment: u64, flags: MemFlags, wanted: u64) -> Result<()> {
    let page = flags.page_bytes();
    let aligned = alignment == 0 || (alignment >= page && alignment.is_power_of_two());
    let sized = size != 0 && size.is_multiple_of(page);
    let fixed = !flags.fixed_address() || wanted != 0;
    let (coarse, extended, uncached) = (flags.coarse_grain(), flags.extended_coherent(), flags.uncached());
    let coherent = [coarse, extended, uncached].into_iter().filter(|set| *set).count() <= 1;
    let something = !(flags.only_address() && flags.no_address());
    if !(aligned && sized && fixed && coherent && something) {
        return Err(Status::InvalidParameter);
    }
    if flags.scratch() && alignment != 0 {
        return Err(Status::NotImplemented);
    }
    Ok(())
}

fn out_of_memory(size: u64) -> impl FnOnce(io::Errno) -> Status {
    move |error| {
        log::warn!("{size} bytes of memory cannot be mapped: {error}");
        Status::NoMemory
    }
}

fn refused(errno: protocol::Errno) -> Status {
    match errno {
        protocol::Errno::ENOMEM => Status::NoMemory,
        _ => Status::Error,
    }
}
