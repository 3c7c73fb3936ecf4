//! The thread that serves the queues.
//!
//! Not the event loop of vhost-user-backend 0.24: that one ends for good when a kick that it saw is gone when it reads
//! it, which a guest can bring about by resetting the device while it kicks.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::device::{Device, Ring};

/// The thread. It ends when this is dropped.
pub struct Queues {
    /// Tells the thread that a queue was changed.
    wake: Arc<OwnedFd>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Queues {
    /// Starts the thread for these queues.
    pub fn start(device: Arc<Device>, rings: Vec<Ring>) -> io::Result<Queues> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ended = Arc::new(AtomicBool::new(false));
        let (woken, end) = (Arc::clone(&wake), Arc::clone(&ended));
        let thread = std::thread::Builder::new().name("queues".to_owned()).spawn(move || {
            while !end.load(Ordering::Acquire) {
                wait_and_serve(&device, &rings, &woken);
            }
        })?;
        Ok(Queues { wake, ended, thread: Some(thread) })
    }

    /// A queue was started, stopped or enabled.
    pub fn changed(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.changed();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("a bug: the thread of the queues panicked");
        }
    }
}

/// Waits for a kick or a change, and serves what there is.
fn wait_and_serve(device: &Device, rings: &[Ring], wake: &OwnedFd) {
    // The descriptors are held for the poll: the VMM may replace them meanwhile.
    let kicks: Vec<(u16, &Ring, Arc<File>)> =
        (0..).zip(rings).filter_map(|(index, ring)| Some((index, ring, ring.kick()?))).collect();
    let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
    fds.extend(kicks.iter().map(|(_, _, kick)| PollFd::from_borrowed_fd(kick.as_fd(), PollFlags::IN)));
    if let Err(error) = poll(&mut fds, None)
        && error != rustix::io::Errno::INTR
    {
        log::error!("cannot wait for the guest: {error}");
        std::thread::sleep(std::time::Duration::from_millis(100));
        return;
    }
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    drop(fds);
    let changed = ready.first() == Some(&true);
    if changed {
        // Its value does not matter.
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
    for ((index, ring, kick), kicked) in kicks.iter().zip(ready.into_iter().skip(1)) {
        if kicked {
            // It may be gone already: then there was at least one.
            let _ = (&**kick).read(&mut [0; 8]);
            device.serve(*index, ring);
        }
    }
    if changed {
        // Chains of a queue that was just started may have been announced before.
        for (index, ring) in (0..).zip(rings).filter(|(_, ring)| ring.kick().is_some()) {
            device.serve(index, ring);
        }
    }
}
