//! The functions of the API: their checks, in AMD's order, and the life of a snapshot.

use protocol::hsakmt::Status;
use softgpu::Profile;

use crate::engine::rig;

#[test]
fn nothing_is_known_before_a_snapshot_is_acquired_and_after_it_is_released() {
    let engine = rig::engine(Profile::Mi210);
    let unknown = Some(Status::InvalidNodeUnit);
    assert_eq!(engine.node_properties(0).err(), unknown);
    assert_eq!(engine.release_system_properties(), Ok(()), "of nothing");
    engine.snapshot().expect("for the library itself");
    assert_eq!(engine.node_properties(0).err(), unknown);
    let system = engine.acquire_system_properties().expect("a topology");
    assert_eq!(system.num_nodes, 2);
    assert!(engine.node_properties(0).is_ok());
    assert_eq!(engine.release_system_properties(), Ok(()));
    assert_eq!(engine.node_properties(0).err(), unknown);
    assert_eq!(engine.gpu_node(1).err(), unknown);
    assert_eq!(engine.acquire_system_properties(), Ok(system));
    engine.close();
    assert!(engine.node_properties(0).is_ok(), "closing releases nothing");
}

#[test]
fn a_second_acquire_gives_the_same_snapshot() {
    let engine = rig::engine(Profile::Mi210);
    engine.acquire_system_properties().expect("a topology");
    let first = engine.snapshot().expect("held");
    engine.acquire_system_properties().expect("a topology");
    assert!(std::sync::Arc::ptr_eq(&first, &engine.snapshot().expect("held")));
}

#[test]
fn unknown_nodes_are_refused_before_counts() {
    let engine = rig::engine(Profile::Mi210);
    engine.acquire_system_properties().expect("a topology");
    for node in [2, u32::MAX] {
        let unknown = Some(Status::InvalidNodeUnit);
        assert_eq!(engine.node_properties(node).err(), unknown);
        assert_eq!(engine.node_memory_properties(node, u32::MAX).err(), unknown);
        assert_eq!(engine.node_cache_properties(node, 0, u32::MAX).err(), unknown);
        assert_eq!(engine.node_io_link_properties(node, u32::MAX).err(), unknown);
        assert_eq!(engine.gpu_node(node).err(), unknown);
    }
}

#[test]
fn more_caches_or_links_than_there_are_is_an_invalid_parameter_more_banks_is_not() {
    let engine = rig::engine(Profile::Mi210);
    engine.acquire_system_properties().expect("a topology");
    let node = engine.node_properties(1).expect("a GPU");
    assert_eq!(engine.node_cache_properties(1, 0, node.num_caches).map(|all| all.len()), Ok(217));
    assert_eq!(engine.node_cache_properties(1, 7, 1).map(|all| all.len()), Ok(1));
    assert_eq!(engine.node_cache_properties(1, 0, node.num_caches + 1).err(), Some(Status::InvalidParameter));
    assert_eq!(engine.node_io_link_properties(1, node.num_io_links).map(|all| all.len()), Ok(1));
    assert_eq!(engine.node_io_link_properties(1, 2).err(), Some(Status::InvalidParameter));
    assert_eq!(engine.node_io_link_properties(1, 0), Ok(Vec::new()));
    assert_eq!(engine.node_memory_properties(0, u32::MAX).map(|all| all.len()), Ok(1));
    assert_eq!(engine.node_memory_properties(1, 1).map(|all| all.len()), Ok(1));
}

#[test]
fn only_gpus_are_gpu_nodes() {
    let engine = rig::engine(Profile::TwoGpu);
    engine.acquire_system_properties().expect("a topology");
    assert_eq!(engine.gpu_node(0).err(), Some(Status::InvalidNodeUnit));
    let (snapshot, place) = engine.gpu_node(2).expect("a GPU");
    assert_eq!(place, 2);
    assert_ne!(snapshot.nodes[place].gpu_id, 0);
    assert_eq!((engine.render_minor(1), engine.render_minor(2)), (Ok(128), Ok(129)));
    assert_eq!(engine.render_minor(0), Err(Status::InvalidNodeUnit));
}

#[test]
fn threads_that_acquire_at_a_time_get_one_snapshot() {
    let engine = rig::engine(Profile::Mi210);
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    engine.acquire_system_properties().expect("a topology");
                    engine.snapshot().expect("held")
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(all.iter().all(|snapshot| std::sync::Arc::ptr_eq(snapshot, &all[0])));
}
