//! The calls that threads of the program wait for, as far as others have to know.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use protocol::kfd::Interrupt;

use super::registry::lock;
use super::tracee::ParkedCalls;

/// Calls that run on threads of their own, by the thread that made them.
#[derive(Debug, Default)]
pub struct Parked(Mutex<HashMap<u32, Weak<Interrupt>>>);

impl Parked {
    /// The call of `tid` is being executed.
    pub fn add(&self, tid: u32, interrupt: &Arc<Interrupt>) {
        lock(&self.0).insert(tid, Arc::downgrade(interrupt));
    }

    /// It is about to be answered.
    pub fn remove(&self, tid: u32) {
        lock(&self.0).remove(&tid);
    }
}

impl ParkedCalls for Parked {
    fn is_parked(&self, tid: u32) -> bool {
        lock(&self.0).contains_key(&tid)
    }

    fn release(&self, tid: u32) {
        let interrupt = lock(&self.0).get(&tid).and_then(Weak::upgrade);
        if let Some(interrupt) = interrupt {
            interrupt.fire();
        }
    }
}
