//! A program in the guest: a context with files, memory and events.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use protocol::kfd::args::{
    AcquireVmArgs, AllocMemoryOfGpuArgs, CreateEventArgs, MapMemoryToGpuArgs, WaitEventsArgs,
};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::flat::{FlatCall, FlatWrites};
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::topology::{Topology, Tree};
use protocol::kfd::types::EventData;
use protocol::kfd::{Fault, FileId, Ioctl, Node, Shared, UserMem};
use protocol::wire::structs::{Descriptor, Range};
use protocol::wire::{Answer, Command, IoctlCall, Request, feature, tree};
use protocol::{Declaration, Errno};
use softgpu::Profile;
use vhost_device_kfd::worker::kfd::Config;
use zerocopy::IntoBytes;

use super::guest::{Blob, Guest, PAGE, fresh_range, range};

/// A context that has said HELLO, with `/dev/kfd` open.
pub struct Program {
    pub guest: Guest,
    pub range: Range,
    pub kfd: FileId,
    /// Whether it sees memory of the host.
    pub window: bool,
    /// The render node of the first GPU.
    pub render: OnceLock<FileId>,
    gpu: OnceLock<u32>,
    next_blob: AtomicU32,
    next_address: AtomicU64,
}

/// Registered memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub blob: Blob,
    pub address: u64,
    pub handle: u64,
}

/// This program's own memory, where call arguments lead to.
struct OwnMem;

impl UserMem for OwnMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        softgpu::local_mem::LocalMem.read(addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        softgpu::local_mem::LocalMem.write(addr, buf)
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        panic!("the wire carries copies only")
    }
}

impl Program {
    pub fn new(profile: Profile) -> Program {
        Program::with(profile, Config::default())
    }

    /// One whose worker is locked in.
    pub fn of_a_process(profile: Profile) -> Program {
        Program::of(Guest::of_a_process(profile))
    }

    pub fn with(profile: Profile, config: Config) -> Program {
        Program::of(Guest::with(profile, config))
    }

    /// A program of a guest that has its call area.
    pub fn of(guest: Guest) -> Program {
        Program::greeting(guest, 0)
    }

    /// One of a guest with a window.
    pub fn seeing(guest: Guest) -> Program {
        Program::greeting(guest, feature::WINDOW)
    }

    fn greeting(guest: Guest, features: u64) -> Program {
        let offered = fresh_range();
        let answer = guest.hello(features, &[offered]).expect("a range");
        assert_eq!(answer.addresses, offered);
        let window = answer.features.get() & feature::WINDOW != 0;
        let kfd = open(&guest, Node::Kfd).expect("opened");
        let next_address = AtomicU64::new(offered.base.get());
        Program {
            guest,
            range: offered,
            kfd,
            window,
            render: OnceLock::new(),
            gpu: OnceLock::new(),
            next_blob: AtomicU32::new(10),
            next_address,
        }
    }

    /// A program that has the addresses of its GPUs.
    pub fn running(profile: Profile) -> Program {
        Program::new(profile).run()
    }

    pub fn run(self) -> Program {
        for gpu in self.topology().gpus() {
            let file = open(&self.guest, Node::Render(gpu.properties.drm_render_minor)).expect("opened");
            self.render.get_or_init(|| file);
            let mut args = AcquireVmArgs { drm_fd: 55, gpu_id: gpu.gpu_id };
            let descriptor = Descriptor { number: 55.into(), file: file.0.into(), ..Default::default() };
            assert_eq!(self.ioctl_with(Ioctl::AcquireVm, args.as_mut_bytes(), &[descriptor]), Ok(0));
        }
        self
    }

    pub fn tree(&self) -> Tree {
        let mut bytes = Vec::new();
        loop {
            let answer = self.guest.call(&Request::Topology { offset: bytes.len() as u64 }).expect("sent");
            let Ok(Answer::Topology { total, part }) = Answer::decode(Command::Topology, &answer) else {
                panic!("no answer to TOPOLOGY")
            };
            bytes.extend(part);
            if bytes.len() as u64 == total {
                return tree::decode(&bytes).expect("a tree");
            }
            assert!(!part.is_empty() && (bytes.len() as u64) < total);
        }
    }

    pub fn topology(&self) -> Topology {
        Topology::parse(&self.tree()).expect("a topology").topology
    }

    pub fn gpu_id(&self) -> u32 {
        *self.gpu.get_or_init(|| self.topology().gpus().next().expect("a GPU").gpu_id)
    }

    pub fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) -> Result<i32, Errno> {
        self.ioctl_with(ioctl, args.as_mut_bytes(), &[])
    }

    /// The ioctl's own result; that the command was executed is taken for granted.
    pub fn ioctl_with(&self, ioctl: Ioctl, args: &mut [u8], fds: &[Descriptor]) -> Result<i32, Errno> {
        self.request(self.kfd, ioctl.request(), args, fds).expect("executed")
    }

    pub fn request(
        &self,
        file: FileId,
        request: u32,
        args: &mut [u8],
        descriptors: &[Descriptor],
    ) -> Result<Result<i32, Errno>, Errno> {
        let encoded = ioctl_bytes(file, request, args, descriptors);
        let bytes = self.guest.call_bytes(Command::Ioctl.id(), &encoded)?;
        Ok(self.apply(request, args, &bytes))
    }

    /// What an answer says, done to the arguments and this program's memory.
    pub fn apply(&self, request: u32, args: &mut [u8], answer: &[u8]) -> Result<i32, Errno> {
        let Ok(Answer::Ioctl(answer)) = Answer::decode(Command::Ioctl, answer) else {
            panic!("no answer to IOCTL")
        };
        let flat = FlatCall::declare(Declaration::of(request), args);
        let writes = FlatWrites::decode(answer.writes).expect("writes");
        flat.apply(&writes, &OwnMem).expect("declared memory");
        args.copy_from_slice(answer.args);
        match answer.result {
            value @ 0.. => Ok(value),
            errno => Err(Errno::from_raw(-errno).expect("an errno")),
        }
    }

    pub fn next_id(&self) -> u32 {
        self.next_blob.fetch_add(1, Ordering::Relaxed)
    }

    /// Addresses of the context that nothing else has.
    pub fn addresses(&self, size: u64) -> u64 {
        self.next_address.fetch_add(size + PAGE, Ordering::Relaxed)
    }

    /// Memory at an address of the context.
    pub fn aliased(&self, size: u64, pieces: u64) -> (Blob, u64) {
        let blob = self.guest.attach(self.next_id(), size, pieces);
        let address = self.addresses(size);
        self.alias(&blob, address).expect("aliased");
        (blob, address)
    }

    pub fn alias(&self, blob: &Blob, address: u64) -> Result<(), Errno> {
        let addresses = range(address, blob.size);
        self.guest.tell(&Request::Alias { resource: blob.id, offset: 0, addresses })
    }

    pub fn unalias(&self, address: u64, size: u64) -> Result<(), Errno> {
        self.guest.tell(&Request::Unalias { addresses: range(address, size) })
    }

    pub fn alloc(&self, address: u64, size: u64, flags: AllocFlags) -> Result<u64, Errno> {
        self.alloc_args(address, size, flags).map(|args| args.handle)
    }

    pub fn alloc_args(
        &self,
        address: u64,
        size: u64,
        flags: AllocFlags,
    ) -> Result<AllocMemoryOfGpuArgs, Errno> {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: address,
            size,
            mmap_offset: if flags.contains(AllocFlags::USERPTR) { address } else { 0 },
            gpu_id: self.gpu_id(),
            flags: flags.0,
            ..Default::default()
        };
        self.ioctl(Ioctl::AllocMemoryOfGpu, &mut args).map(|_| args)
    }

    pub fn map(&self, handle: u64) -> Result<i32, Errno> {
        let gpus = [self.gpu_id()];
        let mut args = MapMemoryToGpuArgs {
            handle,
            device_ids_array_ptr: gpus.as_ptr().expose_provenance() as u64,
            n_devices: 1,
            n_success: 0,
        };
        self.ioctl(Ioctl::MapMemoryToGpu, &mut args)
    }

    /// Memory that the program and the GPU have.
    pub fn buffer(&self, size: u64) -> Buffer {
        let (blob, address) = self.aliased(size, 1);
        let flags = AllocFlags::USERPTR | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
        let handle = self.alloc(address, size, flags).expect("registered");
        self.map(handle).expect("mapped");
        Buffer { blob, address, handle }
    }

    /// An event that is reset when it has woken somebody.
    pub fn event(&self) -> u32 {
        let mut args = CreateEventArgs { auto_reset: 1, ..Default::default() };
        self.ioctl(Ioctl::CreateEvent, &mut args).expect("an event");
        args.event_id
    }

    pub fn wait_request(&self, events: &mut [EventData], timeout: u32) -> (WaitEventsArgs, Vec<u8>) {
        let args = WaitEventsArgs {
            events_ptr: events.as_mut_ptr().expose_provenance() as u64,
            num_events: u32::try_from(events.len()).expect("few"),
            timeout,
            ..Default::default()
        };
        let bytes = ioctl_bytes(self.kfd, Ioctl::WaitEvents.request(), args.as_bytes(), &[]);
        (args, bytes)
    }
}

pub fn open(guest: &Guest, node: Node) -> Result<FileId, Errno> {
    let bytes = guest.call(&Request::Open(node))?;
    let Ok(Answer::Open(file)) = Answer::decode(Command::Open, &bytes) else { panic!("no answer to OPEN") };
    Ok(file)
}

pub fn ioctl_bytes(file: FileId, request: u32, args: &[u8], descriptors: &[Descriptor]) -> Vec<u8> {
    let memory = FlatCall::collect(Declaration::of(request), args, &OwnMem).encode();
    let call = IoctlCall { file, request, args, memory: &memory, descriptors };
    let mut bytes = Vec::new();
    Request::Ioctl(call).encode(&mut bytes);
    bytes
}
