//! The window: a part of the guest's address space in which it sees memory of the host.
//!
//! All of that memory is one file, the *arena*, as long as the window, which the VMM maps there as a whole; so it costs one
//! mapping and one region of memory, whatever the guest does. QEMU aborts at about 511. The guest's driver chooses where in
//! the window a blob is; that is its place in the arena too, and what a worker maps. The arena is mapped from the first blob
//! to the last: QEMU does not survive a reset of the guest with a window that is mapped.
//!
//! Pages of a blob are zero at first, and taken from the arena when nobody reaches them any more, or when the context's
//! worker has ended. The guest's kernel reaches all of the window as long as it is mapped, so a guest can make the host keep
//! as much memory as the window has; the guest's processes see what their kernel maps for them.
//!
//! The VMM is asked by a thread of its own, which holds no lock while it waits for the answer, and not while the
//! queues are stopped. What waits for the VMM then fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use protocol::virtio_gpu::{Failure, MapCache, Response};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};

use super::answers::Answer;
use super::memory::{Backing, PAGE, Piece};
use super::refused::Refused;

/// Bytes that a window can have; they are a power of two. QEMU aborts at others, drivers pass over longer ones.
pub const WINDOW_SIZES: RangeInclusive<u64> = 256 << 20..=256 << 30;

/// What shows the arena to the guest: the VMM. It answers when it has done so.
pub trait Vmm: Send + Sync {
    /// Maps the first `len` bytes of the file at the beginning of the window.
    ///
    /// # Errors
    /// When nothing is mapped.
    fn map(&self, arena: &File, len: u64) -> io::Result<()>;

    /// Takes that mapping away.
    ///
    /// # Errors
    /// When there was none.
    fn unmap(&self, len: u64) -> io::Result<()>;
}

/// The window of a device.
pub struct Window {
    size: u64,
    arena: Arc<Backing>,
    shared: Arc<Shared>,
}

/// What the thread shares with those who place blobs.
struct Shared {
    size: u64,
    arena: Arc<Backing>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Blobs in the window, by their first byte; they do not overlap.
    ranges: BTreeMap<u64, Range>,
    /// Their bytes.
    bytes: u64,
    /// Those that the guest has mapped.
    wanted: usize,
    shown: Shown,
    vmm: Option<Arc<dyn Vmm>>,
    /// Requests are executed.
    running: bool,
    /// MAP_BLOBs that wait until the arena is shown, with their ranges.
    waiting: Vec<(u64, Answer)>,
    /// Requests that are answered when the arena is not shown any more.
    leaving: Vec<Answer>,
    /// The last blob is gone; the arena is to be hidden.
    hide: bool,
    ended: bool,
}

struct Range {
    len: u64,
    wanted: bool,
    /// Its context gives it back in order.
    detached: bool,
}

/// Whether the guest sees the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shown {
    #[default]
    No,
    /// The VMM was asked to show it, or to hide it.
    Asked,
    Yes,
}

impl Window {
    /// A window of so many bytes, one of [`WINDOW_SIZES`].
    ///
    /// # Errors
    /// `InvalidInput` for other sizes; those of the system.
    pub fn new(size: u64) -> io::Result<Window> {
        if !size.is_power_of_two() || !WINDOW_SIZES.contains(&size) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fd = memfd_create("kfdvirt-window", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, size)?;
        // Workers have it too: one that made it shorter would have the VMM fault.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let arena = Arc::new(Backing::new(Arc::new(File::from(fd)))?);
        let shared = Arc::new(Shared {
            size,
            arena: Arc::clone(&arena),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let asking = Arc::clone(&shared);
        std::thread::Builder::new().name("window".to_owned()).spawn(move || asking.ask())?;
        Ok(Window { size, arena, shared })
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Blobs in it, and their bytes.
    #[must_use]
    pub fn taken(&self) -> (usize, u64) {
        let state = self.shared.lock();
        (state.ranges.len(), state.bytes)
    }

    /// Whether this is the arena: the VMM names it as memory of the guest once it has mapped it.
    #[must_use]
    pub fn is_in(&self, file: &File) -> bool {
        rustix::fs::fstat(file).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.arena.identity())
    }

    /// Who is asked to show the arena.
    pub fn set_vmm(&self, vmm: Option<Arc<dyn Vmm>>) {
        self.shared.lock().vmm = vmm;
    }

    /// Gives a blob its place, where nothing is. Its bytes are zero.
    pub(super) fn place(&self, offset: u64, len: u64) -> Result<Piece, Refused> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size && offset.is_multiple_of(PAGE));
        let end = end.ok_or(Refused::OutsideOfWindow { offset, len })?;
        let mut state = self.shared.lock();
        let before = state.ranges.range(..end).next_back();
        if before.is_some_and(|(start, range)| start + range.len > offset) {
            return Err(Refused::WindowTaken { offset, len });
        }
        if state.vmm.is_none() {
            return Err(Refused::NoWindow);
        }
        state.ranges.insert(offset, Range { len, wanted: false, detached: false });
        state.bytes += len;
        drop(state);
        // The guest's kernel may have written there. Not under the lock: that much memory takes long, and the thread that looks
        // after the workers of all contexts needs the lock too.
        if self.shared.zero(offset, len).is_err() {
            self.shared.unwant(offset, None, true);
            return Err(Refused::WindowFull);
        }
        Ok(Piece { addr: 0, len, backing: Arc::clone(&self.arena), offset })
    }

    /// Answers when the guest sees the blob at this place.
    pub(super) fn show(&self, offset: u64, answer: Answer) {
        let mut state = self.shared.lock();
        state.running = true;
        state.hide = false;
        if let Some(range) = state.ranges.get_mut(&offset)
            && !std::mem::replace(&mut range.wanted, true)
        {
            state.wanted += 1;
        }
        // They waited for something that does not happen now.
        let leaving =
            if state.shown == Shown::Asked { Vec::new() } else { std::mem::take(&mut state.leaving) };
        let now = if state.shown == Shown::Yes {
            Some(answer)
        } else {
            state.waiting.push((offset, answer));
            None
        };
        drop(state);
        self.shared.changed.notify_one();
        now.into_iter().for_each(|answer| answer.send(SHOWN));
        leaving.into_iter().for_each(|answer| answer.complete(Ok(())));
    }

    /// The guest does not map this blob any more. Answers when the arena is hidden, if it was the last.
    pub(super) fn hide(&self, offset: u64, answer: Answer) {
        self.shared.unwant(offset, Some(answer), false);
    }

    /// Nobody reaches the blob at this place any more, which is free again. Then as [`Window::hide`].
    pub(super) fn release(&self, offset: u64, answer: Option<Answer>) {
        let len = self.shared.lock().ranges.get(&offset).map(|range| range.len);
        // A place whose pages stay is not given again.
        let free = len.is_some_and(|len| self.shared.zero(offset, len).is_ok());
        self.shared.unwant(offset, answer, free);
    }

    /// Whoever maps the blob at this place. It says so by dropping it.
    pub(super) fn in_use(&self, offset: u64) -> InUse {
        if let Some(range) = self.shared.lock().ranges.get_mut(&offset) {
            range.detached = false;
        }
        InUse { shared: Arc::clone(&self.shared), offset }
    }

    /// The context of the blob at this place was told to give it back.
    pub(super) fn detached(&self, offset: u64) {
        if let Some(range) = self.shared.lock().ranges.get_mut(&offset) {
            range.detached = true;
        }
    }

    /// No request is executed any more: the VMM is asked nothing, and what waits for it is answered.
    pub(super) fn stop(&self) {
        let mut state = self.shared.lock();
        (state.running, state.hide) = (false, false);
        let waiting = std::mem::take(&mut state.waiting);
        let leaving = std::mem::take(&mut state.leaving);
        drop(state);
        waiting.into_iter().for_each(|(_, answer)| answer.complete(Err(Failure::Unspecified)));
        leaving.into_iter().for_each(|answer| answer.complete(Ok(())));
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // The thread may wait for a VMM that never answers; it ends with the process then.
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
    }
}

/// What MAP_BLOB answers: ordinary memory.
const SHOWN: Response = Response::MapInfo(MapCache::CACHED);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the pages away. What is read there next is zero.
    fn zero(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(self.arena.file(), flags, offset, len).map_err(|errno| {
            log::error!("{len:#x} bytes at {offset:#x} of the window cannot be zeroed: {errno}");
            errno.into()
        })
    }

    /// A blob need not be shown any more; with `free` its place is another's too.
    fn unwant(&self, offset: u64, answer: Option<Answer>, free: bool) {
        let mut state = self.lock();
        if let Some(range) = state.ranges.get_mut(&offset)
            && std::mem::take(&mut range.wanted)
        {
            state.wanted -= 1;
            state.hide |= state.wanted == 0 && state.running && state.shown != Shown::No;
        }
        if free && let Some(range) = state.ranges.remove(&offset) {
            state.bytes -= range.len;
        }
        let now = if state.hide {
            state.leaving.extend(answer);
            None
        } else {
            answer
        };
        drop(state);
        self.changed.notify_one();
        now.into_iter().for_each(|answer| answer.complete(Ok(())));
    }

    /// The thread that asks the VMM.
    fn ask(&self) {
        let mut state = self.lock();
        while !state.ended {
            let vmm = state.vmm.clone().filter(|_| state.running);
            state = match (vmm, state.shown) {
                (Some(vmm), Shown::No) if !state.waiting.is_empty() => self.map(state, &*vmm),
                (Some(vmm), Shown::Yes) if state.hide => self.unmap(state, &*vmm),
                _ => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn map<'a>(&'a self, mut state: MutexGuard<'a, State>, vmm: &dyn Vmm) -> MutexGuard<'a, State> {
        state.shown = Shown::Asked;
        drop(state);
        let mapped = vmm.map(self.arena.file(), self.size);
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.waiting);
        let response = match mapped {
            Ok(()) => {
                state.shown = Shown::Yes;
                SHOWN
            }
            Err(error) => {
                log::error!("the VMM does not map the window: {error}");
                // There is nothing to be hidden then.
                (state.shown, state.hide) = (Shown::No, false);
                for (offset, _) in &waiting {
                    if state.ranges.get_mut(offset).is_some_and(|range| std::mem::take(&mut range.wanted)) {
                        state.wanted -= 1;
                    }
                }
                Response::Failed(Failure::OutOfMemory)
            }
        };
        let leaving = if state.hide { Vec::new() } else { std::mem::take(&mut state.leaving) };
        drop(state);
        waiting.into_iter().for_each(|(_, answer)| answer.send(response.clone()));
        leaving.into_iter().for_each(|answer| answer.complete(Ok(())));
        self.lock()
    }

    fn unmap<'a>(&'a self, mut state: MutexGuard<'a, State>, vmm: &dyn Vmm) -> MutexGuard<'a, State> {
        (state.shown, state.hide) = (Shown::Asked, false);
        let leaving = std::mem::take(&mut state.leaving);
        drop(state);
        if let Err(error) = vmm.unmap(self.size) {
            log::error!("the VMM does not take the window away: {error}");
        }
        self.lock().shown = Shown::No;
        leaving.into_iter().for_each(|answer| answer.complete(Ok(())));
        self.lock()
    }
}

/// A context maps a blob of the window.
pub(super) struct InUse {
    shared: Arc<Shared>,
    offset: u64,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let state = self.shared.lock();
        let lost = state.ranges.get(&self.offset).filter(|range| !range.detached).map(|range| range.len);
        drop(state);
        // Nobody asked for it: the worker has ended. What it had is given back to the host, and not shown any more unless
        // other contexts have something in the window.
        if let Some(len) = lost {
            // The range stays the blob's until the guest gives that up.
            let _logged = self.shared.zero(self.offset, len);
            self.shared.unwant(self.offset, None, false);
        }
    }
}
