//! The workgroups of a dispatch that are under way, run by the thread of the queues and by helpers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::launch::Launch;
use super::memory::Tables;
use super::messages::Messages;
use crate::engine::Interrupts;
use crate::engine::clock::GpuClock;
use crate::isa::exec::{CodeCache, Group, Progress, Registers, TrapAt};
use crate::mem::GpuVm;

/// Instructions between two looks at the clock, while which an unmap waits.
const SLICE: u32 = 500;
/// Instructions after which a group that did not end lets others run: it may wait for one of them.
const QUANTUM: u32 = 50_000;
/// Waves of all dispatches together that have begun and not ended; beyond, a dispatch has one group at a time. A wave has 128 KiB of
/// registers.
const MOST_WAVES: usize = 4096;
/// Registers of ended waves that are kept for the next ones.
const MOST_KEPT: usize = 32;

static WAVES: AtomicUsize = AtomicUsize::new(0);

/// What a queue keeps from one dispatch to the next.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<Registers>>);

impl Spare {
    fn take(&self) -> Registers {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn keep(&self, registers: impl Iterator<Item = Registers>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(registers);
        kept.truncate(MOST_KEPT);
    }
}

/// What groups are run with.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) vm: Arc<GpuVm>,
    pub(super) code: Arc<CodeCache>,
    pub(super) clock: GpuClock,
    pub(super) spare: Arc<Spare>,
}

/// The groups of a dispatch.
pub(super) struct Floor {
    launch: Launch,
    with: Surroundings,
    state: Mutex<State>,
    /// The last helper left, or the last group that somebody ran is done.
    quiet: Condvar,
    /// Helpers have to leave.
    paused: AtomicBool,
    messages: Messages,
}

struct State {
    /// The next group to begin.
    next: Option<[u32; 3]>,
    /// Groups that have begun and are not run now.
    resting: VecDeque<Begun>,
    /// Groups that are run now.
    running: usize,
    helpers: usize,
    /// Parts of the private memory that ended groups had, and how many were given out.
    free_slots: Vec<u32>,
    slots: u32,
    trap: Option<TrapAt>,
}

/// A group that has begun. It is counted in `WAVES`.
struct Begun {
    group: Group,
    slot: u32,
    waves: usize,
    /// Instructions of its quantum that it has executed.
    spent: u32,
}

impl Drop for Begun {
    fn drop(&mut self) {
        WAVES.fetch_sub(self.waves, Ordering::Relaxed);
    }
}

/// How a dispatch stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There are groups that nobody runs.
    HasWork,
    /// There is one group that nobody runs, and no others.
    LastOne,
    /// Helpers run the last ones.
    WithHelpers,
    /// All ended.
    Done,
}

impl Floor {
    pub(super) fn new(launch: Launch, with: Surroundings) -> Self {
        let state = State {
            next: Some([0; 3]),
            resting: VecDeque::new(),
            running: 0,
            helpers: 0,
            free_slots: Vec::new(),
            slots: 0,
            trap: None,
        };
        Self {
            launch,
            with,
            state: Mutex::new(state),
            quiet: Condvar::new(),
            paused: AtomicBool::new(false),
            messages: Messages::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs groups for about `time`, and hands on what waves told the driver.
    ///
    /// # Errors
    /// What stopped a wave, here or at a helper. Nothing is run any more then.
    pub(super) fn run(&self, time: Duration, interrupts: &dyn Interrupts) -> Result<Standing, TrapAt> {
        let standing = self.run_for(time);
        self.messages.hand_on(interrupts);
        standing
    }

    fn run_for(&self, time: Duration) -> Result<Standing, TrapAt> {
        let end = Instant::now() + time;
        self.paused.store(false, Ordering::SeqCst);
        self.work(|| Instant::now() >= end);
        let mut state = self.state();
        let standing = state.standing();
        if standing == Standing::WithHelpers && state.trap.is_none() {
            // The thread of the queues comes back soon: others may have work for it.
            let left = end.saturating_duration_since(Instant::now());
            (state, _) = self.quiet.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        match state.trap.take() {
            Some(trap) => Err(trap),
            None => Ok(state.standing()),
        }
    }

    /// Runs groups on a helper's thread until there are none, the dispatch is paused, or `leave` says so. Returns whether there is
    /// more to do.
    pub(super) fn help(&self, leave: impl Fn() -> bool) -> bool {
        {
            let mut state = self.state();
            if self.paused.load(Ordering::SeqCst) {
                return false;
            }
            state.helpers += 1;
        }
        let _left = Left(self);
        self.work(|| self.paused.load(Ordering::Relaxed) || leave());
        !self.paused.load(Ordering::SeqCst)
            && matches!(self.state().standing(), Standing::HasWork | Standing::LastOne)
    }

    /// Stops the helpers, and returns when they have left. [`Floor::run`] goes on.
    pub(super) fn pause(&self) {
        let mut state = self.state();
        self.paused.store(true, Ordering::SeqCst);
        while state.helpers != 0 {
            state = self.quiet.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(&self, leave: impl Fn() -> bool) {
        while let Some(mut begun) = self.take() {
            let (progress, stays) = loop {
                let tables = self.with.vm.access();
                let slice = begun.group.run(&self.with.code, &Tables::new(&tables, &self.messages), SLICE);
                drop(tables);
                match slice {
                    Ok((Progress::Running, done)) => begun.spent = begun.spent.saturating_add(done),
                    ended => break (ended.map(|_| ()), true),
                }
                let leaves = leave();
                if leaves || begun.spent >= QUANTUM {
                    break (Ok(()), !leaves);
                }
            };
            // (A group that ended has no waves left to run.)
            self.put(begun, progress);
            if !stays {
                return;
            }
        }
    }

    /// A group to run: one whose quantum is not over, else a new one, else the one that has waited longest.
    fn take(&self) -> Option<Begun> {
        let mut state = self.state();
        if state.trap.is_some() {
            return None;
        }
        let fresh = state.resting.front().is_some_and(|begun| begun.spent < QUANTUM);
        if !fresh && let Some((number, slot, waves)) = state.begin(&self.launch) {
            state.running += 1;
            drop(state);
            let registers = || self.with.spare.take();
            let group = self.launch.start_group(self.with.clock, number, slot, registers);
            return Some(Begun { group, slot, waves, spent: 0 });
        }
        let mut begun = state.resting.pop_front()?;
        state.running += 1;
        if begun.spent >= QUANTUM {
            begun.spent = 0;
        }
        Some(begun)
    }

    fn put(&self, begun: Begun, progress: Result<(), TrapAt>) {
        let mut state = self.state();
        state.running -= 1;
        match progress {
            Err(trap) => {
                state.trap.get_or_insert(trap);
            }
            Ok(()) if begun.group.has_ended() => {
                state.free_slots.push(begun.slot);
                drop(state);
                self.end(begun);
                state = self.state();
            }
            Ok(()) if begun.spent >= QUANTUM => state.resting.push_back(begun),
            Ok(()) => state.resting.push_front(begun),
        }
        if state.standing() == Standing::Done || state.trap.is_some() {
            self.quiet.notify_all();
        }
    }

    fn end(&self, mut begun: Begun) {
        self.with.spare.keep(begun.group.take_registers());
    }
}

impl State {
    fn standing(&self) -> Standing {
        match () {
            () if self.next.is_some() || self.resting.len() > 1 => Standing::HasWork,
            () if self.resting.len() == 1 => Standing::LastOne,
            () if self.running != 0 => Standing::WithHelpers,
            () => Standing::Done,
        }
    }

    /// Number, private memory and waves of the next group, if there is one and it may begin.
    fn begin(&mut self, launch: &Launch) -> Option<([u32; 3], u32, usize)> {
        let number = self.next?;
        let alone = self.resting.is_empty() && self.running == 0;
        let waves = launch.waves() as usize;
        if !alone && WAVES.load(Ordering::Relaxed) + waves > MOST_WAVES {
            return None;
        }
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None if self.slots < launch.private_slots() => {
                self.slots += 1;
                self.slots - 1
            }
            None => return None,
        };
        WAVES.fetch_add(waves, Ordering::Relaxed);
        self.next = launch.after(number);
        Some((number, slot, waves))
    }
}

/// A helper that leaves.
struct Left<'a>(&'a Floor);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.helpers -= 1;
        if state.helpers == 0 {
            self.0.quiet.notify_all();
        }
    }
}
