//! The topology as a guest sees it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use protocol::Errno;
use protocol::kfd::topology::records::{Key, Record as _, Since};
use protocol::kfd::topology::{
    CacheProperties, GfxVersion, IoLink, Layout, MemBank, Node, NodeProperties, Topology, Tree,
};

use crate::gpu::GpuSet;

/// `HSA_MEM_HEAP_TYPE_*`: system memory, VRAM that the CPU sees, and VRAM that it does not see.
const HEAP_SYSTEM: u32 = 0;
const HEAP_PUBLIC: u32 = 1;
const HEAP_PRIVATE: u32 = 2;

/// `HSA_CAP_SVMAPI_SUPPORTED`.
const CAP_SVM: u32 = 1 << 27;
/// Trap handlers, overrides and launch modes of waves, precise memory operations, and firmware for debuggers
/// (`HSA_CAP_TRAP_DEBUG_*`).
const CAP_DEBUG: u32 = 0xf << 15 | 1 << 29;

/// PCI domain of all GPUs. Guests have none of that number.
const DOMAIN: u32 = 1;

/// Bytes of the memory that stands for the guest's own.
const SOME_MEMORY: u64 = 1 << 30;

/// What a guest is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sight {
    /// What debuggers need.
    pub(super) debug: bool,
    /// VRAM, in the window.
    pub(super) window: bool,
    /// These GPUs.
    pub(super) gpus: GpuSet,
    /// What ids are made from, beside the host's.
    pub(super) identity: u128,
}

/// The files of the guest.
///
/// # Errors
/// `EIO` for files that make no sense.
pub(super) fn for_guest(tree: &Tree, sight: Sight) -> Result<(Topology, Tree), Errno> {
    let host = Topology::parse(tree).map_err(|error| {
        log::error!("the topology cannot be read: {error}");
        Errno::EIO
    })?;
    let topology = guest_topology(&host.topology, sight);
    let files = topology.tree(layout(tree));
    Ok((topology, files))
}

/// Node 0 stands for the guest's own memory and processors, which the guest knows better. Then come the GPUs, as far as guests
/// can use them, in order and without holes.
fn guest_topology(host: &Topology, sight: Sight) -> Topology {
    let chosen = host.gpus().enumerate().filter(|(index, _)| sight.gpus.contains(*index));
    let shared: Vec<&Node> = chosen.map(|(_, node)| node).filter(|node| can_be_shared(node)).collect();
    let numbers: HashMap<u32, u32> = shared.iter().zip(1..).map(|(node, number)| (node.id, number)).collect();
    let cpus = host.nodes.iter().filter(|node| !node.is_gpu()).map(|node| node.id).collect::<Vec<_>>();
    let number_of = |id: u32| if cpus.contains(&id) { Some(0) } else { numbers.get(&id).copied() };
    let gpus = shared.iter().zip(1..).map(|(node, number)| gpu(node, number, &number_of, sight));
    let mut nodes = vec![cpu(host)];
    if sight.window {
        // As of hosts whose CPUs see VRAM.
        let host: Vec<IoLink> =
            host.nodes.iter().filter(|node| !node.is_gpu()).flat_map(|node| node.io_links.clone()).collect();
        nodes[0].io_links = links(&host, 0, &number_of);
    }
    nodes.extend(gpus);
    nodes.iter_mut().for_each(Node::set_counts);
    Topology { generation_id: host.generation_id, nodes, ..Topology::default() }
}

/// Before gfx9 GPUs have addresses of 40 bits and apertures elsewhere.
fn can_be_shared(node: &Node) -> bool {
    let gfx = GfxVersion::decode(node.properties.gfx_target_version.into()).ok().flatten();
    let can = gfx.is_some_and(|gfx| gfx.major >= 9);
    if !can {
        log::info!("GPU {:#x} is not shown to the guest: only gfx9 and later are", node.gpu_id);
    }
    can
}

fn cpu(host: &Topology) -> Node {
    let clock = host.nodes.first().map_or(0, |node| node.properties.max_engine_clk_ccompute);
    let properties =
        NodeProperties { cpu_cores_count: 1, max_engine_clk_ccompute: clock, ..Default::default() };
    let bank = MemBank { heap_type: HEAP_SYSTEM, size_in_bytes: SOME_MEMORY, ..MemBank::default() };
    Node { properties, mem_banks: vec![bank], ..Node::default() }
}

fn gpu(host: &Node, number: u32, number_of: &dyn Fn(u32) -> Option<u32>, sight: Sight) -> Node {
    let mut node = Node { id: number, ..host.clone() };
    let properties = &mut node.properties;
    properties.capability &= !CAP_SVM;
    if !sight.debug {
        properties.capability &= !CAP_DEBUG;
        properties.debug_prop = 0;
    }
    // The processors of an APU are the host's.
    (properties.cpu_cores_count, properties.cpu_core_id_base) = (0, 0);
    properties.num_gws = 0;
    properties.domain = DOMAIN;
    properties.location_id = number << 8;
    properties.unique_id = hashed(properties.unique_id, sight.identity);
    properties.hive_id = hashed(properties.hive_id, sight.identity);
    if !sight.window {
        for bank in node.mem_banks.iter_mut().filter(|bank| bank.heap_type == HEAP_PUBLIC) {
            bank.heap_type = HEAP_PRIVATE;
        }
    }
    node.io_links = links(&host.io_links, number, number_of);
    // To other GPUs only: node 0 stands for all processors, and the way to the nearest ones is there.
    node.p2p_links = links(&host.p2p_links, number, number_of);
    node.p2p_links.retain(|link| link.node_to != 0);
    node
}

/// Links to what is shared, one for each. Those from processors to GPUs are there with a window only: else no CPU of the guest
/// sees VRAM.
fn links(host: &[IoLink], from: u32, number_of: &dyn Fn(u32) -> Option<u32>) -> Vec<IoLink> {
    let mut out: Vec<IoLink> = Vec::new();
    for link in host {
        let Some(node_to) = number_of(link.node_to) else { continue };
        if node_to != from && !out.iter().any(|other| other.node_to == node_to) {
            out.push(IoLink { node_from: from, node_to, ..*link });
        }
    }
    out
}

/// An id that tells nothing of the host's, but is the same whenever the same VM asks. 0 stays 0: there is none.
fn hashed(id: u64, identity: u128) -> u64 {
    if id == 0 {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write_u128(identity);
    hasher.write_u64(id);
    hasher.finish().max(1)
}

/// Which kernel has written the files: by the keys of a GPU's node.
fn layout(tree: &Tree) -> Layout {
    let has = |since: Since| {
        let keys = NodeProperties::KEYS.iter().chain(CacheProperties::KEYS);
        let keys: Vec<&Key> = keys.filter(|key| key.since == since).collect();
        let texts = tree.files.iter().filter(|(path, _)| path.ends_with("/properties"));
        texts.into_iter().any(|(_, text)| {
            let text = String::from_utf8_lossy(text);
            text.lines().any(|line| keys.iter().any(|key| line.split(' ').next() == Some(key.name)))
        })
    };
    if has(Since::Rocm) {
        Layout::Rocm
    } else if has(Since::After6_12) {
        Layout::Linux7_3
    } else {
        Layout::Linux6_12
    }
}

#[cfg(test)]
mod tests {
    use softgpu::{Kernel, Profile};

    use super::*;

    fn guest(profile: Profile) -> Topology {
        seen(profile, Sight::default())
    }

    fn seen(profile: Profile, sight: Sight) -> Topology {
        let tree = profile.machine(Kernel::default()).tree();
        let (topology, files) = for_guest(&tree, Sight { identity: 7, ..sight }).expect("valid");
        assert_eq!(Topology::parse(&files).expect("valid").topology, topology);
        topology
    }

    #[test]
    fn two_sockets_become_node_0_and_links_lead_to_it_once() {
        let topology = guest(Profile::Mi300x);
        let ids: Vec<u32> = topology.nodes.iter().map(|node| node.id).collect();
        assert_eq!(ids, [0, 1]);
        let gpu = &topology.nodes[1];
        let ends: Vec<_> = gpu.io_links.iter().map(|link| (link.node_from, link.node_to)).collect();
        assert_eq!((ends, gpu.p2p_links.len()), (vec![(1, 0)], 0));
        assert!(topology.nodes[0].io_links.is_empty(), "no CPU sees VRAM");
        assert_eq!(gpu.properties.io_links_count, 1);
    }

    #[test]
    fn with_a_window_vram_and_links_are_as_natively() {
        let window = Sight { window: true, ..Sight::default() };
        let host = Profile::Mi210.machine(Kernel::default()).topology;
        let topology = seen(Profile::Mi210, window);
        assert_eq!(topology.nodes[0].io_links, host.nodes[0].io_links);
        assert_eq!(topology.nodes[0].properties.io_links_count, 1);
        assert_eq!(topology.nodes[1].io_links, host.nodes[1].io_links);
        assert_eq!(topology.nodes[1].mem_banks, host.nodes[1].mem_banks);
        // One for each GPU, whichever socket it hangs on.
        let two = seen(Profile::TwoGpu, window);
        let ends: Vec<_> = two.nodes[0].io_links.iter().map(|link| (link.node_from, link.node_to)).collect();
        assert_eq!(ends, [(0, 1), (0, 2)]);
        // What a host's CPUs do not see, a guest's do not.
        let private = seen(Profile::Mi210Private, window);
        assert!(private.nodes[0].io_links.is_empty());
        assert!(private.nodes[1].mem_banks.iter().all(|bank| bank.heap_type == HEAP_PRIVATE));
    }

    #[test]
    fn nothing_is_offered_that_guests_do_not_have_and_no_id_is_the_hosts() {
        let host = Profile::TwoGpu.machine(Kernel::default()).topology;
        let topology = guest(Profile::TwoGpu);
        let (gpus, hosts): (Vec<_>, Vec<_>) = (topology.gpus().collect(), host.gpus().collect());
        assert_eq!(gpus.len(), 2);
        for (number, (gpu, host)) in (1..).zip(gpus.iter().zip(hosts)) {
            let p = &gpu.properties;
            assert_eq!(p.capability & (CAP_SVM | CAP_DEBUG), 0);
            assert_ne!(host.properties.capability & CAP_SVM, 0, "the host has it");
            assert_eq!((p.num_gws, p.debug_prop, p.domain, p.location_id), (0, 0, DOMAIN, number << 8));
            assert!(p.unique_id != 0 && p.unique_id != host.properties.unique_id);
            assert!(gpu.mem_banks.iter().all(|bank| bank.heap_type == HEAP_PRIVATE));
            assert_eq!(gpu.gpu_id, host.gpu_id);
        }
        let [one, other] = gpus[..] else { panic!("two") };
        assert_ne!(one.properties.unique_id, other.properties.unique_id);
        assert_eq!(one.properties.hive_id, other.properties.hive_id);
        let to_peer = |gpu: &Node| gpu.io_links.iter().map(|link| link.node_to).collect::<Vec<_>>();
        assert_eq!((to_peer(one), to_peer(other)), (vec![0, 2], vec![0, 1]));
    }

    #[test]
    fn ids_depend_on_the_vm_and_on_nothing_else() {
        assert_eq!(hashed(5, 7), hashed(5, 7));
        assert!(hashed(5, 7) != hashed(5, 8) && hashed(5, 7) != hashed(6, 7));
        assert_eq!(hashed(0, 7), 0);
    }

    #[test]
    fn the_files_are_those_of_the_hosts_kernel() {
        for kernel in [Kernel::Linux6_12, Kernel::Linux7_3, Kernel::Rocm] {
            let tree = Profile::Mi210.machine(kernel).tree();
            assert_eq!(layout(&tree), Layout::from(kernel));
        }
    }

    #[test]
    fn debuggers_get_what_they_need_where_the_host_allows_it() {
        let tree = Profile::Mi210.machine(Kernel::default()).tree();
        let (topology, _) = for_guest(&tree, Sight { debug: true, ..Sight::default() }).expect("valid");
        assert_ne!(topology.nodes[1].properties.capability & CAP_DEBUG, 0);
    }

    #[test]
    fn a_guest_sees_the_gpus_that_it_was_given_and_no_way_to_others() {
        let host = Profile::TwoGpu.machine(Kernel::default()).topology;
        let host: Vec<_> = host.gpus().collect();
        for (chosen, gpu_ids) in [
            ("0", vec![host[0].gpu_id]),
            ("1", vec![host[1].gpu_id]),
            ("0,1", vec![host[0].gpu_id, host[1].gpu_id]),
        ] {
            let gpus = chosen.parse().expect("a set");
            let topology = seen(Profile::TwoGpu, Sight { gpus, ..Sight::default() });
            assert_eq!(topology.gpus().map(|gpu| gpu.gpu_id).collect::<Vec<_>>(), gpu_ids);
            let ids: Vec<u32> = topology.nodes.iter().map(|node| node.id).collect();
            assert_eq!(ids, (0..=u32::try_from(gpu_ids.len()).expect("few")).collect::<Vec<_>>());
            let links = topology.nodes.iter().flat_map(|node| &node.io_links);
            assert!(links.into_iter().all(|link| ids.contains(&link.node_to)));
        }
    }
}
