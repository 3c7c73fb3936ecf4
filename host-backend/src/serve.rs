//! Serving one VM.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::net::{AddressFamily, sockopt};

use crate::device::Device;
use crate::session;

/// Why no VM can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Something else has the name.
    #[error("{0} is there and is no socket")]
    NotASocket(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen on {0}: {1}")]
    Bind(PathBuf, io::Error),
    /// The descriptor is no Unix socket.
    #[error("descriptor {0} is no Unix socket: {1}")]
    Descriptor(RawFd, String),
    /// No VMM comes.
    #[error("cannot take a connection: {0}")]
    Accept(io::Error),
    /// The connection failed.
    #[error("the connection to the VMM failed: {0}")]
    Connection(vhost::vhost_user::Error),
}

/// Where the VMM is.
#[derive(Debug)]
pub enum Endpoint {
    /// It will connect.
    Listener(UnixListener),
    /// It is connected.
    Connected(UnixStream),
}

/// Makes the socket. One that is left from an earlier run is replaced.
pub fn bind(path: &Path) -> Result<Endpoint, ServeError> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => return Err(ServeError::NotASocket(path.to_owned())),
        Ok(_) => std::fs::remove_file(path).map_err(|error| ServeError::Bind(path.to_owned(), error))?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(|error| ServeError::Bind(path.to_owned(), error))?;
    Ok(Endpoint::Listener(listener))
}

/// Takes a socket that was passed to the process, connected (QEMU, libvirt) or listening (systemd). It must not be
/// used by anything else here.
pub fn inherit(fd: RawFd) -> Result<Endpoint, ServeError> {
    let refused = |why: &str| ServeError::Descriptor(fd, why.to_owned());
    if fd <= 2 {
        return Err(refused("0 to 2 are the standard streams"));
    }
    // SAFETY: the descriptor is only asked about; if it is not open, the calls say so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let family = sockopt::socket_domain(borrowed).map_err(|errno| refused(&errno.to_string()))?;
    if family != AddressFamily::UNIX {
        return Err(refused("it is of another family"));
    }
    let listens = sockopt::socket_acceptconn(borrowed).map_err(|errno| refused(&errno.to_string()))?;
    // SAFETY: it is open, as was just seen, and the caller says that nothing else here uses it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    // It came open across an exec; the workers' is none of its business.
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| refused(&errno.to_string()))?;
    Ok(if listens {
        Endpoint::Listener(UnixListener::from(owned))
    } else {
        Endpoint::Connected(UnixStream::from(owned))
    })
}

/// Serves one VM, the first that connects, until it disconnects.
pub fn serve(device: &Arc<Device>, endpoint: Endpoint) -> Result<(), ServeError> {
    let connection = match endpoint {
        Endpoint::Listener(listener) => listener.accept().map_err(ServeError::Accept)?.0,
        Endpoint::Connected(connection) => connection,
    };
    log::info!("a VMM is connected");
    session::run(device, connection).map_err(ServeError::Connection)?;
    log::info!("the VMM has disconnected");
    Ok(())
}
