//! The KFD topology: the files of `/sys/devices/virtual/kfd/kfd/topology` as data.
//!
//! [`Tree`] holds the files as bytes, [`Topology`] what they say. [`Topology::parse`] and
//! [`Topology::tree`] are derived from one declaration of every key ([`records`]). What follows from
//! the properties without being written there (sizes of save areas, apertures) is in [`derived`].

pub mod derived;
mod parse;
pub mod records;
mod write;

use std::collections::{BTreeMap, BTreeSet};

pub use derived::{Apertures, BadGfxVersion, GfxVersion, QueueSizes};
pub use parse::{Parsed, TopologyError, Warning, WarningKind};
pub use records::{
    CacheProperties, IoLink, Key, MemBank, NodeProperties, Record, Scope, Since, SystemProperties,
};

/// Longest file that is read: sysfs shows at most one page (bytes).
pub const MAX_FILE: usize = 4096;

/// Files of the topology directory by path relative to it (`"nodes/0/properties"`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Contents of each file.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files that exist and answer `EPERM`, as those of a GPU that the device cgroup of the reader
    /// denies (`kfd_devcgroup_check_permission`).
    pub denied: BTreeSet<String>,
}

/// Directories that the kernel makes in every node, also when they stay empty
/// (`kfd_build_sysfs_node_entry`).
const NODE_DIRS: [&str; 5] = ["mem_banks", "caches", "io_links", "p2p_links", "perf"];

impl Tree {
    /// Every directory, parents before children: those that the files lie in, `nodes`, and the five
    /// that each node has. (The kernel's `perf` is empty but for AMD IOMMUs with counters.)
    #[must_use]
    pub fn directories(&self) -> BTreeSet<String> {
        let mut dirs = BTreeSet::from(["nodes".to_owned()]);
        for path in self.files.keys().chain(&self.denied) {
            let parents = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            dirs.extend(parents.map(str::to_owned));
        }
        let nodes: Vec<String> = dirs
            .iter()
            .filter(|dir| dir.strip_prefix("nodes/").is_some_and(|node| !node.contains('/')))
            .cloned()
            .collect();
        dirs.extend(nodes.iter().flat_map(|node| NODE_DIRS.map(|dir| format!("{node}/{dir}"))));
        dirs
    }
}

/// Which kernel's keys a written tree has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Linux 6.12 with stable updates.
    #[default]
    Linux6_12,
    /// Linux 7.3.
    Linux7_3,
    /// AMD's out-of-tree driver.
    Rocm,
}

/// The whole topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// `generation_id`: changes whenever the topology does.
    pub generation_id: u32,
    /// `system_properties`.
    pub system: SystemProperties,
    /// The nodes that can be read, in ascending order of [`Node::id`].
    pub nodes: Vec<Node>,
}

/// One directory below `nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The directory's number. Has holes where nodes are denied to the reader.
    pub id: u32,
    /// KFD id of the GPU; 0 for a node without one.
    pub gpu_id: u32,
    /// `name`: lower-case name of the ASIC, empty on CPU nodes.
    pub name: String,
    /// `properties`.
    pub properties: NodeProperties,
    /// `mem_banks/*/properties`.
    pub mem_banks: Vec<MemBank>,
    /// `caches/*/properties`.
    pub caches: Vec<Cache>,
    /// `io_links/*/properties`.
    pub io_links: Vec<IoLink>,
    /// `p2p_links/*/properties`.
    pub p2p_links: Vec<IoLink>,
}

/// One cache of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// The numeric keys.
    pub properties: CacheProperties,
    /// `sibling_map`: one entry per possible sharer, counted from `processor_id_low`.
    pub sibling_map: Vec<bool>,
}

impl Node {
    /// Whether the node has CPU cores.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        self.properties.cpu_cores_count > 0
    }

    /// Whether the node has a GPU that KFD drives. A firmware table can describe one that no driver
    /// took: it has SIMDs and no id.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        self.gpu_id != 0
    }

    /// The node's counts as its directories are.
    pub fn set_counts(&mut self) {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        self.properties.mem_banks_count = count(self.mem_banks.len());
        self.properties.caches_count = count(self.caches.len());
        self.properties.io_links_count = count(self.io_links.len());
        self.properties.p2p_links_count = count(self.p2p_links.len());
    }

    /// Bytes of memory in the banks of the node.
    #[must_use]
    pub fn memory_size(&self) -> u64 {
        self.mem_banks.iter().fold(0, |sum, bank| sum.saturating_add(bank.size_in_bytes))
    }
}

impl Topology {
    /// The nodes that have a processor, in order. Left out is what a firmware table or a card that
    /// KFD does not support leaves behind: a node with neither CPU cores nor a GPU.
    pub fn agents(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_cpu() || node.is_gpu())
    }

    /// The nodes with a GPU, in order.
    pub fn gpus(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_gpu())
    }

    /// The node with the directory number `id`.
    #[must_use]
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The number that user space gives to the node in directory `id`: libhsakmt counts the nodes
    /// that it can read from 0, without holes.
    #[must_use]
    pub fn user_id(&self, id: u32) -> Option<u32> {
        let position = self.nodes.iter().position(|node| node.id == id)?;
        u32::try_from(position).ok()
    }

    /// The GPU with this render node: a lookup, because minors have gaps.
    #[must_use]
    pub fn gpu_with_render_minor(&self, minor: u32) -> Option<&Node> {
        self.gpus().find(|node| node.properties.drm_render_minor == minor)
    }
}

#[cfg(test)]
mod tests;
