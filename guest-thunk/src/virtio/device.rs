//! What the transport needs of a virtio-gpu device, so that it can be tested without one.

use std::os::fd::OwnedFd;

use protocol::Errno;
use protocol::kfd::Mapping;

/// A command for the context.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Ring of the context; `None` for the device's own order.
    pub ring: Option<u32>,
    /// What the context gets.
    pub bytes: &'a [u8],
}

/// A virtio-gpu device with one context on it, which ends when the device is dropped. [`Node`](super::Node) is the real one.
pub trait Device: Send + Sync {
    /// Makes the context, with so many rings (CONTEXT_INIT).
    ///
    /// # Errors
    /// `EEXIST` the second time; `EINVAL` for more than 64 rings.
    fn init_context(&self, rings: u32) -> Result<(), Errno>;

    /// A blob of guest memory: `size` bytes, rounded up to pages, zeroed, that the host reaches.
    ///
    /// # Errors
    /// `ENOMEM`, and what the driver says of a size that cannot be.
    fn create_blob(&self, size: u64) -> Result<Box<dyn GuestBlob>, Errno>;

    /// Whether memory of the host is shown in a window.
    fn has_window(&self) -> bool {
        false
    }

    /// A blob of the host's memory in the window: `size` bytes, rounded up to pages, under the id that the worker said.
    ///
    /// # Errors
    /// `ENOSPC` where the window is full, and what the driver says; `EOPNOTSUPP` without a window.
    fn create_host_blob(&self, size: u64, blob_id: u64) -> Result<Box<dyn GuestBlob>, Errno> {
        let _ = (size, blob_id);
        Err(Errno::EOPNOTSUPP)
    }

    /// Sends a command and does not wait (EXECBUFFER).
    ///
    /// # Errors
    /// `EINVAL` for a ring that the context does not have; `ENOMEM`.
    fn submit(&self, submission: Submission<'_>) -> Result<(), Errno>;

    /// Sends a command. The descriptor becomes readable when the context has answered it, and all before it on its ring.
    ///
    /// # Errors
    /// As [`Device::submit`].
    fn submit_with_fence(&self, submission: Submission<'_>) -> Result<OwnedFd, Errno>;

    /// In a forked child: closes what it inherited, once, without a lock. The parent's context is untouched.
    fn abandon(&self);
}

/// Memory that guest and host reach. Dropping it gives the handle back; the memory goes when its mappings and the host's are
/// gone too.
pub trait GuestBlob: Send + Sync {
    /// The id by which the device knows it.
    fn resource(&self) -> u32;

    /// What to map for it.
    ///
    /// # Errors
    /// Those of the driver's MAP.
    fn mapping(&self) -> Result<Mapping, Errno>;
}
