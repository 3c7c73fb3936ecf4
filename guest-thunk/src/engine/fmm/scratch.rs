//! Scratch: addresses of a GPU for the private memory of its threads, which get memory piece by piece.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::hsakmt::Status;
use protocol::kfd::Ioctl;
use protocol::kfd::args::SetScratchBackingVaArgs;
use protocol::kfd::constants::AllocFlags;

use super::State;
use super::addresses::{Va, Want};
use super::bo::{self, Ask, Bo};
use super::machine::{Gpu, Machine};
use super::vm::Access;
use crate::engine::{Engine, Result};

/// Scratch begins and ends at multiples of this: queues name it in this unit.
const ALIGN: u64 = 64 << 10;

/// Scratch of one GPU.
#[derive(Debug)]
pub(super) struct Scratch {
    gpu_id: u32,
    va: Va,
    /// By first address.
    pieces: Mutex<BTreeMap<u64, Piece>>,
}

#[derive(Debug)]
struct Piece {
    handle: u64,
    mapped: bool,
}

impl Scratch {
    fn pieces(&self) -> MutexGuard<'_, BTreeMap<u64, Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The scratch that an address lies in.
    pub(super) fn scratch_at(&self, address: u64) -> Option<Arc<Scratch>> {
        let all = self.scratch.read().unwrap_or_else(PoisonError::into_inner);
        let inside = |scratch: &&Arc<Scratch>| {
            address.checked_sub(scratch.va.start()).is_some_and(|offset| offset < scratch.va.size())
        };
        all.iter().find(inside).map(Arc::clone)
    }
}

impl Engine {
    /// Scratch of a GPU, which can have one.
    pub(super) fn alloc_scratch(
        &self,
        machine: &Machine,
        node: u32,
        size: u64,
        at: Option<u64>,
    ) -> Result<u64> {
        let gpu = machine.gpu(node).ok_or_else(|| {
            log::debug!("node {node} has no GPU that could use scratch");
            Status::NoMemory
        })?;
        let size = size.checked_next_multiple_of(ALIGN).ok_or(Status::NoMemory)?;
        let mut all = self.memory.scratch.write().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|scratch| scratch.gpu_id == gpu.gpu_id) {
            log::debug!("node {node} has scratch already");
            return Err(Status::NoMemory);
        }
        let want = Want { align: ALIGN, at, seen: at.is_some() || !machine.discrete, ..Want::hidden(size) };
        let va = machine.addresses.take(want)?;
        if !machine.discrete {
            va.map_memory(size, Access::ReadWrite).map_err(|_| Status::NoMemory)?;
        }
        let address = va.start();
        let mut args = SetScratchBackingVaArgs { va_addr: address / ALIGN, gpu_id: gpu.gpu_id, pad: 0 };
        self.channel.ioctl(Ioctl::SetScratchBackingVa, &mut args).map_err(|errno| {
            log::debug!("scratch of node {node} cannot be at {address:#x}: {errno}");
            Status::NoMemory
        })?;
        all.push(Arc::new(Scratch { gpu_id: gpu.gpu_id, va, pieces: Mutex::default() }));
        Ok(address)
    }

    /// Puts memory of the GPU behind a part of its scratch.
    pub(super) fn map_scratch(
        &self,
        machine: &Machine,
        scratch: &Scratch,
        address: u64,
        size: u64,
    ) -> Result<()> {
        if !machine.discrete {
            return Ok(());
        }
        let offset = address - scratch.va.start();
        if size == 0 || offset.checked_add(size).is_none_or(|end| end > scratch.va.size()) {
            log::debug!("{size} bytes at {address:#x} are not all scratch");
            return Err(Status::Error);
        }
        let flags = AllocFlags::VRAM | AllocFlags::WRITABLE;
        let mut pieces = scratch.pieces();
        if pieces.contains_key(&address) {
            log::debug!("scratch at {address:#x} is mapped already");
            return Err(Status::Error);
        }
        let ask = Ask { gpu_id: scratch.gpu_id, va: address, size, flags, userptr: 0 };
        let bo = Bo::new(&self.channel, ask).map_err(|_| Status::Error)?;
        bo::map(&self.channel, bo.handle(), &[scratch.gpu_id]).map_err(|(errno, _)| {
            log::debug!("{size} bytes of scratch at {address:#x} cannot be mapped: {errno}");
            Status::Error
        })?;
        pieces.insert(address, Piece { handle: bo.keep(), mapped: true });
        Ok(())
    }

    /// Takes the memory away that was mapped at this address.
    pub(super) fn unmap_scratch(&self, machine: &Machine, scratch: &Scratch, address: u64) -> Result<()> {
        if !machine.discrete {
            return Ok(());
        }
        let mut pieces = scratch.pieces();
        let Some(piece) = pieces.get_mut(&address) else {
            log::debug!("no scratch is mapped at {address:#x}");
            return Err(Status::Error);
        };
        self.drop_piece(scratch.gpu_id, address, piece)?;
        pieces.remove(&address);
        Ok(())
    }

    /// Gives all scratch of a GPU back.
    pub(super) fn free_scratch(&self, machine: &Machine, scratch: &Arc<Scratch>) -> Result<()> {
        let mut pieces = scratch.pieces();
        while let Some(mut entry) = pieces.first_entry() {
            let address = *entry.key();
            self.drop_piece(scratch.gpu_id, address, entry.get_mut())?;
            entry.remove();
        }
        drop(pieces);
        let node = machine.gpu_by_id(scratch.gpu_id).map(|gpu: &Gpu| gpu.node);
        log::debug!("scratch of node {node:?} is free");
        let mut all = self.memory.scratch.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| !Arc::ptr_eq(other, scratch));
        Ok(())
    }

    fn drop_piece(&self, gpu_id: u32, address: u64, piece: &mut Piece) -> Result<()> {
        let failed = |errno| {
            log::debug!("scratch at {address:#x} cannot be given back: {errno}");
            Status::Error
        };
        if piece.mapped {
            bo::unmap(&self.channel, piece.handle, &[gpu_id]).map_err(|(errno, _)| failed(errno))?;
            piece.mapped = false;
        }
        bo::free(&self.channel, piece.handle).map_err(failed)
    }
}
