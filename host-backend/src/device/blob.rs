//! Blobs, and what they cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::limits::Limits;
use super::memory::Piece;

/// A blob: pages of the guest, or of the window, under one id.
#[derive(Debug)]
pub struct Blob {
    id: u32,
    size: u64,
    pieces: Vec<Piece>,
    ledger: Arc<Ledger>,
}

impl Blob {
    /// Id that the guest gave it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where the bytes are, in order. Nowhere yet, for a blob of the window that was not mapped.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Says where the bytes of a blob of the window are.
    pub(super) fn set_place(&mut self, piece: Piece) {
        self.ledger.pieces.fetch_add(1, Ordering::Relaxed);
        self.pieces.push(piece);
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        self.ledger.blobs.fetch_sub(1, Ordering::Relaxed);
        self.ledger.pieces.fetch_sub(self.pieces.len(), Ordering::Relaxed);
    }
}

/// What all blobs of a device cost. A blob counts until the last use of it is gone.
#[derive(Debug, Default)]
pub struct Ledger {
    blobs: AtomicUsize,
    pieces: AtomicUsize,
}

impl Ledger {
    /// Blobs and pieces there are.
    #[must_use]
    pub fn in_use(&self) -> (usize, usize) {
        (self.blobs.load(Ordering::Relaxed), self.pieces.load(Ordering::Relaxed))
    }

    /// Makes a blob, unless it would be over a limit. Only one thread makes blobs.
    pub(super) fn blob(
        self: &Arc<Ledger>,
        limits: &Limits,
        id: u32,
        size: u64,
        pieces: Vec<Piece>,
    ) -> Option<Arc<Blob>> {
        let (blobs, all) = self.in_use();
        if blobs >= limits.blobs || pieces.len() > limits.pieces.saturating_sub(all) {
            return None;
        }
        self.blobs.fetch_add(1, Ordering::Relaxed);
        self.pieces.fetch_add(pieces.len(), Ordering::Relaxed);
        Some(Arc::new(Blob { id, size, pieces, ledger: Arc::clone(self) }))
    }
}
