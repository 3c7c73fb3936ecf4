//! Decoded code.
//!
//! Code is decoded once for each address and kept by pages. Programs may replace code between dispatches without telling the
//! processor more than the packets' acquire fences do, so a page is compared with its memory when a dispatch
//! touches it first ([`CodeCache::begin`]); that is much cheaper than decoding, and cannot miss a change.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::super::decode::decode;
use super::super::inst::Inst;
use super::super::op::Arch;
use super::{Body, Memory, Trap, bind, report};

/// Bytes of a page, and of the longest instruction that may begin at its end.
const PAGE: u64 = 4096;
const WORDS: usize = 1024;
const TAIL: usize = 8;
/// Most pages kept: a kernel's code is small, and a program must not make the server remember all it ever ran.
const MOST_PAGES: usize = 4096;

/// An instruction with its body.
pub(super) struct Step {
    pub(super) inst: Inst,
    pub(super) body: Body,
    /// Where it is counted, if it is.
    pub(super) counter: Option<Arc<AtomicU64>>,
}

/// The instructions of one page, decoded when they are reached.
pub(super) struct Page {
    arch: Arch,
    bytes: Vec<u8>,
    steps: Box<[OnceLock<Step>]>,
}

impl Page {
    fn new(arch: Arch, bytes: Vec<u8>) -> Self {
        Self { arch, bytes, steps: std::iter::repeat_with(OnceLock::new).take(WORDS).collect() }
    }

    /// The instruction at an address of the page.
    #[inline]
    pub(super) fn step(&self, pc: u64) -> Result<&Step, Trap> {
        let index = (pc % PAGE / 4) as usize;
        match self.steps[index].get() {
            Some(step) => Ok(step),
            None => self.decode(index),
        }
    }

    #[cold]
    fn decode(&self, index: usize) -> Result<&Step, Trap> {
        let inst = decode(self.arch, &self.bytes[index * 4..])?;
        let body = bind(&inst)?;
        let counter = report::is_wanted().then(|| report::counter(&inst));
        Ok(self.steps[index].get_or_init(|| Step { inst, body, counter }))
    }
}

/// A page, and when it was compared with memory.
struct Kept {
    page: Arc<Page>,
    checked: u64,
}

#[derive(Default)]
struct Pages {
    kept: HashMap<u64, Kept>,
    epoch: u64,
}

/// Decoded code of one architecture; several threads may execute it.
pub struct CodeCache {
    arch: Arch,
    pages: Mutex<Pages>,
}

impl CodeCache {
    /// Nothing decoded.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self { arch, pages: Mutex::default() }
    }

    /// A dispatch begins: what is cached has to be compared with memory again.
    pub fn begin(&self) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.epoch += 1;
        if pages.kept.len() > MOST_PAGES {
            pages.kept.clear();
        }
    }

    /// The page of `pc`.
    fn page(&self, memory: &dyn Memory, pc: u64) -> Result<Arc<Page>, Trap> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = pages.epoch;
        let kept = pages.kept.get_mut(&(pc / PAGE));
        if let Some(kept) = kept.as_ref()
            && kept.checked == epoch
        {
            return Ok(Arc::clone(&kept.page));
        }
        let bytes = read(memory, pc & !(PAGE - 1))?;
        let page = match kept {
            Some(kept) if kept.page.bytes == bytes => {
                kept.checked = epoch;
                return Ok(Arc::clone(&kept.page));
            }
            _ => Arc::new(Page::new(self.arch, bytes)),
        };
        pages.kept.insert(pc / PAGE, Kept { page: Arc::clone(&page), checked: epoch });
        Ok(page)
    }
}

/// The bytes of a page and a few more.
fn read(memory: &dyn Memory, start: u64) -> Result<Vec<u8>, Trap> {
    let mut bytes = vec![0; PAGE as usize + TAIL];
    // The next page may not be there; an instruction that reaches into it is then cut off.
    if memory.read(start, &mut bytes).is_err() {
        bytes.truncate(PAGE as usize);
        memory.read(start, &mut bytes)?;
    }
    Ok(bytes)
}

/// The pages that a workgroup executed last, so that waves need not ask the cache.
#[derive(Default)]
pub(super) struct NearPages([Option<(u64, Arc<Page>)>; 4]);

impl NearPages {
    /// The page of `pc`.
    pub(super) fn page(&mut self, code: &CodeCache, memory: &dyn Memory, pc: u64) -> Result<Arc<Page>, Trap> {
        let number = pc / PAGE;
        let slot = &mut self.0[(number % 4) as usize];
        if let Some((have, page)) = slot
            && *have == number
        {
            return Ok(Arc::clone(page));
        }
        let page = code.page(memory, pc)?;
        *slot = Some((number, Arc::clone(&page)));
        Ok(page)
    }
}

/// Whether two addresses are in one page.
#[inline]
pub(super) const fn same_page(a: u64, b: u64) -> bool {
    a / PAGE == b / PAGE
}
