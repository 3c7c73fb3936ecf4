//! Blobs of the guest's memory: which are there, and who uses them.
//!
//! Whoever uses a blob holds it. The last one to let go of it tells the device process that it is released.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use protocol::Errno;
use vm_memory::VolatileSlice;

use super::mapping::{self, Mapped, Mappings};
use crate::worker::{GuestBlob, Released};

/// A call can overtake the attachment of a blob that it names; it waits this long.
const OVERTAKEN: Duration = Duration::from_secs(5);

/// Contiguous bytes of a file.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) file: Arc<OwnedFd>,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A blob.
#[derive(Debug)]
pub(super) struct Blob {
    id: u32,
    size: u64,
    pieces: Vec<Piece>,
    mappings: Arc<Mappings>,
    /// The whole blob, mapped when somebody wanted to look into it.
    mapped: OnceLock<Mapped>,
    /// Held while it is mapped.
    mapping: Mutex<()>,
    /// Told when nobody uses the blob any more, once it was detached.
    released: Mutex<Option<Released>>,
}

impl Blob {
    fn new(blob: GuestBlob, mappings: Arc<Mappings>) -> Blob {
        let pieces = blob.pieces.into_iter().map(|(file, offset, len)| Piece { file, offset, len });
        Blob {
            id: blob.id,
            size: blob.size,
            pieces: merged(pieces),
            mappings,
            mapped: OnceLock::new(),
            mapping: Mutex::new(()),
            released: Mutex::new(None),
        }
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Where `len` bytes from `offset` on are. `None` if the blob has not so many.
    pub(super) fn part(&self, offset: u64, len: u64) -> Option<Vec<Piece>> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size)?;
        let mut found = Vec::new();
        let mut start = 0;
        for piece in &self.pieces {
            let (from, to) = (offset.max(start), end.min(start + piece.len));
            if from < to {
                let file = Arc::clone(&piece.file);
                found.push(Piece { file, offset: piece.offset + (from - start), len: to - from });
            }
            start += piece.len;
        }
        Some(found)
    }

    /// The blob's bytes, mapped here.
    ///
    /// # Errors
    /// `ENOMEM` where it cannot be mapped.
    pub(super) fn memory(&self) -> Result<VolatileSlice<'_>, Errno> {
        if let Some(mapped) = self.mapped.get() {
            return Ok(mapped.slice());
        }
        let _alone = lock(&self.mapping);
        if self.mapped.get().is_none() {
            let mapped = mapping::anywhere(&self.pieces, self.size, &self.mappings).inspect_err(|errno| {
                log::warn!("blob {} of {} bytes cannot be mapped: {errno}", self.id, self.size);
            })?;
            return Ok(self.mapped.get_or_init(|| mapped).slice());
        }
        self.mapped.get().map(Mapped::slice).ok_or(Errno::ENOMEM)
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        let released = self.released.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The memory first: the guest may use it for something else as soon as it hears of this.
        drop(self.mapped.take());
        self.pieces.clear();
        if let Some(released) = released {
            released.complete();
        }
    }
}

/// Neighbours in a file become one piece, because each needs a mapping.
fn merged(pieces: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces.filter(|piece| piece.len > 0) {
        match out.last_mut() {
            Some(last) if Arc::ptr_eq(&last.file, &piece.file) && last.offset + last.len == piece.offset => {
                last.len += piece.len;
            }
            _ => out.push(piece),
        }
    }
    out
}

/// The blobs of a context, by id.
#[derive(Debug)]
pub(super) struct Blobs {
    mappings: Arc<Mappings>,
    state: Mutex<State>,
    attached: Condvar,
}

#[derive(Debug, Default)]
struct State {
    blobs: HashMap<u32, Arc<Blob>>,
    ended: bool,
}

impl Blobs {
    pub(super) fn new(mappings: Arc<Mappings>) -> Blobs {
        Blobs { mappings, state: Mutex::default(), attached: Condvar::new() }
    }

    pub(super) fn attach(&self, blob: GuestBlob) {
        let id = blob.id;
        let blob = Arc::new(Blob::new(blob, Arc::clone(&self.mappings)));
        let before = lock(&self.state).blobs.insert(id, blob);
        self.attached.notify_all();
        drop(before);
    }

    pub(super) fn detach(&self, id: u32, released: Released) {
        let blob = lock(&self.state).blobs.remove(&id);
        match blob {
            Some(blob) => *lock(&blob.released) = Some(released),
            None => released.complete(),
        }
    }

    /// The blob with this id.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(super) fn get(&self, id: u32) -> Result<Arc<Blob>, Errno> {
        lock(&self.state).blobs.get(&id).cloned().ok_or(Errno::ENOENT)
    }

    /// The blob with this id, which may be on its way. Not for the thread that attaches.
    ///
    /// # Errors
    /// `ENOENT` if it does not come; `EIO` at the end of the context.
    pub(super) fn wait_for(&self, id: u32) -> Result<Arc<Blob>, Errno> {
        let deadline = Instant::now() + OVERTAKEN;
        let mut state = lock(&self.state);
        loop {
            if let Some(blob) = state.blobs.get(&id) {
                return Ok(Arc::clone(blob));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return Err(if state.ended { Errno::EIO } else { Errno::ENOENT });
            }
            state = self.attached.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nobody waits any more.
    pub(super) fn end_waits(&self) {
        lock(&self.state).ended = true;
        self.attached.notify_all();
    }

    /// Lets go of all.
    pub(super) fn clear(&self) {
        let blobs = std::mem::take(&mut lock(&self.state).blobs);
        drop(blobs);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/dev/null").expect("open").into())
    }

    #[test]
    fn neighbours_become_one_piece_and_parts_are_found() {
        let (one, other) = (file(), file());
        let pieces = vec![
            (Arc::clone(&one), 0x1000, 0x1000),
            (Arc::clone(&one), 0x2000, 0x2000),
            (Arc::clone(&one), 0x8000, 0x1000),
            (other, 0x9000, 0x1000),
        ];
        let blob = Blob::new(GuestBlob { id: 1, size: 0x5000, pieces }, Arc::default());
        let places = |offset, len| -> Option<Vec<(u64, u64)>> {
            Some(blob.part(offset, len)?.iter().map(|piece| (piece.offset, piece.len)).collect())
        };
        assert_eq!(places(0, 0x5000), Some(vec![(0x1000, 0x3000), (0x8000, 0x1000), (0x9000, 0x1000)]));
        assert_eq!(places(0x2000, 0x2000), Some(vec![(0x3000, 0x1000), (0x8000, 0x1000)]));
        assert_eq!(places(0x5000, 0), Some(vec![]));
        assert_eq!(places(0x4000, 0x2000), None);
        assert_eq!(places(u64::MAX, 0x2000), None);
    }
}
