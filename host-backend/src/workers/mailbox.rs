//! What a worker is still to be sent, and which files it has.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use crate::device::{Backing, BlobUse, Piece};
use crate::link::{Place, ToWorker};

/// A blob that the worker has, or is to get.
pub(super) struct Attachment {
    pub(super) blob: BlobUse,
    /// Numbers of the files that its pieces are in.
    files: Vec<u32>,
    /// The worker was told to let go of it.
    pub(super) detached: bool,
}

enum Letter {
    Attach(u64),
    Detach(u64),
    Forget(u32),
    Submit { ticket: u64, ring: Option<u8>, bytes: Vec<u8> },
    Granted { granted: bool, left: u64 },
    End,
}

/// A file with guest memory.
struct SharedFile {
    number: u32,
    backing: Arc<Backing>,
    /// Attachments with pieces in it.
    attachments: usize,
    sent: bool,
}

/// Letters in the order in which they are sent, and what they are about.
#[derive(Default)]
pub(super) struct Mailbox {
    letters: VecDeque<Letter>,
    attachments: HashMap<u64, Attachment>,
    /// By identity of the file.
    files: HashMap<(u64, u64), SharedFile>,
    next_file: u32,
    pieces: usize,
    waiting_bytes: usize,
    /// There is a [`Letter::Granted`].
    answers: bool,
}

impl Mailbox {
    /// Attachments there are, and their pieces; with those that are not released yet.
    pub(super) fn in_use(&self) -> (usize, usize) {
        (self.attachments.len(), self.pieces)
    }

    /// Bytes of submissions that were not sent yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(super) fn attach(&mut self, attachment: u64, blob: BlobUse) {
        let mut files = Vec::new();
        for backing in backings(blob.blob().pieces()) {
            let next = &mut self.next_file;
            let file = self.files.entry(backing.identity()).or_insert_with(|| {
                *next = next.wrapping_add(1);
                SharedFile { number: *next, backing: Arc::clone(backing), attachments: 0, sent: false }
            });
            if !files.contains(&file.number) {
                files.push(file.number);
                file.attachments += 1;
            }
        }
        self.pieces += blob.blob().pieces().len();
        self.attachments.insert(attachment, Attachment { blob, files, detached: false });
        self.letters.push_back(Letter::Attach(attachment));
    }

    pub(super) fn detach(&mut self, attachment: u64) {
        self.letters.push_back(Letter::Detach(attachment));
    }

    pub(super) fn submit(&mut self, ticket: u64, ring: Option<u8>, bytes: &[u8]) {
        self.waiting_bytes += bytes.len();
        self.letters.push_back(Letter::Submit { ticket, ring, bytes: bytes.to_vec() });
    }

    /// Answers a question for memory. `false` if the worker has not been sent the answer to the one before.
    pub(super) fn grant(&mut self, granted: bool, left: u64) -> bool {
        if std::mem::replace(&mut self.answers, true) {
            return false;
        }
        self.letters.push_back(Letter::Granted { granted, left });
        true
    }

    pub(super) fn end(&mut self) {
        self.letters.push_back(Letter::End);
    }

    /// The worker says that it has let go of a blob. `None` if it was not told to.
    pub(super) fn released(&mut self, attachment: u64) -> Option<BlobUse> {
        if !self.attachments.get(&attachment)?.detached {
            return None;
        }
        let Attachment { blob, files, .. } = self.attachments.remove(&attachment)?;
        self.pieces -= blob.blob().pieces().len();
        let letters = &mut self.letters;
        self.files.retain(|_, file| {
            file.attachments -= usize::from(files.contains(&file.number));
            if file.attachments == 0 {
                letters.push_back(Letter::Forget(file.number));
            }
            file.attachments > 0
        });
        Some(blob)
    }

    /// Sends what there is, until the socket has no more room (`WouldBlock`) or fails.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while let Some(letter) = self.letters.pop_front() {
            if let Err(error) = self.send_one(socket, &letter) {
                self.letters.push_front(letter);
                return Err(error);
            }
            match letter {
                Letter::Submit { bytes, .. } => self.waiting_bytes -= bytes.len(),
                Letter::Detach(attachment) => {
                    if let Some(attachment) = self.attachments.get_mut(&attachment) {
                        attachment.detached = true;
                    }
                }
                Letter::Granted { .. } => self.answers = false,
                Letter::Attach(_) | Letter::Forget(_) | Letter::End => {}
            }
        }
        Ok(())
    }

    fn send_one(&mut self, socket: BorrowedFd<'_>, letter: &Letter) -> io::Result<()> {
        let message = match letter {
            Letter::Attach(attachment) => return self.send_attachment(socket, *attachment),
            Letter::Detach(attachment) => ToWorker::Detach { attachment: *attachment },
            Letter::Forget(file) => ToWorker::Forget { file: *file },
            Letter::Submit { ticket, ring, bytes } => {
                ToWorker::Submit { ticket: *ticket, ring: *ring, bytes }
            }
            Letter::Granted { granted, left } => ToWorker::Granted { granted: *granted, left: *left },
            Letter::End => ToWorker::End,
        };
        message.send(socket, None)
    }

    /// Sends a blob, after those of its files that the worker does not have.
    fn send_attachment(&mut self, socket: BorrowedFd<'_>, attachment: u64) -> io::Result<()> {
        let Some(Attachment { blob, files, .. }) = self.attachments.get(&attachment) else { return Ok(()) };
        for file in self.files.values_mut().filter(|file| !file.sent && files.contains(&file.number)) {
            ToWorker::File { file: file.number }.send(socket, Some(file.backing.file().as_fd()))?;
            file.sent = true;
        }
        let blob = blob.blob();
        let pieces = places(blob.pieces(), &self.files);
        ToWorker::Attach { attachment, id: blob.id(), size: blob.size(), pieces }.send(socket, None)
    }

    /// Everything that the worker had or was to get. Nothing is sent any more.
    pub(super) fn empty(&mut self) -> HashMap<u64, Attachment> {
        self.stop();
        self.files.clear();
        self.pieces = 0;
        std::mem::take(&mut self.attachments)
    }

    /// Nothing is sent any more.
    pub(super) fn stop(&mut self) {
        self.letters.clear();
        self.waiting_bytes = 0;
    }
}

/// The backings of pieces; one that follows itself counts once.
fn backings(pieces: &[Piece]) -> impl Iterator<Item = &Arc<Backing>> {
    pieces
        .chunk_by(|a, b| Arc::ptr_eq(&a.backing, &b.backing))
        .filter_map(|chunk| Some(&chunk.first()?.backing))
}

fn places(pieces: &[Piece], files: &HashMap<(u64, u64), SharedFile>) -> Vec<Place> {
    let mut places = Vec::with_capacity(pieces.len());
    for chunk in pieces.chunk_by(|a, b| Arc::ptr_eq(&a.backing, &b.backing)) {
        let Some(file) = chunk.first().and_then(|piece| files.get(&piece.backing.identity())) else {
            continue;
        };
        places.extend(chunk.iter().map(|piece| Place {
            file: file.number,
            offset: piece.offset,
            len: piece.len,
        }));
    }
    places
}
