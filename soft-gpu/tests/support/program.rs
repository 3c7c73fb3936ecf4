//! A program that uses the software GPU by its ioctls, for integration tests and benchmarks: in the same process as
//! the device, or by `/dev/kfd` under `softgpu run`.
//!
//! What fails here ends the test.

#![allow(dead_code, reason = "each test program and benchmark uses a part of it")]

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::args::{
    AcquireVmArgs, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, MapMemoryToGpuArgs, UnmapMemoryFromGpuArgs,
};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{Caller, FileId, Ioctl, Kfd, Node, Process, ProcessId};
use softgpu::local_mem::{LocalCall, LocalMem};
use softgpu::mem::HostMem;
use softgpu::{BackingFiles, Config, GpuSpec, Kernel, Profile, SoftGpu};

/// A machine, and the description of its first GPU.
pub fn mi210() -> (SoftGpu, GpuSpec) {
    let machine = Profile::Mi210.machine(Kernel::Linux6_12);
    let spec = machine.gpus[0].clone();
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memfd");
    (SoftGpu::new(Config { machine, backing }).expect("a built-in profile"), spec)
}

/// How a program reaches the device. Nodes are `/dev/kfd` and the first GPU's render node.
pub trait Device {
    /// An ioctl on `/dev/kfd`.
    fn ioctl(&self, request: u32, args: &mut [u8]) -> Result<i32, Errno>;
    /// The number in arguments that means the render node.
    fn render_fd(&self) -> i32;
    /// `mmap` of `/dev/kfd`.
    fn mmap_kfd(&self, offset: u64, len: u64) -> HostMem;
    /// `mmap` of the render node.
    fn mmap_render(&self, offset: u64, len: u64) -> HostMem;
}

/// The device is in this process.
pub struct Local {
    pub process: Arc<dyn Process>,
    pub kfd: FileId,
    pub render: FileId,
}

impl Local {
    fn mmap(&self, file: FileId, offset: u64, len: u64) -> HostMem {
        let mapping = self.process.mmap(file, offset, len).expect("mmap");
        HostMem::map_descriptor(&mapping.fd, mapping.offset, len).expect("map")
    }
}

impl Device for Local {
    fn ioctl(&self, request: u32, args: &mut [u8]) -> Result<i32, Errno> {
        let call = LocalCall::new().with_file(self.render_fd(), self.render);
        self.process.ioctl(self.kfd, request, args, &call)
    }

    /// No descriptor of this process.
    fn render_fd(&self) -> i32 {
        900_000
    }

    fn mmap_kfd(&self, offset: u64, len: u64) -> HostMem {
        self.mmap(self.kfd, offset, len)
    }

    fn mmap_render(&self, offset: u64, len: u64) -> HostMem {
        self.mmap(self.render, offset, len)
    }
}

/// The device is behind files in `/dev`.
pub struct DevFiles {
    kfd: Arc<OwnedFd>,
    render: Arc<OwnedFd>,
}

impl DevFiles {
    /// Opens `/dev/kfd` and the render node.
    pub fn open(spec: &GpuSpec) -> Self {
        let open = |path: &str| {
            let file = File::options().read(true).write(true).open(path);
            Arc::new(OwnedFd::from(file.unwrap_or_else(|error| panic!("{path}: {error}"))))
        };
        Self { kfd: open("/dev/kfd"), render: open(&format!("/dev/dri/renderD{}", spec.render_minor)) }
    }
}

impl Device for DevFiles {
    fn ioctl(&self, request: u32, args: &mut [u8]) -> Result<i32, Errno> {
        assert!(args.len() >= protocol::kfd::request_size(request));
        // SAFETY: `args` is writable and at least as long as the size in the request code; the addresses in it are
        // the business of whoever filled it.
        let result = unsafe { libc::ioctl(self.kfd.as_raw_fd(), request.into(), args.as_mut_ptr()) };
        let error = || std::io::Error::last_os_error().raw_os_error().and_then(Errno::from_raw);
        if result < 0 { Err(error().unwrap_or(Errno::EIO)) } else { Ok(result) }
    }

    fn render_fd(&self) -> i32 {
        self.render.as_raw_fd()
    }

    fn mmap_kfd(&self, offset: u64, len: u64) -> HostMem {
        HostMem::map_descriptor(&self.kfd, offset, len).expect("mmap")
    }

    fn mmap_render(&self, offset: u64, len: u64) -> HostMem {
        HostMem::map_descriptor(&self.render, offset, len).expect("mmap")
    }
}

/// A process that has the page tables of one GPU.
pub struct Program<D> {
    pub device: D,
    pub gpu_id: u32,
}

impl Program<Local> {
    /// Process `id`, in this one.
    pub fn local(gpu: &SoftGpu, spec: &GpuSpec, id: u64) -> Self {
        let caller = Caller { id: ProcessId(id), pid: 1, privileged: false, mem: Some(Arc::new(LocalMem)) };
        let process = gpu.attach(caller).expect("attach");
        let kfd = process.open(Node::Kfd).expect("kfd");
        let render = process.open(Node::Render(spec.render_minor)).expect("render");
        Self::start(Local { process, kfd, render }, spec)
    }
}

impl<D: Device> Program<D> {
    /// Takes the GPU's page tables.
    pub fn start(device: D, spec: &GpuSpec) -> Self {
        let program = Self { device, gpu_id: spec.gpu_id };
        let drm_fd = program.device.render_fd().cast_unsigned();
        program.ioctl(Ioctl::AcquireVm, &mut AcquireVmArgs { drm_fd, gpu_id: program.gpu_id });
        program
    }

    /// A call that has to succeed.
    pub fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) {
        let result = self.device.ioctl(ioctl.request(), args.as_mut_bytes());
        result.unwrap_or_else(|errno| panic!("{}: {errno}", ioctl.name()));
    }

    /// A buffer; what the call answered has its handle and where to map it from.
    pub fn alloc(&self, va_addr: u64, size: u64, flags: AllocFlags) -> AllocMemoryOfGpuArgs {
        let (gpu_id, flags) = (self.gpu_id, flags.0);
        let mut args = AllocMemoryOfGpuArgs { va_addr, size, flags, gpu_id, ..Default::default() };
        self.ioctl(Ioctl::AllocMemoryOfGpu, &mut args);
        args
    }

    /// Maps a buffer into the GPU's page tables.
    pub fn map(&self, handle: u64) {
        let gpus = [self.gpu_id];
        let device_ids_array_ptr = gpus.as_ptr().expose_provenance() as u64;
        let mut args = MapMemoryToGpuArgs { handle, device_ids_array_ptr, n_devices: 1, n_success: 0 };
        self.ioctl(Ioctl::MapMemoryToGpu, &mut args);
    }

    /// Takes it out again.
    pub fn unmap(&self, handle: u64) {
        let gpus = [self.gpu_id];
        let device_ids_array_ptr = gpus.as_ptr().expose_provenance() as u64;
        let mut args = UnmapMemoryFromGpuArgs { handle, device_ids_array_ptr, n_devices: 1, n_success: 0 };
        self.ioctl(Ioctl::UnmapMemoryFromGpu, &mut args);
    }

    /// Frees a buffer.
    pub fn free(&self, handle: u64) {
        self.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle });
    }
}
