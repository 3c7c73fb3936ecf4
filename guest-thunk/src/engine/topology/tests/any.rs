//! Any tree gives a snapshot that holds together, or a status.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use protocol::kfd::topology::Tree;

use super::super::Snapshot;
use super::shown::{Shown, files, machine};

/// What the engine and its callers rely on.
fn assert_sound(snapshot: &Snapshot) {
    let nodes = u32::try_from(snapshot.nodes.len()).expect("few nodes");
    assert_eq!(snapshot.system.num_nodes, nodes);
    assert!(snapshot.nodes.is_sorted_by(|a, b| a.kfd.id < b.kfd.id));
    for (id, node) in (0..nodes).zip(&snapshot.nodes) {
        let p = &node.properties;
        assert_eq!({ p.kfd_gpu_id }, node.gpu_id);
        assert_eq!(p.num_f_compute_cores != 0, node.gpu_id != 0);
        assert!(node.gpu_id == 0 || node.hardware.major > 0 && { p.num_xcc } > 0);
        assert_eq!(usize::try_from(p.num_memory_banks), Ok(node.memory.len()));
        assert_eq!(usize::try_from(p.num_caches), Ok(node.caches.len()));
        assert_eq!(usize::try_from(p.num_io_links), Ok(node.links.len()));
        assert!(node.links.len() < snapshot.nodes.len().max(1));
        assert!(node.links.iter().all(|link| link.node_from == id && link.node_to < nodes));
        assert!(snapshot.nearest_cpu(id).is_none_or(|cpu| cpu < nodes));
    }
}

static TREE: LazyLock<Tree> = LazyLock::new(|| files(&machine(3)));

/// Keys that decisions hang on, and values that matter to them.
fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "cpu_cores_count",
        "simd_count",
        "gfx_target_version",
        "device_id",
        "drm_render_minor",
        "simd_arrays_per_engine",
        "array_count",
        "hive_id",
        "lds_size_in_kb",
        "num_gws",
        "node_to",
        "weight",
        "type",
        "heap_type",
        "sibling_map",
    ]);
    let value = prop::sample::select(vec![
        0,
        1,
        2,
        20,
        127,
        128,
        255,
        90_010,
        110_000,
        u64::from(u32::MAX),
        u64::MAX,
    ]);
    (key, value).prop_map(|(key, value)| format!("{key} {value}\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn changed_lines_give_a_snapshot_or_a_status(changes in prop::collection::vec((any::<Index>(), line()), 1..8)) {
        let mut tree = TREE.clone();
        let paths: Vec<_> = TREE.files.keys().filter(|path| !path.contains("/caches/")).collect();
        for (path, line) in changes {
            if let Some(file) = tree.files.get_mut(*path.get(&paths)) {
                file.extend_from_slice(line.as_bytes());
            }
        }
        if let Ok(snapshot) = Shown::new([tree]).snapshot() {
            assert_sound(&snapshot);
        }
    }

    #[test]
    fn damaged_bytes_give_a_snapshot_or_a_status(
        damage in prop::collection::vec((any::<Index>(), any::<Index>(), any::<u8>()), 1..20),
        gone in prop::collection::vec((any::<Index>(), any::<bool>()), 0..4),
    ) {
        let mut tree = TREE.clone();
        let paths: Vec<_> = TREE.files.keys().filter(|path| !path.contains("/caches/")).collect();
        for (path, at, byte) in damage {
            let file = tree.files.get_mut(*path.get(&paths)).filter(|file| !file.is_empty());
            if let Some(file) = file {
                let at = at.index(file.len());
                file[at] = byte;
            }
        }
        for (path, denied) in gone {
            let path = *path.get(&paths);
            tree.files.remove(path);
            if denied {
                tree.denied.insert(path.clone());
            }
        }
        if let Ok(snapshot) = Shown::new([tree]).snapshot() {
            assert_sound(&snapshot);
        }
    }
}
