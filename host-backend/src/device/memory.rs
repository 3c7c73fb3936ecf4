//! Which guest memory there is, and in which files.

use std::fs::File;
use std::sync::Arc;

use protocol::virtio_gpu::structs::MemEntry;
use vm_memory::{Address, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

/// Pages are the unit in which guest memory can be mapped a second time.
pub const PAGE: u64 = 4096;

/// Files of these file systems can be shared page by page.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Why guest memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// A region without a descriptor.
    #[error(
        "the guest memory at {0:#x} has no file behind it: give the VM shared memory (QEMU: memory-backend-memfd,share=on)"
    )]
    NoFile(u64),
    /// A region whose pages cannot be shared.
    #[error(
        "the guest memory at {0:#x} is in a file that is neither shared memory nor hugetlbfs: \
         give the VM shared memory (QEMU: memory-backend-memfd,share=on)"
    )]
    NotShared(u64),
    /// The kernel says no more of a descriptor.
    #[error("the guest memory at {0:#x}: {1}")]
    Unknown(u64, rustix::io::Errno),
}

/// Why a scatter list cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScatterError {
    /// An entry that is not made of whole pages.
    #[error("entry {index} ({addr:#x}, {len:#x} bytes) is not made of whole pages")]
    Unaligned {
        /// Which entry.
        index: usize,
        /// Guest address.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// An entry that is not all in the guest's memory.
    #[error("entry {index} ({addr:#x}, {len:#x} bytes) is not in the guest's memory")]
    Outside {
        /// Which entry.
        index: usize,
        /// Guest address.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// Less memory than the blob is long.
    #[error("the entries have {have:#x} bytes, the blob has {need:#x}")]
    Short {
        /// Bytes of all entries.
        have: u64,
        /// Bytes of the blob.
        need: u64,
    },
}

/// A file that holds memory which guest and host share.
#[derive(Debug)]
pub struct Backing {
    file: Arc<File>,
    /// Device and inode: the VMM may send another descriptor for the same memory.
    identity: (u64, u64),
}

impl Backing {
    pub(super) fn new(file: Arc<File>) -> rustix::io::Result<Backing> {
        let stat = rustix::fs::fstat(&*file)?;
        Ok(Backing { file, identity: (stat.st_dev, stat.st_ino) })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Device and inode of the file: two backings with the same are the same memory.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }
}

/// A part of a blob that is contiguous in a file.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Guest physical address; 0 for memory of the host.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// The file with these bytes.
    pub backing: Arc<Backing>,
    /// Where they are in it.
    pub offset: u64,
}

#[derive(Debug)]
struct Region {
    start: u64,
    len: u64,
    backing: Arc<Backing>,
    offset: u64,
}

impl Region {
    /// Bytes of this region from `addr` on, if it has any.
    fn rest(&self, addr: u64) -> Option<u64> {
        self.len.checked_sub(addr.checked_sub(self.start)?).filter(|rest| *rest > 0)
    }
}

/// The guest's memory as the VMM described it.
#[derive(Debug, Default)]
pub struct Layout {
    /// By address; they do not overlap.
    regions: Vec<Region>,
}

impl Layout {
    /// Describes this memory, and refuses what a worker could not map.
    pub fn of(memory: &GuestMemoryMmap<()>) -> Result<Layout, MemoryError> {
        let mut regions = Vec::new();
        for region in memory.iter() {
            let start = region.start_addr().raw_value();
            let place = region.file_offset().ok_or(MemoryError::NoFile(start))?;
            let unknown = |errno| MemoryError::Unknown(start, errno);
            if !can_be_shared(place.file()).map_err(unknown)? {
                return Err(MemoryError::NotShared(start));
            }
            let backing = Backing::new(Arc::clone(place.arc())).map_err(unknown)?;
            regions.push(Region {
                start,
                len: region.len(),
                backing: Arc::new(backing),
                offset: place.start(),
            });
        }
        regions.sort_by_key(|region| region.start);
        Ok(Layout { regions })
    }

    fn find(&self, addr: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|region| region.start <= addr);
        let region = self.regions.get(after.checked_sub(1)?)?;
        region.rest(addr).map(|_| region)
    }

    /// The pieces of a blob of `size` bytes, joined where they are contiguous. Entries beyond `size` are checked,
    /// and left out.
    pub fn pieces(&self, entries: &[MemEntry], size: u64) -> Result<Vec<Piece>, ScatterError> {
        let mut pieces: Vec<Piece> = Vec::new();
        // 2^32 entries of less than 2^32 bytes do not overflow.
        let mut have = 0;
        for (index, entry) in entries.iter().enumerate() {
            let (addr, len) = (entry.addr.get(), u64::from(entry.length.get()));
            if len == 0 || !addr.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
                return Err(ScatterError::Unaligned { index, addr, len });
            }
            self.gather(addr, len, size.saturating_sub(have), &mut pieces).ok_or(ScatterError::Outside {
                index,
                addr,
                len,
            })?;
            have += len;
        }
        if have < size {
            return Err(ScatterError::Short { have, need: size });
        }
        Ok(pieces)
    }

    /// Adds up to `wanted` bytes of a range. `None` if the range is not all there.
    fn gather(&self, addr: u64, len: u64, wanted: u64, pieces: &mut Vec<Piece>) -> Option<()> {
        let end = addr.checked_add(len)?;
        let mut at = addr;
        // A range may go on in the next region.
        while at < end {
            let region = self.find(at)?;
            let here = region.rest(at)?.min(end - at);
            let take = here.min(wanted.saturating_sub(at - addr));
            if take > 0 {
                let offset = region.offset.checked_add(at - region.start)?;
                add(pieces, Piece { addr: at, len: take, backing: Arc::clone(&region.backing), offset });
            }
            at += here;
        }
        Some(())
    }

    /// Whether this memory is still where the piece says.
    #[must_use]
    pub fn backs(&self, piece: &Piece) -> bool {
        let mut at = 0;
        while at < piece.len {
            let addr = piece.addr + at;
            let Some(region) = self.find(addr) else { return false };
            let same = region.backing.identity == piece.backing.identity
                && region.offset.wrapping_add(addr - region.start) == piece.offset.wrapping_add(at);
            let Some(rest) = region.rest(addr).filter(|_| same) else { return false };
            at += rest;
        }
        true
    }
}

/// Whether the pages of this file are memory that several processes can map.
fn can_be_shared(file: &File) -> rustix::io::Result<bool> {
    let system = rustix::fs::fstatfs(file)?;
    Ok(matches!(u64::try_from(system.f_type), Ok(TMPFS_MAGIC | HUGETLBFS_MAGIC)))
}

/// Appends a piece, or makes the last one longer.
fn add(pieces: &mut Vec<Piece>, piece: Piece) {
    if let Some(last) = pieces.last_mut() {
        let follows = last.addr + last.len == piece.addr
            && last.offset + last.len == piece.offset
            && Arc::ptr_eq(&last.backing, &piece.backing);
        if follows {
            last.len += piece.len;
            return;
        }
    }
    pieces.push(piece);
}

/// Whether the guest has all of this range, so that it can be copied from or to.
#[must_use]
pub fn is_there(memory: &GuestMemoryMmap<()>, addr: GuestAddress, len: u32) -> bool {
    let Ok(len) = usize::try_from(len) else { return false };
    vm_memory::GuestMemory::check_range(memory, addr, len, vm_memory::Permissions::ReadWrite)
}

#[cfg(test)]
mod tests;
