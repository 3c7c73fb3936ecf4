//! What happened to workers, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters; all but the first only grow.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Pieces of the blobs that workers have now, with those that are not released yet.
    pub pieces: AtomicU64,
    /// Contexts that got a worker.
    pub contexts: AtomicU64,
    /// Workers that are gone: reaped, or never started.
    pub gone: AtomicU64,
    /// Workers that ended before their context did, or had to be killed.
    pub deaths: AtomicU64,
    /// Blobs that were given to workers.
    pub attachments: AtomicU64,
    /// Submissions.
    pub submissions: AtomicU64,
    /// Submissions that failed.
    pub failures: AtomicU64,
}

impl Metrics {
    /// Worker processes that there are now.
    #[must_use]
    pub fn processes(&self) -> u64 {
        let gone = self.gone.load(Ordering::Acquire);
        self.contexts.load(Ordering::Acquire).saturating_sub(gone)
    }

    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::AcqRel);
    }
}
