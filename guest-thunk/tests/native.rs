//! Native KFD on device nodes that answer: those of a software GPU, given to this very program by the
//! launcher.
//!
//! The test program runs itself twice more: as the supervisor process with the device in it, and as the
//! program that sees `/dev/kfd`. Which one it is stands in a variable.

use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;

use hsakmt::native::{Native, Paths, Reason, explain};
use protocol::Errno;
use protocol::kfd::args::{
    AcquireVmArgs, AllocMemoryOfGpuArgs, CreateEventArgs, ExportDmabufArgs, FreeMemoryOfGpuArgs,
    GetDmabufInfoArgs, GetVersionArgs, MapMemoryToGpuArgs, SetEventArgs, SmiEventsArgs,
    UnmapMemoryFromGpuArgs, WaitEventsArgs,
};
use protocol::kfd::constants::{AllocFlags, EventType, WaitResult};
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::topology::Topology;
use protocol::kfd::types::EventData;
use protocol::kfd::{Caller, FileId, Ioctl, Kfd, Mapping, Node, Process, ProcessId};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use softgpu::launcher::{LaunchError, Options, Prepared, die_of};
use softgpu::local_mem::LocalCall;
use softgpu::{Config, Kernel, Profile, SoftGpu};

/// Which part this process plays.
const ROLE: &str = "KFDVIRT_TEST_NATIVE";

const PROFILE: Profile = Profile::TwoGpu;

/// Under the launcher this is the program, and in between its supervisor.
#[test]
fn native_kfd_serves_a_program_under_the_software_gpu() {
    match std::env::var(ROLE).as_deref() {
        Ok("program") => program(),
        Ok("supervisor") => supervise(),
        _ => {
            let own = std::env::current_exe().unwrap();
            let output = Command::new(own).args(arguments()).env(ROLE, "supervisor").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}\n{text}", output.status);
            assert!(text.contains("everything works"), "{text}");
        }
    }
}

/// Arguments with which this program runs that test alone.
fn arguments() -> [&'static str; 4] {
    ["native_kfd_serves_a_program_under_the_software_gpu", "--exact", "--nocapture", "--quiet"]
}

fn supervise() -> ! {
    let status = launch().unwrap_or_else(|error| panic!("supervisor: {error}"));
    match status.signal() {
        Some(signal) => die_of(signal),
        None => std::process::exit(status.code().unwrap_or(125)),
    }
}

fn launch() -> Result<std::process::ExitStatus, LaunchError> {
    let machine = PROFILE.machine(Kernel::Linux6_12);
    let options = Options {
        program: std::env::current_exe().unwrap().into(),
        args: arguments().map(OsString::from).to_vec(),
        env: vec![(ROLE.into(), "program".into())],
        trace: None,
        kfd_refusal: None,
        fault: None,
    };
    let prepared = Prepared::new(&machine.tree(), options)?;
    let backing = prepared.backing_files().unwrap();
    prepared.run(Arc::new(SoftGpu::new(Config { machine, backing }).unwrap()))
}

fn program() {
    let native = Native::default();
    let topology = topology(&native);
    let gpus: Vec<(u32, u32)> =
        topology.gpus().map(|gpu| (gpu.gpu_id, gpu.properties.drm_render_minor)).collect();
    let program = Program::open(&native);
    program.version();
    program.unknown_calls();
    let renders: Vec<FileId> = gpus.iter().map(|&(_, minor)| program.render(minor)).collect();
    program.acquire(&gpus, &renders);
    program.memory(gpus[0].0, renders[0]);
    program.events();
    program.streams(gpus[0].0);
    program.child(&native);
    println!("everything works");
}

fn topology(native: &Native) -> Topology {
    let tree = native.topology().unwrap();
    assert_eq!(tree, PROFILE.machine(Kernel::Linux6_12).tree());
    Topology::parse(&tree).unwrap().topology
}

struct Program {
    process: Arc<dyn Process>,
    kfd: FileId,
}

fn caller() -> Caller {
    Caller { id: ProcessId(1), pid: std::process::id(), privileged: false, mem: None }
}

impl Program {
    fn open(native: &Native) -> Self {
        let process = native.attach(caller()).unwrap();
        let kfd = process.open(Node::Kfd).unwrap();
        Self { process, kfd }
    }

    fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) -> Result<i32, Errno> {
        self.ioctl_with(ioctl, args, LocalCall::new())
    }

    fn ioctl_with<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A, call: LocalCall) -> Result<i32, Errno> {
        let result = self.process.ioctl(self.kfd, ioctl.request(), args.as_mut_bytes(), &call);
        if result.is_ok() {
            call.keep_installed();
        }
        result
    }

    fn version(&self) {
        let mut args = GetVersionArgs::default();
        assert_eq!(self.ioctl(Ioctl::GetVersion, &mut args), Ok(0));
        assert_eq!((args.major_version, args.minor_version), (1, 17));
    }

    fn unknown_calls(&self) {
        let call = LocalCall::new();
        for request in [0xc008_4b7f, 0xc008_4bff, 0x5421, 0x8008_6601] {
            let mut args = vec![0; protocol::kfd::request_size(request)];
            let result = self.process.ioctl(self.kfd, request, &mut args, &call);
            assert_eq!(result, Err(Errno::ENOTTY), "{request:#x}");
        }
    }

    fn render(&self, minor: u32) -> FileId {
        assert_eq!(self.process.open(Node::Render(191)), Err(Errno::ENOENT));
        self.process.open(Node::Render(minor)).unwrap()
    }

    /// ACQUIRE_VM names a render node by a number that stands for it.
    fn acquire(&self, gpus: &[(u32, u32)], renders: &[FileId]) {
        let acquire = |gpu_id, call| {
            let mut args = AcquireVmArgs { drm_fd: 77, gpu_id };
            let result = self.ioctl_with(Ioctl::AcquireVm, &mut args, call);
            assert_eq!(args.drm_fd, 77, "the caller's number");
            result
        };
        assert_eq!(acquire(gpus[0].0, LocalCall::new()), Err(Errno::EINVAL), "no such descriptor");
        for (&(gpu_id, _), &render) in gpus.iter().zip(renders) {
            assert_eq!(acquire(gpu_id, LocalCall::new().with_file(77, render)), Ok(0));
            assert_eq!(acquire(gpu_id, LocalCall::new().with_file(77, render)), Ok(0), "the same file");
        }
        let other = LocalCall::new().with_file(77, renders[1]);
        assert_eq!(acquire(gpus[0].0, other), Err(Errno::EBUSY), "it is told which file it is");
    }

    fn memory(&self, gpu_id: u32, render: FileId) {
        const SIZE: u64 = 2 << 20;
        let flags = AllocFlags::GTT.0 | AllocFlags::WRITABLE.0;
        let mut buffer =
            AllocMemoryOfGpuArgs { va_addr: 0x10_0000_0000, size: SIZE, gpu_id, flags, ..Default::default() };
        assert_eq!(self.ioctl(Ioctl::AllocMemoryOfGpu, &mut buffer), Ok(0));
        let handle = buffer.handle;
        let ids = [gpu_id];
        let device_ids_array_ptr = ids.as_ptr().expose_provenance() as u64;
        let mut map = MapMemoryToGpuArgs { handle, device_ids_array_ptr, n_devices: 1, ..Default::default() };
        assert_eq!((self.ioctl(Ioctl::MapMemoryToGpu, &mut map), map.n_success), (Ok(0), 1));

        let mapping = self.process.mmap(render, buffer.mmap_offset, SIZE).unwrap();
        let (first, second) = (Mapped::new(&mapping), Mapped::new(&mapping));
        first.store(0x1234_5678);
        assert_eq!(second.load(), 0x1234_5678, "one memory");
        drop((first, second));
        assert!(Mapped::try_new(&Mapping { offset: 1 << 50, ..mapping }).is_err(), "nothing is there");

        self.export(handle, gpu_id, SIZE);
        let mut unmap =
            UnmapMemoryFromGpuArgs { handle, device_ids_array_ptr, n_devices: 1, ..Default::default() };
        assert_eq!((self.ioctl(Ioctl::UnmapMemoryFromGpu, &mut unmap), unmap.n_success), (Ok(0), 1));
        assert_eq!(self.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle }), Ok(0));
        assert_eq!(
            self.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle }),
            Err(Errno::EINVAL),
            "the kernel's own error"
        );
    }

    /// A descriptor that a call returns, and one that a call takes.
    fn export(&self, handle: u64, gpu_id: u32, size: u64) {
        let mut export = ExportDmabufArgs { handle, flags: 0x2, ..Default::default() };
        assert_eq!(self.ioctl(Ioctl::ExportDmabuf, &mut export), Ok(0));
        let dmabuf = owned(export.dmabuf_fd);
        let flags = rustix::io::fcntl_getfd(&dmabuf).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let dmabuf_fd = export.dmabuf_fd;
        let mut info = GetDmabufInfoArgs { dmabuf_fd, ..Default::default() };
        assert_eq!(self.ioctl(Ioctl::GetDmabufInfo, &mut info), Ok(0));
        assert_eq!((info.size, info.gpu_id, info.dmabuf_fd), (size, gpu_id, dmabuf_fd));
        drop(dmabuf);
        let mut info = GetDmabufInfoArgs { dmabuf_fd, ..Default::default() };
        assert!(self.ioctl(Ioctl::GetDmabufInfo, &mut info).is_err(), "it is closed");
    }

    fn events(&self) {
        let mut event =
            CreateEventArgs { event_type: EventType::SIGNAL.0, auto_reset: 1, ..Default::default() };
        assert_eq!(self.ioctl(Ioctl::CreateEvent, &mut event), Ok(0));
        let page = self.process.mmap(self.kfd, event.event_page_offset, 0x8000).unwrap();
        drop(Mapped::new(&page));
        assert_eq!(self.wait(event.event_id, 20), Ok(WaitResult::TIMEOUT.0));
        let mut set = SetEventArgs { event_id: event.event_id, ..Default::default() };
        assert_eq!(self.ioctl(Ioctl::SetEvent, &mut set), Ok(0));
        assert_eq!(self.wait(event.event_id, 60_000), Ok(WaitResult::COMPLETE.0));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| self.wait(event.event_id, 60_000));
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert_eq!(self.ioctl(Ioctl::SetEvent, &mut set), Ok(0), "while another thread waits");
            assert_eq!(waiter.join().unwrap(), Ok(WaitResult::COMPLETE.0));
        });
    }

    fn wait(&self, event_id: u32, timeout: u32) -> Result<u32, Errno> {
        let mut event = EventData { event_id, ..Default::default() };
        let events_ptr = std::ptr::from_mut(&mut event).expose_provenance() as u64;
        let mut args = WaitEventsArgs { events_ptr, num_events: 1, timeout, ..Default::default() };
        self.ioctl(Ioctl::WaitEvents, &mut args).map(|_| args.wait_result)
    }

    fn streams(&self, gpu_id: u32) {
        let mut stream = SmiEventsArgs { gpuid: gpu_id, ..Default::default() };
        assert_eq!(self.ioctl(Ioctl::SmiEvents, &mut stream), Ok(0));
        let stream = owned(stream.anon_fd);
        let flags = rustix::io::fcntl_getfd(&stream).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "also where the kernel's is not");
    }

    // Cases F01 and F02.
    fn child(&self, native: &Native) {
        let good = in_a_child(|| {
            let dead = self.ioctl(Ioctl::GetVersion, &mut GetVersionArgs::default()) == Err(Errno::EBADF);
            native.abandon_in_child();
            let own = Native::default();
            Self::open(&own).version();
            dead
        });
        assert!(good);
        self.version();
        self.events();
    }
}

/// The descriptor with this number, which a call has just made.
fn owned(number: u32) -> OwnedFd {
    // SAFETY: the call left the number to this test, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(number).unwrap()) }
}

/// Memory behind a file.
struct Mapped {
    start: *mut core::ffi::c_void,
    len: usize,
}

impl Mapped {
    fn new(mapping: &Mapping) -> Self {
        Self::try_new(mapping).expect("the kernel maps it")
    }

    fn try_new(mapping: &Mapping) -> Result<Self, rustix::io::Errno> {
        let len = usize::try_from(mapping.len).unwrap();
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, &*mapping.fd, mapping.offset) }?;
        Ok(Self { start, len })
    }

    fn store(&self, value: u32) {
        // SAFETY: the mapping is at least a page long, aligned, and no reference to it exists.
        unsafe { self.start.cast::<u32>().write_volatile(value) };
    }

    fn load(&self) -> u32 {
        // SAFETY: as in `store`; any bits are a value.
        unsafe { self.start.cast::<u32>().read_volatile() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `try_new`, and no reference to it exists.
        unsafe { munmap(self.start, self.len) }.unwrap();
    }
}

fn in_a_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `body` and ends; no thread of the parent holds a lock that it takes.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child without running the exit handlers of the test program.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: `status` is an int that lives through the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// The filter is a thread's, so the test has one.
#[test]
fn a_seccomp_filter_is_told_from_a_missing_permission() {
    for (errno, reason) in
        [(Errno::EPERM, Reason::Forbidden { seccomp: true }), (Errno::ENOSYS, Reason::Seccomp)]
    {
        let file = tempfile::NamedTempFile::new().unwrap();
        let paths = Paths { kfd: file.path().into(), ..Paths::default() };
        let (opened, explained) = std::thread::spawn(move || {
            let process = Native::new(paths.clone()).attach(caller()).unwrap();
            refuse_opening_for_writing(errno);
            (process.open(Node::Kfd), explain(errno, Node::Kfd, &paths))
        })
        .join()
        .unwrap();
        assert_eq!(opened, Err(errno));
        assert_eq!(explained.reason, reason, "{explained}");
    }
}

/// From now on `openat` with `O_RDWR` fails in this thread.
fn refuse_opening_for_writing(errno: Errno) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(libc::SYS_openat).unwrap();
    let (mode, read_write) = (libc::O_ACCMODE.cast_unsigned(), libc::O_RDWR.cast_unsigned());
    let mut filter = [
        // struct seccomp_data: the number of the call, and the low half of its third argument.
        op(LOAD, 0, 0, 0),
        op(JUMP_EQUAL, 0, 4, number),
        op(LOAD, 0, 0, 32),
        op(AND, 0, 0, mode),
        op(JUMP_EQUAL, 0, 1, read_write),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno.raw().cast_unsigned()),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };
    // SAFETY: no memory is given to the kernel.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0);
    // SAFETY: the program and its instructions live through the call, which copies them.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(result, 0);
}

/// Case E01, with the system's own answers.
#[test]
fn errors_of_open_are_the_systems() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| Paths { kfd: dir.path().join(name), ..Paths::default() };
    let open = |name: &str| Native::new(at(name)).attach(caller()).unwrap().open(Node::Kfd);
    assert_eq!(open("none"), Err(Errno::ENOENT));
    // A device node of a driver that is not there: needs the right to make one, so a socket stands for it
    // (ENXIO too).
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    assert_eq!(open("socket"), Err(Errno::ENXIO));
    assert!(matches!(explain(Errno::ENXIO, Node::Kfd, &at("socket")).reason, Reason::NoKfd { .. }));
}
