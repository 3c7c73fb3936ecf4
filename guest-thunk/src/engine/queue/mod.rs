//! Queues: `hsaKmtCreateQueue` and what belongs to it.

mod device;

#[cfg(test)]
mod tests;

use super::Engine;

/// What this part keeps.
#[derive(Debug, Default)]
pub(crate) struct State {}

impl State {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The last close of the library.
    #[allow(clippy::unused_self, reason = "this part has nothing to drop yet")]
    pub(crate) fn close(&self, _engine: &Engine) {}
}
