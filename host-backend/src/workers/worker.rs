//! One worker, as the device process knows it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use protocol::virtio_gpu::Failure;
use rustix::io::Errno;
use softgpu::seqpacket;

use super::keeper::Handle;
use super::mailbox::Mailbox;
use super::supply::Share;
use super::{Bounds, Metrics};
use crate::device::{Answer, BlobUse, Hold, Submission, throttle};
use crate::link::FromWorker;

/// Messages of a worker that are taken at a time: other workers have their turn then.
const TURN: usize = 64;

/// Pause before a descriptor is sent again, where the kernel has too many of them under way.
const PAUSE: Duration = Duration::from_millis(10);

/// A worker. Used by the queue's thread and by the keeper.
pub(super) struct Worker {
    pub(super) number: u64,
    /// For the log.
    pub(super) name: String,
    bounds: Bounds,
    metrics: Arc<Metrics>,
    keeper: Handle,
    socket: OwnedFd,
    state: Mutex<State>,
}

/// How far a worker's life is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It gets what the guest sends.
    Serving,
    /// Its context ends; it has time until then.
    Ending(Instant),
    /// It is not spoken to any more: it ended, or must be killed.
    Dead,
    /// Its process is gone.
    Gone,
}

struct State {
    phase: Phase,
    /// It must be ready by then; `None` when it is.
    ready_by: Option<Instant>,
    mailbox: Mailbox,
    /// When the mailbox is to be sent again.
    retry: Option<Instant>,
    /// Attachments by the blob's id.
    attached: HashMap<u32, u64>,
    submitted: HashMap<u64, Answer>,
    next: u64,
    /// Memory that it was granted; given back when the process is gone.
    share: Option<Share>,
    /// Dropped when the process is gone.
    done: Option<Hold>,
}

/// Whether more messages may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Yes.
    More,
    /// Not now.
    Nothing,
    /// No more will come.
    Closed,
}

impl Worker {
    /// A worker whose process is not started yet, and its end of the socket. It can be sent messages at once.
    pub(super) fn new(
        number: u64,
        name: String,
        bounds: Bounds,
        metrics: Arc<Metrics>,
        share: Share,
        keeper: Handle,
    ) -> io::Result<(Worker, OwnedFd)> {
        let (socket, theirs) = seqpacket::pair()?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        keeper.watch(number, &socket)?;
        Metrics::count(&metrics.contexts);
        let state = State {
            phase: Phase::Serving,
            ready_by: Some(Instant::now() + bounds.start),
            mailbox: Mailbox::default(),
            retry: None,
            attached: HashMap::new(),
            submitted: HashMap::new(),
            next: 0,
            share: Some(share),
            done: None,
        };
        Ok((Worker { number, name, bounds, metrics, keeper, socket, state: Mutex::new(state) }, theirs))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The context gets a blob.
    pub(super) fn attach(&self, blob: BlobUse) -> Result<(), Failure> {
        let mut state = self.lock();
        if state.phase != Phase::Serving {
            return Err(Failure::Unspecified);
        }
        let (attachments, pieces) = state.mailbox.in_use();
        let all = self.metrics.pieces.load(Ordering::Relaxed).saturating_add(pieces_of(&blob));
        let room = self.bounds.pieces.saturating_sub(pieces);
        if attachments >= self.bounds.attachments
            || blob.blob().pieces().len() > room
            || all > self.bounds.all_pieces
        {
            return Err(Failure::OutOfMemory);
        }
        self.metrics.pieces.fetch_add(pieces_of(&blob), Ordering::Relaxed);
        let attachment = state.number();
        state.attached.insert(blob.blob().id(), attachment);
        state.mailbox.attach(attachment, blob);
        Metrics::count(&self.metrics.attachments);
        self.send(&mut state);
        Ok(())
    }

    /// The context loses a blob.
    pub(super) fn detach(&self, id: u32) {
        let mut state = self.lock();
        if let Some(attachment) = state.attached.remove(&id)
            && state.phase == Phase::Serving
        {
            state.mailbox.detach(attachment);
            self.send(&mut state);
        }
    }

    /// Work for the context.
    pub(super) fn submit(&self, submission: Submission<'_>) {
        Metrics::count(&self.metrics.submissions);
        let Submission { ring, bytes, answer } = submission;
        let mut state = self.lock();
        match self.may_submit(&state, bytes.len()) {
            Ok(()) => {
                let ticket = state.number();
                state.submitted.insert(ticket, answer);
                state.mailbox.submit(ticket, ring, bytes);
                self.send(&mut state);
            }
            Err((failure, why)) => {
                drop(state);
                Metrics::count(&self.metrics.failures);
                throttle::warn(format_args!("{}: a submission fails: {why}", self.name));
                answer.complete(Err(failure));
            }
        }
    }

    fn may_submit(&self, state: &State, len: usize) -> Result<(), (Failure, &'static str)> {
        if state.phase != Phase::Serving {
            return Err((Failure::Unspecified, "its worker has ended"));
        }
        if state.submitted.len() >= self.bounds.submissions {
            return Err((Failure::OutOfMemory, "too many are open"));
        }
        if len > self.bounds.waiting_bytes.saturating_sub(state.mailbox.waiting_bytes()) {
            return Err((Failure::OutOfMemory, "its worker does not take them fast enough"));
        }
        Ok(())
    }

    /// The context ends. `done` is dropped when the process is gone.
    pub(super) fn end(&self, done: Option<Hold>) {
        let mut state = self.lock();
        if state.phase == Phase::Serving {
            state.phase = Phase::Ending(Instant::now() + self.bounds.end);
            state.mailbox.end();
            self.send(&mut state);
            // For the deadline.
            self.keeper.wake();
        }
        if state.phase == Phase::Gone {
            drop(state);
            drop(done);
        } else if done.is_some() {
            state.done = done;
        }
    }

    /// Sends what the socket has room for. The keeper sends the rest.
    fn send(&self, state: &mut State) {
        let Err(error) = state.mailbox.send(self.socket()) else { return };
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => self.keeper.wait_for_room(self.number, self.socket()),
            Some(Errno::TOOMANYREFS) => {
                state.retry = Some(Instant::now() + PAUSE);
                self.keeper.wake();
            }
            // The keeper sees its end.
            Some(Errno::PIPE | Errno::CONNRESET) => state.mailbox.stop(),
            _ => {
                // A message is missing: nothing after it would make sense.
                self.give_up(state, &error);
                self.keeper.wake();
            }
        }
    }

    /// The worker is not spoken to any more, and the keeper kills it.
    fn give_up(&self, state: &mut State, why: &dyn std::fmt::Display) {
        if !matches!(state.phase, Phase::Dead | Phase::Gone) {
            log::warn!("{}: its worker is ended: {why}", self.name);
            state.phase = Phase::Dead;
            state.mailbox.stop();
        }
    }

    /// The socket has room again.
    pub(super) fn send_rest(&self) {
        let mut state = self.lock();
        self.keeper.no_room_needed(self.number, self.socket());
        self.send(&mut state);
    }

    /// Takes messages of the worker.
    pub(super) fn receive(&self) -> Received {
        for _ in 0..TURN {
            let received = match FromWorker::receive(&self.socket) {
                Ok(Some(message)) => self.take(message),
                Ok(None) => return Received::Closed,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Received::Nothing,
                    io::ErrorKind::Interrupted => Ok(()),
                    io::ErrorKind::ConnectionReset => return Received::Closed,
                    _ => Err(error.to_string()),
                },
            };
            if let Err(why) = received {
                self.fail(&why);
                return Received::Closed;
            }
        }
        Received::More
    }

    fn take(&self, message: FromWorker) -> Result<(), String> {
        let mut state = self.lock();
        match message {
            FromWorker::Ready => match state.ready_by.take() {
                Some(_) => log::debug!("{}: its worker is ready", self.name),
                None => return Err("it was ready twice".to_owned()),
            },
            FromWorker::Failed { why } => return Err(format!("it failed: {}", why.escape_debug())),
            FromWorker::Done { ticket, ok } => {
                let answer = state.submitted.remove(&ticket);
                drop(state);
                let answer = answer.ok_or("it answered a submission that is not open")?;
                if !ok {
                    Metrics::count(&self.metrics.failures);
                    throttle::warn(format_args!("{}: a submission failed", self.name));
                }
                answer.complete(if ok { Ok(()) } else { Err(Failure::Unspecified) });
            }
            FromWorker::Released { attachment } => {
                let blob = state.mailbox.released(attachment);
                self.send(&mut state);
                drop(state);
                self.give_back(blob.ok_or("it released a blob that was not taken from it")?);
            }
            FromWorker::Ask { stock, bytes } => {
                let Some(share) = &mut state.share else { return Ok(()) };
                let (granted, left) = share.ask(stock, bytes).map_err(|wrong| wrong.to_string())?;
                if !state.mailbox.grant(granted, left) {
                    return Err("it asks for memory again before it took the answer".to_owned());
                }
                self.send(&mut state);
            }
            FromWorker::GiveBack { stock, bytes } => {
                let given = state.share.as_mut().map(|share| share.give_back(stock, bytes));
                given.unwrap_or(Ok(())).map_err(|wrong| wrong.to_string())?;
            }
        }
        Ok(())
    }

    /// The worker is not spoken to any more. Its submissions fail; its blobs stay in use until it is gone.
    pub(super) fn fail(&self, why: &dyn std::fmt::Display) {
        let mut state = self.lock();
        self.give_up(&mut state, why);
        let answers = std::mem::take(&mut state.submitted);
        drop(state);
        self.fail_all(answers);
    }

    fn fail_all(&self, answers: HashMap<u64, Answer>) {
        for answer in answers.into_values() {
            Metrics::count(&self.metrics.failures);
            answer.complete(Err(Failure::Unspecified));
        }
    }

    /// The worker closed its end, or said something impossible. Whether it may end by itself: its context has ended.
    pub(super) fn closed(&self) -> bool {
        let ending = matches!(self.lock().phase, Phase::Ending(_));
        if !ending {
            self.fail(&"it closed its socket");
        }
        ending
    }

    /// Does what is due, and says when the next thing is.
    pub(super) fn look(&self, now: Instant) -> Due {
        let mut state = self.lock();
        if state.retry.is_some_and(|at| at <= now) {
            state.retry = None;
            self.send(&mut state);
        }
        let (by, why) = match state.phase {
            Phase::Serving => (state.ready_by, "it does not start"),
            Phase::Ending(by) => (Some(by), "its context ended, and it does not"),
            Phase::Dead | Phase::Gone => {
                let answers = std::mem::take(&mut state.submitted);
                drop(state);
                self.fail_all(answers);
                return Due::Kill;
            }
        };
        if by.is_some_and(|by| by <= now) {
            drop(state);
            self.fail(&why);
            return Due::Kill;
        }
        Due::At([by, state.retry].into_iter().flatten().min())
    }

    /// The process is gone, or there never was one: everything is given back.
    pub(super) fn gone(&self, how: &Gone) {
        let mut state = self.lock();
        let orderly = matches!(state.phase, Phase::Ending(_)) && how.orderly();
        state.phase = Phase::Gone;
        let answers = std::mem::take(&mut state.submitted);
        let blobs = state.mailbox.empty();
        let (done, share) = (state.done.take(), state.share.take());
        drop(state);
        drop(share);
        if orderly {
            log::debug!("{}: its worker has ended", self.name);
        } else {
            log::warn!("{}: its worker is gone: {how}", self.name);
            Metrics::count(&self.metrics.deaths);
        }
        Metrics::count(&self.metrics.gone);
        self.fail_all(answers);
        for attachment in blobs.into_values() {
            self.give_back(attachment.blob);
        }
        drop(done);
    }

    /// Nobody reaches the blob from here any more.
    fn give_back(&self, blob: BlobUse) {
        self.metrics.pieces.fetch_sub(pieces_of(&blob), Ordering::Relaxed);
        drop(blob);
    }
}

fn pieces_of(blob: &BlobUse) -> u64 {
    blob.blob().pieces().len() as u64
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// What the keeper is to do about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Kill it.
    Kill,
    /// Look again then, if at all.
    At(Option<Instant>),
}

/// How a worker went.
pub(super) enum Gone {
    /// There was no process.
    NeverStarted(io::Error),
    /// It ended. The kernel does not always say how.
    Ended(Option<ExitStatus>),
}

impl Gone {
    fn orderly(&self) -> bool {
        matches!(self, Gone::Ended(status) if status.is_none_or(|status| status.success()))
    }
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Gone::NeverStarted(error) => write!(f, "it cannot be started: {error}"),
            Gone::Ended(Some(status)) => status.fmt(f),
            Gone::Ended(None) => f.write_str("it ended"),
        }
    }
}
