//! Memory (AMD calls it FMM): apertures, buffers, what programs register, and what is known about an address.

use super::{Engine, Options};

/// What this part keeps.
#[derive(Debug, Default)]
pub(crate) struct State {}

impl State {
    pub(crate) fn new(_options: &Options) -> Self {
        Self::default()
    }

    /// The last close of the library.
    #[allow(clippy::unused_self, reason = "this part has nothing to drop yet")]
    pub(crate) fn close(&self, _engine: &Engine) {}
}
