//! The thread that runs the queues of one process on one GPU.
//!
//! One thread per (process, GPU), and not one per queue: hardware runs the queues of a process on a few
//! processors too, a program may make hundreds of queues, and a machine that tests this has two cores.
//! One thread per GPU for all processes would let one process delay another. The queues are state
//! machines that take turns; a turn is short, whatever the packets ask for.
//!
//! Doorbells are plain memory, so somebody has to look. The worker looks without pause while there is
//! something to do and for a moment after, then with growing sleeps of 10 us to 4 ms; each call that the
//! process makes brings it back ([`Engine::wake`]), but those that wait, for a moment only ([`Engine::look`]). Without
//! queues there is no thread.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Interrupts;
use super::clock::GpuClock;
use super::context::{Cx, Stop};
use super::pace::Pace;
use super::queue::{Queue, QueueConfig, Turn};
use crate::mem::GpuVm;

/// What the process has done since the worker looked: nothing, a call that waits, another call.
const CALM: u8 = 0;
const WAITING: u8 = 1;
const ACTIVE: u8 = 2;

/// The packet processors of one GPU for one process.
#[derive(Debug)]
pub(crate) struct Engine {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the engine works with.
pub(crate) struct EngineConfig {
    /// KFD id of the GPU.
    pub(crate) gpu_id: u32,
    pub(crate) vm: Arc<GpuVm>,
    pub(crate) clock: GpuClock,
    /// The process. Weak, because the process owns the engine.
    pub(crate) interrupts: Weak<dyn Interrupts>,
}

struct Shared {
    config: EngineConfig,
    state: Mutex<State>,
    /// Threads that want `state`: the worker lets them in between two turns.
    waiting: AtomicUsize,
    woken: AtomicU8,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<Queue>,
    /// A memory access faulted: the queues of this process stay off this GPU
    /// (`kfd_dqm_evict_pasid`).
    evicted: bool,
    stop: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("gpu_id", &self.config.gpu_id).finish_non_exhaustive()
    }
}

/// The worker thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread of the queues: {0}")]
pub(crate) struct NoThread(#[from] std::io::Error);

impl Engine {
    /// An engine without queues.
    pub(crate) fn new(config: EngineConfig) -> Self {
        let shared = Shared {
            config,
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
            woken: AtomicU8::new(CALM),
            wake: Condvar::new(),
        };
        Self { shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Adds a queue. What its ring holds according to its write pointer is executed at once.
    pub(crate) fn add(&self, config: QueueConfig) -> Result<(), NoThread> {
        self.start()?;
        let active = config.active;
        let mut queue = Queue::new(config);
        if active {
            self.shared.activate(&mut queue);
        }
        self.shared.change(|state| state.queues.push(queue));
        Ok(())
    }

    /// Changes ring and activity of a queue. Returns when the new values hold.
    pub(crate) fn update(&self, id: u32, ring: u64, ring_size: u64, active: bool) {
        self.shared.change(|state| {
            let Some(queue) = state.queues.iter_mut().find(|queue| queue.config.id == id) else { return };
            let activated = active && !queue.config.active;
            queue.update(ring, ring_size, active);
            if activated {
                self.shared.activate(queue);
            }
        });
    }

    /// Removes a queue. When this returns, nothing of it runs any more. The thread ends with the last.
    pub(crate) fn remove(&self, id: u32) {
        let last = self.shared.change(|state| {
            state.queues.retain(|queue| queue.config.id != id);
            state.queues.is_empty()
        });
        if last {
            self.stop();
        }
    }

    /// Lets the worker look at the doorbells without pause for a while: the process is active.
    pub(crate) fn wake(&self) {
        self.shared.note(ACTIVE);
    }

    /// Lets the worker look at the doorbells for a moment: the process is going to wait.
    pub(crate) fn look(&self) {
        self.shared.note(WAITING);
    }

    /// Whether a fault has taken the queues off the GPU.
    pub(crate) fn evicted(&self) -> bool {
        self.shared.change(|state| state.evicted)
    }

    fn start(&self) -> Result<(), NoThread> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            self.shared.change(|state| state.stop = false);
            let name = format!("queues-{:x}", shared.config.gpu_id);
            *thread = Some(thread::Builder::new().name(name).spawn(move || shared.work())?);
        }
        Ok(())
    }

    /// Ends the thread and waits for it.
    fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        self.shared.change(|state| state.stop = true);
        // The process may be dropped by its own worker, which held it for an interrupt.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            log::error!("the thread of the queues of GPU {:#x} panicked", self.shared.config.gpu_id);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Runs `change` between two turns of the worker.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(state);
        self.woken.store(ACTIVE, Ordering::Relaxed);
        self.wake.notify_all();
        result
    }

    fn note(&self, what: u8) {
        if self.woken.fetch_max(what, Ordering::Relaxed) < what {
            self.wake.notify_all();
        }
    }

    /// The write pointer may not be mapped, which hardware finds out only when it looks.
    fn activate(&self, queue: &mut Queue) {
        let Some(interrupts) = self.config.interrupts.upgrade() else { return };
        if let Err(fault) = queue.activate(self.cx(&*interrupts)) {
            log::warn!("queue {}: write pointer: {fault}", queue.config.id);
        }
    }

    fn cx<'a>(&'a self, interrupts: &'a dyn Interrupts) -> Cx<'a> {
        Cx { vm: &self.config.vm, clock: self.config.clock, interrupts }
    }

    fn work(&self) {
        let mut pace = Pace::new(true);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = 0;
        while !state.stop {
            let Some(interrupts) = self.config.interrupts.upgrade() else { break };
            let busy = self.round(&mut state, &mut next, &*interrupts);
            state = self.release(state, interrupts);
            state = self.let_in(state);
            let woken = self.woken.swap(CALM, Ordering::Relaxed);
            if woken == WAITING {
                pace.look();
            }
            state = match pace.after(busy || woken == ACTIVE) {
                None => state,
                Some(_) if state.stop => state,
                Some(sleep) => self.wait(state, sleep),
            };
        }
    }

    /// Gives up the process. If this was the last reference to it, its end takes the lock.
    fn release<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        interrupts: Arc<dyn Interrupts>,
    ) -> MutexGuard<'a, State> {
        if Arc::strong_count(&interrupts) > 1 {
            return state;
        }
        drop(state);
        drop(interrupts);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, sleep: Duration) -> MutexGuard<'a, State> {
        if sleep.is_zero() {
            drop(state);
            thread::yield_now();
            return self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        self.wake.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner).0
    }

    /// A mutex is not fair: whoever waits for it goes first.
    fn let_in<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while self.waiting.load(Ordering::SeqCst) != 0 {
            state = self
                .wake
                .wait_timeout(state, Duration::from_millis(1))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state
    }

    /// One turn of each queue, from `next` on. Stops early when somebody waits for the queues.
    fn round(&self, state: &mut State, next: &mut usize, interrupts: &dyn Interrupts) -> bool {
        let cx = self.cx(interrupts);
        let mut busy = false;
        for _ in 0..state.queues.len() {
            if state.evicted || self.waiting.load(Ordering::SeqCst) != 0 {
                break;
            }
            *next = if *next + 1 < state.queues.len() { *next + 1 } else { 0 };
            let Some(queue) = state.queues.get_mut(*next) else { break };
            match queue.run(cx) {
                Turn::Quiet => {}
                Turn::Busy => busy = true,
                Turn::Stopped(stop) => {
                    let evicted = self.report(cx, queue, &stop);
                    if evicted {
                        state.evicted = true;
                        state.queues.iter().for_each(Queue::pause);
                    }
                    busy = true;
                }
            }
        }
        busy
    }

    /// Reports why a queue stopped. Returns whether all queues have to stop.
    fn report(&self, cx: Cx<'_>, queue: &Queue, stop: &Stop) -> bool {
        let id = queue.config.id;
        match stop {
            Stop::Fault(fault) => {
                log::error!("GPU {:#x}, queue {id}: {fault}; the process's queues stop", self.config.gpu_id);
                cx.interrupts.memory_fault(self.config.gpu_id, *fault);
                true
            }
            Stop::Exception(exception) => {
                log::error!("GPU {:#x}, queue {id} stops: {}", self.config.gpu_id, exception.message);
                let noted = queue.note_exception(cx, exception);
                cx.interrupts.queue_exception(id, exception.kind.mask());
                match noted {
                    Ok(()) => false,
                    Err(fault) => self.report(cx, queue, &Stop::Fault(fault)),
                }
            }
        }
    }
}
