//! How a process becomes a worker.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Why a process cannot be a worker.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A system call failed.
    #[error("cannot {0}: {1}")]
    Call(&'static str, rustix::io::Errno),
    /// Standard input is something else.
    #[error("standard input is not the socket of a device process; workers are started by the daemon only")]
    NoSocket,
    /// The daemon ended meanwhile.
    #[error("the daemon that started this worker is gone")]
    Orphan,
}

/// Makes this process a worker of the process `daemon`, with which it ends. Returns the socket to the device process,
/// which came as standard input; `/dev/null` takes its place.
///
/// # Safety
/// All descriptors above 2 are closed: nothing in the process may have one.
///
/// # Errors
/// When the process was not started as a worker.
pub unsafe fn start(daemon: Pid) -> Result<OwnedFd, StartError> {
    let failed = |what| move |errno| StartError::Call(what, errno);
    end_with(daemon)?;
    // SAFETY: the caller says that nobody has them. Descriptors of the daemon that are not close-on-exec (those that
    // it inherited itself, for one) have no business here.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed != 0 {
        let errno = rustix::io::Errno::from_io_error(&std::io::Error::last_os_error());
        return Err(StartError::Call("close what was inherited", errno.unwrap_or(rustix::io::Errno::IO)));
    }
    let stdin = std::io::stdin();
    let kind = (sockopt::socket_domain(&stdin), sockopt::socket_type(&stdin));
    if kind != (Ok(AddressFamily::UNIX), Ok(SocketType::SEQPACKET)) {
        return Err(StartError::NoSocket);
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(&stdin, 3).map_err(failed("copy the socket"))?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    rustix::stdio::dup2_stdin(null.map_err(failed("open /dev/null"))?)
        .map_err(failed("replace standard input"))?;
    Ok(socket)
}

/// This process is killed when its parent, which must be `daemon`, ends. The kernel forgets it where privileges change.
///
/// # Errors
/// When the parent has ended already.
pub fn end_with(daemon: Pid) -> Result<(), StartError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| StartError::Call("ask to end with the daemon", errno))?;
    // It may have ended before the request.
    if getppid() == Some(daemon) { Ok(()) } else { Err(StartError::Orphan) }
}
