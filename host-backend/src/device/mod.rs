//! The device process's side of the virtqueues.

mod answers;
mod blob;
mod chain;
mod context;
mod control;
mod hold;
mod limits;
mod memory;
mod refused;
mod ring;
pub(crate) mod throttle;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::virtio_gpu::constants::{CONTROL_QUEUE, CURSOR_QUEUE};
use protocol::virtio_gpu::structs::Config;
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vm_memory::{GuestAddressSpace as _, GuestMemoryAtomic, GuestMemoryMmap};
use zerocopy::little_endian::U32;

use answers::Answers;
pub use answers::{Answer, Memory};
pub use blob::{Blob, Ledger};
pub use context::{BlobUse, Context, ContextInfo, Contexts, Submission};
pub use control::Control;
pub use hold::Hold;
pub use limits::{ENTRIES, Limits, REQUEST, SUBMISSION};
pub use memory::{Backing, MemoryError, PAGE, Piece};
use ring::Chain;
pub use ring::{QUEUE_SIZE, Ring};
pub use window::{Vmm, WINDOW_SIZES, Window};

/// The device.
pub struct Device {
    memory: Memory,
    answers: Arc<Answers>,
    control: Control,
    /// The guest broke a queue's rules: it is served no more until it is set up again.
    broken: [AtomicBool; 2],
    /// Copy of the request that is executed; kept for its capacity.
    request: Mutex<Vec<u8>>,
}

/// Why a queue gives no chain.
enum Nothing {
    /// There is none.
    Empty,
    /// The queue is stopped, or was found broken.
    Stopped,
}

impl Device {
    /// A device that makes contexts so.
    #[must_use]
    pub fn new(contexts: Box<dyn Contexts>, limits: Limits) -> Device {
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let answers = Arc::new(Answers::new(memory.clone()));
        Device {
            control: Control::new(Arc::clone(&answers), contexts, limits),
            answers,
            memory,
            broken: Default::default(),
            request: Mutex::default(),
        }
    }

    /// The same with a window, in which the guest sees memory of the host.
    #[must_use]
    pub fn with_window(mut self, window: Window) -> Device {
        self.control.set_window(window);
        self
    }

    /// The window, if there is one.
    #[must_use]
    pub fn window(&self) -> Option<&Window> {
        self.control.window()
    }

    /// The guest's memory. [`set_memory`](Device::set_memory) replaces what is in it.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory.clone()
    }

    /// What all blobs cost.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.control.ledger()
    }

    /// Requests that are not answered yet.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.answers.open_requests()
    }

    /// Ends everything that the guest has, and returns when nobody reaches its memory.
    pub fn reset(&self) {
        self.control.reset();
    }

    /// The next chain of a queue.
    fn next(&self, index: u16, ring: &Ring) -> Result<Chain, Nothing> {
        if self.broken[usize::from(index)].load(Ordering::Relaxed) {
            return Err(Nothing::Stopped);
        }
        match ring.take() {
            Ok(chain) => chain.ok_or(Nothing::Empty),
            Err(error) => {
                self.give_up(index, &error.to_string());
                Err(Nothing::Stopped)
            }
        }
    }

    fn give_up(&self, index: u16, why: &str) {
        self.broken[usize::from(index)].store(true, Ordering::Relaxed);
        log::error!("queue {index} is served no more until the guest resets the device: {why}");
    }

    /// Serves a queue until it is empty.
    pub fn serve(&self, index: u16, ring: &Ring) {
        match index {
            CONTROL_QUEUE => {
                self.answers.serve(ring);
                self.serve_all(index, ring, || self.serve_control(ring));
            }
            CURSOR_QUEUE => self.serve_all(index, ring, || self.serve_cursor(ring)),
            _ => {}
        }
    }

    /// Serves a queue with the guest's kicks off meanwhile.
    fn serve_all(&self, index: u16, ring: &Ring, mut one: impl FnMut() -> Result<(), Nothing>) {
        loop {
            if let Err(error) = ring.look() {
                return self.give_up(index, &error.to_string());
            }
            let nothing = loop {
                if let Err(nothing) = one() {
                    break nothing;
                }
            };
            match (nothing, ring.look_away()) {
                (Nothing::Stopped, _) | (Nothing::Empty, Ok(false)) => return,
                // The guest added a chain meanwhile.
                (Nothing::Empty, Ok(true)) => {}
                (Nothing::Empty, Err(error)) => return self.give_up(index, &error.to_string()),
            }
        }
    }

    /// Executes one request of the control queue.
    fn serve_control(&self, ring: &Ring) -> Result<(), Nothing> {
        // Held from before the chain is taken until it is executed: a reset finds either none of it or all.
        let mut state = self.control.lock();
        let chain = self.next(CONTROL_QUEUE, ring)?;
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        let (room, received) = chain::receive(chain, &self.memory.memory(), &mut request);
        let result = self.control.execute(&mut state, room, received, &request);
        result.map_err(|error| {
            self.give_up(CONTROL_QUEUE, &error.to_string());
            Nothing::Stopped
        })
    }

    /// There is no cursor: its commands come back as they are.
    fn serve_cursor(&self, ring: &Ring) -> Result<(), Nothing> {
        let chain = self.next(CURSOR_QUEUE, ring)?;
        ring.give_back(chain.head_index(), 0).map_err(|error| {
            self.give_up(CURSOR_QUEUE, &error.to_string());
            Nothing::Stopped
        })
    }

    /// A queue is not served for a while: the VMM is asked nothing meanwhile.
    pub fn pause(&self, index: u16) {
        if index == CONTROL_QUEUE {
            self.control.pause();
        }
    }

    /// A queue stops: returns when it may. The control queue takes everything with it that the guest has.
    pub fn stop(&self, index: u16) {
        if index == CONTROL_QUEUE {
            self.reset();
        }
        if let Some(broken) = self.broken.get(usize::from(index)) {
            broken.store(false, Ordering::Relaxed);
        }
    }

    /// Features of virtio and of the device, from what is handled.
    #[must_use]
    pub fn features() -> u64 {
        Control::features().0
            | 1 << VIRTIO_F_VERSION_1
            | 1 << VIRTIO_RING_F_INDIRECT_DESC
            | 1 << VIRTIO_RING_F_EVENT_IDX
    }

    /// The config space.
    #[must_use]
    pub fn config() -> Config {
        Config { num_capsets: U32::new(control::CAPSETS), ..Config::default() }
    }

    /// Gives the guest other memory, and returns when nobody reaches what it has no more.
    pub fn set_memory(&self, memory: GuestMemoryMmap<()>) -> Result<(), MemoryError> {
        let layout = memory::Layout::of(&memory)?;
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).replace(memory);
        self.control.set_layout(layout);
        Ok(())
    }
}
