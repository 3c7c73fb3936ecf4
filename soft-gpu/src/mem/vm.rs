//! GPU page tables: what the virtual addresses of one process mean to one GPU.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::PAGE_SIZE;
use super::host::{HostMem, HostSlice};
use crate::engine::GpuFault;

/// Most bytes that a copy or fill moves before it lets an unmap of the same tables go first.
const CHUNK: u64 = 1 << 20;

/// What the GPU may do with a mapping besides reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapFlags {
    /// Stores and atomics (`AMDGPU_VM_PAGE_WRITEABLE`).
    pub writable: bool,
    /// Instruction fetches (`AMDGPU_VM_PAGE_EXECUTABLE`).
    pub executable: bool,
}

/// Who made a mapping, and so may remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingOwner {
    /// A buffer object, by its KFD handle.
    Buffer(u64),
    /// A buffer object mapped through the render node (`DRM_IOCTL_AMDGPU_GEM_VA`), by its GEM handle.
    Gem(u32),
    /// A range of shared virtual memory.
    Svm,
}

/// One mapping as [`GpuVm::lookup`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First GPU virtual address.
    pub va: u64,
    /// Length in bytes.
    pub len: u64,
    /// What is allowed.
    pub flags: MapFlags,
    /// Who made it.
    pub owner: MappingOwner,
}

/// A mapping that cannot be made (the kernel's `amdgpu_vm_bo_map` answers `EINVAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Address or length is not page-aligned, the length is 0, or the end wraps around.
    #[error("{va:#x}, length {len:#x} is no range of whole pages")]
    BadRange {
        /// First GPU virtual address asked for.
        va: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Something else is mapped there.
    #[error("{va:#x} is already mapped as part of {existing:?}")]
    Occupied {
        /// First GPU virtual address asked for.
        va: u64,
        /// The first mapping in the way.
        existing: Mapped,
    },
}

/// The page tables of one (process, GPU).
///
/// Accesses hold the tables for reading, so [`GpuVm::unmap`] returns only when no access that used
/// the old mapping is under way: what the kernel's TLB flush guarantees.
#[derive(Debug, Default)]
pub struct GpuVm {
    mappings: RwLock<BTreeMap<u64, Mapping>>,
}

#[derive(Clone, Debug)]
struct Mapping {
    len: u64,
    mem: HostMem,
    flags: MapFlags,
    owner: MappingOwner,
}

impl Mapping {
    fn describe(&self, va: u64) -> Mapped {
        Mapped { va, len: self.len, flags: self.flags, owner: self.owner }
    }
}

impl GpuVm {
    /// Empty page tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds the tables for several accesses: an unmap waits as long as this lives.
    #[must_use]
    pub fn access(&self) -> PageTables<'_> {
        PageTables { mappings: self.mappings.read().unwrap_or_else(PoisonError::into_inner) }
    }

    fn change(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Mapping>> {
        self.mappings.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps all of `mem` at `va`.
    ///
    /// # Errors
    /// [`MapError`]; nothing is changed then.
    pub fn map(&self, va: u64, mem: HostMem, flags: MapFlags, owner: MappingOwner) -> Result<(), MapError> {
        let len = mem.len() as u64;
        let end = check_range(va, len)?;
        let mut mappings = self.change();
        if let Some((&start, existing)) = mappings.range(..end).next_back()
            && start + existing.len > va
        {
            return Err(MapError::Occupied { va, existing: existing.describe(start) });
        }
        mappings.insert(va, Mapping { len, mem, flags, owner });
        Ok(())
    }

    /// Removes the mapping that starts at `va`, and waits for accesses under way.
    pub fn unmap(&self, va: u64) -> Option<Mapped> {
        // The memory is released after the lock.
        let removed = self.change().remove(&va)?;
        Some(removed.describe(va))
    }

    /// Replaces what `owner` has mapped in `[va, va + mem.len())` by `mem` in one step; an access
    /// sees either the old or the new. Mappings that reach over the ends keep their other parts.
    ///
    /// # Errors
    /// [`MapError::Occupied`] if another owner has a mapping there; nothing is changed then.
    pub fn replace(
        &self,
        va: u64,
        mem: HostMem,
        flags: MapFlags,
        owner: MappingOwner,
    ) -> Result<(), MapError> {
        let len = mem.len() as u64;
        let end = check_range(va, len)?;
        let mut removed = Vec::new();
        let mut mappings = self.change();
        if let Some((&start, existing)) =
            overlapping(&mappings, va, end).find(|(_, existing)| existing.owner != owner)
        {
            return Err(MapError::Occupied { va, existing: existing.describe(start) });
        }
        cut(&mut mappings, va, end, owner, &mut removed);
        mappings.insert(va, Mapping { len, mem, flags, owner });
        drop(mappings);
        drop(removed);
        Ok(())
    }

    /// Removes what `owner` has mapped in `[va, va + len)`, splitting mappings that reach over the
    /// ends, and waits for accesses under way.
    pub fn unmap_range(&self, va: u64, len: u64, owner: MappingOwner) {
        let Ok(end) = check_range(va, len) else { return };
        let mut removed = Vec::new();
        cut(&mut self.change(), va, end, owner, &mut removed);
    }

    /// The mapping that contains `va` (`amdgpu_vm_bo_lookup_mapping`).
    #[must_use]
    pub fn lookup(&self, va: u64) -> Option<Mapped> {
        self.access().find(va).map(|(start, mapping)| mapping.describe(start))
    }

    /// Every mapping that meets `[va, va + len)`, in order of address.
    #[must_use]
    pub fn lookup_range(&self, va: u64, len: u64) -> Vec<Mapped> {
        let tables = self.access();
        overlapping(&tables.mappings, va, va.saturating_add(len)).map(|(&at, m)| m.describe(at)).collect()
    }

    /// See [`PageTables::read`].
    pub fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), GpuFault> {
        self.access().read(va, buf)
    }

    /// See [`PageTables::write`].
    pub fn write(&self, va: u64, buf: &[u8]) -> Result<(), GpuFault> {
        self.access().write(va, buf)
    }

    /// Reads one little-endian double word, in one access where it is aligned.
    pub fn read_u32(&self, va: u64) -> Result<u32, GpuFault> {
        let mut bytes = [0; 4];
        self.read(va, &mut bytes).map(|()| u32::from_le_bytes(bytes))
    }

    /// Reads one little-endian quad word, in one access where it is aligned.
    pub fn read_u64(&self, va: u64) -> Result<u64, GpuFault> {
        let mut bytes = [0; 8];
        self.read(va, &mut bytes).map(|()| u64::from_le_bytes(bytes))
    }

    /// Writes one little-endian double word, in one access where it is aligned.
    pub fn write_u32(&self, va: u64, value: u32) -> Result<(), GpuFault> {
        self.write(va, &value.to_le_bytes())
    }

    /// Writes one little-endian quad word, in one access where it is aligned.
    pub fn write_u64(&self, va: u64, value: u64) -> Result<(), GpuFault> {
        self.write(va, &value.to_le_bytes())
    }

    /// See [`PageTables::atomic_u32`].
    pub fn atomic_u32<R>(&self, va: u64, op: impl FnOnce(&AtomicU32) -> R) -> Result<R, GpuFault> {
        self.access().atomic_u32(va, op)
    }

    /// See [`PageTables::atomic_u64`].
    pub fn atomic_u64<R>(&self, va: u64, op: impl FnOnce(&AtomicU64) -> R) -> Result<R, GpuFault> {
        self.access().atomic_u64(va, op)
    }

    /// Copies `len` bytes. Overlap behaves like `memmove` within a chunk and is otherwise undefined,
    /// as on the hardware. Bytes before the first fault are copied.
    ///
    /// # Errors
    /// The first address that faults; the source is looked at first.
    pub fn copy(&self, dst: u64, src: u64, len: u64) -> Result<(), GpuFault> {
        let mut done = 0;
        while done < len {
            let chunk = (len - done).min(CHUNK);
            self.access().copy(dst.wrapping_add(done), src.wrapping_add(done), chunk)?;
            done += chunk;
        }
        Ok(())
    }

    /// Writes the four little-endian bytes of `pattern` again and again, from `va` on, `len` bytes.
    ///
    /// # Errors
    /// The first address that faults; bytes before it are written.
    pub fn fill(&self, va: u64, pattern: u32, len: u64) -> Result<(), GpuFault> {
        let mut block = [0u8; 4096];
        for dword in block.chunks_exact_mut(4) {
            dword.copy_from_slice(&pattern.to_le_bytes());
        }
        let mut done = 0;
        while done < len {
            let chunk = (len - done).min(CHUNK);
            self.access().fill(va.wrapping_add(done), &block, chunk)?;
            done += chunk;
        }
        Ok(())
    }
}

/// `[va, va + len)` as whole pages; its end.
fn check_range(va: u64, len: u64) -> Result<u64, MapError> {
    let bad = MapError::BadRange { va, len };
    if len == 0 || !va.is_multiple_of(PAGE_SIZE) || !len.is_multiple_of(PAGE_SIZE) {
        return Err(bad);
    }
    va.checked_add(len).ok_or(bad)
}

/// Mappings that meet `[va, end)`.
fn overlapping(
    mappings: &BTreeMap<u64, Mapping>,
    va: u64,
    end: u64,
) -> impl Iterator<Item = (&u64, &Mapping)> {
    let first = mappings
        .range(..=va)
        .next_back()
        .filter(|(start, mapping)| **start + mapping.len > va)
        .map_or(va, |(start, _)| *start);
    mappings.range(first..end.max(first))
}

/// Removes the parts of `owner`'s mappings inside `[va, end)`; what was removed goes to `removed`, to
/// be dropped without the lock.
fn cut(
    mappings: &mut BTreeMap<u64, Mapping>,
    va: u64,
    end: u64,
    owner: MappingOwner,
    removed: &mut Vec<Mapping>,
) {
    let starts: Vec<u64> =
        overlapping(mappings, va, end).filter(|(_, m)| m.owner == owner).map(|(&start, _)| start).collect();
    for start in starts {
        let Some(old) = mappings.remove(&start) else { continue };
        if start < va {
            keep_part(mappings, &old, start, start, va - start);
        }
        if start + old.len > end {
            keep_part(mappings, &old, start, end, start + old.len - end);
        }
        removed.push(old);
    }
}

/// Puts back `[at, at + len)` of a removed mapping that started at `start`.
fn keep_part(mappings: &mut BTreeMap<u64, Mapping>, old: &Mapping, start: u64, at: u64, len: u64) {
    let (Ok(offset), Ok(size)) = (usize::try_from(at - start), usize::try_from(len)) else { return };
    if let Some(mem) = old.mem.slice(offset, size) {
        mappings.insert(at, Mapping { len, mem, flags: old.flags, owner: old.owner });
    }
}

/// The tables, held for accesses.
pub struct PageTables<'a> {
    mappings: RwLockReadGuard<'a, BTreeMap<u64, Mapping>>,
}

impl PageTables<'_> {
    fn find(&self, va: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=va).next_back()?;
        (va - start < mapping.len).then_some((start, mapping))
    }

    /// The mapping that contains `va`: its address, its memory, and whether stores are allowed.
    pub(super) fn mapping(&self, va: u64) -> Option<(u64, HostSlice<'_>, bool)> {
        let (start, mapping) = self.find(va)?;
        Some((start, mapping.mem.as_slice(), mapping.flags.writable))
    }

    /// The memory from `va` to the end of its mapping, at most `len` bytes.
    fn reach(&self, va: u64, len: u64, write: bool) -> Result<HostSlice<'_>, GpuFault> {
        let (start, mapping) = self.find(va).ok_or(GpuFault { va, write, not_present: true })?;
        let denied = GpuFault { va, write, not_present: false };
        if write && !mapping.flags.writable {
            return Err(denied);
        }
        let offset = usize::try_from(va - start).map_err(|_| denied)?;
        let rest = mapping.mem.len().saturating_sub(offset);
        let size = usize::try_from(len).unwrap_or(usize::MAX).min(rest);
        mapping.mem.as_slice().slice(offset, size).map_err(|_| denied)
    }

    /// Calls `each` for every piece of `[va, va + len)` that is contiguous in memory, in order, with
    /// the offset of the piece in the access.
    ///
    /// # Errors
    /// The first address that faults; `each` has seen what is before it.
    pub fn with_slices(
        &self,
        va: u64,
        len: usize,
        write: bool,
        mut each: impl FnMut(usize, HostSlice<'_>),
    ) -> Result<(), GpuFault> {
        let mut done = 0;
        while done < len {
            let at = va.wrapping_add(done as u64);
            let slice = self.reach(at, (len - done) as u64, write)?;
            each(done, slice);
            done += slice.len();
        }
        Ok(())
    }

    /// Reads `buf.len()` bytes at `va`.
    ///
    /// # Errors
    /// The first address that faults; `buf` is filled up to it.
    pub fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), GpuFault> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = va.wrapping_add(done as u64);
            let slice = self.reach(at, rest.len() as u64, false)?;
            let fault = GpuFault { va: at, write: false, not_present: false };
            let part = rest.get_mut(..slice.len()).ok_or(fault)?;
            slice.read(0, part).map_err(|_| fault)?;
            done += slice.len();
        }
        Ok(())
    }

    /// Writes `buf` at `va`.
    ///
    /// # Errors
    /// The first address that faults; bytes before it are written.
    pub fn write(&self, va: u64, buf: &[u8]) -> Result<(), GpuFault> {
        let mut done = 0;
        while let Some(rest) = buf.get(done..).filter(|rest| !rest.is_empty()) {
            let at = va.wrapping_add(done as u64);
            let slice = self.reach(at, rest.len() as u64, true)?;
            let fault = GpuFault { va: at, write: true, not_present: false };
            let part = rest.get(..slice.len()).ok_or(fault)?;
            slice.write(0, part).map_err(|_| fault)?;
            done += slice.len();
        }
        Ok(())
    }

    /// Runs `op` on the double word at `va`.
    ///
    /// # Errors
    /// A write fault where stores are not allowed, and for an address that is not aligned.
    pub fn atomic_u32<R>(&self, va: u64, op: impl FnOnce(&AtomicU32) -> R) -> Result<R, GpuFault> {
        let slice = self.reach(va, 4, true)?;
        slice.atomic_u32(0).map(op).ok_or(GpuFault { va, write: true, not_present: false })
    }

    /// Runs `op` on the quad word at `va`.
    ///
    /// # Errors
    /// A write fault where stores are not allowed, and for an address that is not aligned.
    pub fn atomic_u64<R>(&self, va: u64, op: impl FnOnce(&AtomicU64) -> R) -> Result<R, GpuFault> {
        let slice = self.reach(va, 8, true)?;
        slice.atomic_u64(0).map(op).ok_or(GpuFault { va, write: true, not_present: false })
    }

    fn copy(&self, dst: u64, src: u64, len: u64) -> Result<(), GpuFault> {
        let mut done = 0;
        while done < len {
            let from = self.reach(src.wrapping_add(done), len - done, false)?;
            let to_va = dst.wrapping_add(done);
            let to = self.reach(to_va, from.len() as u64, true)?;
            let denied = GpuFault { va: to_va, write: true, not_present: false };
            let part = from.slice(0, to.len()).map_err(|_| denied)?;
            part.copy_to(to).map_err(|_| denied)?;
            done += to.len() as u64;
        }
        Ok(())
    }

    /// `block` is a whole number of pattern repetitions.
    fn fill(&self, va: u64, block: &[u8], len: u64) -> Result<(), GpuFault> {
        let mut done = 0;
        while done < len {
            let part = (len - done).min(block.len() as u64);
            let bytes = usize::try_from(part).ok().and_then(|n| block.get(..n)).unwrap_or(block);
            self.write(va.wrapping_add(done), bytes)?;
            done += part;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::backing::BackingFiles;
    use crate::mem::Arena;

    const RW: MapFlags = MapFlags { writable: true, executable: false };
    const RO: MapFlags = MapFlags { writable: false, executable: false };
    const A: MappingOwner = MappingOwner::Buffer(1);

    fn arena() -> Arena {
        Arena::new(BackingFiles::anonymous(&[]).expect("memfd").kfd, 1 << 24).expect("arena")
    }

    fn fault(va: u64, write: bool, not_present: bool) -> GpuFault {
        GpuFault { va, write, not_present }
    }

    #[test]
    fn accesses_run_over_adjacent_mappings_and_name_the_first_bad_address() {
        let (arena, vm) = (arena(), GpuVm::new());
        vm.map(0x10000, arena.alloc(4096, 0).expect("room"), RW, A).expect("free");
        vm.map(0x11000, arena.alloc(4096, 0).expect("room"), RO, A).expect("free");
        assert_eq!(vm.read(0x10ffc, &mut [0; 8]), Ok(()));
        assert_eq!(vm.write(0x10ffc, &[1; 8]), Err(fault(0x11000, true, false)));
        assert_eq!(vm.read(0x11ffc, &mut [0; 8]), Err(fault(0x12000, false, true)));
        assert_eq!(vm.read_u32(0xfff0), Err(fault(0xfff0, false, true)));
        assert_eq!(vm.read_u32(0x10ffc), Ok(0x0101_0101), "bytes before the fault are written");
        assert_eq!(vm.read(u64::MAX - 1, &mut [0; 8]), Err(fault(u64::MAX - 1, false, true)));
    }

    #[test]
    fn copies_and_fills_cross_mappings_of_different_sizes() {
        let (arena, vm) = (arena(), GpuVm::new());
        vm.map(0x10_0000, arena.alloc(0x3000, 0).expect("room"), RW, A).expect("free");
        vm.map(0x10_3000, arena.alloc(0x1000, 0).expect("room"), RW, A).expect("free");
        vm.map(0x20_0000, arena.alloc(0x1000, 0).expect("room"), RW, A).expect("free");
        vm.map(0x20_1000, arena.alloc(0x3000, 0).expect("room"), RW, A).expect("free");
        vm.fill(0x10_0004, 0x1122_3344, 0x3ff8).expect("mapped");
        vm.copy(0x20_0000, 0x10_0000, 0x4000).expect("mapped");
        assert_eq!(vm.read_u32(0x20_0000), Ok(0));
        assert_eq!(vm.read_u64(0x20_0ffc), Ok(0x1122_3344_1122_3344));
        assert_eq!(vm.read_u32(0x20_3ff8), Ok(0x1122_3344));
        assert_eq!(vm.read_u32(0x20_3ffc), Ok(0));
        assert_eq!(vm.copy(0x20_0000, 0x10_0000, 0x4004), Err(fault(0x10_4000, false, true)));
        assert_eq!(vm.fill(0x20_3ffc, 0, 8), Err(fault(0x20_4000, true, true)));
    }

    #[test]
    fn mappings_that_overlap_or_are_no_whole_pages_are_refused() {
        let (arena, vm) = (arena(), GpuVm::new());
        let page = arena.alloc(0x3000, 0).expect("room");
        vm.map(0x10000, page.clone(), RW, A).expect("free");
        for va in [0xf000, 0x10000, 0x12000] {
            assert!(matches!(vm.map(va, page.clone(), RW, A), Err(MapError::Occupied { .. })), "{va:#x}");
        }
        for va in [0x10001, u64::MAX - 0xfff] {
            assert!(matches!(vm.map(va, page.clone(), RW, A), Err(MapError::BadRange { .. })), "{va:#x}");
        }
        vm.map(0xd000, page.clone(), RW, A).expect("ends where the other begins");
        assert_eq!(vm.unmap(0x11000), None, "no mapping starts there");
        assert_eq!(vm.unmap(0x10000).map(|m| m.len), Some(0x3000));
        assert_eq!(vm.lookup(0x10000), None);
    }

    #[test]
    fn atomics_need_alignment_and_write_permission() {
        let (arena, vm) = (arena(), GpuVm::new());
        vm.map(0x10000, arena.alloc(4096, 0).expect("room"), RW, A).expect("free");
        vm.map(0x20000, arena.alloc(4096, 0).expect("room"), RO, A).expect("free");
        assert_eq!(vm.atomic_u64(0x10008, |word| word.fetch_add(5, Ordering::SeqCst)), Ok(0));
        assert_eq!(vm.atomic_u32(0x10008, |word| word.load(Ordering::SeqCst)), Ok(5));
        assert_eq!(vm.atomic_u64(0x10004, |_| ()), Err(fault(0x10004, true, false)));
        assert_eq!(vm.atomic_u32(0x20000, |_| ()), Err(fault(0x20000, true, false)));
        assert_eq!(vm.atomic_u32(0x30000, |_| ()), Err(fault(0x30000, true, true)));
    }

    #[test]
    fn replacing_a_part_keeps_the_rest_and_spares_other_owners() {
        let (arena, vm) = (arena(), GpuVm::new());
        let (old, new) = (arena.alloc(0x4000, 0).expect("room"), arena.alloc(0x1000, 0).expect("room"));
        old.fill(0, 0x4000, 1).expect("in range");
        new.fill(0, 0x1000, 2).expect("in range");
        vm.map(0x10000, old.clone(), RW, MappingOwner::Svm).expect("free");
        vm.replace(0x11000, new.clone(), RO, MappingOwner::Svm).expect("own mapping");
        let first_bytes: Vec<u32> =
            (0..4).map(|page| vm.read_u32(0x10000 + page * 0x1000).expect("mapped") & 0xff).collect();
        assert_eq!(first_bytes, [1, 2, 1, 1]);
        assert!(matches!(vm.replace(0x12000, new, RW, A), Err(MapError::Occupied { .. })));
        vm.unmap_range(0x10000, 0x2000, A);
        assert_eq!(vm.lookup_range(0, u64::MAX).len(), 3, "another owner's mappings stay");
        vm.unmap_range(0x10800, 0x1000, MappingOwner::Svm);
        assert_eq!(vm.lookup_range(0, u64::MAX).len(), 3, "no whole pages, no change");
        vm.unmap_range(0x11000, 0x2000, MappingOwner::Svm);
        let rest: Vec<(u64, u64)> = vm.lookup_range(0, u64::MAX).iter().map(|m| (m.va, m.len)).collect();
        assert_eq!(rest, [(0x10000, 0x1000), (0x13000, 0x1000)]);
        assert_eq!(vm.read_u32(0x13000), Ok(0x0101_0101));
    }

    #[test]
    fn unmap_waits_for_accesses_under_way() {
        let (arena, vm) = (arena(), GpuVm::new());
        vm.map(0x10000, arena.alloc(4096, 0).expect("room"), RW, A).expect("free");
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let tables = vm.access();
            scope.spawn(|| {
                vm.unmap(0x10000);
                done.store(1, Ordering::SeqCst);
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(done.load(Ordering::SeqCst), 0);
            assert_eq!(tables.read(0x10000, &mut [0; 4]), Ok(()));
        });
        assert_eq!(vm.read_u32(0x10000), Err(fault(0x10000, false, true)));
    }
}
