//! What an executor may do and spend.

use std::time::Duration;

use super::policy::Permissions;
use crate::gpu::GpuSet;

/// Choices of the host.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long the thread of calls looks for the next one before it sleeps; not at all on one processor.
    pub spin: Duration,
    /// Calls that may wait at a time; each has a thread.
    pub waits: u32,
    /// Bytes of guest memory that may be shared with the GPUs at a time; the context's addresses are a limit too.
    pub memory: u64,
    /// Aliases at a time.
    pub aliases: u32,
    /// Queues at a time; the GPU has a limit too.
    pub queues: u32,
    /// Bytes of requests that wait to be executed at a time.
    pub waiting_bytes: usize,
    /// What the guest may do that not every host lets it. Without, what it is needed for is not offered.
    pub permissions: Permissions,
    /// Which GPUs the guest gets.
    pub gpus: GpuSet,
    /// Whether the device has a window, so that the guest can see memory of the GPUs. For a GPU in software alone.
    pub window: bool,
    /// What the ids of GPUs that the guest sees are made from, beside their own: the same for all contexts of a VM.
    pub identity: u128,
}

impl Default for Config {
    fn default() -> Config {
        let one = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        Config {
            spin: if one { Duration::ZERO } else { Duration::from_micros(50) },
            waits: 1024,
            memory: u64::MAX,
            aliases: 1 << 17,
            queues: u32::MAX,
            waiting_bytes: 64 << 20,
            permissions: Permissions::default(),
            gpus: GpuSet::ALL,
            window: false,
            identity: 0,
        }
    }
}
