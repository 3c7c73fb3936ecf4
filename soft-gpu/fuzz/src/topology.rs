//! Topology trees: lines of any text in the files of two nodes, and the machine that they make.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::kfd::topology::{Topology, Tree};
use softgpu::{Kernel, Machine};

const FILES: [&str; 10] = [
    "generation_id",
    "system_properties",
    "nodes/0/gpu_id",
    "nodes/0/properties",
    "nodes/0/mem_banks/0/properties",
    "nodes/1/gpu_id",
    "nodes/1/properties",
    "nodes/1/mem_banks/0/properties",
    "nodes/1/caches/0/properties",
    "nodes/1/io_links/0/properties",
];

fuzz_target!(|data: &[u8]| {
    let mut tree = Tree::default();
    // Files are separated by a zero byte, which none of them has.
    for (path, contents) in FILES.into_iter().zip(data.split(|byte| *byte == 0)) {
        tree.files.insert(path.to_owned(), contents.to_vec());
    }
    let _ = Topology::parse(&tree);
    let _ = Machine::from_tree(tree, Kernel::Linux6_12);
});
