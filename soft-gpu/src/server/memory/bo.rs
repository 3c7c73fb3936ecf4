//! Buffer objects: memory of one GPU, whoever uses it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::kfd::ProcessId;

use super::limits::Charge;
use crate::backing::RENDER_FILE_SIZE;
use crate::device::Gpu;
use crate::mem::{HostMem, PAGE_SIZE};

/// What a buffer object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoKind {
    /// Memory of the GPU.
    Vram,
    /// System memory that the driver allocates.
    Gtt,
    /// Memory of a program.
    Userptr,
    /// The doorbells of a process.
    Doorbell,
    /// The page of registers that programs may write.
    MmioRemap,
}

impl BoKind {
    /// Whether a CPU mapping of the buffer through a render node works. A doorbell or register
    /// buffer can be mapped, but has no pages behind it (`ttm_bo_vm_reserve`: `SIGBUS`).
    pub(super) fn has_pages(self) -> bool {
        matches!(self, BoKind::Vram | BoKind::Gtt)
    }
}

/// A buffer object (`struct amdgpu_bo`). Lives as long as a handle, a descriptor or a mapping of it.
#[derive(Debug)]
pub(crate) struct Bo {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) kind: BoKind,
    /// Whether it was allocated for CPU access (`AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED`).
    pub(crate) public: bool,
    pub(crate) mem: HostMem,
    /// Where a render node maps it (`amdgpu_bo_mmap_offset`).
    pub(crate) mmap_offset: u64,
    /// Render node files that may map it (`drm_vma_node_allow`), with a count each.
    viewers: Mutex<Vec<(u64, u32)>>,
    /// What programs say to each other about it (`amdgpu_bo_set_metadata`).
    metadata: Mutex<Metadata>,
    /// How many queue buffers each (process, GPU) has in it (`amdgpu_bo_va::queue_refcount`).
    queue_refs: Mutex<Vec<(ProcessId, usize, Arc<AtomicU32>)>>,
    _charge: Option<Charge>,
}

/// Metadata of a buffer, which the driver only keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    pub(crate) flags: u64,
    pub(crate) tiling: u64,
    /// At most 256 bytes.
    pub(crate) data: Vec<u8>,
}

impl Bo {
    /// A buffer object over `mem`, which a CPU can map from now on.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        kind: BoKind,
        public: bool,
        mem: HostMem,
        charge: Option<Charge>,
    ) -> Arc<Self> {
        let in_file = mem.file_range().map(|(_, offset)| offset).filter(|_| kind.has_pages());
        let mmap_offset = in_file.unwrap_or_else(|| gpu.nodes.offset_beyond_file(mem.len() as u64));
        let bo = Arc::new(Self {
            gpu: Arc::clone(gpu),
            kind,
            public,
            mem,
            mmap_offset,
            viewers: Mutex::default(),
            queue_refs: Mutex::default(),
            metadata: Mutex::default(),
            _charge: charge,
        });
        gpu.nodes.add(&bo);
        bo
    }

    /// Its metadata.
    pub(crate) fn metadata(&self) -> MutexGuard<'_, Metadata> {
        lock(&self.metadata)
    }

    /// Size in bytes, whole pages.
    pub(crate) fn size(&self) -> u64 {
        self.mem.len() as u64
    }

    /// Lets a render node file map it (`drm_vma_node_allow`).
    pub(crate) fn allow(&self, drm_file: u64) {
        let mut viewers = lock(&self.viewers);
        match viewers.iter_mut().find(|(file, _)| *file == drm_file) {
            Some((_, count)) => *count += 1,
            None => viewers.push((drm_file, 1)),
        }
    }

    /// Takes back one [`Bo::allow`] (`drm_vma_node_revoke`).
    pub(crate) fn revoke(&self, drm_file: u64) {
        lock(&self.viewers).retain_mut(|(file, count)| {
            if *file == drm_file {
                *count -= 1;
            }
            *count != 0
        });
    }

    /// Whether a render node file may map it (`drm_vma_node_is_allowed`).
    pub(crate) fn allows(&self, drm_file: u64) -> bool {
        lock(&self.viewers).iter().any(|(file, _)| *file == drm_file)
    }

    /// The count of queue buffers in it for one page table. Every handle of the buffer in the same
    /// page table has the same count, as they share one `amdgpu_bo_va`.
    pub(super) fn queue_refs(&self, process: ProcessId, gpu: usize) -> Arc<AtomicU32> {
        let mut all = lock(&self.queue_refs);
        all.retain(|(_, _, refs)| Arc::strong_count(refs) > 1);
        if let Some((_, _, refs)) = all.iter().find(|(p, g, _)| *p == process && *g == gpu) {
            return Arc::clone(refs);
        }
        let refs = Arc::new(AtomicU32::new(0));
        all.push((process, gpu, Arc::clone(&refs)));
        refs
    }
}

impl Drop for Bo {
    fn drop(&mut self) {
        self.gpu.nodes.remove(self.mmap_offset);
    }
}

/// The buffers of a GPU by `mmap` offset (the `vma_offset_manager` of a DRM device).
#[derive(Debug, Default)]
pub(crate) struct MmapNodes {
    by_offset: Mutex<HashMap<u64, Weak<Bo>>>,
    /// Bytes of offsets beyond the end of the render file that are in use or used up.
    beyond: AtomicU64,
}

impl MmapNodes {
    /// An offset for a buffer that is not in the render file: beyond its end, so that a program's
    /// `mmap` of the file succeeds and the first touch is `SIGBUS`.
    fn offset_beyond_file(&self, len: u64) -> u64 {
        RENDER_FILE_SIZE + self.beyond.fetch_add(len.max(PAGE_SIZE), Ordering::Relaxed)
    }

    fn add(&self, bo: &Arc<Bo>) {
        lock(&self.by_offset).insert(bo.mmap_offset, Arc::downgrade(bo));
    }

    fn remove(&self, offset: u64) {
        lock(&self.by_offset).remove(&offset);
    }

    /// The buffer that starts at this offset.
    pub(crate) fn get(&self, offset: u64) -> Option<Arc<Bo>> {
        lock(&self.by_offset).get(&offset).and_then(Weak::upgrade)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
