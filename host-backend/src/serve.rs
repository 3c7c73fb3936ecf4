//! Serving one VM.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vhost::vhost_user::{Error as VhostUserError, Listener};
use vhost_user_backend::VhostUserDaemon;

use crate::device::Device;

/// Why no VM can be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Something else has the name.
    #[error("{0} is there and is no socket")]
    NotASocket(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen on {0}: {1}")]
    Bind(PathBuf, io::Error),
    /// The descriptor is no listening socket.
    #[error("descriptor {0} is no listening Unix socket: {1}")]
    Descriptor(RawFd, String),
    /// The device cannot be set up.
    #[error("cannot set up the device: {0}")]
    Setup(vhost_user_backend::Error),
    /// The connection failed.
    #[error("the connection to the VMM failed: {0}")]
    Connection(vhost_user_backend::Error),
}

/// Makes the socket. One that is left from an earlier run is replaced.
pub fn bind(path: &Path) -> Result<Listener, ServeError> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => return Err(ServeError::NotASocket(path.to_owned())),
        Ok(_) => std::fs::remove_file(path).map_err(|error| ServeError::Bind(path.to_owned(), error))?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(|error| ServeError::Bind(path.to_owned(), error))?;
    Ok(Listener::from(listener))
}

/// Takes a listening socket that was passed to the process. It must not be used by anything else here.
pub fn inherit(fd: RawFd) -> Result<Listener, ServeError> {
    let refused = |why: &str| ServeError::Descriptor(fd, why.to_owned());
    if fd <= 2 {
        return Err(refused("0 to 2 are the standard streams"));
    }
    // SAFETY: the descriptor is only asked about; if it is not open, the calls say so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    match rustix::net::sockopt::socket_acceptconn(borrowed) {
        Ok(true) => {}
        Ok(false) => return Err(refused("it does not listen; connected sockets are not supported yet")),
        Err(errno) => return Err(refused(&errno.to_string())),
    }
    if !matches!(rustix::net::sockopt::socket_domain(borrowed), Ok(rustix::net::AddressFamily::UNIX)) {
        return Err(refused("it is of another family"));
    }
    // SAFETY: it is open, as was just seen, and the caller says that nothing else here uses it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(Listener::from(UnixListener::from(owned)))
}

/// Serves the first VM that connects, until it disconnects.
pub fn serve(device: &Arc<Device>, listener: &mut Listener) -> Result<(), ServeError> {
    let mut daemon = VhostUserDaemon::new("vhost-device-kfd".to_owned(), Arc::clone(device), device.memory())
        .map_err(ServeError::Setup)?;
    daemon.start(listener).map_err(ServeError::Connection)?;
    log::info!("a VMM is connected");
    let result = daemon.wait();
    // Nobody answers the guest any more, but what works for it ends in order.
    device.reset();
    match result {
        Ok(())
        | Err(vhost_user_backend::Error::HandleRequest(
            VhostUserError::Disconnected | VhostUserError::PartialMessage,
        )) => {
            log::info!("the VMM has disconnected");
            Ok(())
        }
        Err(error) => Err(ServeError::Connection(error)),
    }
}
