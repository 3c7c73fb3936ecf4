//! A virtqueue as the crates have it, but for one thing: a kick that is gone when it is read is no error.
//!
//! The event loop of vhost-user-backend ends with the first error. An event that it has fetched may be about a kick
//! descriptor that the VMM replaces before the loop gets to it, which a guest can bring about by resetting the
//! device while it kicks. The new descriptor has nothing to read, and the device would never be served again.

use std::fs::File;
use std::io;

use vhost_user_backend::{VringRwLock, VringStateGuard, VringStateMutGuard, VringT};
use virtio_queue::Error;

use super::answers::Memory;

/// A virtqueue. Clones are the same queue.
#[derive(Clone)]
pub struct Ring(VringRwLock<Memory>);

impl<'a> VringStateGuard<'a, Memory> for Ring {
    type G = <VringRwLock<Memory> as VringStateGuard<'a, Memory>>::G;
}

impl<'a> VringStateMutGuard<'a, Memory> for Ring {
    type G = <VringRwLock<Memory> as VringStateMutGuard<'a, Memory>>::G;
}

impl VringT<Memory> for Ring {
    fn new(memory: Memory, max_queue_size: u16) -> Result<Ring, Error> {
        VringRwLock::new(memory, max_queue_size).map(Ring)
    }

    fn read_kick(&self) -> io::Result<bool> {
        match self.0.read_kick() {
            // Looking at the queue once too often does no harm.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(self.0.get_ref().is_enabled()),
            result => result,
        }
    }

    fn get_ref(&self) -> <Self as VringStateGuard<'_, Memory>>::G {
        self.0.get_ref()
    }

    fn get_mut(&self) -> <Self as VringStateMutGuard<'_, Memory>>::G {
        self.0.get_mut()
    }

    fn add_used(&self, head: u16, len: u32) -> Result<(), Error> {
        self.0.add_used(head, len)
    }

    fn signal_used_queue(&self) -> io::Result<()> {
        self.0.signal_used_queue()
    }

    fn enable_notification(&self) -> Result<bool, Error> {
        self.0.enable_notification()
    }

    fn disable_notification(&self) -> Result<(), Error> {
        self.0.disable_notification()
    }

    fn needs_notification(&self) -> Result<bool, Error> {
        self.0.needs_notification()
    }

    fn set_enabled(&self, enabled: bool) {
        self.0.set_enabled(enabled);
    }

    fn set_queue_info(&self, descriptors: u64, available: u64, used: u64) -> Result<(), Error> {
        self.0.set_queue_info(descriptors, available, used)
    }

    fn queue_next_avail(&self) -> u16 {
        self.0.queue_next_avail()
    }

    fn set_queue_next_avail(&self, base: u16) {
        self.0.set_queue_next_avail(base);
    }

    fn set_queue_next_used(&self, index: u16) {
        self.0.set_queue_next_used(index);
    }

    fn queue_used_idx(&self) -> Result<u16, Error> {
        self.0.queue_used_idx()
    }

    fn set_queue_size(&self, size: u16) {
        self.0.set_queue_size(size);
    }

    fn set_queue_event_idx(&self, enabled: bool) {
        self.0.set_queue_event_idx(enabled);
    }

    fn set_queue_ready(&self, ready: bool) {
        self.0.set_queue_ready(ready);
    }

    fn set_kick(&self, file: Option<File>) {
        self.0.set_kick(file);
    }

    fn set_call(&self, file: Option<File>) {
        self.0.set_call(file);
    }

    fn set_err(&self, file: Option<File>) {
        self.0.set_err(file);
    }
}
