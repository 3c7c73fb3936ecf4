//! A device without a driver: blobs are memory files, and a worker of the test's own, in a thread, answers calls as
//! `protocol::wire` has it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use protocol::Errno;
use protocol::kfd::Mapping;
use protocol::wire::area::{self, slot, slot_place, state, word};
use protocol::wire::{Answer, Command, Request, Submission as Message};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::device::{Device, GuestBlob, Submission};
use super::view::View;

/// What the test's worker answers: the errno of a command that it does not execute, or the bytes of an answer. `None` if the call
/// waits, to be answered by [`FakeDevice::finish`].
pub(super) type Serve = Box<dyn Fn(u32, &Request<'_>) -> Option<Result<Vec<u8>, Errno>> + Send + Sync>;

/// The device, and what its worker knows.
pub(super) struct FakeDevice {
    shared: Arc<Shared>,
}

struct Shared {
    blobs: Mutex<BTreeMap<u32, Arc<View>>>,
    next: AtomicU32,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    serve: Serve,
    /// How long the worker looks for calls before it sleeps.
    stays_awake: AtomicBool,
    kicks: AtomicUsize,
    wakes: AtomicUsize,
}

#[derive(Default)]
struct Inbox {
    area: Option<u32>,
    more: Vec<u32>,
    kicked: bool,
    held: Option<(u32, OwnedFd)>,
    waiting: VecDeque<u32>,
    finished: Vec<(u32, Result<Vec<u8>, Errno>)>,
    gone: bool,
}

/// The `blob_id` of this device's window.
pub(super) const WINDOW_BLOB: u64 = 5;

struct FakeBlob {
    shared: Arc<Shared>,
    resource: u32,
    fd: Arc<OwnedFd>,
    size: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeDevice {
    /// A device whose worker answers so.
    pub(super) fn new(serve: Serve) -> Arc<Self> {
        let shared = Arc::new(Shared {
            blobs: Mutex::default(),
            next: AtomicU32::new(1),
            inbox: Mutex::default(),
            changed: Condvar::new(),
            serve,
            stays_awake: AtomicBool::new(false),
            kicks: AtomicUsize::new(0),
            wakes: AtomicUsize::new(0),
        });
        let worker = Arc::clone(&shared);
        thread::Builder::new().name("fake-worker".into()).spawn(move || worker.run()).unwrap();
        Arc::new(Self { shared })
    }

    /// Answers a call that waits.
    pub(super) fn finish(&self, slot: u32, answer: Result<Vec<u8>, Errno>) {
        let mut inbox = lock(&self.shared.inbox);
        inbox.waiting.retain(|&other| other != slot);
        inbox.finished.push((slot, answer));
        self.shared.changed.notify_all();
    }

    /// Slots of calls that wait, in order, once there are so many.
    pub(super) fn waiting(&self, count: usize) -> Vec<u32> {
        let mut inbox = lock(&self.shared.inbox);
        while inbox.waiting.len() < count {
            let deadline = Duration::from_secs(20);
            let (next, late) = self.shared.changed.wait_timeout(inbox, deadline).unwrap();
            inbox = next;
            assert!(!late.timed_out(), "{} of {count} calls wait", inbox.waiting.len());
        }
        inbox.waiting.iter().copied().collect()
    }

    /// Ends the worker. Fences signal at once from now on, as those of a device whose worker is gone.
    pub(super) fn kill_worker(&self) {
        let mut inbox = lock(&self.shared.inbox);
        inbox.gone = true;
        signal(inbox.held.take());
        self.shared.changed.notify_all();
    }

    /// EXECBUFFERs so far: to wake the worker, and for fences.
    pub(super) fn submissions(&self) -> (usize, usize) {
        (self.shared.kicks.load(Ordering::SeqCst), self.shared.wakes.load(Ordering::SeqCst))
    }

    /// The worker never sleeps.
    pub(super) fn stay_awake(&self) {
        self.shared.stays_awake.store(true, Ordering::SeqCst);
    }

    /// Blobs that are alive.
    pub(super) fn blobs(&self) -> usize {
        lock(&self.shared.blobs).len()
    }
}

impl Drop for FakeDevice {
    fn drop(&mut self) {
        self.kill_worker();
    }
}

fn signal(held: Option<(u32, OwnedFd)>) {
    // The other end of a pipe becomes readable (hung up) when this one is closed.
    drop(held);
}

impl Device for FakeDevice {
    fn init_context(&self, rings: u32) -> Result<(), Errno> {
        if rings <= 64 { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn create_blob(&self, size: u64) -> Result<Box<dyn GuestBlob>, Errno> {
        let fd = memfd_create("blob", MemfdFlags::CLOEXEC).map_err(crate::errno_of)?;
        let size = size.next_multiple_of(4096);
        ftruncate(&fd, size).map_err(crate::errno_of)?;
        let fd = Arc::new(fd);
        let resource = self.shared.next.fetch_add(1, Ordering::SeqCst);
        let mapping = Mapping { fd: Arc::clone(&fd), offset: 0, len: size, writable: true };
        lock(&self.shared.blobs).insert(resource, Arc::new(View::new(&mapping)?));
        Ok(Box::new(FakeBlob { shared: Arc::clone(&self.shared), resource, fd, size }))
    }

    fn create_host_blob(&self, size: u64, blob_id: u64) -> Result<Box<dyn GuestBlob>, Errno> {
        // As a driver whose window is full.
        if blob_id == WINDOW_BLOB { self.create_blob(size) } else { Err(Errno::ENOSPC) }
    }

    fn submit(&self, submission: Submission<'_>) -> Result<(), Errno> {
        let mut inbox = lock(&self.shared.inbox);
        match Message::decode(submission.bytes).unwrap() {
            Message::Setup { resource } => inbox.area = Some(resource),
            Message::Kick => {
                self.shared.kicks.fetch_add(1, Ordering::SeqCst);
                inbox.kicked = true;
            }
            Message::Wake { .. } => panic!("a Wake needs a fence"),
        }
        self.shared.changed.notify_all();
        Ok(())
    }

    fn submit_with_fence(&self, submission: Submission<'_>) -> Result<OwnedFd, Errno> {
        let Message::Wake { seen } = Message::decode(submission.bytes).unwrap() else { panic!("no Wake") };
        self.shared.wakes.fetch_add(1, Ordering::SeqCst);
        let (fence, held) = rustix::pipe::pipe().unwrap();
        let mut inbox = lock(&self.shared.inbox);
        let now = self.shared.area(&inbox).word(word::WAKES).unwrap().load(Ordering::SeqCst);
        if inbox.gone || now != seen {
            signal(Some((seen, held)));
        } else {
            let before = inbox.held.replace((seen, held));
            assert!(before.is_none(), "one Wake at a time");
        }
        Ok(fence)
    }

    fn abandon(&self) {}
}

impl GuestBlob for FakeBlob {
    fn resource(&self) -> u32 {
        self.resource
    }

    fn mapping(&self) -> Result<Mapping, Errno> {
        Ok(Mapping { fd: Arc::clone(&self.fd), offset: 0, len: self.size, writable: true })
    }
}

impl Drop for FakeBlob {
    fn drop(&mut self) {
        lock(&self.shared.blobs).remove(&self.resource);
    }
}

impl Shared {
    fn blob(&self, resource: u32) -> Arc<View> {
        Arc::clone(&lock(&self.blobs)[&resource])
    }

    fn area(&self, inbox: &Inbox) -> Arc<View> {
        self.blob(inbox.area.expect("Setup comes first"))
    }

    fn run(&self) {
        let mut taken = 0_u32;
        let mut inbox = lock(&self.inbox);
        loop {
            if inbox.gone {
                return;
            }
            for (slot, answer) in std::mem::take(&mut inbox.finished) {
                self.complete(&mut inbox, slot, answer);
            }
            if inbox.area.is_some() {
                let area = self.area(&inbox);
                let submitted = area.word(word::SUBMITTED).unwrap();
                let asleep = area.word(word::ASLEEP).unwrap();
                while taken != submitted.load(Ordering::SeqCst) {
                    let number = area.word(area::queue_place(taken)).unwrap().load(Ordering::Acquire);
                    taken = taken.wrapping_add(1);
                    self.execute(&mut inbox, number);
                }
                if self.stays_awake.load(Ordering::SeqCst) {
                    drop(inbox);
                    thread::yield_now();
                    inbox = lock(&self.inbox);
                    continue;
                }
                asleep.store(1, Ordering::SeqCst);
                if taken != submitted.load(Ordering::SeqCst) {
                    asleep.store(0, Ordering::SeqCst);
                    continue;
                }
                while !inbox.kicked && !inbox.gone && inbox.finished.is_empty() {
                    inbox = self.changed.wait(inbox).unwrap();
                }
                inbox.kicked = false;
                asleep.store(0, Ordering::SeqCst);
            } else {
                inbox = self.changed.wait(inbox).unwrap();
            }
        }
    }

    fn slot(&self, inbox: &Inbox, number: u32) -> (Arc<View>, usize) {
        let (place, start) = slot_place(number).unwrap();
        let resource = if place == 0 { inbox.area.unwrap() } else { inbox.more[place as usize - 1] };
        (self.blob(resource), start)
    }

    fn execute(&self, inbox: &mut Inbox, number: u32) {
        let (view, start) = self.slot(inbox, number);
        let word = |offset| view.word(start + offset).unwrap().load(Ordering::SeqCst);
        assert_eq!(word(slot::STATE), state::SUBMITTED);
        let (command, len, payload) = (word(slot::COMMAND), word(slot::REQUEST_LEN), word(slot::PAYLOAD));
        let mut bytes = vec![0; len as usize];
        let read = match payload {
            0 => view.read(start + area::SLOT_HEADER, &mut bytes),
            payload => self.blob(payload).read(0, &mut bytes),
        };
        assert!(read);
        let request = Request::decode(command, &bytes).unwrap();
        if let Request::AddSlots { resource } = request {
            inbox.more.push(resource);
            return self.complete(inbox, number, Ok(Vec::new()));
        }
        match (self.serve)(number, &request) {
            Some(answer) => self.complete(inbox, number, answer),
            None => {
                inbox.waiting.push_back(number);
                self.changed.notify_all();
            }
        }
    }

    fn complete(&self, inbox: &mut Inbox, number: u32, answer: Result<Vec<u8>, Errno>) {
        let (view, start) = self.slot(inbox, number);
        let word = |offset| view.word(start + offset).unwrap();
        let (status, answer) = match answer {
            Ok(answer) => (0, answer),
            Err(errno) => (errno.raw().unsigned_abs(), Vec::new()),
        };
        let written = match word(slot::PAYLOAD).load(Ordering::SeqCst) {
            0 => view.write(start + area::SLOT_HEADER, &answer),
            payload => self.blob(payload).write(0, &answer),
        };
        assert!(written);
        word(slot::STATUS).store(status, Ordering::SeqCst);
        word(slot::ANSWER_LEN).store(answer.len() as u32, Ordering::SeqCst);
        word(slot::STATE).store(state::DONE, Ordering::SeqCst);
        let area = self.area(inbox);
        if word(slot::SLEEPS).load(Ordering::SeqCst) != 0 {
            area.word(word::WAKES).unwrap().fetch_add(1, Ordering::SeqCst);
            signal(inbox.held.take());
        }
    }
}

/// An answer as bytes.
pub(super) fn encoded(answer: &Answer<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    bytes
}

/// A worker that answers every call whose answer is nothing, and OPEN with a number.
pub(super) fn obliging(request: &Request<'_>) -> Option<Result<Vec<u8>, Errno>> {
    match request.command() {
        Command::Open => Some(Ok(encoded(&Answer::Open(protocol::kfd::FileId(7))))),
        Command::Close
        | Command::Alias
        | Command::Unalias
        | Command::Doorbells
        | Command::Cancel
        | Command::Place => Some(Ok(Vec::new())),
        _ => None,
    }
}
