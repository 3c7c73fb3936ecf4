//! Topology trees of machines that no profile is, in the shapes of the captures that TOPOLOGIES.md tells of.
#![allow(dead_code, reason = "each test needs some of them")]

use std::path::Path;

use protocol::kfd::topology::GfxVersion;
use softgpu::profile::{Builder, Host, load};
use softgpu::{GpuSpec, Kernel, Machine, Profile};

const KERNEL: Kernel = Kernel::Linux6_12;

/// Sockets of 16 processors and 64 GiB each.
fn host(nodes: u32) -> Host {
    Host { nodes, cores: 16, memory: 64 << 30, mhz: 2450, memory_mhz: 3200 }
}

/// The GPU of a profile, as number `n` of its machine: GPUs with one hive have XGMI links.
fn gpu(profile: Profile, n: u32, hive_id: u64) -> GpuSpec {
    let mut gpu = profile.machine(KERNEL).gpus.remove(0);
    gpu.unique_id += u64::from(n);
    gpu.hive_id = hive_id;
    gpu
}

/// Bus number `n` + 1.
fn bus(n: u32) -> u32 {
    (n + 1) << 8
}

/// Eight MI210, four in each hive, on these sockets.
pub fn eight_mi210(sockets: u32) -> Machine {
    let builder = (0..8).fold(Builder::new(host(sockets), KERNEL), |builder, n| {
        builder.gpu(gpu(Profile::Mi210, n, 0x4000 + u64::from(n / 4)), n / 4 % sockets, bus(n))
    });
    builder.build()
}

/// Eight MI300X of which each is four GPUs with a die and 48 GiB, on two sockets.
pub fn partitions() -> Machine {
    let builder = (0..32).fold(Builder::new(host(2), KERNEL), |builder, n| {
        let mut part = gpu(Profile::Mi300x, n / 4, 0x4000 + u64::from(n / 16));
        part.shaders.xccs = 1;
        part.vram.size = 48 << 30;
        part.vram.visible = part.vram.size;
        builder.gpu(part, n / 16, bus(n))
    });
    builder.build()
}

/// A card of which nothing is known about its links, as one tree was posted.
pub fn card_without_links() -> Machine {
    let mut machine = Profile::Rx7900xtx.machine(KERNEL);
    for node in &mut machine.topology.nodes {
        node.io_links.clear();
        node.p2p_links.clear();
        node.set_counts();
    }
    machine
}

/// An APU's firmware table with a GPU that no driver took, and without memory bank.
pub fn untaken_apu() -> Machine {
    let mut machine = Profile::CpuOnly.machine(KERNEL);
    for node in &mut machine.topology.nodes {
        node.properties.simd_count = 40;
        node.properties.simd_per_cu = 4;
        node.properties.array_count = 1;
        node.mem_banks.clear();
        node.set_counts();
    }
    machine
}

/// A GPU of gfx8, which reaches 40 bits of addresses.
pub fn gpu_of_40_bits() -> Machine {
    let mut machine = Profile::Mi210.machine(KERNEL);
    for node in machine.topology.nodes.iter_mut().filter(|node| node.is_gpu()) {
        node.properties.gfx_target_version = 80003;
        node.properties.device_id = 0x67df;
    }
    for gpu in &mut machine.gpus {
        gpu.gfx = GfxVersion::new(8, 0, 3);
    }
    machine
}

/// Writes the tree for `softgpu run --topology`.
pub fn write(machine: &Machine, dir: &Path) {
    load::write_dir(&machine.tree(), dir, false).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
}
