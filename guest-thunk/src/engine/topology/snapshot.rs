//! The topology at one time, as programs see it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;

use protocol::Errno;
use protocol::drm::info::InfoDevice;
use protocol::hsakmt::{
    CacheProperties, HeapType, IoLinkProperties, MemoryProperties, NodeProperties, Status, SystemProperties,
};
use protocol::kfd::FileId;
use protocol::kfd::topology::{self, GfxVersion, Parsed, Topology, Tree, WarningKind};

use super::cpuinfo::CpuInfo;
use super::names::Products;
use super::properties::{self, Context, Identity};
use super::{cpu_caches, drm, links, memory};
use crate::engine::channel::Channel;
use crate::engine::{Options, Result, room};

/// How often the files are read again when they change while they are read.
const ATTEMPTS: u32 = 8;

/// Render nodes have these minors.
const RENDER_MINORS: std::ops::RangeInclusive<u32> = 128..=255;

/// Instruction set of a node without a GPU.
const NO_GPU: GfxVersion = GfxVersion::new(0, 0, 0);

/// The topology at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// What programs are told of the whole.
    pub(crate) system: SystemProperties,
    /// The nodes that this process can use. The thunk's node ids are positions here.
    pub(crate) nodes: Vec<Node>,
    /// KFD's `generation_id`.
    pub(crate) generation: u32,
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What KFD says. Its ids are KFD's: directory numbers.
    pub(crate) kfd: topology::Node,
    /// KFD's id of the GPU; 0 for a node without one that can be used.
    pub(crate) gpu_id: u32,
    /// The GPU's instruction set as programs are told it: that of `HSA_OVERRIDE_GFX_VERSION`, if set.
    pub(crate) gfx: GfxVersion,
    /// The instruction set that the GPU has: what sizes that the kernel checks follow from.
    pub(crate) hardware: GfxVersion,
    /// What programs are told; the number of banks is KFD's.
    pub(crate) properties: NodeProperties,
    /// KFD's memory banks.
    pub(crate) memory: Vec<MemoryProperties>,
    /// Caches of the GPU, or of the processors.
    pub(crate) caches: Vec<CacheProperties>,
    /// Links to other nodes.
    pub(crate) links: Vec<IoLinkProperties>,
}

impl Snapshot {
    /// A node by the thunk's id.
    pub(crate) fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(usize::try_from(id).ok()?)
    }

    /// The nodes with a GPU, with their ids.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = (u32, &Node)> {
        (0..).zip(&self.nodes).filter(|(_, node)| node.gpu_id != 0)
    }

    /// The thunk's id of a GPU by KFD's.
    pub(crate) fn node_of_gpu(&self, gpu_id: u32) -> Option<u32> {
        self.gpus().find(|(_, node)| node.gpu_id == gpu_id).map(|(id, _)| id)
    }

    /// Whether there is a GPU of its own beside APUs. AMD's thunk treats all GPUs as such then.
    pub(crate) fn has_discrete_gpu(&self) -> bool {
        self.gpus().any(|(_, node)| !node.kfd.is_cpu())
    }

    /// The CPU node that a GPU's PCI Express link leads to, if it has memory.
    pub(crate) fn nearest_cpu(&self, gpu: u32) -> Option<u32> {
        let cpu = self.node(gpu).filter(|node| node.gpu_id != 0).and_then(|node| links::cpu(&node.links))?;
        let memory = &self.node(cpu)?.memory;
        memory.iter().any(|bank| { bank.size_in_bytes } > 0).then_some(cpu)
    }

    /// Reads the topology. GPUs whose render node this process may not open are left out.
    ///
    /// A device gives the files of one generation, or changes between directories; what does not parse is read again
    /// as long as the generation changes.
    ///
    /// # Errors
    /// `ERROR` if it cannot be read, or is none; `NO_MEMORY`.
    pub(super) fn take(channel: &Channel, options: &Options) -> Result<Self> {
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            let tree = channel.topology().map_err(|errno| {
                log::error!("KFD's topology cannot be read: {errno}");
                if errno == Errno::ENOMEM { Status::NoMemory } else { Status::Error }
            })?;
            let error = match Topology::parse(&tree) {
                Ok(parsed) => return Taker::new(channel, options).snapshot(&tree, parsed),
                Err(error) => error,
            };
            let generation = tree.files.get("generation_id").cloned();
            if failed.as_ref() == Some(&generation) {
                log::error!("KFD's topology is none: {error}");
                return Err(Status::Error);
            }
            failed = Some(generation);
        }
        log::error!("KFD's topology changed {ATTEMPTS} times while it was read");
        Err(Status::Error)
    }
}

/// A node that programs see.
struct Admitted {
    kfd: topology::Node,
    gpu: Option<Gpu>,
}

struct Gpu {
    identity: Identity,
    render: FileId,
}

struct Taker<'a> {
    channel: &'a Channel,
    options: &'a Options,
    cpus: CpuInfo,
    /// Read when there is a GPU.
    products: OnceCell<Products>,
}

impl<'a> Taker<'a> {
    fn new(channel: &'a Channel, options: &'a Options) -> Self {
        Self { channel, options, cpus: CpuInfo::read(), products: OnceCell::new() }
    }

    fn snapshot(&self, tree: &Tree, parsed: Parsed) -> Result<Snapshot> {
        for warning in &parsed.warnings {
            // Counts and keys differ from kernel to kernel; a number that no field holds is somebody's mistake.
            let level = match warning.kind {
                WarningKind::OutOfRange { .. } => log::Level::Warn,
                _ => log::Level::Debug,
            };
            log::log!(level, "topology: {warning}");
        }
        let Topology { generation_id, system, nodes } = parsed.topology;
        let gpus = nodes.iter().filter(|node| node.is_gpu()).count();
        let mut admitted: Vec<Admitted> = Vec::new();
        room::reserve(&mut admitted, nodes.len())?;
        for kfd in nodes {
            let id = node_id(admitted.len())?;
            admitted.extend(self.admit(kfd, id)?);
        }
        if gpus > 0 && !admitted.iter().any(|node| node.kfd.is_gpu()) {
            log::warn!(
                "none of the {gpus} GPUs that KFD has can be used: their render nodes are not here or forbidden (in a \
                 container, pass them in: --device /dev/dri), or they are not supported"
            );
        }
        let ids = (0..).zip(&admitted).map(|(id, node)| (node.kfd.id, id)).collect();
        let mut nodes = Vec::new();
        room::reserve(&mut nodes, admitted.len())?;
        for (id, node) in (0..).zip(admitted) {
            nodes.push(self.node(node, id, &ids)?);
        }
        give_memory(&mut nodes);
        if !nodes.iter().any(|node| tells_peer_links(tree, node.kfd.id)) {
            link_over_cpus(&mut nodes)?;
        }
        for node in &mut nodes {
            count(node)?;
        }
        let system = SystemProperties {
            num_nodes: node_id(nodes.len())?,
            platform_oem: low_word(system.platform_oem),
            platform_id: low_word(system.platform_id),
            platform_rev: low_word(system.platform_rev),
        };
        Ok(Snapshot { system, nodes, generation: generation_id })
    }

    /// Decides whether programs see a node, under the id `id`.
    fn admit(&self, kfd: topology::Node, id: u32) -> Result<Option<Admitted>> {
        let gpu = if kfd.is_gpu() {
            let Some(render) = self.render_node(&kfd)? else { return Ok(None) };
            self.identify(&kfd, id)?.map(|identity| Gpu { identity, render })
        } else {
            None
        };
        let usable = gpu.is_some() || kfd.is_cpu() || (!kfd.is_gpu() && !kfd.mem_banks.is_empty());
        if !usable {
            log::info!("node {} has no processor that can be used and is left out", kfd.id);
        }
        Ok(usable.then_some(Admitted { kfd, gpu }))
    }

    /// Opens the render node of a GPU; `None` if it is not there for this process (containers).
    fn render_node(&self, kfd: &topology::Node) -> Result<Option<FileId>> {
        let (node, minor) = (kfd.id, kfd.properties.drm_render_minor);
        if !RENDER_MINORS.contains(&minor) {
            log::warn!("node {node} has a GPU with render minor {minor}, which no render node has");
            return Err(Status::Error);
        }
        match self.channel.render_file(minor) {
            Ok(file) => Ok(Some(file)),
            Err(errno @ (Errno::ENOENT | Errno::EPERM)) => {
                log::info!("node {node} is left out: /dev/dri/renderD{minor} gives {errno}");
                Ok(None)
            }
            Err(errno) => {
                log::warn!("/dev/dri/renderD{minor} of node {node} cannot be opened: {errno}");
                Err(Status::Error)
            }
        }
    }

    fn identify(&self, kfd: &topology::Node, id: u32) -> Result<Option<Identity>> {
        let identity = Identity::of(&kfd.properties, self.options.gfx_override(id)?).map_err(|error| {
            log::warn!("node {}: {error}", kfd.id);
            Status::Error
        })?;
        if identity.is_none() {
            let device = kfd.properties.device_id;
            log::warn!("the GPU of node {} (device {device:#06x}) is not supported", kfd.id);
        }
        Ok(identity)
    }

    fn node(&self, admitted: Admitted, id: u32, ids: &BTreeMap<u32, u32>) -> Result<Node> {
        let Admitted { kfd, gpu } = admitted;
        let device = gpu.as_ref().and_then(|gpu| self.device(kfd.id, gpu.render));
        let identity = gpu.as_ref().map(|gpu| &gpu.identity);
        Ok(Node {
            gpu_id: if gpu.is_some() { kfd.gpu_id } else { 0 },
            gfx: identity.map_or(NO_GPU, |gpu| gpu.gfx),
            hardware: identity.map_or(NO_GPU, |gpu| gpu.hardware),
            properties: properties::of_node(&kfd, identity, device.as_ref(), &self.context(gpu.is_some())),
            memory: room::collect(kfd.mem_banks.len(), kfd.mem_banks.iter().map(memory::of_bank))?,
            caches: self.caches(&kfd, id)?,
            links: links::of_node(&kfd, ids)?,
            kfd,
        })
    }

    fn context(&self, has_gpu: bool) -> Context<'_> {
        const NONE: &Products = &Products::NONE;
        let products = if has_gpu { self.products.get_or_init(Products::read) } else { NONE };
        Context { cpus: &self.cpus, products, svm: self.options.svm }
    }

    /// What the driver tells of the GPU. AMD's thunk goes on without it too.
    fn device(&self, node: u32, render: FileId) -> Option<InfoDevice> {
        let device = drm::device(self.channel, render);
        if let Err(errno) = device {
            log::info!("the driver does not tell what the GPU of node {node} is: {errno}");
        }
        device.ok()
    }

    /// KFD's caches, or those of the processors if it tells none of a node without a GPU.
    fn caches(&self, kfd: &topology::Node, id: u32) -> Result<Vec<CacheProperties>> {
        if kfd.caches.is_empty() && !kfd.is_gpu() {
            return cpu_caches::read(Path::new(cpu_caches::ROOT), id, &self.cpus);
        }
        room::collect(kfd.caches.len(), kfd.caches.iter().map(of_cache))
    }
}

fn of_cache(cache: &topology::Cache) -> CacheProperties {
    let p = &cache.properties;
    let mut properties = CacheProperties {
        processor_id_low: p.processor_id_low,
        cache_level: p.level,
        cache_size: p.size,
        cache_line_size: p.cache_line_size,
        cache_lines_per_tag: p.cache_lines_per_tag,
        cache_associativity: p.association,
        cache_latency: p.latency,
        cache_type: p.kind.into(),
        persisting_cache_size_max: p.persisting_cache_size_max,
        ..CacheProperties::default()
    };
    for (place, &shares) in properties.sibling_map.iter_mut().zip(&cache.sibling_map) {
        *place = u32::from(shares);
    }
    properties
}

/// Where no CPU has memory the first one gets that of this machine.
fn give_memory(nodes: &mut [Node]) {
    if nodes.iter().any(|node| node.kfd.is_cpu() && !node.memory.is_empty()) {
        return;
    }
    if let Some(node) = nodes.iter_mut().find(|node| node.kfd.is_cpu()) {
        log::info!("KFD tells no memory bank of a CPU; node {} gets this machine's memory", node.kfd.id);
        node.memory.push(memory::of_this_machine());
    }
}

/// Whether KFD knows links of GPUs over other nodes: then those that it lists are all.
fn tells_peer_links(tree: &Tree, node: u32) -> bool {
    let properties = tree.files.get(&format!("nodes/{node}/properties"));
    let mut lines = properties.iter().flat_map(|bytes| bytes.split(|&byte| byte == b'\n'));
    lines.any(|line| line.trim_ascii_start().starts_with(b"p2p_links_count "))
}

fn link_over_cpus(nodes: &mut [Node]) -> Result<()> {
    let endpoint = |node: &Node| links::Endpoint {
        is_gpu: node.gpu_id != 0,
        hive: node.properties.hive_id,
        visible: node.memory.iter().any(|bank| { bank.heap_type } == HeapType::FRAME_BUFFER_PUBLIC),
    };
    let endpoints = room::collect(nodes.len(), nodes.iter().map(endpoint))?;
    let count = nodes.len();
    let mut all = room::collect(count, nodes.iter_mut().map(|node| std::mem::take(&mut node.links)))?;
    links::add_indirect(&endpoints, &mut all)?;
    for (node, links) in nodes.iter_mut().zip(all) {
        node.links = links;
    }
    Ok(())
}

/// Tells how many banks, caches and links there are.
fn count(node: &mut Node) -> Result<()> {
    node.properties.num_memory_banks = node_id(node.memory.len())?;
    node.properties.num_caches = node_id(node.caches.len())?;
    node.properties.num_io_links = node_id(node.links.len())?;
    Ok(())
}

fn node_id(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| Status::Error)
}

fn low_word(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0)
}
