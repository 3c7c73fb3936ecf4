//! Events over the software GPU.

mod life;
mod waits;

use std::time::Duration;

use protocol::hsakmt::{EventDescriptor, EventType, SyncVar};
use softgpu::Profile;

use super::SharedEvent;
use crate::engine::{Engine, Result, rig};

/// Long enough for a slow machine; no test waits that long unless it fails.
const DEADLINE_MS: u32 = 60_000;
const DEADLINE: Duration = Duration::from_millis(DEADLINE_MS as u64);

/// Without GPU, so that nothing but events is there.
fn engine() -> Engine {
    rig::engine(Profile::CpuOnly)
}

fn try_create(engine: &Engine, kind: EventType, manual_reset: bool, signaled: bool) -> Result<SharedEvent> {
    let descriptor = EventDescriptor {
        event_type: kind,
        node_id: 0,
        sync_var: SyncVar { user_data: 0x1234_5678_9abc_def0, sync_var_size: 8 },
    };
    engine.create_event(&descriptor, manual_reset, signaled).map(SharedEvent::from)
}

fn create(engine: &Engine, kind: EventType) -> SharedEvent {
    try_create(engine, kind, true, false).expect("an event")
}

fn signal(engine: &Engine) -> SharedEvent {
    create(engine, EventType::SIGNAL)
}

fn auto_reset(engine: &Engine) -> SharedEvent {
    try_create(engine, EventType::SIGNAL, false, false).expect("an event")
}

fn poll(engine: &Engine, event: &SharedEvent) -> Result<()> {
    engine.wait_on_event(event, 0, None)
}
