//! Messages with descriptors over a `SOCK_SEQPACKET` socket pair.
//!
//! A message that is too long for a packet travels in a memfd. So the sender decides what the receiver reads from: receive
//! only from a process that is trusted not to send a descriptor on which a read blocks for ever.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::{pread, pwrite};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Largest message that travels in the packet itself, in bytes; a longer one travels in a memfd.
const INLINE_LIMIT: usize = 32 << 10;

/// Largest message at all, in bytes. The flattened ranges of one ioctl are far smaller.
const MESSAGE_LIMIT: usize = 64 << 20;

/// Descriptors per message: the kernel's `SCM_MAX_FD`.
pub const MAX_DESCRIPTORS: usize = 253;

/// First byte of a packet: the message follows, or the last descriptor holds it.
const INLINE: u8 = 0;
const IN_MEMFD: u8 = 1;

/// A connected pair of message sockets.
///
/// # Errors
/// Whatever `socketpair` answers.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message. All of it is sent, or nothing.
///
/// # Errors
/// Whatever `sendmsg` answers: `WouldBlock` on a socket that does not block and has no room. More descriptors than
/// [`MAX_DESCRIPTORS`] (one less for a message that travels in a memfd) are an error too.
pub fn send(socket: BorrowedFd<'_>, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if message.len() <= INLINE_LIMIT {
        return send_packet(socket, &[IoSlice::new(&[INLINE]), IoSlice::new(message)], descriptors);
    }
    let memfd = memfd_create("kfd-message", MemfdFlags::CLOEXEC)?;
    let mut done = 0;
    while done < message.len() {
        done += pwrite(&memfd, &message[done..], done as u64)?;
    }
    let mut descriptors = descriptors.to_vec();
    descriptors.push(memfd.as_fd());
    send_packet(socket, &[IoSlice::new(&[IN_MEMFD])], &descriptors)
}

fn send_packet(
    socket: BorrowedFd<'_>,
    packet: &[IoSlice<'_>],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other(format!("{} descriptors do not fit one message", descriptors.len())));
    }
    sendmsg(socket, packet, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message; `None` when the other side has closed.
///
/// # Errors
/// Whatever `recvmsg` answers; `InvalidData` for a message that is none of [`send`].
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut packet = vec![0; 1 + INLINE_LIMIT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut short"));
    }
    packet.truncate(received.bytes);
    match packet.first() {
        Some(&INLINE) => {
            packet.remove(0);
            Ok(Some((packet, descriptors)))
        }
        Some(&IN_MEMFD) => {
            let memfd = descriptors.pop().ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "a long message came without its descriptor")
            })?;
            Ok(Some((read_all(memfd.as_fd())?, descriptors)))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a message of unknown form")),
    }
}

fn read_all(memfd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let size = usize::try_from(fstat(memfd)?.st_size).unwrap_or(usize::MAX);
    if size > MESSAGE_LIMIT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {size} bytes")));
    }
    let mut message = vec![0; size];
    let mut done = 0;
    while done < size {
        match pread(memfd, &mut message[done..], done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => done += n,
        }
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_messages_arrive_with_their_descriptors() {
        let (a, b) = pair().unwrap();
        for len in [1, INLINE_LIMIT, INLINE_LIMIT + 1, 1 << 20] {
            let message: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            send(a.as_fd(), &message, &[a.as_fd(), b.as_fd()]).unwrap();
            let (got, descriptors) = receive(b.as_fd()).unwrap().unwrap();
            assert_eq!(got, message);
            assert_eq!(descriptors.len(), 2);
        }
    }

    #[test]
    fn a_closed_peer_is_the_end() {
        let (a, b) = pair().unwrap();
        drop(a);
        assert!(receive(b.as_fd()).unwrap().is_none());
    }
}
