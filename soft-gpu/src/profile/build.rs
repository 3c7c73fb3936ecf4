//! Puts a machine together: CPU nodes first, then one GPU after the other with its links, in the
//! order and with the flags of the kernel (`kfd_crat.c`, `kfd_topology.c`).

use protocol::kfd::topology::{IoLink, MemBank, Node, NodeProperties, SystemProperties, Topology};

use super::Machine;
use super::gpu::GpuSpec;
use super::node::gpu_node;
use crate::Kernel;

/// First SIMD id of GPUs that no firmware table describes (`gpu_processor_id_low`).
const FIRST_SIMD_ID: u32 = 0x8000_1000;

/// First render minor.
const FIRST_RENDER_MINOR: u32 = 128;

const LINK_HYPERTRANSPORT: u32 = 1;
const LINK_PCIE: u32 = 2;
const LINK_XGMI: u32 = 11;

const FLAG_ENABLED: u32 = 1;
const FLAG_NON_COHERENT: u32 = 2;
const FLAGS_NO_ATOMICS: u32 = 4 | 8;

const WEIGHT_PCIE: u32 = 20;
const WEIGHT_XGMI: u32 = 15;
/// Distance of two sockets in the firmware's table (SLIT), as real machines report it.
const WEIGHT_SOCKETS: u32 = 32;

/// The CPU side of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// NUMA nodes.
    pub nodes: u32,
    /// Logical processors of each.
    pub cores: u32,
    /// Bytes of memory of each.
    pub memory: u64,
    /// Highest clock of a core, MHz.
    pub mhz: u32,
    /// Memory clock, MHz.
    pub memory_mhz: u32,
}

/// Collects nodes and GPUs.
pub struct Builder {
    host: Host,
    kernel: Kernel,
    nodes: Vec<Node>,
    gpus: Vec<GpuSpec>,
    next_simd_id: u32,
}

impl Builder {
    /// A machine with CPU nodes only.
    pub fn new(host: Host, kernel: Kernel) -> Self {
        let nodes = (0..host.nodes).map(|id| cpu_node(&host, id)).collect();
        Self { host, kernel, nodes, gpus: Vec::new(), next_simd_id: FIRST_SIMD_ID }
    }

    /// Adds a GPU in PCI slot `location` below CPU node `cpu`; GPUs with the same `hive_id` other
    /// than 0 get XGMI links.
    pub fn gpu(mut self, mut spec: GpuSpec, cpu: u32, location: u32) -> Self {
        spec.node = index(self.nodes.len());
        spec.render_minor = FIRST_RENDER_MINOR + index(self.gpus.len());
        spec.pci.location = location;
        spec.gpu_id = self.gpu_id(&spec);
        let (node, sizes) = gpu_node(&spec, self.kernel, self.next_simd_id, self.host.mhz);
        spec.queue_sizes = sizes;
        let s = &spec.shaders;
        self.next_simd_id += s.engines * s.arrays_per_engine * s.cus_per_array;
        self.nodes.push(node);
        self.link_to_cpu(&spec, cpu);
        self.link_to_peers(&spec);
        self.gpus.push(spec);
        self
    }

    /// The finished machine.
    pub fn build(mut self) -> Machine {
        self.nodes.iter_mut().for_each(Node::set_counts);
        let topology = Topology {
            // Every node that arrives counts (`kfd_update_system_properties`).
            generation_id: 1 + index(self.gpus.len()),
            system: SystemProperties::default(),
            nodes: self.nodes,
        };
        Machine { topology, gpus: self.gpus, kernel: self.kernel, tree: None }
    }

    /// `kfd_generate_gpu_id`: a CRC of what tells GPUs apart, never 0 and never twice.
    fn gpu_id(&self, spec: &GpuSpec) -> u32 {
        let pci = &spec.pci;
        let [size_low, size_high] = [spec.vram.size & 0xffff_ffff, spec.vram.size >> 32];
        let words = [
            u64::from(pci.location & 0xff),
            u64::from(pci.subsystem_vendor) | u64::from(pci.subsystem_device) << 16,
            pci.domain.into(),
            pci.device.into(),
            pci.bus().into(),
            size_low,
            size_high,
            u64::from(spec.shaders.xccs) << 16,
        ];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(4));
        let mut id = u32::from(crc16(bytes));
        loop {
            id = id.max(1);
            if self.gpus.iter().all(|gpu| gpu.gpu_id != id) {
                return id;
            }
            id = (id + 1) & 0xffff;
        }
    }

    fn link_to_cpu(&mut self, spec: &GpuSpec, cpu: u32) {
        let atomics = if spec.features.pci_atomics { 0 } else { FLAGS_NO_ATOMICS };
        let lanes = spec.pci.lanes;
        let link = IoLink {
            kind: LINK_PCIE,
            node_from: spec.node,
            node_to: cpu,
            weight: WEIGHT_PCIE,
            min_bandwidth: pcie_mb_per_s(1, 1),
            max_bandwidth: pcie_mb_per_s(spec.pci.link_gen, lanes),
            recommended_sdma_engine_id_mask: mask(spec.sdma.engines, 0),
            flags: FLAG_ENABLED | atomics,
            ..IoLink::default()
        };
        self.io_link(link);
        let large_bar = spec.vram.is_large_bar();
        if large_bar {
            let flags = link.flags | FLAG_NON_COHERENT;
            self.io_link(IoLink { node_from: cpu, node_to: spec.node, flags, ..link });
        }
        for other in (0..self.host.nodes).filter(|&other| other != cpu) {
            // Through the other socket. The bandwidth of a link of sockets is not known (0).
            let link = IoLink {
                node_to: other,
                weight: link.weight + WEIGHT_SOCKETS,
                min_bandwidth: 0,
                max_bandwidth: 0,
                recommended_sdma_engine_id_mask: 0,
                ..link
            };
            self.p2p_link(link);
            if large_bar {
                let flags = link.flags | FLAG_NON_COHERENT;
                self.p2p_link(IoLink { node_from: other, node_to: spec.node, flags, ..link });
            }
        }
    }

    /// XGMI links to the members of the hive that are there already, both ways.
    fn link_to_peers(&mut self, spec: &GpuSpec) {
        let peers: Vec<u32> = self
            .gpus
            .iter()
            .filter(|peer| spec.hive_id != 0 && peer.hive_id == spec.hive_id)
            .map(|peer| peer.node)
            .collect();
        for peer in peers {
            let link = IoLink {
                kind: LINK_XGMI,
                node_from: spec.node,
                node_to: peer,
                weight: WEIGHT_XGMI,
                min_bandwidth: 50_000,
                max_bandwidth: 50_000,
                recommended_sdma_engine_id_mask: mask(spec.sdma.xgmi_engines, spec.sdma.engines),
                flags: FLAG_ENABLED,
                ..IoLink::default()
            };
            self.io_link(link);
            self.io_link(IoLink { node_from: peer, node_to: spec.node, ..link });
        }
    }

    fn io_link(&mut self, link: IoLink) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.id == link.node_from) {
            node.io_links.push(link);
        }
    }

    fn p2p_link(&mut self, link: IoLink) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.id == link.node_from) {
            node.p2p_links.push(link);
        }
    }
}

fn cpu_node(host: &Host, id: u32) -> Node {
    let bank =
        MemBank { size_in_bytes: host.memory, width: 64, mem_clk_max: host.memory_mhz, ..MemBank::default() };
    let sockets = (0..host.nodes).filter(|&other| other != id).map(|other| IoLink {
        kind: LINK_HYPERTRANSPORT,
        node_from: id,
        node_to: other,
        weight: WEIGHT_SOCKETS,
        ..IoLink::default()
    });
    Node {
        id,
        properties: NodeProperties {
            cpu_cores_count: host.cores,
            cpu_core_id_base: id * host.cores,
            max_engine_clk_ccompute: host.mhz,
            ..NodeProperties::default()
        },
        mem_banks: vec![bank],
        io_links: sockets.collect(),
        ..Node::default()
    }
}

/// Bandwidth of a PCIe link in MB/s, as `amdgpu_amdkfd_get_pcie_bandwidth_mbytes` counts it.
fn pcie_mb_per_s(generation: u32, lanes: u32) -> u32 {
    // Megatransfers per second of a lane; the driver does not count the coding.
    let mt_per_s = match generation {
        1 => 2500,
        2 => 5000,
        3 => 8000,
        4 => 16_000,
        _ => 32_000,
    };
    lanes * mt_per_s / 8
}

/// `count` bits from bit `first` on.
fn mask(count: u32, first: u32) -> u32 {
    (0..count).filter_map(|i| 1u32.checked_shl(first + i)).sum()
}

/// CRC-16 with the reflected polynomial 0x8005, start value 0 (the kernel's `crc16`).
fn crc16(bytes: impl Iterator<Item = u8>) -> u16 {
    bytes.fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 })
    })
}

fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check value of CRC-16/ARC, which the kernel's `crc16` is.
    #[test]
    fn crc16_has_its_check_value() {
        assert_eq!(crc16(b"123456789".iter().copied()), 0xbb3d);
    }

    #[test]
    fn equal_gpus_get_different_ids() {
        let host = Host { nodes: 1, cores: 1, memory: 1 << 30, mhz: 1000, memory_mhz: 1000 };
        let gpu = super::super::asics::mi210;
        let machine = Builder::new(host, Kernel::Linux6_12).gpu(gpu(), 0, 0x300).gpu(gpu(), 0, 0x300).build();
        assert_eq!(machine.gpus[1].gpu_id, machine.gpus[0].gpu_id + 1);
    }
}
