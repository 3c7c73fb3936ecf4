//! Signal masks and signalfd, which rustix leaves to libc.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Signals that end or steer a program and that the supervisor passes on.
pub const FORWARDED: [i32; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// A set of signals.
#[must_use]
pub fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `set` has room for a signal set, which the call initialises.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised by the call above, which cannot fail for a valid pointer.
    let mut set = unsafe { set.assume_init() };
    for &signal in signals {
        // SAFETY: `set` is initialised; an invalid number is answered with an error and adds nothing.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

/// Adds `signals` to the calling thread's mask and returns the mask from before.
///
/// # Errors
/// None that a valid set can cause.
pub fn block(signals: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    change_mask(libc::SIG_BLOCK, signals)
}

/// Sets the calling thread's mask.
pub fn restore(mask: &libc::sigset_t) {
    let _ = change_mask(libc::SIG_SETMASK, mask);
}

fn change_mask(how: i32, signals: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut old = set_of(&[]);
    // SAFETY: both point to initialised sets that live as long as the call.
    let error = unsafe { libc::pthread_sigmask(how, std::ptr::from_ref(signals), &raw mut old) };
    if error == 0 { Ok(old) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// A descriptor that becomes readable when one of `signals`, which must be blocked, is pending.
///
/// # Errors
/// `EMFILE` and its like.
pub fn watch(signals: &libc::sigset_t) -> io::Result<OwnedFd> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the set is initialised and outlives the call; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, std::ptr::from_ref(signals), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned `fd` and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Blocks every signal and returns a descriptor that tells of SIGCHLD.
///
/// # Errors
/// `EMFILE` and its like.
pub fn block_all_and_watch_children() -> io::Result<OwnedFd> {
    let all: Vec<i32> = (1..=64).collect();
    block(&set_of(&all))?;
    watch(&set_of(&[libc::SIGCHLD]))
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether a process sent it; the rest comes from the kernel, such as Ctrl-C from the terminal.
    pub sent: bool,
}

/// The next pending signal of a descriptor from [`watch`].
pub fn next(fd: BorrowedFd<'_>) -> Option<Arrived> {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
    match retry_read(fd, &mut buffer) {
        Ok(length) if length == buffer.len() => {
            let word = |at: usize| {
                buffer.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes)
            };
            // ssi_signo and ssi_code; SI_USER is 0 and what processes send is not above it.
            Some(Arrived { signal: word(0), sent: word(8) <= 0 })
        }
        _ => None,
    }
}

fn retry_read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer))
}

/// Takes everything that is pending.
pub fn drain(fd: BorrowedFd<'_>) {
    while next(fd).is_some() {}
}

/// Ends the calling process the way `signal` would, without a core dump of its own.
pub fn die_of(signal: i32) -> ! {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // SAFETY: SIG_DFL is a valid disposition.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let only = set_of(&[signal]);
    let _ = change_mask(libc::SIG_UNBLOCK, &only);
    // SAFETY: sends a signal to the calling thread.
    unsafe { libc::raise(signal) };
    // Only a signal whose default is to do nothing gets here.
    std::process::exit(128 + signal)
}

/// What the user is told when memory of the device has no pages behind it.
const NO_MEMORY: &[u8] =
    b"softgpu: memory of the device is gone, and the run ends: the program truncated a file that it \
had registered, or the machine has no memory left for it\n";
/// Exit status of [`explain_bus_errors`].
const NO_MEMORY_STATUS: i32 = 125;

/// From now on a touch of memory that has no pages behind it ends the calling process with a line on standard error
/// and status 125. Without it the process would die of SIGBUS, as if the program had.
///
/// To be called when no more children are forked.
pub fn explain_bus_errors() {
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) = on_bus_error;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
    // SAFETY: `action` is initialised and its handler has the form that SA_SIGINFO asks for; the old one is not wanted.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
}

/// Calls nothing but what `signal-safety(7)` allows.
extern "C" fn on_bus_error(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    if code <= 0 {
        // Sent by a process: it shall end this one as ever.
        // SAFETY: sends a signal to the calling thread.
        unsafe { libc::raise(signal) };
        return;
    }
    // SAFETY: the bytes live for ever and are as many as said.
    unsafe { libc::write(2, NO_MEMORY.as_ptr().cast(), NO_MEMORY.len()) };
    // SAFETY: ends the process without running anything else of it.
    unsafe { libc::_exit(NO_MEMORY_STATUS) }
}
