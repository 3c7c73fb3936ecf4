//! The caller's end: a [`Kfd`] whose device is behind a socket.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread;

use protocol::Errno;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Call, Caller, FileId, Kfd, Mapping, Node, Process, Transfer};

use super::flatten::{self, Flattened};
use super::message::{Answer, CallId, IoctlAnswer, IoctlRequest, Reply, Request, WireNode};
use crate::seqpacket;

/// A [`Kfd`] behind a connected socket, whose other end is served by [`super::serve`].
pub struct Loopback {
    connection: Arc<Connection>,
}

impl Loopback {
    /// Takes a connected `SOCK_SEQPACKET` socket.
    ///
    /// # Errors
    /// When the receiving thread cannot be started.
    pub fn new(socket: OwnedFd) -> std::io::Result<Self> {
        let connection = Arc::new(Connection {
            socket,
            next_call: AtomicU64::new(1),
            pending: Mutex::new(Pending { open: true, calls: HashMap::new() }),
        });
        let receiver = Arc::clone(&connection);
        thread::Builder::new().name("kfd-loopback".into()).spawn(move || receiver.receive_replies())?;
        Ok(Self { connection })
    }

    /// Ends the connection, whoever still holds the device: calls fail with `ENODEV` from now on, and the server
    /// ends.
    pub fn close(&self) {
        // Also ends the receiving thread, which holds a reference to the connection.
        let _ = rustix::net::shutdown(&self.connection.socket, rustix::net::Shutdown::Both);
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.close();
    }
}

impl Kfd for Loopback {
    fn topology(&self) -> Result<Tree, Errno> {
        match self.connection.call(|call| Request::Topology { call })? {
            Answer::Topology { files, denied } => {
                Ok(Tree { files: files.into_iter().collect(), denied: denied.into_iter().collect() })
            }
            _ => Err(Errno::EPROTO),
        }
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        let (id, pid, privileged) = (caller.id.0, caller.pid, caller.privileged);
        match self.connection.call(|call| Request::Attach { call, id, pid, privileged })? {
            Answer::Attached { process } => {
                let (connection, lent) = (Arc::clone(&self.connection), Mutex::default());
                Ok(Arc::new(RemoteProcess { connection, process, lent }))
            }
            _ => Err(Errno::EPROTO),
        }
    }
}

struct RemoteProcess {
    connection: Arc<Connection>,
    process: u32,
    /// Memory of the program that the other side may use. It does not say when it has let it go, so it stays shared.
    lent: Mutex<Vec<Arc<OwnedFd>>>,
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        self.connection.tell(&Request::Detach { process: self.process });
    }
}

impl RemoteProcess {
    fn keep(&self, files: Vec<Arc<OwnedFd>>) {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            if !lent.iter().any(|known| Arc::ptr_eq(known, &file)) {
                lent.push(file);
            }
        }
    }
}

impl Process for RemoteProcess {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        let process = self.process;
        let node = match node {
            Node::Kfd => WireNode::Kfd,
            Node::Render(minor) => WireNode::Render(minor),
        };
        match self.connection.call(|call| Request::Open { call, process, node })? {
            Answer::Opened { file } => Ok(FileId(file)),
            _ => Err(Errno::EPROTO),
        }
    }

    fn close(&self, file: FileId) {
        self.connection.tell(&Request::Close { process: self.process, file: file.0 });
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        let (process, file) = (self.process, file.0);
        match self.connection.call(|call| Request::Transfer { call, process, file, request })? {
            Answer::Transfer { size, from_user, to_user } => {
                let size = usize::try_from(size).map_err(|_| Errno::EPROTO)?;
                Ok(Transfer { size, from_user, to_user })
            }
            _ => Err(Errno::EPROTO),
        }
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let Flattened { memory, shared, descriptors, passed, lent } = flatten::collect(request, args, call);
        self.keep(lent);
        let message = |id| {
            Request::Ioctl(Box::new(IoctlRequest {
                call: id,
                process: self.process,
                file: file.0,
                request,
                args: args.to_vec(),
                memory,
                shared,
                descriptors,
            }))
        };
        let fds: Vec<BorrowedFd<'_>> = passed.iter().map(AsFd::as_fd).collect();
        let (answer, returned) = self.connection.call_interruptible(message, &fds, call)?;
        let Answer::Ioctl(answer) = answer else { return Err(Errno::EPROTO) };
        let IoctlAnswer { result, args: after, writes, installed } = *answer;
        if after.len() != args.len() || returned.len() != installed as usize {
            return Err(Errno::EPROTO);
        }
        let sent = args.to_vec();
        args.copy_from_slice(&after);
        flatten::apply_writes(request, &sent, &writes, call.mem())?;
        let result = result.map_err(|raw| Errno::from_raw(raw).unwrap_or(Errno::EPROTO));
        if result.is_ok() {
            flatten::install(request, args, returned, call)?;
        }
        result
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        let (process, file) = (self.process, file.0);
        let (answer, mut fds) =
            self.connection.call_with(|call| Request::Mmap { call, process, file, offset, len }, &[])?;
        match (answer, fds.pop()) {
            (Answer::Mapping { offset, len, writable }, Some(fd)) => {
                Ok(Mapping { fd: Arc::new(fd), offset, len, writable })
            }
            _ => Err(Errno::EPROTO),
        }
    }
}

/// The socket and the calls that wait for an answer.
struct Connection {
    socket: OwnedFd,
    next_call: AtomicU64,
    pending: Mutex<Pending>,
}

struct Pending {
    /// False once the server is gone: nothing will be answered any more.
    open: bool,
    calls: HashMap<CallId, Arc<Slot>>,
}

/// Where the answer to one call is put.
#[derive(Default)]
struct Slot {
    answer: Mutex<Option<(Answer, Vec<OwnedFd>)>>,
    ready: Condvar,
}

/// The device is gone; the kernel says the same of an unplugged GPU.
const DEVICE_LOST: Errno = Errno::ENODEV;

impl Connection {
    fn tell(&self, request: &Request) {
        if let Err(error) = self.send(request, &[]) {
            log::debug!("The loopback server did not take {request:?}: {error}.");
        }
    }

    fn call(&self, request: impl FnOnce(CallId) -> Request) -> Result<Answer, Errno> {
        self.call_with(request, &[]).map(|(answer, _)| answer)
    }

    fn call_with(
        &self,
        request: impl FnOnce(CallId) -> Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), Errno> {
        let (_, slot) = self.start(request, fds)?;
        slot.wait()
    }

    /// A call that ends early when `call`'s interrupt fires; the server then answers it.
    fn call_interruptible(
        self: &Arc<Self>,
        request: impl FnOnce(CallId) -> Request,
        fds: &[BorrowedFd<'_>],
        call: &dyn Call,
    ) -> Result<(Answer, Vec<OwnedFd>), Errno> {
        let (id, slot) = self.start(request, fds)?;
        let forward = Arc::new(ForwardInterrupt { connection: Arc::clone(self), call: id });
        if call.interrupt().wake_on_fire(Waker::from(Arc::clone(&forward))) {
            forward.wake();
        }
        slot.wait()
    }

    fn start(
        &self,
        request: impl FnOnce(CallId) -> Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(CallId, Arc<Slot>), Errno> {
        let id = self.next_call.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot::default());
        {
            let mut pending = lock(&self.pending);
            if !pending.open {
                return Err(DEVICE_LOST);
            }
            pending.calls.insert(id, Arc::clone(&slot));
        }
        if let Err(error) = self.send(&request(id), fds) {
            log::error!("The loopback server did not take a call: {error}.");
            lock(&self.pending).calls.remove(&id);
            return Err(DEVICE_LOST);
        }
        Ok((id, slot))
    }

    fn send(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        let bytes = postcard::to_allocvec(request).map_err(std::io::Error::other)?;
        seqpacket::send(self.socket.as_fd(), &bytes, fds)
    }

    fn receive_replies(&self) {
        loop {
            match seqpacket::receive(self.socket.as_fd()) {
                Ok(Some((bytes, fds))) => match postcard::from_bytes::<Reply>(&bytes) {
                    Ok(reply) => self.deliver(reply, fds),
                    Err(error) => {
                        log::error!("The loopback server sent an answer that cannot be decoded: {error}.");
                        break;
                    }
                },
                Ok(None) => break,
                Err(error) => {
                    log::error!("The loopback server cannot be heard: {error}.");
                    break;
                }
            }
        }
        let mut pending = lock(&self.pending);
        pending.open = false;
        for slot in std::mem::take(&mut pending.calls).into_values() {
            slot.fill(Answer::Error(DEVICE_LOST.raw()), Vec::new());
        }
    }

    fn deliver(&self, reply: Reply, fds: Vec<OwnedFd>) {
        match lock(&self.pending).calls.remove(&reply.call) {
            Some(slot) => slot.fill(reply.answer, fds),
            None => log::error!("The loopback server answered call {}, which nobody made.", reply.call),
        }
    }
}

impl Slot {
    fn fill(&self, answer: Answer, fds: Vec<OwnedFd>) {
        *lock(&self.answer) = Some((answer, fds));
        self.ready.notify_one();
    }

    fn wait(&self) -> Result<(Answer, Vec<OwnedFd>), Errno> {
        let mut answer = lock(&self.answer);
        loop {
            match answer.take() {
                Some((Answer::Error(raw), _)) => {
                    return Err(Errno::from_raw(raw).unwrap_or(Errno::EPROTO));
                }
                Some(answer) => return Ok(answer),
                None => answer = self.ready.wait(answer).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

struct ForwardInterrupt {
    connection: Arc<Connection>,
    call: CallId,
}

impl Wake for ForwardInterrupt {
    fn wake(self: Arc<Self>) {
        self.connection.tell(&Request::Interrupt { call: self.call });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
