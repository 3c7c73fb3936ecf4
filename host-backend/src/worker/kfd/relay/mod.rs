//! The doorbell relay: carries what a guest stores in its own memory over to the doorbells.
//!
//! KFD lets nobody but its process map doorbells, so the guest has a page that looks like them, and a thread here looks at
//! it. It never moves a doorbell backwards: hardware sees every store, a poller the last one only, and programs with several
//! producers may store out of order. What the guest's write pointers say counts too.
//!
//! The thread looks without pause while there is something to do and for a moment after, then with growing sleeps; each
//! command of the guest makes it look again at once, but for a moment only where the command waits: what was rung before is
//! carried over then, and a program that sleeps costs little. Without queues it sleeps.

mod queue;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use protocol::Errno;
use softgpu::engine::Pace;

use super::blob::Blob;
use super::mapping::Mapped;
use super::space::AddressRange;
pub(super) use queue::Queue;

/// What the guest has done since the thread looked: nothing, a command that waits, another command.
const CALM: u8 = 0;
const WAITING: u8 = 1;
const ACTIVE: u8 = 2;

/// The doorbells of a context.
#[derive(Debug)]
pub(super) struct Relay {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Whether it may look without pause.
    spins: bool,
}

/// The doorbells of a GPU: the guest's page, and the real ones.
#[derive(Debug)]
pub(super) struct Pages {
    guest: Arc<Blob>,
    device: Mapped,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    woken: AtomicU8,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By the first byte of their place in the file.
    pages: BTreeMap<u64, Pages>,
    queues: BTreeMap<u32, Queue>,
    ending: bool,
}

impl Relay {
    /// No doorbells yet, and no thread.
    pub(super) fn new(spins: bool) -> Relay {
        Relay { shared: Arc::default(), thread: Mutex::default(), spins }
    }

    /// Doorbells at this place of the file are at these pages from now on.
    ///
    /// # Errors
    /// `EINVAL` if the guest's page is not as long as the place.
    pub(super) fn set_pages(
        &self,
        place: AddressRange,
        guest: Arc<Blob>,
        device: Mapped,
    ) -> Result<(), Errno> {
        if guest.size() != place.len || device.slice().len() as u64 != place.len {
            return Err(Errno::EINVAL);
        }
        guest.memory()?;
        let before = self.shared.lock().pages.insert(place.base, Pages { guest, device });
        drop(before);
        self.heat();
        Ok(())
    }

    /// Looks at the doorbell of a new queue from now on.
    pub(super) fn add(&self, id: u32, queue: Queue) {
        let mut state = self.shared.lock();
        // What the last queue of this doorbell was told is forgotten.
        state.pages_of(queue.doorbell()).inspect(|(pages, offset)| queue::forget(&pages.guest, *offset));
        state.queues.insert(id, queue);
        drop(state);
        self.start();
        self.wake();
    }

    /// A queue that was taken away goes on.
    pub(super) fn put_back(&self, id: u32, queue: Queue) {
        self.shared.lock().queues.insert(id, queue);
        self.wake();
    }

    /// The ring of a queue has another size.
    pub(super) fn update(&self, id: u32, ring_size: u32) {
        if let Some(queue) = self.shared.lock().queues.get_mut(&id) {
            queue.set_ring_size(ring_size);
        }
        self.heat();
    }

    /// No doorbell of this queue is rung any more.
    pub(super) fn remove(&self, id: u32) -> Option<Queue> {
        self.shared.lock().queues.remove(&id)
    }

    /// The guest is active: looks without pause for a while.
    pub(super) fn heat(&self) {
        self.shared.note(ACTIVE);
    }

    /// The guest is going to wait: looks for a moment.
    pub(super) fn look(&self) {
        self.shared.note(WAITING);
    }

    /// There is a queue; the thread may sleep because there was none.
    fn wake(&self) {
        self.shared.woken.store(ACTIVE, Ordering::Relaxed);
        self.shared.wake.notify_all();
    }

    fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return;
        }
        let (shared, spins) = (Arc::clone(&self.shared), self.spins);
        let spawned = thread::Builder::new().name("doorbells".into()).spawn(move || shared.work(spins));
        match spawned {
            Ok(started) => *thread = Some(started),
            Err(error) => log::error!("no thread for doorbells, queues will stand still: {error}"),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.lock().ending = true;
        self.shared.wake.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of doorbells panicked");
        }
    }
}

impl State {
    /// The pages in which a doorbell is, and its first byte in them.
    fn pages_of(&self, doorbell: u64) -> Option<(&Pages, usize)> {
        pages_of(&self.pages, doorbell)
    }

    /// Looks at every queue once. Returns whether something was done.
    fn round(&mut self, now: Instant) -> bool {
        let mut busy = false;
        for queue in self.queues.values_mut() {
            if let Some((pages, offset)) = pages_of(&self.pages, queue.doorbell()) {
                busy |= queue.look(&pages.guest, &pages.device, offset, now);
            }
        }
        busy
    }
}

fn pages_of(pages: &BTreeMap<u64, Pages>, doorbell: u64) -> Option<(&Pages, usize)> {
    let (base, pages) = pages.range(..=doorbell).next_back()?;
    let offset = usize::try_from(doorbell - base).ok()?;
    (offset < pages.device.slice().len()).then_some((pages, offset))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: u8) {
        if self.woken.fetch_max(what, Ordering::Relaxed) < what {
            self.wake.notify_all();
        }
    }

    fn work(&self, spins: bool) {
        let mut pace = Pace::new(spins);
        let mut state = self.lock();
        while !state.ending {
            if state.queues.is_empty() {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                pace = Pace::new(spins);
                continue;
            }
            let busy = state.round(Instant::now());
            let woken = self.woken.swap(CALM, Ordering::Relaxed);
            if woken == WAITING {
                pace.look();
            }
            let sleep = pace.after(busy || woken == ACTIVE).unwrap_or_default();
            state = if sleep.is_zero() || self.woken.load(Ordering::Relaxed) != CALM {
                drop(state);
                thread::yield_now();
                self.lock()
            } else {
                self.wake.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}
