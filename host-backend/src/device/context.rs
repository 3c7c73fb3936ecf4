//! What a context is to the device: something that takes blobs and bytes, and answers.

use std::sync::Arc;

use protocol::virtio_gpu::Failure;

use super::answers::Answer;
use super::blob::Blob;
use super::hold::Hold;
use super::window::InUse;

/// The right to use a blob's memory. A context keeps it as long as anything of its reaches that memory.
///
/// Dropping it says that the memory is not reached any more: the guest may then reuse the pages.
pub struct BlobUse {
    pub(super) blob: Arc<Blob>,
    /// Dropped before the hold: what is lost with a worker is taken back first.
    pub(super) _window: Option<InUse>,
    pub(super) _hold: Hold,
}

impl BlobUse {
    /// The blob.
    #[must_use]
    pub fn blob(&self) -> &Blob {
        &self.blob
    }
}

/// Bytes for a context.
pub struct Submission<'a> {
    /// Ring of the context.
    pub ring: Option<u8>,
    /// What the guest wrote; a copy.
    pub bytes: &'a [u8],
    /// To be completed when the work is done. Dropping it fails the submission.
    pub answer: Answer,
}

/// Who makes a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextInfo {
    /// Id that the guest gave it.
    pub id: u32,
    /// Name that the guest gave it, for logs; printable.
    pub name: String,
}

/// A context of the guest: one process that opened the render node.
///
/// The methods are called by the thread that serves the queue, and must not block. They may complete an answer
/// before they return.
pub trait Context: Send {
    /// Gives the context a blob. It may not have been attached before.
    fn attach(&mut self, blob: BlobUse) -> Result<(), Failure>;

    /// Takes a blob away. Its [`BlobUse`] is dropped as soon as its memory is not reached any more, which may be
    /// later.
    fn detach(&mut self, resource_id: u32);

    /// Work for the context.
    fn submit(&mut self, submission: Submission<'_>);

    /// Ends the context: open answers are completed or dropped, every [`BlobUse`] is dropped, and then `done`.
    fn destroy(self: Box<Self>, done: Hold);
}

/// What makes contexts.
pub trait Contexts: Send + Sync {
    /// Makes one.
    fn create(&self, info: ContextInfo) -> Result<Box<dyn Context>, Failure>;
}
