//! A worker: the process that executes what one context of the guest asks for.
//!
//! It is a process of its own, because the bytes that it works on are hostile: what goes wrong in it costs that
//! context and no other. It knows the guest's memory only as the pieces of its context's blobs. The device process, for
//! its part, takes a worker for hostile ([`crate::workers`]).

pub mod allowance;
pub mod jail;
pub mod kfd;
mod link;
pub mod process;
mod start;

use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use link::{Done, Released, RunError, run};
pub use start::{StartError, end_with, start};

/// A blob of guest memory as the worker gets it: where its bytes are in which files.
#[derive(Clone, Debug)]
pub struct GuestBlob {
    /// Id that the guest gave it.
    pub id: u32,
    /// Bytes; the sum of all pieces.
    pub size: u64,
    /// File, offset in it and length of each piece, in the order of the blob's bytes. All are whole pages.
    ///
    /// A blob must not keep a file alive longer than its attachment: drop them before [`Released::complete`].
    pub pieces: Vec<(Arc<OwnedFd>, u64, u64)>,
}

/// What executes the work of a context. The methods are called by one thread, in the order of the guest's requests.
pub trait Executor: Send + Sync + 'static {
    /// The context gets a blob.
    ///
    /// No blob of this id is attached. One that was detached may still be on its way out: the id is free again as soon
    /// as [`detach`](Executor::detach) has returned.
    fn attach(&self, blob: GuestBlob);

    /// Everything of the blob is let go of (queues that use it destroyed, aliases unmapped), then `released` is
    /// completed: maybe later, and from another thread.
    fn detach(&self, id: u32, released: Released);

    /// An `EXECBUFFER` of the context. `done` is completed when its fence may signal; it may be kept (a wake fence).
    fn submit(&self, ring: Option<u8>, bytes: &[u8], done: Done);

    /// The device process answers what the executor asked for ([`FromWorker::Ask`](crate::link::FromWorker::Ask)). Most ask for
    /// nothing.
    fn granted(&self, _granted: bool, _left: u64) {}

    /// The context ends: queues are destroyed and all aliases unmapped when it returns. The process ends then.
    fn end(&self);
}
