//! A virtio-gpu device without a VM: blobs are memory files of the test, and the context's worker is the real program, started
//! and spoken to as the device process does it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use hsakmt::virtio::{Device, GuestBlob, Submission};
use protocol::Errno;
use protocol::kfd::Mapping;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use vhost_device_kfd::link::{FromWorker, Place, ToWorker};

/// The device, with one context and its worker process.
pub struct LinkDevice {
    line: Arc<Line>,
    worker: Mutex<Child>,
    reader: Option<JoinHandle<()>>,
}

/// The socket to the worker, and what is under way.
struct Line {
    socket: OwnedFd,
    state: Mutex<State>,
    tickets: AtomicU64,
    fences: AtomicUsize,
}

#[derive(Default)]
struct State {
    next: u32,
    /// Ends of pipes that become readable at the other end when they are closed.
    fences: BTreeMap<u64, OwnedFd>,
    blobs: usize,
    detached: usize,
    gone: bool,
}

struct LinkBlob {
    line: Arc<Line>,
    id: u32,
    fd: Arc<OwnedFd>,
    size: u64,
}

impl LinkDevice {
    /// Starts a worker for this software GPU.
    pub fn start(gpu: &str) -> Arc<LinkDevice> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let worker = Command::new(env!("CARGO_BIN_EXE_vhost-device-kfd"))
            .arg("worker")
            .arg(format!("--daemon={}", std::process::id()))
            .arg("--log-level=info")
            .arg(format!("--gpu={gpu}"))
            .stdin(Stdio::from(theirs))
            .spawn()
            .unwrap();
        let (state, tickets, fences) = (Mutex::default(), AtomicU64::new(1), AtomicUsize::new(0));
        let line = Arc::new(Line { socket: ours, state, tickets, fences });
        let reader = Arc::clone(&line);
        let reader = thread::spawn(move || reader.read());
        Arc::new(LinkDevice { line, worker: Mutex::new(worker), reader: Some(reader) })
    }

    /// Ends the worker as a crash does.
    pub fn kill_worker(&self) {
        self.worker.lock().unwrap().kill().unwrap();
    }

    /// Blobs that are there, with those that the worker has not let go of yet.
    pub fn blobs(&self) -> usize {
        let state = self.line.state();
        state.blobs + state.detached
    }

    /// Fences so far.
    pub fn fences(&self) -> usize {
        self.line.fences.load(Ordering::SeqCst)
    }
}

impl Drop for LinkDevice {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It may be gone already.
        let _ = ToWorker::End.send(self.line.socket.as_fd(), None);
        let ended = worker.wait().unwrap();
        if !ended.success() {
            eprintln!("the worker ended with {ended}");
        }
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

impl Device for LinkDevice {
    fn init_context(&self, _rings: u32) -> Result<(), Errno> {
        Ok(())
    }

    fn create_blob(&self, size: u64) -> Result<Box<dyn GuestBlob>, Errno> {
        let fd = memfd_create("blob", MemfdFlags::CLOEXEC).map_err(|_| Errno::ENOMEM)?;
        let size = size.next_multiple_of(4096);
        ftruncate(&fd, size).map_err(|_| Errno::ENOMEM)?;
        let mut state = self.line.state();
        state.next += 1;
        let id = state.next;
        self.line.send(&ToWorker::File { file: id }, Some(&fd));
        let pieces = vec![Place { file: id, offset: 0, len: size }];
        self.line.send(&ToWorker::Attach { attachment: id.into(), id, size, pieces }, None);
        state.blobs += 1;
        Ok(Box::new(LinkBlob { line: Arc::clone(&self.line), id, fd: Arc::new(fd), size }))
    }

    fn submit(&self, submission: Submission<'_>) -> Result<(), Errno> {
        let ticket = self.line.tickets.fetch_add(1, Ordering::SeqCst);
        let _one = self.line.state();
        self.line.submit(ticket, submission);
        Ok(())
    }

    fn submit_with_fence(&self, submission: Submission<'_>) -> Result<OwnedFd, Errno> {
        self.line.fences.fetch_add(1, Ordering::SeqCst);
        let ticket = self.line.tickets.fetch_add(1, Ordering::SeqCst);
        let (fence, held) = rustix::pipe::pipe().map_err(|_| Errno::EMFILE)?;
        let mut state = self.line.state();
        if !state.gone {
            state.fences.insert(ticket, held);
            self.line.submit(ticket, submission);
        }
        Ok(fence)
    }

    fn abandon(&self) {}
}

impl GuestBlob for LinkBlob {
    fn resource(&self) -> u32 {
        self.id
    }

    fn mapping(&self) -> Result<Mapping, Errno> {
        Ok(Mapping { fd: Arc::clone(&self.fd), offset: 0, len: self.size, writable: true })
    }
}

impl Drop for LinkBlob {
    fn drop(&mut self) {
        let mut state = self.line.state();
        state.blobs -= 1;
        if !state.gone {
            state.detached += 1;
            self.line.send(&ToWorker::Detach { attachment: self.id.into() }, None);
        }
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, ticket: u64, submission: Submission<'_>) {
        let ring = submission.ring.map(|ring| u8::try_from(ring).unwrap());
        self.send(&ToWorker::Submit { ticket, ring, bytes: submission.bytes }, None);
    }

    fn send(&self, message: &ToWorker<'_>, file: Option<&OwnedFd>) {
        // A worker that is gone is noticed by the thread that reads.
        let _ = message.send(self.socket.as_fd(), file.map(|file| file.as_fd()));
    }

    fn read(&self) {
        loop {
            match FromWorker::receive(&self.socket) {
                Ok(Some(FromWorker::Ready)) => {}
                Ok(Some(asked @ (FromWorker::Ask { .. } | FromWorker::GiveBack { .. }))) => {
                    eprintln!("the worker was not told to ask for memory, and says {asked:?}");
                }
                Ok(Some(FromWorker::Failed { why })) => eprintln!("the worker fails: {why}"),
                Ok(Some(FromWorker::Done { ticket, .. })) => drop(self.state().fences.remove(&ticket)),
                Ok(Some(FromWorker::Released { attachment })) => {
                    let mut state = self.state();
                    state.detached -= 1;
                    let file = u32::try_from(attachment).unwrap();
                    self.send(&ToWorker::Forget { file }, None);
                }
                Ok(None) | Err(_) => {
                    let mut state = self.state();
                    state.gone = true;
                    state.detached = 0;
                    return state.fences.clear();
                }
            }
        }
    }
}
