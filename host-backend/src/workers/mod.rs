//! The device process's side of the workers: one process for each context of the guest.
//!
//! Threats: a worker executes what a guest asks for, so it is taken for hostile. Every message of it is decoded to a
//! value or ends it, and numbers that it was not given end it too. It cannot make this process wait, nor keep more than
//! [`Bounds`] say. What it holds of the guest's memory is given back when it says so, or when it was reaped.
//!
//! The queue's thread sends to a worker itself where the socket has room. One thread, the [`keeper`], does everything
//! else: it starts the processes, sends what had no room, reads, and reaps.

mod keeper;
mod mailbox;
mod metrics;
mod output;
mod process;
pub mod supply;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::virtio_gpu::Failure;

use crate::device::{BlobUse, Context, ContextInfo, Contexts, Hold, Submission, throttle};
use keeper::Keeper;
pub use metrics::Metrics;
pub use process::Program;
use supply::Supply;
use worker::Worker;

/// What workers may cost this process and the host, whatever the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Processes at a time, with those that have not ended yet.
    pub processes: usize,
    /// Submissions of one context that are not done.
    pub submissions: usize,
    /// Bytes of submissions that one context's worker has not taken yet.
    pub waiting_bytes: usize,
    /// Blobs of one context, with those that are not released yet.
    pub attachments: usize,
    /// Pieces of these blobs.
    pub pieces: usize,
    /// Pieces of the blobs of all contexts, counted for each context.
    pub all_pieces: u64,
    /// Time until a worker must be ready.
    pub start: Duration,
    /// Time that a worker has to end when its context ends. Then it is killed.
    pub end: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            processes: 128,
            submissions: 512,
            waiting_bytes: 16 << 20,
            attachments: 1 << 17,
            pieces: 1 << 20,
            all_pieces: 1 << 22,
            start: Duration::from_secs(30),
            end: Duration::from_secs(5),
        }
    }
}

/// Contexts that are worker processes. Dropping it ends them all.
pub struct Workers {
    keeper: Keeper,
    bounds: Bounds,
    metrics: Arc<Metrics>,
    supply: Arc<Supply>,
    next: AtomicU64,
}

impl Workers {
    /// Workers that run this program.
    ///
    /// # Errors
    /// When the thread that looks after them cannot be started.
    pub fn new(program: Program, bounds: Bounds) -> io::Result<Workers> {
        let metrics = Arc::<Metrics>::default();
        let keeper = Keeper::start(program)?;
        // 0 is the keeper's own.
        let supply = Supply::new(supply::Limits::default());
        Ok(Workers { keeper, bounds, metrics, supply, next: AtomicU64::new(1) })
    }

    /// With these limits of the memory that they share.
    #[must_use]
    pub fn sharing(self, limits: supply::Limits) -> Workers {
        Workers { supply: Supply::new(limits), ..self }
    }

    /// What they were granted. Stays valid when the workers are gone.
    #[must_use]
    pub fn supply(&self) -> Arc<Supply> {
        Arc::clone(&self.supply)
    }

    /// What has happened so far. Stays valid when the workers are gone.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }
}

impl Contexts for Workers {
    fn create(&self, info: ContextInfo) -> Result<Box<dyn Context>, Failure> {
        if self.metrics.processes() >= self.bounds.processes as u64 {
            throttle::warn(format_args!("there are {} workers already", self.bounds.processes));
            return Err(Failure::OutOfMemory);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("context {} ({})", info.id, info.name);
        let (metrics, share) = (Arc::clone(&self.metrics), self.supply.share());
        let made = Worker::new(number, name, self.bounds, metrics, share, self.keeper.handle());
        let (worker, theirs) = made.map_err(|error| {
            throttle::warn(format_args!("context {} gets no worker: {error}", info.id));
            Failure::OutOfMemory
        })?;
        let worker = Arc::new(worker);
        self.keeper.adopt(Arc::clone(&worker), theirs);
        Ok(Box::new(Remote(worker)))
    }
}

/// A context whose worker is elsewhere.
struct Remote(Arc<Worker>);

impl Context for Remote {
    fn attach(&mut self, blob: BlobUse) -> Result<(), Failure> {
        self.0.attach(blob)
    }

    fn detach(&mut self, resource_id: u32) {
        self.0.detach(resource_id);
    }

    fn submit(&mut self, submission: Submission<'_>) {
        self.0.submit(submission);
    }

    fn destroy(self: Box<Self>, done: Hold) {
        self.0.end(Some(done));
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.0.end(None);
    }
}
