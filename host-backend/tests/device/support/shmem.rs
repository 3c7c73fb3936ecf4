//! A VMM's side of the window: it maps what the device asks for, and remembers it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use vhost::vhost_user::message::VhostUserMMap;
use vhost::vhost_user::{Error, Frontend, FrontendReqHandler, HandlerResult, VhostUserFrontend};
use vhost::vhost_user::{VhostUserFrontendReqHandler, message::VhostUserMMapFlags};

/// What the device asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Map,
    Unmap,
}

/// The requests so far, and how they are answered.
#[derive(Default)]
pub struct Seen {
    pub asked: Vec<Asked>,
    /// The file of the last mapping.
    pub arena: Option<File>,
    /// Requests fail.
    pub refuse: bool,
    /// Requests are answered when this is false again.
    pub hold: bool,
}

/// A VMM that shows the window. Clones are the same.
#[derive(Clone, Default)]
pub struct Shmem(Arc<(Mutex<Seen>, Condvar)>);

impl Shmem {
    /// Tells the device where to ask, and answers in a thread that ends with the channel.
    pub fn connect(&self, frontend: &mut Frontend) {
        let mut handler = FrontendReqHandler::new(Arc::new(self.clone())).expect("a socket pair");
        handler.set_reply_ack_flag(true);
        // SAFETY: the handler keeps it open until the thread ends.
        let channel = unsafe { BorrowedFd::borrow_raw(handler.get_tx_raw_fd()) };
        let channel = channel.try_clone_to_owned().expect("a descriptor");
        frontend.set_backend_request_fd(&channel).expect("SET_BACKEND_REQ_FD");
        std::thread::spawn(move || {
            // A request that failed was answered.
            while matches!(handler.handle_request(), Ok(_) | Err(Error::ReqHandlerError(_))) {}
        });
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Answers what is held back.
    pub fn let_go(&self) {
        self.seen().hold = false;
        self.0.1.notify_all();
    }

    fn take(&self, asked: Asked, request: &VhostUserMMap, arena: Option<File>) -> HandlerResult<u64> {
        let VhostUserMMap { shmid, fd_offset, shm_offset, flags, .. } = *request;
        assert_eq!((shmid, fd_offset, shm_offset), (1, 0, 0), "all of the window");
        let mut seen = self.seen();
        seen.asked.push(asked);
        if let Some(arena) = arena {
            assert_eq!(flags, VhostUserMMapFlags::WRITABLE.bits());
            seen.arena = Some(arena);
        }
        while seen.hold {
            seen = self.0.1.wait(seen).expect("no panic");
        }
        if seen.refuse { Err(io::Error::from_raw_os_error(12)) } else { Ok(0) }
    }
}

impl VhostUserFrontendReqHandler for Shmem {
    fn shmem_map(&self, request: &VhostUserMMap, fd: &dyn AsRawFd) -> HandlerResult<u64> {
        // SAFETY: it is open during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) };
        self.take(Asked::Map, request, Some(fd.try_clone_to_owned()?.into()))
    }

    fn shmem_unmap(&self, request: &VhostUserMMap) -> HandlerResult<u64> {
        self.take(Asked::Unmap, request, None)
    }
}
