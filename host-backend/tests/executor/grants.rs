//! Contexts whose software GPUs have no more memory together than one GPU has.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{CreateQueueArgs, DestroyQueueArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs};
use protocol::kfd::constants::{AllocFlags, QueueType};
use softgpu::Profile;
use vhost_device_kfd::gpu::Gpu;
use vhost_device_kfd::grants::{SupplyArgs, kept};
use vhost_device_kfd::worker::kfd::Config;
use vhost_device_kfd::workers::supply::{Limits, Supply};

use super::guest::{Guest, PAGE};
use super::program::Program;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const VRAM: AllocFlags = AllocFlags::VRAM.union(AllocFlags::WRITABLE);
const GTT: AllocFlags = AllocFlags::GTT.union(AllocFlags::WRITABLE);

/// VRAM of an MI210 as KFD says it, less what amdgpu sets aside for page tables (1/16384, and no less than 8 MiB).
const ALL: u64 = 68_702_699_520 - 8 * MIB;

fn supply(args: SupplyArgs) -> (Arc<Supply>, u64) {
    let limits = args.limits(&Gpu::Soft(Profile::Mi210));
    let keep = kept(&limits);
    (Supply::new(limits), keep)
}

fn program((supply, keep): &(Arc<Supply>, u64)) -> Program {
    Program::of(Guest::sharing(Profile::Mi210, supply.share(), *keep)).run()
}

fn available(program: &Program) -> u64 {
    let mut args = GetAvailableMemoryArgs { gpu_id: program.gpu_id(), ..Default::default() };
    program.ioctl(Ioctl::AvailableMemory, &mut args).expect("answered");
    args.available
}

fn free(program: &Program, handle: u64) {
    assert_eq!(program.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle }), Ok(0));
}

#[test]
fn what_one_program_takes_of_the_gpu_the_other_misses() {
    let supply = supply(SupplyArgs::default());
    let (mut one, other) = (program(&supply), program(&supply));
    assert_eq!((available(&one), available(&other)), (ALL, ALL));
    let (at, there) = (one.addresses(40 * GIB), other.addresses(40 * GIB));
    let handle = one.alloc(at, 40 * GIB, VRAM).expect("there is as much");
    assert_eq!((available(&one), available(&other)), (ALL - 40 * GIB, ALL - 40 * GIB));
    // As from a GPU that is full.
    assert_eq!(other.alloc(there, 30 * GIB, VRAM), Err(Errno::ENOMEM));
    assert_eq!(other.alloc(there, ALL - 40 * GIB, VRAM).map(|handle| free(&other, handle)), Ok(()));
    free(&one, handle);
    // A worker keeps a little of what was freed, which the other misses.
    let kept = supply.1;
    assert_eq!((available(&one), available(&other)), (ALL - kept, ALL - kept));
    let handle = other.alloc(there, 30 * GIB, VRAM).expect("it was given back");
    assert_eq!((available(&one), available(&other)), (ALL - 30 * GIB, ALL - 30 * GIB - kept));
    free(&other, handle);
    // Its end gives back what it did not free.
    one.alloc(at, 40 * GIB, VRAM).expect("there is as much");
    one.guest.end();
    drop(one);
    assert_eq!(available(&other), ALL);
    assert_eq!(supply.0.granted(), (kept, 0));
}

#[test]
fn a_page_counts_as_two_mebibytes_of_what_is_available() {
    let supply = supply(SupplyArgs::default());
    let (one, other) = (program(&supply), program(&supply));
    one.alloc(one.addresses(PAGE), PAGE, VRAM).expect("a page");
    assert_eq!((available(&one), available(&other)), (ALL - 2 * MIB, ALL - 2 * MIB));
}

#[test]
fn memory_that_is_allocated_and_freed_all_the_time_stays_the_same() {
    let supply = supply(SupplyArgs::default());
    let program = program(&supply);
    let at = program.addresses(64 * MIB);
    for size in [PAGE, 2 * MIB, 3 * MIB, 64 * MIB].into_iter().cycle().take(200) {
        let handle = program.alloc(at, size, VRAM).expect("VRAM");
        let gtt = program.alloc(at + size / 2, size / 2 + PAGE, GTT);
        gtt.map(|handle| free(&program, handle)).expect("GTT");
        free(&program, handle);
    }
    assert_eq!(available(&program), ALL);
    let (vram, host) = supply.0.granted();
    assert!(vram <= supply.1 && host <= supply.1, "{vram} and {host} of {}", supply.1);
}

#[test]
fn limits_that_the_host_sets_are_those_of_a_small_gpu() {
    let supply =
        supply(SupplyArgs { max_vram: Some(96), max_context_vram: Some(64), max_host_memory: Some(16) });
    let (one, other) = (program(&supply), program(&supply));
    let (at, there) = (one.addresses(128 * MIB), other.addresses(128 * MIB));
    assert_eq!((available(&one), available(&other)), (64 * MIB, 64 * MIB));
    assert_eq!(one.alloc(at, 64 * MIB + PAGE, VRAM), Err(Errno::ENOMEM));
    one.alloc(at, 64 * MIB, VRAM).expect("within its limit");
    assert_eq!((available(&one), available(&other)), (0, 32 * MIB));
    assert_eq!(other.alloc(there, 32 * MIB + PAGE, VRAM), Err(Errno::ENOMEM));
    other.alloc(there, 32 * MIB, VRAM).expect("the rest");
    // System memory of the host is another matter, and the guest's own costs nothing of either.
    let gtt = one.addresses(16 * MIB);
    assert_eq!(one.alloc(gtt, 16 * MIB + PAGE, GTT), Err(Errno::ENOMEM));
    let handle = one.alloc(gtt, 16 * MIB, GTT).expect("GTT");
    assert_eq!(other.alloc(there + 64 * MIB, PAGE, GTT), Err(Errno::ENOMEM));
    free(&one, handle);
    other.alloc(there + 64 * MIB, 16 * MIB, GTT).expect("it was given back");
    other.buffer(8 * MIB);
}

#[test]
fn a_refused_buffer_counts_nothing_and_gpus_that_are_not_shown_are_none() {
    let gpus = Some(std::iter::once((Program::running(Profile::Mi210).gpu_id(), 8 * MIB)).collect());
    let supply = (Supply::new(Limits { gpus, ..Limits::default() }), 0);
    let program = program(&supply);
    let at = program.addresses(MIB);
    for (address, size) in [(at, 0), (at, u64::MAX), (0, PAGE)] {
        assert_eq!(program.alloc(address, size, VRAM), Err(Errno::EINVAL), "{address:#x} {size:#x}");
    }
    let mut args = protocol::kfd::args::AllocMemoryOfGpuArgs {
        va_addr: at,
        size: PAGE,
        gpu_id: program.gpu_id() ^ 1,
        flags: VRAM.0,
        ..Default::default()
    };
    assert_eq!(program.ioctl(Ioctl::AllocMemoryOfGpu, &mut args), Err(Errno::EINVAL));
    assert_eq!(supply.0.granted(), (0, 0));
    let handle = program.alloc(at, 8 * MIB, VRAM).expect("all of it");
    assert_eq!(program.alloc(at, PAGE, VRAM), Err(Errno::ENOMEM));
    // Handle 0 is none: nothing is given back for it.
    let none = &mut FreeMemoryOfGpuArgs { handle: 0 };
    assert_eq!(program.ioctl(Ioctl::FreeMemoryOfGpu, none), Err(Errno::EINVAL));
    assert_eq!(supply.0.granted(), (8 * MIB, 0));
    free(&program, handle);
    assert_eq!(available(&program), 8 * MIB);
}

#[test]
fn queues_are_limited() {
    let program = Program::with(Profile::Mi210, Config { queues: 1, ..Config::default() }).run();
    let (ring, pointers) = (program.buffer(PAGE), program.buffer(PAGE));
    let create = |ring_size| {
        let mut args = CreateQueueArgs {
            ring_base_address: ring.address,
            ring_size,
            gpu_id: program.gpu_id(),
            queue_type: QueueType::SDMA.0,
            queue_percentage: 100,
            write_pointer_address: pointers.address,
            read_pointer_address: pointers.address + 8,
            ..Default::default()
        };
        program.ioctl(Ioctl::CreateQueue, &mut args).map(|_| args.queue_id)
    };
    // What fails counts for nothing.
    assert_eq!(create(5), Err(Errno::EINVAL));
    let queue_id = create(4096).expect("one");
    assert_eq!(create(4096), Err(Errno::ENOSPC));
    let destroy = |queue_id| program.ioctl(Ioctl::DestroyQueue, &mut DestroyQueueArgs { queue_id, pad: 0 });
    assert!(destroy(queue_id + 77).is_err());
    assert_eq!(create(4096), Err(Errno::ENOSPC));
    assert_eq!(destroy(queue_id), Ok(0));
    create(4096).expect("one again");
}
