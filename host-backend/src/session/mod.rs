//! The connection to the VMM: its messages, and the thread that serves the queues.

mod handler;
mod queues;
mod shmem;

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use vhost::vhost_user::{BackendReqHandler, Error};

use crate::device::Device;
use handler::Handler;

/// Serves a VMM until it disconnects.
///
/// A message that is refused is logged, answered if the VMM asked for an answer, and has no other effect.
pub fn run(device: &Arc<Device>, connection: UnixStream) -> Result<(), Error> {
    let handler = Handler::new(Arc::clone(device)).map_err(Error::ReqHandlerError)?;
    let mut requests = BackendReqHandler::from_stream(connection, Arc::new(Mutex::new(handler)));
    let result = loop {
        match requests.handle_request() {
            Ok(()) | Err(Error::SocketRetry(_)) => {}
            // How a VMM that ends looks depends on what it was about to say.
            Err(Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_)) => break Ok(()),
            Err(error @ (Error::SocketError(_) | Error::OversizedMsg)) => break Err(error),
            Err(error) => log::error!("a message of the VMM is refused: {error}"),
        }
    };
    // Nobody answers the guest any more, but what works for it ends in order.
    drop(requests);
    device.reset();
    if let Some(window) = device.window() {
        window.set_vmm(None);
    }
    result
}
