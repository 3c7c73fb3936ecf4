//! Addresses for buffers: the same for the CPU and for all GPUs.
//!
//! | what | where its addresses come from |
//! |---|---|
//! | memory that the CPU sees, reserved addresses | a mapping of its own, wherever `mmap` puts it |
//! | memory for GPUs alone | chunks that are reserved in one piece: no mapping for each |
//! | any memory, where the GPUs reach less than `mmap` gives (gfx8: 40 bits) | one range that is reserved at the start |
//! | memory without addresses | numbers that are no addresses |
//!
//! Around each buffer pages stay free, so that a GPU that runs over its end faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::hsakmt::Status;
use protocol::kfd::Mapping;
use rustix::io;

use super::ranges::Ranges;
use super::spare::Spare;
use super::vm::{Access, HUGE_PAGE, PAGE, Region, page_ceil};
use crate::engine::{Options, Result};

/// Last address that `mmap` gives to a program that does not ask for more.
const MMAP_LIMIT: u64 = (1 << 47) - 1;
/// Bytes of the first chunk; each further one is twice as big, up to the last.
const FIRST_CHUNK: u64 = 1 << 30;
const LAST_CHUNK: u64 = 16 << 30;
/// No address of a program, and none of a GPU: where numbers without addresses begin, and how many there are.
const NUMBERS: u64 = 1 << 47;

/// The addresses that all GPUs reach, and what is free of them.
#[derive(Debug)]
pub(super) struct Addresses {
    limits: Limits,
    guard: u64,
    max_align: u64,
    hidden: Arc<Pool>,
    spare: Arc<Spare>,
    arena: Option<Arena>,
    numbers: Option<Numbers>,
}

/// What all GPUs can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// First address.
    pub(super) base: u64,
    /// Last address.
    pub(super) limit: u64,
    /// Bytes that the GPU with the biggest pages needs buffers to be aligned to.
    pub(super) align: u64,
}

/// The range that is reserved where `mmap` cannot be left to itself. Older GPUs tell coherent memory by its
/// address (SET_MEMORY_POLICY): it is the first quarter.
#[derive(Debug)]
struct Arena {
    coherent: Arc<Chunk>,
    others: Arc<Chunk>,
}

/// What a buffer needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    /// Bytes, a multiple of the page size.
    pub(super) size: u64,
    /// A power of two, or 0 for what suits the size.
    pub(super) align: u64,
    /// There and nowhere else.
    pub(super) at: Option<u64>,
    /// Whether something is mapped there for the CPU.
    pub(super) seen: bool,
    /// Whether GPUs must not cache it.
    pub(super) coherent: bool,
}

impl Want {
    /// Memory for GPUs alone.
    pub(super) fn hidden(size: u64) -> Self {
        Self { size, align: 0, at: None, seen: false, coherent: false }
    }

    /// Memory that the CPU sees too.
    pub(super) fn seen(size: u64) -> Self {
        Self { seen: true, ..Self::hidden(size) }
    }
}

impl Addresses {
    /// Addresses within the limits, outside of the ranges `taken` (first and last address).
    ///
    /// # Errors
    /// `ERROR` if the limits hold nothing; `NO_MEMORY` if GPUs need a range that cannot be reserved.
    pub(super) fn new(limits: Limits, taken: &[(u64, u64)], options: &Options) -> Result<Self> {
        let Limits { base, limit, align } = limits;
        if base >= limit {
            log::error!("the GPUs have no address in common: {base:#x} to {limit:#x}");
            return Err(Status::Error);
        }
        let mut addresses = Self {
            limits: Limits { base: base.max(PAGE), limit, align: align.max(PAGE) },
            guard: u64::from(options.guard_pages) * PAGE,
            max_align: PAGE << options.max_va_align.min(18),
            hidden: Arc::default(),
            spare: Arc::default(),
            arena: None,
            numbers: Numbers::outside(taken),
        };
        if limit < MMAP_LIMIT || align > PAGE {
            addresses.arena = Some(Arena::reserve(addresses.limits.base, limit)?);
        }
        Ok(addresses)
    }

    /// First and last address.
    pub(super) fn all(&self) -> (u64, u64) {
        match &self.arena {
            None => (self.limits.base, self.limits.limit),
            Some(arena) => (arena.coherent.region.start(), arena.others.region.end() - 1),
        }
    }

    /// Whether all GPUs reach a range, wherever its addresses come from.
    pub(super) fn reach(&self, start: u64, len: u64) -> bool {
        let last = start.checked_add(len.saturating_sub(1));
        start >= self.limits.base && last.is_some_and(|last| last <= self.limits.limit)
    }

    /// First address and size in bytes of what GPUs do not cache (SET_MEMORY_POLICY).
    pub(super) fn coherent(&self) -> (u64, u64) {
        match &self.arena {
            None => (self.limits.base, (self.limits.limit - self.limits.base).saturating_add(1)),
            Some(arena) => (arena.coherent.region.start(), arena.coherent.region.len()),
        }
    }

    /// Whether these are the limits.
    pub(super) fn has_limits(&self, limits: Limits) -> bool {
        self.limits == Limits { base: limits.base.max(PAGE), align: limits.align.max(PAGE), ..limits }
    }

    /// Takes addresses. They come back when the answer is dropped.
    ///
    /// # Errors
    /// `NO_MEMORY`: there are none, or those that are wanted are taken, or no GPU reaches them.
    pub(super) fn take(&self, want: Want) -> Result<Va> {
        let refused = |why: &dyn std::fmt::Display| {
            log::warn!("no addresses for {} bytes: {why}", want.size);
            Status::NoMemory
        };
        if want.size == 0 || want.size > (self.limits.limit - self.limits.base).saturating_add(1) {
            return Err(refused(&"GPUs do not have so many"));
        }
        if let Some(at) = want.at {
            return self.take_at(at, want.size).map_err(|why| match why {
                io::Errno::INVAL => {
                    let Limits { base, limit, .. } = self.limits;
                    refused(&format_args!(
                        "{at:#x} is no page between {base:#x} and {limit:#x}, which GPUs reach"
                    ))
                }
                why => refused(&format_args!("{at:#x}: {why}")),
            });
        }
        let align = self.alignment(want);
        if let Some(arena) = &self.arena {
            let chunk = if want.coherent { &arena.coherent } else { &arena.others };
            let start = chunk.take_for(want, align, self.guard);
            return start.map(|va| va.of(chunk, None)).ok_or_else(|| refused(&"all are taken"));
        }
        let taken = if want.seen { self.take_own(want, align) } else { self.take_hidden(want, align) };
        taken.map_err(|why| refused(&format_args!("{why} (ulimit -v and vm.max_map_count limit them)")))
    }

    /// Takes a number for memory without addresses.
    ///
    /// # Errors
    /// `NO_MEMORY` if there are none.
    pub(super) fn take_number(&self, size: u64) -> Result<Va> {
        let numbers = self.numbers.as_ref().ok_or(Status::NoMemory)?;
        numbers.take(size, PAGE)
    }

    /// Big buffers start at multiples of a power of two, up to the limit: GPUs then translate more at a time.
    fn alignment(&self, want: Want) -> u64 {
        let mut align = want.align.max(self.limits.align);
        let limit = if self.arena.is_some() { HUGE_PAGE } else { self.max_align };
        while align < limit && want.size >= align << 1 {
            align <<= 1;
        }
        align
    }

    fn take_at(&self, at: u64, size: u64) -> io::Result<Va> {
        let last = at.checked_add(size - 1).ok_or(io::Errno::INVAL)?;
        if !at.is_multiple_of(PAGE) || at < self.limits.base || last > self.limits.limit {
            return Err(io::Errno::INVAL);
        }
        for chunk in self.arena.iter().flat_map(|arena| [&arena.coherent, &arena.others]) {
            if at >= chunk.region.start() && last < chunk.region.end() {
                let free = lock(&chunk.free).take_at(at, size);
                let taken = free.then_some(Taken { start: at, size, span: (at, size) });
                return taken.map(|taken| taken.of(chunk, None)).ok_or(io::Errno::EXIST);
            }
        }
        // It may be among those that wait to be used again.
        self.spare.empty();
        let region = Region::reserve_at(at, size)?;
        Ok(self.own(at, size, region))
    }

    /// A mapping of its own. With no room for guard pages and a good alignment it goes without.
    fn take_own(&self, want: Want, align: u64) -> io::Result<Va> {
        if let Some(region) = self.spare.take(want.size, align) {
            return Ok(self.own(region.start(), want.size, region));
        }
        let mut taken = self.reserve(want.size, align, self.guard);
        if matches!(taken, Err(io::Errno::NOMEM)) && self.spare.empty() {
            taken = self.reserve(want.size, align, self.guard);
        }
        match taken {
            Err(io::Errno::NOMEM) => self.reserve(want.size, want.align.max(PAGE), 0),
            taken => taken,
        }
    }

    fn own(&self, start: u64, size: u64, region: Region) -> Va {
        Va { start, size, hold: Hold::Own(Own { region: Some(region), spare: Arc::clone(&self.spare) }) }
    }

    /// Gives back to the kernel what is kept for buffers to come.
    pub(super) fn give_back_spare(&self) {
        self.spare.empty();
    }

    fn reserve(&self, size: u64, align: u64, guard: u64) -> io::Result<Va> {
        let more = guard.checked_mul(2).and_then(|guards| guards.checked_add(align - PAGE));
        let span = more.and_then(|more| more.checked_add(size)).ok_or(io::Errno::NOMEM)?;
        let mut region = Region::reserve(span)?;
        let start = (region.start() + guard).next_multiple_of(align);
        if start < self.limits.base || start + (size - 1) > self.limits.limit {
            log::debug!("no GPU reaches {start:#x}");
            return Err(io::Errno::NOMEM);
        }
        region.trim(start, size);
        Ok(self.own(start, size, region))
    }

    /// A place in a chunk. What fills a chunk has a mapping of its own.
    fn take_hidden(&self, want: Want, align: u64) -> io::Result<Va> {
        let small = want.size <= FIRST_CHUNK / 4 && align <= FIRST_CHUNK / 4 && self.guard <= FIRST_CHUNK / 4;
        if !small {
            return self.take_own(want, align);
        }
        let mut chunks = lock(&self.hidden.0);
        // The newest has most room.
        for chunk in chunks.iter().rev() {
            if let Some(taken) = chunk.take_for(want, align, self.guard) {
                return Ok(taken.of(chunk, Some(&self.hidden)));
            }
        }
        let mut len = (FIRST_CHUNK << chunks.len().min(4)).min(LAST_CHUNK);
        let region = loop {
            match Region::reserve(len) {
                Err(io::Errno::NOMEM) if len / 2 > want.size + align + self.guard => len /= 2,
                reserved => break reserved?,
            }
        };
        if region.start() < self.limits.base || region.end() - 1 > self.limits.limit {
            return Err(io::Errno::NOMEM);
        }
        region.dont_fork(region.start(), region.len());
        let chunk = Arc::new(Chunk::new(region));
        let taken = chunk.take_for(want, align, self.guard).ok_or(io::Errno::NOMEM)?;
        chunks.push(Arc::clone(&chunk));
        Ok(taken.of(&chunk, Some(&self.hidden)))
    }
}

/// Numbers that stand for memory where the CPU has no addresses.
#[derive(Debug)]
pub(super) struct Numbers(Arc<Mutex<Ranges>>);

impl Numbers {
    /// Those of a range.
    pub(super) fn new(start: u64, len: u64) -> Self {
        Self(Arc::new(Mutex::new(Ranges::new(start, len))))
    }

    /// Those that are addresses neither of programs nor in an aperture of a GPU.
    fn outside(taken: &[(u64, u64)]) -> Option<Self> {
        let free =
            |start: u64| taken.iter().all(|&(base, limit)| limit < start || base > start + (NUMBERS - 1));
        let start = (1..0x1_0000u64).map(|count| count * NUMBERS).find(|&start| free(start))?;
        Some(Self::new(start, NUMBERS))
    }

    /// Takes numbers for `size` bytes.
    ///
    /// # Errors
    /// `NO_MEMORY` if there are none.
    pub(super) fn take(&self, size: u64, align: u64) -> Result<Va> {
        let start = lock(&self.0).take(size, align).ok_or_else(|| {
            log::warn!("no handle for {size} bytes: all are taken");
            Status::NoMemory
        })?;
        Ok(Va { start, size, hold: Hold::Number(Arc::clone(&self.0)) })
    }
}

impl Arena {
    /// As much as can be had of `[base, limit]`. It begins above where a program without ASLR lies and its heap grows.
    fn reserve(base: u64, limit: u64) -> Result<Self> {
        const LEAST: u64 = 1 << 30;
        const LOWEST: u64 = 4 << 30;
        let end = limit.saturating_add(1) & !(HUGE_PAGE - 1);
        let first = base.checked_next_multiple_of(HUGE_PAGE).unwrap_or(end);
        let first = if first < LOWEST && end > 2 * LOWEST { LOWEST } else { first };
        let mut len = end.saturating_sub(first);
        while len >= LEAST {
            let step = usize::try_from((len / 8).max(HUGE_PAGE)).unwrap_or(usize::MAX);
            for start in (first..=end - len).step_by(step) {
                let start = start & !(HUGE_PAGE - 1);
                // Another thread may map something between the two halves: then a smaller range is tried.
                if let Ok(arena) = Region::reserve_at(start, len).and_then(Self::split) {
                    return Ok(arena);
                }
            }
            len = (len / 2) & !(HUGE_PAGE - 1);
        }
        log::error!(
            "GPUs reach {base:#x} to {limit:#x} only, of which no GiB in one piece can be reserved (ulimit -v limits it)"
        );
        Err(Status::NoMemory)
    }

    fn split(mut region: Region) -> io::Result<Self> {
        let (start, len) = (region.start(), region.len());
        let quarter = (len / 4).next_multiple_of(64 << 10);
        region.trim(start, quarter);
        let others = Region::reserve_at(start + quarter, len - quarter)?;
        for region in [&region, &others] {
            region.dont_fork(region.start(), region.len());
        }
        Ok(Self { coherent: Arc::new(Chunk::new(region)), others: Arc::new(Chunk::new(others)) })
    }
}

/// Chunks for memory that the CPU does not see.
#[derive(Debug, Default)]
struct Pool(Mutex<Vec<Arc<Chunk>>>);

impl Pool {
    /// Gives chunks back in which there is nothing, except one.
    fn prune(&self) {
        let mut chunks = lock(&self.0);
        // Whoever has addresses in a chunk holds it; only this lock makes new holders.
        let mut spare = chunks.iter().filter(|chunk| Arc::strong_count(chunk) == 1).count();
        chunks.retain(|chunk| {
            let goes = Arc::strong_count(chunk) == 1 && spare > 1;
            spare -= usize::from(goes);
            !goes
        });
    }
}

/// Reserved addresses of which parts are given out.
#[derive(Debug)]
struct Chunk {
    region: Region,
    free: Mutex<Ranges>,
    /// What could not be unmapped when it was given back. It is tried again before addresses are taken.
    stuck: Mutex<Vec<(u64, u64)>>,
}

/// What was taken of a chunk, with its guard pages.
struct Taken {
    start: u64,
    size: u64,
    span: (u64, u64),
}

impl Chunk {
    fn new(region: Region) -> Self {
        let free = Mutex::new(Ranges::new(region.start(), region.len()));
        Self { region, free, stuck: Mutex::default() }
    }

    /// Gives a range back. What is mapped there is unmapped before, which the kernel refuses while there are too many
    /// mappings: then its addresses stay taken for now.
    fn give_back(&self, (start, len): (u64, u64), mapped: bool) {
        if mapped && let Err(error) = self.region.clear(start, len) {
            log::warn!("{len} bytes at {start:#x} cannot be unmapped yet: {error}");
            lock(&self.stuck).push((start, len));
            return;
        }
        lock(&self.free).put(start, len);
    }

    /// Buffers without a wish are aligned at their end: some GPUs of gfx8 read translations past it.
    fn take_for(&self, want: Want, align: u64, guard: u64) -> Option<Taken> {
        let whole = if want.align <= PAGE { want.size.checked_next_multiple_of(align)? } else { want.size };
        let span = whole.checked_add(guard)?;
        for stuck in std::mem::take(&mut *lock(&self.stuck)) {
            self.give_back(stuck, true);
        }
        let start = lock(&self.free).take(span, align)?;
        Some(Taken { start: start + (whole - want.size), size: want.size, span: (start, span) })
    }
}

impl Taken {
    fn of(self, chunk: &Arc<Chunk>, pool: Option<&Arc<Pool>>) -> Va {
        let part = Part {
            chunk: Some(Arc::clone(chunk)),
            pool: pool.map(Arc::clone),
            span: self.span,
            mapped: AtomicBool::new(false),
        };
        Va { start: self.start, size: self.size, hold: Hold::Part(part) }
    }
}

/// Addresses of one buffer, until it is dropped: then what is mapped there is unmapped.
#[derive(Debug)]
pub(super) struct Va {
    start: u64,
    size: u64,
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    Own(Own),
    Part(Part),
    Number(Arc<Mutex<Ranges>>),
}

#[derive(Debug)]
struct Own {
    /// Taken out by the drop alone.
    region: Option<Region>,
    spare: Arc<Spare>,
}

#[derive(Debug)]
struct Part {
    /// Taken out by the drop alone.
    chunk: Option<Arc<Chunk>>,
    pool: Option<Arc<Pool>>,
    span: (u64, u64),
    /// Whether something was mapped there.
    mapped: AtomicBool,
}

impl Va {
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Maps memory of a device file at `offset` in the range.
    ///
    /// # Errors
    /// Those of [`Region::map_file`]; `EINVAL` for a number.
    pub(super) fn map_file(
        &self,
        offset: u64,
        len: u64,
        mapping: &Mapping,
        access: Access,
    ) -> io::Result<()> {
        let (region, at) = self.place(offset, len)?;
        region.map_file(at, len, mapping, access)
    }

    /// Puts fresh zeroed memory at the start of the range. Forked children do not get it.
    ///
    /// # Errors
    /// Those of [`Region::map_memory`]; `EINVAL` for a number.
    pub(super) fn map_memory(&self, len: u64, access: Access) -> io::Result<()> {
        let (region, at) = self.place(0, len)?;
        region.map_memory(at, len, access)?;
        region.dont_fork(at, len);
        if len >= HUGE_PAGE {
            region.huge_pages(at, len);
        }
        Ok(())
    }

    /// See [`super::vm::bind_to_numa`], for the first `len` bytes.
    pub(super) fn bind_to_numa(&self, len: u64, node: u32, insist: bool) -> io::Result<()> {
        let (region, at) = self.place(0, len)?;
        super::vm::bind_to_numa(region, at, len, node, insist)
    }

    fn place(&self, offset: u64, len: u64) -> io::Result<(&Region, u64)> {
        let end = offset.checked_add(len).and_then(page_ceil).ok_or(io::Errno::INVAL)?;
        if end > self.size {
            return Err(io::Errno::INVAL);
        }
        let region = match &self.hold {
            Hold::Own(own) => own.region.as_ref().ok_or(io::Errno::INVAL)?,
            Hold::Part(part) => {
                part.mapped.store(true, Ordering::Relaxed);
                &part.chunk.as_ref().ok_or(io::Errno::INVAL)?.region
            }
            Hold::Number(_) => return Err(io::Errno::INVAL),
        };
        Ok((region, self.start + offset))
    }
}

impl Drop for Va {
    fn drop(&mut self) {
        if let Hold::Number(numbers) = &self.hold {
            lock(numbers).put(self.start, self.size);
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let Some(region) = self.region.take() else { return };
        self.spare.put(region);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let Some(chunk) = self.chunk.take() else { return };
        chunk.give_back(self.span, *self.mapped.get_mut());
        drop(chunk);
        if let Some(pool) = &self.pool {
            pool.prune();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
