//! One request to share a range.
//!
//! The stopping and borrowing is done by a thread of its own, made for one conversion: ptrace binds a
//! tracee to one thread, and only the end of that thread lets go of tracees that have not stopped.

use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};

use protocol::Errno;
use protocol::kfd::Shared;

use super::convert;
use super::error::ConvertError;
use super::files::FileKey;
use super::inject::{self, Borrowed};
use super::plan::{Plan, Range};
use super::stop::StopSet;
use super::{Inner, lock};

/// The program can unmap what was just converted, or be in no state to be borrowed; then again.
const ROUNDS: usize = 3;

/// The conversion of a process that goes on while the call that wanted it is being restarted.
#[derive(Default)]
pub struct Running(Option<JoinHandle<()>>);

/// What the converting thread says.
enum Report {
    /// It is over.
    Done(Result<(), ConvertError>),
    /// One of these parked threads has to be let go as far as its stop.
    NeedsThread(Vec<u32>),
}

/// Shares `range`; `caller` is the thread whose call asks for it, if it is a call.
pub fn share(inner: &Arc<Inner>, caller: Option<u32>, range: Range) -> Result<Vec<Shared>, Errno> {
    let task = caller.unwrap_or(inner.pid);
    let mut running = lock(&inner.running);
    if let Some(earlier) = running.0.take() {
        let _ = earlier.join();
    }
    if let Some(errno) = caller.and_then(|tid| take_failure(inner, tid, range)) {
        return Err(errno);
    }
    for _ in 0..ROUNDS {
        let plan = Plan::make(inner, task, range).map_err(|error| report(&error))?;
        if plan.private.is_empty() {
            return Ok(plan.hand_out(inner));
        }
        let (sender, receiver) = channel();
        let session = Session { inner: Arc::clone(inner), caller, range, reports: sender };
        let thread = Builder::new().name("kfd-userptr".into()).spawn(move || session.run());
        let thread = thread.map_err(|_| Errno::ENOMEM)?;
        let Some(result) = wait(inner, caller, &receiver) else {
            running.0 = Some(thread);
            return Err(Errno::ERESTARTSYS);
        };
        let _ = thread.join();
        match result {
            Err(ConvertError::NoThread { .. }) | Ok(()) => {}
            Err(error) => return Err(report(&error)),
        }
    }
    log::warn!("process {} is too busy with its memory at {:#x} to share it", inner.pid, range.addr);
    Err(Errno::EBUSY)
}

/// The result of the conversion, or `None` if the caller's own thread has to go back first.
fn wait(inner: &Inner, caller: Option<u32>, reports: &Receiver<Report>) -> Option<Result<(), ConvertError>> {
    loop {
        match (reports.recv(), caller) {
            (Ok(Report::Done(result)), _) => return Some(result),
            (Ok(Report::NeedsThread(_)), Some(caller)) => {
                inner.parked.release(caller);
                return None;
            }
            (Ok(Report::NeedsThread(parked)), None) => {
                parked.first().into_iter().for_each(|&tid| inner.parked.release(tid));
            }
            (Err(_), _) => return Some(Err(ConvertError::NoThread { pid: inner.pid })),
        }
    }
}

fn report(error: &ConvertError) -> Errno {
    match error {
        ConvertError::Range { .. } | ConvertError::Gone { .. } => log::debug!("{error}"),
        _ => log::warn!("{error}"),
    }
    error.errno()
}

fn take_failure(inner: &Inner, tid: u32, range: Range) -> Option<Errno> {
    let (failed_range, errno) = lock(&inner.notes).failed.remove(&tid)?;
    (failed_range == range).then_some(errno)
}

/// The conversion of one range, on its own thread.
struct Session {
    inner: Arc<Inner>,
    caller: Option<u32>,
    range: Range,
    reports: Sender<Report>,
}

impl Session {
    fn run(self) {
        // The waits for the program are of microseconds; sleeps get 50 us longer otherwise.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let result = StopSet::stop(self.inner.pid, self.inner.parked.as_ref()).and_then(|mut stopped| {
            let mut sent_back = false;
            let result = self.convert(&mut stopped, &mut sent_back);
            if let (true, Err(error), Some(tid)) = (sent_back, &result, self.caller) {
                // Before the thread is let go and comes back with its call: else it would come for ever.
                lock(&self.inner.notes).failed.insert(tid, (self.range, report(error)));
            }
            result
        });
        // Nobody listens any more if the call is being restarted.
        let _ = self.reports.send(Report::Done(result));
    }

    fn convert(&self, stopped: &mut StopSet<'_>, sent_back: &mut bool) -> Result<(), ConvertError> {
        let (inner, pid) = (&*self.inner, self.inner.pid);
        if !inner.memory_lives() {
            return Err(ConvertError::Gone { pid });
        }
        let task = self.caller.unwrap_or(pid);
        let plan = Plan::make(inner, task, self.range)?;
        if plan.private.is_empty() {
            return Ok(());
        }
        let syscall_at = plan.find_syscall(task)?;
        let tid = self.borrow_from(stopped, sent_back)?;
        // Whatever writes to the memory on our side has ended, or begins afterwards.
        let _swap = inner.swap.write().unwrap_or_else(PoisonError::into_inner);
        stopped.forget(tid);
        let mut thread = Borrowed::new(pid, tid, syscall_at)?;
        let converted = convert::convert(&mut thread, &plan.private);
        if let Ok(file) = &converted {
            let key =
                FileKey::of(file.as_ref()).map_err(|errno| ConvertError::Own { what: "fstat", errno })?;
            inner.files.remember(key, file);
            let mut notes = lock(&inner.notes);
            notes.held.insert(key, Arc::clone(file));
            let stack = plan.private.iter().filter(|piece| piece.is_stack);
            notes.stack_parts.extend(stack.map(|piece| piece.region.start));
        }
        thread.give_back()?;
        converted.map(drop)
    }

    /// A stopped thread that can make calls for us; the caller's if there is a choice.
    fn borrow_from(&self, stopped: &mut StopSet<'_>, sent_back: &mut bool) -> Result<u32, ConvertError> {
        let pid = self.inner.pid;
        let caller = stopped.stopped().find(|&tid| Some(tid) == self.caller);
        if let Some(tid) = caller.into_iter().chain(stopped.stopped()).find(|&tid| inject::is_suitable(tid)) {
            return Ok(tid);
        }
        let parked: Vec<u32> = stopped.parked().collect();
        if parked.is_empty() {
            return Err(ConvertError::NoThread { pid });
        }
        *sent_back = true;
        let _ = self.reports.send(Report::NeedsThread(parked));
        let tid = stopped.wait_for_parked()?;
        if inject::is_suitable(tid) { Ok(tid) } else { Err(ConvertError::NoThread { pid }) }
    }
}

impl Inner {
    /// Reading the file of an ended address space gives nothing, where a living one answers `EIO` for the
    /// never mapped address 0 (`mem_rw` in `fs/proc/base.c`).
    fn memory_lives(&self) -> bool {
        self.memory.as_ref().is_none_or(|memory| !matches!(memory.read_at(&mut [0], 0), Ok(0)))
    }
}
