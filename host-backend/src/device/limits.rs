//! What one device keeps at most, whatever the guest asks for.

use protocol::virtio_gpu::structs::{MemEntry, ResourceCreateBlob};

/// Entries of one scatter list: 4 GiB in single pages.
pub const ENTRIES: usize = 1 << 20;

/// Bytes of the longest request: a blob with that many entries.
pub const REQUEST: usize = size_of::<ResourceCreateBlob>() + ENTRIES * size_of::<MemEntry>();

/// Bytes of one submission. Long payloads travel in blobs.
pub const SUBMISSION: usize = 1 << 20;

/// Limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Contexts at a time.
    pub contexts: usize,
    /// Blobs at a time, with those that are not released yet.
    pub blobs: usize,
    /// Pieces of all these blobs: what a fragmented guest costs.
    pub pieces: usize,
    /// Blobs attached to contexts, counted for each context.
    pub attachments: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { contexts: 128, blobs: 1 << 18, pieces: 1 << 22, attachments: 1 << 19 }
    }
}
