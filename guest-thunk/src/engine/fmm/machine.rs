//! The GPUs as memory sees them.

use std::sync::{Arc, OnceLock};

use protocol::hsakmt::Status;
use protocol::kfd::FileId;
use protocol::kfd::topology::GfxVersion;
use protocol::kfd::types::ProcessDeviceApertures;

use super::addresses::{Addresses, Limits, Numbers};
use super::buffers::GpuIds;
use super::vm::{HUGE_PAGE, PAGE};
use crate::engine::topology::Snapshot;
use crate::engine::{Options, Result, room};

/// Addresses of programs lie below.
const CANONICAL_END: u64 = 1 << 47;
/// Tonga and Carrizo translate no less than this at a time.
const TONGA_PAGE: u64 = 32 << 10;

/// Apertures of a GPU: first and last address. One that is not there is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuApertures {
    /// LDS.
    pub(crate) lds: Option<(u64, u64)>,
    /// Scratch.
    pub(crate) scratch: Option<(u64, u64)>,
    /// Addresses that only this GPU has (APUs before gfx9).
    pub(crate) gpuvm: Option<(u64, u64)>,
    /// Addresses that CPU and GPUs share.
    pub(crate) svm: Option<(u64, u64)>,
    /// Page of registers that a program may write.
    pub(crate) mmio: Option<(u64, u64)>,
}

/// Everything that was found out when memory was set up.
#[derive(Debug)]
pub(super) struct Machine {
    /// KFD's GPU id of each node; 0 for CPUs.
    pub(super) nodes: Vec<u32>,
    /// Nodes with CPUs: more than one has NUMA.
    pub(super) cpu_nodes: usize,
    /// GPUs, by node.
    pub(super) gpus: Vec<Gpu>,
    /// GPU ids in KFD's order: what memory is mapped to by default.
    pub(super) all: GpuIds,
    /// Whether there is a GPU that is not part of a CPU node. Without one, system memory is the program's alone: GPUs
    /// reach it through the CPU's page tables.
    pub(super) discrete: bool,
    /// Whether memory is registered through SVM.
    pub(super) svm: bool,
    /// Addresses that all GPUs share with the CPU.
    pub(super) addresses: Arc<Addresses>,
}

/// All that there were, one after the other: every call of memory looks at the last one, so nobody counts references to
/// it, and none goes while somebody works with it. There is another one only where GPUs come or go.
#[derive(Debug, Default)]
pub(super) struct Machines(OnceLock<Box<(Machine, Machines)>>);

impl Machines {
    /// The newest.
    pub(super) fn last(&self) -> Option<&Machine> {
        let mut last = self.0.get()?;
        while let Some(next) = last.1.0.get() {
            last = next;
        }
        Some(&last.0)
    }

    /// Adds one.
    pub(super) fn push(&self, machine: Machine) {
        let mut link = Box::new((machine, Self::default()));
        let mut at = self;
        while let Err(unset) = at.0.set(link) {
            link = unset;
            // It was set, so there is one.
            let Some(next) = at.0.get() else { return };
            at = &next.1;
        }
    }
}

/// One GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    /// The thunk's node id.
    pub(super) node: u32,
    /// KFD's id.
    pub(super) gpu_id: u32,
    /// Its render node.
    pub(super) render: FileId,
    /// Whether its memory has addresses that CPU and GPUs share.
    pub(super) shares: bool,
    /// Its memory, if it does not.
    pub(super) private: Option<Private>,
    /// What programs are told.
    pub(super) apertures: GpuApertures,
    /// GPU ids that reach its memory, itself first.
    pub(super) peers: GpuIds,
}

/// Memory of an APU before gfx9: neither the CPU nor other GPUs have addresses for it.
#[derive(Debug)]
pub(super) struct Private {
    /// First address of the aperture. KFD counts from there.
    pub(super) base: u64,
    /// Bytes of a page.
    pub(super) align: u64,
    /// Its addresses.
    pub(super) numbers: Numbers,
}

/// One GPU as the topology shows it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) node: u32,
    pub(super) gpu_id: u32,
    pub(super) minor: u32,
    gfx: GfxVersion,
    hardware: GfxVersion,
    svm: bool,
    links: Arc<Vec<u32>>,
}

/// The GPUs of a topology.
///
/// # Errors
/// `NO_MEMORY`.
pub(super) fn found(snapshot: &Snapshot) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    room::reserve(&mut found, snapshot.nodes.len())?;
    for (id, node) in snapshot.gpus() {
        let links = node.links.iter().map(|link| link.node_to);
        found.push(Found {
            node: id,
            gpu_id: node.gpu_id,
            minor: node.kfd.properties.drm_render_minor,
            gfx: node.gfx,
            hardware: node.hardware,
            svm: { node.properties.capability }.svm_api_supported(),
            links: Arc::new(room::collect(node.links.len(), links)?),
        });
    }
    Ok(found)
}

impl Found {
    fn page(&self) -> u64 {
        match (self.hardware.major, self.hardware.minor, self.hardware.stepping) {
            (8, 0, 1 | 2) => TONGA_PAGE,
            _ => PAGE,
        }
    }
}

/// A GPU with its opened render node and apertures.
pub(super) struct Opened {
    pub(super) found: Found,
    pub(super) render: FileId,
    pub(super) kfd: ProcessDeviceApertures,
}

impl Machine {
    /// Puts together what is known. `before` is the machine of the last set-up, whose addresses go on if they fit.
    ///
    /// # Errors
    /// `NO_MEMORY` if there are no addresses.
    pub(super) fn new(
        snapshot: &Snapshot,
        opened: &[Opened],
        before: Option<&Machine>,
        options: &Options,
    ) -> Result<Self> {
        let discrete = snapshot.has_discrete_gpu();
        let limits = limits(opened);
        let taken = opened.iter().flat_map(|gpu| {
            let Apertures { lds, scratch, private } = Apertures::of(&gpu.kfd);
            [lds, scratch, private].into_iter().flatten()
        });
        let taken = room::collect(3 * opened.len(), taken)?;
        let addresses = match before.filter(|before| before.addresses.has_limits(limits)) {
            Some(before) => Arc::clone(&before.addresses),
            None => Arc::new(Addresses::new(limits, &taken, options)?),
        };
        let shared = opened.iter().any(|gpu| is_canonical(&gpu.kfd));
        let svm = shared.then(|| addresses.all());
        let mut gpus = Vec::new();
        room::reserve(&mut gpus, opened.len())?;
        for gpu in opened {
            gpus.push(gpu.finish(opened, discrete, svm)?);
        }
        Ok(Self {
            nodes: room::collect(snapshot.nodes.len(), snapshot.nodes.iter().map(|node| node.gpu_id))?,
            cpu_nodes: snapshot.nodes.iter().filter(|node| node.kfd.is_cpu()).count(),
            gpus,
            all: GpuIds::new(room::collect(opened.len(), opened.iter().map(|gpu| gpu.found.gpu_id))?),
            discrete,
            svm: options.svm && !opened.is_empty() && opened.iter().all(|gpu| gpu.found.svm),
            addresses,
        })
    }

    /// KFD's GPU id of a node, 0 for a CPU.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT`.
    pub(super) fn gpu_id(&self, node: u32) -> Result<u32> {
        let place = usize::try_from(node).ok();
        place.and_then(|place| self.nodes.get(place)).copied().ok_or_else(|| {
            log::debug!("there is no node {node}");
            Status::InvalidNodeUnit
        })
    }

    /// KFD's GPU ids of a program's nodes, in its order.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for none, `INVALID_NODE_UNIT`.
    pub(super) fn gpu_ids(&self, nodes: &[u32]) -> Result<GpuIds> {
        if nodes.is_empty() {
            log::debug!("an empty list of nodes");
            return Err(Status::InvalidParameter);
        }
        let mut ids = Vec::new();
        room::reserve(&mut ids, nodes.len())?;
        for &node in nodes {
            ids.push(self.gpu_id(node)?);
        }
        Ok(GpuIds::new(ids))
    }

    /// The GPU of a node.
    pub(super) fn gpu(&self, node: u32) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.node == node)
    }

    /// A GPU by KFD's id.
    pub(super) fn gpu_by_id(&self, gpu_id: u32) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.gpu_id == gpu_id)
    }

    /// The thunk's node of a GPU id; of 0 the first CPU's.
    pub(super) fn node_of(&self, gpu_id: u32) -> u32 {
        let place = self.nodes.iter().position(|&id| id == gpu_id);
        place.and_then(|place| u32::try_from(place).ok()).unwrap_or(0)
    }
}

/// Apertures as KFD tells them.
struct Apertures {
    lds: Option<(u64, u64)>,
    scratch: Option<(u64, u64)>,
    private: Option<(u64, u64)>,
}

impl Apertures {
    fn of(kfd: &ProcessDeviceApertures) -> Self {
        let valid = |base: u64, limit: u64| (base != 0 && base < limit).then_some((base, limit));
        Self {
            lds: valid(kfd.lds_base, kfd.lds_limit),
            scratch: valid(kfd.scratch_base, kfd.scratch_limit),
            private: valid(kfd.gpuvm_base, kfd.gpuvm_limit).filter(|_| !is_canonical(kfd)),
        }
    }
}

/// Whether the GPU's addresses are those of programs.
fn is_canonical(kfd: &ProcessDeviceApertures) -> bool {
    kfd.gpuvm_limit < CANONICAL_END
}

/// What all GPUs with addresses of programs reach, in whole huge pages. Without one it is all that programs have.
fn limits(opened: &[Opened]) -> Limits {
    let mut limits = Limits { base: 0, limit: u64::MAX, align: PAGE };
    for gpu in opened.iter().filter(|gpu| is_canonical(&gpu.kfd)) {
        limits.base = limits.base.max(gpu.kfd.gpuvm_base);
        limits.limit = limits.limit.min(gpu.kfd.gpuvm_limit);
        limits.align = limits.align.max(gpu.found.page());
    }
    if let Some(end) = limits.limit.checked_add(1) {
        limits.base = limits.base.checked_next_multiple_of(HUGE_PAGE).unwrap_or(u64::MAX);
        limits.limit = (end - end % HUGE_PAGE).saturating_sub(1);
    }
    limits
}

impl Opened {
    /// Whether SET_MEMORY_POLICY has a meaning for it.
    pub(super) fn is_canonical(&self) -> bool {
        is_canonical(&self.kfd)
    }

    fn finish(&self, all: &[Opened], discrete: bool, svm: Option<(u64, u64)>) -> Result<Gpu> {
        let Apertures { lds, scratch, private } = Apertures::of(&self.kfd);
        let align = self.found.page();
        // The first page is left out: KFD's address 0 means none.
        let numbers =
            |(base, limit): (u64, u64)| Numbers::new(base + align, (limit - base).saturating_sub(align));
        Ok(Gpu {
            node: self.found.node,
            gpu_id: self.found.gpu_id,
            render: self.render,
            shares: discrete || self.found.gfx >= GfxVersion::new(9, 0, 0),
            private: private.map(|range| Private { base: range.0, align, numbers: numbers(range) }),
            apertures: GpuApertures { lds, scratch, gpuvm: private, svm, mmio: None },
            peers: GpuIds::new(self.peers(all)?),
        })
    }

    /// GPUs that have a link to this one reach its memory.
    fn peers(&self, all: &[Opened]) -> Result<Vec<u32>> {
        let mut peers = Vec::new();
        room::reserve(&mut peers, all.len() + 1)?;
        peers.push(self.found.gpu_id);
        for other in all {
            let reaches = other.found.links.contains(&self.found.node);
            if reaches && !peers.contains(&other.found.gpu_id) {
                peers.push(other.found.gpu_id);
            }
        }
        Ok(peers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_machine_counts_and_those_before_stay() {
        let limits = Limits { base: 0, limit: u64::MAX, align: PAGE };
        let addresses = Arc::new(Addresses::new(limits, &[], &Options::default()).unwrap());
        let machines = Machines::default();
        assert!(machines.last().is_none());
        let mut seen = Vec::new();
        for cpu_nodes in 1..4 {
            machines.push(Machine {
                nodes: Vec::new(),
                cpu_nodes,
                gpus: Vec::new(),
                all: GpuIds::default(),
                discrete: false,
                svm: false,
                addresses: Arc::clone(&addresses),
            });
            seen.push(machines.last().unwrap());
        }
        let counts: Vec<usize> = seen.iter().map(|machine| machine.cpu_nodes).collect();
        assert_eq!(counts, [1, 2, 3]);
    }

    fn opened(node: u32, limit: u64, links: &[u32]) -> Opened {
        let gfx = GfxVersion::new(if limit == u64::MAX { 7 } else { 9 }, 0, 10);
        let links = Arc::new(links.to_vec());
        let found = Found { node, gpu_id: node + 100, minor: 128, gfx, hardware: gfx, svm: true, links };
        let gpuvm_base = if limit == u64::MAX { 1 << 56 } else { 0x4000 };
        let kfd = ProcessDeviceApertures { gpuvm_base, gpuvm_limit: limit, ..Default::default() };
        Opened { found, render: FileId(1), kfd }
    }

    #[test]
    fn limits_are_those_of_the_gpu_that_reaches_least() {
        let gpus = [opened(1, (1 << 47) - 1, &[]), opened(2, (1 << 40) + 5, &[])];
        let expected = Limits { base: HUGE_PAGE, limit: (1 << 40) - 1, align: PAGE };
        assert_eq!(limits(&gpus), expected);
        assert_eq!(limits(&[]).limit, u64::MAX);
        assert_eq!(limits(&[opened(1, u64::MAX, &[])]).limit, u64::MAX, "its addresses are no program's");
    }

    #[test]
    fn peers_are_the_gpus_with_a_link_here() {
        let gpus = [opened(1, 1 << 40, &[0, 2]), opened(2, 1 << 40, &[0, 1, 1]), opened(3, 1 << 40, &[1])];
        assert_eq!(gpus[0].peers(&gpus).unwrap(), [101, 102, 103]);
        assert_eq!(gpus[1].peers(&gpus).unwrap(), [102, 101]);
        assert_eq!(gpus[2].peers(&gpus).unwrap(), [103]);
    }

    #[test]
    fn an_old_apu_has_memory_of_its_own() {
        let apu = opened(0, u64::MAX, &[]).finish(&[], false, None).unwrap();
        assert!(!apu.shares);
        let private = apu.private.unwrap();
        assert_eq!(private.numbers.take(PAGE, private.align).unwrap().start(), (1 << 56) + PAGE);
    }
}
