//! The executor of a context: a KFD, and the guest's calls to it by way of `protocol::wire`.
//!
//! Threats: everything that the guest writes is hostile and changes at any time: words, slots, requests, gathered memory,
//! doorbells. Requests are copied out before they are looked at; no Rust reference to guest memory exists but those of
//! atomics. Addresses are checked against the one range that is the guest's; nothing of this process lies in it but the
//! guest's own memory, so that a KFD that follows them finds nothing else. What a guest can make this process spend is
//! bounded by [`Config`].
//!
//! Threads: the one that calls [`Executor`] never waits for the guest. One takes the calls ([`server`]); those that take
//! long run on others ([`pool`]). One carries doorbells over ([`relay`]).

mod area;
mod blob;
mod config;
mod grants;
mod ioctl;
mod kernel;
mod mapping;
mod open;
mod policy;
mod pool;
mod range;
mod relay;
mod server;
mod session;
mod space;
mod topology;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use protocol::Errno;
use protocol::kfd::Kfd;
use protocol::wire::Submission;

use super::allowance::Allowance;
use super::{Done, Executor, GuestBlob, Released};
use area::Area;
use blob::Blobs;
pub use config::Config;
use mapping::Mappings;
pub use open::{OpenError, open};
pub use policy::Permissions;
pub(super) use policy::kernel_calls;
use server::Server;
use session::Session;

/// Executes a context's calls on a KFD.
pub struct KfdExecutor {
    config: Config,
    /// This process, which cannot ask for it once it is locked in.
    pid: u32,
    kfd: Arc<dyn Kfd>,
    mappings: Arc<Mappings>,
    allowance: Arc<Allowance>,
    blobs: Arc<Blobs>,
    running: Mutex<Running>,
}

/// How far the context is.
#[derive(Debug, Default)]
struct Running {
    session: Option<Arc<Session>>,
    thread: Option<JoinHandle<()>>,
    ended: bool,
}

impl KfdExecutor {
    /// Nothing is opened and no thread is started before the guest says where its calls are.
    #[must_use]
    pub fn new(kfd: Arc<dyn Kfd>, config: Config) -> KfdExecutor {
        let mappings = Arc::new(Mappings::of_this_kernel());
        let blobs = Arc::new(Blobs::new(Arc::clone(&mappings)));
        let (pid, allowance) = (std::process::id(), Arc::new(Allowance::unlimited()));
        KfdExecutor { config, pid, kfd, mappings, allowance, blobs, running: Mutex::default() }
    }

    /// With memory that the device process grants.
    #[must_use]
    pub fn with_allowance(self, allowance: Allowance) -> KfdExecutor {
        KfdExecutor { allowance: Arc::new(allowance), ..self }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_up(&self, resource: u32) -> Result<(), Errno> {
        let mut running = self.running();
        if running.session.is_some() || running.ended {
            return Err(Errno::EEXIST);
        }
        let session = Arc::new(Session::new(Area::first(self.blobs.get(resource)?)?));
        let server = Server::new(
            Arc::clone(&session),
            Arc::clone(&self.blobs),
            self.config.clone(),
            self.pid,
            Arc::clone(&self.kfd),
            Arc::clone(&self.mappings),
            Arc::clone(&self.allowance),
        );
        let thread = thread::Builder::new().name("kfd-calls".into()).spawn(move || server.serve());
        let thread = thread.map_err(|error| {
            log::error!("no thread for the calls of the guest: {error}");
            Errno::EAGAIN
        })?;
        (running.session, running.thread) = (Some(session), Some(thread));
        Ok(())
    }
}

impl Executor for KfdExecutor {
    fn attach(&self, blob: GuestBlob) {
        self.blobs.attach(blob);
    }

    fn detach(&self, id: u32, released: Released) {
        self.blobs.detach(id, released);
    }

    fn submit(&self, _ring: Option<u8>, bytes: &[u8], done: Done) {
        let submission = match Submission::decode(bytes) {
            Ok(submission) => submission,
            Err(error) => {
                log::warn!("a submission is none: {error}");
                return done.fail();
            }
        };
        if let Submission::Setup { resource } = submission {
            match self.set_up(resource) {
                Ok(()) => done.complete(),
                Err(errno) => {
                    log::warn!("blob {resource} does not become the call area: {errno}");
                    done.fail();
                }
            }
            return;
        }
        let session = self.running().session.clone();
        match (session, submission) {
            (Some(session), Submission::Kick) => {
                session.kick();
                done.complete();
            }
            (Some(session), Submission::Wake { seen }) => session.wake(seen, done),
            (None, _) | (_, Submission::Setup { .. }) => {
                log::warn!("a submission comes before the call area is set up");
                done.fail();
            }
        }
    }

    fn granted(&self, granted: bool, left: u64) {
        self.allowance.answer(granted, left);
    }

    fn end(&self) {
        // Who calls this is who would hear an answer.
        self.allowance.end();
        let mut running = self.running();
        running.ended = true;
        let (session, thread) = (running.session.take(), running.thread.take());
        drop(running);
        if let Some(session) = &session {
            session.end();
        }
        self.blobs.end_waits();
        // With the thread go queues, registrations and aliases.
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of the guest's calls panicked");
        }
        drop(session);
        self.blobs.clear();
    }
}
