//! A thousand programs one after the other: the server is afterwards as big as before.
//!
//! A test program of its own, because it counts what the whole process holds.

use std::fs;
use std::sync::Arc;

use protocol::kfd::args::{
    AcquireVmArgs, AllocMemoryOfGpuArgs, CreateEventArgs, CreateQueueArgs, DestroyEventArgs,
    DestroyQueueArgs, FreeMemoryOfGpuArgs, MapMemoryToGpuArgs, UnmapMemoryFromGpuArgs,
};
use protocol::kfd::constants::{AllocFlags, QueueType};
use protocol::kfd::ioctl::Ioctl;
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{Caller, FileId, Kfd, Node, Process, ProcessId};
use softgpu::local_mem::LocalCall;
use softgpu::{BackingFiles, Config, Kernel, Profile, SoftGpu};

const ROUNDS: u64 = 1000;
/// Until then caches, pools and the allocator have what they keep.
const WARM_UP: u64 = 100;
/// The number that stands for the render node in calls.
const DRM_FD: i32 = 900_000;
const VA: u64 = 0x10_0000_0000;
const PAGE: u64 = 4096;

struct Program {
    process: Arc<dyn Process>,
    kfd: FileId,
    drm: FileId,
    gpu_id: u32,
}

impl Program {
    fn start(device: &SoftGpu, gpu_id: u32, minor: u32, id: u64) -> Self {
        let caller = Caller { id: ProcessId(id), pid: 1, privileged: false, mem: None };
        let process = device.attach(caller).expect("attach");
        let kfd = process.open(Node::Kfd).expect("open kfd");
        let drm = process.open(Node::Render(minor)).expect("open the render node");
        let program = Self { process, kfd, drm, gpu_id };
        program.ioctl(Ioctl::AcquireVm, &mut AcquireVmArgs { drm_fd: DRM_FD.cast_unsigned(), gpu_id });
        program
    }

    fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) {
        let call = LocalCall::new().with_file(DRM_FD, self.drm);
        let result = self.process.ioctl(self.kfd, ioctl.request(), args.as_mut_bytes(), &call);
        result.unwrap_or_else(|errno| panic!("{}: {errno}", ioctl.name()));
    }

    /// A mapped buffer: its handle.
    fn buffer(&self, va_addr: u64, flags: AllocFlags) -> u64 {
        let mut alloc = AllocMemoryOfGpuArgs {
            va_addr,
            size: PAGE,
            gpu_id: self.gpu_id,
            flags: flags.0,
            ..AllocMemoryOfGpuArgs::default()
        };
        self.ioctl(Ioctl::AllocMemoryOfGpu, &mut alloc);
        let gpus = [self.gpu_id];
        let mut map = MapMemoryToGpuArgs {
            handle: alloc.handle,
            device_ids_array_ptr: gpus.as_ptr() as u64,
            n_devices: 1,
            n_success: 0,
        };
        self.ioctl(Ioctl::MapMemoryToGpu, &mut map);
        alloc.handle
    }

    fn free(&self, handle: u64) {
        let gpus = [self.gpu_id];
        let mut unmap = UnmapMemoryFromGpuArgs {
            handle,
            device_ids_array_ptr: gpus.as_ptr() as u64,
            n_devices: 1,
            n_success: 0,
        };
        self.ioctl(Ioctl::UnmapMemoryFromGpu, &mut unmap);
        self.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle });
    }
}

/// Open, allocate, queue, event, close. Every second program cleans up after itself, the others just end.
fn round(device: &SoftGpu, gpu_id: u32, minor: u32, id: u64) {
    let program = Program::start(device, gpu_id, minor, id);
    let gtt = AllocFlags::GTT | AllocFlags::WRITABLE;
    let vram = AllocFlags::VRAM | AllocFlags::WRITABLE | AllocFlags::PUBLIC;
    let buffers = [gtt, gtt, vram];
    let handles: Vec<u64> =
        (0..).zip(buffers).map(|(n, flags)| program.buffer(VA + n * 2 * PAGE, flags)).collect();
    let mut queue = CreateQueueArgs {
        ring_base_address: VA,
        ring_size: 4096,
        read_pointer_address: VA + 2 * PAGE,
        write_pointer_address: VA + 2 * PAGE + 64,
        gpu_id,
        queue_type: QueueType::SDMA.0,
        queue_percentage: 100,
        ..CreateQueueArgs::default()
    };
    program.ioctl(Ioctl::CreateQueue, &mut queue);
    let mut event = CreateEventArgs::default();
    program.ioctl(Ioctl::CreateEvent, &mut event);
    if id.is_multiple_of(2) {
        program.ioctl(Ioctl::DestroyEvent, &mut DestroyEventArgs { event_id: event.event_id, pad: 0 });
        program.ioctl(Ioctl::DestroyQueue, &mut DestroyQueueArgs { queue_id: queue.queue_id, pad: 0 });
        handles.into_iter().for_each(|handle| program.free(handle));
    }
    program.process.close(program.drm);
    program.process.close(program.kfd);
}

/// Descriptors, mappings, threads, and resident memory in KiB of this process.
fn held() -> (usize, usize, usize, u64) {
    let entries = |dir: &str| fs::read_dir(dir).expect("a directory of /proc").count();
    let maps = fs::read_to_string("/proc/self/maps").expect("the memory map").lines().count();
    let status = fs::read_to_string("/proc/self/status").expect("the status");
    let rss =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok());
    (entries("/proc/self/fd"), maps, entries("/proc/self/task"), rss.expect("VmRSS"))
}

#[test]
fn a_thousand_programs_leave_no_descriptor_mapping_thread_or_memory() {
    let machine = Profile::Mi210.machine(Kernel::Linux6_12);
    let (gpu_id, minor) = (machine.gpus[0].gpu_id, machine.gpus[0].render_minor);
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("backing files");
    let device = SoftGpu::new(Config { machine, backing }).expect("a built-in profile");

    (0..WARM_UP).for_each(|id| round(&device, gpu_id, minor, id));
    let before = held();
    (WARM_UP..WARM_UP + ROUNDS).for_each(|id| round(&device, gpu_id, minor, id));
    let after = held();

    assert_eq!(after.0, before.0, "descriptors: {before:?} became {after:?}");
    assert_eq!(after.2, before.2, "threads: {before:?} became {after:?}");
    // The allocator may map or return an arena of its own.
    assert!(after.1 <= before.1 + 8, "mappings: {before:?} became {after:?}");
    // A page kept in each round would be 4 MB.
    assert!(after.3 <= before.3 + 2048, "resident KiB: {before:?} became {after:?}");
}
