//! The device's end: executes the calls that arrive on a socket.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use protocol::Errno;
use protocol::kfd::{Caller, FileId, Interrupt, Kfd, Node, Process, ProcessId};

use super::flatten::{self, RemoteCall};
use super::message::{Answer, CallId, IoctlAnswer, IoctlRequest, Reply, Request, WireNode};
use crate::seqpacket;

/// Serves `kfd` on a connected socket until the other side closes it.
///
/// Calls that may block get a thread each; all others are executed in order by this thread.
///
/// # Errors
/// When the socket fails, or carries something that is no message.
pub fn serve(kfd: Arc<dyn Kfd>, socket: OwnedFd) -> io::Result<()> {
    let mut server = Server {
        kfd,
        replies: Arc::new(Replies { socket, running: Mutex::new(HashMap::new()) }),
        processes: HashMap::new(),
        next_process: 1,
    };
    let replies = Arc::clone(&server.replies);
    let end = loop {
        match seqpacket::receive(replies.socket.as_fd()) {
            Ok(Some((bytes, fds))) => {
                let request = postcard::from_bytes(&bytes)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
                match request.and_then(|request| server.handle(request, fds)) {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // Blocking calls of a client that is gone end now; their threads hold the processes.
    for interrupt in lock(&replies.running).values() {
        interrupt.fire();
    }
    end
}

struct Server {
    kfd: Arc<dyn Kfd>,
    replies: Arc<Replies>,
    processes: HashMap<u32, Arc<dyn Process>>,
    next_process: u32,
}

impl Server {
    fn handle(&mut self, request: Request, fds: Vec<OwnedFd>) -> io::Result<()> {
        match request {
            Request::Topology { call } => {
                let answer = self.kfd.topology().map(|tree| Answer::Topology {
                    files: tree.files.into_iter().collect(),
                    denied: tree.denied.into_iter().collect(),
                });
                self.replies.reply(call, answer)
            }
            Request::Attach { call, id, pid, privileged } => {
                let answer = self.attach(id, pid, privileged);
                self.replies.reply(call, answer)
            }
            Request::Detach { process } => {
                self.processes.remove(&process);
                Ok(())
            }
            Request::Open { call, process, node } => {
                let node = match node {
                    WireNode::Kfd => Node::Kfd,
                    WireNode::Render(minor) => Node::Render(minor),
                };
                let opened = self.process(process).and_then(|process| process.open(node));
                self.replies.reply(call, opened.map(|file| Answer::Opened { file: file.0 }))
            }
            Request::Close { process, file } => {
                if let Ok(process) = self.process(process) {
                    process.close(FileId(file));
                }
                Ok(())
            }
            Request::Transfer { call, process, file, request } => {
                let answer =
                    self.process(process).and_then(|process| process.transfer(FileId(file), request));
                let answer = answer.map(|transfer| Answer::Transfer {
                    size: transfer.size as u64,
                    from_user: transfer.from_user,
                    to_user: transfer.to_user,
                });
                self.replies.reply(call, answer)
            }
            Request::Ioctl(request) => self.ioctl(*request, fds),
            Request::Mmap { call, process, file, offset, len } => {
                match self.process(process).and_then(|process| process.mmap(FileId(file), offset, len)) {
                    Ok(mapping) => {
                        let answer = Answer::Mapping {
                            offset: mapping.offset,
                            len: mapping.len,
                            writable: mapping.writable,
                        };
                        self.replies.send(call, answer, &[mapping.fd.as_fd()])
                    }
                    Err(errno) => self.replies.reply(call, Err(errno)),
                }
            }
            Request::Interrupt { call } => {
                if let Some(interrupt) = lock(&self.replies.running).get(&call) {
                    interrupt.fire();
                }
                Ok(())
            }
        }
    }

    fn attach(&mut self, id: u64, pid: u32, privileged: bool) -> Result<Answer, Errno> {
        // No memory outside of calls: what a call does not carry, this transport cannot reach.
        let caller = Caller { id: ProcessId(id), pid, privileged, mem: None };
        let process = self.kfd.attach(caller)?;
        let number = self.next_process;
        self.next_process = number.checked_add(1).ok_or(Errno::ENOSPC)?;
        self.processes.insert(number, process);
        Ok(Answer::Attached { process: number })
    }

    fn process(&self, number: u32) -> Result<Arc<dyn Process>, Errno> {
        self.processes.get(&number).cloned().ok_or(Errno::EBADF)
    }

    fn ioctl(&self, request: IoctlRequest, fds: Vec<OwnedFd>) -> io::Result<()> {
        let call = request.call;
        let process = match self.process(request.process) {
            Ok(process) => process,
            Err(errno) => return self.replies.reply(call, Err(errno)),
        };
        let interrupt = Arc::new(Interrupt::new());
        if !flatten::may_block(request.request) {
            return execute(&self.replies, process.as_ref(), request, fds, interrupt);
        }
        lock(&self.replies.running).insert(call, Arc::clone(&interrupt));
        let replies = Arc::clone(&self.replies);
        let spawned = thread::Builder::new().name("kfd-wait".into()).stack_size(128 << 10).spawn(move || {
            if let Err(error) = execute(&replies, process.as_ref(), request, fds, interrupt) {
                log::debug!("The answer to a blocking call was not taken: {error}.");
            }
            lock(&replies.running).remove(&call);
        });
        if spawned.is_err() {
            lock(&self.replies.running).remove(&call);
            return self.replies.reply(call, Err(Errno::ENOMEM));
        }
        Ok(())
    }
}

fn execute(
    replies: &Replies,
    process: &dyn Process,
    request: IoctlRequest,
    fds: Vec<OwnedFd>,
    interrupt: Arc<Interrupt>,
) -> io::Result<()> {
    let IoctlRequest { call: id, file, request, mut args, memory, shared, descriptors, .. } = request;
    let call = match RemoteCall::new(&memory, shared, descriptors, fds, interrupt) {
        Ok(call) => call,
        Err(error) => {
            log::error!("An ioctl over loopback cannot be decoded: {error}.");
            return replies.reply(id, Err(Errno::EPROTO));
        }
    };
    let result = process.ioctl(FileId(file), request, &mut args, &call);
    let (writes, installed) = call.into_effects();
    let answer = IoctlAnswer {
        result: result.map_err(Errno::raw),
        args,
        writes,
        installed: u32::try_from(installed.len()).unwrap_or(u32::MAX),
    };
    let fds: Vec<BorrowedFd<'_>> = installed.iter().map(AsFd::as_fd).collect();
    replies.send(id, Answer::Ioctl(Box::new(answer)), &fds)
}

/// The way back, shared by the receiving thread and the threads of blocking calls.
struct Replies {
    socket: OwnedFd,
    running: Mutex<HashMap<CallId, Arc<Interrupt>>>,
}

impl Replies {
    fn reply(&self, call: CallId, answer: Result<Answer, Errno>) -> io::Result<()> {
        self.send(call, answer.unwrap_or_else(|errno| Answer::Error(errno.raw())), &[])
    }

    fn send(&self, call: CallId, answer: Answer, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = postcard::to_allocvec(&Reply { call, answer }).map_err(io::Error::other)?;
        seqpacket::send(self.socket.as_fd(), &bytes, fds)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
