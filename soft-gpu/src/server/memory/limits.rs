//! How much memory there is, and who has it (`kfd_mem_limit`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::kfd::ProcessId;
use protocol::kfd::constants::AllocFlags;

use crate::mem::PAGE_SIZE;
use crate::profile::Machine;

/// `AMDGPU_RESERVE_MEM_LIMIT`: system memory that KFD leaves to others.
const RESERVED_SYSTEM: u64 = 3 << 29;
/// `AMDGPU_VM_RESERVED_VRAM`: least VRAM set aside for page tables.
const RESERVED_VRAM: u64 = 8 << 20;
/// `VRAM_AVAILABILITY_ALIGN`: VRAM that a buffer is counted with in what is available.
const VRAM_AVAILABILITY_ALIGN: u64 = 2 << 20;

/// The limits of the whole machine, shared by all processes.
#[derive(Debug)]
pub(crate) struct Limits {
    max_system: u64,
    max_ttm: u64,
    /// VRAM set aside for page tables on each GPU (`ESTIMATE_PT_SIZE`).
    page_tables: u64,
    /// VRAM of each GPU.
    vram: Vec<u64>,
    /// Most VRAM that one process gets on all GPUs together; `u64::MAX` without such a limit.
    per_process: AtomicU64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    system: u64,
    ttm: u64,
    vram: Vec<VramUsed>,
    /// VRAM of each process that has some.
    by_process: HashMap<ProcessId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct VramUsed {
    bytes: u64,
    /// Each buffer rounded up to [`VRAM_AVAILABILITY_ALIGN`].
    aligned: u64,
}

impl Limits {
    /// Limits of a machine with `system` bytes of system memory and GPUs with `vram` bytes each
    /// (`amdgpu_amdkfd_gpuvm_init_mem_limits`; TTM's own limit is half of the memory).
    pub(crate) fn new(system: u64, vram: Vec<u64>) -> Self {
        let mut max_system = system - (system >> 6);
        if max_system < 2 * RESERVED_SYSTEM {
            max_system >>= 1;
        } else {
            max_system -= RESERVED_SYSTEM;
        }
        let total = vram.iter().fold(0u64, |sum, &size| sum.saturating_add(size));
        let used = Used { vram: vec![VramUsed::default(); vram.len()], ..Used::default() };
        Self {
            max_system,
            max_ttm: max_ttm(system),
            page_tables: page_tables(total),
            vram,
            per_process: AtomicU64::new(u64::MAX),
            used: Mutex::new(used),
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets no process have more than `bytes` of VRAM from now on. The kernel has no such limit.
    pub(crate) fn limit_vram_per_process(&self, bytes: u64) {
        self.per_process.store(bytes, Ordering::Relaxed);
    }

    /// Counts a buffer of `size` bytes of `process` on the GPU with this index until the result is dropped
    /// (`amdgpu_amdkfd_reserve_mem_limit`).
    ///
    /// # Errors
    /// `ENOMEM` where the buffer would go over a limit.
    pub(crate) fn charge(
        self: &Arc<Self>,
        process: ProcessId,
        gpu: usize,
        size: u64,
        flags: AllocFlags,
    ) -> Result<Charge, Errno> {
        let charge = Charge { limits: Arc::clone(self), process, gpu, size, kind: ChargeKind::of(flags) };
        let (system, ttm, vram) = charge.needs();
        let vram_limit = self.vram.get(gpu).copied().unwrap_or(0).saturating_sub(self.page_tables);
        let mut used = self.used();
        let fits = |now: u64, more: u64, limit: u64| now.checked_add(more).is_some_and(|sum| sum <= limit);
        let vram_used = used.vram.get(gpu).copied().unwrap_or_default();
        let own = used.by_process.get(&process).copied().unwrap_or(0);
        let ok = fits(used.system, system, self.max_system)
            && fits(used.ttm, ttm, self.max_ttm)
            && fits(vram_used.bytes, vram, vram_limit)
            && fits(own, vram, self.per_process.load(Ordering::Relaxed));
        if !ok {
            drop(used);
            // Nothing was counted: nothing to give back.
            charge.forget();
            return Err(Errno::ENOMEM);
        }
        used.add(process, gpu, system, ttm, vram);
        Ok(charge)
    }

    /// VRAM that a process can still get (`amdgpu_amdkfd_get_available_memory`).
    pub(crate) fn available(&self, process: ProcessId, gpu: usize) -> u64 {
        let (used, own) = {
            let used = self.used();
            let own = used.by_process.get(&process).copied().unwrap_or(0);
            (used.vram.get(gpu).copied().unwrap_or_default(), own)
        };
        let size = self.vram.get(gpu).copied().unwrap_or(0);
        let rest = size.saturating_sub(used.aligned).saturating_sub(self.page_tables);
        let rest = rest.min(self.per_process.load(Ordering::Relaxed).saturating_sub(own));
        rest & !(VRAM_AVAILABILITY_ALIGN - 1)
    }

    /// Bytes of VRAM in use (`AMDGPU_INFO_VRAM_USAGE`).
    pub(crate) fn vram_used(&self, gpu: usize) -> u64 {
        self.used().vram.get(gpu).map_or(0, |used| used.bytes)
    }

    /// Bytes of system memory in use through TTM (`AMDGPU_INFO_GTT_USAGE`), of all GPUs.
    pub(crate) fn gtt_used(&self) -> u64 {
        self.used().ttm
    }

    /// Bytes of system memory that TTM may use.
    pub(crate) fn gtt_limit(&self) -> u64 {
        self.max_ttm
    }
}

/// TTM's limit on a machine with so much system memory.
fn max_ttm(system: u64) -> u64 {
    (system / 2) & !(PAGE_SIZE - 1)
}

/// VRAM of each GPU that is set aside where all have so much together.
fn page_tables(total: u64) -> u64 {
    (total >> 14).max(RESERVED_VRAM)
}

impl Machine {
    /// VRAM that buffers can have on each GPU, by KFD's id of it: what several [`SoftGpu`](crate::SoftGpu)s of one machine
    /// have to share.
    #[must_use]
    pub fn vram_for_buffers(&self) -> Vec<(u32, u64)> {
        let total = self.gpus.iter().fold(0u64, |sum, gpu| sum.saturating_add(gpu.vram.size));
        let rest = |size: u64| size.saturating_sub(page_tables(total));
        self.gpus.iter().map(|gpu| (gpu.gpu_id, rest(gpu.vram.size))).collect()
    }

    /// System memory that the driver allocates for buffers at most (GTT).
    #[must_use]
    pub fn gtt_for_buffers(&self) -> u64 {
        max_ttm(self.system_memory())
    }
}

impl Used {
    fn add(&mut self, process: ProcessId, gpu: usize, system: u64, ttm: u64, vram: u64) {
        self.system += system;
        self.ttm += ttm;
        if let Some(used) = self.vram.get_mut(gpu) {
            used.bytes += vram;
            used.aligned += vram.next_multiple_of(VRAM_AVAILABILITY_ALIGN);
        }
        if vram != 0 {
            *self.by_process.entry(process).or_default() += vram;
        }
    }

    fn sub(&mut self, process: ProcessId, gpu: usize, system: u64, ttm: u64, vram: u64) {
        self.system -= system;
        self.ttm -= ttm;
        if let Some(used) = self.vram.get_mut(gpu) {
            used.bytes -= vram;
            used.aligned -= vram.next_multiple_of(VRAM_AVAILABILITY_ALIGN);
        }
        if let Some(own) = self.by_process.get_mut(&process)
            && vram != 0
        {
            *own -= vram;
            if *own == 0 {
                self.by_process.remove(&process);
            }
        }
    }
}

/// What a buffer counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChargeKind {
    Gtt,
    Vram,
    Userptr,
    /// Doorbells and registers.
    Nothing,
}

impl ChargeKind {
    /// In the kernel's order: a buffer with several kinds counts as the first.
    fn of(flags: AllocFlags) -> Self {
        if flags.contains(AllocFlags::GTT) {
            ChargeKind::Gtt
        } else if flags.contains(AllocFlags::VRAM) {
            ChargeKind::Vram
        } else if flags.contains(AllocFlags::USERPTR) {
            ChargeKind::Userptr
        } else {
            ChargeKind::Nothing
        }
    }
}

/// A buffer's share of the limits, given back when dropped (`amdgpu_amdkfd_release_notify`).
#[derive(Debug)]
pub(crate) struct Charge {
    limits: Arc<Limits>,
    /// Who allocated it; a buffer that lives on in other processes still counts as theirs.
    process: ProcessId,
    gpu: usize,
    size: u64,
    kind: ChargeKind,
}

impl Charge {
    /// Bytes of (system memory, TTM, VRAM).
    fn needs(&self) -> (u64, u64, u64) {
        match self.kind {
            ChargeKind::Gtt => (self.size, self.size, 0),
            ChargeKind::Vram => (0, 0, self.size),
            ChargeKind::Userptr => (self.size, 0, 0),
            ChargeKind::Nothing => (0, 0, 0),
        }
    }

    /// Takes the part of `size` bytes out of a share of program memory, as a share of its own. `None` for more than
    /// there is, and for kinds that are not counted byte by byte.
    pub(super) fn split(&mut self, size: u64) -> Option<Charge> {
        if self.kind != ChargeKind::Userptr || size > self.size {
            return None;
        }
        self.size -= size;
        Some(Charge {
            limits: Arc::clone(&self.limits),
            process: self.process,
            gpu: self.gpu,
            size,
            kind: self.kind,
        })
    }

    fn forget(mut self) {
        self.kind = ChargeKind::Nothing;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let (system, ttm, vram) = self.needs();
        if (system, ttm, vram) != (0, 0, 0) {
            self.limits.used().sub(self.process, self.gpu, system, ttm, vram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const A: ProcessId = ProcessId(1);
    const B: ProcessId = ProcessId(2);

    fn limits() -> Arc<Limits> {
        Arc::new(Limits::new(64 * GIB, vec![16 * GIB, 16 * GIB]))
    }

    // amdgpu_amdkfd_gpuvm_init_mem_limits: 63/64 of the memory less 1.5 GiB; ttm_tt_pages_limit: half.
    #[test]
    fn limits_follow_from_the_memory_of_the_machine() {
        let limits = limits();
        assert_eq!(limits.max_system, 63 * GIB - (3 << 29));
        assert_eq!(limits.max_ttm, 32 * GIB);
        assert_eq!(Limits::new(2 * GIB, vec![]).max_system, (2 * GIB - 32 * (1 << 20)) / 2);
    }

    // ESTIMATE_PT_SIZE: 1/16384 of all VRAM, at least 8 MiB.
    #[test]
    fn page_tables_are_set_aside_on_each_gpu() {
        assert_eq!(limits().available(A, 0), 16 * GIB - (8 << 20));
        assert_eq!(Limits::new(64 * GIB, vec![192 * GIB]).available(A, 0), 192 * GIB - (12 << 20));
    }

    #[test]
    fn a_machine_says_what_its_buffers_can_have() {
        for profile in crate::Profile::ALL {
            let machine = profile.machine(crate::Kernel::default());
            let limits = Arc::new(Limits::new(
                machine.system_memory(),
                machine.gpus.iter().map(|gpu| gpu.vram.size).collect(),
            ));
            let vram = machine.vram_for_buffers();
            assert_eq!(vram.len(), machine.gpus.len());
            for (index, (_, bytes)) in vram.into_iter().enumerate() {
                assert!(limits.charge(A, index, bytes + PAGE_SIZE, AllocFlags::VRAM).is_err(), "{profile}");
                assert!(limits.charge(A, index, bytes, AllocFlags::VRAM).is_ok(), "{profile}");
            }
            let gtt = machine.gtt_for_buffers();
            assert!(limits.charge(A, 0, gtt + PAGE_SIZE, AllocFlags::GTT).is_err(), "{profile}");
            assert!(limits.charge(A, 0, gtt, AllocFlags::GTT).is_ok(), "{profile}");
        }
    }

    #[test]
    fn vram_is_counted_per_gpu_and_availability_in_two_mebibyte_steps() {
        let limits = limits();
        let before = limits.available(A, 0);
        let charge = limits.charge(A, 0, 4096, AllocFlags::VRAM).expect("fits");
        assert_eq!(limits.available(A, 0), before - (2 << 20));
        assert_eq!(limits.vram_used(0), 4096);
        assert_eq!(limits.available(A, 1), before);
        drop(charge);
        assert_eq!((limits.available(A, 0), limits.vram_used(0)), (before, 0));
    }

    // amdgpu_amdkfd_reserve_mem_limit answers ENOMEM, and nothing stays counted.
    #[test]
    fn a_buffer_over_a_limit_is_enomem_and_is_not_counted() {
        let limits = limits();
        for (size, flags) in [
            (16 * GIB - (8 << 20) + 4096, AllocFlags::VRAM),
            (32 * GIB + 4096, AllocFlags::GTT),
            (62 * GIB, AllocFlags::USERPTR),
            (u64::MAX - 4095, AllocFlags::USERPTR),
        ] {
            assert_eq!(limits.charge(A, 0, size, flags).err(), Some(Errno::ENOMEM), "{size:#x}");
        }
        let all = limits.charge(A, 0, 16 * GIB - (8 << 20), AllocFlags::VRAM).expect("exactly all");
        assert_eq!(limits.charge(A, 0, 4096, AllocFlags::VRAM).err(), Some(Errno::ENOMEM));
        drop(all);
        assert_eq!(limits.vram_used(0), 0);
        let system = limits.charge(A, 0, 32 * GIB, AllocFlags::GTT).expect("all of TTM's");
        assert!(limits.charge(A, 0, 29 * GIB, AllocFlags::USERPTR).is_ok(), "userptr is not TTM's");
        drop(system);
        assert_eq!(limits.gtt_used(), 0);
        let mut whole = limits.charge(A, 0, 3 * GIB, AllocFlags::USERPTR).expect("fits");
        let part = whole.split(GIB).expect("less than the whole");
        assert!(whole.split(3 * GIB).is_none());
        assert_eq!(limits.used().system, 3 * GIB);
        drop(whole);
        assert_eq!(limits.used().system, GIB);
        drop(part);
        assert_eq!(limits.used().system, 0);
    }

    #[test]
    fn z02_a_process_gets_no_more_vram_than_its_share_and_others_do_not_feel_it() {
        // Case Z02.
        let limits = limits();
        limits.limit_vram_per_process(256 << 20);
        assert_eq!(limits.charge(A, 0, 300 << 20, AllocFlags::VRAM).err(), Some(Errno::ENOMEM));
        let most = limits.charge(A, 0, 200 << 20, AllocFlags::VRAM).expect("within the share");
        assert_eq!(
            limits.charge(A, 1, 57 << 20, AllocFlags::VRAM).err(),
            Some(Errno::ENOMEM),
            "all GPUs together"
        );
        assert_eq!((limits.available(A, 1), limits.available(B, 1)), (56 << 20, 256 << 20));
        let other = limits.charge(B, 0, 256 << 20, AllocFlags::VRAM).expect("a share of its own");
        drop(most);
        assert_eq!((limits.available(A, 0), limits.available(B, 0)), (256 << 20, 0));
        assert!(limits.charge(A, 0, 1 << 30, AllocFlags::GTT).is_ok(), "system memory is not VRAM");
        drop(other);
        assert!(limits.used().by_process.is_empty());
    }
}
