//! ACQUIRE_VM, apertures, SET_MEMORY_POLICY, SET_SCRATCH_BACKING_VA.

use protocol::kfd::args::{
    GetProcessAperturesArgs, GetProcessAperturesNewArgs, SetMemoryPolicyArgs, SetScratchBackingVaArgs,
};
use protocol::kfd::types::ProcessDeviceApertures;
use zerocopy::{FromZeros, IntoBytes};

use super::*;

#[test]
fn page_tables_are_acquired_once_and_from_one_file() {
    let machine = Machine::new(Profile::Mi210);
    let mut program = machine.process(1);
    let minor = machine.minors[0];
    program.drm.push(program.process.open(Node::Render(minor)).expect("a second file"));
    let acquire =
        |drm_fd: u32| program.ioctl(Ioctl::AcquireVm, &mut AcquireVmArgs { drm_fd, gpu_id: program.gpu() });
    // fget fails: EINVAL, before the GPU is looked at; amdgpu_file_to_fpriv: not a render node file.
    assert_eq!(acquire(u32::MAX), Err(Errno::EINVAL));
    let null: OwnedFd = std::fs::File::open("/dev/null").expect("open").into();
    assert_eq!(acquire(null.as_raw_fd().cast_unsigned()), Err(Errno::EINVAL));
    assert_eq!(
        program.ioctl(Ioctl::AcquireVm, &mut AcquireVmArgs { drm_fd: DRM_FD, gpu_id: 1 }),
        Err(Errno::EINVAL)
    );
    assert_eq!(acquire(DRM_FD), Ok(()));
    // kfd_ioctl_acquire_vm: the same file is fine, another one EBUSY.
    assert_eq!(acquire(DRM_FD), Ok(()));
    assert_eq!(acquire(DRM_FD + 1), Err(Errno::EBUSY));
    assert_eq!(acquire(null.as_raw_fd().cast_unsigned()), Err(Errno::EBUSY));
}

#[test]
fn page_tables_of_another_process_cannot_be_acquired_even_after_its_end() {
    // amdgpu_amdkfd_gpuvm_acquire_process_vm: "Already a compute VM?" EINVAL; process_info stays until the file ends.
    let machine = Machine::new(Profile::Mi210);
    let (first, mut second) = (machine.running(1), machine.process(2));
    second.drm = vec![first.drm[0]];
    assert_eq!(second.acquire_vm(0), Err(Errno::EINVAL));
    drop(first);
    assert_eq!(second.acquire_vm(0), Err(Errno::EINVAL));
}

#[test]
fn page_tables_stay_when_the_render_node_file_is_closed() {
    // "On success, the PDD keeps the drm_file reference".
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    program.process.close(program.drm[0]);
    let buffer = program.alloc(VA, 4096, AllocFlags::GTT | RW).expect("room");
    assert_eq!(program.map(buffer.handle, &program.gpu_ids), Ok(()));
    assert_eq!(program.acquire_vm(0), Err(Errno::EINVAL), "the descriptor is no file any more");
}

#[test]
fn apertures_list_every_gpu() {
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.process(1);
    let mut old = GetProcessAperturesArgs { num_of_nodes: 77, ..Default::default() };
    program.ioctl(Ioctl::GetProcessApertures, &mut old).expect("never fails");
    assert_eq!(old.num_of_nodes, 2);
    let [first, second, rest @ ..] = &old.process_apertures;
    assert_eq!([first.gpu_id, second.gpu_id], *program.gpu_ids);
    assert!(rest.iter().all(|entry| entry.gpu_id == 0));
    // kfd_init_apertures_v9.
    assert_eq!((first.lds_base, first.lds_limit), (0x1_0000_0000_0000, 0x1_0000_ffff_ffff));
    assert_eq!((first.scratch_base, first.scratch_limit), (0x2_0000_0000_0000, 0x2_0000_ffff_ffff));
    assert_eq!((first.gpuvm_base, first.gpuvm_limit), (0x1_0000, 0x7fff_ffff_ffff));
}

#[test]
fn new_apertures_are_asked_for_by_number() {
    // kfd_ioctl_get_process_apertures_new.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.process(1);
    let mut list = [ProcessDeviceApertures::new_zeroed(); 3];
    let mut call = |count: u32, addr: Option<u64>| {
        let kfd_process_device_apertures_ptr =
            addr.unwrap_or_else(|| list.as_mut_bytes().as_mut_ptr().expose_provenance() as u64);
        let mut args = GetProcessAperturesNewArgs {
            kfd_process_device_apertures_ptr,
            num_of_nodes: count,
            ..Default::default()
        };
        (program.ioctl(Ioctl::GetProcessAperturesNew, &mut args).err(), args.num_of_nodes)
    };
    assert_eq!(call(0, Some(8)), (None, 2), "how many");
    assert_eq!(call(3, None), (None, 2), "as many as there are");
    assert_eq!(call(1, None), (None, 1));
    // Compared with the number of all nodes: one CPU and two GPUs.
    assert_eq!(call(4, None), (Some(Errno::EINVAL), 4));
    assert_eq!(call(2, Some(8)), (Some(Errno::EFAULT), 2), "the number is answered all the same");
    assert_eq!([list[0].gpu_id, list[1].gpu_id, list[2].gpu_id], [program.gpu_ids[0], program.gpu_ids[1], 0]);
}

#[test]
fn memory_policies_are_checked_before_the_gpu_and_its_page_tables() {
    // kfd_ioctl_set_memory_policy: unknown policy and unknown GPU EINVAL, no page tables ESRCH.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.process(1);
    let call = |default_policy: u32, alternate_policy: u32, gpu_id: u32| {
        let mut args = SetMemoryPolicyArgs { default_policy, alternate_policy, gpu_id, ..Default::default() };
        program.ioctl(Ioctl::SetMemoryPolicy, &mut args)
    };
    assert_eq!(call(2, 0, program.gpu()), Err(Errno::EINVAL));
    assert_eq!(call(0, 2, program.gpu()), Err(Errno::EINVAL));
    assert_eq!(call(1, 0, 1), Err(Errno::EINVAL));
    assert_eq!(call(1, 0, program.gpu()), Err(Errno::ESRCH));
    program.acquire_vm(0).expect("a fresh file");
    assert_eq!(call(1, 0, program.gpu()), Ok(()));
}

#[test]
fn scratch_backing_wants_a_gpu_with_page_tables() {
    // kfd_ioctl_set_scratch_backing_va: unknown GPU EINVAL, no page tables ENODEV.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.process(1);
    let call = |gpu_id: u32| {
        let mut args = SetScratchBackingVaArgs { va_addr: VA, gpu_id, ..Default::default() };
        program.ioctl(Ioctl::SetScratchBackingVa, &mut args)
    };
    assert_eq!(call(1), Err(Errno::EINVAL));
    assert_eq!(call(program.gpu()), Err(Errno::ENODEV));
    program.acquire_vm(0).expect("a fresh file");
    assert_eq!(call(program.gpu()), Ok(()));
}
