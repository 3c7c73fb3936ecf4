//! Runs of packet words in GPU memory: rings and indirect buffers.

use zerocopy::IntoBytes;

use super::GpuFault;
use crate::mem::GpuVm;

/// A ring or an indirect buffer, read word by word. Positions only grow; a ring wraps the address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    base: u64,
    /// Words of the ring or buffer; a power of two for rings.
    words: u64,
    /// Next word to execute. May lie behind `end`: words that are skipped before they are written.
    pub(super) at: u64,
    /// First word that is not there yet.
    pub(super) end: u64,
}

impl Stream {
    /// An empty ring of `words` words.
    pub(super) const fn ring(base: u64, words: u64) -> Self {
        Self { base, words, at: 0, end: 0 }
    }

    /// An indirect buffer.
    pub(super) const fn buffer(base: u64, words: u64) -> Self {
        Self { base, words, at: 0, end: words }
    }

    /// The same position in another ring.
    pub(super) const fn move_to(&mut self, base: u64, words: u64) {
        self.base = base;
        self.words = words;
    }

    /// Words of the ring or buffer.
    pub(super) const fn words(&self) -> u64 {
        self.words
    }

    /// Words from the position to the end.
    pub(super) const fn available(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// GPU virtual address of the word `skip` words behind the position.
    pub(super) const fn address(&self, skip: u64) -> u64 {
        let words = if self.words == 0 { 1 } else { self.words };
        self.base.wrapping_add(self.at.wrapping_add(skip) % words * 4)
    }

    /// Moves on by `words`.
    pub(super) const fn advance(&mut self, words: u64) {
        self.at = self.at.saturating_add(words);
    }

    /// Reads words from `skip` words behind the position on, wrapping around at the end of a ring.
    pub(super) fn peek(&self, vm: &GpuVm, skip: u64, out: &mut [u32]) -> Result<(), GpuFault> {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let index = self.at.wrapping_add(skip).wrapping_add(done as u64) % self.words.max(1);
            let until_wrap = usize::try_from(self.words - index).unwrap_or(usize::MAX);
            let count = rest.len().min(until_wrap).max(1);
            let part = rest.get_mut(..count).unwrap_or_default();
            vm.read(self.base.wrapping_add(index * 4), part.as_mut_bytes())?;
            for word in part {
                *word = u32::from_le(*word);
            }
            done += count;
        }
        Ok(())
    }

    /// The word at the position.
    pub(super) fn first(&self, vm: &GpuVm) -> Result<u32, GpuFault> {
        let mut word = [0];
        self.peek(vm, 0, &mut word)?;
        Ok(word[0])
    }

    /// Sets the end of a ring from a write pointer. One behind the last is not believed: a doorbell
    /// that is stored late must not undo a newer one.
    pub(super) fn extend_to(&mut self, write: u64) {
        self.end = self.end.max(write);
    }

    /// [`Stream::extend_to`] for rings without a mark in each packet that says whether it is there.
    /// Hardware compares positions within the ring, so a pointer more than the ring ahead counts
    /// modulo the ring: nothing is executed twice.
    pub(super) fn extend_within_ring(&mut self, write: u64) {
        let ahead = write.saturating_sub(self.at);
        let ahead = if ahead > self.words { ahead % self.words.max(1) } else { ahead };
        self.extend_to(self.at.saturating_add(ahead));
    }
}
