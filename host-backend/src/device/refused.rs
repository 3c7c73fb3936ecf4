//! Why a well-formed request is refused: for the log in words, for the guest as a number.

use protocol::virtio_gpu::{BlobMem, DecodeError, Failure};

use super::limits;
use super::memory::ScatterError;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is no request.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The scatter list of a blob.
    #[error("a blob is refused: {0}")]
    Scatter(#[from] ScatterError),
    /// Context 0 is no context.
    #[error("a context cannot have the id 0")]
    ContextZero,
    /// Unknown context.
    #[error("there is no context {0}")]
    NoContext(u32),
    /// The id is taken.
    #[error("there is a context {0} already")]
    ContextExists(u32),
    /// Too many.
    #[error("more than {0} contexts")]
    TooManyContexts(usize),
    /// The context itself refused.
    #[error("context {0} refuses: {1:?}")]
    Context(u32, Failure),
    /// Not our capset.
    #[error("capset {0} is not offered")]
    Capset(u32),
    /// Not our version of it.
    #[error("version {0} of the capset is not offered")]
    CapsetVersion(u32),
    /// Beyond the list.
    #[error("there is no capset with index {0}")]
    CapsetIndex(u32),
    /// Resource 0 is no resource.
    #[error("a blob cannot have the id 0")]
    BlobZero,
    /// Unknown resource.
    #[error("there is no blob {0}")]
    NoBlob(u32),
    /// The id is taken.
    #[error("there is a blob {0} already")]
    BlobExists(u32),
    /// The guest gave its memory away.
    #[error("the memory of blob {0} was taken from the guest")]
    BlobLost(u32),
    /// Blobs of the host are for the window.
    #[error("{0:?}: without a window there are blobs of guest memory only")]
    NoHostMemory(BlobMem),
    /// Nothing can be mapped into the guest.
    #[error("blobs cannot be mapped into the guest: there is no window")]
    NoWindow,
    /// Window memory has a place of its own.
    #[error("a blob of host memory with {0} pages of the guest")]
    HostPages(usize),
    /// Nobody could see it.
    #[error("a blob of host memory that is not to be mapped")]
    NotMappable,
    /// Longer than the window.
    #[error("a blob of {0:#x} bytes, which is more than the window has")]
    WindowSize(u64),
    /// Guest memory is the guest's anyway.
    #[error("blob {0} is not the host's memory")]
    NotOfHost(u32),
    /// A blob has one place.
    #[error("blob {0} was mapped before")]
    MappedBefore(u32),
    /// There is nothing to be unmapped, or to be attached.
    #[error("blob {0} is not mapped into the window")]
    NotMapped(u32),
    /// Another context's.
    #[error("blob {resource_id} is not of context {ctx_id}")]
    OtherContext {
        /// Context.
        ctx_id: u32,
        /// Blob.
        resource_id: u32,
    },
    /// Not in it.
    #[error("{len:#x} bytes at {offset:#x} are not pages of the window")]
    OutsideOfWindow {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The driver gives no place twice.
    #[error("{len:#x} bytes at {offset:#x} of the window are in use")]
    WindowTaken {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Its pages cannot be had.
    #[error("no pages for a blob of the window")]
    WindowFull,
    /// Needs a feature that is not offered.
    #[error("blobs for other devices need RESOURCE_UUID, which is not offered")]
    CrossDevice,
    /// Guest memory has no id on the host, and window memory one.
    #[error("blob_id {0:#x} is not that of such memory")]
    BlobId(u64),
    /// Not whole pages.
    #[error("a blob of {0:#x} bytes, which are not one or more whole pages")]
    BlobSize(u64),
    /// Too long a list.
    #[error("{0} entries, at most {max} are possible", max = limits::ENTRIES)]
    TooManyEntries(usize),
    /// Too many, or too fragmented.
    #[error("the limit for blobs or their pieces is reached")]
    TooManyBlobs,
    /// Twice.
    #[error("blob {resource_id} is attached to context {ctx_id} already")]
    Attached {
        /// Context.
        ctx_id: u32,
        /// Blob.
        resource_id: u32,
    },
    /// Not at all.
    #[error("blob {resource_id} is not attached to context {ctx_id}")]
    NotAttached {
        /// Context.
        ctx_id: u32,
        /// Blob.
        resource_id: u32,
    },
    /// Too many.
    #[error("more than {0} attached blobs")]
    TooManyAttachments(usize),
    /// Too long.
    #[error("a submission of {0} bytes, at most {max} are possible", max = limits::SUBMISSION)]
    SubmissionSize(usize),
}

impl Refused {
    /// What the guest is told.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Refused::Malformed(DecodeError::Unknown(_) | DecodeError::NotHere(_)) | Refused::NoWindow => {
                Failure::Unspecified
            }
            Refused::ContextZero | Refused::NoContext(_) | Refused::ContextExists(_) => {
                Failure::InvalidContextId
            }
            Refused::BlobZero | Refused::NoBlob(_) | Refused::BlobExists(_) | Refused::BlobLost(_) => {
                Failure::InvalidResourceId
            }
            Refused::TooManyContexts(_)
            | Refused::TooManyBlobs
            | Refused::TooManyAttachments(_)
            | Refused::WindowSize(_)
            | Refused::WindowFull => Failure::OutOfMemory,
            Refused::Context(_, failure) => *failure,
            Refused::Malformed(_)
            | Refused::Scatter(_)
            | Refused::Capset(_)
            | Refused::CapsetVersion(_)
            | Refused::CapsetIndex(_)
            | Refused::NoHostMemory(_)
            | Refused::HostPages(_)
            | Refused::NotMappable
            | Refused::NotOfHost(_)
            | Refused::MappedBefore(_)
            | Refused::NotMapped(_)
            | Refused::OtherContext { .. }
            | Refused::OutsideOfWindow { .. }
            | Refused::WindowTaken { .. }
            | Refused::CrossDevice
            | Refused::BlobId(_)
            | Refused::BlobSize(_)
            | Refused::TooManyEntries(_)
            | Refused::Attached { .. }
            | Refused::NotAttached { .. }
            | Refused::SubmissionSize(_) => Failure::InvalidParameter,
        }
    }
}
