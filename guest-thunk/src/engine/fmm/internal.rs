//! Memory that other parts of the library need: doorbells and the event page.

use std::sync::Arc;

use protocol::hsakmt::{MemFlags, Status};
use protocol::kfd::constants::AllocFlags;

use super::addresses::Want;
use super::bo::{Ask, Bo};
use super::buffers::{Buffer, Kind, Life};
use super::vm::Access;
use crate::engine::{Engine, Result};

/// Memory for KFD's event page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventPage {
    /// KFD's handle, for CREATE_EVENT.
    pub(crate) handle: u64,
    /// Where GPUs find it.
    pub(crate) address: u64,
}

impl Engine {
    /// Maps a GPU's doorbells for the CPU and, so that GPUs can ring them too, for GPUs. `offset` is where they are in
    /// `/dev/kfd`, `size` is in bytes. They go with [`Engine::unmap_memory`] and [`Engine::free_memory`].
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for a node without GPU, `NO_MEMORY` if there are no addresses, `ERROR` if KFD refuses.
    pub(crate) fn map_doorbells(&self, node: u32, offset: u64, size: u64) -> Result<u64> {
        let machine = self.machine()?;
        let gpu = machine.gpu(node).ok_or(Status::InvalidNodeUnit)?;
        let va = machine.addresses.take(Want { coherent: true, ..Want::seen(size) })?;
        // An APU without a GPU of its own beside it has no use for addresses: its queues are the CPU's.
        let bo = if machine.discrete {
            let flags = AllocFlags::DOORBELL | AllocFlags::WRITABLE | AllocFlags::COHERENT;
            let ask = Ask { gpu_id: gpu.gpu_id, va: va.start(), size, flags, userptr: 0 };
            Some(Bo::new(&self.channel, ask).map_err(|_| Status::Error)?)
        } else {
            None
        };
        self.map_for_cpu(&va, self.channel.kfd_file(), offset, 0, size, Access::ReadWrite)?;
        let address = va.start();
        let flags = MemFlags::NON_PAGED | MemFlags::HOST_ACCESS;
        let handle = bo.as_ref().map(Bo::handle);
        let kind = if handle.is_some() { Kind::Memory } else { Kind::Host };
        let buffer = Arc::new(Buffer::new(kind, address, size, node, flags, Life::new(handle, Some(va))));
        if handle.is_some() {
            self.map_to(machine, &buffer, &mut buffer.life(), &gpu.peers)?;
        }
        self.memory.insert(buffer);
        bo.map(Bo::keep);
        Ok(address)
    }

    /// Memory for the event page, on the first GPU and mapped to it. GPUs write it and KFD reads it; programs look at
    /// their events' slots too, where the device can show it to the CPU.
    ///
    /// # Errors
    /// `ERROR` without a discrete GPU and if KFD refuses, `NO_MEMORY`.
    pub(crate) fn alloc_event_page(&self, size: u64) -> Result<EventPage> {
        let machine = self.machine()?;
        let gpu = machine.gpus.first().filter(|_| machine.discrete).ok_or(Status::Error)?;
        let va = machine.addresses.take(Want { coherent: true, ..Want::seen(size) })?;
        // In no cache: a GPU's cache would keep what it writes from KFD.
        let access = AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
        let flags = AllocFlags::GTT | access | AllocFlags::COHERENT | AllocFlags::UNCACHED;
        let ask = Ask { gpu_id: gpu.gpu_id, va: va.start(), size, flags, userptr: 0 };
        let bo = Bo::new(&self.channel, ask).map_err(|errno| {
            log::warn!("KFD has no {size} bytes for the event page: {errno}");
            crate::engine::status_of(errno)
        })?;
        if let Err(status) = self.map_for_cpu(&va, gpu.render, bo.mmap_offset, 0, size, Access::ReadWrite) {
            log::debug!("the event page is not for the CPU: {status}");
        }
        let (handle, address) = (bo.handle(), va.start());
        let flags =
            MemFlags::NON_PAGED | MemFlags::HOST_ACCESS | MemFlags::EXECUTE_ACCESS | MemFlags::UNCACHED;
        let life = Life::new(Some(handle), Some(va));
        let buffer = Arc::new(Buffer::new(Kind::Memory, address, size, gpu.node, flags, life));
        self.map_to(machine, &buffer, &mut buffer.life(), &machine.all)?;
        self.memory.insert(buffer);
        bo.keep();
        Ok(EventPage { handle, address })
    }
}
