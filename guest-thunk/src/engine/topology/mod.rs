//! Nodes, their memory, caches and links: the tree of `/sys/devices/virtual/kfd/kfd/topology` as `hsakmt.h` shows it.
//!
//! A [`Snapshot`] holds the nodes that this process can use, numbered from 0 without holes; KFD's directories are
//! numbered with holes where a container may not use all GPUs.
//!
//! | from | comes |
//! |---|---|
//! | KFD's files | all that `protocol` parses |
//! | the driver (AMDGPU_INFO) | family, whether the GPU is part of an APU, clock |
//! | libdrm's `amdgpu.ids` | product names |
//! | `/proc/cpuinfo` | names of processors, APIC ids |
//! | `/sys/devices/system` | caches of processors |

mod asics;
mod cpu_caches;
mod cpuinfo;
mod drm;
mod links;
mod memory;
mod names;
mod properties;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use protocol::hsakmt::{
    CacheProperties, IoLinkProperties, MemoryProperties, NodeProperties, Status, SystemProperties,
};
use protocol::kfd::topology::GfxVersion;

use super::{Engine, Result, room};
pub(crate) use snapshot::{Node, Snapshot};

/// What this part keeps.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Held while the topology is read, so that it is read once.
    taking: Mutex<()>,
    held: RwLock<Held>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    snapshot: Option<Arc<Snapshot>>,
    /// Whether a program asked for it: only then do node ids have a meaning for programs.
    acquired: bool,
}

impl State {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn held(&self) -> Held {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hold(&self, snapshot: Option<Arc<Snapshot>>, acquired: bool) {
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Held { snapshot, acquired };
    }

    /// The snapshot that a program acquired.
    fn acquired(&self) -> Option<Arc<Snapshot>> {
        let held = self.held();
        held.snapshot.filter(|_| held.acquired)
    }
}

impl Engine {
    /// Reads the topology and gets memory ready on its GPUs, unless that was done since the last release
    /// (`hsaKmtAcquireSystemProperties`).
    ///
    /// # Errors
    /// `ERROR` if KFD shows no topology or a render node cannot be opened; `NO_MEMORY`; those of
    /// [`Engine::memory_set_up`].
    pub fn acquire_system_properties(&self) -> Result<SystemProperties> {
        let _taking = self.topology.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = self.topology.acquired() {
            return Ok(snapshot.system);
        }
        let snapshot = Arc::new(Snapshot::take(&self.channel, &self.options)?);
        log::debug!("topology of generation {}: {} nodes", snapshot.generation, snapshot.nodes.len());
        self.memory_set_up(&snapshot)?;
        let system = snapshot.system;
        self.topology.hold(Some(snapshot), true);
        Ok(system)
    }

    /// Drops the snapshot (`hsaKmtReleaseSystemProperties`).
    ///
    /// # Errors
    /// None: releasing nothing is no failure.
    pub fn release_system_properties(&self) -> Result<()> {
        let _taking = self.topology.taking.lock().unwrap_or_else(PoisonError::into_inner);
        self.topology.hold(None, false);
        Ok(())
    }

    /// Properties of a node (`hsaKmtGetNodeProperties`). Of a GPU's banks those are counted that
    /// [`Engine::node_memory_properties`] adds, whether or not the GPU has them all.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for a node that is not in the snapshot, and without one.
    pub fn node_properties(&self, node: u32) -> Result<NodeProperties> {
        let snapshot = self.snapshot_with(node)?;
        let found = snapshot.node(node).ok_or(Status::InvalidNodeUnit)?;
        let mut properties = found.properties;
        if found.gpu_id != 0 {
            let mmio = u32::from(self.gpu_apertures(node).is_some_and(|apertures| apertures.mmio.is_some()));
            let banks = properties.num_memory_banks;
            properties.num_memory_banks = banks.saturating_add(memory::GPU_HEAPS + mmio);
        }
        Ok(properties)
    }

    /// At most `count` memory banks of a node: KFD's, then the apertures of its GPU
    /// (`hsaKmtGetNodeMemoryProperties`).
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for a node that is not in the snapshot, and without one; `NO_MEMORY`.
    pub fn node_memory_properties(&self, node: u32, count: u32) -> Result<Vec<MemoryProperties>> {
        let snapshot = self.snapshot_with(node)?;
        let found = snapshot.node(node).ok_or(Status::InvalidNodeUnit)?;
        let apertures = self.gpu_apertures(node).unwrap_or_default();
        // What needs SVM addresses: discrete GPUs, and with one of them all; else those from gfx9 on.
        let svm = snapshot.has_discrete_gpu() || found.gfx >= GfxVersion::new(9, 0, 0);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        memory::banks(found, &apertures, svm, count)
    }

    /// The first `count` caches of a node (`hsaKmtGetNodeCacheProperties`). `processor` selects nothing, as in AMD's
    /// library: every cache names its processors.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for a node that is not in the snapshot, and without one; `INVALID_PARAMETER` if it has
    /// fewer; `NO_MEMORY`.
    pub fn node_cache_properties(
        &self,
        node: u32,
        processor: u32,
        count: u32,
    ) -> Result<Vec<CacheProperties>> {
        let _ = processor;
        let snapshot = self.snapshot_with(node)?;
        let found = snapshot.node(node).ok_or(Status::InvalidNodeUnit)?;
        first(&found.caches, count, "caches", node)
    }

    /// The first `count` links of a node (`hsaKmtGetNodeIoLinkProperties`).
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for a node that is not in the snapshot, and without one; `INVALID_PARAMETER` if it has
    /// fewer; `NO_MEMORY`.
    pub fn node_io_link_properties(&self, node: u32, count: u32) -> Result<Vec<IoLinkProperties>> {
        let snapshot = self.snapshot_with(node)?;
        let found = snapshot.node(node).ok_or(Status::InvalidNodeUnit)?;
        first(&found.links, count, "links", node)
    }

    /// The topology for the library's own use: the program's snapshot, or one that is taken now.
    ///
    /// # Errors
    /// Those of reading it.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>> {
        if let Some(snapshot) = self.topology.held().snapshot {
            return Ok(snapshot);
        }
        let _taking = self.topology.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = self.topology.held().snapshot {
            return Ok(snapshot);
        }
        let snapshot = Arc::new(Snapshot::take(&self.channel, &self.options)?);
        self.topology.hold(Some(Arc::clone(&snapshot)), false);
        Ok(snapshot)
    }

    /// The program's snapshot and the place in it of a node with a GPU.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for nodes without one, unknown nodes, and without snapshot.
    pub(crate) fn gpu_node(&self, node: u32) -> Result<(Arc<Snapshot>, usize)> {
        let snapshot = self.snapshot_with(node)?;
        if snapshot.node(node).is_none_or(|node| node.gpu_id == 0) {
            log::debug!("node {node} has no GPU");
            return Err(Status::InvalidNodeUnit);
        }
        let place = usize::try_from(node).map_err(|_| Status::InvalidNodeUnit)?;
        Ok((snapshot, place))
    }

    /// Minor of a GPU's render node: what `hsaKmtGetAMDGPUDeviceHandle` makes libdrm's device from. The engine has
    /// the node open as [`Channel::render_file`](super::channel::Channel::render_file).
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for nodes without GPU, unknown nodes, and without snapshot.
    pub fn render_minor(&self, node: u32) -> Result<u32> {
        let (snapshot, place) = self.gpu_node(node)?;
        let found = snapshot.nodes.get(place).ok_or(Status::InvalidNodeUnit)?;
        Ok(found.kfd.properties.drm_render_minor)
    }

    /// The program's snapshot, which has this node.
    pub(crate) fn snapshot_with(&self, node: u32) -> Result<Arc<Snapshot>> {
        let Some(snapshot) = self.topology.acquired() else {
            log::debug!("node {node} is asked for before the system properties were acquired");
            return Err(Status::InvalidNodeUnit);
        };
        if snapshot.node(node).is_none() {
            log::debug!("there is no node {node}; there are {}", snapshot.nodes.len());
            return Err(Status::InvalidNodeUnit);
        }
        Ok(snapshot)
    }
}

/// The first `count` of a node's `what`.
fn first<T: Copy>(all: &[T], count: u32, what: &str, node: u32) -> Result<Vec<T>> {
    let wanted = usize::try_from(count).ok().and_then(|count| all.get(..count));
    let wanted = wanted.ok_or_else(|| {
        log::debug!("{count} {what} of node {node} are asked for; it has {}", all.len());
        Status::InvalidParameter
    })?;
    room::collect(wanted.len(), wanted.iter().copied())
}
