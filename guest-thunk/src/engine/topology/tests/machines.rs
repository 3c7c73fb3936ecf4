//! Shapes of machines: those of the collected faults, and what containers and firmware make of them.

use protocol::Errno;
use protocol::hsakmt::{HeapType, Status};
use protocol::kfd::topology::{GfxVersion, IoLink, MemBank, Node, NodeProperties, Topology};

use super::super::{Node as Seen, Snapshot};
use super::shown::{Shown, files, machine, snapshot};
use crate::engine::Options;
use crate::engine::options::GfxOverride;

fn directories(snapshot: &Snapshot) -> Vec<u32> {
    snapshot.nodes.iter().map(|node| node.kfd.id).collect()
}

fn ends(node: &Seen) -> Vec<(u32, u32)> {
    node.links.iter().map(|link| (link.node_from, link.node_to)).collect()
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// A firmware table's node with SIMDs that no driver took, and without memory banks (Bristol Ridge).
fn bristol_ridge() -> Topology {
    let properties = NodeProperties {
        cpu_cores_count: 4,
        simd_count: 40,
        cpu_core_id_base: 16,
        simd_id_base: 0x8000_0000,
        array_count: 1,
        simd_per_cu: 4,
        ..NodeProperties::default()
    };
    Topology { nodes: vec![Node { properties, ..Node::default() }], ..Topology::default() }
}

#[test]
fn t01_a_lone_cpu_without_memory_bank_gets_this_machines_memory_and_no_gpu() {
    let snapshot = snapshot(&bristol_ridge()).expect("a topology");
    let node = &snapshot.nodes[0];
    assert_eq!((node.gpu_id, node.properties.num_cpu_cores, node.properties.num_f_compute_cores), (0, 4, 0));
    assert_eq!((node.properties.num_shader_banks, node.properties.engine_id.0), (0, 0));
    assert_eq!(node.properties.num_memory_banks, 1);
    let bank = node.memory[0];
    assert_eq!(bank.heap_type, HeapType::SYSTEM);
    assert!({ bank.size_in_bytes } > 0);
}

#[test]
fn t01_a_gpu_with_engines_of_no_arrays_has_no_shader_banks() {
    let mut topology = machine(1);
    topology.nodes[1].properties.simd_arrays_per_engine = 0;
    let snapshot = snapshot(&topology).expect("a topology");
    assert_eq!({ snapshot.nodes[1].properties.num_shader_banks }, 0);
}

#[test]
fn t04_a_card_that_kfd_did_not_take_is_left_out_and_the_order_kept() {
    let mut topology = machine(2);
    topology.nodes[1] = Node { id: 1, ..Node::default() };
    let snapshot = snapshot(&topology).expect("a topology");
    assert_eq!(directories(&snapshot), [0, 2]);
    assert_eq!(ends(&snapshot.nodes[0]), [(0, 1)]);
    assert_eq!(ends(&snapshot.nodes[1]), [(1, 0)]);
}

#[test]
fn t04_a_gpu_that_nobody_knows_is_left_out_unless_it_is_said_what_it_is() {
    let mut topology = machine(2);
    topology.nodes[1].properties.gfx_target_version = 0;
    topology.nodes[1].properties.device_id = 0xffff;
    assert_eq!(directories(&snapshot(&topology).expect("a topology")), [0, 2]);
    let version = GfxVersion::new(9, 0, 10);
    let gfx_overrides = vec![GfxOverride { node: Some(1), version: Some(version) }];
    let engine = Shown::new([files(&topology)]).engine(Options { gfx_overrides, ..Options::default() });
    let snapshot = engine.snapshot().expect("a topology");
    assert_eq!(directories(&snapshot), [0, 1, 2]);
    assert_eq!((snapshot.nodes[1].gfx, snapshot.nodes[1].hardware), (version, version));
}

#[test]
fn an_override_that_is_no_version_fails_the_topology_as_amds_does() {
    let gfx_overrides = vec![GfxOverride { node: Some(1), version: None }];
    let engine = Shown::new([files(&machine(2))]).engine(Options { gfx_overrides, ..Options::default() });
    assert_eq!(engine.snapshot().err(), Some(Status::Error));
}

#[test]
fn t06_instruction_sets_follow_gfx_target_version() {
    for (value, gfx, amd_name) in [
        (90402, (9, 4, 2), "GFX090402"),
        (90010, (9, 0, 10), "GFX09000a"),
        (90012, (9, 0, 12), "GFX09000c"),
        (110501, (11, 5, 1), "GFX0b0501"),
        (120001, (12, 0, 1), "GFX0c0001"),
        (100306, (10, 3, 6), "GFX0a0306"),
    ] {
        let mut topology = machine(1);
        topology.nodes[1].properties.gfx_target_version = value;
        topology.nodes[1].properties.device_id = 0xffff;
        let snapshot = snapshot(&topology).expect("a topology");
        let node = &snapshot.nodes[1];
        assert_eq!(node.gfx, GfxVersion::new(gfx.0, gfx.1, gfx.2), "{value}");
        let id = node.properties.engine_id;
        assert_eq!((id.major(), id.minor(), id.stepping()), (gfx.0.into(), gfx.1.into(), gfx.2.into()));
        assert_eq!(name(&node.properties.amd_name), amd_name);
    }
    let mut topology = machine(1);
    topology.nodes[1].properties.gfx_target_version = 110_099;
    assert_eq!(snapshot(&topology).err(), Some(Status::Error));
    let mut tree = files(&machine(1));
    tree.files.insert("nodes/1/properties".to_owned(), b"gfx_target_version 4294967296\n".to_vec());
    assert_eq!(Shown::new([tree]).snapshot().err(), Some(Status::Error));
}

#[test]
fn t06_old_kernels_without_gfx_target_version_leave_it_to_the_device_id() {
    let mut topology = machine(1);
    topology.nodes[1].properties.gfx_target_version = 0;
    topology.nodes[1].properties.device_id = 0x6860;
    let snapshot = snapshot(&topology).expect("a topology");
    assert_eq!(snapshot.nodes[1].gfx, GfxVersion::new(9, 0, 0));
    assert_eq!(name(&snapshot.nodes[1].properties.amd_name), "Vega10");
}

#[test]
fn t09_63_partitions_keep_their_render_minors() {
    let mut topology = machine(63);
    // Another DRM device has a minor in the middle.
    topology.nodes.iter_mut().skip(40).for_each(|node| node.properties.drm_render_minor += 1);
    let snapshot = snapshot(&topology).expect("a topology");
    assert_eq!((snapshot.system.num_nodes, snapshot.gpus().count()), (64, 63));
    let minor = |at: usize| snapshot.nodes[at].properties.drm_render_minor;
    assert_eq!((minor(39), minor(40), minor(63)), (166, 168, 191));
    assert_eq!(snapshot.nodes[63].links.len(), 63);
}

/// GPUs that a container may not use, of eight: all but the fifth.
fn hidden() -> impl Iterator<Item = u32> {
    (1..=8).filter(|&id| id != 5)
}

fn assert_only_the_fifth_gpu(snapshot: &Snapshot) {
    assert_eq!(directories(snapshot), [0, 5]);
    assert_eq!(snapshot.system.num_nodes, 2);
    assert_eq!(ends(&snapshot.nodes[0]), [(0, 1)]);
    assert_eq!(ends(&snapshot.nodes[1]), [(1, 0)]);
    assert_eq!(snapshot.nodes[1].gpu_id, 1005);
    assert_eq!(snapshot.nodes[1].properties.num_io_links, 1);
    assert_eq!(snapshot.node_of_gpu(1005), Some(1));
    assert_eq!(snapshot.node_of_gpu(1004), None);
}

#[test]
fn t10_gpus_whose_files_are_denied_do_not_exist() {
    let mut tree = files(&machine(8));
    for id in hidden() {
        tree.files.remove(&format!("nodes/{id}/gpu_id"));
        tree.denied.insert(format!("nodes/{id}/gpu_id"));
    }
    assert_only_the_fifth_gpu(&Shown::new([tree]).snapshot().expect("a topology"));
}

#[test]
fn t10_gpus_whose_render_node_is_not_there_do_not_exist() {
    for errno in [Errno::ENOENT, Errno::EPERM] {
        let shown = Shown::new([files(&machine(8))]);
        let shown = hidden().fold(shown, |shown, id| shown.refuse(127 + id, errno));
        assert_only_the_fifth_gpu(&shown.snapshot().expect("a topology"));
    }
}

#[test]
fn t10_a_render_node_that_fails_otherwise_fails_the_snapshot() {
    for errno in [Errno::EACCES, Errno::EMFILE, Errno::EIO] {
        let shown = Shown::new([files(&machine(2))]).refuse(129, errno);
        assert_eq!(shown.snapshot().err(), Some(Status::Error), "{errno}");
    }
}

#[test]
fn gpus_need_a_render_minor_that_exists() {
    for minor in [0, 127, 256, u32::MAX] {
        let mut topology = machine(1);
        topology.nodes[1].properties.drm_render_minor = minor;
        assert_eq!(snapshot(&topology).err(), Some(Status::Error), "{minor}");
    }
}

#[test]
fn t13_one_node_can_be_cpu_and_gpu() {
    let mut topology = machine(1);
    let mut node = topology.nodes.pop().expect("a GPU");
    node.id = 0;
    node.io_links.clear();
    node.properties.cpu_cores_count = 4;
    node.properties.simd_count = 32;
    node.properties.gfx_target_version = 0;
    node.properties.device_id = 0x9874;
    topology.nodes = vec![node];
    let snapshot = snapshot(&topology).expect("a topology");
    let node = &snapshot.nodes[0];
    assert_eq!((node.properties.num_cpu_cores, node.properties.num_f_compute_cores), (4, 32));
    assert_eq!((node.gpu_id, node.gfx), (1001, GfxVersion::new(8, 0, 1)));
    assert_eq!(name(&node.properties.amd_name), "Carrizo");
    assert!(!snapshot.has_discrete_gpu());
}

#[test]
fn t15_cpus_without_memory_stay_as_long_as_another_one_has_some() {
    let mut topology = machine(0);
    let node = topology.nodes[0].clone();
    topology.nodes = (0..4).map(|id| Node { id, ..node.clone() }).collect();
    for empty in [0, 3] {
        topology.nodes[empty].mem_banks.clear();
        topology.nodes[empty].set_counts();
    }
    let snapshot = snapshot(&topology).expect("a topology");
    let banks: Vec<u32> = snapshot.nodes.iter().map(|node| node.properties.num_memory_banks).collect();
    assert_eq!(banks, [0, 1, 1, 0]);
}

#[test]
fn d09_numbers_are_those_of_what_is_there() {
    let mut topology = machine(1);
    let p = &mut topology.nodes[1].properties;
    (p.mem_banks_count, p.caches_count, p.io_links_count, p.p2p_links_count) = (7, 0, u32::MAX, 9);
    let caches = u32::try_from(topology.nodes[1].caches.len()).expect("few");
    let snapshot = snapshot(&topology).expect("a topology");
    let p = &snapshot.nodes[1].properties;
    assert_eq!((p.num_memory_banks, p.num_caches, p.num_io_links), (1, caches, 1));
}

#[test]
fn no_node_at_all_is_a_topology() {
    let snapshot = snapshot(&Topology::default()).expect("a topology");
    assert_eq!((snapshot.system.num_nodes, snapshot.nodes.len()), (0, 0));
}

/// Two sockets with a GPU each, as a kernel that does not know peer links lists them.
fn two_sockets() -> Topology {
    let mut topology = machine(2);
    let link =
        |kind, node_from, node_to, weight| IoLink { kind, node_from, node_to, weight, ..IoLink::default() };
    let socket = |id, peer, gpu| Node {
        id,
        io_links: vec![link(1, id, peer, 32), link(2, id, gpu, 20)],
        ..topology.nodes[0].clone()
    };
    let gpu = |id: u32, cpu| {
        let mut gpu = topology.nodes[1].clone();
        (gpu.id, gpu.gpu_id, gpu.properties.drm_render_minor, gpu.properties.hive_id) = (id, id, 126 + id, 0);
        gpu.io_links = vec![link(2, id, cpu, 20)];
        gpu
    };
    topology.nodes = vec![socket(0, 1, 2), socket(1, 0, 3), gpu(2, 0), gpu(3, 1)];
    topology.nodes.iter_mut().for_each(Node::set_counts);
    topology
}

#[test]
fn links_over_cpus_are_added_where_the_kernel_knows_none() {
    let mut tree = files(&two_sockets());
    let told = Shown::new([tree.clone()]).snapshot().expect("a topology");
    assert_eq!(ends(&told.nodes[2]), [(2, 0)], "the kernel says that there are none");
    for id in 0..4 {
        let file = tree.files.get_mut(&format!("nodes/{id}/properties")).expect("a node");
        *file = String::from_utf8_lossy(file).replace("p2p_links_count 0\n", "").into_bytes();
    }
    let snapshot = Shown::new([tree]).snapshot().expect("a topology");
    assert_eq!(ends(&snapshot.nodes[2]), [(2, 0), (2, 1), (2, 3)]);
    assert_eq!(ends(&snapshot.nodes[0]), [(0, 1), (0, 2), (0, 3)]);
    let peer = snapshot.nodes[2].links[2];
    assert_eq!((peer.io_link_type.0, peer.weight, peer.maximum_bandwidth), (1, 72, 0));
    assert_eq!(snapshot.nodes[2].properties.num_io_links, 3);
    assert_eq!(
        (snapshot.nearest_cpu(2), snapshot.nearest_cpu(3), snapshot.nearest_cpu(0)),
        (Some(0), Some(1), None)
    );
}

#[test]
fn the_nearest_cpu_must_have_memory() {
    let mut topology = two_sockets();
    topology.nodes[1].mem_banks = vec![MemBank::default()];
    let snapshot = snapshot(&topology).expect("a topology");
    assert_eq!(
        (snapshot.nearest_cpu(2), snapshot.nearest_cpu(3), snapshot.nearest_cpu(9)),
        (Some(0), None, None)
    );
}

#[test]
fn a_gfx_version_from_the_environment_is_told_and_the_hardwares_kept() {
    let version = GfxVersion::new(10, 3, 0);
    let gfx_overrides = vec![GfxOverride { node: Some(2), version: Some(version) }];
    let engine = Shown::new([files(&machine(2))]).engine(Options { gfx_overrides, ..Options::default() });
    let snapshot = engine.snapshot().expect("a topology");
    let hardware = GfxVersion::new(9, 0, 10);
    let [_, first, second] = &*snapshot.nodes else { panic!("three nodes") };
    assert_eq!((first.gfx, second.gfx, second.hardware), (hardware, version, hardware));
    let p = &second.properties;
    assert_eq!((p.engine_id.major(), p.engine_id.minor(), p.vgpr_size_per_cu), (10, 3, 0x4_0000));
    assert_eq!(p.override_engine_id.major(), 10);
    assert_eq!({ first.properties.override_engine_id }.0, 0);
    assert_eq!(name(&p.amd_name), "Aldebaran", "the chip is what it is");
}

#[test]
fn svm_can_be_switched_off() {
    let capability = |svm| {
        let engine = Shown::new([files(&machine(1))]).engine(Options { svm, ..Options::default() });
        engine.snapshot().expect("a topology").nodes[1].properties.capability
    };
    assert!(capability(true).svm_api_supported());
    assert!(!capability(false).svm_api_supported());
}

#[test]
fn a_topology_that_changes_while_it_is_read_is_read_again() {
    let mut torn = files(&Topology { generation_id: 1, ..machine(2) });
    torn.files.remove("nodes/1/gpu_id");
    let whole = files(&Topology { generation_id: 2, ..machine(1) });
    let snapshot = Shown::new([torn.clone(), whole]).snapshot().expect("a topology");
    assert_eq!((snapshot.generation, snapshot.nodes.len()), (2, 2));
    assert_eq!(
        Shown::new([torn.clone(), torn.clone()]).snapshot().err(),
        Some(Status::Error),
        "it stays torn"
    );
    let changing = (0_u32..50).map(|id| {
        let mut tree = torn.clone();
        tree.files.insert("generation_id".to_owned(), format!("{id}\n").into_bytes());
        tree
    });
    assert_eq!(Shown::new(changing).snapshot().err(), Some(Status::Error), "it ends");
    assert_eq!(Shown::new([]).snapshot().err(), Some(Status::Error), "no topology");
}
