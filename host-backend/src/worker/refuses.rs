//! What executes nothing.

use super::{Done, Executor, GuestBlob, Released};

/// An executor that refuses every submission, because KFD calls are not executed yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refuses;

impl Executor for Refuses {
    fn attach(&self, _blob: GuestBlob) {}

    fn detach(&self, _id: u32, released: Released) {
        released.complete();
    }

    fn submit(&self, _ring: Option<u8>, bytes: &[u8], done: Done) {
        log::warn!("a submission of {} bytes is refused: this build does not execute KFD calls", bytes.len());
        done.fail();
    }

    fn end(&self) {}
}
