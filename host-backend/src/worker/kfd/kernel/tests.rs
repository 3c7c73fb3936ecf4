//! Over a software GPU that reads and writes this process's memory, as a kernel does.

use std::sync::{Mutex, PoisonError};

use protocol::kfd::args::{
    AcquireVmArgs, CreateEventArgs, GetProcessAperturesNewArgs, GetTileConfigArgs, GetVersionArgs,
    SetEventArgs,
};
use protocol::kfd::flat::{FlatCall, FlatMem, FlatWrites};
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::types::{EventData, ProcessDeviceApertures};
use protocol::kfd::{Interrupt, PassedFd, ProcessId};
use softgpu::local_mem::{LocalCall, LocalMem};
use softgpu::{BackingFiles, Kernel, Profile, SoftGpu};
use zerocopy::FromZeros;

use super::*;

/// A KFD that goes by the addresses in the arguments, whatever its caller says of its memory.
struct LikeAKernel(Arc<dyn Kfd>);

struct ProcessOfIt(Arc<dyn Process>);

impl Kfd for LikeAKernel {
    fn topology(&self) -> Result<Tree, Errno> {
        self.0.topology()
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        Ok(Arc::new(ProcessOfIt(self.0.attach(Caller { mem: Some(Arc::new(LocalMem)), ..caller })?)))
    }
}

impl Process for ProcessOfIt {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        self.0.open(node)
    }

    fn close(&self, file: FileId) {
        self.0.close(file);
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.0.transfer(file, request)
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let mut own = LocalCall::new();
        if let Ok(PassedFd::File(file)) = call.descriptor(55) {
            own = own.with_file(55, file);
        }
        self.0.ioctl(file, request, args, &own)
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        self.0.mmap(file, offset, len)
    }
}

/// A call whose memory is at addresses that this process does not have.
struct Elsewhere {
    flat: Mutex<Option<FlatMem>>,
    interrupt: Interrupt,
    file: FileId,
}

/// Where it is.
const ADDRESS: u64 = 0x10;

impl UserMem for Elsewhere {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), protocol::kfd::Fault> {
        let flat = self.flat.lock().unwrap_or_else(PoisonError::into_inner);
        flat.as_ref().expect("the call runs").read(addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), protocol::kfd::Fault> {
        let flat = self.flat.lock().unwrap_or_else(PoisonError::into_inner);
        flat.as_ref().expect("the call runs").write(addr, buf)
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<protocol::kfd::Shared>, Errno> {
        panic!("the kernel takes the memory itself")
    }
}

impl Call for Elsewhere {
    fn mem(&self) -> &dyn UserMem {
        self
    }

    fn descriptor(&self, _fd: i32) -> Result<PassedFd, Errno> {
        Ok(PassedFd::File(self.file))
    }

    fn install(&self, _fd: std::os::fd::OwnedFd) -> Result<i32, Errno> {
        panic!("no call of a guest makes a descriptor")
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// The guest's memory at [`ADDRESS`].
struct Memory<'a>(&'a [u8]);

impl UserMem for Memory<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), protocol::kfd::Fault> {
        let fault = protocol::kfd::Fault { addr, len: buf.len() as u64 };
        let start = usize::try_from(addr - ADDRESS).map_err(|_| fault)?;
        buf.copy_from_slice(self.0.get(start..start + buf.len()).ok_or(fault)?);
        Ok(())
    }

    fn write(&self, _addr: u64, _buf: &[u8]) -> Result<(), protocol::kfd::Fault> {
        panic!("only read")
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<protocol::kfd::Shared>, Errno> {
        panic!("only read")
    }
}

struct Rig {
    process: Arc<dyn Process>,
    kfd: FileId,
}

impl Rig {
    fn new() -> Rig {
        let machine = Profile::TwoGpu.machine(Kernel::default());
        let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memfd");
        let soft = SoftGpu::new(softgpu::Config { machine, backing }).expect("a machine");
        let pid = std::process::id();
        let caller = Caller { id: ProcessId(1), pid, privileged: false, mem: None };
        let kernel = KernelKfd::open(&LikeAKernel(Arc::new(soft)), caller.clone()).expect("opened");
        assert!(kernel.topology().expect("kept").files.contains_key("nodes/1/gpu_id"));
        let process = kernel.attach(caller).expect("attached");
        let kfd = process.open(Node::Kfd).expect("open");
        let rig = Rig { process, kfd };
        let topology = Topology::parse(&kernel.tree).expect("valid").topology;
        for gpu in topology.gpus() {
            let file = rig.process.open(Node::Render(gpu.properties.drm_render_minor)).expect("open");
            let mut args = AcquireVmArgs { drm_fd: 55, gpu_id: gpu.gpu_id };
            rig.call(Ioctl::AcquireVm, &mut args, &[], file, &Interrupt::new()).expect("acquired");
        }
        rig
    }

    fn call<A: UapiStruct>(
        &self,
        ioctl: Ioctl,
        args: &mut A,
        memory: &[u8],
        file: FileId,
        interrupt: &Interrupt,
    ) -> Result<FlatWrites, Errno> {
        let flat = FlatCall::collect(Declaration::of(ioctl.request()), args.as_bytes(), &Memory(memory));
        let own = Interrupt::new();
        if interrupt.fired() {
            own.fire();
        }
        let call = Elsewhere { flat: Mutex::new(Some(FlatMem::new(flat))), interrupt: own, file };
        self.process.ioctl(self.kfd, ioctl.request(), args.as_mut_bytes(), &call)?;
        let flat = call.flat.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(flat.expect("there").into_writes())
    }

    fn make<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A, memory: &[u8]) -> Result<FlatWrites, Errno> {
        self.call(ioctl, args, memory, self.kfd, &Interrupt::new())
    }

    fn event(&self) -> u32 {
        let mut args = CreateEventArgs { auto_reset: 1, ..Default::default() };
        self.make(Ioctl::CreateEvent, &mut args, &[]).expect("an event");
        args.event_id
    }
}

fn written(mut writes: FlatWrites) -> Vec<(u64, Vec<u8>)> {
    writes.iter_mut().map(|(addr, bytes)| (addr, bytes.to_vec())).collect()
}

#[test]
fn what_the_kernel_writes_goes_to_the_guests_addresses() {
    let rig = Rig::new();
    let mut version = GetVersionArgs::default();
    assert_eq!(written(rig.make(Ioctl::GetVersion, &mut version, &[]).expect("made")), []);
    assert_eq!(version.major_version, 1);
    let mut args =
        GetProcessAperturesNewArgs { kfd_process_device_apertures_ptr: ADDRESS, num_of_nodes: 3, pad: 0 };
    let writes = written(rig.make(Ioctl::GetProcessAperturesNew, &mut args, &[]).expect("made"));
    assert_eq!((args.kfd_process_device_apertures_ptr, args.num_of_nodes), (ADDRESS, 2));
    let [(ADDRESS, bytes)] = &writes[..] else { panic!("one piece: {writes:?}") };
    assert_eq!(bytes.len(), 2 * size_of::<ProcessDeviceApertures>(), "as many as there are");
    assert_ne!(typed::<ProcessDeviceApertures>(bytes).gpuvm_limit, 0);
}

#[test]
fn what_cannot_be_read_is_a_fault_and_too_much_is_refused() {
    let rig = Rig::new();
    let mut wait = WaitEventsArgs { events_ptr: ADDRESS, num_events: 1, ..Default::default() };
    assert_eq!(rig.make(Ioctl::WaitEvents, &mut wait, &[]).err(), Some(Errno::EFAULT));
    assert_eq!(wait.events_ptr, ADDRESS);
    let mut state =
        protocol::kfd::args::GetQueueWaveStateArgs { ctl_stack_address: ADDRESS, ..Default::default() };
    assert_eq!(rig.make(Ioctl::GetQueueWaveState, &mut state, &[]).err(), Some(Errno::EOPNOTSUPP));
    let mut tiles =
        GetTileConfigArgs { tile_config_ptr: ADDRESS, num_tile_configs: u32::MAX, ..Default::default() };
    assert!(rig.make(Ioctl::GetTileConfig, &mut tiles, &[]).is_err(), "no such GPU");
    assert_eq!(tiles.tile_config_ptr, ADDRESS);
}

#[test]
fn waits_are_as_long_as_they_are_and_can_be_ended() {
    let rig = Rig::new();
    let mut data = EventData::new_zeroed();
    data.event_id = rig.event();
    let wait = |timeout| WaitEventsArgs { events_ptr: ADDRESS, num_events: 1, timeout, ..Default::default() };
    let start = Instant::now();
    let mut args = wait(600);
    rig.make(Ioctl::WaitEvents, &mut args, data.as_bytes()).expect("made");
    assert!(start.elapsed() >= Duration::from_millis(600), "more than two slices");
    assert_eq!((WaitResult(args.wait_result), args.timeout), (WaitResult::TIMEOUT, 600));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(400));
            let mut set = SetEventArgs { event_id: data.event_id, pad: 0 };
            rig.make(Ioctl::SetEvent, &mut set, &[]).expect("set");
        });
        let mut args = wait(NO_TIMEOUT);
        rig.make(Ioctl::WaitEvents, &mut args, data.as_bytes()).expect("made");
        assert_eq!((WaitResult(args.wait_result), args.timeout), (WaitResult::COMPLETE, NO_TIMEOUT));
    });
    let fired = Interrupt::new();
    fired.fire();
    let mut args = wait(5000);
    let ended = rig.call(Ioctl::WaitEvents, &mut args, data.as_bytes(), rig.kfd, &fired);
    assert_eq!(ended.err(), Some(Errno::ERESTARTSYS));
    assert!(args.timeout > 4000 && args.timeout <= 5000, "what is left: {}", args.timeout);
}
