//! Doorbell ids and the doorbell pages (`kfd_doorbell.c`, `allocate_doorbell`).

use protocol::Errno;
use protocol::kfd::constants::{MmapOffset, MmapType};
use protocol::kfd::topology::GfxVersion;
use protocol::kfd::{Mapping, Pages};

use super::MAX_QUEUES;
use super::slots::SdmaSlot;
use crate::device::Gpu;
use crate::mem::HostMem;
use crate::server::memory;
use crate::server::process::ProcessState;

/// `KFD_QUEUE_DOORBELL_MIRROR_OFFSET`: odd SDMA queues have their doorbell this many further on.
const MIRROR: u32 = 512;

/// Doorbells of 8 bytes that belong to other engines than the compute ones, and where SDMA's start
/// (`amdgpu_doorbell.h`).
struct Layout {
    first_non_cp: u32,
    last_non_cp: u32,
    first_sdma: u32,
    /// From one SDMA engine to the next.
    sdma_step: u32,
    /// `KFD_SDMA_SHADER_DOORBELL_GRANULARITY`, where the kernel aligns to it.
    sdma_align: u32,
}

impl Layout {
    fn of(gfx: GfxVersion) -> Self {
        match (gfx.major, gfx.minor, gfx.stepping) {
            // AMDGPU_DOORBELL64_*, vega10_doorbell_index_init: Vega 10, Vega 12 and Raven.
            (9, 0, 0..=4 | 9 | 12) => {
                Self { first_non_cp: 0xf0, last_non_cp: 0xff, first_sdma: 0xf0, sdma_step: 2, sdma_align: 1 }
            }
            // AMDGPU_DOORBELL_LAYOUT1_*, aqua_vanjaram_doorbell_index_init.
            (9, 4 | 5, _) => Self {
                first_non_cp: 0x100,
                last_non_cp: 0x1e8,
                first_sdma: 0x100,
                sdma_step: 10,
                sdma_align: 4,
            },
            // AMDGPU_VEGA20_DOORBELL_*, vega20_doorbell_index_init.
            (9, ..) => Self {
                first_non_cp: 0x100,
                last_non_cp: 0x18f,
                first_sdma: 0x100,
                sdma_step: 10,
                sdma_align: 1,
            },
            // AMDGPU_NAVI10_DOORBELL_*, nv_init_doorbell_index and soc21_init_doorbell_index.
            _ => Self {
                first_non_cp: 0x100,
                last_non_cp: 0x190,
                first_sdma: 0x100,
                sdma_step: 10,
                sdma_align: 1,
            },
        }
    }
}

/// The doorbell of an SDMA queue: fixed by engine and queue.
pub(super) fn sdma_doorbell(gfx: GfxVersion, slot: &SdmaSlot) -> u32 {
    let layout = Layout::of(gfx);
    let base = layout.first_sdma.saturating_add(slot.engine.saturating_mul(layout.sdma_step));
    base.next_multiple_of(layout.sdma_align) + (slot.queue & 1) * MIRROR + (slot.queue >> 1)
}

/// Doorbells of a process on a GPU that compute queues can have.
#[derive(Debug)]
pub(super) struct DoorbellIds {
    used: Vec<bool>,
}

impl DoorbellIds {
    /// None used, but for those of other engines (`init_doorbell_bitmap`).
    pub(super) fn new(gfx: GfxVersion) -> Self {
        let layout = Layout::of(gfx);
        let other_engines = layout.first_non_cp..=layout.last_non_cp;
        let used = (0u32..).take(MAX_QUEUES).map(|id| other_engines.contains(&(id % MIRROR))).collect();
        Self { used }
    }

    /// Takes the lowest free one.
    ///
    /// # Errors
    /// `EBUSY` when all are used.
    pub(super) fn take(&mut self) -> Result<u32, Errno> {
        let (id, used) = (0..).zip(self.used.iter_mut()).find(|(_, used)| !**used).ok_or(Errno::EBUSY)?;
        *used = true;
        Ok(id)
    }

    pub(super) fn free(&mut self, id: u32) {
        if let Some(used) = usize::try_from(id).ok().and_then(|id| self.used.get_mut(id)) {
            *used = false;
        }
    }
}

/// What CREATE_QUEUE says about the doorbell: where its pages are for `mmap`, and the byte in them.
///
/// The kernel gives the type and the GPU's id in the upper bits. To programs these are opaque (the thunk masks the
/// lower bits, see `DOORBELL_ALIGN` in `server::memory`, and maps the rest), and under the launcher `/dev/kfd` is the
/// very backing file: so here it is the place in that file. [`mmap`] takes the kernel's form as well.
pub(super) fn offset_for_user(pages: &HostMem, id: u32, gpu: &Gpu) -> u64 {
    let base = match pages.file_range() {
        Some((_, offset)) => offset,
        None => MmapOffset::new(MmapType::DOORBELL, gpu.spec.gpu_id).0,
    };
    base | byte_offset(id)
}

/// The byte of a doorbell in its pages.
pub(super) fn byte_offset(id: u32) -> u64 {
    u64::from(id) * crate::engine::doorbell::SIZE as u64
}

/// `kfd_doorbell_mmap`: the doorbell pages behind an offset of `/dev/kfd`; `None` if it is not one of doorbells.
pub(crate) fn mmap(process: &ProcessState, offset: u64, len: u64) -> Option<Result<Mapping, Errno>> {
    if MmapOffset(offset).kind() == MmapType::DOORBELL {
        let gpu_id = MmapOffset(offset).gpu_id();
        let Some(gpu) = process.device.gpu(gpu_id) else { return Some(Err(Errno::ENODEV)) };
        return Some(whole(process, gpu, len));
    }
    process.device.gpus.iter().find(|gpu| starts_at(process, gpu, offset)).map(|gpu| whole(process, gpu, len))
}

/// Gives all doorbells of a GPU other pages ([`Process::place`](protocol::kfd::Process::place)). The offset is the kernel's.
///
/// # Errors
/// `EINVAL` for an offset of something else, and unless it is all of them; `ENODEV` for no GPU; `EBUSY` for the second time.
pub(crate) fn place(process: &ProcessState, offset: u64, len: u64, pages: Pages<'_>) -> Result<(), Errno> {
    if MmapOffset(offset).kind() != MmapType::DOORBELL {
        return Err(Errno::EINVAL);
    }
    let gpu = process.device.gpu(MmapOffset(offset).gpu_id()).ok_or(Errno::ENODEV)?;
    let doorbells = process.memory.doorbells(&process.device, gpu.spec.gpu_id)?;
    if len != doorbells.len() as u64 {
        return Err(Errno::EINVAL);
    }
    memory::place(&doorbells, pages)
}

fn starts_at(process: &ProcessState, gpu: &Gpu, offset: u64) -> bool {
    let pages = process.memory.doorbells_if_made(&process.device, gpu.spec.gpu_id);
    pages.and_then(|pages| pages.file_range()).is_some_and(|(_, at)| at == offset)
}

/// Only all doorbells of a process can be mapped, not some.
fn whole(process: &ProcessState, gpu: &Gpu, len: u64) -> Result<Mapping, Errno> {
    let pages = process.memory.doorbells(&process.device, gpu.spec.gpu_id)?;
    if len != pages.len() as u64 {
        return Err(Errno::EINVAL);
    }
    let (fd, offset) = pages.file_range().ok_or(Errno::ENOMEM)?;
    Ok(Mapping { fd, offset, len, writable: true })
}
