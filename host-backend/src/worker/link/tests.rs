use std::fs::File;
use std::sync::Mutex;
use std::thread::JoinHandle;

use super::*;

/// Keeps what it gets.
#[derive(Default)]
struct Keeps {
    blobs: Mutex<Vec<GuestBlob>>,
    released: Mutex<Vec<(u32, Released)>>,
    ended: Mutex<usize>,
}

impl Executor for Keeps {
    fn attach(&self, blob: GuestBlob) {
        self.blobs.lock().unwrap().push(blob);
    }

    fn detach(&self, id: u32, released: Released) {
        self.released.lock().unwrap().push((id, released));
    }

    fn submit(&self, ring: Option<u8>, bytes: &[u8], done: Done) {
        match bytes {
            b"ok" => done.complete(),
            b"failed" => done.fail(),
            b"dropped" => drop(done),
            _ => assert_eq!(ring, Some(3)),
        }
    }

    fn end(&self) {
        *self.ended.lock().unwrap() += 1;
    }
}

struct Rig {
    socket: OwnedFd,
    executor: Arc<Keeps>,
    worker: JoinHandle<Result<(), RunError>>,
}

impl Rig {
    fn start() -> Rig {
        let (socket, theirs) = seqpacket::pair().unwrap();
        let executor = Arc::<Keeps>::default();
        let theirs_too = Arc::clone(&executor);
        let worker = std::thread::spawn(move || run(theirs, theirs_too));
        let rig = Rig { socket, executor, worker };
        assert_eq!(rig.receive(), Some(FromWorker::Ready));
        rig
    }

    fn send(&self, message: &ToWorker<'_>) {
        message.send(self.socket.as_fd(), None).unwrap();
    }

    fn receive(&self) -> Option<FromWorker> {
        FromWorker::receive(&self.socket).unwrap()
    }

    fn send_file(&self, file: u32) {
        let null = File::open("/dev/null").unwrap();
        ToWorker::File { file }.send(self.socket.as_fd(), Some(null.as_fd())).unwrap();
    }

    fn submit(&self, ticket: u64, bytes: &[u8]) {
        self.send(&ToWorker::Submit { ticket, ring: Some(3), bytes });
    }

    /// How the worker ended, and that the executor was told so once.
    fn ended(self) -> Result<(), RunError> {
        let result = self.worker.join().unwrap();
        assert_eq!(*self.executor.ended.lock().unwrap(), 1);
        result
    }
}

fn attach(attachment: u64, id: u32, size: u64, pieces: &[(u32, u64, u64)]) -> ToWorker<'static> {
    let place = |&(file, offset, len): &(u32, u64, u64)| Place { file, offset, len };
    ToWorker::Attach { attachment, id, size, pieces: pieces.iter().map(place).collect() }
}

#[test]
fn a_submission_is_done_or_failed_once() {
    let rig = Rig::start();
    for (ticket, bytes, ok) in
        [(1, &b"ok"[..], true), (2, b"failed", false), (3, b"dropped", false), (4, b"?", false)]
    {
        rig.submit(ticket, bytes);
        assert_eq!(rig.receive(), Some(FromWorker::Done { ticket, ok }));
    }
    rig.send(&ToWorker::End);
    assert_eq!(rig.receive(), None);
    rig.ended().unwrap();
}

#[test]
fn blobs_come_with_their_files_and_are_released_when_the_executor_says_so() {
    let rig = Rig::start();
    rig.send_file(7);
    rig.send(&attach(100, 5, 0x3000, &[(7, 0x1000, 0x1000), (7, 0, 0x2000)]));
    rig.send(&ToWorker::Detach { attachment: 100 });
    // The id is free again, though the first blob is not released.
    rig.send(&attach(101, 5, 0x1000, &[(7, 0, 0x1000)]));
    rig.send(&ToWorker::Forget { file: 7 });
    rig.submit(1, b"ok");
    assert_eq!(rig.receive(), Some(FromWorker::Done { ticket: 1, ok: true }));
    let blobs = std::mem::take(&mut *rig.executor.blobs.lock().unwrap());
    assert_eq!(blobs.iter().map(|blob| (blob.id, blob.size)).collect::<Vec<_>>(), [(5, 0x3000), (5, 0x1000)]);
    assert_eq!(
        blobs[0].pieces.iter().map(|piece| (piece.1, piece.2)).collect::<Vec<_>>(),
        [(0x1000, 0x1000), (0, 0x2000)]
    );
    // The link has no other reference to the file.
    assert_eq!(Arc::strong_count(&blobs[0].pieces[0].0), 3);
    let (id, released) = rig.executor.released.lock().unwrap().pop().unwrap();
    assert_eq!(id, 5);
    released.complete();
    assert_eq!(rig.receive(), Some(FromWorker::Released { attachment: 100 }));
    rig.send(&ToWorker::End);
    rig.ended().unwrap();
}

#[test]
fn a_release_that_is_dropped_says_nothing() {
    let rig = Rig::start();
    rig.send_file(1);
    rig.send(&attach(1, 1, 1, &[(1, 0, 1)]));
    rig.send(&ToWorker::Detach { attachment: 1 });
    rig.submit(9, b"ok");
    assert_eq!(rig.receive(), Some(FromWorker::Done { ticket: 9, ok: true }));
    rig.executor.released.lock().unwrap().clear();
    rig.send(&ToWorker::End);
    assert_eq!(rig.receive(), None);
    rig.ended().unwrap();
}

#[test]
fn a_device_process_that_makes_no_sense_ends_the_worker() {
    let wrong: [&dyn Fn(&Rig); 6] = [
        &|rig| rig.send(&ToWorker::File { file: 1 }),
        &|rig| rig.send(&attach(1, 1, 1, &[(1, 0, 1)])),
        &|rig| {
            rig.send_file(1);
            rig.send(&attach(1, 1, 2, &[(1, 0, 1)]));
        },
        &|rig| {
            rig.send_file(1);
            rig.send(&attach(1, 1, 2, &[(1, 0, u64::MAX), (1, 0, 3)]));
        },
        &|rig| rig.send(&ToWorker::Detach { attachment: 1 }),
        &|rig| seqpacket::send(rig.socket.as_fd(), &[77], &[]).unwrap(),
    ];
    for (index, send) in wrong.into_iter().enumerate() {
        let rig = Rig::start();
        send(&rig);
        assert_eq!(rig.receive(), None, "case {index}");
        assert!(matches!(rig.ended(), Err(RunError::Rules(_) | RunError::Malformed(_))), "case {index}");
    }
}

#[test]
fn the_end_of_the_device_process_is_the_end_of_the_worker() {
    let Rig { socket, executor, worker } = Rig::start();
    drop(socket);
    assert!(matches!(worker.join().unwrap(), Err(RunError::Closed)));
    assert_eq!(*executor.ended.lock().unwrap(), 1);
}
