//! What the device process and a worker say to each other, over a `SOCK_SEQPACKET` socket pair.
//!
//! The device process takes nothing but short messages without descriptors from a worker, which may be hostile: see
//! [`FromWorker::receive`]. What it sends may be long and then travels in a memfd ([`softgpu::seqpacket`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};
use serde::{Deserialize, Serialize};
use softgpu::seqpacket;

/// Bytes of a worker's longest message.
const FROM_WORKER: usize = 2048;

/// Bytes that are left of the reason of a failure.
const REASON: usize = 1024;

/// A message that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It cannot be decoded.
    #[error("a message of {0} bytes that is none")]
    Malformed(usize),
    /// It is longer than messages are.
    #[error("a message of more than {FROM_WORKER} bytes")]
    TooLong,
}

/// Device process to worker.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker<'a> {
    /// The descriptor that comes with it is a file with guest memory. It has this number from now on.
    File {
        /// Number.
        file: u32,
    },
    /// The number stands for nothing any more; no attached blob has pieces in that file.
    Forget {
        /// Number.
        file: u32,
    },
    /// A blob of guest memory.
    Attach {
        /// Number of this attachment, never used again.
        attachment: u64,
        /// Id that the guest gave the blob. Free again once the attachment is detached.
        id: u32,
        /// Bytes; the sum of the pieces.
        size: u64,
        /// Where they are, in order.
        pieces: Vec<Place>,
    },
    /// The context loses a blob. Answered by [`FromWorker::Released`].
    Detach {
        /// Number of the attachment.
        attachment: u64,
    },
    /// Bytes that the guest wrote. Answered by [`FromWorker::Done`].
    Submit {
        /// Number of the submission, never used again.
        ticket: u64,
        /// Ring of the context.
        ring: Option<u8>,
        /// The bytes.
        #[serde(borrow, with = "serde_bytes")]
        bytes: &'a [u8],
    },
    /// Answer to the one [`FromWorker::Ask`] that is open.
    Granted {
        /// The worker has these bytes from now on.
        granted: bool,
        /// Bytes that it could still get after that.
        left: u64,
    },
    /// The context ends. Nothing follows; the worker ends its process.
    End,
}

/// A kind of memory that the contexts of a device share, and whose sum the device process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stock {
    /// VRAM of the GPU with this KFD id.
    Vram(u32),
    /// System memory of the host that KFD allocates (GTT).
    Host,
}

/// Contiguous bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Number of the file.
    pub file: u32,
    /// Where they begin in it.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// Worker to device process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The worker has what it needs, and begins.
    Ready,
    /// The worker ends and says why.
    Failed {
        /// For people.
        why: String,
    },
    /// A submission is done: its fence may signal.
    Done {
        /// Its number.
        ticket: u64,
        /// It did not fail.
        ok: bool,
    },
    /// Nothing in the worker reaches the memory of a detached blob any more.
    Released {
        /// Number of the attachment.
        attachment: u64,
    },
    /// The worker wants memory. Answered by [`ToWorker::Granted`], before which it does not ask again.
    Ask {
        /// Of which kind.
        stock: Stock,
        /// How much; nothing, to hear what is left.
        bytes: u64,
    },
    /// The worker needs memory no more that it was granted.
    GiveBack {
        /// Of which kind.
        stock: Stock,
        /// How much.
        bytes: u64,
    },
}

impl ToWorker<'_> {
    /// As it travels.
    ///
    /// # Errors
    /// None that is known: the bytes are in memory.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(io::Error::other)
    }

    /// Sends it, with the descriptor that belongs to [`ToWorker::File`].
    ///
    /// # Errors
    /// See [`seqpacket::send`].
    pub fn send(&self, socket: BorrowedFd<'_>, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        seqpacket::send(socket, &self.encode()?, file.as_slice())
    }
}

impl<'a> ToWorker<'a> {
    /// Decodes what [`seqpacket::receive`] received.
    ///
    /// # Errors
    /// When it is no message, or bytes follow it.
    pub fn decode(bytes: &'a [u8]) -> Result<ToWorker<'a>, LinkError> {
        exactly(bytes)
    }
}

impl FromWorker {
    /// A failure for this reason, or for as much of it as a message takes.
    #[must_use]
    pub fn failed(why: &dyn std::fmt::Display) -> FromWorker {
        let mut why = why.to_string();
        let end = (0..=REASON.min(why.len())).rev().find(|&at| why.is_char_boundary(at));
        why.truncate(end.unwrap_or(0));
        FromWorker::Failed { why }
    }

    /// Sends it.
    ///
    /// # Errors
    /// Whatever `send` answers: `BrokenPipe` when the device process is gone.
    pub fn send(&self, socket: &OwnedFd) -> io::Result<()> {
        let bytes = postcard::to_allocvec(self).map_err(io::Error::other)?;
        loop {
            match rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result.map(drop)?),
            }
        }
    }

    /// Decodes one.
    ///
    /// # Errors
    /// When it is no message, or bytes follow it.
    pub fn decode(bytes: &[u8]) -> Result<FromWorker, LinkError> {
        exactly(bytes)
    }

    /// Receives one; `None` when the worker has closed, or sent a message of no bytes.
    ///
    /// Descriptors that come along are closed by the kernel: there is no room for them.
    ///
    /// # Errors
    /// Whatever `recv` answers; `InvalidData` for what is no message.
    pub fn receive(socket: impl AsFd) -> io::Result<Option<FromWorker>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut buffer = [0; FROM_WORKER + 1];
        let (received, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())?;
        match &buffer[..received] {
            [] => Ok(None),
            long if long.len() > FROM_WORKER => Err(invalid(LinkError::TooLong)),
            bytes => FromWorker::decode(bytes).map(Some).map_err(invalid),
        }
    }
}

fn exactly<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, LinkError> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(LinkError::Malformed(bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places() -> impl Strategy<Value = Vec<Place>> {
        let place = any::<(u32, u64, u64)>().prop_map(|(file, offset, len)| Place { file, offset, len });
        prop::collection::vec(place, 0..50)
    }

    proptest! {
        #[test]
        fn messages_to_a_worker_come_back(
            number: u64, id: u32, size: u64, pieces in places(), ring: Option<u8>, bytes: Vec<u8>,
        ) {
            let messages = [
                ToWorker::File { file: id },
                ToWorker::Forget { file: id },
                ToWorker::Attach { attachment: number, id, size, pieces },
                ToWorker::Detach { attachment: number },
                ToWorker::Submit { ticket: number, ring, bytes: &bytes },
                ToWorker::Granted { granted: ring.is_some(), left: number },
                ToWorker::End,
            ];
            for message in messages {
                let mut encoded = message.encode().unwrap();
                prop_assert_eq!(ToWorker::decode(&encoded).unwrap(), message);
                encoded.push(0);
                prop_assert!(ToWorker::decode(&encoded).is_err());
            }
        }

        #[test]
        fn messages_of_a_worker_come_back(number: u64, gpu: u32, ok: bool, why: String) {
            for message in [
                FromWorker::Ready,
                FromWorker::Done { ticket: number, ok },
                FromWorker::Released { attachment: number },
                FromWorker::Ask { stock: Stock::Vram(gpu), bytes: number },
                FromWorker::GiveBack { stock: Stock::Host, bytes: number },
                FromWorker::failed(&why),
            ] {
                let encoded = postcard::to_allocvec(&message).unwrap();
                prop_assert_eq!(FromWorker::decode(&encoded).unwrap(), message);
            }
        }

        #[test]
        fn whatever_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            if let Ok(message) = FromWorker::decode(&bytes) {
                prop_assert!(bytes.len() <= FROM_WORKER, "{message:?}");
            }
            if let Ok(ToWorker::Attach { pieces, .. }) = ToWorker::decode(&bytes) {
                prop_assert!(pieces.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_long_reason_is_cut_and_still_fits() {
        let (here, there) = seqpacket::pair().unwrap();
        FromWorker::failed(&"ä".repeat(4000)).send(&there).unwrap();
        let Some(FromWorker::Failed { why }) = FromWorker::receive(&here).unwrap() else {
            panic!("another message")
        };
        assert_eq!(why, "ä".repeat(REASON / 2));
    }

    #[test]
    fn long_messages_and_descriptors_of_a_worker_are_not_taken() {
        let (here, there) = seqpacket::pair().unwrap();
        rustix::net::send(&there, &[1; FROM_WORKER + 10], SendFlags::NOSIGNAL).unwrap();
        assert_eq!(FromWorker::receive(&here).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
        seqpacket::send(there.as_fd(), &[], &[here.as_fd(), here.as_fd()]).unwrap();
        FromWorker::receive(&here).unwrap();
        assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() <= before);
        drop(there);
        assert_eq!(FromWorker::receive(&here).unwrap(), None);
    }
}
