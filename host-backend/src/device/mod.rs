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
mod throttle;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::virtio_gpu::constants::{CONTROL_QUEUE, CURSOR_QUEUE};
use protocol::virtio_gpu::structs::Config;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VringT};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{DescriptorChain, QueueOwnedT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryLoadGuard, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use answers::Answers;
pub use answers::{Answer, Memory};
pub use blob::{Blob, Ledger};
pub use context::{BlobUse, Context, ContextInfo, Contexts, NoWorkers, Submission};
pub use control::Control;
pub use hold::Hold;
pub use limits::{ENTRIES, Limits, REQUEST, SUBMISSION};
pub use memory::{Backing, PAGE, Piece};
pub use ring::Ring;

/// Slots of a queue at most.
pub const QUEUE_SIZE: usize = 1024;

type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap<()>>>;

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

    /// The guest's memory. The vhost-user handler replaces what is in it.
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
    fn next(&self, index: u16, vring: &Ring) -> Result<Chain, Nothing> {
        let mut state = vring.get_mut();
        if self.broken[usize::from(index)].load(Ordering::Relaxed)
            || !state.is_enabled()
            || !virtio_queue::QueueT::ready(state.get_queue())
        {
            return Err(Nothing::Stopped);
        }
        let result = state.get_queue_mut().iter(self.memory.memory());
        match result {
            Ok(mut chains) => chains.next().ok_or(Nothing::Empty),
            Err(error) => {
                drop(state);
                self.give_up(index, &error.to_string());
                Err(Nothing::Stopped)
            }
        }
    }

    fn give_up(&self, index: u16, why: &str) {
        self.broken[usize::from(index)].store(true, Ordering::Relaxed);
        log::error!("queue {index} is served no more until the guest resets the device: {why}");
    }

    /// Serves a queue until it is empty, with the guest's notifications off meanwhile.
    fn serve(&self, index: u16, vring: &Ring, mut one: impl FnMut() -> Result<(), Nothing>) {
        loop {
            if vring.disable_notification().is_err() {
                return self.give_up(index, "its rings are not in the guest's memory");
            }
            let nothing = loop {
                if let Err(nothing) = one() {
                    break nothing;
                }
            };
            match (nothing, vring.enable_notification()) {
                (Nothing::Stopped, _) | (Nothing::Empty, Ok(false)) => return,
                // The guest added a chain meanwhile.
                (Nothing::Empty, Ok(true)) => {}
                (Nothing::Empty, Err(_)) => {
                    return self.give_up(index, "its rings are not in the guest's memory");
                }
            }
        }
    }

    /// Executes one request of the control queue.
    fn serve_control(&self, vring: &Ring) -> Result<(), Nothing> {
        // Held from before the chain is taken until it is executed: a reset finds either none of it or all.
        let mut state = self.control.lock();
        let chain = self.next(CONTROL_QUEUE, vring)?;
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        let (room, received) = chain::receive(chain, &self.memory.memory(), &mut request);
        let result = self.control.execute(&mut state, room, received, &request);
        result.map_err(|error| {
            self.give_up(CONTROL_QUEUE, &error.to_string());
            Nothing::Stopped
        })
    }

    /// There is no cursor: its commands come back as they are.
    fn serve_cursor(&self, vring: &Ring) -> Result<(), Nothing> {
        let chain = self.next(CURSOR_QUEUE, vring)?;
        let given = vring.add_used(chain.head_index(), 0).map_err(|error| error.to_string());
        given.and_then(|()| vring.signal_used_queue().map_err(|error| error.to_string())).map_err(|why| {
            self.give_up(CURSOR_QUEUE, &why);
            Nothing::Stopped
        })
    }

    fn config() -> Config {
        Config { num_capsets: U32::new(control::CAPSETS), ..Config::default() }
    }
}

impl VhostUserBackend for Device {
    type Bitmap = ();
    type Vring = Ring;

    fn num_queues(&self) -> usize {
        2
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        Control::features().0
            | 1 << VIRTIO_F_VERSION_1
            | 1 << VIRTIO_RING_F_INDIRECT_DESC
            | 1 << VIRTIO_RING_F_EVENT_IDX
            | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
    }

    fn reset_device(&self) {
        self.reset();
    }

    /// The handler tells the vrings itself.
    fn set_event_idx(&self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let config = Device::config();
        let range = usize::try_from(offset)
            .ok()
            .zip(offset.checked_add(size).and_then(|end| usize::try_from(end).ok()));
        // An empty answer is an error to the VMM.
        range.and_then(|(start, end)| config.as_bytes().get(start..end)).unwrap_or_default().to_vec()
    }

    fn set_config(&self, _offset: u32, _buf: &[u8]) -> io::Result<()> {
        // The only field to be written clears events, and there are none.
        Ok(())
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        let layout = memory::Layout::of(&memory.memory()).map_err(|error| {
            log::error!("{error}");
            io::Error::new(io::ErrorKind::InvalidInput, error)
        })?;
        self.control.set_layout(layout);
        Ok(())
    }

    fn stop_vring(&self, index: u32) -> io::Result<()> {
        if index == u32::from(CONTROL_QUEUE) {
            self.reset();
        }
        if let Some(broken) = usize::try_from(index).ok().and_then(|index| self.broken.get(index)) {
            broken.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn exit_event(&self, _thread_index: usize) -> Option<(EventConsumer, EventNotifier)> {
        match new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC) {
            Ok(pair) => Some(pair),
            Err(error) => {
                log::error!("no event descriptor to end the queue's thread with: {error}");
                None
            }
        }
    }

    fn handle_event(
        &self,
        device_event: u16,
        _events: EventSet,
        vrings: &[Ring],
        _thread: usize,
    ) -> io::Result<()> {
        // An error here would end the thread, and with it the device.
        let Some(vring) = vrings.get(usize::from(device_event)) else { return Ok(()) };
        match device_event {
            CONTROL_QUEUE => {
                self.answers.serve(vring);
                self.serve(CONTROL_QUEUE, vring, || self.serve_control(vring));
            }
            CURSOR_QUEUE => self.serve(CURSOR_QUEUE, vring, || self.serve_cursor(vring)),
            _ => {}
        }
        Ok(())
    }
}
