//! Decoded code.
//!
//! Code is decoded once for each address and kept by pages. Programs may replace code between dispatches without telling the
//! processor more than the packets' acquire fences do, so a page is compared with its memory when a dispatch
//! touches it first ([`CodeCache::begin`]); that is much cheaper than decoding, and cannot miss a change.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::decode::decode;
use super::super::inst::Inst;
use super::super::op::Arch;
use super::{Body, Memory, Trap, bind};

/// Bytes of a page, and of the longest instruction that may begin at its end.
const PAGE: u64 = 4096;
const WORDS: usize = 1024;
const TAIL: usize = 8;
/// Most pages kept: a kernel's code is small, and a program must not make the server remember all it ever ran.
const MOST_PAGES: usize = 4096;

/// An instruction with its body.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) inst: Inst,
    pub(super) body: Body,
}

/// The instructions of one page, decoded when they are reached.
pub(super) struct Page {
    bytes: Vec<u8>,
    steps: Vec<Option<Step>>,
    checked: u64,
}

/// Decoded code of one architecture.
pub struct CodeCache {
    arch: Arch,
    pages: HashMap<u64, Arc<std::sync::Mutex<Page>>>,
    epoch: u64,
}

impl CodeCache {
    /// Nothing decoded.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self { arch, pages: HashMap::new(), epoch: 0 }
    }

    /// A dispatch begins: what is cached has to be compared with memory again.
    pub fn begin(&mut self) {
        self.epoch += 1;
        if self.pages.len() > MOST_PAGES {
            self.pages.clear();
        }
    }

    /// The instruction at `pc`.
    pub(super) fn step(&mut self, memory: &dyn Memory, pc: u64) -> Result<Step, Trap> {
        let (arch, epoch) = (self.arch, self.epoch);
        let page = self.pages.entry(pc / PAGE).or_default();
        let mut page = page.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if page.checked != epoch {
            page.check(memory, pc & !(PAGE - 1), epoch)?;
        }
        let index = (pc % PAGE / 4) as usize;
        if let Some(step) = page.steps[index] {
            return Ok(step);
        }
        let inst = decode(arch, &page.bytes[index * 4..])?;
        let step = Step { inst, body: bind(&inst)? };
        page.steps[index] = Some(step);
        Ok(step)
    }
}

impl Default for Page {
    fn default() -> Self {
        Self { bytes: Vec::new(), steps: vec![None; WORDS], checked: 0 }
    }
}

impl Page {
    /// Forgets what was decoded if memory has other bytes now.
    fn check(&mut self, memory: &dyn Memory, start: u64, epoch: u64) -> Result<(), Trap> {
        let mut bytes = vec![0; PAGE as usize + TAIL];
        // The next page may not be there; an instruction that reaches into it is then cut off.
        if memory.read(start, &mut bytes).is_err() {
            bytes.truncate(PAGE as usize);
            memory.read(start, &mut bytes)?;
        }
        if bytes != self.bytes {
            self.bytes = bytes;
            self.steps.iter_mut().for_each(|step| *step = None);
        }
        self.checked = epoch;
        Ok(())
    }
}
