//! A VMM and a guest driver for tests: the vhost crate's frontend, as any VMM would drive the device (no GPU socket, and shared
//! memory regions for tests of the window alone), and the driver's side of the control queue in memory of our own.

pub mod contexts;
pub mod queue;
pub mod shmem;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use protocol::virtio_gpu::structs::{CtrlHdr, MemEntry};
use protocol::virtio_gpu::{
    BlobFlags, BlobMem, Command, CreateBlob, CreateContext, Header, Request, ResponseId,
};
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vhost_device_kfd::device::{Contexts, Device, Limits, Window};
use vhost_device_kfd::serve::{ServeError, bind, serve};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use queue::Queue;
use shmem::Shmem;

/// Every wait of a test ends by then.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Bytes of the guest's memory. The rings and requests are at the start; blobs are made from [`BLOBS`] on.
pub const RAM: u64 = 64 << 20;

/// Where tests make blobs.
pub const BLOBS: u64 = 32 << 20;

/// Where long requests are.
pub const LONG: u64 = 4 << 20;

/// Bit of a queue feature.
pub const EVENT_IDX: u64 = 1 << 29;

/// Waits until `done`, and fails the test with `what` otherwise.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A file with guest memory.
pub fn memfd(len: u64) -> File {
    let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd");
    let file = File::from(fd);
    file.set_len(len).expect("its length");
    file
}

/// A region of the guest's memory, as the VMM tells it.
pub fn region(memory: &GuestMemoryMmap<()>, at: u64) -> VhostUserMemoryRegionInfo {
    let region = memory.find_region(GuestAddress(at)).expect("a region");
    VhostUserMemoryRegionInfo::from_guest_region(region).expect("it has a file")
}

/// A device, a VMM and a guest.
pub struct Vm {
    pub frontend: Frontend,
    pub control: Queue,
    pub cursor: Queue,
    pub memory: GuestMemoryMmap<()>,
    pub device: Arc<Device>,
    pub features: u64,
    daemon: Option<JoinHandle<Result<(), ServeError>>>,
    dir: tempfile::TempDir,
}

/// What a [`Vm`] is made of.
pub struct Setup {
    pub contexts: Box<dyn Contexts>,
    pub limits: Limits,
    pub queue_size: u16,
    /// Features that the driver does not take.
    pub without: u64,
    /// Bytes of the window, and the VMM that shows it.
    pub window: Option<(u64, Shmem)>,
    /// The VMM does not know shared memory regions.
    pub without_shmem: bool,
}

impl Setup {
    pub fn new(contexts: impl Contexts + 'static) -> Setup {
        Setup {
            contexts: Box::new(contexts),
            limits: Limits::default(),
            queue_size: 256,
            without: EVENT_IDX,
            window: None,
            without_shmem: false,
        }
    }

    pub fn start(self) -> Vm {
        Vm::start(self)
    }

    /// Without setting anything up.
    pub fn connect(self) -> Vm {
        Vm::connect(self)
    }
}

impl Vm {
    /// Connects without setting anything up.
    fn connect(setup: Setup) -> Vm {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let endpoint = bind(&path).expect("a socket");
        let device = Device::new(setup.contexts, setup.limits);
        let device = Arc::new(match &setup.window {
            Some((size, _)) => device.with_window(Window::new(*size).expect("a window")),
            None => device,
        });
        let served = Arc::clone(&device);
        let daemon = std::thread::spawn(move || serve(&served, endpoint));
        let frontend = Frontend::connect(&path, 2).expect("connected");
        let place = FileOffset::new(memfd(RAM), 0);
        let size = usize::try_from(RAM).expect("64 bits");
        let memory = GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), size, Some(place))]);
        let memory = memory.expect("a mapping");
        let control = Queue::new(&memory, 0x1_0000, setup.queue_size);
        let cursor = Queue::new(&memory, 0x4_0000, 16);
        Vm { frontend, control, cursor, memory, device, features: 0, daemon: Some(daemon), dir }
    }

    fn start(setup: Setup) -> Vm {
        let (without, without_shmem) = (setup.without, setup.without_shmem);
        let window = setup.window.as_ref().map(|(_, shmem)| shmem.clone());
        let mut vm = Vm::connect(setup);
        vm.frontend.set_owner().expect("SET_OWNER");
        vm.features = vm.frontend.get_features().expect("GET_FEATURES") & !without;
        let mut protocol = vm.frontend.get_protocol_features().expect("GET_PROTOCOL_FEATURES");
        assert!(!protocol.intersects(VhostUserProtocolFeatures::LOG_SHMFD));
        assert_eq!(protocol.contains(VhostUserProtocolFeatures::SHMEM), window.is_some());
        protocol.set(VhostUserProtocolFeatures::SHMEM, window.is_some() && !without_shmem);
        vm.frontend.set_protocol_features(protocol).expect("SET_PROTOCOL_FEATURES");
        vm.frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        if let Some(window) = window {
            window.connect(&mut vm.frontend);
        }
        assert_eq!(vm.frontend.get_queue_num().expect("GET_QUEUE_NUM"), 2);
        vm.frontend.set_features(vm.features).expect("SET_FEATURES");
        vm.frontend.set_mem_table(&[region(&vm.memory, 0)]).expect("SET_MEM_TABLE");
        vm.start_queues();
        vm
    }

    /// Sets both queues up from their beginning.
    pub fn start_queues(&mut self) {
        self.start_queue(0);
        self.start_queue(1);
    }

    /// Sets a queue up from its beginning. Where its rings are is told without waiting for an answer, as QEMU does.
    pub fn start_queue(&mut self, index: usize) {
        self.start_queue_off(index, [0; 3]);
    }

    /// The same, but the device is told other places of descriptors, available and used ring: so many bytes off.
    pub fn start_queue_off(&mut self, index: usize, off: [u64; 3]) {
        let queue = if index == 0 { &mut self.control } else { &mut self.cursor };
        queue.reset();
        let base = self.memory.get_host_address(GuestAddress(0)).expect("in memory") as u64;
        self.frontend.set_vring_num(index, queue.size).expect("SET_VRING_NUM");
        self.frontend.set_vring_base(index, 0).expect("SET_VRING_BASE");
        let config = VringConfigData {
            queue_max_size: queue.size,
            queue_size: queue.size,
            flags: 0,
            desc_table_addr: base + queue.desc + off[0],
            used_ring_addr: base + queue.used + off[2],
            avail_ring_addr: base + queue.avail + off[1],
            log_addr: None,
        };
        self.frontend.set_hdr_flags(VhostUserHeaderFlag::empty());
        self.frontend.set_vring_addr(index, &config).expect("SET_VRING_ADDR");
        self.frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        self.frontend.set_vring_call(index, &queue.call).expect("SET_VRING_CALL");
        self.frontend.set_vring_kick(index, &queue.kick).expect("SET_VRING_KICK");
        self.frontend.set_vring_enable(index, true).expect("SET_VRING_ENABLE");
    }

    /// Stops a queue.
    pub fn stop_queue(&mut self, index: usize) {
        self.frontend.get_vring_base(index).expect("GET_VRING_BASE");
    }

    /// Sends a request and waits for its response.
    pub fn request(&mut self, ctx_id: u32, command: Command<'_>) -> Vec<u8> {
        let header = Header { ctx_id, ..Header::default() };
        self.raw(&Request { header, command }.encode())
    }

    /// Sends bytes and waits for their response.
    pub fn raw(&mut self, bytes: &[u8]) -> Vec<u8> {
        let head = self.control.send(bytes, 256);
        self.control.wait(head)
    }

    /// Sends bytes that are too long for a slot, and waits for the kind of their response.
    pub fn long(&mut self, bytes: &[u8]) -> ResponseId {
        self.poke(LONG, bytes);
        let head = self.control.head();
        let (_, response) = self.control.buffers(head);
        let len = u32::try_from(bytes.len()).expect("32 bits");
        self.control.describe(head, LONG, len, queue::NEXT, head + 1);
        self.control.describe(head + 1, response, 64, queue::WRITE, 0);
        self.control.offer(head);
        response_id(&self.control.wait(head))
    }

    /// Sends a request, and expects this response.
    pub fn expect(&mut self, ctx_id: u32, command: Command<'_>, expected: ResponseId) {
        let response = self.request(ctx_id, command);
        assert_eq!(response_id(&response), expected, "context {ctx_id}: {command:?}");
    }

    pub fn ok(&mut self, ctx_id: u32, command: Command<'_>) {
        self.expect(ctx_id, command, ResponseId::OK_NODATA);
    }

    pub fn create_context(&mut self, ctx_id: u32) {
        self.ok(ctx_id, context());
    }

    /// Makes a blob of contiguous pages at `addr`.
    pub fn create_blob(&mut self, resource_id: u32, addr: u64, size: u32) {
        self.ok(0, guest_blob(resource_id, u64::from(size), &[entry(addr, size)]));
    }

    /// Sends a submission with a fence, without waiting for it.
    pub fn submit(&mut self, ctx_id: u32, ring: u8, fence: u64, bytes: &[u8]) -> u16 {
        let header = Header { fence: Some(fence), ring: Some(ring), ctx_id };
        self.control.send(&Request { header, command: Command::Submit3d { bytes } }.encode(), 64)
    }

    /// Sends a request as Linux does: one descriptor, which leads to a table with the others.
    pub fn send_indirect(&mut self, head: u16, bytes: &[u8]) {
        let (request, response) = self.control.buffers(head);
        let table = request + 0x400;
        self.poke(request, bytes);
        let len = u32::try_from(bytes.len()).expect("short");
        self.control.describe_at(table, 0, request, len, queue::NEXT, 1);
        self.control.describe_at(table, 1, response, 64, queue::WRITE, 0);
        self.control.describe(head, table, 32, queue::INDIRECT, 0);
        self.control.offer(head);
    }

    /// What stands where the response of a head goes.
    pub fn response(&self, head: u16) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        let (_, at) = self.control.buffers(head);
        self.memory.read_slice(&mut bytes, GuestAddress(at)).expect("in memory");
        bytes
    }

    /// Whether the device still answers.
    pub fn assert_alive(&mut self) {
        self.expect(0, Command::GetCapsetInfo { index: 0 }, ResponseId::OK_CAPSET_INFO);
    }

    /// Writes into the guest's memory.
    pub fn poke(&self, addr: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(addr)).expect("in memory");
    }

    /// Disconnects, and returns how the daemon ended.
    pub fn disconnect(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        let Some(daemon) = self.daemon.take() else { return Ok(()) };
        // The frontend keeps no way to close it.
        rustix::net::shutdown(borrow(&self.frontend), rustix::net::Shutdown::Both).expect("shut down");
        wait_for("the daemon's end", || daemon.is_finished());
        daemon.join().expect("the daemon did not panic")
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end().expect("the daemon ends in order");
            let _ = &self.dir;
        }
    }
}

fn borrow(frontend: &Frontend) -> std::os::fd::BorrowedFd<'_> {
    // SAFETY: the frontend keeps its socket open as long as the reference lives.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(frontend.as_raw_fd()) }
}

/// The kind of a response.
pub fn response_id(response: &[u8]) -> ResponseId {
    let (header, _) = CtrlHdr::read_from_prefix(response).expect("a header");
    ResponseId(header.type_.get())
}

/// A context of our capset.
pub fn context() -> Command<'static> {
    Command::CtxCreate(CreateContext { capset_id: 8, debug_name: b"test" })
}

pub fn entry(addr: u64, length: u32) -> MemEntry {
    MemEntry { addr: U64::new(addr), length: U32::new(length), padding: U32::ZERO }
}

pub fn guest_blob(resource_id: u32, size: u64, entries: &[MemEntry]) -> Command<'_> {
    let flags = BlobFlags::MAPPABLE;
    Command::ResourceCreateBlob(CreateBlob {
        resource_id,
        mem: BlobMem::GUEST,
        flags,
        blob_id: 0,
        size,
        entries,
    })
}

/// Bytes from hexadecimal digits.
pub fn hex(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal")).collect()
}
