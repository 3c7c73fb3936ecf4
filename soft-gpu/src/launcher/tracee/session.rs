//! One request to share a range, or to make private again what is not used any more.
//!
//! The stopping and borrowing is done by a thread of its own, made for one conversion: ptrace binds a
//! tracee to one thread, and only the end of that thread lets go of tracees that have not stopped.

use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};

use protocol::Errno;
use protocol::kfd::Shared;

use super::convert::{self, Piece};
use super::error::ConvertError;
use super::files::FileKey;
use super::inject::{self, Borrowed};
use super::plan::{Plan, Range};
use super::release;
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
        let session = Session { inner: Arc::clone(inner), caller, job: Job::Share(range), reports: sender };
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

/// Where a range is, if all of it is shared already; `ENODATA` if not.
pub fn shared(inner: &Arc<Inner>, task: u32, addr: u64, len: u64) -> Result<Vec<Shared>, Errno> {
    let plan =
        Plan::make(inner, task, Range { addr, len, writable: false }).map_err(|error| error.errno())?;
    if plan.private.is_empty() { Ok(plan.hand_out(inner)) } else { Err(Errno::ENODATA) }
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

/// Makes private again what the device has let go, for the call of `caller`, which was carried out. Memory for which
/// that fails stays shared.
pub fn release(inner: &Arc<Inner>, caller: u32) {
    let mut running = lock(&inner.running);
    if let Some(earlier) = running.0.take() {
        let _ = earlier.join();
    }
    if !lock(&inner.notes).any_released() {
        return;
    }
    let (sender, receiver) = channel();
    let session =
        Session { inner: Arc::clone(inner), caller: Some(caller), job: Job::Release, reports: sender };
    let Ok(thread) = Builder::new().name("kfd-userptr".into()).spawn(move || session.run()) else { return };
    match receiver.recv() {
        // The answer to the call lets it go as far as its stop.
        Ok(Report::NeedsThread(_)) => running.0 = Some(thread),
        Ok(Report::Done(_)) | Err(_) => drop(thread.join()),
    }
}

/// What a session is for.
#[derive(Clone, Copy)]
enum Job {
    /// To share a range.
    Share(Range),
    /// To make private what the device has let go.
    Release,
}

/// One stop of the program, on its own thread.
struct Session {
    inner: Arc<Inner>,
    caller: Option<u32>,
    job: Job,
    reports: Sender<Report>,
}

impl Session {
    fn run(self) {
        // The waits for the program are of microseconds; sleeps get 50 us longer otherwise.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let result = StopSet::stop(self.inner.pid, self.inner.parked.as_ref()).and_then(|mut stopped| {
            let mut sent_back = false;
            let result = self.convert(&mut stopped, &mut sent_back);
            match (self.job, &result, self.caller) {
                // Before the thread is let go and comes back with its call: else it would come for ever.
                (Job::Share(range), Err(error), Some(tid)) if sent_back => {
                    lock(&self.inner.notes).failed.insert(tid, (range, report(error)));
                }
                (Job::Release, Err(error), _) => log::info!("memory stays shared: {error}"),
                _ => {}
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
        let plan = match self.job {
            Job::Share(range) => Plan::make(inner, task, range)?,
            Job::Release => Plan::released(inner, task)?,
        };
        let nothing_to_do = match self.job {
            Job::Share(_) => plan.private.is_empty(),
            Job::Release => plan.shared.is_empty(),
        };
        if nothing_to_do {
            return Ok(());
        }
        let syscall_at = plan.find_syscall(task)?;
        let tid = self.borrow_from(stopped, sent_back)?;
        // Whatever writes to the memory on our side has ended, or begins afterwards.
        let _swap = inner.swap.write().unwrap_or_else(PoisonError::into_inner);
        stopped.forget(tid);
        let mut thread = Borrowed::new(pid, tid, syscall_at)?;
        let done = match self.job {
            Job::Share(_) => self.replace(&mut thread, &plan.private),
            Job::Release => release::release(&mut thread, &plan.shared).map(|()| plan.forget_released(inner)),
        };
        // Before the thread goes on: what it does next must not find a file that only the plan still holds.
        drop(plan);
        thread.give_back()?;
        done
    }

    fn replace(&self, thread: &mut Borrowed, private: &[Piece]) -> Result<(), ConvertError> {
        let file = convert::convert(thread, private)?;
        let key = FileKey::of(file.as_ref()).map_err(|errno| ConvertError::Own { what: "fstat", errno })?;
        self.inner.files.remember(key, &file);
        let mut notes = lock(&self.inner.notes);
        notes.converted.insert(key);
        notes.held.insert(key, file);
        let stack = private.iter().filter(|piece| piece.is_stack);
        notes.stack_parts.extend(stack.map(|piece| piece.region.start));
        Ok(())
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
