//! Messages between the supervisor, the reaper and the program-to-be: one per packet, with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Longest text of a message in bytes.
const TEXT_MAX: usize = 2048;
/// Most descriptors of a message: one for each of the 128 render minors, and `/dev/kfd`.
const FDS_MAX: usize = 129;
const CONTROL_SIZE: usize = rustix::cmsg_space!(ScmRights(FDS_MAX));

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The namespace stands; descriptors: kfd file, then the render files in order of the minors.
    Staged,
    /// Go on: install the filter and execute the program.
    Go,
    /// The filter is on; descriptor: its listener.
    Listener,
    /// The program could not be executed; text: the error number.
    ExecFailed,
    /// Anything else went wrong; text: what.
    Failed,
    /// The reaper started the program-to-be; descriptor: its pidfd.
    Started,
    /// The program ended; text: its wait status.
    Ended,
}

const KINDS: [Kind; 7] =
    [Kind::Staged, Kind::Go, Kind::Listener, Kind::ExecFailed, Kind::Failed, Kind::Started, Kind::Ended];

/// A message.
#[derive(Debug)]
pub struct Message {
    /// What it says.
    pub kind: Kind,
    /// Its text.
    pub text: String,
    /// Its descriptors, close-on-exec.
    pub fds: Vec<OwnedFd>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    /// Two connected ends.
    ///
    /// # Errors
    /// `EMFILE` and its like.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(a), Channel(b)))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `EPIPE` if the other end is gone.
    pub fn send(&self, kind: Kind, text: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let tag = KINDS.iter().position(|k| *k == kind).and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
        let text = text.as_bytes();
        let text = text.get(..TEXT_MAX).unwrap_or(text);
        let mut space = [MaybeUninit::uninit(); CONTROL_SIZE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one message"));
        }
        sendmsg(&self.0, &[IoSlice::new(&[tag]), IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a message; `None` if the other end is gone.
    ///
    /// # Errors
    /// `EMFILE`; `InvalidData` for what is no message.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        let mut bytes = [0; 1 + TEXT_MAX];
        let mut space = [MaybeUninit::uninit(); CONTROL_SIZE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let iov = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        let fds = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        let Some((tag, text)) = bytes.get(..received.bytes).and_then(<[u8]>::split_first) else {
            return Ok(None);
        };
        let kind = *KINDS.get(usize::from(*tag)).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some(Message { kind, text: String::from_utf8_lossy(text).into_owned(), fds }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_text_and_descriptors_and_the_end_is_seen() {
        let (a, b) = Channel::pair().unwrap();
        a.send(Kind::Ended, "256", &[a.as_fd(), b.as_fd()]).unwrap();
        let message = b.receive().unwrap().unwrap();
        assert_eq!((message.kind, message.text.as_str(), message.fds.len()), (Kind::Ended, "256", 2));
        drop(message);
        drop(a);
        assert!(b.receive().unwrap().is_none());
    }
}
