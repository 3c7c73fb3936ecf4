//! The worker's end of the socket to the device process.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use softgpu::seqpacket;

use super::{Executor, GuestBlob};
use crate::link::{FromWorker, LinkError, Place, ToWorker};

/// Why a worker ends before it is told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device process is gone.
    #[error("the device process has closed the socket")]
    Closed,
    /// The socket failed.
    #[error("the socket to the device process failed: {0}")]
    Socket(#[from] io::Error),
    /// A message is none.
    #[error("the device process sent {0}")]
    Malformed(#[from] LinkError),
    /// A message that does not fit to those before it.
    #[error("the device process broke the rules: {0}")]
    Rules(&'static str),
}

/// Serves a context: executes what the device process sends, until it says that the context ends.
///
/// Says first that the worker is ready; whatever it needs to open, it has.
///
/// # Errors
/// When the device process is gone or makes no sense. [`Executor::end`] was called then too.
pub fn run(socket: impl Into<Arc<OwnedFd>>, executor: Arc<dyn Executor>) -> Result<(), RunError> {
    let socket = socket.into();
    let result = FromWorker::Ready
        .send(&socket)
        .map_err(RunError::from)
        .and_then(|()| Served::new(&socket, &*executor).until_the_end());
    executor.end();
    result
}

/// What the device process has sent so far.
struct Served<'a> {
    socket: Arc<OwnedFd>,
    executor: &'a dyn Executor,
    /// Files with guest memory, by number.
    files: HashMap<u32, Arc<OwnedFd>>,
    /// Attached blobs: their ids, by the number of the attachment.
    attached: HashMap<u64, u32>,
}

impl<'a> Served<'a> {
    fn new(socket: &Arc<OwnedFd>, executor: &'a dyn Executor) -> Served<'a> {
        Served { socket: Arc::clone(socket), executor, files: HashMap::new(), attached: HashMap::new() }
    }

    fn until_the_end(&mut self) -> Result<(), RunError> {
        loop {
            let (message, descriptors) = match seqpacket::receive(self.socket.as_fd()) {
                Ok(received) => received.ok_or(RunError::Closed)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            match ToWorker::decode(&message)? {
                ToWorker::End => return Ok(()),
                message => self.take(message, descriptors)?,
            }
        }
    }

    fn take(&mut self, message: ToWorker<'_>, descriptors: Vec<OwnedFd>) -> Result<(), RunError> {
        match message {
            ToWorker::File { file } => {
                let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors)
                    .map_err(|_| RunError::Rules("a file without its descriptor"))?;
                self.files.insert(file, Arc::new(descriptor));
            }
            ToWorker::Forget { file } => {
                self.files.remove(&file);
            }
            ToWorker::Attach { attachment, id, size, pieces } => {
                let blob = self.blob(id, size, &pieces)?;
                self.attached.insert(attachment, id);
                self.executor.attach(blob);
            }
            ToWorker::Detach { attachment } => {
                let id = self.attached.remove(&attachment);
                let id = id.ok_or(RunError::Rules("a blob is detached that is not attached"))?;
                let released = Released { socket: Some(Arc::clone(&self.socket)), attachment };
                self.executor.detach(id, released);
            }
            ToWorker::Submit { ticket, ring, bytes } => {
                let done = Done { socket: Some(Arc::clone(&self.socket)), ticket };
                self.executor.submit(ring, bytes, done);
            }
            ToWorker::Granted { granted, left } => self.executor.granted(granted, left),
            ToWorker::End => {}
        }
        Ok(())
    }

    fn blob(&self, id: u32, size: u64, places: &[Place]) -> Result<GuestBlob, RunError> {
        let piece = |place: &Place| {
            let file = self.files.get(&place.file).ok_or(RunError::Rules("a piece of an unknown file"))?;
            Ok((Arc::clone(file), place.offset, place.len))
        };
        let pieces = places.iter().map(piece).collect::<Result<Vec<_>, RunError>>()?;
        let sum = places.iter().try_fold(0_u64, |sum, place| sum.checked_add(place.len));
        if sum != Some(size) {
            return Err(RunError::Rules("a blob of another size than its pieces"));
        }
        Ok(GuestBlob { id, size, pieces })
    }
}

/// Sends, unless the device process is gone: then nobody waits for it.
fn tell(socket: &OwnedFd, message: &FromWorker) {
    if let Err(error) = message.send(socket) {
        log::debug!("{message:?} was not sent: {error}");
    }
}

/// The duty to say that nothing reaches the memory of a detached blob any more.
///
/// Only [`complete`](Released::complete) says it. Dropped without, for example by a panic, the guest does not get the
/// memory back before the worker has ended: a guest that waits is better than memory written by two owners.
#[derive(Debug)]
#[must_use = "the guest waits for its memory"]
pub struct Released {
    socket: Option<Arc<OwnedFd>>,
    attachment: u64,
}

impl Released {
    /// Nothing reaches the memory any more.
    pub fn complete(mut self) {
        if let Some(socket) = self.socket.take() {
            tell(&socket, &FromWorker::Released { attachment: self.attachment });
        }
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        if self.socket.is_some() {
            log::error!("a bug: a blob was not released; its memory stays in use until the context ends");
        }
    }
}

/// The duty to say that a submission is done. Dropping it says that it failed.
#[derive(Debug)]
#[must_use = "dropping it fails the submission"]
pub struct Done {
    socket: Option<Arc<OwnedFd>>,
    ticket: u64,
}

impl Done {
    /// The work is done: the fence may signal.
    pub fn complete(mut self) {
        self.send(true);
    }

    /// The submission failed; its fence signals all the same, and the log of the host tells it.
    pub fn fail(mut self) {
        self.send(false);
    }

    fn send(&mut self, ok: bool) {
        if let Some(socket) = self.socket.take() {
            tell(&socket, &FromWorker::Done { ticket: self.ticket, ok });
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.send(false);
    }
}

#[cfg(test)]
mod tests;
