//! Mapping to GPUs: `hsaKmtMapMemoryToGPU`, `hsaKmtMapMemoryToGPUNodes`, `hsaKmtUnmapMemoryToGPU`.

use std::sync::Arc;

use protocol::hsakmt::Status;
use protocol::kfd::FileId;

use super::addresses::Va;
use super::bo;
use super::buffers::{Buffer, Kind, Life, Prefer};
use super::machine::Machine;
use super::vm::Access;
use crate::engine::{Engine, Result, room};

impl Engine {
    /// Maps a buffer to the GPUs that it is registered for, or to all that reach it. Gives the GPU's address of the
    /// program's own memory, and of memory that the CPU has no addresses for; 0 for other memory, whose address is
    /// the same.
    ///
    /// # Errors
    /// `ERROR` for memory that is not known, or where KFD refuses; `INVALID_PARAMETER` for addresses without memory and
    /// memory without addresses.
    pub fn map_memory(&self, address: u64, size: u64) -> Result<u64> {
        self.map(address, size, None)
    }

    /// Maps a buffer to these GPUs and no others; the program's own memory to all that it is registered for.
    ///
    /// # Errors
    /// As [`Engine::map_memory`]; `INVALID_PARAMETER` for no nodes, `INVALID_NODE_UNIT`; `ERROR` for nodes that it is not
    /// registered for.
    pub fn map_memory_to_nodes(&self, address: u64, size: u64, flags: u32, nodes: &[u32]) -> Result<u64> {
        // No flag has a meaning for KFD: memory is mapped as it was allocated.
        let _ = flags;
        if address == 0 {
            log::debug!("NULL cannot be mapped");
            return Err(Status::Error);
        }
        let machine = self.machine()?;
        if !machine.discrete && nodes.len() == 1 {
            return self.map_memory(address, size);
        }
        let gpu_ids = machine.gpu_ids(nodes)?;
        self.map(address, size, Some(&gpu_ids))
    }

    /// Unmaps a buffer from all GPUs. Nothing, and what is not mapped, is no failure.
    ///
    /// # Errors
    /// `ERROR` for memory that is not known, and while a queue uses it.
    pub fn unmap_memory(&self, address: u64) -> Result<()> {
        if address == 0 {
            log::debug!("NULL is unmapped");
            return Ok(());
        }
        let machine = self.machine()?;
        if let Some(scratch) = self.memory.scratch_at(address) {
            return self.unmap_scratch(machine, &scratch, address);
        }
        let unmapped = self.memory.with_live(
            |table| table.exact(address, None, Prefer::Mapped),
            |buffer, life| self.unmap_buffer(machine, buffer, life),
        );
        match unmapped {
            Some(unmapped) => unmapped,
            // The CPU's page tables are the GPU's.
            None if !machine.discrete => Ok(()),
            None => {
                log::debug!("{address:#x} is no memory that could be unmapped");
                Err(Status::Error)
            }
        }
    }

    fn map(&self, address: u64, size: u64, gpu_ids: Option<&[u32]>) -> Result<u64> {
        if address == 0 {
            log::debug!("NULL cannot be mapped");
            return Err(Status::Error);
        }
        let machine = self.machine()?;
        if let Some(scratch) = self.memory.scratch_at(address) {
            return self.map_scratch(machine, &scratch, address, size).map(|()| 0);
        }
        let mapped = self.memory.with_live(
            |table| table.exact(address, Some(size), Prefer::Mapped),
            |buffer, life| self.map_buffer(machine, buffer, life, gpu_ids),
        );
        match mapped {
            Some(mapped) => mapped,
            // The CPU's page tables are the GPU's.
            None if !machine.discrete && gpu_ids.is_none() => Ok(0),
            None => {
                log::debug!("{size} bytes at {address:#x} are no memory that could be mapped");
                Err(Status::Error)
            }
        }
    }

    fn map_buffer(
        &self,
        machine: &Machine,
        buffer: &Arc<Buffer>,
        life: &mut Life,
        gpu_ids: Option<&[u32]>,
    ) -> Result<u64> {
        match &buffer.kind {
            Kind::Reserved | Kind::Number => {
                log::debug!("{:#x} has no memory or no addresses: it cannot be mapped", buffer.address);
                Err(Status::InvalidParameter)
            }
            Kind::Host if gpu_ids.is_none() => Ok(0),
            Kind::Host => Err(Status::Error),
            Kind::User(user) => {
                let to = buffer.address + user.offset();
                self.map_user(machine, buffer, life, gpu_ids).map(|()| to)
            }
            Kind::Memory | Kind::Graphics(_) | Kind::Shared => {
                match gpu_ids {
                    None => self.map_by_default(machine, buffer, life)?,
                    Some(gpu_ids) => self.map_to_exactly(machine, buffer, life, gpu_ids)?,
                }
                Ok(alternate(machine, buffer))
            }
        }
    }

    /// The program's memory is mapped once, to the same GPUs, until it is unmapped as often.
    fn map_user(
        &self,
        machine: &Machine,
        buffer: &Arc<Buffer>,
        life: &mut Life,
        gpu_ids: Option<&[u32]>,
    ) -> Result<()> {
        let svm = buffer.user().is_some_and(|user| user.svm);
        if life.maps > 0 && !(svm && gpu_ids.is_some()) {
            life.maps = life.maps.checked_add(1).ok_or(Status::OutOfResources)?;
            return Ok(());
        }
        if !svm {
            return self.map_by_default(machine, buffer, life);
        }
        let registered = life.registered.clone();
        let to = gpu_ids.unwrap_or_else(|| by_default(machine, buffer, &registered));
        let maps = life.maps.checked_add(1).ok_or(Status::OutOfResources)?;
        self.allow_svm(buffer, to)?;
        self.note_mapped(machine, buffer, life, to);
        life.maps = maps;
        Ok(())
    }

    fn map_by_default(&self, machine: &Machine, buffer: &Buffer, life: &mut Life) -> Result<()> {
        let registered = life.registered.clone();
        self.map_to(machine, buffer, life, by_default(machine, buffer, &registered))
    }

    /// Maps to these GPUs too. Where KFD refuses one, those before it are as they were.
    pub(super) fn map_to(
        &self,
        machine: &Machine,
        buffer: &Buffer,
        life: &mut Life,
        gpu_ids: &[u32],
    ) -> Result<()> {
        let handle = life.handle.ok_or(Status::InvalidParameter)?;
        if let Err((errno, done)) = bo::map(&self.channel, handle, gpu_ids) {
            log::debug!(
                "{} bytes at {:#x} cannot be mapped to {gpu_ids:x?}: {errno}",
                buffer.size,
                buffer.address
            );
            let done = gpu_ids.get(..done).unwrap_or_default();
            // The program's list may name a GPU often; this one has each once.
            let mut new = Vec::new();
            for id in done {
                if !life.mapped.contains(id) && !new.contains(id) {
                    new.push(*id);
                }
            }
            if !new.is_empty()
                && let Err((errno, _)) = bo::unmap(&self.channel, handle, &new)
            {
                log::warn!("{:#x} stays mapped to {new:x?}: {errno}", buffer.address);
                self.note_mapped(machine, buffer, life, &new);
            }
            return Err(Status::Error);
        }
        self.note_mapped(machine, buffer, life, gpu_ids);
        life.maps = 1;
        Ok(())
    }

    fn map_to_exactly(
        &self,
        machine: &Machine,
        buffer: &Buffer,
        life: &mut Life,
        gpu_ids: &[u32],
    ) -> Result<()> {
        let allowed = if life.registered.is_empty() { &machine.all } else { &life.registered };
        if let Some(other) = gpu_ids.iter().find(|id| !allowed.contains(id)) {
            log::debug!("{:#x} is not registered for GPU {other:#x}", buffer.address);
            return Err(Status::Error);
        }
        if !is_shared(machine, buffer) {
            log::debug!("{:#x} is memory of one GPU alone", buffer.address);
            return Err(Status::Error);
        }
        let staying = |id: &u32| life.mapped.contains(id);
        let new = room::collect(gpu_ids.len(), gpu_ids.iter().copied().filter(|id| !staying(id)))?;
        let leaving: Vec<u32> = life.mapped.iter().copied().filter(|id| !gpu_ids.contains(id)).collect();
        if !leaving.is_empty() {
            self.unmap_from(machine, buffer, life, &leaving)?;
        }
        if new.is_empty() { Ok(()) } else { self.map_to(machine, buffer, life, &new) }
    }

    /// Unmaps from all GPUs; the program's memory when it is unmapped as often as mapped.
    pub(super) fn unmap_buffer(&self, machine: &Machine, buffer: &Buffer, life: &mut Life) -> Result<()> {
        if buffer.user().is_some() && life.maps > 1 {
            life.maps -= 1;
            return Ok(());
        }
        if life.mapped.is_empty() {
            return Ok(());
        }
        if buffer.user().is_some_and(|user| user.svm) {
            // Other registrations may lie in the same pages: their GPUs keep access until the memory goes.
            life.mapped.clear();
            self.tell_mapped(machine, buffer, life);
            return Ok(());
        }
        let mut mapped = std::mem::take(&mut life.mapped);
        let (unmapped, done) = self.unmap_some(buffer, life, &mapped);
        mapped.drain(..done);
        life.mapped = mapped;
        self.tell_mapped(machine, buffer, life);
        unmapped
    }

    fn unmap_from(&self, machine: &Machine, buffer: &Buffer, life: &mut Life, gpu_ids: &[u32]) -> Result<()> {
        let (unmapped, done) = self.unmap_some(buffer, life, gpu_ids);
        let done = gpu_ids.get(..done).unwrap_or_default();
        life.mapped.retain(|id| !done.contains(id));
        self.tell_mapped(machine, buffer, life);
        unmapped
    }

    /// Unmaps from these GPUs, and says from how many of them.
    fn unmap_some(&self, buffer: &Buffer, life: &Life, gpu_ids: &[u32]) -> (Result<()>, usize) {
        let Some(handle) = life.handle else { return (Err(Status::InvalidParameter), 0) };
        match bo::unmap(&self.channel, handle, gpu_ids) {
            Ok(()) => (Ok(()), gpu_ids.len()),
            Err((errno, done)) => {
                log::debug!("{:#x} cannot be unmapped from {gpu_ids:x?}: {errno}", buffer.address);
                (Err(Status::Error), done)
            }
        }
    }

    fn note_mapped(&self, machine: &Machine, buffer: &Buffer, life: &mut Life, gpu_ids: &[u32]) {
        for &gpu_id in gpu_ids {
            if !life.mapped.contains(&gpu_id) {
                life.mapped.push(gpu_id);
            }
        }
        self.tell_mapped(machine, buffer, life);
    }

    fn tell_mapped(&self, machine: &Machine, buffer: &Buffer, life: &mut Life) {
        if life.mapped.is_empty() {
            life.maps = 0;
            buffer.stamp_mapped(0);
        } else {
            buffer.stamp_mapped(self.memory.now());
        }
        buffer.told().mapped.set(self.memory.list_of_mapped(machine, &life.mapped).as_ref());
    }

    /// Maps a part of a device file into a buffer's addresses.
    pub(super) fn map_for_cpu(
        &self,
        va: &Va,
        file: FileId,
        file_offset: u64,
        at: u64,
        len: u64,
        access: Access,
    ) -> Result<()> {
        let mapping = self.channel.mapping(file, file_offset, len).map_err(|errno| {
            log::debug!("{len} bytes at {file_offset:#x} of a device file cannot be mapped: {errno}");
            Status::NoMemory
        })?;
        va.map_file(at, len, &mapping, access).map_err(|error| {
            log::warn!("{len} bytes at {:#x} cannot be mapped: {error}", va.start() + at);
            Status::NoMemory
        })
    }
}

/// Where a buffer is mapped if the program does not say: to the GPUs that it was registered for; else memory of a GPU to
/// those that reach it, and system memory to all.
fn by_default<'a>(machine: &'a Machine, buffer: &Buffer, registered: &'a [u32]) -> &'a [u32] {
    if !registered.is_empty() {
        return registered;
    }
    match machine.gpu(buffer.node) {
        Some(gpu) if buffer.user().is_none() => &gpu.peers,
        _ => &machine.all,
    }
}

/// Whether CPU and GPUs have the same addresses for it.
fn is_shared(machine: &Machine, buffer: &Buffer) -> bool {
    machine.gpu(buffer.node).is_none_or(|gpu| gpu.private.is_none() || gpu.shares)
}

/// The GPU's address of memory that has none of the CPU's.
fn alternate(machine: &Machine, buffer: &Buffer) -> u64 {
    let gpu = machine.gpu(buffer.node).filter(|_| !is_shared(machine, buffer));
    let private = gpu.and_then(|gpu| gpu.private.as_ref());
    private.map_or(0, |private| buffer.address.saturating_sub(private.base))
}
