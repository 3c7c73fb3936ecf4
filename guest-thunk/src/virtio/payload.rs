//! Blobs for messages that do not fit a slot, kept for the next ones.

use std::sync::{Mutex, PoisonError};

use protocol::Errno;
use protocol::wire::MESSAGE_MAX;

use super::device::{Device, GuestBlob};
use super::view::View;

/// Bytes of the smallest.
const LEAST: usize = 64 << 10;

/// How many are kept.
const KEPT: usize = 4;

/// A blob with its mapping.
pub(super) struct Payload {
    view: View,
    blob: Box<dyn GuestBlob>,
}

/// Those that nobody uses.
#[derive(Default)]
pub(super) struct Payloads(Mutex<Vec<Payload>>);

impl Payload {
    /// The id of the blob.
    pub(super) fn resource(&self) -> u32 {
        self.blob.resource()
    }

    /// Copies a message in. `false` if it does not fit.
    #[must_use]
    pub(super) fn write(&self, bytes: &[u8]) -> bool {
        self.view.write(0, bytes)
    }

    /// Copies a message out. `false` if it is not so long.
    #[must_use]
    pub(super) fn read(&self, bytes: &mut [u8]) -> bool {
        self.view.read(0, bytes)
    }
}

impl Payloads {
    /// One with room for a message.
    ///
    /// # Errors
    /// `E2BIG` for more than a message may have; those of making and mapping a blob.
    pub(super) fn take(&self, device: &dyn Device, bytes: usize) -> Result<Payload, Errno> {
        if bytes > MESSAGE_MAX {
            log::warn!("a call of {bytes} bytes: the host takes {MESSAGE_MAX} at most");
            return Err(Errno::E2BIG);
        }
        {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = kept.iter().position(|payload| payload.view.len() >= bytes) {
                return Ok(kept.swap_remove(place));
            }
        }
        let blob = device.create_blob(bytes.next_power_of_two().max(LEAST) as u64)?;
        let view = View::new(&blob.mapping()?)?;
        if view.len() < bytes { Err(Errno::EIO) } else { Ok(Payload { view, blob }) }
    }

    /// Keeps one for the next call. The biggest are kept.
    pub(super) fn put(&self, payload: Payload) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(payload);
        kept.sort_by_key(|payload| std::cmp::Reverse(payload.view.len()));
        kept.truncate(KEPT);
    }
}
