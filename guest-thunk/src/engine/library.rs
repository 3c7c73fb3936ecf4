//! The library as a C program sees it: opened and closed by counting, and started afresh after a fork.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use protocol::hsakmt::Status;
use protocol::kfd::{Kfd, UserMem};

use super::{Engine, Options, Result};

/// A way to a KFD, as whoever opens the library chose it.
pub struct Connection {
    /// The device.
    pub device: Arc<dyn Kfd>,
    /// This process's memory, for devices that run in it.
    pub mem: Arc<dyn UserMem>,
    /// Called in a forked child: lets go of what it inherited of the connection (descriptors), without taking a
    /// lock, which another thread of the parent may have held at the fork.
    pub abandon: Box<dyn Fn() + Send + Sync>,
}

/// What `hsaKmtOpenKFD` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It was closed before.
    First,
    /// It was open already and has to be closed once more (`KERNEL_ALREADY_OPENED`, which is no failure).
    Again,
}

/// What `hsaKmtCloseKFD` left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Somebody else has it open still.
    StillOpen,
    /// That was the last.
    Last,
}

/// The process-wide state behind the C functions.
///
/// A forked child gets nothing of its parent: not the files (KFD answers `EBADF` to it), not the buffers, and not the
/// locks, which threads may have held that do not exist in the child. So the child leaves the parent's state untouched
/// where it lies and makes a new one.
pub struct Library {
    current: AtomicPtr<Instance>,
}

/// The state of one process. Never freed: a pointer that a thread has read stays good.
struct Instance {
    pid: u32,
    /// Set in the child by the handler of `fork`, which may do no more than that.
    forked: AtomicBool,
    /// Opens less closes.
    count: AtomicU32,
    /// One open or close at a time.
    changing: Mutex<()>,
    connected: OnceLock<Connected>,
    /// What this process inherited. Nobody follows it; tools that look for lost memory see that it is there.
    _inherited: Option<&'static Instance>,
}

struct Connected {
    engine: Engine,
    abandon: Box<dyn Fn() + Send + Sync>,
}

impl Default for Library {
    fn default() -> Self {
        Self::new()
    }
}

impl Library {
    /// A closed library.
    #[must_use]
    pub const fn new() -> Self {
        Self { current: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Opens the library, or counts one more user. `connect` is asked for the device at a process's first open; later ones
    /// go on with what that gave.
    ///
    /// # Errors
    /// What `connect` and [`Engine::new`] answer. Nothing is kept then: the next open tries again.
    pub fn open(
        &self,
        options: impl FnOnce() -> Options,
        connect: impl FnOnce() -> Result<Connection>,
    ) -> Result<Opened> {
        let instance = self.own_instance();
        let _changing = instance.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let count = instance.count.load(Ordering::Relaxed);
        let more = count.checked_add(1).ok_or(Status::OutOfResources)?;
        if instance.connected.get().is_none() {
            let Connection { device, mem, abandon } = connect()?;
            let engine = Engine::new(&device, mem, options())?;
            // Nobody else sets it: this is the only place, under the lock.
            let _ = instance.connected.set(Connected { engine, abandon });
        }
        instance.count.store(more, Ordering::Release);
        Ok(if count == 0 { Opened::First } else { Opened::Again })
    }

    /// One user less. A forked child that has not opened the library itself gives back what it inherited of its parent's
    /// count, so that code that runs at exit in both need not know which it is in.
    ///
    /// # Errors
    /// `KERNEL_IO_CHANNEL_NOT_OPENED` if it is not open.
    pub fn close(&self) -> Result<Closed> {
        let instance = self.instance().ok_or(Status::KernelIoChannelNotOpened)?;
        if instance.is_inherited() {
            return instance.close_inherited();
        }
        let _changing = instance.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let count = instance.count.load(Ordering::Relaxed);
        let less = count.checked_sub(1).ok_or(Status::KernelIoChannelNotOpened)?;
        instance.count.store(less, Ordering::Release);
        if less > 0 {
            return Ok(Closed::StillOpen);
        }
        if let Some(connected) = instance.connected.get() {
            connected.engine.close();
        }
        Ok(Closed::Last)
    }

    /// The engine, while the library is open in this very process. Takes no lock: every call begins here.
    ///
    /// # Errors
    /// `KERNEL_IO_CHANNEL_NOT_OPENED`.
    pub fn engine(&self) -> Result<&'static Engine> {
        let open = self.live_instance().filter(|instance| instance.count.load(Ordering::Acquire) > 0);
        let connected = open.and_then(|instance| instance.connected.get());
        connected.map(|connected| &connected.engine).ok_or(Status::KernelIoChannelNotOpened)
    }

    /// To be called in the child of a fork (`pthread_atfork`): until it opens the library itself, all its calls answer that
    /// it is not open.
    pub fn forked(&self) {
        if let Some(instance) = self.instance() {
            instance.forked.store(true, Ordering::Release);
        }
    }

    fn instance(&self) -> Option<&'static Instance> {
        // SAFETY: the pointer is null or came from `Box::leak` in `own_instance`; it is never freed, and all
        // that can be changed behind it is behind atomics and locks.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    fn live_instance(&self) -> Option<&'static Instance> {
        self.instance().filter(|instance| !instance.is_inherited())
    }

    /// This process's state. Made anew where there is none, or only a parent's: the process id is compared too, because a
    /// process can fork without the C library's handlers (the bare system call).
    fn own_instance(&self) -> &'static Instance {
        let pid = std::process::id();
        loop {
            let old = self.instance();
            if let Some(instance) = old
                && instance.pid == pid
                && !instance.is_inherited()
            {
                return instance;
            }
            let new: *mut Instance = Box::leak(Box::new(Instance::new(pid, old)));
            let expected = old.map_or(std::ptr::null_mut(), |old| std::ptr::from_ref(old).cast_mut());
            if self.current.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: `new` came from `Box::leak` just above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                continue;
            }
            if let Some(connected) = old.and_then(|old| old.connected.get()) {
                (connected.abandon)();
            }
        }
    }
}

impl Instance {
    /// Whether it is a parent's, as far as this process has noticed.
    fn is_inherited(&self) -> bool {
        let refused = |connected: &Connected| connected.engine.channel.is_inherited();
        self.forked.load(Ordering::Acquire) || self.connected.get().is_some_and(refused)
    }

    /// Counts alone: the parent's lock may be held for ever in this child, and its engine is not the child's to close.
    fn close_inherited(&self) -> Result<Closed> {
        let less = |count: u32| count.checked_sub(1);
        match self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(1) => Ok(Closed::Last),
            Ok(_) => Ok(Closed::StillOpen),
            Err(_) => Err(Status::KernelIoChannelNotOpened),
        }
    }

    fn new(pid: u32, inherited: Option<&'static Instance>) -> Self {
        Self {
            pid,
            forked: AtomicBool::new(false),
            count: AtomicU32::new(0),
            changing: Mutex::new(()),
            connected: OnceLock::new(),
            _inherited: inherited,
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.live_instance().map_or(0, |instance| instance.count.load(Ordering::Relaxed));
        f.debug_struct("Library").field("count", &count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use softgpu::Profile;
    use softgpu::local_mem::LocalMem;

    use crate::engine::rig;

    use super::*;

    static ABANDONED: AtomicUsize = AtomicUsize::new(0);

    fn connect() -> Result<Connection> {
        let abandon = || {
            ABANDONED.fetch_add(1, Ordering::SeqCst);
        };
        Ok(Connection {
            device: rig::device(Profile::Mi210),
            mem: Arc::new(LocalMem),
            abandon: Box::new(abandon),
        })
    }

    fn open(library: &Library) -> Result<Opened> {
        library.open(Options::default, connect)
    }

    #[test]
    fn opens_are_counted_and_calls_need_one() {
        let library = Library::new();
        assert_eq!(library.engine().err(), Some(Status::KernelIoChannelNotOpened));
        assert_eq!(library.close(), Err(Status::KernelIoChannelNotOpened));
        assert_eq!(open(&library), Ok(Opened::First));
        assert_eq!(open(&library), Ok(Opened::Again));
        assert!(library.engine().is_ok());
        assert_eq!(library.close(), Ok(Closed::StillOpen));
        assert_eq!(library.close(), Ok(Closed::Last));
        assert_eq!(library.close(), Err(Status::KernelIoChannelNotOpened));
        assert!(library.engine().is_err());
    }

    // Case F06: nothing that a second open finds depends on the topology having been read.
    #[test]
    fn f06_a_second_open_needs_no_system_properties() {
        let library = Library::new();
        open(&library).unwrap();
        assert_eq!(open(&library), Ok(Opened::Again));
        let engine = library.engine().unwrap();
        assert_eq!(engine.node_properties(0).err(), Some(Status::InvalidNodeUnit), "no snapshot was taken");
        assert!(engine.acquire_system_properties().is_ok());
        assert!(engine.node_properties(0).is_ok());
    }

    #[test]
    fn a_second_life_goes_on_with_the_same_engine() {
        let library = Library::new();
        open(&library).unwrap();
        let first = std::ptr::from_ref(library.engine().unwrap());
        library.close().unwrap();
        assert_eq!(open(&library), Ok(Opened::First));
        assert_eq!(std::ptr::from_ref(library.engine().unwrap()), first);
    }

    #[test]
    fn a_failed_open_leaves_nothing_and_the_next_one_works() {
        let library = Library::new();
        let failed = library.open(Options::default, || Err(Status::KernelIoChannelNotOpened));
        assert_eq!(failed, Err(Status::KernelIoChannelNotOpened));
        assert_eq!(library.close(), Err(Status::KernelIoChannelNotOpened));
        assert_eq!(open(&library), Ok(Opened::First));
    }

    // Cases F01 and F02: the child opens for itself, and closes once what it inherited.
    #[test]
    fn a_forked_child_is_closed_until_it_opens_for_itself() {
        let library = Library::new();
        open(&library).unwrap();
        let parents = std::ptr::from_ref(library.engine().unwrap());
        let before = ABANDONED.load(Ordering::SeqCst);
        library.forked();
        assert!(library.engine().is_err());
        assert_eq!(library.close(), Ok(Closed::Last), "what it inherited");
        assert_eq!(library.close(), Err(Status::KernelIoChannelNotOpened));
        assert_eq!(open(&library), Ok(Opened::First));
        assert_ne!(std::ptr::from_ref(library.engine().unwrap()), parents);
        assert_eq!(ABANDONED.load(Ordering::SeqCst), before + 1);
        assert_eq!(library.close(), Ok(Closed::Last));
    }
}
