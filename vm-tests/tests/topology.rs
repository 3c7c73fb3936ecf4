//! The topology that a real kernel shows, as a witness for what we read and write.

use std::collections::BTreeSet;
use std::path::Path;

use protocol::kfd::topology::{IoLink, Layout, Topology, Tree};
use softgpu::{Kernel, Profile};
use vm_tests::{Config, Result, Vm};

const ROOT: &str = "/sys/devices/virtual/kfd/kfd/topology";

/// Two NUMA nodes with a processor and memory each.
const TWO_NODES: [&str; 8] = [
    "-object",
    "memory-backend-ram,id=near,size=512M",
    "-object",
    "memory-backend-ram,id=far,size=512M",
    "-numa",
    "node,nodeid=0,memdev=near,cpus=0",
    "-numa",
    "node,nodeid=1,memdev=far,cpus=1",
];

#[test]
fn a_real_kernels_topology_is_read_and_written_to_the_byte() -> Result<()> {
    let mut config = Config::stock()?.module("amdgpu").program(Path::new("/usr/bin/find")).memory_mib(1024);
    config.qemu_arguments.extend(TWO_NODES.map(str::to_owned));
    let mut vm = Vm::boot(&config)?;
    let tree = tree(&mut vm)?;
    let directories = list(&mut vm, "d")?;
    vm.power_off()?;

    let parsed = Topology::parse(&tree).expect("the kernel's topology is one");
    assert_eq!(parsed.warnings, []);
    assert_eq!(text(&parsed.topology.tree(Layout::Linux6_12)), text(&tree));
    assert_eq!(tree.directories(), directories);
    sockets_are_linked_as_in_our_machines(&parsed.topology);
    cpu_nodes_have_the_keys_of_a_profile(&tree);
    Ok(())
}

/// As our machines link CPU nodes: nothing but kind and distance is known (`kfd_fill_iolink_info_for_cpu`).
/// The kind is HyperTransport or, for CPUs of other vendors, QPI; 20 is QEMU's distance.
fn sockets_are_linked_as_in_our_machines(real: &Topology) {
    assert_eq!(real.nodes.len(), 2);
    for node in &real.nodes {
        let kind = node.io_links[0].kind;
        assert!(matches!(kind, 1 | 5), "{:?}", node.io_links);
        let link = IoLink { kind, node_from: node.id, node_to: 1 - node.id, weight: 20, ..IoLink::default() };
        assert_eq!(node.io_links, [link]);
        assert_eq!(node.properties.cpu_core_id_base, node.id);
    }
    assert_eq!(real.generation_id, Profile::CpuOnly.machine(Kernel::Linux6_12).topology.generation_id);
}

fn cpu_nodes_have_the_keys_of_a_profile(real: &Tree) {
    let ours = Profile::CpuOnly.machine(Kernel::Linux6_12).tree();
    for (path, bytes) in &ours.files {
        let keys = |bytes: &[u8]| -> Vec<String> {
            let lines = String::from_utf8_lossy(bytes).into_owned();
            lines.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
        };
        let there = real.files.get(path).unwrap_or_else(|| panic!("the kernel has no {path}"));
        assert_eq!(keys(bytes), keys(there), "{path}");
    }
}

fn tree(vm: &mut Vm) -> Result<Tree> {
    let mut tree = Tree::default();
    for path in list(vm, "f")? {
        let bytes = vm.get(&format!("{ROOT}/{path}"))?;
        tree.files.insert(path, bytes);
    }
    Ok(tree)
}

/// Files ("f") or directories ("d") below the root, relative to it.
fn list(vm: &mut Vm, kind: &str) -> Result<BTreeSet<String>> {
    let paths = vm.exec(["find", ROOT, "-mindepth", "1", "-type", kind])?.success()?;
    Ok(paths
        .lines()
        .filter_map(|path| Some(path.strip_prefix(ROOT)?.strip_prefix('/')?.to_owned()))
        .collect())
}

/// The files as text, for a readable difference.
fn text(tree: &Tree) -> Vec<(&str, String)> {
    tree.files
        .iter()
        .map(|(path, bytes)| (path.as_str(), String::from_utf8_lossy(bytes).into_owned()))
        .collect()
}
