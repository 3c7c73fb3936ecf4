//! What stands behind a range of a process: what is shared already, and what has to be converted.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::{Shared, SharedBacking};

use super::convert::Piece;
use super::error::ConvertError;
use super::files::{self, FileKey};
use super::{Inner, lock};
use crate::proc_maps::{self, Region};
use crate::vm_copy;

/// What is to be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether the device may write.
    pub writable: bool,
}

/// The memory map of a process as far as it concerns a range.
pub struct Plan {
    /// Pieces that have to be converted.
    pub private: Vec<Piece>,
    /// Pieces that are shared files, with the file.
    pub shared: Vec<(Region, Arc<OwnedFd>)>,
    /// Every file that the process has mapped shared.
    mapped: HashSet<FileKey>,
    vdso: Option<Region>,
}

impl Plan {
    /// Looks at the process as it is now, through its thread `task`.
    ///
    /// # Errors
    /// The range has a hole, or memory that cannot be shared.
    pub fn make(inner: &Inner, task: u32, range: Range) -> Result<Self, ConvertError> {
        let Range { addr, len, writable } = range;
        let failed = |errno| ConvertError::Range { addr, errno };
        let (regions, parts) =
            proc_maps::look_up(&format!("/proc/{task}/maps"), addr, len, writable).map_err(failed)?;
        let mut plan = Self {
            private: Vec::new(),
            shared: Vec::new(),
            mapped: regions.iter().filter(|region| region.shared).map(FileKey::of_region).collect(),
            vdso: regions.iter().find(|region| region.name == b"[vdso]").cloned(),
        };
        for part in parts {
            let whole = regions.iter().find(|whole| whole.end >= part.end).ok_or(failed(Errno::EFAULT))?;
            plan.add(inner, task, part, whole, writable)?;
        }
        Ok(plan)
    }

    /// Looks for memory that was converted and that the device has let go: what is shared is that.
    ///
    /// # Errors
    /// The process is gone.
    pub fn released(inner: &Inner, task: u32) -> Result<Self, ConvertError> {
        let regions = memory_map(task).map_err(|errno| ConvertError::Range { addr: 0, errno })?;
        let mapped = regions.iter().filter(|region| region.shared).map(FileKey::of_region).collect();
        let mut notes = lock(&inner.notes);
        notes.keep_mapped(&mapped);
        let released =
            notes.converted.iter().filter_map(|key| Some((*key, Arc::clone(notes.released(*key)?))));
        let released: HashMap<FileKey, Arc<OwnedFd>> = released.collect();
        let file = |region: &Region| released.get(&FileKey::of_region(region)).filter(|_| region.shared);
        let shared = regions.iter().filter_map(|region| Some((region.clone(), Arc::clone(file(region)?))));
        let vdso = regions.iter().find(|region| region.name == b"[vdso]").cloned();
        Ok(Self { private: Vec::new(), shared: shared.collect(), mapped, vdso })
    }

    /// What [`Plan::released`] found is private now.
    pub fn forget_released(&self, inner: &Inner) {
        let mut notes = lock(&inner.notes);
        for (region, _) in &self.shared {
            let key = FileKey::of_region(region);
            notes.converted.remove(&key);
            notes.held.remove(&key);
        }
    }

    /// Adds `part` of the mapping `whole`.
    fn add(
        &mut self,
        inner: &Inner,
        task: u32,
        part: Region,
        whole: &Region,
        writable: bool,
    ) -> Result<(), ConvertError> {
        let failed = |errno| ConvertError::Range { addr: part.start, errno };
        if part.shared {
            match inner.files.find(task, whole, writable) {
                Ok(file) => self.shared.push((part, file)),
                // Converted for a parent that has it private again: it is this process's own since the fork.
                Err(Errno::EOPNOTSUPP) if files::is_converted(whole) => {
                    self.private.push(Piece { region: part, is_stack: false, end_of_stack: false });
                }
                Err(errno) => return Err(failed(errno)),
            }
        } else if part.is_hugetlb() {
            log::warn!("process {}: private huge pages at {:#x} cannot be shared", inner.pid, part.start);
            return Err(failed(Errno::EOPNOTSUPP));
        } else {
            let is_stack = whole.is_stack() || lock(&inner.notes).stack_parts.contains(&whole.end);
            let end_of_stack = is_stack && part.start == whole.start;
            self.private.push(Piece { region: part, is_stack, end_of_stack });
        }
        Ok(())
    }

    /// The answer, when nothing is private any more. Files that are mapped no more are let go.
    pub fn hand_out(self, inner: &Inner) -> Vec<Shared> {
        let mut notes = lock(&inner.notes);
        notes.keep_mapped(&self.mapped);
        let mut pieces = Vec::with_capacity(self.shared.len());
        for (region, file) in self.shared {
            let key = FileKey::of_region(&region);
            if files::is_converted(&region) {
                // By a parent, before the fork.
                notes.converted.insert(key);
            }
            notes.held.insert(key, Arc::clone(&file));
            let backing = SharedBacking::Descriptor { fd: file, offset: region.offset };
            pieces.push(Shared { addr: region.start, len: region.len(), backing });
        }
        pieces
    }

    /// Address of a `syscall` instruction in the program's vdso.
    ///
    /// # Errors
    /// There is none (`vdso=0` on the kernel's command line).
    pub fn find_syscall(&self, task: u32) -> Result<u64, ConvertError> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        const VDSO_MAX: u64 = 64 << 10;
        let find = || {
            let vdso = self.vdso.as_ref()?;
            let mut code = vec![0; usize::try_from(vdso.len().min(VDSO_MAX)).ok()?];
            vm_copy::read(task, vdso.start, &mut code).ok()?;
            let at = code.windows(SYSCALL.len()).position(|bytes| bytes == SYSCALL)?;
            vdso.start.checked_add(u64::try_from(at).ok()?)
        };
        find().ok_or(ConvertError::Own {
            what: "looking for a syscall instruction in the vdso",
            errno: Errno::ENOENT,
        })
    }
}

fn memory_map(task: u32) -> Result<Vec<Region>, Errno> {
    let text = proc_maps::read_text(&format!("/proc/{task}/maps")).map_err(|_| Errno::ESRCH)?;
    proc_maps::parse(&text).map_err(|error| {
        log::error!("thread {task}: {error}");
        Errno::EIO
    })
}
