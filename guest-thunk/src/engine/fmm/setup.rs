//! What is done once before memory can be had: apertures, page tables, cache policy, the page of registers.

use std::sync::{Arc, PoisonError};

use protocol::Errno;
use protocol::hsakmt::{MemFlags, Status};
use protocol::kfd::args::{
    AcquireVmArgs, GetProcessAperturesArgs, GetProcessAperturesNewArgs, SetMemoryPolicyArgs,
};
use protocol::kfd::constants::{AllocFlags, CachePolicy};
use protocol::kfd::types::ProcessDeviceApertures;
use protocol::kfd::{FileId, Ioctl};

use super::addresses::Want;
use super::bo::{Ask, Bo};
use super::buffers::{Buffer, Kind, Life};
use super::machine::{Found, GpuApertures, Machine, Opened, found};
use super::vm::{Access, PAGE};
use crate::engine::topology::Snapshot;
use crate::engine::{Engine, Result, room};

/// Most nodes that KFD is asked for: far more than it has, so that a topology cannot choose how much memory is taken.
const MAX_NODES: usize = 4096;

impl Engine {
    /// Gets memory ready on the GPUs of a topology. Once done, the same GPUs need nothing more.
    ///
    /// # Errors
    /// `ERROR` if KFD or a render node refuses, `NO_MEMORY` if there are no addresses. What was done by then is KFD's
    /// state of the process (page tables that are acquired), which the next try finds and goes on with.
    pub(crate) fn memory_set_up(&self, snapshot: &Snapshot) -> Result<()> {
        let _one = self.memory.setting_up.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.memory.machines.last();
        if before.is_some_and(|before| is_same(before, snapshot)) {
            return Ok(());
        }
        let found = found(snapshot)?;
        let opened = self.open_gpus(snapshot, &found)?;
        for gpu in &opened {
            self.acquire_vm(gpu.found.gpu_id, gpu.render)?;
        }
        let mut machine = Machine::new(snapshot, &opened, before, &self.options)?;
        for gpu in opened.iter().filter(|gpu| gpu.is_canonical()) {
            self.set_policy(gpu.found.gpu_id, machine.addresses.coherent())?;
        }
        for place in 0..machine.gpus.len() {
            let page = self.registers(&machine, place, before);
            if let Some(gpu) = machine.gpus.get_mut(place) {
                gpu.apertures.mmio = page.map(|page| (page, page + PAGE - 1));
            }
        }
        self.memory.machines.push(machine);
        Ok(())
    }

    /// What was found out, after setting memory up if nobody has.
    ///
    /// # Errors
    /// Those of reading the topology and of [`Engine::memory_set_up`].
    pub(super) fn machine(&self) -> Result<&Machine> {
        if let Some(machine) = self.memory.machines.last() {
            return Ok(machine);
        }
        let snapshot = self.snapshot()?;
        self.memory_set_up(&snapshot)?;
        self.memory.machines.last().ok_or(Status::Error)
    }

    /// Apertures of a GPU; `None` for other nodes, and before memory is set up.
    pub(crate) fn gpu_apertures(&self, node: u32) -> Option<GpuApertures> {
        self.memory.machines.last()?.gpu(node).map(|gpu| gpu.apertures)
    }

    /// The GPUs of the topology for which KFD tells apertures, in KFD's order.
    fn open_gpus(&self, snapshot: &Snapshot, found: &[Found]) -> Result<Vec<Opened>> {
        // KFD's numbers of nodes: those that this process cannot see count too.
        let last = snapshot.nodes.iter().map(|node| node.kfd.id).max().unwrap_or(0);
        let count = usize::try_from(last).map_or(MAX_NODES, |last| last.saturating_add(1).min(MAX_NODES));
        let mut opened = Vec::new();
        room::reserve(&mut opened, found.len())?;
        for kfd in self.apertures(count)? {
            let Some(found) = found.iter().find(|found| found.gpu_id == kfd.gpu_id) else { continue };
            let render = self.channel.render_file(found.minor).map_err(|errno| {
                log::error!(
                    "/dev/dri/renderD{} of node {} cannot be opened: {errno}",
                    found.minor,
                    found.node
                );
                Status::Error
            })?;
            opened.push(Opened { found: found.clone(), render, kfd });
        }
        if let Some(missing) =
            found.iter().find(|found| opened.iter().all(|gpu| gpu.found.node != found.node))
        {
            log::warn!("KFD has no apertures for node {}: it has no memory", missing.node);
        }
        Ok(opened)
    }

    fn apertures(&self, count: usize) -> Result<Vec<ProcessDeviceApertures>> {
        let mut list = room::filled(count, ProcessDeviceApertures::default())?;
        let mut args = GetProcessAperturesNewArgs {
            kfd_process_device_apertures_ptr: list.as_mut_ptr().expose_provenance() as u64,
            num_of_nodes: u32::try_from(count).unwrap_or(u32::MAX),
            pad: 0,
        };
        match self.channel.ioctl(Ioctl::GetProcessAperturesNew, &mut args) {
            Ok(()) => list.truncate(usize::try_from(args.num_of_nodes).unwrap_or(usize::MAX)),
            Err(errno) => {
                log::debug!("KFD tells no apertures, the older call is tried: {errno}");
                list = self.apertures_of_old_kernel()?;
            }
        }
        Ok(list)
    }

    /// Before Linux 4.5: room for seven GPUs.
    fn apertures_of_old_kernel(&self) -> Result<Vec<ProcessDeviceApertures>> {
        let mut args = GetProcessAperturesArgs::default();
        self.channel.ioctl(Ioctl::GetProcessApertures, &mut args).map_err(|errno| {
            log::error!("KFD tells no apertures: {errno}");
            Status::Error
        })?;
        let count = usize::try_from(args.num_of_nodes).unwrap_or(usize::MAX);
        Ok(args.process_apertures.into_iter().take(count).collect())
    }

    /// Makes the render node's page tables those of this process. Again with the same file changes nothing.
    fn acquire_vm(&self, gpu_id: u32, render: FileId) -> Result<()> {
        /// Stands for the file in the arguments.
        const FD: i32 = 0;
        let mut args = AcquireVmArgs { drm_fd: FD.unsigned_abs(), gpu_id };
        let acquired = self.channel.ioctl_with_file(Ioctl::AcquireVm, &mut args, FD, render);
        acquired.map_err(|errno| {
            let why = match errno {
                Errno::EBUSY => {
                    " (another library of this process has opened KFD with a render node of its own)"
                }
                // AMDKFD_IOC_ACQUIRE_VM is of Linux 4.17.
                Errno::ENOTTY => " (this kernel's KFD is too old: GPUs need Linux 4.17 or later)",
                _ => "",
            };
            log::error!("the page tables of GPU {gpu_id:#x} cannot be had: {errno}{why}");
            Status::Error
        })
    }

    fn set_policy(&self, gpu_id: u32, coherent: (u64, u64)) -> Result<()> {
        let cached = !self.options.disable_cache;
        let default = if cached { CachePolicy::NONCOHERENT } else { CachePolicy::COHERENT };
        let mut args = SetMemoryPolicyArgs {
            alternate_aperture_base: coherent.0,
            alternate_aperture_size: coherent.1,
            gpu_id,
            default_policy: default.0,
            alternate_policy: CachePolicy::COHERENT.0,
            misc_process_flag: 0,
        };
        self.channel.ioctl(Ioctl::SetMemoryPolicy, &mut args).map_err(|errno| {
            log::error!("the cache policy of GPU {gpu_id:#x} cannot be set: {errno}");
            Status::Error
        })
    }

    /// The page of registers of a GPU, mapped for CPU and GPUs. Older GPUs and kernels have none.
    fn registers(&self, machine: &Machine, place: usize, before: Option<&Machine>) -> Option<u64> {
        let gpu = machine.gpus.get(place).filter(|gpu| gpu.shares)?;
        if let Some(before) = before.and_then(|before| before.gpu_by_id(gpu.gpu_id)) {
            return before.apertures.mmio.map(|(base, _)| base);
        }
        let page = self.map_registers(machine, place);
        if page.is_err() {
            log::debug!("node {} has no page of registers", gpu.node);
        }
        page.ok()
    }

    fn map_registers(&self, machine: &Machine, place: usize) -> Result<u64> {
        let gpu = machine.gpus.get(place).ok_or(Status::Error)?;
        let va = machine.addresses.take(Want { coherent: true, ..Want::seen(PAGE) })?;
        let flags = AllocFlags::MMIO_REMAP | AllocFlags::WRITABLE | AllocFlags::COHERENT;
        let ask = Ask { gpu_id: gpu.gpu_id, va: va.start(), size: PAGE, flags, userptr: 0 };
        let bo = Bo::new(&self.channel, ask).map_err(|_| Status::Error)?;
        self.map_for_cpu(&va, self.channel.kfd_file(), bo.mmap_offset, 0, PAGE, Access::ReadWrite)?;
        let address = va.start();
        let flags = MemFlags::NON_PAGED | MemFlags::HOST_ACCESS;
        let life = Life::new(Some(bo.handle()), Some(va));
        let buffer = Arc::new(Buffer::new(Kind::Memory, address, PAGE, gpu.node, flags, life));
        self.map_to(machine, &buffer, &mut buffer.life(), &gpu.peers)?;
        self.memory.insert(buffer);
        bo.keep();
        Ok(address)
    }
}

fn is_same(machine: &Machine, snapshot: &Snapshot) -> bool {
    machine.nodes.iter().copied().eq(snapshot.nodes.iter().map(|node| node.gpu_id))
}
