//! The event page: one slot of 8 bytes for each signal event, which the GPU writes to set the event.
//!
//! The kernel has one for each process, from the first event to the end of the process, so this library must know
//! it as long: it survives closing and opening the library.

use std::ffi::c_void;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::hsakmt::Status;
use protocol::kfd::Mapping;
use protocol::kfd::constants::SIGNAL_EVENT_LIMIT;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::engine::gate::{before_map, note_held};
use crate::engine::{Engine, Result, fmm};
use crate::errno_of;

/// Bytes of the event page.
pub(super) const PAGE_BYTES: u64 = SIGNAL_EVENT_LIMIT as u64 * 8;

/// A process's event page.
#[derive(Debug, Default)]
pub(super) struct EventPage {
    /// Address of the page, once it is in use; 0 before. What most calls look at.
    address: AtomicU64,
    /// How far the page has got. Whoever holds this lock may call into topology and memory, so nobody creates an event
    /// who holds a lock of theirs.
    progress: Mutex<Progress>,
}

/// How far the page has got.
#[derive(Debug, Default)]
pub(super) enum Progress {
    /// There is none.
    #[default]
    Nothing,
    /// A buffer of ours that KFD is to take with the next event. It stays so if that fails.
    Offered {
        /// The buffer.
        buffer: Buffer,
        /// Whether a call failed in a way that leaves open if KFD has taken it: it takes the page before it makes
        /// the event.
        perhaps_taken: bool,
    },
    /// A buffer of ours that KFD has taken. Never freed: KFD refuses that.
    Taken,
    /// KFD's own page, without GPU.
    Kernels {
        /// Unmapped with the engine.
        _mapped: Mapped,
    },
}

/// A buffer for the event page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    /// KFD's handle.
    pub(super) handle: NonZeroU64,
    /// GPU virtual address.
    pub(super) address: u64,
}

impl EventPage {
    /// Address of the page, if it is in use.
    pub(super) fn address(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.address.load(Ordering::Acquire))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page is in use from now on.
    pub(super) fn use_at(&self, address: u64) {
        self.address.store(address, Ordering::Release);
    }
}

impl Engine {
    /// Memory for the event page that GPUs can write: a buffer of ours, if there is a GPU of its own beside APUs.
    /// Processes on APUs alone have the kernel's page; kernels from 7.3 on have none, and no signal events for them.
    ///
    /// # Errors
    /// `ERROR` if the topology cannot be read or there is no memory, which AMD's library does not tell apart here.
    pub(super) fn event_buffer(&self) -> Result<Option<Buffer>> {
        let snapshot = self.snapshot().map_err(|_| Status::Error)?;
        if !snapshot.has_discrete_gpu() {
            return Ok(None);
        }
        let fmm::EventPage { handle, address } =
            self.alloc_event_page(PAGE_BYTES).map_err(|_| Status::Error)?;
        let handle = NonZeroU64::new(handle).ok_or(Status::Error)?;
        Ok(Some(Buffer { handle, address }))
    }

    /// Maps KFD's own event page, which is at `offset` of `/dev/kfd`.
    ///
    /// # Errors
    /// `ERROR` if it cannot be mapped.
    pub(super) fn map_kernels_page(&self, offset: u64) -> Result<Mapped> {
        let mapping = self.channel.mapping(self.channel.kfd_file(), offset, PAGE_BYTES);
        mapping.and_then(|mapping| Mapped::new(&mapping)).map_err(|errno| {
            log::warn!("the event page at {offset:#x} of /dev/kfd cannot be mapped: {errno}");
            Status::Error
        })
    }
}

/// A mapping of the event page.
#[derive(Debug)]
pub(super) struct Mapped {
    address: usize,
    len: usize,
    /// What is mapped stays open as long.
    _fd: Arc<std::os::fd::OwnedFd>,
}

impl Mapped {
    fn new(mapping: &Mapping) -> std::result::Result<Self, Errno> {
        let len = usize::try_from(mapping.len).map_err(|_| Errno::EINVAL)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        before_map().map_err(errno_of)?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing. Nothing in this process makes
        // Rust references to what is in it: only its address is used.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, &mapping.fd, mapping.offset) };
        let address = base.map_err(errno_of)?.expose_provenance();
        note_held(mapping.len, 0);
        Ok(Self { address, len, _fd: Arc::clone(&mapping.fd) })
    }

    pub(super) fn address(&self) -> u64 {
        self.address as u64
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let base: *mut c_void = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: this very range was mapped by `new` and no Rust reference into it exists.
        match unsafe { munmap(base, self.len) } {
            Ok(()) => note_held(0, self.len as u64),
            Err(error) => log::warn!("the event page cannot be unmapped: {error}"),
        }
    }
}
