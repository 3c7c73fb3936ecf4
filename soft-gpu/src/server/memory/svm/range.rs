//! The ranges of a process, in order of address.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use protocol::kfd::constants::{SvmFlags, SvmLocation};
use protocol::kfd::{Shared, SharedBacking, UserMem};

use super::super::limits::Charge;
use crate::mem::{GpuVm, MappingOwner, PAGE_SIZE};

/// `amdgpu_svm_default_granularity`: 2 MiB.
const DEFAULT_GRANULARITY: u8 = 9;

/// Attributes of a range (`struct svm_range`). GPUs are bits by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attrs {
    pub(super) preferred: SvmLocation,
    pub(super) prefetch: SvmLocation,
    pub(super) granularity: u8,
    pub(super) flags: SvmFlags,
    pub(super) access: u64,
    pub(super) in_place: u64,
}

impl Attrs {
    /// `svm_range_set_default_attributes`, with access for the GPUs in `access`.
    pub(super) fn new(access: u64) -> Self {
        Self {
            preferred: SvmLocation::UNDEFINED,
            prefetch: SvmLocation::UNDEFINED,
            granularity: DEFAULT_GRANULARITY,
            flags: SvmFlags::HOST_ACCESS | SvmFlags::COHERENT,
            access,
            in_place: 0,
        }
    }

    /// GPUs that get the range into their page tables.
    pub(super) fn gpus(&self) -> u64 {
        self.access | self.in_place
    }
}

/// One range; its first page is its key.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) pages: u64,
    pub(super) attrs: Attrs,
    /// Where the kernel would have the memory now; kept because mapping depends on it.
    pub(super) actual: SvmLocation,
    /// Whether GPUs have it (`mapped_to_gpu`).
    pub(super) mapped: bool,
    /// What the memory was when it was mapped, for the range and those that were split from it.
    pub(super) backing: Arc<Vec<Backing>>,
    /// Its share of system memory; none with XNACK.
    pub(super) charge: Option<Charge>,
}

/// Which memory a piece of a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    addr: u64,
    len: u64,
    /// Device and number of the file's inode, and the offset; `None` for local memory.
    file: Option<(u64, u64, u64)>,
}

impl Backing {
    pub(super) fn of(pieces: &[Shared]) -> Vec<Self> {
        let file = |piece: &Shared| match &piece.backing {
            SharedBacking::Local => None,
            SharedBacking::Descriptor { fd, offset } => {
                let inode = rustix::fs::fstat(fd.as_fd()).map(|stat| (stat.st_dev, stat.st_ino));
                // A file that cannot be looked at is no file we know.
                let (dev, ino) = inode.unwrap_or((0, 0));
                Some((dev, ino, *offset))
            }
        };
        pieces.iter().map(|piece| Self { addr: piece.addr, len: piece.len, file: file(piece) }).collect()
    }

    /// The file position of one address.
    fn at(list: &[Self], addr: u64) -> Option<Option<(u64, u64, u64)>> {
        let piece = list.iter().find(|piece| addr >= piece.addr && addr - piece.addr < piece.len)?;
        Some(piece.file.map(|(dev, ino, offset)| (dev, ino, offset + (addr - piece.addr))))
    }
}

/// All ranges of a process; they do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    by_page: BTreeMap<u64, Range>,
}

impl Ranges {
    /// First pages of the ranges that meet the pages `first..=last`.
    pub(super) fn meeting(&self, first: u64, last: u64) -> Vec<u64> {
        if last < first {
            return Vec::new();
        }
        let before =
            self.by_page.range(..first).next_back().filter(|(page, range)| *page + range.pages > first);
        let inside = self.by_page.range(first..=last);
        before.into_iter().chain(inside).map(|(&page, _)| page).collect()
    }

    /// Whether some range meets the pages `first..=last`.
    pub(in super::super) fn overlaps(&self, first: u64, last: u64) -> bool {
        !self.meeting(first, last).is_empty()
    }

    pub(super) fn get(&self, page: u64) -> Option<&Range> {
        self.by_page.get(&page)
    }

    pub(super) fn get_mut(&mut self, page: u64) -> Option<&mut Range> {
        self.by_page.get_mut(&page)
    }

    pub(super) fn insert(&mut self, page: u64, range: Range) {
        self.by_page.insert(page, range);
    }

    /// Makes a range that goes over the start of `page` two.
    pub(super) fn split(&mut self, page: u64) {
        let Some((&start, range)) = self.by_page.range_mut(..page).next_back() else { return };
        if start + range.pages <= page {
            return;
        }
        let rest = start + range.pages - page;
        range.pages -= rest;
        let tail = Range {
            pages: rest,
            attrs: range.attrs,
            actual: range.actual,
            mapped: range.mapped,
            backing: Arc::clone(&range.backing),
            charge: range.charge.as_mut().and_then(|charge| charge.split(rest * PAGE_SIZE)),
        };
        self.by_page.insert(page, tail);
    }

    /// Parts of the pages `first..=last` that no range has, as (first page, number of pages).
    pub(super) fn gaps(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut next = first;
        for page in self.meeting(first, last) {
            if page > next {
                gaps.push((next, page - next));
            }
            next = page + self.get(page).map_or(0, |range| range.pages);
        }
        if next <= last {
            gaps.push((next, last - next + 1));
        }
        gaps
    }

    /// Drops the ranges that meet the pages `first..=last` and whose memory the program has unmapped or replaced
    /// meanwhile; the kernel's MMU notifier does it at once.
    pub(in super::super) fn drop_stale(
        &mut self,
        mem: &dyn UserMem,
        vms: &[Option<Arc<GpuVm>>],
        first: u64,
        last: u64,
    ) {
        for page in self.meeting(first, last) {
            if self.get(page).is_some_and(|range| !is_current(mem, page, range)) {
                self.remove(page, vms);
            }
        }
    }

    fn remove(&mut self, page: u64, vms: &[Option<Arc<GpuVm>>]) {
        let Some(range) = self.by_page.remove(&page) else { return };
        for vm in vms.iter().flatten() {
            vm.unmap_range(page * PAGE_SIZE, range.pages * PAGE_SIZE, MappingOwner::Svm);
        }
    }

    /// Whether `pages` pages from `first` on are mapped on a GPU, and stay so (`kfd_queue_buffer_svm_get`).
    pub(in super::super) fn always_mapped(&self, gpu: usize, first: u64, pages: u64) -> bool {
        let (mut page, mut rest) = (first, pages);
        while rest > 0 {
            let found = self.by_page.range(..=page).next_back();
            let Some((start, range)) = found.filter(|(start, range)| *start + range.pages > page) else {
                return false;
            };
            let on_gpu =
                range.attrs.gpus().checked_shr(u32::try_from(gpu).unwrap_or(64)).unwrap_or(0) & 1 != 0;
            if !range.mapped || !on_gpu || !range.attrs.flags.contains(SvmFlags::GPU_ALWAYS_MAPPED) {
                return false;
            }
            let covered = (start + range.pages - page).min(rest);
            page += covered;
            rest -= covered;
        }
        pages > 0
    }

    /// Drops all ranges.
    pub(in super::super) fn clear(&mut self, vms: &[Option<Arc<GpuVm>>]) {
        for (page, range) in std::mem::take(&mut self.by_page) {
            for vm in vms.iter().flatten() {
                vm.unmap_range(page * PAGE_SIZE, range.pages * PAGE_SIZE, MappingOwner::Svm);
            }
        }
    }
}

/// Whether the memory of a range is still what it was.
fn is_current(mem: &dyn UserMem, page: u64, range: &Range) -> bool {
    let (addr, size) = (page * PAGE_SIZE, range.pages * PAGE_SIZE);
    if !mem.is_mapped(addr, size) {
        return false;
    }
    let in_files = range.backing.iter().any(|piece| piece.file.is_some());
    if !range.mapped || !in_files {
        return true;
    }
    // Memory that is shared already is found again where it was; anything else is new.
    let Ok(pieces) = mem.shared(addr, size) else { return false };
    let now = Backing::of(&pieces);
    now.iter().all(|piece| Backing::at(&range.backing, piece.addr) == Some(piece.file))
}
