//! MAP, UNMAP, and the buffers of queues.

use super::*;

const GTT: AllocFlags = AllocFlags::GTT;
const VRAM: AllocFlags = AllocFlags::VRAM;

#[test]
fn mapping_checks_its_arguments_in_the_kernels_order() {
    // kfd_ioctl_map_memory_to_gpu.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let buffer = program.alloc(VA, 4096, GTT | RW).expect("room");
    let ids = program.gpu_ids.as_ptr().addr() as u64;
    let call = |handle: u64, device_ids_array_ptr: u64, n_devices: u32, n_success: u32| {
        let mut args = MapMemoryToGpuArgs { handle, device_ids_array_ptr, n_devices, n_success };
        let map = program.ioctl(Ioctl::MapMemoryToGpu, &mut args).err();
        let mut args = UnmapMemoryFromGpuArgs { handle, device_ids_array_ptr, n_devices, n_success };
        (map, program.ioctl(Ioctl::UnmapMemoryFromGpu, &mut args).err())
    };
    let both = |errno: Errno| (Some(errno), Some(errno));
    assert_eq!(call(0, 0, 0, 0), both(Errno::EINVAL), "no GPUs");
    assert_eq!(call(0, 0, 1, 2), both(Errno::EINVAL), "more done than there are");
    // kmalloc_array gives no more than KMALLOC_MAX_SIZE.
    assert_eq!(call(0, 0, u32::MAX, 0), both(Errno::ENOMEM));
    assert_eq!(call(0, 8, 1, 0), both(Errno::EFAULT), "before the handle is looked at");
    assert_eq!(call(0, ids, 1, 0), both(Errno::EINVAL), "GPU of the handle");
    assert_eq!(call(buffer.handle + 1, ids, 1, 0), both(Errno::ENOMEM), "no such buffer");
    assert_eq!(call(buffer.handle, ids, 1, 1), (None, None), "all done already");
    assert_eq!(call(buffer.handle, ids, 1, 0), (None, None));
}

#[test]
fn a_call_that_stops_half_way_says_how_far_it_came_and_goes_on_from_there() {
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let buffer = program.alloc(VA, 4096, GTT | RW).expect("room");
    let [first, second] = [program.gpu_ids[0], program.gpu_ids[1]];
    assert_eq!(program.map(buffer.handle, &[first, 1, second]), Err((Errno::EINVAL, 1)));
    let rest = [1, second];
    let mut args = MapMemoryToGpuArgs {
        handle: buffer.handle,
        device_ids_array_ptr: rest.as_ptr().addr() as u64,
        n_devices: 2,
        n_success: 1,
    };
    assert_eq!(program.ioctl(Ioctl::MapMemoryToGpu, &mut args), Ok(()));
    assert_eq!(args.n_success, 2);
    // amdgpu_amdkfd_gpuvm_unmap_memory_from_gpu: EINVAL where it is not mapped.
    assert_eq!(program.unmap(buffer.handle, &[second, second]), Err((Errno::EINVAL, 1)));
    assert_eq!(program.unmap(buffer.handle, &[first]), Ok(()));
}

#[test]
fn mapping_twice_is_fine_and_counts_once() {
    // amdgpu_amdkfd_gpuvm_map_memory_to_gpu skips what is_mapped.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let buffer = program.alloc(VA, 4096, GTT | RW).expect("room");
    program.map(buffer.handle, &program.gpu_ids).expect("free address");
    program.map(buffer.handle, &program.gpu_ids).expect("mapped already");
    // amdgpu_amdkfd_gpuvm_free_memory_of_gpu: "is still mapped".
    assert_eq!(program.free(buffer.handle), Err(Errno::EBUSY));
    program.unmap(buffer.handle, &program.gpu_ids).expect("mapped");
    assert_eq!(program.unmap(buffer.handle, &program.gpu_ids), Err((Errno::EINVAL, 0)));
    program.free(buffer.handle).expect("not mapped");
}

#[test]
fn addresses_that_cannot_be_mapped_are_einval() {
    // kfd_mem_attach: "Invalid VA when adding BO to VM"; amdgpu_vm_verify_parameters and amdgpu_vm_bo_map.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let taken = program.alloc(VA, 8192, GTT | RW).expect("room");
    program.map(taken.handle, &program.gpu_ids).expect("free address");
    for va in [0, 1, VA + 4096, VA - 4096, 1 << 48, (1 << 48) - 4096, 1 << 56, u64::MAX - 4095] {
        let buffer = program.alloc(va, 8192, GTT | RW).expect("the address is not looked at");
        assert_eq!(program.map(buffer.handle, &program.gpu_ids), Err((Errno::EINVAL, 0)), "{va:#x}");
        program.free(buffer.handle).expect("not mapped");
    }
    let last = program.alloc((1 << 48) - 8192, 8192, GTT | RW).expect("room");
    assert_eq!(program.map(last.handle, &program.gpu_ids), Ok(()));
}

#[test]
fn access_rights_follow_the_allocation_flags() {
    // get_pte_flags.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let vm = machine.device().processes()[0].memory.vm(program.gpu()).expect("acquired");
    let read_only = program.alloc(VA, 4096, GTT).expect("room");
    let code = program.alloc(VA + 4096, 4096, VRAM | RW | AllocFlags::EXECUTABLE).expect("room");
    for buffer in [read_only, code] {
        program.map(buffer.handle, &program.gpu_ids).expect("free address");
    }
    assert_eq!(vm.read_u32(VA), Ok(0));
    assert!(vm.write_u32(VA, 1).is_err_and(|fault| !fault.not_present));
    assert_eq!(vm.write_u32(VA + 4096, 1), Ok(()));
    assert_eq!(vm.lookup(VA + 4096).map(|mapping| mapping.flags.executable), Some(true));
    assert_eq!(vm.lookup(VA).map(|mapping| mapping.flags.executable), Some(false));
}

#[test]
fn an_aql_ring_appears_twice_in_the_gpus_addresses() {
    // "Workaround for AQL queue wraparound bug. Map the same memory twice."
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let before = program.available(0);
    let ring = program.alloc(VA, 0x20_0000, VRAM | RW | AllocFlags::AQL_QUEUE_MEM).expect("room");
    assert_eq!(program.available(0), before - (2 << 20), "half the size, rounded up");
    program.map(ring.handle, &program.gpu_ids).expect("free address");
    let vm = machine.device().processes()[0].memory.vm(program.gpu()).expect("acquired");
    vm.write_u64(VA + 0x10, 42).expect("mapped");
    assert_eq!(vm.read_u64(VA + 0x10_0010), Ok(42));
    program.unmap(ring.handle, &program.gpu_ids).expect("mapped");
    assert!(vm.read_u64(VA).is_err() && vm.read_u64(VA + 0x10_0000).is_err());
}

#[test]
fn other_gpus_reach_vram_through_xgmi_or_a_large_bar() {
    // kfd_mem_attach: amdgpu_xgmi_same_hive, amdgpu_device_is_peer_accessible.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let vram = program.alloc(VA, 4096, VRAM | RW).expect("room");
    program.map(vram.handle, &program.gpu_ids).expect("same hive");
    let vm = machine.device().processes()[0].memory.vm(program.gpu_ids[1]).expect("acquired");
    assert_eq!(vm.write_u32(VA, 1), Ok(()));
}

#[test]
fn a_peer_needs_page_tables_of_its_own() {
    // kfd_bind_process_to_device for the peer; unmapping from it finds no page table: EINVAL.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.process(1);
    program.acquire_vm(0).expect("a fresh file");
    let buffer = program.alloc(VA, 4096, GTT | RW).expect("room");
    let ids = [program.gpu_ids[0], program.gpu_ids[1]];
    assert_eq!(program.map(buffer.handle, &ids), Err((Errno::ENODEV, 1)));
    assert_eq!(program.unmap(buffer.handle, &ids), Err((Errno::EINVAL, 1)));
}

#[test]
fn a_queue_buffer_is_one_whole_mapping_and_cannot_be_unmapped_while_it_is_used() {
    // kfd_queue_buffer_get, unmap_bo_from_gpuvm.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let [gpu, peer] = [program.gpu_ids[0], program.gpu_ids[1]];
    let process = machine.device().process_by_pid(1).expect("running");
    let memory = &process.memory;
    let buffer = program.alloc(VA, 8192, GTT | RW).expect("room");
    let acquire = |va: u64, size: u64| memory.acquire_queue_buffer(gpu, va, size).err();
    assert_eq!(acquire(VA, 8192), Some(Errno::EINVAL), "not mapped");
    program.map(buffer.handle, &[gpu, peer]).expect("free address");
    assert_eq!(acquire(VA, 4096), Some(Errno::EINVAL), "larger");
    assert_eq!(acquire(VA, 16384), Some(Errno::EINVAL), "smaller");
    assert_eq!(acquire(VA + 4096, 4096), Some(Errno::EINVAL), "not the start");
    assert_eq!(acquire(VA + 8, 8192), None, "addresses count by page");
    assert_eq!(acquire(VA, 100), None, "less than a page matches any size");
    let held = memory.acquire_queue_buffer(gpu, VA, 8192).expect("exact");
    let again = memory.acquire_queue_buffer(gpu, VA, 8192).expect("exact");
    assert_eq!(program.unmap(buffer.handle, &[gpu]), Err((Errno::EBUSY, 0)));
    assert_eq!(program.unmap(buffer.handle, &[peer]), Ok(()), "no queue of that GPU uses it");
    drop(held);
    assert_eq!(program.unmap(buffer.handle, &[gpu]), Err((Errno::EBUSY, 0)));
    drop(again);
    assert_eq!(program.unmap(buffer.handle, &[gpu]), Ok(()));
}

#[test]
fn mes_write_pointers_are_memory_of_the_gpu_itself_and_not_the_programs() {
    // init_user_queue: "Queue memory allocated to wrong device" EINVAL; amdgpu_bo_pin of userptr EPERM.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let process = machine.device().process_by_pid(1).expect("running");
    let [gpu, peer] = [program.gpu_ids[0], program.gpu_ids[1]];
    let pages = Pages::new(1);
    let gtt = program.alloc(VA, 4096, GTT | RW).expect("room");
    let userptr = program.alloc_userptr(VA + 4096, 4096, pages.addr()).expect("mapped memory");
    for buffer in [gtt, userptr] {
        program.map(buffer.handle, &[gpu, peer]).expect("free address");
    }
    let check = |gpu_id: u32, va: u64| {
        let buffer = process.memory.acquire_queue_buffer(gpu_id, va, 4096).expect("exact");
        buffer.check_mes_write_pointer(gpu_id)
    };
    assert_eq!(check(gpu, VA), Ok(()));
    assert_eq!(check(peer, VA), Err(Errno::EINVAL));
    assert_eq!(check(gpu, VA + 4096), Err(Errno::EPERM));
}

/// Case D03: a handle that is not this process's is an error to every call that takes one, never a success that is
/// missed later.
#[test]
fn d03_unknown_handles_are_errors_to_every_call() {
    let machine = Machine::new(Profile::Mi210);
    let (program, other) = (machine.running(1), machine.running(2));
    let gpus = &program.gpu_ids;
    // A GPU's id stands in the upper half of a handle; its lower half counts per process.
    let foreign = (0..3).map(|n| other.alloc(VA + n * 8192, 4096, GTT | RW).expect("room").handle).max();
    let of_no_gpu = [0, 0xffff_ffff, u64::MAX];
    for handle in of_no_gpu {
        assert_eq!(
            program.map(handle, gpus),
            Err((Errno::EINVAL, 0)),
            "kfd_ioctl_map_memory_to_gpu {handle:#x}"
        );
        assert_eq!(
            program.unmap(handle, gpus),
            Err((Errno::EINVAL, 0)),
            "kfd_ioctl_unmap_memory_from_gpu {handle:#x}"
        );
        assert_eq!(program.free(handle), Err(Errno::EINVAL), "kfd_ioctl_free_memory_of_gpu {handle:#x}");
        assert_eq!(program.export(handle).err(), Some(Errno::EINVAL), "kfd_ioctl_export_dmabuf {handle:#x}");
    }
    let foreign = foreign.expect("three");
    assert_eq!(program.map(foreign, gpus), Err((Errno::ENOMEM, 0)), "idr_find");
    assert_eq!(program.unmap(foreign, gpus), Err((Errno::ENOMEM, 0)));
    assert_eq!(program.free(foreign), Err(Errno::EINVAL));
    assert_eq!(program.export(foreign).err(), Some(Errno::EINVAL));
}
