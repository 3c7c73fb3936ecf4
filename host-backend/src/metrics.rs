//! Numbers for operators, in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::device::{Device, Window};
use crate::workers;
use crate::workers::supply::Supply;

/// Time between two states of the file.
const INTERVAL: Duration = Duration::from_secs(1);

/// The content of the file. Names are never given another meaning; new ones may come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Version of the daemon.
    pub version: &'static str,
    /// Its process.
    pub pid: u32,
    /// Time since it started, in seconds.
    pub uptime_seconds: u64,
    /// Workers that there are now.
    pub workers: u64,
    /// Blobs that there are now, with those that are not released yet.
    pub blobs: usize,
    /// Their pieces.
    pub blob_pieces: usize,
    /// Pieces that workers have now; those of a blob count for each context.
    pub attached_pieces: u64,
    /// Requests that are not answered now.
    pub open_requests: usize,
    /// Bytes of VRAM that workers were granted and have not given back.
    pub vram_granted_bytes: u64,
    /// The same of system memory that KFD allocates.
    pub host_granted_bytes: u64,
    /// Blobs that are in the window now. Each is a mapping of its worker.
    pub window_blobs: usize,
    /// Their bytes.
    pub window_bytes: u64,
    /// Contexts that were ever made.
    pub contexts_total: u64,
    /// Workers that ended before their context did, or had to be killed.
    pub worker_deaths_total: u64,
    /// Blobs that were ever given to a context.
    pub attachments_total: u64,
    /// Submissions ever.
    pub submissions_total: u64,
    /// Those that failed.
    pub submission_failures_total: u64,
}

/// Where the numbers come from.
pub struct Source {
    device: Arc<Device>,
    workers: Arc<workers::Metrics>,
    supply: Arc<Supply>,
    start: Instant,
}

impl Source {
    /// Numbers of this device and these workers, from now on.
    #[must_use]
    pub fn new(device: Arc<Device>, workers: Arc<workers::Metrics>, supply: Arc<Supply>) -> Source {
        Source { device, workers, supply, start: Instant::now() }
    }

    /// The numbers now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (blobs, blob_pieces) = self.device.ledger().in_use();
        let (vram_granted_bytes, host_granted_bytes) = self.supply.granted();
        let (window_blobs, window_bytes) = self.device.window().map(Window::taken).unwrap_or_default();
        Snapshot {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_seconds: self.start.elapsed().as_secs(),
            workers: self.workers.processes(),
            blobs,
            blob_pieces,
            attached_pieces: count(&self.workers.pieces),
            open_requests: self.device.open_requests(),
            vram_granted_bytes,
            host_granted_bytes,
            window_blobs,
            window_bytes,
            contexts_total: count(&self.workers.contexts),
            worker_deaths_total: count(&self.workers.deaths),
            attachments_total: count(&self.workers.attachments),
            submissions_total: count(&self.workers.submissions),
            submission_failures_total: count(&self.workers.failures),
        }
    }
}

/// A file that is kept up to date.
struct Written {
    path: PathBuf,
    source: Source,
    /// The last state may be asked for while a state is written.
    writing: Mutex<()>,
}

impl Written {
    fn write(&self) -> io::Result<()> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = serde_json::to_vec_pretty(&self.source.snapshot()).map_err(io::Error::other)?;
        bytes.push(b'\n');
        replace(&self.path, &bytes)
    }
}

/// Gives a file this content, so that a reader sees all of the old one or all of the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut new = name.to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(new);
    let result =
        open(&new).and_then(|mut file| file.write_all(bytes)).and_then(|()| std::fs::rename(&new, path));
    if result.is_err() {
        // Whatever is wrong with it was said already.
        drop(std::fs::remove_file(&new));
    }
    result
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).open(path)
}

/// Writes the file until it is dropped, and then a last time.
pub struct Writer {
    written: Arc<Written>,
    /// The thread ends when it is dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Writes the file, and goes on.
    ///
    /// # Errors
    /// When the file cannot be written, or the thread cannot be started.
    pub fn start(path: PathBuf, source: Source) -> io::Result<Writer> {
        let written = Arc::new(Written { path, source, writing: Mutex::default() });
        written.write()?;
        let (end, ended) = channel::<()>();
        let periodically = Arc::clone(&written);
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            let mut complained = false;
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let result = periodically.write();
                if let (Err(error), false) = (&result, complained) {
                    log::warn!("the metrics are not written: {error}");
                }
                complained = result.is_err();
            }
        })?;
        Ok(Writer { written, end: Some(end), thread: Some(thread) })
    }

    /// What writes the last state when the process is ended by a signal.
    pub fn last(&self) -> impl Fn() + Send + 'static {
        let written = Arc::clone(&self.written);
        move || drop(written.write())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        if let Err(error) = self.written.write() {
            log::warn!("the last metrics are not written: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Limits;
    use crate::link::Stock;
    use crate::workers::{Bounds, Program, Workers};

    #[test]
    fn the_file_is_there_from_the_start_and_up_to_date_at_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("metrics.json");
        let workers = Workers::new(Program::own(["x"]), Bounds::default()).expect("a thread");
        let (metrics, supply) = (workers.metrics(), workers.supply());
        let device = Arc::new(Device::new(Box::new(workers), Limits::default()));
        let source = Source::new(device, Arc::clone(&metrics), Arc::clone(&supply));
        let writer = Writer::start(path.clone(), source).expect("written");
        let read = || {
            let bytes = std::fs::read(&path).expect("a file");
            serde_json::from_slice::<serde_json::Value>(&bytes).expect("JSON")
        };
        assert_eq!(read()["submissions_total"], 0);
        assert_eq!(read()["pid"], std::process::id());
        metrics.submissions.fetch_add(3, Ordering::Relaxed);
        writer.last()();
        assert_eq!(read()["submissions_total"], 3);
        metrics.deaths.fetch_add(2, Ordering::Relaxed);
        let mut share = supply.share();
        share.ask(Stock::Vram(3), 5).expect("a GPU");
        share.ask(Stock::Host, 7).expect("a host");
        drop(writer);
        let last = read();
        assert_eq!(last["worker_deaths_total"], 2);
        assert_eq!((&last["vram_granted_bytes"], &last["host_granted_bytes"]), (&5.into(), &7.into()));
        assert_eq!((&last["window_blobs"], &last["window_bytes"]), (&0.into(), &0.into()));
        // Nothing else is left.
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said_at_once() {
        for path in ["/nonexistent/file", "/proc/version", "/"] {
            let workers = Workers::new(Program::own(["x"]), Bounds::default()).expect("a thread");
            let (metrics, supply) = (workers.metrics(), workers.supply());
            let device = Arc::new(Device::new(Box::new(workers), Limits::default()));
            assert!(Writer::start(path.into(), Source::new(device, metrics, supply)).is_err(), "{path}");
        }
    }
}
