//! The commands of a virtio-gpu device (virtio 1.3, section 5.7; `linux/virtio_gpu.h`) as far as a device without
//! scanouts needs them: capsets, contexts, blobs, submissions and fences.
//!
//! [`Request::decode`] is total: whatever a guest sends gives a request or an error that says what was wrong.
//! [`Response::encode`] writes what the device answers. [`structs`] has the layouts, [`constants`] the numbers.

pub mod capset;
pub mod constants;
mod request;
mod response;
pub mod structs;

pub use constants::{BlobFlags, BlobMem, CommandId, Features, HeaderFlags, MapCache, ResponseId};
pub use request::{Command, CreateBlob, CreateContext, DecodeError, Header, Request};
pub use response::{Failure, Response};

#[cfg(test)]
mod tests;
