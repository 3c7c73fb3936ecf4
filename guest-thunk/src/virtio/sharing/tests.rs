use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::device::Device;
use super::super::testing::{FakeDevice, obliging};
use super::*;
use crate::native::KernelReaches;

/// The worker, which says what it was asked.
struct Rig {
    calls: Arc<Calls>,
    device: Arc<FakeDevice>,
    said: Arc<Mutex<Vec<String>>>,
    refuses: Arc<AtomicBool>,
}

/// Memory of the test.
struct Memory {
    start: u64,
    len: u64,
}

impl Rig {
    fn new() -> Self {
        let (said, refuses): (Arc<Mutex<Vec<String>>>, Arc<AtomicBool>) = Default::default();
        let (says, refused) = (Arc::clone(&said), Arc::clone(&refuses));
        let device = FakeDevice::new(Box::new(move |_, request| {
            says.lock().unwrap().push(request.command().name().to_owned());
            if refused.load(Ordering::SeqCst) && matches!(request, Request::Alias { .. }) {
                return Some(Err(Errno::ENOSPC));
            }
            obliging(request)
        }));
        let first = Arc::clone(&device) as Arc<dyn Device>;
        let calls = Arc::new(Calls::new(first, Duration::from_micros(50)).unwrap());
        Self { calls, device, said, refuses }
    }

    /// What the worker was asked since the last time.
    fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.said.lock().unwrap())
    }
}

impl Memory {
    fn new(pages: u64) -> Self {
        let len = pages * PAGE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len as usize, access, MapFlags::PRIVATE) }.unwrap();
        Self { start: at.expose_provenance() as u64, len }
    }

    fn put(&self, offset: u64, bytes: &[u8]) {
        OwnMemory.write(self.start + offset, bytes).unwrap();
    }

    fn get(&self, offset: u64) -> [u8; 4] {
        let mut bytes = [0; 4];
        OwnMemory.read(self.start + offset, &mut bytes).unwrap();
        bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let (at, bytes) = place(self.start, self.len).unwrap();
        // SAFETY: the mapping of `new`, or what took its place, to which no reference leads.
        unsafe { munmap(at, bytes) }.unwrap();
    }
}

#[test]
fn contents_are_kept_and_the_host_sees_what_is_stored_later() {
    let (rig, sharing, memory) = (Rig::new(), Sharing::default(), Memory::new(5));
    memory.put(2 * PAGE + 8, b"kept");
    let start = sharing.lock(&rig.calls).share(memory.start, memory.len).unwrap();
    assert_eq!(rig.said(), ["ALIAS"]);
    assert_eq!((memory.get(0), memory.get(2 * PAGE + 8)), ([0; 4], *b"kept"));
    memory.put(4 * PAGE, b"more");
    // The blob's own memory, as the host maps it.
    let shared = sharing.0.lock().unwrap();
    let view = View::new(&shared.ranges[&start].blob.mapping().unwrap()).unwrap();
    drop(shared);
    let mut seen = [[0; 4]; 2];
    assert!(view.read(2 * PAGE as usize + 8, &mut seen[0]) && view.read(4 * PAGE as usize, &mut seen[1]));
    assert_eq!(seen, [*b"kept", *b"more"]);
    assert!(view.write(0, b"host"));
    assert_eq!(memory.get(0), *b"host");
}

/// A save area, into which GET_QUEUE_WAVE_STATE writes, is memory that the kernel copies nothing from or to: as what reads and writes
/// nothing stands `KernelReaches` here.
#[test]
fn what_is_shared_is_reached_by_calls_through_its_blob() {
    let (rig, sharing, memory) = (Rig::new(), Sharing::default(), Memory::new(4));
    let reached = Reached { own: &KernelReaches, sharing: &sharing };
    let at = memory.start + 2 * PAGE + 5;
    assert_eq!(reached.write(at, b"said"), Err(Fault { addr: at, len: 4 }), "not shared");
    sharing.lock(&rig.calls).share(memory.start, memory.len).unwrap();

    reached.write(at, b"said").unwrap();

    assert_eq!(memory.get(2 * PAGE + 5), *b"said");
    let mut back = [0; 4];
    reached.read(at, &mut back).unwrap();
    assert_eq!(back, *b"said");
    let end = memory.start + memory.len;
    for (addr, len) in [(end - 3, 4), (end, 1), (memory.start - 1, 1), (u64::MAX, 1)] {
        assert!(reached.read(addr, &mut back[..len]).is_err(), "{addr:#x}");
    }
}

#[test]
fn a_range_goes_with_its_last_user() {
    let (rig, sharing, memory) = (Rig::new(), Sharing::default(), Memory::new(4));
    let before = rig.device.blobs();
    let mut table = sharing.lock(&rig.calls);
    let start = table.share(memory.start, memory.len).unwrap();
    table.name(start, 7);
    // A part of what is shared is shared.
    assert_eq!(table.share(memory.start + PAGE, PAGE), Ok(start));
    table.name(start, 8);
    assert_eq!(rig.said(), ["ALIAS"]);
    assert_eq!((table.unname(7), table.unname(7), table.unname(99)), (Some(start), None, None));
    table.freed(start);
    assert_eq!((rig.said(), rig.device.blobs()), (Vec::new(), before + 1));
    assert_eq!(table.unname(8), Some(start));
    table.freed(start);
    assert_eq!((rig.said(), rig.device.blobs()), (vec!["UNALIAS".to_owned()], before));
    // What is mapped stays the program's until it unmaps it.
    memory.put(0, b"mine");
    assert_eq!(memory.get(0), *b"mine");
}

#[test]
fn what_the_host_refuses_is_as_it_was() {
    let (rig, sharing, memory) = (Rig::new(), Sharing::default(), Memory::new(4));
    memory.put(3 * PAGE, b"kept");
    let before = rig.device.blobs();
    rig.refuses.store(true, Ordering::SeqCst);
    assert_eq!(sharing.lock(&rig.calls).share(memory.start, memory.len), Err(Errno::ENOSPC));
    assert_eq!(vma::check_own(memory.start, memory.len), Ok(()), "private memory again");
    assert_eq!(vma::used_pages(memory.start, memory.len), [memory.start + 3 * PAGE], "and no more of it");
    assert_eq!((memory.get(0), memory.get(3 * PAGE)), ([0; 4], *b"kept"));
    assert_eq!(rig.device.blobs(), before);

    rig.refuses.store(false, Ordering::SeqCst);
    let mut table = sharing.lock(&rig.calls);
    let start = table.share(memory.start, memory.len).unwrap();
    rig.said();
    // KFD refuses the buffer.
    table.undo(start);
    assert_eq!(rig.said(), ["UNALIAS"]);
    assert_eq!((memory.get(3 * PAGE), vma::check_own(memory.start, memory.len)), (*b"kept", Ok(())));
}

#[test]
fn memory_that_cannot_be_replaced_is_refused_before_anything_is_done() {
    let (rig, sharing, memory) = (Rig::new(), Sharing::default(), Memory::new(4));
    let mut table = sharing.lock(&rig.calls);
    table.share(memory.start, 2 * PAGE).unwrap();
    rig.said();
    assert_eq!(table.share(memory.start + PAGE, 2 * PAGE), Err(Errno::EINVAL), "shared in part");
    assert_eq!(table.share(PAGE, PAGE), Err(Errno::EFAULT), "nothing there");
    assert_eq!(table.share(u64::MAX - PAGE + 1, PAGE), Err(Errno::EFAULT));
    assert_eq!(rig.said(), Vec::<String>::new());
}
