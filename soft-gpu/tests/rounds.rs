//! A thousand programs one after the other: the server is afterwards as big as before.
//!
//! A test program of its own, because it counts what the whole process holds.

#[path = "support/program.rs"]
mod program;

use std::fs;

use protocol::kfd::args::{CreateEventArgs, CreateQueueArgs, DestroyEventArgs, DestroyQueueArgs};
use protocol::kfd::constants::{AllocFlags, QueueType};
use protocol::kfd::ioctl::Ioctl;
use softgpu::{GpuSpec, SoftGpu};

use program::{Program, mi210};

const ROUNDS: u64 = 1000;
/// Until then caches, pools and the allocator have what they keep.
const WARM_UP: u64 = 100;
const VA: u64 = 0x10_0000_0000;
const PAGE: u64 = 4096;

/// Open, allocate, queue, event, close. Every second program cleans up after itself, the others just end.
fn round(device: &SoftGpu, spec: &GpuSpec, id: u64) {
    let program = Program::local(device, spec, id);
    let gtt = AllocFlags::GTT | AllocFlags::WRITABLE;
    let vram = AllocFlags::VRAM | AllocFlags::WRITABLE | AllocFlags::PUBLIC;
    let buffers = [gtt, gtt, vram];
    let buffer = |(n, flags): (u64, _)| program.alloc(VA + n * 2 * PAGE, PAGE, flags).handle;
    let handles: Vec<u64> = (0..).zip(buffers).map(buffer).collect();
    handles.iter().for_each(|&handle| program.map(handle));
    let mut queue = CreateQueueArgs {
        ring_base_address: VA,
        ring_size: 4096,
        read_pointer_address: VA + 2 * PAGE,
        write_pointer_address: VA + 2 * PAGE + 64,
        gpu_id: spec.gpu_id,
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
        handles.iter().for_each(|&handle| program.unmap(handle));
        handles.iter().for_each(|&handle| program.free(handle));
    }
    let device = &program.device;
    [device.render, device.kfd].into_iter().for_each(|file| device.process.close(file));
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
    let (device, spec) = mi210();

    (0..WARM_UP).for_each(|id| round(&device, &spec, id));
    let before = held();
    (WARM_UP..WARM_UP + ROUNDS).for_each(|id| round(&device, &spec, id));
    let after = held();

    assert_eq!(after.0, before.0, "descriptors: {before:?} became {after:?}");
    assert_eq!(after.2, before.2, "threads: {before:?} became {after:?}");
    // The allocator may map or return an arena of its own.
    assert!(after.1 <= before.1 + 8, "mappings: {before:?} became {after:?}");
    // A page kept in each round would be 4 MB.
    assert!(after.3 <= before.3 + 2048, "resident KiB: {before:?} became {after:?}");
}
