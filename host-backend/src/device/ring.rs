//! A split virtqueue: its state, which the VMM sets, and what the device does with it.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use virtio_queue::{DescriptorChain, Error, Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{GuestAddress, GuestAddressSpace as _, GuestMemoryLoadGuard, GuestMemoryMmap};

use super::answers::Memory;

/// Slots of a queue at most.
pub const QUEUE_SIZE: u16 = 1024;

/// A chain that the guest made available.
pub type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap<()>>>;

/// A virtqueue. Clones are the same queue.
#[derive(Clone)]
pub struct Ring(Arc<Mutex<State>>);

struct State {
    memory: Memory,
    queue: Queue,
    /// Where the guest's kicks arrive, from the start of the queue to its stop.
    kick: Option<Arc<File>>,
    /// Where the guest is notified.
    call: Option<File>,
    enabled: bool,
    /// The number of slots is possible.
    sized: bool,
    /// The VMM said where the rings are.
    placed: bool,
}

impl Ring {
    /// A queue that is not set up.
    pub fn new(memory: Memory) -> Result<Ring, Error> {
        let queue = Queue::new(QUEUE_SIZE)?;
        Ok(Ring(Arc::new(Mutex::new(State {
            memory,
            queue,
            kick: None,
            call: None,
            enabled: false,
            sized: true,
            placed: false,
        }))))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the number of slots: a power of two, at most [`QUEUE_SIZE`]. With another one the queue is not served.
    pub fn set_size(&self, size: u16) -> Result<(), Error> {
        let mut state = self.lock();
        let result = state.queue.try_set_size(size);
        state.sized = result.is_ok();
        result
    }

    /// The number of slots.
    #[must_use]
    pub fn size(&self) -> u16 {
        self.lock().queue.size()
    }

    /// Sets where the rings are in the guest's memory, and goes on where the used ring ends. If that cannot be,
    /// the queue has no rings.
    pub fn place(&self, descriptors: u64, available: u64, used: u64) -> Result<(), Error> {
        let mut state = self.lock();
        state.placed = false;
        state.queue.try_set_desc_table_address(GuestAddress(descriptors))?;
        state.queue.try_set_avail_ring_address(GuestAddress(available))?;
        state.queue.try_set_used_ring_address(GuestAddress(used))?;
        let memory = state.memory.memory();
        let next = state.queue.used_idx(&*memory, std::sync::atomic::Ordering::Relaxed)?;
        state.queue.set_next_used(next.0);
        state.placed = true;
        Ok(())
    }

    /// The queue has no rings.
    pub fn displace(&self) {
        self.lock().placed = false;
    }

    /// Sets the index of the next available chain.
    pub fn set_next_avail(&self, index: u16) {
        self.lock().queue.set_next_avail(index);
    }

    /// Sets whether notifications are suppressed by indices.
    pub fn set_event_idx(&self, enabled: bool) {
        self.lock().queue.set_event_idx(enabled);
    }

    /// Sets whether the VMM lets the queue be served.
    pub fn set_enabled(&self, enabled: bool) {
        self.lock().enabled = enabled;
    }

    /// Sets where the guest is notified.
    pub fn set_call(&self, call: Option<File>) {
        self.lock().call = call;
    }

    /// Starts the queue.
    pub fn start(&self, kick: Option<File>) {
        let mut state = self.lock();
        state.kick = kick.map(Arc::new);
        let ready = state.kick.is_some();
        state.queue.set_ready(ready);
    }

    /// No further chain is taken. Answers still go to the guest.
    pub fn stop(&self) {
        self.lock().queue.set_ready(false);
    }

    /// Lets go of what belongs to the stopped queue, and returns the index of its next chain.
    pub fn forget(&self) -> u16 {
        let mut state = self.lock();
        (state.kick, state.call, state.placed) = (None, None, false);
        state.queue.next_avail()
    }

    /// Where kicks arrive, if the queue may be served.
    #[must_use]
    pub fn kick(&self) -> Option<Arc<File>> {
        let state = self.lock();
        state.served().then(|| state.kick.clone()).flatten()
    }

    /// Takes the next chain. Nothing is there in a queue that may not be served.
    pub(super) fn take(&self) -> Result<Option<Chain>, Error> {
        let mut state = self.lock();
        if !state.served() {
            return Ok(None);
        }
        let memory = state.memory.memory();
        Ok(state.queue.iter(memory)?.next())
    }

    /// Gives a chain back, and notifies the guest if it wants that.
    pub(super) fn give_back(&self, head: u16, written: u32) -> Result<(), GiveBackError> {
        let mut state = self.lock();
        let memory = state.memory.memory();
        state.queue.add_used(&*memory, head, written)?;
        if state.queue.needs_notification(&*memory)?
            && let Some(mut call) = state.call.as_ref()
        {
            match call.write_all(&1_u64.to_ne_bytes()) {
                // The counter is full: a notification is under way.
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The guest need not kick.
    pub(super) fn look(&self) -> Result<(), Error> {
        let mut state = self.lock();
        if !state.served() {
            return Ok(());
        }
        let memory = state.memory.memory();
        state.queue.disable_notification(&*memory)
    }

    /// The guest has to kick again. Whether a chain came meanwhile, for which it did not.
    pub(super) fn look_away(&self) -> Result<bool, Error> {
        let mut state = self.lock();
        if !state.served() {
            return Ok(false);
        }
        let memory = state.memory.memory();
        state.queue.enable_notification(&*memory)
    }
}

impl State {
    fn served(&self) -> bool {
        self.enabled && self.sized && self.placed && self.queue.ready()
    }
}

/// Why a chain did not get back to the guest, or the guest does not know of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum GiveBackError {
    /// Its rings are wrong.
    #[error(transparent)]
    Ring(#[from] Error),
    /// The notification failed.
    #[error("the guest cannot be notified: {0}")]
    Call(#[from] io::Error),
}
