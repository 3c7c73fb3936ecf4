//! Calls of a program, of which one may fail because something was made to: it is made again, and has to work then.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::hsakmt::Status;

use crate::engine::testing::{
    faults::{self, Operation},
    messages,
};
use crate::engine::{Engine, Result};

/// What the failure of one operation did to the call that met it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Outcome {
    pub(super) call: &'static str,
    pub(super) operation: Operation,
    /// What the call answered; `None` for success.
    pub(super) status: Option<Status>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, operation, status } = self;
        match status {
            Some(status) => write!(f, "{call} | {operation} | {status:?}"),
            None => write!(f, "{call} | {operation} | -"),
        }
    }
}

/// A program's way through the library.
pub(super) struct Walk<'a> {
    engine: &'a Engine,
    /// Number of the operation that fails, or has failed before.
    at: Option<u32>,
    /// What is going on, for whoever waits for it.
    place: Arc<Mutex<String>>,
    outcome: Option<Outcome>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(engine: &'a Engine, at: Option<u32>, place: Arc<Mutex<String>>) -> Self {
        Self { engine, at, place, outcome: None }
    }

    /// What became of the operation that was made to fail, if one was.
    pub(super) fn outcome(self) -> Option<Outcome> {
        self.outcome
    }

    /// Makes a call, and makes it again if it met the failure.
    pub(super) fn call<T>(&mut self, call: &'static str, make: impl Fn(&Engine) -> Result<T>) -> T {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).replace_range(.., call);
        let first = make(self.engine);
        let Some(operation) = faults::failed() else {
            return first.unwrap_or_else(|status| {
                let (at, messages) = (self.at, messages::last());
                panic!("{call} fails with {status:?}; what was made to fail is operation {at:?}{messages}")
            });
        };
        let outcome = Outcome { call, operation, status: first.as_ref().err().copied() };
        self.outcome = Some(outcome.clone());
        first.or_else(|_| make(self.engine)).unwrap_or_else(|status| {
            panic!("{outcome}: made again it fails with {status:?}{}", messages::last());
        })
    }

    /// Makes a call that is refused in any case.
    pub(super) fn refused<T>(
        &mut self,
        call: &'static str,
        expected: Status,
        make: impl Fn(&Engine) -> Result<T>,
    ) {
        self.call(call, |engine| match make(engine).err() {
            Some(status) if status == expected => Ok(()),
            Some(status) => Err(status),
            None => panic!("{call} is not refused"),
        });
    }
}
