//! Reading and writing trees, and what is derived from them.

use proptest::prelude::*;

use super::*;

fn put(tree: &mut Tree, path: &str, text: &str) {
    tree.files.insert(path.to_owned(), text.as_bytes().to_vec());
}

/// A CPU node and `gpus` GPU nodes with links to and from it.
fn machine(gpus: u32) -> Topology {
    let mut cpu = Node { id: 0, mem_banks: vec![MemBank::default()], ..Node::default() };
    cpu.properties.cpu_cores_count = 4;
    let mut nodes = Vec::new();
    for id in 1..=gpus {
        let link = |node_from, node_to| IoLink { kind: 2, node_from, node_to, ..IoLink::default() };
        cpu.io_links.push(link(0, id));
        let mut gpu = Node { id, gpu_id: 0x1000 + id, name: "gpu".to_owned(), ..Node::default() };
        gpu.properties.gfx_target_version = 90010;
        gpu.properties.simd_count = 416;
        gpu.properties.drm_render_minor = 127 + id;
        gpu.properties.unique_id = u64::MAX;
        gpu.mem_banks = vec![MemBank { heap_type: 1, size_in_bytes: 1 << 36, ..MemBank::default() }];
        gpu.caches = vec![Cache { sibling_map: vec![true, false, true], ..Cache::default() }];
        gpu.io_links.push(link(id, 0));
        for peer in (1..=gpus).filter(|&peer| peer != id) {
            gpu.p2p_links.push(link(id, peer));
        }
        nodes.push(gpu);
    }
    nodes.insert(0, cpu);
    nodes.iter_mut().for_each(Node::set_counts);
    Topology { generation_id: 7, system: SystemProperties { platform_rev: 2, ..Default::default() }, nodes }
}

fn parse(tree: &Tree) -> Parsed {
    Topology::parse(tree).expect("a topology")
}

#[test]
fn what_is_written_is_read_again() {
    for layout in [Layout::Linux6_12, Layout::Linux7_3, Layout::Rocm] {
        let machine = machine(3);
        let parsed = parse(&machine.tree(layout));
        assert_eq!(parsed.topology, machine);
        assert_eq!(parsed.warnings, []);
    }
}

/// Key lines, names and numbers as `node_show`, `sysprops_show` and `kfd_cache_show` print them.
#[test]
fn files_have_the_kernels_format() {
    let tree = machine(1).tree(Layout::Linux6_12);
    let text = |path: &str| String::from_utf8(tree.files[path].clone()).expect("text");
    assert_eq!(text("generation_id"), "7\n");
    assert_eq!(text("system_properties"), "platform_oem 0\nplatform_id 0\nplatform_rev 2\n");
    assert_eq!(text("nodes/1/gpu_id"), "4097\n");
    assert_eq!(text("nodes/0/name"), "\n");
    assert!(text("nodes/1/properties").contains("\nunique_id 18446744073709551615\nnum_xcc 0\n"));
    assert!(text("nodes/1/caches/0/properties").ends_with("\ntype 0\nsibling_map 1,0,1\n"));
    assert!(!text("nodes/0/properties").contains("unique_id"));
    assert!(text("nodes/0/properties").ends_with("\nctl_stack_size 0\nmax_engine_clk_ccompute 0\n"));
}

#[test]
fn keys_follow_the_kernel() {
    let keys = |layout| {
        let tree = machine(1).tree(layout);
        String::from_utf8(tree.files["nodes/1/properties"].clone()).expect("text")
    };
    assert!(!keys(Layout::Linux6_12).contains("capability2"));
    assert!(keys(Layout::Linux7_3).contains("\ncapability 0\ncapability2 0\ndebug_prop 0\n"));
    // 40 keys of node_show in 6.12 on a GPU node, 32 on a CPU node.
    assert_eq!(keys(Layout::Linux6_12).lines().count(), 40);
}

/// `kfd_build_sysfs_node_entry` makes five directories in each node.
#[test]
fn every_node_has_its_five_directories() {
    let dirs = machine(0).tree(Layout::Linux6_12).directories();
    let expected = [
        "nodes",
        "nodes/0",
        "nodes/0/caches",
        "nodes/0/io_links",
        "nodes/0/mem_banks",
        "nodes/0/mem_banks/0",
        "nodes/0/p2p_links",
        "nodes/0/perf",
    ];
    assert_eq!(dirs.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(Tree::default().directories().into_iter().collect::<Vec<_>>(), ["nodes"]);
}

#[test]
fn key_names_are_unique_in_each_record() {
    fn check<R: Record>() {
        let mut names: Vec<_> = R::KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), R::KEYS.len());
        assert_eq!(R::default().values().len(), R::KEYS.len());
    }
    check::<SystemProperties>();
    check::<NodeProperties>();
    check::<MemBank>();
    check::<CacheProperties>();
    check::<IoLink>();
}

#[test]
fn unknown_keys_are_ignored_and_missing_ones_are_zero() {
    let mut tree = machine(0).tree(Layout::Linux6_12);
    put(&mut tree, "nodes/0/properties", "cpu_cores_count 8\nfrobnication 99999999999999999999999\n");
    let parsed = parse(&tree);
    assert_eq!(parsed.topology.nodes[0].properties.cpu_cores_count, 8);
    assert_eq!(parsed.topology.nodes[0].properties.vendor_id, 0);
    assert_eq!(parsed.warnings[0].kind, WarningKind::UnknownKey("frobnication".to_owned()));
}

#[test]
fn a_bad_line_ends_the_file() {
    for bad in [
        "simd_count",
        "simd_count x",
        "simd_count -",
        "simd_count --1",
        "simd_count 0x10",
        "simd_count 1 2",
        "\u{fffd} \u{0}",
    ] {
        let mut tree = machine(0).tree(Layout::Linux6_12);
        put(&mut tree, "nodes/0/properties", &format!("cpu_cores_count 8\n{bad}\nvendor_id 5\n"));
        let parsed = parse(&tree);
        assert_eq!(parsed.topology.nodes[0].properties.cpu_cores_count, 8, "{bad}");
        assert_eq!(parsed.topology.nodes[0].properties.vendor_id, 0, "{bad}");
        assert!(
            parsed.warnings.iter().any(|w| w.kind == WarningKind::BadLine(2)),
            "{bad}: {:?}",
            parsed.warnings
        );
    }
}

/// The values are those of glibc's `sscanf` with `%llu`, cut as C cuts an `unsigned long long` to a `uint32_t`.
#[test]
fn a_value_out_of_range_is_cut_as_libhsakmt_cuts_it_and_named() {
    const ONES: u64 = u64::MAX;
    for (text, low, all) in [
        ("4294967296", 0, 1 << 32),
        ("4294967301", 5, (1 << 32) + 5),
        ("18446744073709551616", u32::MAX, ONES),
        ("99999999999999999999999999999999999999999999", u32::MAX, ONES),
        ("-1", u32::MAX, ONES),
        ("-5", 4_294_967_291, 18_446_744_073_709_551_611),
        ("-99999999999999999999", u32::MAX, ONES),
    ] {
        let mut tree = machine(1).tree(Layout::Linux6_12);
        put(&mut tree, "nodes/1/properties", &format!("simd_count {text}\nunique_id {text}\nvendor_id 5\n"));
        let parsed = parse(&tree);
        let properties = &parsed.topology.nodes[1].properties;
        assert_eq!(
            (properties.simd_count, properties.unique_id, properties.vendor_id),
            (low, all, 5),
            "{text}"
        );
        let said: Vec<_> = parsed.warnings.iter().map(Warning::to_string).collect();
        let shown = if text.len() > 40 { format!("{}...", &text[..40]) } else { text.to_owned() };
        let expected = format!("nodes/1/properties: simd_count {shown} is out of range; taken as {low}");
        assert!(said.contains(&expected), "{text}: {said:?}");
    }
}

#[test]
fn one_odd_value_in_any_file_leaves_the_rest_of_the_tree() {
    let whole = machine(2);
    let mut tree = whole.tree(Layout::Linux6_12);
    for (path, text) in [
        ("generation_id", "4294967303\n"),
        ("nodes/2/gpu_id", "4294971394\n"),
        ("nodes/1/io_links/0/properties", "type 2\nnode_from 1\nnode_to 0\nweight 4294967296\n"),
    ] {
        assert!(tree.files.contains_key(path), "{path}");
        put(&mut tree, path, text);
    }
    let parsed = parse(&tree);
    assert_eq!(parsed.topology, whole, "what is cut is what was there before");
    let odd = |w: &&Warning| matches!(w.kind, WarningKind::OutOfRange { .. });
    let said: Vec<_> = parsed.warnings.iter().filter(odd).map(Warning::to_string).collect();
    assert_eq!(
        said,
        [
            "generation_id: 4294967303 is out of range; taken as 7",
            "nodes/1/io_links/0/properties: weight 4294967296 is out of range; taken as 0",
            "nodes/2/gpu_id: 4294971394 is out of range; taken as 4098",
        ]
    );
}

#[test]
fn only_the_first_page_of_a_file_is_read() {
    let mut tree = machine(0).tree(Layout::Linux6_12);
    let text = format!("cpu_cores_count 8\n{}vendor_id 5\n", "x 1\n".repeat(MAX_FILE));
    put(&mut tree, "nodes/0/properties", &text);
    let parsed = parse(&tree);
    assert_eq!(parsed.topology.nodes[0].properties.vendor_id, 0);
    assert!(parsed.warnings.iter().any(|w| w.kind == WarningKind::Truncated));
}

#[test]
fn files_that_every_topology_has_must_be_there() {
    for path in ["generation_id", "system_properties", "nodes/1/gpu_id", "nodes/1/properties"] {
        let mut tree = machine(1).tree(Layout::Linux6_12);
        tree.files.remove(path);
        assert_eq!(Topology::parse(&tree), Err(TopologyError::Missing(path.to_owned())));
        put(&mut tree, path, "");
        assert!(Topology::parse(&tree).is_err(), "{path}");
    }
    assert_eq!(Topology::parse(&Tree::default()), Err(TopologyError::Missing("generation_id".to_owned())));
}

#[test]
fn a_hole_in_the_node_numbers_is_an_error() {
    let mut tree = machine(2).tree(Layout::Linux6_12);
    tree.files.retain(|path, _| !path.starts_with("nodes/1/"));
    assert_eq!(Topology::parse(&tree), Err(TopologyError::Missing("nodes/1/gpu_id".to_owned())));
}

#[test]
fn entries_that_are_no_number_are_ignored() {
    let mut tree = machine(1).tree(Layout::Linux6_12);
    put(&mut tree, "nodes/00/gpu_id", "5\n");
    put(&mut tree, "nodes/1/caches/4294967296/properties", "level 1\n");
    let parsed = parse(&tree);
    assert_eq!(parsed.topology, machine(1));
    let odd: Vec<_> = parsed.warnings.iter().filter(|w| w.kind == WarningKind::NotNumbered).collect();
    assert_eq!(odd.len(), 2, "{odd:?}");
}

/// No node at all is a topology: libhsakmt's snapshot succeeds with NumNodes 0.
#[test]
fn a_tree_without_nodes_is_empty() {
    let mut tree = machine(0).tree(Layout::Linux6_12);
    tree.files.retain(|path, _| !path.starts_with("nodes/"));
    assert_eq!(parse(&tree).topology.nodes, []);
}

#[test]
fn a_link_that_starts_elsewhere_is_an_error() {
    let mut topology = machine(2);
    topology.nodes[1].io_links[0].node_from = 2;
    assert_eq!(
        Topology::parse(&topology.tree(Layout::Linux6_12)),
        Err(TopologyError::WrongOwner {
            path: "nodes/1/io_links/0/properties".to_owned(),
            from: 2,
            owner: 1
        })
    );
}

#[test]
fn t01_a_cpu_node_without_memory_banks_is_listed() {
    // The shape of a Bristol Ridge table: SIMDs that no driver took, no arrays to divide by.
    let mut topology = machine(0);
    topology.nodes[0].mem_banks.clear();
    topology.nodes[0].properties.simd_count = 40;
    topology.nodes[0].properties.simd_per_cu = 4;
    topology.nodes[0].set_counts();
    let parsed = parse(&topology.tree(Layout::Linux6_12));
    let node = &parsed.topology.nodes[0];
    assert_eq!((node.properties.mem_banks_count, node.memory_size()), (0, 0));
    assert!(node.is_cpu() && !node.is_gpu());
    let sizes = QueueSizes::of(GfxVersion::new(8, 0, 1), &node.properties);
    assert_eq!(sizes.ctl_stack, 4096, "10 CUs * 40 waves * 8 bytes + 48, in whole pages");
}

#[test]
fn t04_a_node_without_processor_is_no_agent_and_order_is_kept() {
    let mut topology = machine(2);
    topology.nodes[1].gpu_id = 0;
    topology.nodes[1].properties = NodeProperties::default();
    topology.nodes[1].set_counts();
    let parsed = parse(&topology.tree(Layout::Linux6_12));
    let agents: Vec<u32> = parsed.topology.agents().map(|node| node.id).collect();
    assert_eq!(agents, [0, 2]);
    assert!(parsed.warnings.iter().any(|w| w.path == "nodes/1" && w.kind == WarningKind::NoProcessor));
}

#[test]
fn t06_gfx_target_versions_decode() {
    for (value, parts, name) in [
        (90402, (9, 4, 2), "gfx942"),
        (90010, (9, 0, 10), "gfx90a"),
        (90012, (9, 0, 12), "gfx90c"),
        (110501, (11, 5, 1), "gfx1151"),
        (120001, (12, 0, 1), "gfx1201"),
        (100306, (10, 3, 6), "gfx1036"),
        (80003, (8, 0, 3), "gfx803"),
    ] {
        let gfx = GfxVersion::decode(value).expect("valid").expect("a GPU");
        assert_eq!((gfx.major, gfx.minor, gfx.stepping), parts);
        assert_eq!(gfx.to_string(), name);
        assert_eq!(u64::from(gfx.encode()), value);
    }
    assert_eq!(GfxVersion::decode(0), Ok(None));
    for refused in [110_099, 4_294_967_296, 99, 91_600, u64::MAX] {
        assert_eq!(GfxVersion::decode(refused), Err(BadGfxVersion(refused)));
    }
}

#[test]
fn t09_render_minors_are_looked_up() {
    let mut topology = machine(63);
    // One minor in the middle belongs to another DRM device.
    topology.nodes.iter_mut().skip(40).for_each(|node| node.properties.drm_render_minor += 1);
    let parsed = parse(&topology.tree(Layout::Linux6_12));
    assert_eq!(parsed.topology.gpus().count(), 63);
    assert_eq!(parsed.topology.gpu_with_render_minor(166).map(|node| node.id), Some(39));
    assert_eq!(parsed.topology.gpu_with_render_minor(167), None);
    assert_eq!(parsed.topology.gpu_with_render_minor(168).map(|node| node.id), Some(40));
    assert_eq!(parsed.topology.gpu_with_render_minor(0), None);
}

#[test]
fn t10_denied_nodes_are_skipped_with_the_links_to_them() {
    let mut tree = machine(8).tree(Layout::Linux6_12);
    for id in 2..=8 {
        tree.files.remove(&format!("nodes/{id}/gpu_id"));
        tree.denied.insert(format!("nodes/{id}/gpu_id"));
    }
    // The one that stays is not the first GPU: user ids close up.
    tree.denied.insert("nodes/1/properties".to_owned());
    tree.denied.remove("nodes/5/gpu_id");
    put(&mut tree, "nodes/5/gpu_id", "77\n");
    let parsed = parse(&tree);
    let ids: Vec<u32> = parsed.topology.nodes.iter().map(|node| node.id).collect();
    assert_eq!(ids, [0, 5]);
    assert_eq!(parsed.topology.user_id(5), Some(1));
    assert_eq!(parsed.topology.user_id(1), None);
    let links: Vec<u32> = parsed.topology.nodes[0].io_links.iter().map(|link| link.node_to).collect();
    assert_eq!(links, [5]);
    assert_eq!(parsed.topology.nodes[1].p2p_links, []);
    assert_eq!(parsed.topology.nodes[1].properties.p2p_links_count, 0);
}

#[test]
fn t10_other_files_may_not_be_denied() {
    let mut tree = machine(1).tree(Layout::Linux6_12);
    tree.denied.insert("system_properties".to_owned());
    assert_eq!(Topology::parse(&tree), Err(TopologyError::Denied("system_properties".to_owned())));
}

#[test]
fn t13_one_node_can_be_cpu_and_gpu() {
    let mut topology = machine(0);
    topology.nodes[0].gpu_id = 0x7fff;
    topology.nodes[0].properties.simd_count = 32;
    let parsed = parse(&topology.tree(Layout::Linux6_12));
    let node = &parsed.topology.nodes[0];
    assert!(node.is_cpu() && node.is_gpu());
    assert_eq!((node.properties.cpu_cores_count, node.properties.simd_count), (4, 32));
    assert_eq!(parsed.topology.agents().count(), 1);
}

#[test]
fn t15_cpu_nodes_without_memory_stay_in_the_list() {
    let mut topology = machine(0);
    let node = topology.nodes[0].clone();
    topology.nodes = (0..4).map(|id| Node { id, ..node.clone() }).collect();
    for empty in [0, 3] {
        topology.nodes[empty].mem_banks.clear();
        topology.nodes[empty].set_counts();
    }
    let parsed = parse(&topology.tree(Layout::Linux6_12));
    let banks: Vec<usize> = parsed.topology.nodes.iter().map(|node| node.mem_banks.len()).collect();
    assert_eq!(banks, [0, 1, 1, 0]);
    assert_eq!(parsed.warnings, []);
}

#[test]
fn d08_ids_and_names_are_free() {
    for gpu_id in [1, 65535, u32::MAX] {
        for name in [String::new(), "n".repeat(63), "n".repeat(64)] {
            let mut topology = machine(1);
            topology.nodes[1].gpu_id = gpu_id;
            topology.nodes[1].name.clone_from(&name);
            topology.nodes[1].caches.clear();
            topology.nodes[1].io_links.clear();
            topology.nodes[1].set_counts();
            let node = &parse(&topology.tree(Layout::Linux6_12)).topology.nodes[1];
            assert_eq!((node.gpu_id, &node.name), (gpu_id, &name));
        }
    }
}

#[test]
fn d09_directories_win_over_counts() {
    let mut topology = machine(1);
    let p = &mut topology.nodes[1].properties;
    p.caches_count = 206;
    p.io_links_count = u32::MAX;
    p.p2p_links_count = 5;
    topology.nodes[1].mem_banks.clear();
    let parsed = parse(&topology.tree(Layout::Linux6_12));
    let p = &parsed.topology.nodes[1].properties;
    assert_eq!((p.mem_banks_count, p.caches_count, p.io_links_count, p.p2p_links_count), (0, 1, 1, 0));
    let promised: Vec<u32> = parsed
        .warnings
        .iter()
        .filter_map(|w| match w.kind {
            WarningKind::Count { promised, .. } => Some(promised),
            _ => None,
        })
        .collect();
    assert_eq!(promised, [1, 206, u32::MAX, 5]);
}

/// MI210: 104 CUs, 8 engines of one array (`kfd_queue_ctx_save_restore_size`, worked by hand):
/// 4096 waves of 8 bytes + 48 = 32816, 9 pages; 104 * (0x80000 + 0x4000 + 0x10000 + 0x1000) bytes.
#[test]
fn queue_sizes_of_gfx90a() {
    let p = NodeProperties {
        simd_count: 416,
        simd_per_cu: 4,
        array_count: 8,
        simd_arrays_per_engine: 1,
        num_xcc: 1,
        ..NodeProperties::default()
    };
    let sizes = QueueSizes::of(GfxVersion::new(9, 0, 10), &p);
    assert_eq!(sizes.ctl_stack, 9 * 4096);
    assert_eq!(sizes.cwsr, 9 * 4096 + 104 * 0x9_5000);
    assert_eq!(sizes.debug_memory, 4096 * 32);
    assert_eq!(sizes.eop_buffer, 4096);
    assert_eq!(sizes.save_area(sizes.cwsr, 1), Some(u64::from(sizes.cwsr) + 4096 * 32));
}

/// gfx1100 with 96 CUs: 32 waves of 12 bytes each. gfx10 cuts the control stack at 0x7000.
#[test]
fn queue_sizes_of_gfx11_and_gfx10() {
    let p = NodeProperties { simd_count: 192, simd_per_cu: 2, num_xcc: 1, ..NodeProperties::default() };
    let gfx11 = QueueSizes::of(GfxVersion::new(11, 0, 0), &p);
    assert_eq!(gfx11.ctl_stack, 10 * 4096, "3072 * 12 + 48 = 36912 bytes");
    assert_eq!(gfx11.cwsr, 10 * 4096 + 96 * 0x7_5000);
    assert_eq!(QueueSizes::of(GfxVersion::new(10, 3, 0), &p).ctl_stack, 0x7000);
}

#[test]
fn queue_sizes_of_nonsense_are_zero() {
    let p = NodeProperties { simd_count: u32::MAX, simd_per_cu: 1, ..NodeProperties::default() };
    assert_eq!(QueueSizes::of(GfxVersion::new(9, 0, 10), &p), QueueSizes::default());
    let p = NodeProperties { simd_count: 4, simd_per_cu: 0, ..NodeProperties::default() };
    assert_eq!(QueueSizes::of(GfxVersion::new(9, 0, 10), &p), QueueSizes::default());
    let p = NodeProperties { simd_count: 4, simd_per_cu: 4, ..NodeProperties::default() };
    assert_eq!(QueueSizes::of(GfxVersion::new(7, 0, 0), &p), QueueSizes::default());
}

fn any_record<R: Record + std::fmt::Debug>() -> impl Strategy<Value = R> {
    prop::collection::vec(any::<u64>(), R::KEYS.len()).prop_map(|values| {
        let mut record = R::default();
        for (key, value) in R::KEYS.iter().zip(values) {
            let mask = if key.bits == 64 { u64::MAX } else { (1 << key.bits) - 1 };
            record.set(key.name, value & mask);
        }
        record
    })
}

prop_compose! {
    fn any_node()(
        gpu_id in 1u32..,
        name in "[ -~]{0,70}",
        properties in any_record::<NodeProperties>(),
        mem_banks in prop::collection::vec(any_record::<MemBank>(), 0..3),
        caches in prop::collection::vec(
            (any_record::<CacheProperties>(), prop::collection::vec(any::<bool>(), 1..=256))
                .prop_map(|(properties, sibling_map)| Cache { properties, sibling_map }),
            0..12,
        ),
        io_links in prop::collection::vec(any_record::<IoLink>(), 0..3),
    ) -> Node {
        Node { id: 0, gpu_id, name, properties, mem_banks, caches, io_links, p2p_links: Vec::new() }
    }
}

fn any_topology() -> impl Strategy<Value = Topology> {
    (any::<u32>(), any_record::<SystemProperties>(), prop::collection::vec(any_node(), 0..4)).prop_map(
        |(generation_id, system, mut nodes)| {
            let count = nodes.len() as u32;
            for (id, node) in (0..).zip(&mut nodes) {
                node.id = id;
                for link in &mut node.io_links {
                    (link.node_from, link.node_to) = (id, link.node_to % count);
                }
                node.set_counts();
            }
            Topology { generation_id, system, nodes }
        },
    )
}

proptest! {
    #[test]
    fn any_topology_round_trips(topology in any_topology()) {
        let parsed = Topology::parse(&topology.tree(Layout::Rocm));
        prop_assert_eq!(parsed, Ok(Parsed { topology, warnings: Vec::new() }));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(
        topology in any_topology(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..20),
        paths in prop::collection::vec("(nodes/)?[0-9]{1,11}(/(caches|io_links)/[0-9]{1,3})?/[a-z_]{1,10}", 0..4),
    ) {
        let mut tree = topology.tree(Layout::Linux7_3);
        tree.denied.extend(paths.iter().take(2).cloned());
        tree.files.extend(paths.into_iter().map(|path| (path, b"level 1\n".to_vec())));
        for (file, at, byte) in damage {
            let path = file.get(&tree.files.keys().cloned().collect::<Vec<_>>()).clone();
            let bytes = tree.files.get_mut(&path).expect("the path is a key");
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if let Ok(parsed) = Topology::parse(&tree) {
            let again = Topology::parse(&parsed.topology.tree(Layout::Rocm));
            prop_assert!(again.is_ok() || !parsed.warnings.is_empty());
        }
    }

    #[test]
    fn any_properties_have_sizes(p in any_record::<NodeProperties>(), value in 0u64..200_000) {
        if let Ok(Some(gfx)) = GfxVersion::decode(value) {
            let sizes = QueueSizes::of(gfx, &p);
            prop_assert!(sizes.ctl_stack <= sizes.cwsr);
            let _ = p.sdma_queues();
        }
    }
}
