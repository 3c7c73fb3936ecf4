//! Memory of the host that this process sees: buffers of GPUs, and doorbells, in the device's window.
//!
//! A buffer is given memory of the window when the program maps it: a blob of the host's becomes its pages (PLACE), and is what
//! is mapped here. The window is the size of what a host is willing to show, so buffers that nobody maps take nothing of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::kfd::args::{AcquireVmArgs, AllocMemoryOfGpuArgs};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::{FileId, Mapping};
use protocol::wire::Request;
use protocol::wire::structs::Range;

use super::calls::Calls;
use super::device::GuestBlob;

/// What there is for this process in the window.
#[derive(Default)]
pub(super) struct Window(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// The GPU whose buffers a file of a render node shows.
    gpus: HashMap<FileId, u32>,
    /// Buffers that the CPU may see, by KFD's handle.
    buffers: HashMap<u64, Buffer>,
    /// The handles of these, by GPU and place in its render node.
    places: HashMap<(u32, u64), u64>,
}

impl Table {
    /// In the place of one of the same handle, which would be the host's mistake.
    fn insert(&mut self, handle: u64, buffer: Buffer) {
        self.remove(handle);
        self.places.insert((buffer.gpu_id, buffer.offset), handle);
        self.buffers.insert(handle, buffer);
    }

    fn remove(&mut self, handle: u64) -> Option<Buffer> {
        let buffer = self.buffers.remove(&handle)?;
        let place = (buffer.gpu_id, buffer.offset);
        if self.places.get(&place) == Some(&handle) {
            self.places.remove(&place);
        }
        Some(buffer)
    }
}

/// A buffer that the CPU may see.
pub(super) struct Buffer {
    gpu_id: u32,
    /// Where it is in the GPU's render node.
    offset: u64,
    /// Once it was mapped.
    shown: Option<Shown>,
}

/// Memory of the window with a purpose. Dropping it gives it back, once its mappings and the host's use are gone too.
pub(super) struct Shown {
    mapping: Mapping,
    _blob: Box<dyn GuestBlob>,
}

impl Shown {
    /// Puts memory of the window behind a place of a file.
    ///
    /// # Errors
    /// `ENOMEM` for a full window; those of the call.
    pub(super) fn new(
        calls: &Arc<Calls>,
        blob_id: u64,
        file: FileId,
        offset: u64,
        len: u64,
    ) -> Result<Self, Errno> {
        let blob = calls.device().create_host_blob(len, blob_id).map_err(|errno| {
            log::warn!("the window has no room for {len} bytes: {errno}");
            // The driver says ENOSPC.
            Errno::ENOMEM
        })?;
        let mapping = blob.mapping()?;
        let place = Range { base: offset.into(), len: len.into() };
        calls.tell(&Request::Place { file, place, resource: blob.resource() })?;
        Ok(Self { mapping, _blob: blob })
    }

    /// What to map.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

impl Window {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// ACQUIRE_VM succeeded: this file is of that GPU.
    pub(super) fn acquired(&self, file: FileId, args: &AcquireVmArgs) {
        self.lock().gpus.insert(file, args.gpu_id);
    }

    /// A file was closed.
    pub(super) fn closed(&self, file: FileId) {
        self.lock().gpus.remove(&file);
    }

    /// ALLOC_MEMORY_OF_GPU succeeded.
    pub(super) fn allocated(&self, args: &AllocMemoryOfGpuArgs) {
        let flags = AllocFlags(args.flags);
        let seen = flags.contains(AllocFlags::GTT) || flags.contains(AllocFlags::VRAM | AllocFlags::PUBLIC);
        if seen {
            let buffer = Buffer { gpu_id: args.gpu_id, offset: args.mmap_offset, shown: None };
            self.lock().insert(args.handle, buffer);
        }
    }

    /// FREE_MEMORY_OF_GPU will be called: the handle is nobody's from now on. Dropping the buffer gives its part of the window back.
    pub(super) fn take(&self, handle: u64) -> Option<Buffer> {
        self.lock().remove(handle)
    }

    /// FREE_MEMORY_OF_GPU was refused.
    pub(super) fn put_back(&self, handle: u64, buffer: Buffer) {
        self.lock().insert(handle, buffer);
    }

    /// What to map for all of a buffer.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for what is not to be seen; `EINVAL` for a part of a buffer; those of [`Shown::new`].
    pub(super) fn map(
        &self,
        calls: &Arc<Calls>,
        blob_id: u64,
        file: FileId,
        offset: u64,
        len: u64,
    ) -> Result<Mapping, Errno> {
        let mut table = self.lock();
        let gpu_id = table.gpus.get(&file).copied().ok_or(Errno::EOPNOTSUPP)?;
        let handle = table.places.get(&(gpu_id, offset)).copied();
        let buffer = handle.and_then(|handle| table.buffers.get_mut(&handle)).ok_or(Errno::EOPNOTSUPP)?;
        if buffer.shown.is_none() {
            buffer.shown = Some(Shown::new(calls, blob_id, file, offset, len)?);
        }
        let mapping = buffer.shown.as_ref().map(|shown| shown.mapping().clone());
        mapping.filter(|mapping| mapping.len == len).ok_or(Errno::EINVAL)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::super::device::Device;
    use super::super::testing::{FakeDevice, WINDOW_BLOB, obliging};
    use super::*;

    const FILE: FileId = FileId(3);
    const LEN: u64 = 0x3000;

    /// A process with one GPU, and what its worker was asked to place.
    struct Rig {
        window: Window,
        calls: Arc<Calls>,
        device: Arc<FakeDevice>,
        placed: Arc<Mutex<Vec<(FileId, u64, u64)>>>,
        refuses: Arc<AtomicBool>,
    }

    impl Rig {
        fn new() -> Self {
            let (placed, refuses): (Arc<Mutex<Vec<_>>>, Arc<AtomicBool>) = Default::default();
            let (seen, refused) = (Arc::clone(&placed), Arc::clone(&refuses));
            let device = FakeDevice::new(Box::new(move |_, request| {
                if let Request::Place { file, place, .. } = *request {
                    seen.lock().unwrap().push((file, place.base.get(), place.len.get()));
                    if refused.load(Ordering::SeqCst) {
                        return Some(Err(Errno::EBUSY));
                    }
                }
                obliging(request)
            }));
            let first = Arc::clone(&device) as Arc<dyn Device>;
            let calls = Arc::new(Calls::new(first, Duration::from_micros(50)).unwrap());
            let window = Window::default();
            window.acquired(FILE, &AcquireVmArgs { drm_fd: 9, gpu_id: 77 });
            Self { window, calls, device, placed, refuses }
        }

        fn alloc(&self, handle: u64, offset: u64, flags: AllocFlags) {
            let (gpu_id, flags, size) = (77, flags.0, LEN);
            let args = AllocMemoryOfGpuArgs { handle, mmap_offset: offset, gpu_id, flags, size, va_addr: 0 };
            self.window.allocated(&args);
        }

        fn map(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
            self.window.map(&self.calls, WINDOW_BLOB, file, offset, len)
        }
    }

    #[test]
    fn a_buffer_takes_room_of_the_window_once_and_while_it_lives() {
        let rig = Rig::new();
        let before = rig.device.blobs();
        rig.alloc(1, 0x10000, AllocFlags::VRAM | AllocFlags::PUBLIC);
        rig.alloc(2, 0x20000, AllocFlags::GTT);
        assert_eq!(rig.device.blobs(), before, "nobody has mapped it");
        let first = rig.map(FILE, 0x10000, LEN).unwrap();
        let again = rig.map(FILE, 0x10000, LEN).unwrap();
        assert!(Arc::ptr_eq(&first.fd, &again.fd), "the same memory");
        assert_eq!(rig.map(FILE, 0x20000, LEN).unwrap().len, LEN);
        assert_eq!(*rig.placed.lock().unwrap(), [(FILE, 0x10000, LEN), (FILE, 0x20000, LEN)]);
        assert_eq!(rig.device.blobs(), before + 2);
        assert_eq!(rig.map(FILE, 0x10000, 0x1000).err(), Some(Errno::EINVAL), "a part");
        let buffer = rig.window.take(1).unwrap();
        assert_eq!(rig.map(FILE, 0x10000, LEN).err(), Some(Errno::EOPNOTSUPP));
        rig.window.put_back(1, buffer);
        assert_eq!(rig.map(FILE, 0x10000, LEN).map(|mapping| mapping.len), Ok(LEN));
        drop(rig.window.take(1));
        assert_eq!(rig.device.blobs(), before + 1);
    }

    #[test]
    fn what_the_cpu_is_not_to_see_has_none() {
        let rig = Rig::new();
        rig.alloc(1, 0x10000, AllocFlags::VRAM);
        rig.alloc(2, 0x20000, AllocFlags::VRAM | AllocFlags::PUBLIC);
        for (file, offset) in [(FILE, 0x10000), (FILE, 0x21000), (FileId(4), 0x20000)] {
            assert_eq!(rig.map(file, offset, LEN).err(), Some(Errno::EOPNOTSUPP), "{file:?} {offset:#x}");
        }
        rig.window.closed(FILE);
        assert_eq!(rig.map(FILE, 0x20000, LEN).err(), Some(Errno::EOPNOTSUPP));
        assert!(rig.placed.lock().unwrap().is_empty());
    }

    #[test]
    fn a_full_window_is_no_memory_and_what_is_refused_leaves_nothing() {
        let rig = Rig::new();
        let before = rig.device.blobs();
        rig.alloc(1, 0x10000, AllocFlags::GTT);
        let full = rig.window.map(&rig.calls, 0, FILE, 0x10000, LEN);
        assert_eq!(full.err(), Some(Errno::ENOMEM));
        rig.refuses.store(true, Ordering::SeqCst);
        assert_eq!(rig.map(FILE, 0x10000, LEN).err(), Some(Errno::EBUSY));
        assert_eq!(rig.device.blobs(), before);
        rig.refuses.store(false, Ordering::SeqCst);
        assert_eq!(rig.map(FILE, 0x10000, LEN).map(|mapping| mapping.len), Ok(LEN));
    }
}
