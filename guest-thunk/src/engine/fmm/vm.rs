//! The process's own address space: ranges that are held, and what is mapped into them.
//!
//! All `mmap` of this part is here. What replaces a mapping (`MAP_FIXED`) can do so inside a [`Region`] alone, which
//! holds its range from the reservation until it is dropped: nobody else's mapping is ever in the way.

use std::ffi::c_void;

use protocol::kfd::Mapping;
use rustix::io::{self, Errno};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::engine::gate::{before_map, before_map_at, note_held};

/// Bytes of a page: those of the CPU and the smallest of the GPUs.
pub(super) const PAGE: u64 = 4096;
/// Bytes of a huge page, which GPUs translate in one step.
pub(super) const HUGE_PAGE: u64 = 2 << 20;

/// Up to the next multiple of the page size.
pub(super) fn page_ceil(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}

/// Down to the page's first address.
pub(super) fn page_floor(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// What the CPU may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing: the range is occupied, no more.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
    /// Everything.
    All,
}

impl Access {
    fn prot(self) -> ProtFlags {
        match self {
            Access::None => ProtFlags::empty(),
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
            Access::ReadExecute => ProtFlags::READ | ProtFlags::EXEC,
            Access::All => ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC,
        }
    }
}

/// A range of addresses that is this part's alone until it is dropped: then whatever is mapped there is unmapped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Region {
    start: u64,
    len: u64,
}

/// Occupies a range without using memory.
const RESERVED: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

impl Region {
    /// Reserves `len` bytes at an address of the kernel's choice.
    ///
    /// # Errors
    /// `ENOMEM`: no addresses (`ulimit -v`), or too many mappings (`vm.max_map_count`).
    pub(super) fn reserve(len: u64) -> io::Result<Self> {
        before_map()?;
        let bytes = size(len)?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), RESERVED) }?;
        note_held(len, 0);
        Ok(Self { start: address_of(start), len })
    }

    /// Reserves exactly this range.
    ///
    /// # Errors
    /// `EEXIST` if something is mapped there, `ENOMEM` or `EINVAL` for addresses that cannot be.
    pub(super) fn reserve_at(start: u64, len: u64) -> io::Result<Self> {
        before_map_at(start, len)?;
        let flags = RESERVED.union(MapFlags::FIXED_NOREPLACE);
        let (at, bytes) = (pointer(start)?, size(len)?);
        // SAFETY: with FIXED_NOREPLACE the kernel replaces nothing; one that does not know the flag takes the
        // address as a wish and finds another place.
        let got = unsafe { mmap_anonymous(at, bytes, ProtFlags::empty(), flags) }?;
        note_held(len, 0);
        let region = Self { start: address_of(got), len };
        // An old kernel put it elsewhere: `region` goes away again.
        if region.start == start { Ok(region) } else { Err(Errno::EXIST) }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// First address behind it.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }

    fn holds(&self, start: u64, len: u64) -> bool {
        start >= self.start && start.checked_add(len).is_some_and(|end| end <= self.end())
    }

    /// Gives up what is outside of a range inside. Where the kernel refuses (to split a mapping takes one more than
    /// it allows), that stays reserved.
    pub(super) fn trim(&mut self, start: u64, len: u64) {
        if !self.holds(start, len) {
            return;
        }
        if start > self.start && unmap(self.start, start - self.start).is_ok() {
            note_held(0, start - self.start);
            self.len -= start - self.start;
            self.start = start;
        }
        let end = start + len;
        if end < self.end() && unmap(end, self.end() - end).is_ok() {
            note_held(0, self.end() - end);
            self.len = end - self.start;
        }
    }

    /// Maps a device file's memory over a part of the region. Forked children do not get it.
    ///
    /// # Errors
    /// `EINVAL` for a part that is not in the region, or a mapping that is shorter; those of `mmap`.
    pub(super) fn map_file(&self, at: u64, len: u64, mapping: &Mapping, access: Access) -> io::Result<()> {
        before_map()?;
        if !self.holds(at, len) || mapping.len < len {
            return Err(Errno::INVAL);
        }
        let access = if mapping.writable || access == Access::None { access } else { Access::Read };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let (to, bytes) = (pointer(at)?, size(len)?);
        // The kernel does not interrupt it, but whoever stands in for a device may (a seccomp supervisor).
        io::retry_on_intr(|| {
            // SAFETY: the range lies in this region, where nobody else maps anything and no Rust reference leads.
            unsafe { mmap(to, bytes, access.prot(), flags, &mapping.fd, mapping.offset) }
        })?;
        advise(at, len, Advice::LinuxDontFork);
        Ok(())
    }

    /// Puts fresh zeroed memory over a part of the region.
    ///
    /// # Errors
    /// `EINVAL` for a part that is not in the region; those of `mmap`.
    pub(super) fn map_memory(&self, at: u64, len: u64, access: Access) -> io::Result<()> {
        self.map_anonymous(at, len, access, MapFlags::PRIVATE)
    }

    /// Unmaps a part of the region, which stays reserved.
    ///
    /// # Errors
    /// `EINVAL` for a part that is not in the region; those of `mmap`.
    pub(super) fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        self.map_anonymous(at, len, Access::None, RESERVED)
    }

    fn map_anonymous(&self, at: u64, len: u64, access: Access, flags: MapFlags) -> io::Result<()> {
        before_map()?;
        if !self.holds(at, len) {
            return Err(Errno::INVAL);
        }
        let (to, bytes) = (pointer(at)?, size(len)?);
        // SAFETY: the range lies in this region, where nobody else maps anything and no Rust reference leads.
        unsafe { mmap_anonymous(to, bytes, access.prot(), flags | MapFlags::FIXED) }?;
        Ok(())
    }

    /// Keeps a part out of forked children: a copy-on-write fork would stop the queues that use it.
    pub(super) fn dont_fork(&self, at: u64, len: u64) {
        if self.holds(at, len) {
            advise(at, len, Advice::LinuxDontFork);
        }
    }

    /// Asks for huge pages, which need fewer entries in the GPUs' page tables too.
    pub(super) fn huge_pages(&self, at: u64, len: u64) {
        if self.holds(at, len) {
            advise(at, len, Advice::LinuxHugepage);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if unmap(self.start, self.len).is_ok() {
            note_held(0, self.len);
            return;
        }
        // To unmap the middle of a bigger mapping takes one mapping more than now. At least the memory goes.
        log::warn!(
            "{} bytes at {:#x} cannot be unmapped: this process has as many mappings as the kernel allows \
             (vm.max_map_count)",
            self.len,
            self.start
        );
        advise(self.start, self.len, Advice::LinuxDontNeed);
    }
}

fn unmap(start: u64, len: u64) -> io::Result<()> {
    let (at, bytes) = (pointer(start)?, size(len)?);
    // SAFETY: only ranges of a region come here, which are this part's alone; no Rust reference leads there.
    unsafe { munmap(at, bytes) }
}

/// Advice is advice: a kernel without huge pages refuses it, and nothing is wrong then.
fn advise(start: u64, len: u64, advice: Advice) {
    let (Ok(at), Ok(bytes)) = (pointer(start), size(len)) else { return };
    // SAFETY: only ranges of a region come here. None of the advices changes memory that is still in use: the one
    // that drops contents is given for a region that ends.
    if let Err(error) = unsafe { madvise(at, bytes, advice) } {
        log::debug!("advice {advice:?} for {len} bytes at {start:#x}: {error}");
    }
}

fn pointer(address: u64) -> io::Result<*mut c_void> {
    let address = usize::try_from(address).map_err(|_| Errno::INVAL)?;
    Ok(std::ptr::with_exposed_provenance_mut(address))
}

fn size(len: u64) -> io::Result<usize> {
    usize::try_from(len).map_err(|_| Errno::NOMEM)
}

fn address_of(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// Whether the program's memory can be read, a byte of each page.
pub(super) fn is_readable(address: u64, len: u64) -> bool {
    let Some(end) = address.checked_add(len) else { return false };
    let mut at = address;
    while at < end {
        if !byte_is_readable(at) {
            return false;
        }
        at = page_floor(at).saturating_add(PAGE);
    }
    true
}

fn byte_is_readable(address: u64) -> bool {
    let Ok(from) = pointer(address) else { return false };
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: from, iov_len: 1 };
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() };
    // SAFETY: both vectors have one element and live through the call; the kernel checks the remote address and
    // writes one byte to `byte`.
    let copied = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    copied == 1
}

/// Prefers memory of a NUMA node for a part of a region, or insists on it. The kernel says no where it has no such
/// node, and a container's seccomp where it blocks `mbind`.
///
/// # Errors
/// What `mbind` says.
pub(super) fn bind_to_numa(region: &Region, at: u64, len: u64, node: u32, insist: bool) -> io::Result<()> {
    const MPOL_PREFERRED: i32 = 1;
    const MPOL_BIND: i32 = 2;
    const MPOL_F_STATIC_NODES: i32 = 1 << 15;
    /// Nodes that the mask has room for.
    const NODES: usize = 1024;
    if !region.holds(at, len) {
        return Err(Errno::INVAL);
    }
    let (at, bytes) = (pointer(at)?, size(len)?);
    let mut mask = [0u64; NODES / 64];
    let node = usize::try_from(node).map_err(|_| Errno::INVAL)?;
    *mask.get_mut(node / 64).ok_or(Errno::INVAL)? |= 1 << (node % 64);
    let mode = MPOL_F_STATIC_NODES | if insist { MPOL_BIND } else { MPOL_PREFERRED };
    // SAFETY: the range is a region's; the mask has NODES bits (the kernel takes one less than it is told) and lives
    // through the call. A policy changes where pages come from, not their contents.
    let done = unsafe { libc::syscall(libc::SYS_mbind, at, bytes, mode, mask.as_ptr(), NODES, 0) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_mapped(address: u64) -> bool {
        // A range that is taken cannot be reserved.
        Region::reserve_at(address, PAGE).is_err()
    }

    #[test]
    fn a_region_holds_its_range_until_it_goes() {
        // Where the kernel puts no other thread's mapping meanwhile.
        let start = 1 << 44;
        let region = Region::reserve_at(start, 8 * PAGE).unwrap();
        assert!(is_mapped(start) && is_mapped(start + 7 * PAGE));
        assert!(!is_readable(start, 1), "no access");
        drop(region);
        assert!(Region::reserve_at(start, 8 * PAGE).is_ok());
    }

    #[test]
    fn trimming_leaves_the_middle() {
        let mut region = Region::reserve(16 * PAGE).unwrap();
        let start = region.start();
        region.trim(start + 4 * PAGE, 2 * PAGE);
        assert_eq!((region.start(), region.len()), (start + 4 * PAGE, 2 * PAGE));
        region.trim(start, 16 * PAGE);
        assert_eq!(region.len(), 2 * PAGE, "a range that is not inside changes nothing");
    }

    #[test]
    fn memory_is_mapped_inside_the_region_only() {
        let region = Region::reserve(4 * PAGE).unwrap();
        let start = region.start();
        assert_eq!(region.map_memory(start - PAGE, PAGE, Access::ReadWrite), Err(Errno::INVAL));
        assert_eq!(region.map_memory(start + 3 * PAGE, 2 * PAGE, Access::ReadWrite), Err(Errno::INVAL));
        assert_eq!(region.clear(start, u64::MAX), Err(Errno::INVAL));
        region.map_memory(start + PAGE, 2 * PAGE, Access::ReadWrite).unwrap();
        assert!(is_readable(start + PAGE, 2 * PAGE) && !is_readable(start + PAGE, 3 * PAGE));
        region.clear(start + PAGE, 2 * PAGE).unwrap();
        assert!(!is_readable(start + PAGE, 1));
    }

    // Case M28: whatever else is mapped survives.
    #[test]
    fn a_taken_range_is_refused_and_left_alone() {
        let taken = Region::reserve(2 * PAGE).unwrap();
        taken.map_memory(taken.start(), 2 * PAGE, Access::ReadWrite).unwrap();
        assert_eq!(Region::reserve_at(taken.start() + PAGE, 2 * PAGE), Err(Errno::EXIST));
        assert!(is_readable(taken.start(), 2 * PAGE));
    }

    // Cases M01 and L01: sizes and addresses that cannot be.
    #[test]
    fn impossible_ranges_are_errors() {
        assert!(Region::reserve(0x7fff_ffff_f000).is_err());
        assert!(Region::reserve(0xffff_ffff_ffff_f000).is_err());
        assert!(Region::reserve(0).is_err());
        for address in [1 << 56, 0xffff_8000_0000_0000, u64::MAX - PAGE + 1] {
            assert!(Region::reserve_at(address, PAGE).is_err(), "{address:#x}");
        }
        assert!(!is_readable(u64::MAX, 2) && !is_readable(0, 1));
    }

    #[test]
    fn numa_nodes_that_there_are_not_are_refused() {
        let region = Region::reserve(PAGE).unwrap();
        assert_eq!(bind_to_numa(&region, region.start(), PAGE, 1 << 20, false), Err(Errno::INVAL));
        assert_eq!(bind_to_numa(&region, region.start() + PAGE, PAGE, 0, false), Err(Errno::INVAL));
    }
}
