//! The built-in machines against numbers that people published from real ones.

use protocol::kfd::topology::{CacheProperties, IoLink, Node, NodeProperties, Record};

use super::gpu::CacheSizes;
use super::*;

fn machine(profile: Profile) -> Machine {
    profile.machine(Kernel::Linux6_12)
}

fn node(profile: Profile, id: u32) -> Node {
    machine(profile).topology.node(id).cloned().expect("the node exists")
}

fn value(properties: &NodeProperties, key: &str) -> u64 {
    let at = NodeProperties::KEYS.iter().position(|k| k.name == key).expect("a key");
    properties.values()[at]
}

/// Asserts lines as they stand in a properties file.
fn assert_properties(properties: &NodeProperties, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (key, expected) = line.split_once(' ').expect("key and value");
        assert_eq!(value(properties, key).to_string(), expected, "{key}");
    }
}

#[test]
fn every_profile_is_a_topology_for_every_kernel() {
    for profile in Profile::ALL {
        for kernel in Kernel::ALL {
            let machine = profile.machine(kernel);
            let parsed = Topology::parse(&machine.tree()).expect("a topology");
            assert_eq!(parsed.warnings, [], "{profile}");
            if kernel != Kernel::Linux6_12 {
                assert_eq!(parsed.topology, machine.topology, "{profile}");
            }
            for (gpu, node) in machine.gpus.iter().zip(machine.topology.gpus()) {
                assert_eq!((gpu.node, gpu.gpu_id), (node.id, node.gpu_id));
                assert_eq!(gpu.render_minor, node.properties.drm_render_minor);
                assert_eq!(gpu.queue_sizes.cwsr, node.properties.cwsr_size);
                assert!(gpu.queue_sizes.cwsr > 0);
            }
            assert_eq!(machine.gpus.len(), machine.topology.gpus().count());
        }
    }
}

#[test]
fn no_file_is_longer_than_a_page() {
    for profile in Profile::ALL {
        for (path, text) in machine(profile).tree().files {
            assert!(text.len() <= protocol::kfd::topology::MAX_FILE, "{profile}: {path}");
        }
    }
}

/// Values of a published topology of a machine with MI210s (Linux 6.x).
#[test]
fn mi210_is_as_published() {
    let node = node(Profile::Mi210, 1);
    assert_properties(
        &node.properties,
        "cpu_cores_count 0
        simd_count 416
        mem_banks_count 1
        caches_count 217
        io_links_count 1
        simd_id_base 2147487744
        max_waves_per_simd 8
        lds_size_in_kb 64
        gds_size_in_kb 0
        num_gws 64
        wave_front_size 64
        array_count 8
        simd_arrays_per_engine 1
        cu_per_simd_array 14
        simd_per_cu 4
        max_slots_scratch_cu 32
        gfx_target_version 90010
        vendor_id 4098
        device_id 29711
        location_id 25344
        drm_render_minor 128
        num_sdma_engines 2
        num_sdma_xgmi_engines 3
        num_sdma_queues_per_engine 8
        num_cp_queues 24
        max_engine_clk_fcompute 1700
        local_mem_size 0
        fw_version 92
        capability 746037888
        debug_prop 470
        sdma_fw_version 9
        num_xcc 1
        max_engine_clk_ccompute 2450",
    );
    let bank = node.mem_banks[0];
    // Data sheet: 64 GiB, 4096 bit, 1638.4 GB/s; two transfers in a clock.
    assert_eq!((bank.heap_type, bank.width, bank.mem_clk_max), (1, 4096, 1600));
    assert_eq!(u64::from(bank.width) / 8 * u64::from(bank.mem_clk_max) * 2, 1_638_400);
    // rocminfo of real cards: 67092480 KB.
    assert_eq!(bank.size_in_bytes, 67_092_480 << 10);
}

#[test]
fn mi210_links_are_as_published() {
    let expected = |node_from, node_to, flags| IoLink {
        kind: 2,
        node_from,
        node_to,
        weight: 20,
        min_bandwidth: 312,
        max_bandwidth: 32000,
        recommended_sdma_engine_id_mask: 3,
        flags,
        ..IoLink::default()
    };
    assert_eq!(node(Profile::Mi210, 1).io_links, [expected(1, 0, 1)]);
    assert_eq!(node(Profile::Mi210, 0).io_links, [expected(0, 1, 3)]);
}

/// rocminfo of real cards and the data sheet; grouping as in a published partition of the chip.
#[test]
fn mi300x_is_as_published() {
    let node = node(Profile::Mi300x, 2);
    assert_properties(
        &node.properties,
        "simd_count 1216
        array_count 32
        simd_arrays_per_engine 1
        cu_per_simd_array 10
        simd_per_cu 4
        gfx_target_version 90402
        device_id 29857
        num_xcc 8
        num_sdma_engines 2
        num_sdma_xgmi_engines 14
        max_engine_clk_fcompute 2100
        debug_prop 1511
        fw_version 177
        sdma_fw_version 24",
    );
    let bank = node.mem_banks[0];
    assert_eq!((bank.width, bank.mem_clk_max), (8192, 1300));
    assert_eq!(bank.size_in_bytes, 200_998_912 << 10);
    // The published capability is of a kernel with per-queue reset (bit 31).
    assert_eq!(node.properties.capability, 2_893_521_536 & !(1 << 31));
    let newer = Profile::Mi300x.machine(Kernel::Linux7_3);
    assert_eq!(newer.topology.nodes[2].properties.capability, 2_893_521_536);
}

/// Values of a published topology of a machine with one RX 7900 XTX. Its capability had bit 18, as
/// the kernel set it for gfx11 then; 6.12 does not (`kfd_topology_set_capabilities`).
#[test]
fn rx7900xtx_is_as_published() {
    let node = node(Profile::Rx7900xtx, 1);
    assert_properties(
        &node.properties,
        "simd_count 192
        caches_count 206
        max_waves_per_simd 16
        lds_size_in_kb 64
        num_gws 64
        wave_front_size 32
        array_count 12
        simd_arrays_per_engine 2
        cu_per_simd_array 8
        simd_per_cu 2
        max_slots_scratch_cu 32
        gfx_target_version 110000
        device_id 29772
        location_id 768
        num_sdma_engines 2
        num_sdma_xgmi_engines 0
        num_sdma_queues_per_engine 6
        num_cp_queues 8
        max_engine_clk_fcompute 2482
        fw_version 2150
        debug_prop 1495
        sdma_fw_version 21
        num_xcc 1
        max_engine_clk_ccompute 5083",
    );
    assert_eq!(node.properties.capability, 671_588_992 & !(1 << 18));
    let bank = node.mem_banks[0];
    assert_eq!((bank.size_in_bytes, bank.width), (24_560 << 20, 384));
}

/// Levels and sizes that rocminfo shows of the real cards, and how many there are of each.
#[test]
fn caches_are_as_published() {
    for (profile, id, expected) in [
        (Profile::Mi210, 1, &[(1, 16, 9, 104), (1, 32, 10, 56), (1, 16, 9, 56), (2, 8192, 9, 1)][..]),
        (
            Profile::Mi300x,
            2,
            &[(1, 32, 9, 304), (1, 64, 10, 160), (1, 16, 9, 160), (2, 4096, 9, 1), (3, 262_144, 9, 1)][..],
        ),
        (
            Profile::Rx7900xtx,
            1,
            &[
                (1, 32, 9, 96),
                (1, 32, 10, 48),
                (1, 16, 9, 48),
                (1, 256, 9, 12),
                (2, 6144, 9, 1),
                (3, 98_304, 9, 1),
            ][..],
        ),
    ] {
        let mut runs: Vec<(u32, u32, u32, usize)> = Vec::new();
        for CacheProperties { level, size, kind, .. } in node(profile, id).caches.iter().map(|c| c.properties)
        {
            match runs.last_mut() {
                Some(run) if (run.0, run.1, run.2) == (level, size, kind) => run.3 += 1,
                _ => runs.push((level, size, kind, 1)),
            }
        }
        assert_eq!(runs, expected, "{profile}");
    }
}

/// A published partition of an MI308X: 4 arrays of 10 CUs with 5 enabled: 46 caches, and these ids.
#[test]
fn caches_of_disabled_units_are_left_out() {
    let mut shaders = asics::mi300x().shaders;
    shaders.xccs = 1;
    shaders.cu_masks = vec![0x1f, 0x1f, 0x1f, 0x2f];
    let sizes = CacheSizes { l3: 65_536, ..asics::mi300x().caches };
    let all = caches::caches(&shaders, &sizes, 2_147_487_744);
    assert_eq!(all.len(), 46);
    let shape = |i: usize| {
        let sharers = all[i].sibling_map.iter().filter(|&&shares| shares).count();
        (all[i].properties.processor_id_low - 2_147_487_744, all[i].properties.size, sharers)
    };
    assert_eq!(shape(1), (1, 32, 1));
    assert_eq!(shape(20), (0, 64, 2));
    assert_eq!(shape(21), (2, 64, 2));
    assert_eq!(shape(22), (4, 64, 1));
    assert_eq!(shape(31), (35, 64, 1));
    assert_eq!(shape(45), (0, 65_536, 20));
    assert_eq!(all[45].sibling_map.len(), 128);
    assert_eq!(all[0].sibling_map.len(), 32);
}

/// As between the members of a hive in a published topology: type 11, weight 15, engines 2 to 4.
#[test]
fn two_gpus_have_an_xgmi_link_both_ways() {
    let machine = machine(Profile::TwoGpu);
    for (from, to) in [(1, 2), (2, 1)] {
        let node = machine.topology.node(from).expect("a GPU");
        let link = node.io_links.iter().find(|link| link.node_to == to).expect("a link");
        assert_eq!((link.kind, link.weight, link.max_bandwidth, link.flags), (11, 15, 50_000, 1));
        assert_eq!(link.recommended_sdma_engine_id_mask, 28);
        assert_eq!(node.properties.p2p_links_count, 0);
    }
    let [a, b] = &machine.gpus[..] else { panic!("two GPUs") };
    assert_ne!((a.gpu_id, a.unique_id, a.render_minor), (b.gpu_id, b.unique_id, b.render_minor));
    assert_eq!(a.hive_id, b.hive_id);
}

/// `kfd_create_vcrat_image_gpu`: all memory in one private heap, and no link from the CPU.
#[test]
fn memory_that_is_not_all_visible_is_private() {
    for profile in [Profile::SmallBar, Profile::Mi210Private] {
        assert_memory_is_private(&machine(profile));
    }
    assert_eq!(machine(Profile::Mi210Private).gpus[0].vram.visible, 0);
}

fn assert_memory_is_private(machine: &Machine) {
    let gpu = machine.topology.node(1).expect("a GPU");
    assert_eq!((gpu.mem_banks.len(), gpu.mem_banks[0].heap_type), (1, 2));
    assert_eq!(gpu.mem_banks[0].size_in_bytes, 67_092_480 << 10);
    assert_eq!(gpu.io_links.len(), 1);
    assert_eq!(machine.topology.node(0).map(|cpu| cpu.io_links.len()), Some(0));
    assert!(!machine.gpus[0].vram.is_large_bar());
}

/// As in a published topology: the other socket is reached by an indirect link of weight 20 + 32.
#[test]
fn the_other_socket_is_reached_indirectly() {
    let machine = machine(Profile::Mi300x);
    let gpu = machine.topology.node(2).expect("a GPU");
    let [link] = gpu.p2p_links[..] else { panic!("one link: {:?}", gpu.p2p_links) };
    assert_eq!((link.kind, link.node_to, link.weight, link.max_bandwidth, link.flags), (2, 1, 52, 0, 1));
    let cpu = machine.topology.node(1).expect("a CPU");
    assert_eq!(cpu.p2p_links.iter().map(|link| (link.node_to, link.flags)).collect::<Vec<_>>(), [(2, 3)]);
    assert_eq!((cpu.io_links[0].kind, cpu.io_links[0].node_to, cpu.io_links[0].weight), (1, 0, 32));
}

#[test]
fn gpu_ids_are_not_zero_and_fit_16_bits() {
    for profile in Profile::ALL {
        for gpu in machine(profile).gpus {
            assert!((1..=0xffff).contains(&gpu.gpu_id), "{profile}: {}", gpu.gpu_id);
        }
    }
}

#[test]
fn profile_names_round_trip() {
    for profile in Profile::ALL {
        assert_eq!(profile.name().parse::<Profile>(), Ok(profile));
    }
    let error = "mi211".parse::<Profile>().expect_err("no such profile").to_string();
    assert!(Profile::ALL.iter().all(|profile| error.contains(profile.name())), "{error}");
}
