//! Contexts of tests: they keep what they get until the test lets go of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use protocol::virtio_gpu::Failure;
use vhost_device_kfd::device::{Answer, BlobUse, Context, ContextInfo, Contexts, Hold, Submission};

/// What all contexts of a device did. Shared with the test.
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<Log>>);

#[derive(Default)]
pub struct Log {
    /// Contexts that were made.
    pub made: Vec<ContextInfo>,
    /// Submissions: context, ring, bytes.
    pub submitted: Vec<(u32, Option<u8>, Vec<u8>)>,
    /// Their answers with their context, by the first byte, if they are not given at once.
    pub answers: HashMap<u8, (u32, Answer)>,
    /// Blobs in use: context and blob.
    pub uses: HashMap<(u32, u32), BlobUse>,
    /// Blobs that were detached, and contexts that ended, and are held on to.
    pub detached: Vec<BlobUse>,
    pub ended: Vec<Hold>,
    /// Answer submissions later.
    pub defer: bool,
    /// Keep what should be let go of.
    pub cling: bool,
    /// Panic at the next submission.
    pub panic: bool,
}

impl Probe {
    pub fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A probe whose contexts answer when the test says so.
    pub fn deferring() -> Probe {
        let probe = Probe::default();
        probe.log().defer = true;
        probe
    }

    /// Completes the submission that began with this byte.
    pub fn complete(&self, first: u8) {
        let (_, answer) = self.log().answers.remove(&first).expect("a submission");
        answer.complete(Ok(()));
    }

    /// Lets go of everything that was clung to.
    pub fn let_go(&self) {
        let mut log = self.log();
        log.cling = false;
        let things = (std::mem::take(&mut log.detached), std::mem::take(&mut log.ended));
        drop(log);
        drop(things);
    }
}

struct Probed {
    id: u32,
    probe: Probe,
}

impl Contexts for Probe {
    fn create(&self, info: ContextInfo) -> Result<Box<dyn Context>, Failure> {
        let id = info.id;
        self.log().made.push(info);
        Ok(Box::new(Probed { id, probe: self.clone() }))
    }
}

impl Context for Probed {
    fn attach(&mut self, blob: BlobUse) -> Result<(), Failure> {
        self.probe.log().uses.insert((self.id, blob.blob().id()), blob);
        Ok(())
    }

    fn detach(&mut self, resource_id: u32) {
        let mut log = self.probe.log();
        let gone = log.uses.remove(&(self.id, resource_id)).expect("it was attached");
        if log.cling {
            log.detached.push(gone);
        } else {
            drop(log);
            drop(gone);
        }
    }

    fn submit(&mut self, submission: Submission<'_>) {
        let mut log = self.probe.log();
        assert!(!std::mem::take(&mut log.panic), "a test's panic");
        log.submitted.push((self.id, submission.ring, submission.bytes.to_vec()));
        if log.defer {
            log.answers.insert(submission.bytes[0], (self.id, submission.answer));
        } else {
            drop(log);
            submission.answer.complete(Ok(()));
        }
    }

    fn destroy(self: Box<Self>, done: Hold) {
        let mut log = self.probe.log();
        let mine: Vec<_> = log.uses.keys().copied().filter(|(context, _)| *context == self.id).collect();
        let mut gone: Vec<_> = mine.iter().filter_map(|key| log.uses.remove(key)).collect();
        let open: Vec<u8> =
            log.answers.iter().filter(|(_, (id, _))| *id == self.id).map(|(first, _)| *first).collect();
        let answers: Vec<_> = open.iter().filter_map(|first| log.answers.remove(first)).collect();
        if log.cling {
            log.detached.append(&mut gone);
            log.ended.push(done.clone());
        }
        drop(log);
        drop((answers, gone, done));
    }
}

/// Contexts that keep blobs, and refuse every submission.
#[derive(Clone, Copy, Default)]
pub struct NoWorkers;

struct WithoutWorker(HashMap<u32, BlobUse>);

impl Contexts for NoWorkers {
    fn create(&self, _info: ContextInfo) -> Result<Box<dyn Context>, Failure> {
        Ok(Box::new(WithoutWorker(HashMap::new())))
    }
}

impl Context for WithoutWorker {
    fn attach(&mut self, blob: BlobUse) -> Result<(), Failure> {
        self.0.insert(blob.blob().id(), blob);
        Ok(())
    }

    fn detach(&mut self, resource_id: u32) {
        self.0.remove(&resource_id);
    }

    fn submit(&mut self, submission: Submission<'_>) {
        submission.answer.complete(Err(Failure::Unspecified));
    }

    fn destroy(self: Box<Self>, _done: Hold) {}
}
