//! Requests that are not answered yet, and the order of their fences.
//!
//! The guest's driver takes a response with a fence as the completion of all earlier fences of the same line (a ring
//! of a context, or the device). So fenced responses of one line leave in the order of their requests, whatever
//! the order in which the work ends; lines do not wait for each other.
//!
//! Every open request occupies slots of the queue. A guest that lets too many fences wait would stall all its
//! contexts: beyond half of the queue, the submissions of the line with the most of them fail early.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::virtio_gpu::structs::CtrlHdr;
use protocol::virtio_gpu::{Failure, Response};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

use super::chain::Room;
use super::ring::Ring;
use super::throttle;

/// The memory of the guest.
pub type Memory = GuestMemoryAtomic<GuestMemoryMmap<()>>;

/// What orders fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// Fences without a ring.
    Device,
    /// A ring of a context. The context has a number of its own here: the guest gives ids again at once.
    Ring {
        /// Number of the context.
        context: u64,
        /// Ring.
        ring: u8,
    },
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Its fence belongs here.
    pub line: Option<Line>,
    /// It may fail before its work is done. Not what lets the guest reuse memory.
    pub may_fail_early: bool,
}

/// The queue can no longer be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest put the chain with head {0} into the queue a second time before it was answered")]
pub struct Repeated(pub u16);

/// All requests of the control queue that are not answered yet.
pub struct Answers {
    memory: Memory,
    inner: Mutex<Inner>,
    idle: Condvar,
}

#[derive(Default)]
struct Inner {
    /// Where answers go; known from the first kick on.
    ring: Option<Ring>,
    pending: HashMap<u64, Pending>,
    lines: HashMap<Line, VecDeque<u64>>,
    heads: HashSet<u16>,
    /// Pending requests that may fail early.
    early: usize,
    next: u64,
}

struct Pending {
    room: Room,
    header: CtrlHdr,
    terms: Terms,
    /// Known, but others of its line come first.
    response: Option<Response>,
}

impl Answers {
    pub(super) fn new(memory: Memory) -> Answers {
        Answers { memory, inner: Mutex::default(), idle: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue that answers go to.
    pub(super) fn serve(&self, ring: &Ring) {
        self.lock().ring.get_or_insert_with(|| ring.clone());
    }

    /// Takes a request in.
    pub(super) fn open(
        self: &Arc<Answers>,
        room: Room,
        header: CtrlHdr,
        terms: Terms,
    ) -> Result<Answer, Repeated> {
        let mut inner = self.lock();
        if !inner.heads.insert(room.head) {
            return Err(Repeated(room.head));
        }
        let ticket = inner.next;
        inner.next += 1;
        if let Some(line) = terms.line {
            inner.lines.entry(line).or_default().push_back(ticket);
        }
        inner.early += usize::from(terms.may_fail_early);
        inner.pending.insert(ticket, Pending { room, header, terms, response: None });
        if inner.early > inner.cap() {
            self.fail_longest(&mut inner);
        }
        Ok(Answer { answers: Arc::clone(self), ticket: Some(ticket) })
    }

    /// Gives a chain back that is no request, or has no room for an answer: with nothing written.
    pub(super) fn give_back(&self, head: u16) -> Result<(), Repeated> {
        let mut inner = self.lock();
        if inner.heads.contains(&head) {
            return Err(Repeated(head));
        }
        inner.used(head, 0);
        Ok(())
    }

    /// How many requests are open.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.lock().pending.len()
    }

    /// Waits until no request is open. Says every few seconds what it waits for.
    pub(super) fn wait_until_idle(&self) {
        let mut inner = self.lock();
        while !inner.pending.is_empty() {
            let (guard, timeout) =
                self.idle.wait_timeout(inner, Duration::from_secs(5)).unwrap_or_else(PoisonError::into_inner);
            inner = guard;
            if timeout.timed_out() {
                log::warn!("still waiting for {} requests to end", inner.pending.len());
            }
        }
    }

    fn finish(&self, ticket: u64, response: Response) {
        let mut inner = self.lock();
        // It failed early.
        let Some(pending) = inner.pending.get_mut(&ticket) else { return };
        pending.response = Some(response);
        match pending.terms.line {
            None => self.send(&mut inner, ticket),
            Some(line) => self.advance(&mut inner, line),
        }
    }

    /// Sends what is known at the front of a line.
    fn advance(&self, inner: &mut Inner, line: Line) {
        while let Some(ticket) = inner.lines.get(&line).and_then(|line| line.front().copied()) {
            if inner.pending.get(&ticket).is_some_and(|pending| pending.response.is_none()) {
                return;
            }
            if let Some(line) = inner.lines.get_mut(&line) {
                line.pop_front();
            }
            self.send(inner, ticket);
        }
        inner.lines.remove(&line);
    }

    /// The line with the most submissions loses them, up to the first request that cannot fail early.
    fn fail_longest(&self, inner: &mut Inner) {
        let Some((line, waiting)) = inner.lines.iter().max_by_key(|(_, waiting)| waiting.len()) else {
            return;
        };
        let line = *line;
        throttle::warn(format_args!(
            "{} submissions wait, more than half of the queue: the {} of {line:?} fail",
            inner.early,
            waiting.len()
        ));
        let tickets: Vec<u64> = waiting.iter().copied().collect();
        for ticket in tickets {
            let Some(pending) = inner.pending.get_mut(&ticket) else { continue };
            if !pending.terms.may_fail_early {
                break;
            }
            pending.response.get_or_insert(Response::Failed(Failure::OutOfMemory));
        }
        self.advance(inner, line);
    }

    /// Puts an answer into the queue.
    fn send(&self, inner: &mut Inner, ticket: u64) {
        let Some(pending) = inner.pending.remove(&ticket) else { return };
        inner.early -= usize::from(pending.terms.may_fail_early);
        inner.heads.remove(&pending.room.head);
        let response = pending.response.unwrap_or(Response::Failed(Failure::Unspecified));
        let mut bytes = response.encode(&pending.header);
        if bytes.len() as u64 > pending.room.len() {
            bytes = Response::Failed(Failure::InvalidParameter).encode(&pending.header);
        }
        let written = pending.room.write(&self.memory.memory(), &bytes).unwrap_or_else(|error| {
            throttle::warn(format_args!("a response is lost, its memory is gone: {error}"));
            0
        });
        inner.used(pending.room.head, written);
        if inner.pending.is_empty() {
            self.idle.notify_all();
        }
    }
}

impl Inner {
    /// Submissions that may wait: half of the queue. Few chains are longer than two descriptors, and those of
    /// Linux are in indirect tables.
    fn cap(&self) -> usize {
        usize::from(self.ring.as_ref().map_or(0, Ring::size)) / 2
    }

    /// Puts a chain into the used ring.
    fn used(&mut self, head: u16, written: u32) {
        let Some(ring) = &self.ring else { return };
        if let Err(error) = ring.give_back(head, written) {
            throttle::warn(format_args!("the chain with head {head} is lost: {error}"));
        }
    }
}

/// The duty to answer one request. Dropping it fails the request.
pub struct Answer {
    answers: Arc<Answers>,
    ticket: Option<u64>,
}

impl Answer {
    /// The work is done, or it failed.
    pub fn complete(self, result: Result<(), Failure>) {
        self.send(result.map_or_else(Response::Failed, |()| Response::Ok));
    }

    pub(super) fn send(mut self, response: Response) {
        if let Some(ticket) = self.ticket.take() {
            self.answers.finish(ticket, response);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.answers.finish(ticket, Response::Failed(Failure::Unspecified));
        }
    }
}
