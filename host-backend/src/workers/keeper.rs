//! The thread that looks after all workers.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::output::Output;
use super::process::{self, Process, Program};
use super::worker::{Due, Gone, Received, Worker};

/// Turns that a worker's last messages get after its end.
const LAST_TURNS: usize = 16;

/// What an event is about: the lowest bits of its data. The others are the worker's number.
const SOCKET: u64 = 0;
const PROCESS: u64 = 1;
const OUTPUT: u64 = 2;
const KINDS: u64 = 4;

/// Data of the event that wakes the keeper. No worker has the number 0.
const WAKE: u64 = 0;

/// What other threads have of the keeper.
#[derive(Clone)]
pub(super) struct Handle(Arc<Shared>);

struct Shared {
    epoll: OwnedFd,
    wake: OwnedFd,
    /// Workers whose processes are to be started, with their ends of the sockets.
    adopted: Mutex<Vec<(Arc<Worker>, OwnedFd)>>,
    ended: AtomicBool,
}

impl Handle {
    /// Makes the keeper look at all workers.
    pub(super) fn wake(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }

    fn add(&self, number: u64, kind: u64, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.0.epoll, fd, EventData::new_u64(number * KINDS + kind), EventFlags::IN)?)
    }

    /// Looks after a worker's socket.
    pub(super) fn watch(&self, number: u64, socket: &OwnedFd) -> io::Result<()> {
        self.add(number, SOCKET, socket)
    }

    /// The worker's rest is sent when its socket has room.
    pub(super) fn wait_for_room(&self, number: u64, socket: BorrowedFd<'_>) {
        self.change(number, socket, EventFlags::IN | EventFlags::OUT);
    }

    /// Nothing is to be sent.
    pub(super) fn no_room_needed(&self, number: u64, socket: BorrowedFd<'_>) {
        self.change(number, socket, EventFlags::IN);
    }

    fn leave(&self, fd: BorrowedFd<'_>) {
        if let Err(error) = epoll::delete(&self.0.epoll, fd) {
            log::error!("a bug: a worker's descriptor was not looked after: {error}");
        }
    }

    fn change(&self, number: u64, socket: BorrowedFd<'_>, events: EventFlags) {
        let data = EventData::new_u64(number * KINDS + SOCKET);
        // A socket that the keeper has left alone belongs to a worker that has ended.
        if let Err(error) = epoll::modify(&self.0.epoll, socket, data, events) {
            log::debug!("worker {number}: {error}");
        }
    }
}

/// The thread. Dropping it ends all workers first.
pub(super) struct Keeper {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(program: Program) -> io::Result<Keeper> {
        let shared = Shared {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            adopted: Mutex::default(),
            ended: AtomicBool::new(false),
        };
        epoll::add(&shared.epoll, &shared.wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let handle = Handle(Arc::new(shared));
        let kept = Kept { handle: handle.clone(), program, workers: HashMap::new() };
        let thread =
            std::thread::Builder::new().name("workers".to_owned()).spawn(move || kept.look_after())?;
        Ok(Keeper { handle, thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Starts the process of a worker, soon.
    pub(super) fn adopt(&self, worker: Arc<Worker>, theirs: OwnedFd) {
        self.handle.0.adopted.lock().unwrap_or_else(PoisonError::into_inner).push((worker, theirs));
        self.handle.wake();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.handle.0.ended.store(true, Ordering::Release);
        self.handle.wake();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("a bug: the thread of the workers panicked");
        }
    }
}

/// A worker with its process.
struct Running {
    worker: Arc<Worker>,
    process: Process,
    /// `None` when it is closed.
    output: Option<Output>,
    /// Messages of it are taken.
    heard: bool,
    killed: bool,
}

impl Running {
    fn kill(&mut self, keeper: &Handle) {
        self.ignore(keeper);
        if !std::mem::replace(&mut self.killed, true) {
            self.process.kill();
        }
    }

    /// Takes no messages any more.
    fn ignore(&mut self, keeper: &Handle) {
        if std::mem::replace(&mut self.heard, false) {
            keeper.leave(self.worker.socket());
        }
    }

    /// Logs what it printed.
    fn relay(&mut self, keeper: &Handle) {
        if let Some(output) = &mut self.output
            && !output.relay(&self.worker.name)
        {
            keeper.leave(output.pipe());
            self.output = None;
        }
    }
}

/// What the thread has.
struct Kept {
    handle: Handle,
    program: Program,
    workers: HashMap<u64, Running>,
}

impl Kept {
    fn look_after(mut self) {
        let mut events = Vec::with_capacity(64);
        let mut next = None;
        loop {
            self.wait(&mut events, next);
            let mut look = events.is_empty();
            for event in events.drain(..) {
                let data = event.data.u64();
                match (data / KINDS, data % KINDS) {
                    (0, _) => look = true,
                    (number, SOCKET) => self.socket(number, event.flags),
                    (number, PROCESS) => self.ended(number),
                    (number, _) => self.output(number),
                }
            }
            if look || next.is_some_and(|next| next <= Instant::now()) {
                let ended = self.handle.0.ended.load(Ordering::Acquire);
                next = self.look(ended);
                if ended && self.workers.is_empty() {
                    return;
                }
            }
        }
    }

    fn wait(&self, events: &mut Vec<Event>, next: Option<Instant>) {
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        // Rounded up: a wait that ends too early would be repeated at once.
        let left = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
        match epoll::wait(&self.handle.0.epoll, spare_capacity(events), left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                log::error!("cannot wait for workers: {error}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Starts new workers, does what is due, and says when the next thing is.
    fn look(&mut self, end: bool) -> Option<Instant> {
        // Its value does not matter.
        let _ = rustix::io::read(&self.handle.0.wake, &mut [0; 8]);
        let adopted =
            std::mem::take(&mut *self.handle.0.adopted.lock().unwrap_or_else(PoisonError::into_inner));
        for (worker, theirs) in adopted {
            self.start(worker, theirs);
        }
        let now = Instant::now();
        let mut next = None;
        for running in self.workers.values_mut() {
            if end {
                running.worker.fail(&"the daemon ends");
            }
            match running.worker.look(now) {
                Due::Kill => running.kill(&self.handle),
                Due::At(at) => next = [next, at].into_iter().flatten().min(),
            }
        }
        next
    }

    fn start(&mut self, worker: Arc<Worker>, theirs: OwnedFd) {
        match self.try_start(&worker, theirs) {
            Ok(running) => {
                log::info!("{}: its worker is process {}", worker.name, running.process.id());
                self.workers.insert(worker.number, running);
            }
            Err(error) => worker.gone(&Gone::NeverStarted(error)),
        }
    }

    fn try_start(&self, worker: &Arc<Worker>, theirs: OwnedFd) -> io::Result<Running> {
        let (pipe, output) = process::output()?;
        let mut process = self.program.start(theirs, output)?;
        let added = self.handle.add(worker.number, OUTPUT, &pipe);
        if let Err(error) = added.and_then(|()| self.handle.add(worker.number, PROCESS, process.handle())) {
            process.discard();
            return Err(error);
        }
        let output = Some(Output::new(pipe));
        Ok(Running { worker: Arc::clone(worker), process, output, heard: true, killed: false })
    }

    fn socket(&mut self, number: u64, flags: EventFlags) {
        let Some(running) = self.workers.get_mut(&number).filter(|running| running.heard) else { return };
        if flags.contains(EventFlags::OUT) {
            running.worker.send_rest();
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && running.worker.receive() == Received::Closed
        {
            running.ignore(&self.handle);
            if !running.worker.closed() {
                running.kill(&self.handle);
            }
        }
    }

    fn output(&mut self, number: u64) {
        if let Some(running) = self.workers.get_mut(&number) {
            running.relay(&self.handle);
        }
    }

    /// A worker's process has ended.
    fn ended(&mut self, number: u64) {
        let Some(running) = self.workers.get_mut(&number) else { return };
        let Some(status) = running.process.reap() else { return };
        let Some(mut running) = self.workers.remove(&number) else { return };
        // What it said before it ended counts, but something else may have its end of the socket.
        for _ in 0..LAST_TURNS {
            if !running.heard || running.worker.receive() != Received::More {
                break;
            }
        }
        running.relay(&self.handle);
        running.ignore(&self.handle);
        running.worker.gone(&Gone::Ended(status));
    }
}
