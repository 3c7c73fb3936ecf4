//! A guest: memory, blobs, a call area, and the device process's end of the socket.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::wire::area::{AREA_BYTES, INLINE, SLOT_HEADER, queue_place, slot, slot_place, state, word};
use protocol::wire::structs::{HelloAnswer, Range};
use protocol::wire::{Answer, Command as WireCommand, Request, Submission};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use softgpu::Profile;
use vhost_device_kfd::gpu::Gpu;
use vhost_device_kfd::link::{FromWorker, Place, ToWorker};
use vhost_device_kfd::worker::kfd::{Config, KfdExecutor, open};
use vhost_device_kfd::worker::run;
use vhost_device_kfd::workers::supply::Share;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

pub const PAGE: u64 = 4096;
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Bytes of the guest's memory.
const RAM: u64 = 256 << 20;
/// Number of its file.
const FILE: u32 = 7;
/// The call area's blob.
pub const AREA: u32 = 1;

/// What the worker has said.
#[derive(Default)]
struct Said {
    done: HashMap<u64, bool>,
    released: HashMap<u64, ()>,
    ended: bool,
}

/// A guest with its context.
pub struct Guest {
    ram: GuestMemoryMmap,
    next: AtomicU64,
    numbers: AtomicU64,
    socket: Arc<OwnedFd>,
    said: Arc<(Mutex<Said>, Condvar)>,
    worker: Option<Worker>,
    reader: Option<JoinHandle<()>>,
    attached: Mutex<HashMap<u32, Blob>>,
    submitting: Mutex<()>,
    next_slot: AtomicU32,
}

/// What executes the calls.
pub enum Worker {
    /// A thread of this process, so that its configuration can be chosen and its mappings seen.
    Thread(JoinHandle<Result<(), String>>),
    /// The worker's own program, which locks itself in.
    Process(Child),
    /// Something that the test looks after.
    #[allow(dead_code, reason = "the tests of the jail have it")]
    Elsewhere,
}

/// A blob of the guest.
#[derive(Clone, Debug)]
pub struct Blob {
    pub id: u32,
    pub size: u64,
    /// Where its pages are, in the guest's memory.
    pieces: Vec<(u64, u64)>,
    attachment: u64,
}

impl Guest {
    /// A guest whose worker runs, with a call area.
    pub fn new(profile: Profile) -> Guest {
        Guest::with(profile, Config::default())
    }

    pub fn with(profile: Profile, config: Config) -> Guest {
        let guest = Guest::without_area(profile, config);
        guest.set_up();
        guest
    }

    /// A guest whose worker is the program, locked in.
    pub fn of_a_process(profile: Profile) -> Guest {
        let guest = Guest::of(|socket| started(profile, &[], socket));
        guest.set_up();
        guest
    }

    /// The same, with a worker that asks for memory and keeps so much of what it freed.
    pub fn sharing(profile: Profile, share: Share, keep: u64) -> Guest {
        let allowance = format!("--allowance={keep}");
        let guest = Guest::granted(|socket| started(profile, &[&allowance], socket), Some(share));
        guest.set_up();
        guest
    }

    fn set_up(&self) {
        self.attach(AREA, AREA_BYTES as u64, 1);
        assert_eq!(self.submit(Submission::Setup { resource: AREA }), Some(true));
    }

    /// A guest that has said nothing yet.
    pub fn without_area(profile: Profile, config: Config) -> Guest {
        Guest::of(|socket| {
            Worker::Thread(thread::spawn(move || {
                let kfd = open(&Gpu::Soft(profile)).expect("a software GPU");
                run(socket, Arc::new(KfdExecutor::new(kfd, config))).map_err(|error| error.to_string())
            }))
        })
    }

    /// A guest that has said nothing yet, with what it starts at the other end of its socket.
    pub fn of(start: impl FnOnce(OwnedFd) -> Worker) -> Guest {
        Guest::granted(start, None)
    }

    /// The same, whose worker asks for memory if there is a share of it.
    fn granted(start: impl FnOnce(OwnedFd) -> Worker, share: Option<Share>) -> Guest {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, RAM).expect("truncate");
        let copy = std::fs::File::from(file.as_fd().try_clone_to_owned().expect("dup"));
        let range = (GuestAddress(0), RAM as usize, Some(FileOffset::new(copy, 0)));
        let ram = GuestMemoryMmap::<()>::from_ranges_with_files([range]).expect("mapped");
        let (socket, theirs) = softgpu::seqpacket::pair().expect("sockets");
        let worker = start(theirs);
        let (socket, said) = (Arc::new(socket), Arc::<(Mutex<Said>, Condvar)>::default());
        let reader = {
            let (socket, said) = (Arc::clone(&socket), Arc::clone(&said));
            thread::spawn(move || read(&socket, &said, share))
        };
        let guest = Guest {
            ram,
            next: AtomicU64::new(0x10_0000),
            numbers: AtomicU64::new(1),
            socket,
            said,
            worker: Some(worker),
            reader: Some(reader),
            attached: Mutex::default(),
            submitting: Mutex::default(),
            next_slot: AtomicU32::new(0),
        };
        let file = Some(file.as_fd());
        ToWorker::File { file: FILE }.send(guest.socket.as_fd(), file).expect("sent");
        guest
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.0.lock().expect("no panic")
    }

    /// Waits until the worker has said something.
    fn wait<T>(&self, what: &str, mut found: impl FnMut(&mut Said) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        let mut said = self.said();
        loop {
            if let Some(found) = found(&mut said) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the worker does not say: {what}");
            assert!(!said.ended, "the worker has ended, and not said: {what}");
            said = self.said.1.wait_timeout(said, left).expect("no panic").0;
        }
    }

    /// The worker has not ended.
    pub fn assert_going_on(&self) {
        assert!(!self.said().ended, "the worker has ended");
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn send(&self, message: &ToWorker<'_>) {
        message.send(self.socket.as_fd(), None).expect("sent");
    }

    /// A blob of this size, in so many pieces, the last one first in memory.
    pub fn attach(&self, id: u32, size: u64, pieces: u64) -> Blob {
        assert!(size.is_multiple_of(PAGE * pieces));
        let each = size / pieces;
        // A page between them, so that they are no neighbours.
        let start = self.next.fetch_add(size + pieces * PAGE, Ordering::Relaxed);
        assert!(start + size + pieces * PAGE <= RAM, "the guest's memory is used up");
        let pieces: Vec<(u64, u64)> =
            (0..pieces).rev().map(|index| (start + index * (each + PAGE), each)).collect();
        let blob = Blob { id, size, pieces, attachment: self.number() };
        self.attach_again(&blob);
        blob
    }

    pub fn attach_again(&self, blob: &Blob) {
        let place = |&(offset, len): &(u64, u64)| Place { file: FILE, offset, len };
        let pieces = blob.pieces.iter().map(place).collect();
        let (attachment, id, size) = (blob.attachment, blob.id, blob.size);
        self.attached.lock().expect("no panic").insert(id, blob.clone());
        self.send(&ToWorker::Attach { attachment, id, size, pieces });
    }

    /// The guest's blob with this id.
    pub fn blob(&self, id: u32) -> Blob {
        self.attached.lock().expect("no panic").get(&id).cloned().expect("attached")
    }

    pub fn detach(&self, blob: &Blob) {
        self.send(&ToWorker::Detach { attachment: blob.attachment });
    }

    pub fn is_released(&self, blob: &Blob) -> bool {
        self.said().released.contains_key(&blob.attachment)
    }

    pub fn wait_released(&self, blob: &Blob) {
        self.wait("released", |said| said.released.remove(&blob.attachment));
    }

    /// Sends an EXECBUFFER and returns its number.
    pub fn send_bytes(&self, bytes: &[u8]) -> u64 {
        let ticket = self.number();
        self.send(&ToWorker::Submit { ticket, ring: None, bytes });
        ticket
    }

    /// Whether it is done, and did not fail.
    pub fn is_done(&self, ticket: u64) -> Option<bool> {
        self.said().done.get(&ticket).copied()
    }

    pub fn wait_done(&self, ticket: u64) -> bool {
        self.wait("done", |said| said.done.remove(&ticket))
    }

    pub fn submit(&self, submission: Submission) -> Option<bool> {
        Some(self.wait_done(self.send_bytes(&submission.encode())))
    }

    // Memory.

    fn at(blob: &Blob, offset: u64) -> GuestAddress {
        let mut left = offset;
        for &(start, len) in &blob.pieces {
            if left < len {
                return GuestAddress(start + left);
            }
            left -= len;
        }
        panic!("offset {offset:#x} of blob {}", blob.id)
    }

    pub fn load(&self, blob: &Blob, offset: u64) -> u32 {
        self.ram.load(Self::at(blob, offset), Ordering::SeqCst).expect("inside")
    }

    pub fn store(&self, blob: &Blob, offset: u64, value: u32) {
        self.ram.store(value, Self::at(blob, offset), Ordering::SeqCst).expect("inside");
    }

    pub fn load64(&self, blob: &Blob, offset: u64) -> u64 {
        self.ram.load(Self::at(blob, offset), Ordering::SeqCst).expect("inside")
    }

    pub fn store64(&self, blob: &Blob, offset: u64, value: u64) {
        self.ram.store(value, Self::at(blob, offset), Ordering::SeqCst).expect("inside");
    }

    /// Within a page.
    pub fn write(&self, blob: &Blob, offset: u64, bytes: &[u8]) {
        self.ram.write_slice(bytes, Self::at(blob, offset)).expect("inside");
    }

    pub fn read(&self, blob: &Blob, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.ram.read_slice(&mut bytes, Self::at(blob, offset)).expect("inside");
        bytes
    }

    pub fn fill(&self, blob: &Blob, byte: u8) {
        for page in 0..blob.size / PAGE {
            self.write(blob, page * PAGE, &[byte; PAGE as usize]);
        }
    }

    // Calls.

    /// A slot that no call is in.
    pub fn free_slot(&self) -> u32 {
        let mut numbers = (0..256).map(|_| self.next_slot.fetch_add(1, Ordering::Relaxed) % 256);
        let is_free = |number: &u32| self.header(*number, slot::STATE) != state::SUBMITTED;
        numbers.find(is_free).expect("fewer calls than slots")
    }

    /// Waits until the worker has taken all calls.
    pub fn wait_taken(&self) {
        let (area, deadline) = (self.blob(AREA), Instant::now() + DEADLINE);
        while self.load(&area, word::TAKEN as u64) != self.load(&area, word::SUBMITTED as u64) {
            assert!(Instant::now() < deadline, "the worker takes no calls");
            thread::sleep(Duration::from_micros(50));
        }
    }

    fn slot(number: u32) -> u64 {
        slot_place(number).expect("a slot of the first area").1 as u64
    }

    pub fn header(&self, number: u32, field: usize) -> u32 {
        self.load(&self.blob(AREA), Self::slot(number) + field as u64)
    }

    pub fn set_header(&self, number: u32, field: usize, value: u32) {
        self.store(&self.blob(AREA), Self::slot(number) + field as u64, value);
    }

    /// Puts a request into a slot.
    pub fn fill_slot(&self, number: u32, command: u32, request: &[u8]) {
        assert!(request.len() <= INLINE);
        self.write(&self.blob(AREA), Self::slot(number) + SLOT_HEADER as u64, request);
        self.set_header(number, slot::COMMAND, command);
        self.set_header(number, slot::REQUEST_LEN, request.len() as u32);
        self.set_header(number, slot::ROOM, INLINE as u32);
        self.set_header(number, slot::PAYLOAD, 0);
        self.set_header(number, slot::STATUS, 0xdead);
        self.set_header(number, slot::SLEEPS, 0);
        self.set_header(number, slot::STATE, state::SUBMITTED);
    }

    /// Tells the worker of a slot.
    pub fn queue(&self, number: u32) {
        let area = self.blob(AREA);
        let _alone = self.submitting.lock().expect("no panic");
        let call = self.load(&area, word::SUBMITTED as u64);
        self.store(&area, queue_place(call) as u64, number);
        self.store(&area, word::SUBMITTED as u64, call.wrapping_add(1));
        if self.load(&area, word::ASLEEP as u64) != 0 {
            self.send_bytes(&Submission::Kick.encode());
        }
    }

    /// Waits for the answer in a slot.
    pub fn answer(&self, number: u32) -> Result<Vec<u8>, Errno> {
        let start = Instant::now();
        let deadline = start + DEADLINE;
        while self.header(number, slot::STATE) != state::DONE {
            let now = Instant::now();
            assert!(now < deadline, "slot {number} is not answered");
            self.assert_going_on();
            // As the library does: most calls are answered soon.
            if now - start < Duration::from_micros(50) {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(50));
            }
        }
        let len = self.header(number, slot::ANSWER_LEN) as usize;
        match self.header(number, slot::STATUS) {
            0 => Ok(self.read(&self.blob(AREA), Self::slot(number) + SLOT_HEADER as u64, len)),
            errno => Err(Errno::from_raw(errno.cast_signed()).expect("an errno")),
        }
    }

    /// Makes a call with these bytes.
    pub fn call_bytes(&self, command: u32, request: &[u8]) -> Result<Vec<u8>, Errno> {
        let number = self.free_slot();
        self.fill_slot(number, command, request);
        self.queue(number);
        self.answer(number)
    }

    pub fn call(&self, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        self.call_bytes(request.command().id(), &encoded(request))
    }

    /// Makes a call that answers nothing.
    pub fn tell(&self, request: &Request<'_>) -> Result<(), Errno> {
        self.call(request).map(|bytes| assert!(bytes.is_empty(), "{bytes:?}"))
    }

    pub fn hello(&self, features: u64, ranges: &[Range]) -> Result<HelloAnswer, Errno> {
        let request = Request::Hello { versions: (1, 1), features, page_size: 4096, ranges };
        let bytes = self.call(&request)?;
        let Ok(Answer::Hello(answer)) = Answer::decode(WireCommand::Hello, &bytes) else {
            panic!("no answer to HELLO: {bytes:?}")
        };
        Ok(answer)
    }

    /// Kills the worker's process, as a crash does; it is gone when this returns.
    pub fn kill_worker(&mut self) {
        let Some(Worker::Process(mut child)) = self.worker.take() else { panic!("no process") };
        child.kill().expect("it runs");
        child.wait().expect("a child");
        self.join();
    }

    /// Ends the context; the worker has let go of everything when this returns.
    pub fn end(&mut self) {
        self.send(&ToWorker::End);
        self.join();
    }

    fn join(&mut self) {
        if let Some(worker) = self.worker.take() {
            match worker {
                Worker::Thread(thread) => thread.join().expect("no panic").expect("the end was said"),
                Worker::Process(mut child) => {
                    let status = child.wait().expect("waited for");
                    assert!(status.success(), "the worker ends with {status}");
                }
                Worker::Elsewhere => {}
            }
        }
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic");
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        match &mut self.worker {
            None | Some(Worker::Elsewhere) => {}
            Some(_) if !thread::panicking() => self.end(),
            // It may be that it ended by itself.
            Some(Worker::Process(child)) => drop((child.kill(), child.wait())),
            Some(Worker::Thread(_)) => {}
        }
    }
}

fn started(profile: Profile, options: &[&str], socket: OwnedFd) -> Worker {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vhost-device-kfd"));
    let daemon = format!("--daemon={}", std::process::id());
    command.args(["worker", &daemon, &format!("--gpu=soft:{profile}")]).args(options).stdin(socket);
    Worker::Process(command.spawn().expect("started"))
}

fn read(socket: &OwnedFd, said: &(Mutex<Said>, Condvar), mut share: Option<Share>) {
    loop {
        let message = FromWorker::receive(socket.as_fd());
        let mut state = said.0.lock().expect("no panic");
        match message {
            Ok(Some(FromWorker::Ready)) => {}
            Ok(Some(FromWorker::Done { ticket, ok })) => drop(state.done.insert(ticket, ok)),
            Ok(Some(FromWorker::Released { attachment })) => {
                state.released.insert(attachment, ());
            }
            Ok(Some(FromWorker::Ask { stock, bytes })) => {
                let share = share.as_mut().expect("it is not told to ask");
                let (granted, left) = share.ask(stock, bytes).expect("it asks for what there is");
                ToWorker::Granted { granted, left }.send(socket.as_fd(), None).expect("sent");
            }
            Ok(Some(FromWorker::GiveBack { stock, bytes })) => {
                let share = share.as_mut().expect("it is not told to ask");
                share.give_back(stock, bytes).expect("it has as much");
            }
            Ok(Some(FromWorker::Failed { why })) => panic!("{why}"),
            Ok(None) | Err(_) => state.ended = true,
        }
        said.1.notify_all();
        if state.ended {
            return;
        }
    }
}

pub fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    bytes
}

/// Addresses that no other test has: all guests share this process.
pub fn fresh_range() -> Range {
    static NEXT: AtomicU64 = AtomicU64::new(2 << 40);
    const LEN: u64 = 64 << 30;
    range(NEXT.fetch_add(LEN, Ordering::Relaxed), LEN)
}

pub fn range(base: u64, len: u64) -> Range {
    Range { base: base.into(), len: len.into() }
}
