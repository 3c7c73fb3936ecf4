//! A device that shows any tree: its nodes are those of a machine without GPU, but for the topology and for
//! which render nodes can be opened.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use protocol::Errno;
use protocol::hsakmt::Status;
use protocol::kfd::topology::{Layout, Node, Topology, Tree};
use protocol::kfd::{self, FileId, Kfd};
use softgpu::{Kernel, Profile};

use super::super::Snapshot;
use crate::engine::testing::device::{self, Hooks};
use crate::engine::{Engine, Options, rig};

/// What the device shows: its trees one after the other, the last one for ever.
pub(super) struct Shown {
    trees: Mutex<VecDeque<Tree>>,
    refused: BTreeMap<u32, Errno>,
}

impl Shown {
    pub(super) fn new(trees: impl IntoIterator<Item = Tree>) -> Self {
        Self { trees: Mutex::new(trees.into_iter().collect()), refused: BTreeMap::new() }
    }

    /// Opening the render node with this minor fails.
    pub(super) fn refuse(mut self, minor: u32, errno: Errno) -> Self {
        self.refused.insert(minor, errno);
        self
    }

    pub(super) fn engine(self, options: Options) -> Engine {
        let (device, _) = device::over(rig::device(Profile::CpuOnly), self);
        rig::engine_on(&device, options)
    }

    pub(super) fn snapshot(self) -> Result<Arc<Snapshot>, Status> {
        self.engine(Options::default()).snapshot()
    }
}

/// Render nodes have ids from here on; behind them is no driver.
const RENDER: u64 = 1 << 40;

impl Hooks for Shown {
    fn topology(&self, _device: &dyn Kfd) -> Result<Tree, Errno> {
        let mut trees = self.trees.lock().expect("no test panics here");
        let next = if trees.len() > 1 { trees.pop_front() } else { trees.front().cloned() };
        next.ok_or(Errno::ENOENT)
    }

    fn open(&self, node: kfd::Node) -> Option<Result<FileId, Errno>> {
        let kfd::Node::Render(minor) = node else { return None };
        let refused = self.refused.get(&minor).copied();
        Some(refused.map_or(Ok(FileId(RENDER + u64::from(minor))), Err))
    }
}

/// A machine with one CPU node and `gpus` MI210 with render minors from 128 on, each linked to the CPU and
/// to the other ones.
pub(super) fn machine(gpus: u32) -> Topology {
    let mut topology = Profile::TwoGpu.machine(Kernel::Linux6_12).topology;
    let gpu = topology.nodes.pop().expect("a GPU");
    topology.nodes.truncate(1);
    topology.nodes[0].io_links.clear();
    let link = |like: &Node, from, to| {
        let mut link = like.io_links[0];
        (link.node_from, link.node_to) = (from, to);
        link
    };
    for id in 1..=gpus {
        let to_gpu = link(&gpu, 0, id);
        topology.nodes[0].io_links.push(to_gpu);
        let mut gpu = gpu.clone();
        gpu.id = id;
        gpu.gpu_id = 1000 + id;
        gpu.properties.drm_render_minor = 127 + id;
        gpu.properties.unique_id = u64::from(id);
        gpu.io_links = (0..=gpus).filter(|&to| to != id).map(|to| link(&gpu, id, to)).collect();
        topology.nodes.push(gpu);
    }
    topology.nodes.iter_mut().for_each(Node::set_counts);
    topology
}

/// The files of a topology.
pub(super) fn files(topology: &Topology) -> Tree {
    topology.tree(Layout::Linux6_12)
}

/// The snapshot of a topology whose render nodes can all be opened.
pub(super) fn snapshot(topology: &Topology) -> Result<Arc<Snapshot>, Status> {
    Shown::new([files(topology)]).snapshot()
}
