//! [`Kfd`](protocol::kfd::Kfd) over a virtio-gpu device, in a virtual machine: the stock `virtio_gpu` driver's render node carries
//! calls to the host, where a worker process of `vhost-device-kfd` executes them ([`protocol::wire`]).
//!
//! | part | what it does |
//! |---|---|
//! | [`Node`], [`Blob`], [`View`] | the driver's calls; behind the trait [`Device`], so that tests need no driver |
//! | `area`, `calls`, `sleep`, `spin`, `payload` | a call: slot, queue, answer, and how threads wait |
//! | `link`, `ranges` | the context: versions, and the addresses that both sides have |
//! | `topology`, `guest` | the host's GPUs with the guest's processors |
//! | `process`, `sharing`, `vma` | files, ioctls, memory that GPUs reach, doorbells |
//! | `window` | memory of the host that the guest sees, where the device has a window |
//!
//! What it does not have, and refuses by name: descriptors from or to elsewhere (dma-bufs), memory that the application allocated
//! itself and, without a window, memory of the host that the guest would have to see.

mod area;
mod blob;
mod calls;
mod device;
mod find;
mod guest;
mod kfd;
mod link;
mod mem;
mod node;
mod payload;
mod process;
mod ranges;
mod sharing;
mod sleep;
mod spin;
#[cfg(test)]
mod testing;
mod topology;
mod view;
mod vma;
mod window;

pub use blob::Blob;
pub use device::{Device, GuestBlob, Submission};
pub use find::render_nodes;
pub use kfd::{ConnectError, SPIN, Virtio};
pub use link::LinkError;
pub use mem::OwnMemory;
pub use node::{Node, NodeError};
pub use view::View;
