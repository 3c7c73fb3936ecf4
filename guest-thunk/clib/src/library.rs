//! The one library of this process.

use std::sync::{Arc, OnceLock};

use hsakmt::engine::Opened;
use hsakmt::native::{KernelReaches, Native, Paths};
use hsakmt::{Connection, Engine, Library, Options, Result};
use protocol::hsakmt::Status;

use crate::{drm, logging};

static LIBRARY: Library = Library::new();

/// `hsaKmtOpenKFD`.
///
/// # Errors
/// See [`Library::open`].
pub fn open() -> Result<Opened> {
    logging::set_up();
    watch_forks()?;
    LIBRARY.open(Options::from_env, connect)
}

/// `hsaKmtCloseKFD`.
///
/// # Errors
/// See [`Library::close`].
pub fn close() -> Result<()> {
    LIBRARY.close().map(|_| ())
}

/// The engine, while the library is open.
///
/// # Errors
/// `KERNEL_IO_CHANNEL_NOT_OPENED`.
pub fn engine() -> Result<&'static Engine> {
    LIBRARY.engine()
}

/// The kernel's KFD.
fn connect() -> Result<Connection> {
    let native = Arc::new(Native::with_render_opener(Paths::default(), drm::open_render_node));
    let abandoned = Arc::clone(&native);
    Ok(Connection {
        device: native,
        mem: Arc::new(KernelReaches),
        abandon: Box::new(move || {
            drm::abandon();
            abandoned.abandon_in_child();
        }),
    })
}

/// Has the child of each fork told, so that it does not take its parent's connection for its own, and sees to it that no
/// other thread holds the locks of the log and of libdrm then.
fn watch_forks() -> Result<()> {
    static WATCHED: OnceLock<i32> = OnceLock::new();
    let failed = *WATCHED.get_or_init(|| {
        // SAFETY: the handlers are functions of this library, which is never unloaded (`-z nodelete`); all they do in
        // the child is to store to an atomic and to unlock mutexes that the same thread has locked.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) }
    });
    if failed == 0 {
        return Ok(());
    }
    log::error!("pthread_atfork fails with {failed}: a forked child would use its parent's connection");
    Err(Status::NoMemory)
}

/// In this order: who opens a device writes messages meanwhile.
extern "C" fn before_fork() {
    drm::OPENING.lock();
    logging::WRITING.lock();
}

extern "C" fn after_fork() {
    logging::WRITING.unlock();
    drm::OPENING.unlock();
}

extern "C" fn in_child() {
    after_fork();
    LIBRARY.forked();
}
