//! The trait [`protocol::kfd::Kfd`] over a socket pair: a device that lives in another process.
//!
//! This is an experiment that stays as a test. A transport for virtual machines serialises the same trait, so
//! whatever real programs need from it must fit here first: waits that end early, memory that is shared,
//! mappings, and descriptors in both directions. It carries nothing but argument bytes, the ranges that
//! the declaration of an ioctl names, and descriptors.

mod client;
mod flatten;
mod message;
mod server;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::{BackingFiles, seqpacket};

pub use client::Loopback;
pub use server::serve;

/// A connected pair of sockets: one end for [`Loopback::new`], the other for [`serve`].
///
/// # Errors
/// Whatever `socketpair` answers.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    seqpacket::pair()
}

/// Sends the files that the device is to allocate in, before anything else.
///
/// # Errors
/// When the socket does not take them.
pub fn send_backing(socket: BorrowedFd<'_>, backing: &BackingFiles) -> io::Result<()> {
    let minors: Vec<u32> = backing.render.iter().map(|(minor, _)| *minor).collect();
    let message = postcard::to_allocvec(&minors).map_err(io::Error::other)?;
    let files = backing.render.iter().map(|(_, file)| file.as_fd());
    let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(backing.kfd.as_fd()).chain(files).collect();
    seqpacket::send(socket, &message, &descriptors)
}

/// Receives what [`send_backing`] sent.
///
/// # Errors
/// When the other side closes first, or sends something else.
pub fn receive_backing(socket: BorrowedFd<'_>) -> io::Result<BackingFiles> {
    let (message, descriptors) = seqpacket::receive(socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not the backing files of a device");
    let minors: Vec<u32> = postcard::from_bytes(&message).map_err(|_| invalid())?;
    let mut files = descriptors.into_iter();
    let kfd = files.next().ok_or_else(invalid)?;
    let render: Vec<(u32, OwnedFd)> = minors.iter().copied().zip(files.by_ref()).collect();
    if render.len() != minors.len() || files.next().is_some() {
        return Err(invalid());
    }
    Ok(BackingFiles { kfd, render })
}
