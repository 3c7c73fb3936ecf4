//! Registration of the program's own memory: `hsaKmtRegisterMemory` and its variants.
//!
//! Without discrete GPUs nothing has to be registered. Where all GPUs and the kernel have shared virtual memory, a range that
//! they reach is registered there, at its own address; else KFD registers the pages and they get addresses of their own.

use std::sync::Arc;

use protocol::hsakmt::{MemFlags, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::SvmArgs;
use protocol::kfd::constants::{AllocFlags, SvmAttr, SvmFlags, SvmOp};
use protocol::kfd::types::SvmAttribute;
use zerocopy::IntoBytes;

use super::addresses::Want;
use super::bo::{Ask, Bo};
use super::buffers::{Buffer, GpuIds, Kind, Life, Nodes, Prefer, User};
use super::machine::Machine;
use super::vm::{is_readable, page_ceil, page_floor};
use crate::engine::{Engine, Result, room};

/// What a program asks for.
#[derive(Clone, Copy)]
struct Request<'a> {
    machine: &'a Machine,
    address: u64,
    size: u64,
    /// Node list of the program, in KFD's ids; empty for all GPUs.
    gpu_ids: &'a GpuIds,
    coarse: bool,
    extended: bool,
}

/// Whole pages around a range.
#[derive(Clone, Copy)]
struct Pages {
    start: u64,
    len: u64,
}

impl Engine {
    /// Registers the program's memory for all GPUs. The same range may be registered several times.
    ///
    /// # Errors
    /// `ERROR` for memory that is not there or cannot be registered.
    pub fn register_memory(&self, address: u64, size: u64) -> Result<()> {
        let machine = self.machine()?;
        if !machine.discrete {
            return Ok(());
        }
        let (coarse, extended) = (true, false);
        let gpu_ids = &GpuIds::default();
        self.register(Request { machine, address, size, gpu_ids, coarse, extended })
    }

    /// Registers memory for these nodes: the program's, or memory that it has allocated.
    ///
    /// # Errors
    /// As [`Engine::register_memory`]; `NOT_SUPPORTED` without discrete GPUs; `INVALID_PARAMETER` for no nodes;
    /// `INVALID_NODE_UNIT`; `MEMORY_ALREADY_REGISTERED` if it is registered for others.
    pub fn register_memory_to_nodes(&self, address: u64, size: u64, nodes: &[u32]) -> Result<()> {
        let machine = self.machine()?;
        if !machine.discrete {
            log::debug!("memory needs no registration for nodes without discrete GPUs");
            return Err(Status::NotSupported);
        }
        let gpu_ids = machine.gpu_ids(nodes)?;
        let (coarse, extended) = (true, false);
        self.register(Request { machine, address, size, gpu_ids: &gpu_ids, coarse, extended })
    }

    /// Registers the program's memory with a coherence.
    ///
    /// # Errors
    /// As [`Engine::register_memory`]; `INVALID_PARAMETER` for flags that exclude each other, `NOT_SUPPORTED` for other
    /// memory than pageable memory of the host, and without discrete GPUs.
    pub fn register_memory_with_flags(&self, address: u64, size: u64, flags: MemFlags) -> Result<()> {
        let (coarse, extended) = (flags.coarse_grain(), flags.extended_coherent());
        if coarse && extended {
            log::debug!("memory cannot be registered with {flags:?}");
            return Err(Status::InvalidParameter);
        }
        let machine = self.machine()?;
        if !flags.host_access() || flags.non_paged() || !machine.discrete {
            log::debug!("memory cannot be registered with {flags:?}");
            return Err(Status::NotSupported);
        }
        let gpu_ids = &GpuIds::default();
        self.register(Request { machine, address, size, gpu_ids, coarse, extended })
    }

    fn register(&self, request: Request<'_>) -> Result<()> {
        let Request { address, size, .. } = request;
        loop {
            let known = self.memory.with_live(
                |table| table.exact(address, Some(size), Prefer::Registered),
                |buffer, life| self.register_again(request, buffer, life),
            );
            if let Some(known) = known {
                return known;
            }
            if let Some(registered) = self.register_new(request)? {
                return registered;
            }
        }
    }

    /// Memory that is known: counted once more, and bound to nodes if it was not.
    fn register_again(&self, request: Request<'_>, buffer: &Buffer, life: &mut Life) -> Result<()> {
        if !life.registered.is_empty() && *life.registered != **request.gpu_ids {
            log::debug!("{:#x} is registered for other nodes", request.address);
            return Err(Status::MemoryAlreadyRegistered);
        }
        let told = self.memory.list(request.machine, request.gpu_ids)?;
        if buffer.user().is_some() {
            life.registrations = life.registrations.checked_add(1).ok_or(Status::OutOfResources)?;
            buffer.stamp_registered(self.memory.now());
        }
        if life.registered.is_empty() && told.is_some() {
            life.registered = request.gpu_ids.clone();
            buffer.told().registered.set(told.as_ref());
        }
        Ok(())
    }

    /// Registers what is not known. `None` if another thread was faster.
    fn register_new(&self, request: Request<'_>) -> Result<Option<Result<()>>> {
        let Request { machine, address, size, .. } = request;
        let pages = pages(address, size).ok_or_else(|| {
            log::debug!("{size} bytes at {address:#x} cannot be memory");
            Status::Error
        })?;
        if self.options.check_userptr && !is_readable(address, size) {
            log::error!("{size} bytes at {address:#x} are registered but cannot be read");
            return Err(Status::Error);
        }
        let told = self.memory.list(machine, request.gpu_ids)?;
        // Case L01: what lies beyond the GPUs' addresses (page tables of five levels) needs some that they reach.
        if machine.svm
            && machine.addresses.reach(pages.start, pages.len)
            && let Some(done) = self.register_svm(request, pages, told.clone())
        {
            return Ok(done);
        }
        let va = machine.addresses.take(Want::hidden(pages.len)).map_err(|_| Status::Error)?;
        let at = va.start();
        let life = Life::new(None, Some(va));
        let added = self.add_user(request, at, pages.len, false, (life, told), |engine, life| {
            let first = machine.gpus.first().ok_or(Status::Error)?;
            let ask = Ask {
                gpu_id: first.gpu_id,
                va: at,
                size: pages.len,
                flags: request.ioc_flags(),
                userptr: pages.start,
            };
            let bo = Bo::new(&engine.channel, ask).map_err(|_| Status::Error)?;
            life.handle = Some(bo.keep());
            Ok(())
        });
        Ok(added)
    }

    /// In shared virtual memory; `None` if the kernel does not want it there.
    fn register_svm(
        &self,
        request: Request<'_>,
        pages: Pages,
        told: Option<Nodes>,
    ) -> Option<Option<Result<()>>> {
        let choose = |set| if set { SvmAttr::SET_FLAGS } else { SvmAttr::CLR_FLAGS };
        let attributes = [
            SvmAttribute { type_: choose(!request.coarse).0, value: SvmFlags::COHERENT.0 },
            SvmAttribute { type_: choose(request.extended).0, value: SvmFlags::EXT_COHERENT.0 },
        ];
        if let Err(errno) = self.set_svm(pages, attributes.into_iter()) {
            log::debug!("{} bytes at {:#x} are not registered through SVM: {errno}", pages.len, pages.start);
            return None;
        }
        // Attributes of pages that another thread registers too are the same again.
        let life = Life::new(None, None);
        Some(self.add_user(request, pages.start, pages.len, true, (life, told), |_, _| Ok(())))
    }

    /// Puts memory into the table, then makes it known to KFD; others who want it wait for that. Another thread that was
    /// faster is `None`.
    fn add_user(
        &self,
        request: Request<'_>,
        at: u64,
        len: u64,
        svm: bool,
        (life, told): (Life, Option<Nodes>),
        make: impl FnOnce(&Engine, &mut Life) -> Result<()>,
    ) -> Option<Result<()>> {
        let Request { machine, address, size, .. } = request;
        let node = machine.gpus.first().map_or(0, |gpu| gpu.node);
        let kind = Kind::User(User { address, size, svm });
        let life = Life { registered: request.gpu_ids.clone(), ..life };
        let buffer = Arc::new(Buffer::new(kind, at, len, node, request.flags(), life));
        buffer.told().registered.set(told.as_ref());
        let mut life = buffer.life();
        {
            let mut table = self.memory.table_mut();
            if table.exact(address, Some(size), Prefer::Registered).is_some() {
                return None;
            }
            table.insert(Arc::clone(&buffer));
        }
        if let Err(status) = make(self, &mut life) {
            life.gone = true;
            self.memory.table_mut().remove(&buffer);
            life.va = None;
            return Some(Err(status));
        }
        life.registrations = 1;
        buffer.stamp_registered(self.memory.now());
        Some(Ok(()))
    }

    /// Lets GPUs use memory that is registered in SVM.
    pub(super) fn allow_svm(&self, buffer: &Buffer, gpu_ids: &[u32]) -> Result<()> {
        let attribute = |&value: &u32| SvmAttribute { type_: SvmAttr::ACCESS_IN_PLACE.0, value };
        let pages = Pages { start: buffer.address, len: buffer.size };
        self.set_svm(pages, gpu_ids.iter().map(attribute)).map_err(|errno| {
            log::debug!("GPUs {gpu_ids:x?} cannot use {} bytes at {:#x}: {errno}", pages.len, pages.start);
            Status::Error
        })
    }

    fn set_svm(
        &self,
        pages: Pages,
        attributes: impl ExactSizeIterator<Item = SvmAttribute>,
    ) -> core::result::Result<(), protocol::Errno> {
        /// 14 bits of the request code are the length.
        const MOST: usize = (1 << 13) / size_of::<SvmAttribute>() - 1;
        let nattr = u32::try_from(attributes.len()).ok().filter(|_| attributes.len() <= MOST);
        let nattr = nattr.ok_or(protocol::Errno::EINVAL)?;
        let more = nattr * size_of::<SvmAttribute>() as u32;
        let header = SvmArgs { start_addr: pages.start, size: pages.len, op: SvmOp::SET_ATTR.0, nattr };
        let mut bytes = Vec::new();
        let length = size_of::<SvmArgs>() + attributes.len() * size_of::<SvmAttribute>();
        room::reserve(&mut bytes, length).map_err(|_| protocol::Errno::ENOMEM)?;
        bytes.extend_from_slice(header.as_bytes());
        attributes.for_each(|attribute| bytes.extend_from_slice(attribute.as_bytes()));
        let request = Ioctl::Svm.request() + (more << 16);
        self.channel.ioctl_bytes(self.channel.kfd_file(), request, &mut bytes)
    }
}

impl Request<'_> {
    fn ioc_flags(&self) -> AllocFlags {
        let mut flags = AllocFlags::USERPTR | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
        if !self.coarse {
            flags = flags | AllocFlags::COHERENT;
        }
        if self.extended {
            flags = flags | AllocFlags::EXT_COHERENT;
        }
        flags
    }

    /// What programs are told about it.
    fn flags(&self) -> MemFlags {
        let coarse = if self.coarse { MemFlags::COARSE_GRAIN } else { MemFlags::default() };
        let extended = if self.extended { MemFlags::EXTENDED_COHERENT } else { MemFlags::default() };
        coarse | extended
    }
}

/// The pages of a range. Case S06: none where it is empty, or ends beyond all addresses.
fn pages(address: u64, size: u64) -> Option<Pages> {
    let start = page_floor(address);
    let end = address.checked_add(size).and_then(page_ceil)?;
    (size != 0 && address != 0).then_some(Pages { start, len: end - start })
}
