//! What is known: `hsaKmtQueryPointerInfo`, `hsaKmtSetMemoryUserData`, `hsaKmtAvailableMemory`.

use std::sync::atomic::Ordering;

use protocol::hsakmt::{PointerInfo, PointerType, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::GetAvailableMemoryArgs;

use super::buffers::{Buffer, Kind, Prefer};
use crate::engine::{Engine, Result};

impl Engine {
    /// What an address belongs to: the program's own memory, else a buffer at that address for GPUs. Waits for no
    /// call of KFD. The lists of nodes stay where they are as long as the process.
    ///
    /// # Errors
    /// `ERROR` for an address that is not known (its type is `UNKNOWN`).
    pub fn pointer_info(&self, address: u64) -> Result<PointerInfo> {
        let table = self.memory.table();
        table.containing(address).map(|buffer| describe(buffer)).ok_or_else(|| {
            log::debug!("{address:#x} is not known");
            Status::Error
        })
    }

    /// Keeps a pointer of the program's with a buffer.
    ///
    /// # Errors
    /// `ERROR` for an address at which no buffer begins.
    pub fn set_memory_user_data(&self, address: u64, user_data: u64) -> Result<()> {
        let table = self.memory.table();
        let Some(buffer) = table.exact(address, None, Prefer::Registered) else {
            log::debug!("no buffer begins at {address:#x}");
            return Err(Status::Error);
        };
        buffer.told().user_data.store(user_data, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of a GPU's memory that can be allocated still.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` before KFD 1.9; `INVALID_NODE_UNIT`; `ERROR` for a CPU.
    pub fn available_memory(&self, node: u32) -> Result<u64> {
        self.require_minor(9)?;
        let gpu_id = self.machine()?.gpu_id(node)?;
        let mut args = GetAvailableMemoryArgs { available: 0, gpu_id, pad: 0 };
        self.channel.ioctl(Ioctl::AvailableMemory, &mut args).map_err(|errno| {
            log::debug!("KFD does not know how much memory node {node} has: {errno}");
            Status::Error
        })?;
        Ok(args.available)
    }
}

fn describe(buffer: &Buffer) -> PointerInfo {
    let told = buffer.told();
    let (registered_nodes, n_registered_nodes) = told.registered.get();
    let (mapped_nodes, n_mapped_nodes) = told.mapped.get();
    let mut info = PointerInfo {
        node: buffer.node,
        mem_flags: buffer.flags,
        gpu_address: buffer.address,
        size_in_bytes: buffer.size,
        n_registered_nodes,
        n_mapped_nodes,
        registered_nodes,
        mapped_nodes,
        user_data: told.user_data.load(Ordering::Relaxed),
        ..PointerInfo::default()
    };
    info.type_ = match &buffer.kind {
        Kind::Memory | Kind::Host | Kind::Number => {
            info.cpu_address = buffer.address;
            PointerType::ALLOCATED
        }
        Kind::User(user) => {
            info.cpu_address = user.address;
            info.gpu_address = buffer.address + user.offset();
            info.size_in_bytes = user.size;
            PointerType::REGISTERED_USER
        }
        Kind::Reserved => PointerType::RESERVED_ADDR,
        Kind::Graphics(_) => PointerType::REGISTERED_GRAPHICS,
        Kind::Shared => PointerType::REGISTERED_SHARED,
    };
    info
}
