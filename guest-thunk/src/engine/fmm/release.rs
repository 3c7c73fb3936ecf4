//! The end of a buffer: `hsaKmtFreeMemory`, `hsaKmtDeregisterMemory`.

use std::sync::Arc;

use protocol::hsakmt::Status;

use super::bo;
use super::buffers::{Buffer, GpuIds, Kind, Life, Prefer};
use super::machine::Machine;
use crate::engine::{Engine, Result};

impl Engine {
    /// Gives back what is kept for memory to come.
    pub(crate) fn close_memory(&self) {
        if let Some(machine) = self.memory.machines.last() {
            machine.addresses.give_back_spare();
        }
    }

    /// Frees memory. The size is not looked at: the address says which memory it is. Of the program's own memory one
    /// registration is taken back.
    ///
    /// # Errors
    /// `ERROR` for address 0, and while the memory is mapped; `MEMORY_NOT_REGISTERED` if it is not known.
    pub fn free_memory(&self, address: u64, size: u64) -> Result<()> {
        let _ = size;
        if address == 0 {
            log::debug!("NULL cannot be freed");
            return Err(Status::Error);
        }
        let machine = self.machine()?;
        if let Some(scratch) = self.memory.scratch_at(address) {
            return self.free_scratch(machine, &scratch);
        }
        let freed = self.memory.with_live(
            |table| table.exact(address, None, Prefer::Registered),
            |buffer, life| match buffer.kind {
                Kind::User(_) => self.deregister(machine, buffer, life),
                _ => self.release(buffer, life),
            },
        );
        freed.unwrap_or_else(|| {
            log::debug!("{address:#x} is no memory that could be freed");
            Err(Status::MemoryNotRegistered)
        })
    }

    /// Takes a registration back: the program's memory with the last one, an import at once, and of allocated memory the
    /// nodes that it was registered for. Where an address was registered with several sizes, the latest goes.
    ///
    /// # Errors
    /// `MEMORY_NOT_REGISTERED` if it is not; `ERROR` while a queue uses it.
    pub fn deregister_memory(&self, address: u64) -> Result<()> {
        let machine = self.machine()?;
        let done = self.memory.with_live(
            |table| table.exact(address, None, Prefer::Registered),
            |buffer, life| match buffer.kind {
                Kind::User(_) | Kind::Graphics(_) | Kind::Shared => self.deregister(machine, buffer, life),
                Kind::Host => Ok(()),
                Kind::Memory | Kind::Reserved | Kind::Number if life.registered.is_empty() => {
                    Err(Status::MemoryNotRegistered)
                }
                Kind::Memory | Kind::Reserved | Kind::Number => {
                    life.registered = GpuIds::default();
                    buffer.told().registered.set(None);
                    Ok(())
                }
            },
        );
        match done {
            Some(done) => done,
            // Without discrete GPUs nothing has to be registered.
            None if !machine.discrete => Ok(()),
            None => {
                log::debug!("{address:#x} is not registered");
                Err(Status::MemoryNotRegistered)
            }
        }
    }

    fn deregister(&self, machine: &Machine, buffer: &Arc<Buffer>, life: &mut Life) -> Result<()> {
        if life.registrations > 1 {
            life.registrations -= 1;
            return Ok(());
        }
        // What is mapped still could not be freed.
        life.maps = life.maps.min(1);
        self.unmap_buffer(machine, buffer, life)?;
        self.release(buffer, life)
    }

    /// Frees a buffer. Its addresses go last: while KFD has the program's memory, unmapping it would stop queues.
    ///
    /// # Errors
    /// `ERROR` if KFD refuses: then it stays.
    pub(super) fn release(&self, buffer: &Arc<Buffer>, life: &mut Life) -> Result<()> {
        if let Some(handle) = life.handle {
            bo::free(&self.channel, handle).map_err(|errno| {
                log::debug!("{} bytes at {:#x} cannot be freed: {errno}", buffer.size, buffer.address);
                Status::Error
            })?;
        }
        life.handle = None;
        life.gone = true;
        self.memory.table_mut().remove(buffer);
        life.va = None;
        life.viewed = None;
        Ok(())
    }
}
