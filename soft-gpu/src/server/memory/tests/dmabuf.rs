//! EXPORT_DMABUF, IMPORT_DMABUF, GET_DMABUF_INFO, and ROCm's IPC.

use protocol::kfd::args::{GetDmabufInfoArgs, IpcExportHandleArgs, IpcImportHandleArgs};

use super::*;

const GTT: AllocFlags = AllocFlags::GTT;
const VRAM: AllocFlags = AllocFlags::VRAM;

fn info(program: &Program, fd: u32) -> Result<GetDmabufInfoArgs, Errno> {
    let mut args = GetDmabufInfoArgs { dmabuf_fd: fd, ..Default::default() };
    program.ioctl(Ioctl::GetDmabufInfo, &mut args).map(|()| args)
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

#[test]
fn an_exported_buffer_is_the_same_memory_in_another_process() {
    let machine = Machine::new(Profile::Mi210);
    let (exporter, importer) = (machine.running(1), machine.running(2));
    let gpu_id = exporter.gpu();
    let vm_of = |pid: u32| {
        let process = machine.device().process_by_pid(pid).expect("running");
        process.memory.vm(gpu_id).expect("acquired")
    };
    let buffer = exporter.alloc(VA, 8192, VRAM | RW).expect("room");
    exporter.map(buffer.handle, &exporter.gpu_ids).expect("free address");
    vm_of(1).write_u64(VA + 4096, 11).expect("mapped");
    let fd = exporter.export(buffer.handle).expect("not userptr");
    let available = importer.available(0);
    let imported = importer.import(&fd, VA * 2).expect("a dma-buf");
    assert_eq!(importer.available(0), available, "imports are not counted again");
    importer.map(imported, &importer.gpu_ids).expect("free address");
    assert_eq!(vm_of(2).read_u64(VA * 2 + 4096), Ok(11));
    // import_obj_create: always writable.
    vm_of(2).write_u64(VA * 2, 12).expect("writable");
    assert_eq!(vm_of(1).read_u64(VA), Ok(12));
    // The buffer stays the importer's when the exporter and the descriptor are gone.
    drop((exporter, fd));
    assert_eq!(vm_of(2).read_u64(VA * 2), Ok(12));
    assert_eq!(importer.available(0), available);
}

#[test]
fn userptr_memory_cannot_be_exported() {
    // amdgpu_gem_prime_export.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let pages = Pages::new(1);
    let buffer = program.alloc_userptr(VA, 4096, pages.addr()).expect("mapped memory");
    assert_eq!(program.export(buffer.handle).err(), Some(Errno::EPERM));
    // kfd_ioctl_export_dmabuf: unknown buffer, unknown GPU.
    assert_eq!(program.export(buffer.handle + 1).err(), Some(Errno::EINVAL));
    assert_eq!(program.export(buffer.handle ^ (1 << 33)).err(), Some(Errno::EINVAL));
}

#[test]
fn a_buffer_without_writable_gives_a_read_only_descriptor() {
    // kfd_mem_export_dmabuf passes DRM_RDWR only for KFD's WRITABLE.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let mode = |flags: AllocFlags| {
        let buffer = program.alloc(VA, 4096, flags).expect("room");
        let fd = program.export(buffer.handle).expect("not userptr");
        rustix::fs::fcntl_getfl(&fd).expect("fcntl") & rustix::fs::OFlags::ACCMODE
    };
    assert_eq!(mode(GTT), rustix::fs::OFlags::RDONLY);
    assert_eq!(mode(GTT | RW), rustix::fs::OFlags::RDWR);
}

#[test]
fn cpu_mappings_of_a_descriptor_fail_and_show_nothing() {
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    for flags in [GTT, GTT | RW] {
        let buffer = program.alloc(VA, 4096, flags).expect("room");
        let fd = program.export(buffer.handle).expect("not userptr");
        let (prot, how) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let mapped = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, prot, how, &fd, 0) };
        assert_eq!(mapped.err(), Some(rustix::io::Errno::NODEV));
    }
}

#[test]
fn descriptors_of_other_files_are_einval_and_no_descriptors_ebadf() {
    // dma_buf_get: EBADF for no file, EINVAL for another kind of file.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let null: OwnedFd = std::fs::File::open("/dev/null").expect("open").into();
    for (fd, errno) in [(u32::MAX, Errno::EBADF), (DRM_FD, Errno::EINVAL), (number(&null), Errno::EINVAL)] {
        assert_eq!(program.import_on(0, fd, VA).err(), Some(errno));
        assert_eq!(info(&program, fd).err(), Some(errno));
    }
    let stranger = Machine::new(Profile::Mi210);
    let elsewhere = stranger.running(1);
    let buffer = elsewhere.alloc(VA, 4096, GTT | RW).expect("room");
    let fd = elsewhere.export(buffer.handle).expect("not userptr");
    assert_eq!(program.import(&fd, VA).err(), Some(Errno::EINVAL), "a buffer of another machine");
    // kfd_ioctl_import_dmabuf: the GPU and its page tables come first.
    let unbound = machine.process(2);
    assert_eq!(unbound.import_on(0, u32::MAX, VA).err(), Some(Errno::ENODEV));
}

#[test]
fn info_names_size_kind_and_gpu() {
    // amdgpu_amdkfd_get_dmabuf_info; system memory has xcp_id -1, for which kfd_ioctl_get_dmabuf_info answers the
    // first GPU.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let of = |gpu: usize, size: u64, flags: AllocFlags| {
        let buffer = program.alloc_on(gpu, VA, size, 0, flags).expect("room");
        let fd = program.export(buffer.handle).expect("not userptr");
        let info = info(&program, number(&fd)).expect("a dma-buf");
        (info.size, info.gpu_id, AllocFlags(info.flags))
    };
    let [first, second] = [program.gpu_ids[0], program.gpu_ids[1]];
    assert_eq!(of(1, 5000, VRAM | RW), (8192, second, VRAM));
    assert_eq!(of(1, 4096, VRAM | AllocFlags::PUBLIC), (4096, second, VRAM | AllocFlags::PUBLIC));
    assert_eq!(of(1, 4096, GTT | RW), (4096, first, GTT));
}

#[test]
fn memory_of_another_gpu_is_imported_as_system_memory() {
    // amdgpu_dma_buf_create_obj: AMDGPU_GEM_DOMAIN_GTT, so no rule about peers holds.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let buffer = program.alloc(VA, 4096, VRAM | RW).expect("room");
    let fd = program.export(buffer.handle).expect("not userptr");
    let imported = program.import_on(1, number(&fd), VA).expect("a dma-buf");
    assert_eq!(imported >> 32, u64::from(program.gpu_ids[1]));
    program.map(imported, &program.gpu_ids).expect("free addresses");
}

#[test]
fn m14_memory_that_is_exported_survives_its_free_and_is_not_used_again() {
    // Case M14: free while exported is legal, the next allocation gets other pages.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let before = program.available(0);
    for round in 0..5000u64 {
        let first = program.alloc(VA, 2 << 20, VRAM | RW).expect("room");
        let fd = program.export(first.handle).expect("not userptr");
        program.free(first.handle).expect("not mapped");
        let second = program.alloc(VA, 2 << 20, VRAM | RW).expect("room");
        let pages = first.mmap_offset..first.mmap_offset + (2 << 20);
        assert!(!pages.contains(&second.mmap_offset), "round {round}");
        assert_eq!(program.available(0), before - (4 << 20), "both are counted");
        program.free(second.handle).expect("not mapped");
        drop(fd);
    }
    assert_eq!(program.available(0), before);
    assert_eq!(machine.device().memory.dmabufs.len(), 0, "no descriptor of ours is left");
}

#[test]
fn ipc_handles_share_a_buffer_as_long_as_somebody_has_it() {
    // kfd_ipc.c of the out-of-tree driver: handles are looked up by all 128 bits.
    let machine = Machine::with_kernel(Profile::Mi210, Kernel::Rocm);
    let (exporter, importer) = (machine.running(1), machine.running(2));
    let buffer = exporter.alloc(VA, 4096, GTT | RW).expect("room");
    let export = || {
        let mut args =
            IpcExportHandleArgs { handle: buffer.handle, gpu_id: exporter.gpu(), ..Default::default() };
        exporter.ioctl(Ioctl::IpcExportHandle, &mut args).map(|()| args.share_handle)
    };
    let share_handle = export().expect("not userptr");
    assert_eq!(export(), Ok(share_handle), "one handle for one buffer");
    let import = |share_handle: [u32; 4]| {
        let gpu_id = importer.gpu();
        let mut args = IpcImportHandleArgs { share_handle, va_addr: VA, gpu_id, ..Default::default() };
        importer.ioctl(Ioctl::IpcImportHandle, &mut args).map(|()| args)
    };
    assert_eq!(import([0; 4]).err(), Some(Errno::EINVAL));
    let imported = import(share_handle).expect("alive");
    assert_eq!(imported.mmap_offset, buffer.mmap_offset);
    exporter.free(buffer.handle).expect("not mapped");
    assert!(import(share_handle).is_ok(), "the importer still has it");
    drop(importer);
    let late = machine.running(3);
    let mut args =
        IpcImportHandleArgs { share_handle, va_addr: VA, gpu_id: late.gpu(), ..Default::default() };
    assert_eq!(late.ioctl(Ioctl::IpcImportHandle, &mut args), Err(Errno::EINVAL));
}
