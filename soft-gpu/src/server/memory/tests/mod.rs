//! Memory calls of a program in the same process. Every expected error is the one of the kernel function that the
//! comment names (Linux 6.12, `drivers/gpu/drm/amd`).

mod alloc;
mod dmabuf;
mod map;
mod svm;
mod vm;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::args::{
    AcquireVmArgs, AllocMemoryOfGpuArgs, ExportDmabufArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs,
    ImportDmabufArgs, MapMemoryToGpuArgs, UnmapMemoryFromGpuArgs,
};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{Caller, FileId, Ioctl, Kfd, Node, Process, ProcessId};

use crate::backing::BackingFiles;
use crate::device::Config;
use crate::local_mem::{LocalCall, LocalMem};
use crate::profile::Profile;
use crate::{Kernel, SoftGpu};

/// A number that stands for the render node file of GPU n in calls.
const DRM_FD: u32 = 900_000;

/// Read and write access.
const RW: AllocFlags = AllocFlags::WRITABLE;

/// Where the tests put buffers in GPU address space.
const VA: u64 = 0x10_0000_0000;

/// A machine.
pub(in crate::server) struct Machine {
    gpu: SoftGpu,
    gpu_ids: Vec<u32>,
    minors: Vec<u32>,
}

impl Machine {
    pub(in crate::server) fn new(profile: Profile) -> Self {
        Self::with_kernel(profile, Kernel::Linux6_12)
    }

    pub(in crate::server) fn with_kernel(profile: Profile, kernel: Kernel) -> Self {
        Self::of(profile.machine(kernel))
    }

    /// Any machine.
    pub(in crate::server) fn of(machine: crate::Machine) -> Self {
        let (gpu_ids, minors) = machine.gpus.iter().map(|gpu| (gpu.gpu_id, gpu.render_minor)).unzip();
        let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memfd");
        let gpu = SoftGpu::new(Config { machine, backing }).expect("a built-in profile");
        Self { gpu, gpu_ids, minors }
    }

    /// A process that has opened everything, without page tables yet.
    pub(in crate::server) fn process(&self, id: u64) -> Program {
        let caller = Caller {
            id: ProcessId(id),
            pid: u32::try_from(id).expect("small"),
            privileged: false,
            mem: Some(Arc::new(LocalMem)),
        };
        let process = self.gpu.attach(caller).expect("attach");
        let kfd = process.open(Node::Kfd).expect("kfd");
        let drm =
            self.minors.iter().map(|&minor| process.open(Node::Render(minor)).expect("render")).collect();
        Program { process, kfd, drm, gpu_ids: self.gpu_ids.clone() }
    }

    /// A process that has the page tables of every GPU.
    pub(in crate::server) fn running(&self, id: u64) -> Program {
        let program = self.process(id);
        for gpu in 0..program.gpu_ids.len() {
            program.acquire_vm(gpu).expect("a fresh file");
        }
        program
    }

    pub(in crate::server) fn device(&self) -> &crate::device::Device {
        self.gpu.device()
    }
}

/// A process with its open files.
pub(in crate::server) struct Program {
    pub(in crate::server) process: Arc<dyn Process>,
    pub(in crate::server) kfd: FileId,
    pub(in crate::server) drm: Vec<FileId>,
    pub(in crate::server) gpu_ids: Vec<u32>,
}

impl Program {
    /// Makes a call; `args` comes back as the kernel leaves it, also after an error.
    pub(in crate::server) fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) -> Result<(), Errno> {
        let mut call = LocalCall::new();
        for (fd, file) in (DRM_FD..).zip(&self.drm) {
            call = call.with_file(fd.cast_signed(), *file);
        }
        let result = self.process.ioctl(self.kfd, ioctl.request(), args.as_mut_bytes(), &call);
        if result.is_ok() {
            call.keep_installed();
        }
        result.map(|_| ())
    }

    pub(in crate::server) fn acquire_vm(&self, gpu: usize) -> Result<(), Errno> {
        let drm_fd = DRM_FD + u32::try_from(gpu).expect("small");
        self.ioctl(Ioctl::AcquireVm, &mut AcquireVmArgs { drm_fd, gpu_id: self.gpu_ids[gpu] })
    }

    /// The first GPU's id.
    pub(in crate::server) fn gpu(&self) -> u32 {
        self.gpu_ids[0]
    }

    pub(in crate::server) fn alloc(
        &self,
        va: u64,
        size: u64,
        flags: AllocFlags,
    ) -> Result<AllocMemoryOfGpuArgs, Errno> {
        self.alloc_on(0, va, size, 0, flags)
    }

    pub(in crate::server) fn alloc_userptr(
        &self,
        va: u64,
        size: u64,
        addr: u64,
    ) -> Result<AllocMemoryOfGpuArgs, Errno> {
        self.alloc_on(0, va, size, addr, AllocFlags::USERPTR | RW)
    }

    pub(in crate::server) fn alloc_on(
        &self,
        gpu: usize,
        va_addr: u64,
        size: u64,
        mmap_offset: u64,
        flags: AllocFlags,
    ) -> Result<AllocMemoryOfGpuArgs, Errno> {
        let gpu_id = self.gpu_ids[gpu];
        let mut args = AllocMemoryOfGpuArgs { va_addr, size, handle: 0, mmap_offset, gpu_id, flags: flags.0 };
        self.ioctl(Ioctl::AllocMemoryOfGpu, &mut args).map(|()| args)
    }

    pub(in crate::server) fn free(&self, handle: u64) -> Result<(), Errno> {
        self.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle })
    }

    /// Maps to these GPUs; the number of GPUs that succeeded comes with an error.
    pub(in crate::server) fn map(&self, handle: u64, gpu_ids: &[u32]) -> Result<(), (Errno, u32)> {
        let mut args = MapMemoryToGpuArgs {
            handle,
            device_ids_array_ptr: gpu_ids.as_ptr().addr() as u64,
            n_devices: u32::try_from(gpu_ids.len()).expect("small"),
            n_success: 0,
        };
        self.ioctl(Ioctl::MapMemoryToGpu, &mut args).map_err(|errno| (errno, args.n_success))
    }

    pub(in crate::server) fn unmap(&self, handle: u64, gpu_ids: &[u32]) -> Result<(), (Errno, u32)> {
        let mut args = UnmapMemoryFromGpuArgs {
            handle,
            device_ids_array_ptr: gpu_ids.as_ptr().addr() as u64,
            n_devices: u32::try_from(gpu_ids.len()).expect("small"),
            n_success: 0,
        };
        self.ioctl(Ioctl::UnmapMemoryFromGpu, &mut args).map_err(|errno| (errno, args.n_success))
    }

    fn available(&self, gpu: usize) -> u64 {
        let mut args = GetAvailableMemoryArgs { gpu_id: self.gpu_ids[gpu], ..Default::default() };
        self.ioctl(Ioctl::AvailableMemory, &mut args).expect("a known GPU");
        args.available
    }

    fn export(&self, handle: u64) -> Result<OwnedFd, Errno> {
        let mut args = ExportDmabufArgs { handle, ..Default::default() };
        self.ioctl(Ioctl::ExportDmabuf, &mut args)?;
        // SAFETY: the call installed this descriptor for us and keeps it no longer.
        Ok(unsafe { OwnedFd::from_raw_fd(args.dmabuf_fd.cast_signed()) })
    }

    fn import(&self, fd: &OwnedFd, va_addr: u64) -> Result<u64, Errno> {
        self.import_on(0, fd.as_raw_fd().cast_unsigned(), va_addr)
    }

    fn import_on(&self, gpu: usize, dmabuf_fd: u32, va_addr: u64) -> Result<u64, Errno> {
        let mut args = ImportDmabufArgs { va_addr, handle: 0, gpu_id: self.gpu_ids[gpu], dmabuf_fd };
        self.ioctl(Ioctl::ImportDmabuf, &mut args).map(|()| args.handle)
    }
}

/// Whole pages of this process, for userptr memory.
pub(in crate::server) struct Pages {
    start: *mut core::ffi::c_void,
    len: usize,
}

impl Pages {
    pub(in crate::server) fn new(pages: usize) -> Self {
        Self::with_protection(pages, rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE)
    }

    pub(in crate::server) fn with_protection(pages: usize, prot: rustix::mm::ProtFlags) -> Self {
        let len = pages * 4096;
        let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, prot, flags) };
        Self { start: start.expect("anonymous memory"), len }
    }

    /// One page that can be used, and behind it one that cannot: where a range must end whatever other tests map.
    pub(in crate::server) fn before_a_guard() -> Self {
        let pages = Self::new(2);
        // SAFETY: inside the mapping, which is two pages long.
        let guard = unsafe { pages.start.byte_add(4096) };
        // SAFETY: a page of our own mapping that nothing refers to.
        unsafe { rustix::mm::mprotect(guard, 4096, rustix::mm::MprotectFlags::empty()) }.expect("mprotect");
        pages
    }

    pub(in crate::server) fn addr(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    pub(in crate::server) fn atomic(&self, offset: usize) -> &std::sync::atomic::AtomicU64 {
        assert!(offset + 8 <= self.len && offset.is_multiple_of(8));
        // SAFETY: inside the mapping, as just checked.
        let at = unsafe { self.start.byte_add(offset) };
        // SAFETY: valid and aligned as long as `self` lives; others access it with atomics or copies only.
        unsafe { std::sync::atomic::AtomicU64::from_ptr(at.cast()) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping; nothing refers to it any more.
        unsafe { rustix::mm::munmap(self.start, self.len) }.expect("munmap");
    }
}
