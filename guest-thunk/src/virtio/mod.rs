//! A virtio-gpu device as a guest's program sees it: the render node of the stock `virtio_gpu` driver, a context of ours on it,
//! and blobs of guest memory. [`Kfd`](protocol::kfd::Kfd) over it is not here yet.

mod blob;
mod node;

pub use blob::{Blob, View};
pub use node::{Node, NodeError, Submission};
