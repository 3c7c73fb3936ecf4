//! Queues of an engine over a software GPU, made and used as a program does.

mod calls;

use softgpu::Profile;

use super::super::{Engine, rig};

/// A program that has acquired its topology, and the GPU that it uses.
struct Program {
    engine: Engine,
    gpu: u32,
}

impl Program {
    fn new(profile: Profile) -> Self {
        let engine = rig::engine(profile);
        engine.acquire_system_properties().expect("a topology");
        let snapshot = engine.snapshot().expect("a topology");
        let gpu = snapshot.nodes.iter().position(|node| node.gpu_id != 0).expect("a GPU");
        Self { engine, gpu: u32::try_from(gpu).expect("few nodes") }
    }
}
