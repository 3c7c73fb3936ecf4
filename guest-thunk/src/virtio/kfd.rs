//! [`Kfd`] over a virtio-gpu device.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use protocol::Errno;
use protocol::kfd::topology::Tree;
use protocol::kfd::{Caller, Kfd, Process};

use super::device::Device;
use super::guest::Guest;
use super::link::{Link, LinkError};
use super::node::{Node, NodeError};
use super::process::VirtioProcess;
use super::topology;
use crate::fork::ForkMark;

/// How long a thread looks for an answer before it sleeps, unless somebody says otherwise.
pub const SPIN: Duration = Duration::from_micros(50);

/// Why a virtio-gpu device gives no GPUs.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The render node is none of ours.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// There is no context with a worker on it.
    #[error("{0}: {1}")]
    Link(PathBuf, LinkError),
}

/// Opens a device, for another context on it.
type Opener = Box<dyn Fn() -> Result<Arc<dyn Device>, Errno> + Send + Sync>;

/// The GPUs that a host shows to this virtual machine.
///
/// A process of the guest has one context, and the host one worker process for it. The context ends with the last reference to
/// the [`Process`] (or to this, if nobody attached); then the host frees all that it held.
pub struct Virtio {
    opener: Opener,
    spin: Duration,
    fork: ForkMark,
    state: Mutex<State>,
    /// For a forked child, which must not wait for a lock.
    devices: Mutex<Vec<Weak<dyn Device>>>,
}

#[derive(Default)]
struct State {
    /// A context that nobody has attached to yet.
    spare: Option<Arc<Link>>,
    link: Weak<Link>,
    process: Weak<VirtioProcess>,
}

impl Virtio {
    /// Opens a render node, makes a context there, and greets the worker on the host. Threads look for an answer for as long as
    /// `spin` before they sleep.
    ///
    /// # Errors
    /// What is missing, in words; see [`ConnectError`].
    pub fn connect(path: &Path, spin: Duration) -> Result<Self, ConnectError> {
        let node = Node::open(path)?;
        let again = path.to_owned();
        let opener = move || match Node::open(&again) {
            Ok(node) => Ok(Arc::new(node) as Arc<dyn Device>),
            Err(error) => {
                log::error!("{error}");
                Err(Errno::ENODEV)
            }
        };
        Self::over(Arc::new(node), Box::new(opener), spin)
            .map_err(|error| ConnectError::Link(path.to_owned(), error))
    }

    /// The same over any device, for tests of both ends in one process. `opener` gives the device of each further context.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn over(first: Arc<dyn Device>, opener: Opener, spin: Duration) -> Result<Self, LinkError> {
        let (fork, state, devices) = (ForkMark::new(), Mutex::default(), Mutex::default());
        let virtio = Self { opener, spin, fork, state, devices };
        let link = virtio.open_link(first)?;
        virtio.state().spare = Some(link);
        Ok(virtio)
    }

    /// In a forked child: closes the descriptors that it inherited, so that its parent's context ends with the parent. The
    /// parent's context is untouched, and no lock is waited for, which a thread of the parent may have held at the fork. In the
    /// process that made this it does nothing.
    pub fn abandon_in_child(&self) {
        if self.fork.is_here() {
            return;
        }
        let Ok(devices) = self.devices.try_lock() else { return };
        for device in devices.iter() {
            // Never dropped: an end of the device in the child would close what is closed.
            if let Some(device) = device.upgrade() {
                std::mem::ManuallyDrop::new(device).abandon();
            }
        }
    }

    fn open_link(&self, device: Arc<dyn Device>) -> Result<Arc<Link>, LinkError> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.retain(|device| device.strong_count() > 0);
        devices.push(Arc::downgrade(&device));
        drop(devices);
        Ok(Arc::new(Link::open(device, self.spin)?))
    }

    /// The context of this process: the one that it has, or a new one.
    fn link(&self, state: &mut State) -> Result<Arc<Link>, Errno> {
        if let Some(link) = state.link.upgrade().or_else(|| state.spare.clone()) {
            return Ok(link);
        }
        let opened = self.open_link((self.opener)()?);
        opened.map_err(|error| {
            log::error!("{error}");
            Errno::ENODEV
        })
    }

    /// Before anything that takes a lock, which a thread of the parent may have held at a fork.
    fn own_process(&self) -> Result<(), Errno> {
        if self.fork.is_here() { Ok(()) } else { Err(Errno::EBADF) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kfd for Virtio {
    /// # Errors
    /// `ENODEV` where the host has no worker any more; `EPROTO`.
    fn topology(&self) -> Result<Tree, Errno> {
        self.own_process()?;
        let link = {
            let mut state = self.state();
            let link = self.link(&mut state)?;
            if state.link.strong_count() == 0 {
                state.spare = Some(Arc::clone(&link));
            }
            link
        };
        topology::read(&link.calls, Guest::look())
    }

    /// # Errors
    /// `EINVAL` for another process than this one; `EBADF` in a child of the process that made this; `ENODEV` without a worker.
    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        self.own_process()?;
        let own = self.fork.pid();
        if caller.pid != own {
            log::error!("a virtual machine's GPUs serve process {own} here, not process {}", caller.pid);
            return Err(Errno::EINVAL);
        }
        let mut state = self.state();
        if let Some(process) = state.process.upgrade() {
            return Ok(process);
        }
        let link = self.link(&mut state)?;
        state.spare = None;
        state.link = Arc::downgrade(&link);
        let process = Arc::new(VirtioProcess::new(link));
        state.process = Arc::downgrade(&process);
        Ok(process)
    }
}
