//! The one library of this process.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use hsakmt::engine::Opened;
use hsakmt::native::{KernelReaches, Native, Paths};
use hsakmt::virtio::{OwnMemory, Virtio};
use hsakmt::{Connection, Engine, Library, Options, Result};
use protocol::hsakmt::Status;

use crate::transport::{self, Found};
use crate::{drm, logging};

static LIBRARY: Library = Library::new();

/// The device, while it is a virtual machine's.
static VIRTIO: AtomicPtr<Virtio> = AtomicPtr::new(ptr::null_mut());

/// `hsaKmtOpenKFD`.
///
/// # Errors
/// See [`Library::open`].
pub fn open() -> Result<Opened> {
    logging::set_up();
    watched()?;
    LIBRARY.open(Options::from_env, connect)
}

/// `vhsaKmtOpenKFD`.
///
/// # Errors
/// See [`Library::open`]; `KERNEL_IO_CHANNEL_NOT_OPENED` too where the library is open over the kernel's KFD.
pub fn open_virtio() -> Result<Opened> {
    logging::set_up();
    watched()?;
    let opened = LIBRARY.open(Options::from_env, || transport::find_virtio().map(virtual_machine))?;
    if virtio().is_none() {
        log::warn!("vhsaKmtOpenKFD: the library is open over the kernel's KFD");
        LIBRARY.close()?;
        return Err(Status::KernelIoChannelNotOpened);
    }
    Ok(opened)
}

/// Refuses what works over virtio alone.
///
/// # Errors
/// `KERNEL_IO_CHANNEL_NOT_OPENED` unless the library is open over virtio.
pub fn over_virtio() -> Result<()> {
    virtio().ok_or(Status::KernelIoChannelNotOpened)?;
    engine().map(drop)
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

/// The device of this process: the host's GPUs in a virtual machine, or the kernel's KFD.
fn connect() -> Result<Connection> {
    match transport::find()? {
        Found::Native => Ok(native()),
        Found::Virtio(virtio) => Ok(virtual_machine(virtio)),
    }
}

/// The kernel's KFD.
fn native() -> Connection {
    let native = Arc::new(Native::with_render_opener(Paths::default(), drm::open_render_node));
    let abandoned = Arc::clone(&native);
    VIRTIO.store(ptr::null_mut(), Ordering::Release);
    Connection {
        device: native,
        mem: Arc::new(KernelReaches),
        abandon: Box::new(move || {
            drm::abandon();
            abandoned.abandon_in_child();
        }),
    }
}

/// The host's GPUs.
fn virtual_machine(virtio: Virtio) -> Connection {
    let virtio = Arc::new(virtio);
    // One for each process that opens the library; it is there until the process ends, as the engine.
    VIRTIO.store(Arc::into_raw(Arc::clone(&virtio)).cast_mut(), Ordering::Release);
    let abandoned = Arc::clone(&virtio);
    Connection {
        device: virtio,
        mem: Arc::new(OwnMemory),
        abandon: Box::new(move || abandoned.abandon_in_child()),
    }
}

/// The device, if it is a virtual machine's.
pub fn virtio() -> Option<&'static Virtio> {
    // SAFETY: the pointer is null or came from `Arc::into_raw` of a reference that is never given back.
    unsafe { VIRTIO.load(Ordering::Acquire).as_ref() }
}

/// What `pthread_atfork` answered, or [`UNASKED`].
static WATCHED: AtomicI32 = AtomicI32::new(UNASKED);
const UNASKED: i32 = -1;

/// Has the child of each fork told, so that it does not take its parent's connection for its own, and sees to it that no
/// other thread holds the locks of the log and of libdrm then.
///
/// Called when the library is loaded: a process that forks while it opens the library for the first time is watched too.
extern "C" fn watch_forks() {
    // SAFETY: the handlers are functions of this library, which is never unloaded (`-z nodelete`); all they do in
    // the child is to store to an atomic, to unlock mutexes that the same thread has locked, and to close a descriptor.
    let failed = unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    WATCHED.store(failed, Ordering::Release);
}

// SAFETY: the section holds pointers to functions that the loader calls with the program's arguments, before others can call this
// library and with all that the C library needs; this one takes no arguments, which the ABI allows.
#[unsafe(link_section = ".init_array")]
#[used]
static WATCH_FORKS: extern "C" fn() = watch_forks;

/// That each fork is told.
fn watched() -> Result<()> {
    match WATCHED.load(Ordering::Acquire) {
        0 => Ok(()),
        failed => {
            log::error!(
                "pthread_atfork fails with {failed}: a forked child would use its parent's connection"
            );
            Err(Status::NoMemory)
        }
    }
}

/// In this order: who sets the log up or opens a device writes messages meanwhile.
extern "C" fn before_fork() {
    logging::SETTING_UP.lock();
    drm::OPENING.lock();
    logging::WRITING.lock();
}

extern "C" fn after_fork() {
    logging::WRITING.unlock();
    drm::OPENING.unlock();
    logging::SETTING_UP.unlock();
}

extern "C" fn in_child() {
    after_fork();
    LIBRARY.forked();
    // At once, whether the child ever opens the library or not: the host keeps the parent's context as long as anybody has its
    // descriptor.
    if let Some(virtio) = virtio() {
        virtio.abandon_in_child();
    }
}
