//! What a debugger and the runtime agree on, and the exceptions that wait for the debugger.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::kfd::constants::{EC_MASK_DEVICE, EC_MASK_PROCESS, RuntimeState};
use protocol::kfd::types::{HsaMemoryExceptionData, RuntimeInfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::server::sleep::Semaphore;

/// Watch points of a GPU (`MAX_WATCH_ADDRESSES`).
pub(super) const WATCH_POINTS: u32 = 4;

/// The debug side of one process.
#[derive(Debug, Default)]
pub(crate) struct Debug {
    state: Mutex<State>,
    /// `runtime_enable_sema`: RUNTIME_ENABLE waits here for the debugger's answer.
    pub(super) runtime_answer: Semaphore,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) runtime: RuntimeInfo,
    /// A RUNTIME_ENABLE was interrupted while it waited for the debugger (`is_runtime_retry`).
    pub(super) runtime_retry: bool,
    /// Where the debugger is told that there is news; `Some` while one is attached (`debug_trap_enabled`).
    pub(super) attached: Option<News>,
    /// Exceptions that the debugger wants to hear of.
    pub(super) enabled: u64,
    /// Exceptions of the process.
    pub(super) process: u64,
    /// Exceptions and settings by GPU id.
    pub(super) gpus: BTreeMap<u32, GpuDebug>,
    /// Exceptions by queue id.
    pub(super) queues: BTreeMap<u32, QueueDebug>,
    /// `KFD_DBG_TRAP_FLAG_*`.
    pub(super) flags: u32,
    /// Traps that waves take beside those of the kernel.
    pub(super) trap_mask: u32,
}

/// Debug state of one GPU.
#[derive(Debug, Default)]
pub(super) struct GpuDebug {
    pub(super) exceptions: u64,
    pub(super) fault: Option<HsaMemoryExceptionData>,
    /// One bit for each watch point in use.
    pub(super) watch_points: u32,
}

/// Debug state of one queue.
#[derive(Debug, Default)]
pub(super) struct QueueDebug {
    pub(super) gpu_id: u32,
    pub(super) exceptions: u64,
}

/// The descriptor through which the debugger hears of exceptions.
#[derive(Debug)]
pub(super) struct News(pub(super) Option<OwnedFd>);

impl News {
    /// `kernel_write` of one byte. A debugger that does not read misses nothing: the state stays. It must not
    /// hold up the GPU either, so nothing is written where that would wait.
    fn tell(&self) {
        let Some(fd) = &self.0 else { return };
        let mut fds = [PollFd::new(fd, PollFlags::OUT)];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if ready.is_ok_and(|ready| ready > 0)
            && let Err(error) = rustix::io::write(fd, b".")
        {
            log::debug!("the debugger's descriptor: {error}");
        }
    }
}

impl Debug {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the runtime is enabled: then it hears of queue exceptions that no debugger takes.
    pub(crate) fn runtime_enabled(&self) -> bool {
        self.lock().runtime.runtime_state == RuntimeState::ENABLED.0
    }

    /// `kfd_dbg_ev_raise` for a queue. Returns whether a debugger takes it.
    pub(crate) fn raise_queue(&self, queue_id: u32, gpu_id: u32, exceptions: u64) -> bool {
        let mut state = self.lock();
        if state.attached.is_none() {
            return false;
        }
        let queue = state.queues.entry(queue_id).or_default();
        queue.gpu_id = gpu_id;
        queue.exceptions |= exceptions;
        state.tell_if_enabled(exceptions)
    }

    /// `kfd_dbg_ev_raise` for a memory violation of a GPU. Returns whether a debugger takes it.
    pub(crate) fn raise_fault(&self, exceptions: u64, data: HsaMemoryExceptionData) -> bool {
        let mut state = self.lock();
        if state.attached.is_none() {
            return false;
        }
        let gpu = state.gpus.entry(data.gpu_id).or_default();
        gpu.exceptions |= exceptions & EC_MASK_DEVICE;
        gpu.fault.get_or_insert(data);
        state.tell_if_enabled(exceptions)
    }

    /// Forgets a queue that is destroyed.
    pub(crate) fn forget_queue(&self, queue_id: u32) {
        self.lock().queues.remove(&queue_id);
    }
}

impl State {
    /// `kfd_dbg_ev_raise` for the process.
    pub(super) fn raise_process(&mut self, exceptions: u64) {
        if self.attached.is_some() {
            self.process |= exceptions & EC_MASK_PROCESS;
            self.tell_if_enabled(exceptions);
        }
    }

    fn tell_if_enabled(&self, exceptions: u64) -> bool {
        match &self.attached {
            Some(news) if self.enabled & exceptions != 0 => {
                news.tell();
                true
            }
            Some(_) | None => false,
        }
    }

    /// `kfd_dbg_set_enabled_debug_exception_mask`.
    pub(super) fn enable_exceptions(&mut self, mask: u64) {
        let queues = self.queues.values().map(|queue| queue.exceptions);
        let gpus = self.gpus.values().map(|gpu| gpu.exceptions);
        let pending = queues.chain(gpus).fold(self.process, |all, one| all | one);
        if let Some(news) = self.attached.as_ref().filter(|_| mask & pending != 0) {
            news.tell();
        }
        self.enabled = mask;
    }

    /// `kfd_dbg_trap_disable`.
    pub(super) fn detach(&mut self) {
        if self.attached.take().is_none() {
            return;
        }
        let runtime = &mut self.runtime.runtime_state;
        if *runtime != RuntimeState::DISABLED.0 {
            *runtime = RuntimeState::ENABLED.0;
        }
        // kfd_dbg_clean_exception_status, kfd_dbg_trap_deactivate.
        self.enabled = 0;
        self.process = 0;
        self.gpus.clear();
        self.queues.clear();
        self.flags = 0;
        self.trap_mask = 0;
    }

    /// `kfd_dbg_ev_query_debug_event`: one source with exceptions that are enabled. Returns exceptions, queue id
    /// and GPU id.
    pub(super) fn take_event(&mut self, clear: u64) -> Option<(u64, u32, u32)> {
        let enabled = self.enabled;
        for (&id, queue) in &mut self.queues {
            if queue.exceptions & enabled != 0 {
                let found = (queue.exceptions, id, queue.gpu_id);
                queue.exceptions &= !clear;
                return Some(found);
            }
        }
        for (&id, gpu) in &mut self.gpus {
            if gpu.exceptions & enabled != 0 {
                let found = (gpu.exceptions, 0, id);
                gpu.exceptions &= !clear;
                return Some(found);
            }
        }
        let found = (self.process & enabled != 0).then_some((self.process, 0, 0));
        if found.is_some() {
            self.process &= !clear;
        }
        found
    }
}
