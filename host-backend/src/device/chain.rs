//! Descriptor chains of the guest: copied out before anything is looked at.

use std::ops::Deref;

use protocol::virtio_gpu::structs::CtrlHdr;
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::limits;
use super::memory::is_there;

/// Bytes of the longest response.
const LONGEST_RESPONSE: u32 = 256;

/// Why a chain is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The head leads nowhere.
    #[error("a chain without descriptors")]
    Empty,
    /// It breaks off.
    #[error(
        "a chain that breaks off: a next descriptor that does not exist, a loop, or a bad indirect table"
    )]
    Broken,
    /// What the device reads has to come first.
    #[error("a readable descriptor after a writable one")]
    Order,
    /// More than any request has.
    #[error("a request of {0} bytes, the longest has {max}", max = limits::REQUEST)]
    TooLong(u64),
    /// Not the guest's memory.
    #[error("a descriptor of {len:#x} bytes at {addr:#x}, which is not in the guest's memory")]
    Outside {
        /// Guest address.
        addr: u64,
        /// Bytes.
        len: u32,
    },
}

/// Where a response goes.
#[derive(Debug)]
pub struct Room {
    /// Head of the chain.
    pub head: u16,
    /// Writable parts, up to the length of the longest response.
    parts: Vec<(GuestAddress, u32)>,
}

impl Room {
    /// Bytes that a response may have.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|(_, len)| u64::from(*len)).sum()
    }

    /// Whether not even a header can be answered.
    #[must_use]
    pub fn is_too_small(&self) -> bool {
        self.len() < size_of::<CtrlHdr>() as u64
    }

    /// Writes a response, which must not be longer than [`len`](Room::len), and returns its length.
    pub fn write(
        &self,
        memory: &GuestMemoryMmap<()>,
        response: &[u8],
    ) -> Result<u32, vm_memory::GuestMemoryError> {
        let mut rest = response;
        for (addr, len) in &self.parts {
            let len = usize::try_from(*len).unwrap_or(usize::MAX);
            let (part, after) = rest.split_at(rest.len().min(len));
            memory.write_slice(part, *addr)?;
            rest = after;
        }
        Ok(u32::try_from(response.len() - rest.len()).unwrap_or(u32::MAX))
    }
}

/// Takes a chain apart: copies the request into `request`, and returns where the response goes. The descriptors
/// are read once; later changes of them have no effect.
///
/// The room is returned for a bad chain too, as far as it was read: its head must go back to the guest.
pub fn receive<M>(
    chain: DescriptorChain<M>,
    memory: &GuestMemoryMmap<()>,
    request: &mut Vec<u8>,
) -> (Room, Result<(), ChainError>)
where
    M: Deref<Target = GuestMemoryMmap<()>>,
{
    request.clear();
    let mut room = Room { head: chain.head_index(), parts: Vec::new() };
    let result = read(chain, memory, request, &mut room);
    (room, result)
}

fn read<M>(
    chain: DescriptorChain<M>,
    memory: &GuestMemoryMmap<()>,
    request: &mut Vec<u8>,
    room: &mut Room,
) -> Result<(), ChainError>
where
    M: Deref<Target = GuestMemoryMmap<()>>,
{
    let mut readable = Vec::new();
    let mut total = 0;
    // What the last descriptor said about another one: the iterator ends alike after the last and before a bad one.
    let mut more = None;
    let mut writable = false;
    for descriptor in chain {
        let (addr, len) = (descriptor.addr(), descriptor.len());
        more = Some(descriptor.has_next());
        if !is_there(memory, addr, len) {
            return Err(ChainError::Outside { addr: addr.0, len });
        }
        if descriptor.is_write_only() {
            writable = true;
            let wanted = u64::from(LONGEST_RESPONSE).saturating_sub(room.len());
            let take = len.min(u32::try_from(wanted).unwrap_or(0));
            if take > 0 {
                room.parts.push((addr, take));
            }
        } else if writable {
            return Err(ChainError::Order);
        } else {
            total += u64::from(len);
            readable.push((addr, len));
        }
    }
    match more {
        None => return Err(ChainError::Empty),
        Some(true) => return Err(ChainError::Broken),
        Some(false) => {}
    }
    let total = usize::try_from(total).ok().filter(|total| *total <= limits::REQUEST);
    let total = total.ok_or(ChainError::TooLong(readable.iter().map(|(_, len)| u64::from(*len)).sum()))?;
    request.resize(total, 0);
    let mut at = 0;
    for (addr, len) in readable {
        let end = at + usize::try_from(len).unwrap_or(0);
        let outside = |_| ChainError::Outside { addr: addr.0, len };
        memory.read_slice(&mut request[at..end], addr).map_err(outside)?;
        at = end;
    }
    Ok(())
}
