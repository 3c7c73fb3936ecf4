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
mod socket;

use std::io;
use std::os::fd::OwnedFd;

pub use client::Loopback;
pub use server::serve;

/// A connected pair of sockets: one end for [`Loopback::new`], the other for [`serve`].
///
/// # Errors
/// Whatever `socketpair` answers.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    socket::pair()
}
