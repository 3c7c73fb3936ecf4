use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use protocol::kfd::Interrupt;
use protocol::wire::VERSION_MAX;
use protocol::wire::structs::HelloAnswer;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use zerocopy::IntoBytes;

use super::super::device::Device;
use super::super::mem::OwnMemory;
use super::super::testing::{FakeDevice, encoded, obliging};
use super::*;

/// The handle that the test's KFD gives to every buffer: it is free again each time.
const HANDLE: u64 = 9;

/// A process whose worker says what it was asked. FREE_MEMORY_OF_GPU waits for the test.
struct Rig {
    process: VirtioProcess,
    device: Arc<FakeDevice>,
    said: Arc<Mutex<Vec<String>>>,
    file: FileId,
}

struct TestCall(Interrupt);

impl Call for TestCall {
    fn mem(&self) -> &dyn UserMem {
        &OwnMemory
    }

    fn descriptor(&self, _fd: i32) -> Result<PassedFd, Errno> {
        Err(Errno::EBADF)
    }

    fn install(&self, _fd: std::os::fd::OwnedFd) -> Result<i32, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn interrupt(&self) -> &Interrupt {
        &self.0
    }
}

fn answer(args: &[u8]) -> Result<Vec<u8>, Errno> {
    Ok(encoded(&Answer::Ioctl(IoctlAnswer { result: 0, args, writes: &[] })))
}

impl Rig {
    fn new() -> Self {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let says = Arc::clone(&said);
        let device = FakeDevice::new(Box::new(move |_, request| {
            says.lock().unwrap().push(request.command().name().to_owned());
            match request {
                Request::Hello { ranges, .. } => {
                    let (version, addresses) = (VERSION_MAX.into(), ranges[0]);
                    let hello = HelloAnswer { version, addresses, ..Default::default() };
                    Some(Ok(encoded(&Answer::Hello(hello))))
                }
                Request::Ioctl(call) if call.request == Ioctl::AllocMemoryOfGpu.request() => {
                    let (args, _) = AllocMemoryOfGpuArgs::read_from_prefix(call.args).unwrap();
                    Some(answer(AllocMemoryOfGpuArgs { handle: HANDLE, ..args }.as_bytes()))
                }
                Request::Ioctl(_) => None,
                request => obliging(request),
            }
        }));
        let first = Arc::clone(&device) as Arc<dyn Device>;
        let process = VirtioProcess::new(Arc::new(Link::open(first, Duration::from_micros(50)).unwrap()));
        let file = process.open(Node::Kfd).unwrap();
        Self { process, device, said, file }
    }

    /// A page of memory of the context's addresses, which may be those of another test too.
    fn page(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let start = self.process.link.addresses.first() + NEXT.fetch_add(1, Ordering::Relaxed) * 2 * PAGE;
        let at = std::ptr::with_exposed_provenance_mut(start as usize);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: with FIXED_NOREPLACE the kernel replaces nothing.
        unsafe { mmap_anonymous(at, PAGE as usize, access, flags) }.unwrap();
        start
    }

    fn alloc(&self, start: u64) -> u64 {
        let (flags, size) = (AllocFlags::USERPTR.0, PAGE);
        let mut args =
            AllocMemoryOfGpuArgs { va_addr: start, size, mmap_offset: start, flags, ..Default::default() };
        let request = Ioctl::AllocMemoryOfGpu.request();
        self.process.ioctl(self.file, request, args.as_mut_bytes(), &TestCall(Interrupt::new())).unwrap();
        args.handle
    }

    fn free(&self) -> Result<i32, Errno> {
        let mut args = FreeMemoryOfGpuArgs { handle: HANDLE };
        let request = Ioctl::FreeMemoryOfGpu.request();
        self.process.ioctl(self.file, request, args.as_mut_bytes(), &TestCall(Interrupt::new()))
    }

    /// Frees the buffer, and does something else after the host has made the call and before the answer is here.
    fn free_while(&self, meanwhile: impl FnOnce(), done: Result<Vec<u8>, Errno>) -> Result<i32, Errno> {
        thread::scope(|scope| {
            let freeing = scope.spawn(|| self.free());
            let slot = self.device.waiting(1)[0];
            meanwhile();
            self.device.finish(slot, done);
            freeing.join().unwrap()
        })
    }

    /// How often the worker was told to let go of memory.
    fn unaliased(&self) -> usize {
        self.said.lock().unwrap().iter().filter(|command| *command == "UNALIAS").count()
    }
}

fn unmap(start: u64) {
    let at = std::ptr::with_exposed_provenance_mut(start as usize);
    // SAFETY: a page of `Rig::page`, to which no reference leads.
    unsafe { munmap(at, PAGE as usize) }.unwrap();
}

fn freed() -> Result<Vec<u8>, Errno> {
    answer(FreeMemoryOfGpuArgs { handle: HANDLE }.as_bytes())
}

/// KFD gives a handle to the next buffer as soon as it is free, which may be before the thread that freed it knows.
#[test]
fn a_buffer_with_the_handle_of_one_that_is_being_freed_stays_shared() {
    let rig = Rig::new();
    let (first, second) = (rig.page(), rig.page());

    // The one that goes is memory of a GPU, of which no table knows.
    rig.free_while(|| assert_eq!(rig.alloc(first), HANDLE), freed()).unwrap();
    assert_eq!(rig.unaliased(), 0, "the new buffer is shared");

    // The one that goes is shared too.
    rig.free_while(|| assert_eq!(rig.alloc(second), HANDLE), freed()).unwrap();
    assert_eq!(rig.unaliased(), 1, "the old one is not shared any more, the new one is");

    rig.free_while(|| (), freed()).unwrap();
    assert_eq!(rig.unaliased(), 2);
    [first, second].into_iter().for_each(unmap);
}

#[test]
fn a_buffer_that_the_host_does_not_free_stays_shared() {
    let rig = Rig::new();
    let page = rig.page();
    rig.alloc(page);
    assert_eq!(rig.free_while(|| (), Err(Errno::EBUSY)), Err(Errno::EBUSY));
    assert_eq!(rig.unaliased(), 0);
    rig.free_while(|| (), freed()).unwrap();
    assert_eq!(rig.unaliased(), 1);
    unmap(page);
}
