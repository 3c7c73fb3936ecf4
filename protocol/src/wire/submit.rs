//! The contents of an EXECBUFFER.

use zerocopy::{FromBytes as _, IntoBytes as _};

use super::DecodeError;
use super::structs::Message;

/// What an EXECBUFFER says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The blob with this resource id, of [`AREA_BYTES`](super::area::AREA_BYTES), is the call area. Once in a context.
    Setup {
        /// Which blob.
        resource: u32,
    },
    /// Calls were submitted while the worker slept. Needs no fence.
    Kick,
    /// The fence is to signal as soon as [`WAKES`](super::area::word::WAKES) is not `seen`, or the worker is gone. One that
    /// comes while another is held takes its place, which completes. A guest that gets nothing but fences at once, again and
    /// again, has no worker any more.
    Wake {
        /// What the guest saw.
        seen: u32,
    },
}

const SETUP: u32 = 1;
const KICK: u32 = 2;
const WAKE: u32 = 3;

impl Submission {
    /// As bytes.
    #[must_use]
    pub fn encode(self) -> [u8; size_of::<Message>()] {
        let (kind, value) = match self {
            Submission::Setup { resource } => (SETUP, resource),
            Submission::Kick => (KICK, 0),
            Submission::Wake { seen } => (WAKE, seen),
        };
        let message = Message { kind: kind.into(), value: value.into() };
        let mut bytes = [0; size_of::<Message>()];
        bytes.copy_from_slice(message.as_bytes());
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// On anything that [`Submission::encode`] does not make.
    pub fn decode(bytes: &[u8]) -> Result<Submission, DecodeError> {
        const WHAT: &str = "EXECBUFFER";
        let need = size_of::<Message>();
        let message = Message::read_from_bytes(bytes);
        let message = message.map_err(|_| DecodeError::Short { what: WHAT, need, have: bytes.len() })?;
        match (message.kind.get(), message.value.get()) {
            (SETUP, resource) => Ok(Submission::Setup { resource }),
            (KICK, 0) => Ok(Submission::Kick),
            (KICK, _) => Err(DecodeError::Reserved(WHAT)),
            (WAKE, seen) => Ok(Submission::Wake { seen }),
            (kind, _) => Err(DecodeError::Value { what: WHAT, field: "kind", value: kind.into() }),
        }
    }
}
