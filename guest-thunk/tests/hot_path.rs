//! The calls that a runtime makes all the time do not allocate: set an event, wait for one that is set.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use hsakmt::engine::event::SharedEvent;
use hsakmt::native::KernelReaches;
use hsakmt::{Engine, Options};
use protocol::Errno;
use protocol::hsakmt::{Event, EventType};
use protocol::kfd::topology::Tree;
use protocol::kfd::{Call, Caller, FileId, Ioctl, Kfd, Mapping, Node, Process, Transfer, request_nr};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on as it is to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `alloc`, that is, from the system's allocator, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A device that allocates nothing either: each call succeeds and changes nothing, which is a wait that is over.
struct Willing;

impl Kfd for Willing {
    fn topology(&self) -> Result<Tree, Errno> {
        Err(Errno::ENOENT)
    }

    fn attach(&self, _caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        Ok(Arc::new(Willing))
    }
}

impl Process for Willing {
    fn open(&self, _node: Node) -> Result<FileId, Errno> {
        Ok(FileId(1))
    }

    fn close(&self, _file: FileId) {}

    fn transfer(&self, _file: FileId, _request: u32) -> Result<Transfer, Errno> {
        Err(Errno::ENOTTY)
    }

    fn ioctl(&self, _file: FileId, request: u32, args: &mut [u8], _call: &dyn Call) -> Result<i32, Errno> {
        match request_nr(request) {
            nr if nr == Ioctl::GetVersion.nr() => args.copy_from_slice(&[1, 0, 0, 0, 17, 0, 0, 0]),
            // wait_result: KFD_IOC_WAIT_RESULT_COMPLETE.
            nr if nr == Ioctl::WaitEvents.nr() => args[20..].fill(0),
            nr if nr == Ioctl::SetEvent.nr() => {}
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }

    fn mmap(&self, _file: FileId, _offset: u64, _len: u64) -> Result<Mapping, Errno> {
        Err(Errno::ENODEV)
    }
}

fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

#[test]
fn setting_and_waiting_allocate_nothing() {
    let device: Arc<dyn Kfd> = Arc::new(Willing);
    let engine =
        Engine::new(&device, Arc::new(KernelReaches), Options::default()).expect("a device that says yes");
    let event = SharedEvent::from(Event { event_id: 1, ..Default::default() });
    assert_eq!(event.kind(), EventType::SIGNAL);
    let list = [Some(&event); 16];
    let mut ages = [1; 16];
    let count = allocations(|| {
        for _ in 0..100 {
            engine.set_event(&event).expect("set");
            engine.wait_on_event(&event, u32::MAX, None).expect("waited");
            engine.wait_on_event(&event, 0, Some(&mut ages[0])).expect("waited");
            engine.wait_on_events(&list, false, 0, Some(&mut ages)).expect("waited");
        }
    });
    assert_eq!(count, 0);
    // And the counter counts: a list that is longer than the array on the stack.
    assert_eq!(allocations(|| engine.wait_on_events(&[Some(&event); 17], true, 0, None).expect("waited")), 1);
}
