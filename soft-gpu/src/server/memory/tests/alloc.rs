//! ALLOC, FREE, AVAILABLE_MEMORY.

use super::*;

const VRAM: AllocFlags = AllocFlags::VRAM;
const GTT: AllocFlags = AllocFlags::GTT;

#[test]
fn handles_are_the_gpu_id_and_the_lowest_free_number() {
    // MAKE_HANDLE and idr_alloc (kfd_process_device_create_obj_handle).
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let gpu = u64::from(program.gpu()) << 32;
    let handles: Vec<u64> =
        (0..3).map(|n| program.alloc(VA + n * 4096, 4096, GTT | RW).expect("room").handle).collect();
    assert_eq!(handles, [gpu, gpu | 1, gpu | 2]);
    program.free(gpu | 1).expect("not mapped");
    assert_eq!(program.free(gpu | 1), Err(Errno::EINVAL));
    assert_eq!(program.alloc(VA, 4096, VRAM | RW).expect("room").handle, gpu | 1);
}

#[test]
fn arguments_are_checked_in_the_kernels_order() {
    let machine = Machine::new(Profile::Mi210);
    let program = machine.process(1);
    let gpu_id = program.gpu();
    let call = |gpu_id: u32, size: u64, flags: AllocFlags| {
        let mut args =
            AllocMemoryOfGpuArgs { va_addr: VA, size, gpu_id, flags: flags.0, ..Default::default() };
        program.ioctl(Ioctl::AllocMemoryOfGpu, &mut args).err()
    };
    // kfd_ioctl_alloc_memory_of_gpu: size 0, then the GPU, then kfd_bind_process_to_device.
    assert_eq!(call(gpu_id ^ 1, 0, VRAM), Some(Errno::EINVAL));
    assert_eq!(call(gpu_id ^ 1, 4096, VRAM), Some(Errno::EINVAL));
    assert_eq!(call(0, 4096, VRAM), Some(Errno::EINVAL));
    assert_eq!(call(gpu_id, 4096, VRAM), Some(Errno::ENODEV));
    program.acquire_vm(0).expect("a fresh file");
    // amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu: no kind at all, and userptr with mmap_offset 0.
    assert_eq!(call(gpu_id, 4096, RW), Some(Errno::EINVAL));
    assert_eq!(call(gpu_id, 4096, AllocFlags::USERPTR | RW), Some(Errno::EINVAL));
    // kfd_ioctl_alloc_memory_of_gpu: doorbells are kfd_doorbell_process_slice bytes, registers a page.
    assert_eq!(call(gpu_id, 4096, AllocFlags::DOORBELL), Some(Errno::EINVAL));
    assert_eq!(call(gpu_id, 8192, AllocFlags::DOORBELL), None);
    assert_eq!(call(gpu_id, 8192, AllocFlags::MMIO_REMAP), Some(Errno::EINVAL));
    assert_eq!(call(gpu_id, 4096, AllocFlags::MMIO_REMAP), None);
    // "reject AQL queue with size < 2": half of it is nothing.
    assert_eq!(call(gpu_id, 1, GTT | AllocFlags::AQL_QUEUE_MEM), Some(Errno::EINVAL));
    assert_eq!(call(gpu_id, 2, GTT | AllocFlags::AQL_QUEUE_MEM), None);
}

#[test]
fn m01_sizes_are_64_bit_and_never_wrap() {
    // Case M01. A size that rounds up to 2^64 is EINVAL (PAGE_ALIGN gives 0), one that does not fit ENOMEM
    // (amdgpu_amdkfd_reserve_mem_limit).
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let before = program.available(0);
    for flags in [VRAM | RW, GTT | RW] {
        for (size, rounded) in [
            (1, 4096u64),
            (4097, 8192),
            (0xffff_f000, 0xffff_f000),
            (0x1_0000_0000, 0x1_0000_0000),
            (0x1_0000_1000, 0x1_0000_1000),
        ] {
            let buffer = program.alloc(VA, size, flags).expect("fits");
            program.map(buffer.handle, &program.gpu_ids).expect("free address");
            let vm = machine.device().processes()[0].memory.vm(program.gpu()).expect("acquired");
            assert_eq!(vm.lookup(VA).map(|mapping| mapping.len), Some(rounded));
            assert!(vm.write_u32(VA + rounded - 4, 1).is_ok() && vm.write_u32(VA + rounded, 1).is_err());
            program.unmap(buffer.handle, &program.gpu_ids).expect("mapped");
            program.free(buffer.handle).expect("not mapped");
        }
        assert_eq!(program.alloc(VA, 0, flags).err(), Some(Errno::EINVAL));
        assert_eq!(program.alloc(VA, u64::MAX, flags).err(), Some(Errno::EINVAL));
        for size in [0x7fff_ffff_f000, 0xffff_ffff_ffff_f000] {
            assert_eq!(program.alloc(VA, size, flags).err(), Some(Errno::ENOMEM), "{size:#x}");
        }
    }
    assert_eq!(program.available(0), before, "nothing stays counted");
}

#[test]
fn s06_absurd_userptr_ranges_are_refused() {
    // Case S06, and L01 for addresses beyond 47 bits.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let page = Pages::before_a_guard();
    // mmu_interval_notifier_insert: the range wraps around.
    assert_eq!(program.alloc_userptr(VA, 0x8000_0000, 0xffff_ffff_ffff_0000).err(), Some(Errno::EOVERFLOW));
    // amdgpu_ttm_tt_get_user_pages: nothing is mapped there.
    assert_eq!(program.alloc_userptr(VA, 1, 1).err(), Some(Errno::EFAULT));
    for addr in [0x00f0_0000_0000_0000, 1 << 48, 1 << 56, 0xffff_8000_0000_0000] {
        assert_eq!(program.alloc_userptr(VA, 4096, addr).err(), Some(Errno::EFAULT), "{addr:#x}");
    }
    assert_eq!(program.alloc_userptr(VA, 0, page.addr()).err(), Some(Errno::EINVAL));
    assert_eq!(program.alloc_userptr(VA, u64::MAX, page.addr()).err(), Some(Errno::EINVAL));
    assert_eq!(program.alloc_userptr(VA, 1 << 40, page.addr()).err(), Some(Errno::ENOMEM));
    assert_eq!(program.alloc_userptr(VA, 1 << 32, page.addr()).err(), Some(Errno::EFAULT), "ends in nothing");
}

#[test]
fn userptr_with_mmap_offset_0_is_einval() {
    // amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu: `if (!offset || !*offset) return -EINVAL`.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    assert_eq!(program.alloc_userptr(VA, 4096, 0).err(), Some(Errno::EINVAL));
}

#[test]
fn userptr_of_memory_that_the_program_cannot_write_is_eperm() {
    // init_user_pages registers all memory for writing; hmm_vma_fault answers EPERM for a read-only mapping.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let page = Pages::with_protection(1, rustix::mm::ProtFlags::READ);
    assert_eq!(program.alloc_userptr(VA, 4096, page.addr()).err(), Some(Errno::EPERM));
    let flags = AllocFlags::USERPTR;
    assert_eq!(program.alloc_on(0, VA, 4096, page.addr(), flags).err(), Some(Errno::EPERM), "even so");
}

#[test]
fn userptr_memory_is_the_programs_own() {
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let pages = Pages::new(2);
    // An address inside a page: the GPU sees whole pages, from the one that contains it on.
    let buffer = program.alloc_userptr(VA, 8192, pages.addr() + 0x100).expect("mapped memory");
    program.map(buffer.handle, &program.gpu_ids).expect("free address");
    let vm = machine.device().processes()[0].memory.vm(program.gpu()).expect("acquired");
    let order = std::sync::atomic::Ordering::SeqCst;
    vm.write_u64(VA + 0x1108, 7).expect("mapped");
    vm.atomic_u64(VA + 0x1108, |word| word.fetch_add(1, order)).expect("mapped");
    assert_eq!(pages.atomic(0x1108).fetch_add(1, order), 8);
    assert_eq!(vm.read_u64(VA + 0x1108), Ok(9));
    program.unmap(buffer.handle, &program.gpu_ids).expect("mapped");
    program.free(buffer.handle).expect("not mapped");
}

#[test]
fn public_vram_on_a_small_bar_is_einval() {
    // kfd_ioctl_alloc_memory_of_gpu: "Alloc host visible vram on small bar is not allowed", before anything else
    // about the GPU.
    let machine = Machine::new(Profile::SmallBar);
    let program = machine.process(1);
    let public = VRAM | AllocFlags::PUBLIC | RW;
    assert_eq!(program.alloc(VA, 4096, public).err(), Some(Errno::EINVAL));
    program.acquire_vm(0).expect("a fresh file");
    assert_eq!(program.alloc(VA, 4096, public).err(), Some(Errno::EINVAL));
    assert!(program.alloc(VA, 4096, VRAM | RW).is_ok());
    assert!(program.alloc(VA, 4096, GTT | AllocFlags::PUBLIC | RW).is_ok());
}

#[test]
fn vram_is_counted_when_it_is_allocated_and_given_back_when_it_is_freed() {
    // amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu and amdgpu_amdkfd_release_notify; in steps of
    // VRAM_AVAILABILITY_ALIGN (amdgpu_amdkfd_get_available_memory).
    let machine = Machine::new(Profile::TwoGpu);
    let (program, other) = (machine.running(1), machine.running(2));
    let (before, peer) = (program.available(0), program.available(1));
    let big = program.alloc(VA, 5 << 20, VRAM | RW).expect("room");
    let small = program.alloc(VA, 1, VRAM | RW).expect("room");
    assert_eq!((other.available(0), other.available(1)), (before - (8 << 20), peer));
    assert_eq!(other.alloc(VA, before, VRAM | RW).err(), Some(Errno::ENOMEM));
    program.free(big.handle).expect("not mapped");
    assert_eq!(program.available(0), before - (2 << 20));
    // The end of a process frees what it left (kfd_process_free_outstanding_kfd_bos).
    program.map(small.handle, &program.gpu_ids).expect("free address");
    drop(program);
    assert_eq!(other.available(0), before);
}

#[test]
fn z02_a_quota_is_kept_and_shown() {
    // Case Z02: VRAM for one process at most 256 MiB.
    let machine = Machine::new(Profile::Mi210);
    machine.gpu.limit_vram_per_process(256 << 20);
    let (program, other) = (machine.running(1), machine.running(2));
    assert_eq!(program.alloc(VA, 300 << 20, VRAM | RW).err(), Some(Errno::ENOMEM));
    let buffer = program.alloc(VA, 200 << 20, VRAM | RW).expect("within the quota");
    assert_eq!((program.available(0), other.available(0)), (56 << 20, 256 << 20));
    program.free(buffer.handle).expect("not mapped");
    assert_eq!(program.available(0), 256 << 20);
}

#[test]
fn the_event_page_cannot_be_freed_and_must_be_driver_memory_of_32_kib() {
    use protocol::kfd::args::CreateEventArgs;
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let pages = Pages::new(8);
    let create = |handle: u64| {
        let mut args = CreateEventArgs { event_page_offset: handle, ..Default::default() };
        program.ioctl(Ioctl::CreateEvent, &mut args)
    };
    // amdgpu_amdkfd_gpuvm_map_gtt_bo_to_kernel: "userptr can't be mapped to kernel".
    let userptr = program.alloc_userptr(VA, 32768, pages.addr()).expect("mapped memory");
    assert_eq!(create(userptr.handle), Err(Errno::EINVAL));
    // kfd_event_page_set: smaller than KFD_SIGNAL_EVENT_LIMIT slots.
    let small = program.alloc(VA, 28672, GTT | RW).expect("room");
    assert_eq!(create(small.handle), Err(Errno::EINVAL));
    program.free(small.handle).expect("not the event page");
    // kfd_kmap_event_page: unknown buffer, unknown GPU.
    assert_eq!(create(small.handle), Err(Errno::EINVAL));
    assert_eq!(create(small.handle ^ (1 << 32)), Err(Errno::EINVAL));
    let page = program.alloc(VA, 32768, GTT | RW).expect("room");
    create(page.handle).expect("good enough");
    // "Event page is already set".
    let second = program.alloc(VA, 32768, GTT | RW).expect("room");
    assert_eq!(create(second.handle), Err(Errno::EINVAL));
    // kfd_ioctl_free_memory_of_gpu: "Free signal BO is not allowed".
    assert_eq!(program.free(page.handle), Err(Errno::EPERM));
    program.free(second.handle).expect("not the event page");
}

#[test]
fn doorbells_and_registers_can_be_mapped_but_have_no_pages_behind_them() {
    // ttm_bo_vm_reserve: a buffer with TTM_TT_FLAG_EXTERNAL gives SIGBUS when touched. Here: a mapping beyond the
    // end of the file.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let doorbells = program.alloc(VA, 8192, AllocFlags::DOORBELL | RW).expect("room");
    let mapping = program.process.mmap(program.drm[0], doorbells.mmap_offset, 8192).expect("as the kernel");
    let file_len = rustix::fs::fstat(&*mapping.fd).expect("fstat").st_size;
    assert!(mapping.offset >= u64::try_from(file_len).expect("positive"));
    // Registers are mapped through /dev/kfd (kfd_mmio_mmap), exactly one page.
    let registers = program.alloc(VA, 4096, AllocFlags::MMIO_REMAP | RW).expect("room");
    let mapping = program.process.mmap(program.kfd, registers.mmap_offset, 4096).expect("registers");
    assert_eq!((mapping.offset, mapping.len), (registers.mmap_offset, 4096));
    assert_eq!(program.process.mmap(program.kfd, registers.mmap_offset, 8192).err(), Some(Errno::EINVAL));
    let kernels_own = u64::from(program.gpu()) << 46;
    let same = program.process.mmap(program.kfd, kernels_own, 4096).expect("registers");
    assert_eq!(same.offset, mapping.offset);
}

#[test]
fn render_mmap_wants_the_start_of_a_buffer_that_this_file_may_map() {
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let mmap = |offset: u64, len: u64| program.process.mmap(program.drm[0], offset, len).map(|m| m.offset);
    let buffer = program.alloc(VA, 8192, GTT | RW).expect("room");
    assert_eq!(mmap(buffer.mmap_offset, 8192), Ok(buffer.mmap_offset));
    assert_eq!(mmap(buffer.mmap_offset, 1), Ok(buffer.mmap_offset));
    // drm_vma_offset_exact_lookup_locked and drm_gem_mmap_obj.
    assert_eq!(mmap(buffer.mmap_offset + 4096, 4096), Err(Errno::EINVAL));
    assert_eq!(mmap(buffer.mmap_offset, 8193), Err(Errno::EINVAL));
    assert_eq!(mmap(buffer.mmap_offset, 0), Err(Errno::EINVAL));
    assert_eq!(mmap(0, 4096), Err(Errno::EINVAL));
    // drm_vma_node_is_allowed: a file that never got the buffer.
    let other = machine.running(2);
    assert_eq!(other.process.mmap(other.drm[0], buffer.mmap_offset, 4096).err(), Some(Errno::EACCES));
    // amdgpu_gem_object_mmap: userptr.
    let pages = Pages::new(1);
    let userptr = program.alloc_userptr(VA, 4096, pages.addr()).expect("mapped memory");
    assert_eq!(mmap(userptr.mmap_offset, 4096), Err(Errno::EPERM));
    program.free(buffer.handle).expect("not mapped");
    assert_eq!(mmap(buffer.mmap_offset, 4096), Err(Errno::EINVAL));
}

#[test]
fn freed_memory_does_not_show_its_contents_to_the_next_owner() {
    // AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE, AMDGPU_GEM_CREATE_VRAM_CLEARED.
    let machine = Machine::new(Profile::Mi210);
    let (first, second) = (machine.running(1), machine.running(2));
    let vm_of = |pid: u32| {
        let process = machine.device().process_by_pid(pid).expect("running");
        process.memory.vm(first.gpu()).expect("acquired")
    };
    let secret = first.alloc(VA, 4096, VRAM | RW).expect("room");
    first.map(secret.handle, &first.gpu_ids).expect("free address");
    vm_of(1).fill(VA, 0x5ec2_e75e, 4096).expect("mapped");
    first.unmap(secret.handle, &first.gpu_ids).expect("mapped");
    first.free(secret.handle).expect("not mapped");
    let reused = second.alloc(VA, 4096, VRAM | RW).expect("room");
    assert_eq!(reused.mmap_offset, secret.mmap_offset, "the same place");
    second.map(reused.handle, &second.gpu_ids).expect("free address");
    let mut bytes = [1u8; 4096];
    vm_of(2).read(VA, &mut bytes).expect("mapped");
    assert!(bytes.iter().all(|&byte| byte == 0));
}
