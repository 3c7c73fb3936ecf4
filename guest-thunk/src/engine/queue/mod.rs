//! Queues: `hsaKmtCreateQueue` and what belongs to it.
//!
//! A queue has buffers of the library besides the ring of the program ([`parts`], [`save_area`], of [`sizes`]) and a
//! doorbell in pages that all queues of a GPU share ([`doorbell`]). Its id is looked up in a [`table`]. [`device`] holds
//! the calls for a GPU as a whole.

mod control;
mod create;
mod device;
mod doorbell;
mod parts;
mod range;
mod save_area;
mod sizes;
mod table;

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use create::QueueRequest;

use super::Engine;
use doorbell::Doorbells;
use parts::Leftovers;
use table::Table;

/// What this part keeps.
#[derive(Debug, Default)]
pub(crate) struct State {
    table: Mutex<Table>,
    doorbells: Doorbells,
    leftovers: Leftovers,
}

impl State {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The last close of the library: doorbells that no queue uses are unmapped. Queues are the program's and stay.
    pub(crate) fn close(&self, engine: &Engine) {
        self.doorbells.release(engine);
        self.leftovers.free(engine);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
