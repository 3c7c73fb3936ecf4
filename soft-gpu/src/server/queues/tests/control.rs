//! DESTROY, UPDATE, SET_CU_MASK, GET_QUEUE_WAVE_STATE, ALLOC_QUEUE_GWS.

use std::sync::atomic::Ordering;

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{
    AllocQueueGwsArgs, GetQueueWaveStateArgs, SetCuMaskArgs, SetXnackModeArgs, UpdateQueueArgs,
};
use protocol::kfd::constants::QueueType;

use super::{Rig, fence, wait};
use crate::profile::Profile;

#[test]
fn unknown_queues_are_einval_to_destroy_and_efault_to_the_rest() {
    let rig = Rig::new(Profile::Mi210);
    // pqm_destroy_queue; pqm_update_queue_properties, pqm_update_mqd, pqm_get_wave_state; kfd_ioctl_alloc_queue_gws.
    assert_eq!(rig.destroy(0), Err(Errno::EINVAL));
    assert_eq!(rig.destroy(u32::MAX), Err(Errno::EINVAL));
    assert_eq!(
        rig.update(UpdateQueueArgs { queue_percentage: 100, ..Default::default() }),
        Err(Errno::EFAULT)
    );
    let mask = [1u32];
    let cu_mask_ptr = mask.as_ptr().addr() as u64;
    let mut args = SetCuMaskArgs { queue_id: 3, num_cu_mask: 32, cu_mask_ptr };
    assert_eq!(rig.program.ioctl(Ioctl::SetCuMask, &mut args), Err(Errno::EFAULT));
    let mut args = GetQueueWaveStateArgs { queue_id: 3, ..Default::default() };
    assert_eq!(rig.program.ioctl(Ioctl::GetQueueWaveState, &mut args), Err(Errno::EFAULT));
    let mut args = AllocQueueGwsArgs { queue_id: 3, num_gws: 1, ..Default::default() };
    assert_eq!(rig.program.ioctl(Ioctl::AllocQueueGws, &mut args), Err(Errno::EINVAL));
}

#[test]
fn an_update_is_checked_like_a_creation() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.sdma(QueueType::SDMA);
    let queue_id = rig.create(&queue.args).expect("create").queue_id;
    let good = UpdateQueueArgs {
        ring_base_address: queue.ring.va,
        queue_id,
        ring_size: 4096,
        queue_percentage: 100,
        queue_priority: 0,
    };
    // kfd_ioctl_update_queue, then pqm_update_queue_properties.
    let cases = [
        (UpdateQueueArgs { queue_percentage: 101, ..good }, Err(Errno::EINVAL)),
        (UpdateQueueArgs { queue_priority: 16, ..good }, Err(Errno::EINVAL)),
        (UpdateQueueArgs { ring_base_address: 1 << 63, ..good }, Err(Errno::EFAULT)),
        (UpdateQueueArgs { ring_size: 5000, ..good }, Err(Errno::EINVAL)),
        (UpdateQueueArgs { ring_size: 8192, ..good }, Err(Errno::EFAULT)),
        (UpdateQueueArgs { ring_base_address: 0x1000, ..good }, Err(Errno::EFAULT)),
        (UpdateQueueArgs { ring_base_address: 0, ..good }, Ok(())),
        (good, Ok(())),
    ];
    for (args, expected) in cases {
        assert_eq!(rig.update(args), expected, "{args:?}");
    }
}

#[test]
fn a_share_of_zero_or_no_ring_stops_the_queue_until_the_next_update() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.sdma(QueueType::SDMA);
    let created = rig.create(&queue.args).expect("create");
    let done = rig.gtt(4096);
    let on = UpdateQueueArgs {
        ring_base_address: queue.ring.va,
        queue_id: created.queue_id,
        ring_size: 4096,
        queue_percentage: 100,
        queue_priority: 0,
    };
    for (round, off) in (0u32..)
        .zip([UpdateQueueArgs { queue_percentage: 0, ..on }, UpdateQueueArgs { ring_base_address: 0, ..on }])
    {
        rig.update(off).expect("off");
        let at = usize::try_from(round).expect("small") * 16;
        queue.ring.words(at, &fence(done.va + at as u64, 1));
        queue.pointers.u64(56).store(at as u64 + 16, Ordering::Release);
        rig.ring(&created, at as u64 + 16);
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert_eq!(done.u64(at).load(Ordering::Acquire), 0);
        rig.update(on).expect("on");
        wait("the fence", || done.u64(at).load(Ordering::Acquire) == 1);
        // The doorbell was not looked at yet.
        wait("the doorbell", || queue.pointers.u64(128).load(Ordering::Acquire) == at as u64 + 16);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_new_ring_replaces_the_old_one() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.sdma(QueueType::SDMA);
    let created = rig.create(&queue.args).expect("create");
    let (ring, done) = (rig.gtt(8192), rig.gtt(4096));
    let args = UpdateQueueArgs {
        ring_base_address: ring.va,
        queue_id: created.queue_id,
        ring_size: 8192,
        queue_percentage: 50,
        queue_priority: 0,
    };
    rig.update(args).expect("update");
    let gpus = [rig.program.gpu()];
    assert_eq!(rig.program.unmap(queue.ring.handle, &gpus), Ok(()), "the old ring is free");
    assert_eq!(rig.program.unmap(ring.handle, &gpus), Err((Errno::EBUSY, 0)), "the new one is in use");
    ring.words(0, &fence(done.va, 1));
    rig.ring(&created, 16);
    wait("the fence", || done.u64(0).load(Ordering::Acquire) == 1);
}

#[test]
fn cu_masks_are_checked() {
    let set = |profile: Profile, num_cu_mask: u32, mask: &[u32]| {
        let rig = Rig::new(profile);
        let queue = rig.compute(QueueType::COMPUTE_AQL, 4096);
        let queue_id = rig.create(&queue.args).expect("create").queue_id;
        let cu_mask_ptr = if mask.is_empty() { 0 } else { mask.as_ptr().addr() as u64 };
        rig.program.ioctl(Ioctl::SetCuMask, &mut SetCuMaskArgs { queue_id, num_cu_mask, cu_mask_ptr })
    };
    // kfd_ioctl_set_cu_mask
    assert_eq!(set(Profile::Mi210, 33, &[1, 1]), Err(Errno::EINVAL));
    assert_eq!(set(Profile::Mi210, 0, &[1]), Err(Errno::EINVAL));
    assert_eq!(set(Profile::Mi210, 32, &[]), Err(Errno::EFAULT));
    assert_eq!(set(Profile::Mi210, 64, &[1, 0]), Ok(()));
    assert_eq!(set(Profile::Mi210, 4096, &[u32::MAX; 32]), Ok(()), "no more than 1,024 bits are read");
    // pqm_update_mqd: pairs from gfx10 on.
    assert_eq!(set(Profile::Rx7900xtx, 32, &[0b0100]), Err(Errno::EINVAL));
    assert_eq!(set(Profile::Rx7900xtx, 32, &[0b1100]), Ok(()));
}

#[test]
fn wave_state_is_that_of_an_inactive_compute_queue() {
    let rig = Rig::new(Profile::Mi210);
    let (compute, sdma) = (rig.compute(QueueType::COMPUTE_AQL, 4096), rig.sdma(QueueType::SDMA));
    let get = |queue_id: u32, out: &mut [u32; 4]| {
        let ctl_stack_address = out.as_mut_ptr().addr() as u64;
        let mut args = GetQueueWaveStateArgs { queue_id, ctl_stack_address, ..Default::default() };
        rig.program.ioctl(Ioctl::GetQueueWaveState, &mut args).map(|()| args)
    };
    let mut header = [u32::MAX; 4];
    let sdma_id = rig.create(&sdma.args).expect("create").queue_id;
    let active = rig.create(&compute.args).expect("create").queue_id;
    let mut inactive_args = compute.args;
    inactive_args.queue_percentage = 0;
    let inactive = rig.create(&inactive_args).expect("create").queue_id;
    // get_wave_state in kfd_device_queue_manager.c
    assert_eq!(get(sdma_id, &mut header).unwrap_err(), Errno::EINVAL);
    assert_eq!(get(active, &mut header).unwrap_err(), Errno::EINVAL);
    let args = get(inactive, &mut header).expect("inactive");
    assert_eq!((args.ctl_stack_used_size, args.save_area_used_size), (0, 0));
    // get_wave_state in kfd_mqd_manager_v9.c: nothing was saved, so everything is at the end of the control stack.
    let stack = compute.args.ctl_stack_size;
    assert_eq!(header, [stack, 0, stack, 0]);
    let mut args = GetQueueWaveStateArgs { queue_id: inactive, ..Default::default() };
    assert_eq!(rig.program.ioctl(Ioctl::GetQueueWaveState, &mut args), Err(Errno::EFAULT));
}

#[test]
fn one_queue_of_a_process_has_global_wave_sync() {
    let rig = Rig::new(Profile::Mi210);
    let args = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    let [first, second] = [0, 1].map(|_| rig.create(&args).expect("create").queue_id);
    let gws = |queue_id, num_gws| {
        let mut args = AllocQueueGwsArgs { queue_id, num_gws, first_gws: 7, pad: 0 };
        rig.program.ioctl(Ioctl::AllocQueueGws, &mut args).map(|()| args.first_gws)
    };
    // pqm_set_gws
    assert_eq!(gws(first, 0), Err(Errno::EINVAL), "nothing to give back");
    assert_eq!(gws(first, 1), Ok(0));
    assert_eq!(gws(second, 1), Err(Errno::EBUSY));
    rig.destroy(first).expect("destroy");
    assert_eq!(gws(second, 1), Ok(0), "pqm_clean_queue_resource gave it back");
    assert_eq!(gws(second, 0), Ok(0));
}

#[test]
fn the_xnack_mode_cannot_be_set_while_there_are_queues() {
    let rig = Rig::new(Profile::Mi210);
    let queue_id = rig.create(&rig.sdma(QueueType::SDMA).args).expect("create").queue_id;
    let xnack = |value| {
        let mut args = SetXnackModeArgs { xnack_enabled: value };
        rig.program.ioctl(Ioctl::SetXnackMode, &mut args).map(|()| args.xnack_enabled)
    };
    // kfd_ioctl_set_xnack_mode: refused even where nothing would change; a query is not.
    assert_eq!([xnack(1), xnack(0), xnack(-1)], [Err(Errno::EBUSY), Err(Errno::EBUSY), Ok(0)]);
    rig.destroy(queue_id).expect("destroy");
    assert_eq!([xnack(1), xnack(-1)], [Ok(1), Ok(1)]);
}
