//! Links between nodes: those of the kernel, and those over a CPU that the thunk adds on kernels that list no
//! indirect ones.

use std::collections::BTreeMap;

use protocol::hsakmt::{IoLinkProperties, IoLinkType, Status};
use protocol::kfd::topology;

use crate::engine::{Result, room};

/// Highest weight of one hop: KFD gives 20 to PCI Express, and more to what leads over other nodes. It is also
/// the highest distance of two CPU nodes in one socket.
const ONE_HOP: u32 = 20;

/// What the rules for indirect links ask about a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Endpoint {
    /// Whether it has a GPU.
    pub(super) is_gpu: bool,
    /// XGMI hive; 0 outside of one.
    pub(super) hive: u64,
    /// Whether a memory bank of it is reached by the CPU and other GPUs (large BAR).
    pub(super) visible: bool,
}

/// The kernel's links of one node, as programs see them: first those to direct neighbours, then peer to peer ones.
///
/// `user_ids` has the visible nodes by directory number; links to others are left out. A node has at most one
/// link to each other node; what is beyond that number is left out too.
///
/// # Errors
/// `NO_MEMORY`.
pub(super) fn of_node(node: &topology::Node, user_ids: &BTreeMap<u32, u32>) -> Result<Vec<IoLinkProperties>> {
    let most = user_ids.len().saturating_sub(1);
    let Some(&from) = user_ids.get(&node.id) else { return Ok(Vec::new()) };
    let all = node.io_links.iter().chain(&node.p2p_links);
    let visible = all.filter_map(|link| user_ids.get(&link.node_to).map(|&to| convert(link, from, to)));
    let mut links = Vec::new();
    for link in visible.take(most) {
        room::push(&mut links, link)?;
    }
    Ok(links)
}

fn convert(link: &topology::IoLink, from: u32, to: u32) -> IoLinkProperties {
    IoLinkProperties {
        io_link_type: link.kind.into(),
        version_major: link.version_major,
        version_minor: link.version_minor,
        node_from: from,
        node_to: to,
        weight: link.weight,
        minimum_latency: link.min_latency,
        maximum_latency: link.max_latency,
        minimum_bandwidth: link.min_bandwidth,
        maximum_bandwidth: link.max_bandwidth,
        rec_transfer_size: link.recommended_transfer_size,
        rec_sdma_eng_id_mask: link.recommended_sdma_engine_id_mask,
        flags: link.flags.into(),
    }
}

/// The node at the other end of a GPU's own PCI Express link.
pub(super) fn cpu(links: &[IoLinkProperties]) -> Option<u32> {
    let mut near =
        links.iter().filter(|link| { link.io_link_type } == IoLinkType::PCIEXPRESS && link.weight <= ONE_HOP);
    near.next().map(|link| link.node_to)
}

/// Adds the links of GPUs over a CPU to `links`, which has those of each node.
///
/// # Errors
/// `NO_MEMORY`.
pub(super) fn add_indirect(nodes: &[Endpoint], links: &mut [Vec<IoLinkProperties>]) -> Result<()> {
    let mut graph = Graph::new(nodes, links)?;
    let most = nodes.len().saturating_sub(1);
    for low in 0..nodes.len() {
        for high in low + 1..nodes.len() {
            for (from, to) in [(low, high), (high, low)] {
                let Some(hop) = graph.over_cpu(from, to) else { continue };
                let Some(list) = links.get_mut(from).filter(|list| list.len() < most) else { continue };
                room::push(list, hop.link(from, to)?)?;
                graph.hops.entry((from, to)).or_insert(hop);
            }
        }
    }
    Ok(())
}

/// Kind and weight of a link or a way over several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    kind: IoLinkType,
    weight: u32,
}

impl Hop {
    /// The way as a link. Nothing else is known about it.
    fn link(self, from: usize, to: usize) -> Result<IoLinkProperties> {
        let id = |node| u32::try_from(node).map_err(|_| Status::Error);
        Ok(IoLinkProperties {
            io_link_type: self.kind,
            node_from: id(from)?,
            node_to: id(to)?,
            weight: self.weight,
            ..IoLinkProperties::default()
        })
    }
}

struct Graph<'a> {
    nodes: &'a [Endpoint],
    /// Of each GPU, the CPU at the other end of its PCI Express link.
    cpus: Vec<Option<usize>>,
    /// The first link from one node to another.
    hops: BTreeMap<(usize, usize), Hop>,
}

impl<'a> Graph<'a> {
    fn new(nodes: &'a [Endpoint], links: &[Vec<IoLinkProperties>]) -> Result<Self> {
        let mut hops = BTreeMap::new();
        let index = |id| usize::try_from(id).unwrap_or(usize::MAX);
        for (from, list) in links.iter().enumerate() {
            for link in list {
                let hop = Hop { kind: link.io_link_type, weight: link.weight };
                hops.entry((from, index(link.node_to))).or_insert(hop);
            }
        }
        let near =
            |(node, list): (&Endpoint, &Vec<IoLinkProperties>)| cpu(list).filter(|_| node.is_gpu).map(index);
        let cpus = room::collect(nodes.len(), nodes.iter().zip(links).map(near))?;
        Ok(Self { nodes, cpus, hops })
    }

    /// The way from one node to another over one or two CPUs, if GPUs are involved and there is one. GPUs of one
    /// hive have links of their own. The end of the way must be reachable: all memory of a GPU has to be visible.
    fn over_cpu(&self, from: usize, to: usize) -> Option<Hop> {
        let (a, b) = (self.nodes.get(from)?, self.nodes.get(to)?);
        let one_hive = a.hive != 0 && a.hive == b.hive;
        if (!a.is_gpu && !b.is_gpu) || one_hive || (b.is_gpu && !b.visible) {
            return None;
        }
        let hop = |from, to| self.hops.get(&(from, to)).copied();
        let (kind, weights) = match (self.cpu(from), self.cpu(to)) {
            (Some(cpu), Some(other)) if cpu == other => {
                let (first, second) = (hop(from, cpu)?, hop(cpu, to)?);
                (second.kind, [first.weight, second.weight, 0])
            }
            (Some(cpu), Some(other)) => {
                let (first, second) = (hop(from, cpu)?, hop(cpu, other)?);
                // GPUs behind different sockets do not reach each other over QPI.
                if second.kind == IoLinkType::QPI_1_1 && second.weight > ONE_HOP {
                    return None;
                }
                (second.kind, [first.weight, second.weight, hop(other, to)?.weight])
            }
            (Some(cpu), None) => {
                let (first, second) = (hop(from, cpu)?, hop(cpu, to)?);
                (second.kind, [first.weight, second.weight, 0])
            }
            (None, Some(cpu)) => {
                let (first, second) = (hop(from, cpu)?, hop(cpu, to)?);
                (first.kind, [first.weight, second.weight, 0])
            }
            (None, None) => return None,
        };
        let weight = weights.into_iter().fold(0, u32::saturating_add);
        // Nothing weighs nothing: links of unknown weight lead nowhere.
        (weight != 0).then_some(Hop { kind, weight })
    }

    fn cpu(&self, node: usize) -> Option<usize> {
        self.cpus.get(node).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HYPERTRANSPORT: u32 = IoLinkType::HYPERTRANSPORT.0;
    const PCIE: u32 = IoLinkType::PCIEXPRESS.0;
    const QPI: u32 = IoLinkType::QPI_1_1.0;

    const CPU: Endpoint = Endpoint { is_gpu: false, hive: 0, visible: false };
    const GPU: Endpoint = Endpoint { is_gpu: true, hive: 0, visible: true };

    fn link(kind: u32, from: u32, to: u32, weight: u32) -> IoLinkProperties {
        IoLinkProperties {
            io_link_type: kind.into(),
            node_from: from,
            node_to: to,
            weight,
            ..Default::default()
        }
    }

    /// Two sockets, each with one GPU: nodes 0 and 1 are CPUs, 2 and 3 GPUs.
    fn two_sockets(kind: u32, distance: u32) -> Vec<Vec<IoLinkProperties>> {
        vec![
            vec![link(kind, 0, 1, distance), link(PCIE, 0, 2, 20)],
            vec![link(kind, 1, 0, distance), link(PCIE, 1, 3, 20)],
            vec![link(PCIE, 2, 0, 20)],
            vec![link(PCIE, 3, 1, 20)],
        ]
    }

    fn added(nodes: &[Endpoint], links: &[Vec<IoLinkProperties>]) -> Vec<(u32, u32, u32, u32)> {
        let mut all = links.to_vec();
        add_indirect(nodes, &mut all).expect("memory");
        let new = all.iter().zip(links).flat_map(|(all, old)| all.iter().skip(old.len()));
        new.map(|link| (link.node_from, link.node_to, link.io_link_type.0, link.weight)).collect()
    }

    #[test]
    fn gpus_of_two_sockets_reach_each_other_and_the_far_cpu() {
        let nodes = [CPU, CPU, GPU, GPU];
        let added = added(&nodes, &two_sockets(HYPERTRANSPORT, 32));
        assert_eq!(
            added,
            [
                (0, 3, HYPERTRANSPORT, 52),
                (1, 2, HYPERTRANSPORT, 52),
                (2, 1, HYPERTRANSPORT, 52),
                (2, 3, HYPERTRANSPORT, 72),
                (3, 0, HYPERTRANSPORT, 52),
                (3, 2, HYPERTRANSPORT, 72)
            ]
        );
    }

    #[test]
    fn qpi_between_sockets_carries_no_peer_access() {
        let nodes = [CPU, CPU, GPU, GPU];
        let peers = |added: Vec<(u32, u32, u32, u32)>| added.iter().filter(|l| l.0 > 1 && l.1 > 1).count();
        assert_eq!(peers(added(&nodes, &two_sockets(QPI, 21))), 0);
        assert_eq!(peers(added(&nodes, &two_sockets(QPI, 20))), 2, "two nodes of one socket");
    }

    #[test]
    fn gpus_of_one_cpu_reach_each_other_unless_memory_is_private_or_they_are_a_hive() {
        let links = vec![
            vec![link(PCIE, 0, 1, 20), link(PCIE, 0, 2, 20)],
            vec![link(PCIE, 1, 0, 20)],
            vec![link(PCIE, 2, 0, 20)],
        ];
        assert_eq!(added(&[CPU, GPU, GPU], &links), [(1, 2, 2, 40), (2, 1, 2, 40)]);
        let private = Endpoint { visible: false, ..GPU };
        assert_eq!(added(&[CPU, GPU, private], &links), [(2, 1, 2, 40)]);
        let hive = Endpoint { hive: 7, ..GPU };
        assert_eq!(added(&[CPU, hive, hive], &links), []);
        assert_eq!(added(&[], &[]), []);
    }

    #[test]
    fn d09_a_node_has_no_more_links_than_other_nodes() {
        let io_link = |node_to| topology::IoLink { node_to, ..Default::default() };
        let node = topology::Node {
            id: 4,
            io_links: vec![io_link(9), io_link(0), io_link(0)],
            p2p_links: vec![io_link(7), io_link(0)],
            ..Default::default()
        };
        let ids = BTreeMap::from([(0, 0), (4, 1), (7, 2)]);
        let to: Vec<_> =
            of_node(&node, &ids).expect("memory").iter().map(|l| (l.node_from, l.node_to)).collect();
        assert_eq!(to, [(1, 0), (1, 0)], "node 9 is hidden; two links at most");
    }

    proptest! {
        #[test]
        fn any_links_are_bounded(
            gpus in prop::collection::vec((any::<bool>(), 0_u64..2, any::<bool>()), 0..12),
            raw in prop::collection::vec((0_usize..12, 0_u32..14, 0_u32..6, any::<u32>()), 0..60),
        ) {
            let nodes: Vec<_> =
                gpus.iter().map(|&(is_gpu, hive, visible)| Endpoint { is_gpu, hive, visible }).collect();
            let mut links = vec![Vec::new(); nodes.len()];
            for (from, to, kind, weight) in raw {
                if let Some(list) = links.get_mut(from).filter(|list| list.len() + 1 < nodes.len()) {
                    list.push(link(kind, u32::try_from(from).expect("small"), to, weight));
                }
            }
            add_indirect(&nodes, &mut links).expect("memory");
            prop_assert!(links.iter().all(|list| list.len() < nodes.len()));
        }
    }
}
