//! How many queues there are.

use protocol::Errno;
use protocol::kfd::args::CreateQueueArgs;
use protocol::kfd::constants::QueueType;

use super::Rig;
use crate::profile::Profile;

/// Creates queues until it fails; how many there were, and why no more.
fn fill(rig: &Rig, args: &CreateQueueArgs) -> (Vec<CreateQueueArgs>, Errno) {
    let mut created = Vec::new();
    loop {
        match rig.create(args) {
            Ok(queue) => created.push(queue),
            Err(errno) => return (created, errno),
        }
    }
}

#[test]
fn a_process_has_127_queues_on_a_gpu_and_255_on_gfx942() {
    // pqm_create_queue: max_queues.
    for (profile, most) in [(Profile::Mi210, 127), (Profile::Mi300x, 255)] {
        let rig = Rig::new(profile);
        let (created, errno) = fill(&rig, &rig.compute(QueueType::COMPUTE_AQL, 4096).args);
        assert_eq!((created.len(), errno), (most, Errno::ENOSPC));
        rig.destroy(created[7].queue_id).expect("destroy");
        let again = rig.create(&rig.compute(QueueType::COMPUTE_AQL, 4096).args).expect("one is free again");
        assert_eq!(again.queue_id, 7);
    }
}

#[test]
fn sdma_queues_are_as_many_as_the_engines_have() {
    // allocate_sdma_queue; (profile, PCIe engines x queues, XGMI engines x queues).
    for (profile, pcie, xgmi) in [(Profile::Mi210, 16, 24), (Profile::Rx7900xtx, 12, 0)] {
        let rig = Rig::new(profile);
        let (created, errno) = fill(&rig, &rig.sdma(QueueType::SDMA).args);
        assert_eq!((created.len(), errno), (pcie, Errno::ENOMEM));
        let (created, errno) = fill(&rig, &rig.sdma(QueueType::SDMA_XGMI).args);
        assert_eq!((created.len(), errno), (xgmi, Errno::ENOMEM));
    }
}

#[test]
fn sdma_queues_are_shared_by_all_processes() {
    let rig = Rig::new(Profile::Mi210);
    let (created, _) = fill(&rig, &rig.sdma(QueueType::SDMA).args);
    let second = Rig { program: rig.machine.running(2), machine: rig.machine, next_va: rig.next_va };
    let args = second.sdma(QueueType::SDMA).args;
    assert_eq!(second.create(&args), Err(Errno::ENOMEM));
    rig.program
        .ioctl(
            protocol::kfd::Ioctl::DestroyQueue,
            &mut protocol::kfd::args::DestroyQueueArgs { queue_id: created[0].queue_id, pad: 0 },
        )
        .expect("destroy");
    assert!(second.create(&args).is_ok());
}

#[test]
fn an_sdma_engine_can_be_chosen() {
    let rig = Rig::new(Profile::Mi210);
    let mut args = rig.sdma(QueueType::SDMA_BY_ENG_ID).args;
    // kfd_ioctl_create_queue: engines 0 and 1 are PCIe's, 2 to 4 XGMI's.
    args.sdma_engine_id = 5;
    assert_eq!(rig.create(&args), Err(Errno::EINVAL));
    args.sdma_engine_id = 3;
    let (created, errno) = fill(&rig, &args);
    assert_eq!((created.len(), errno), (8, Errno::ENOMEM));
    // allocate_doorbell: the second XGMI engine is engine 3 of all: AMDGPU_VEGA20_DOORBELL_sDMA_ENGINE3 is 0x11e.
    // Queue n: 0x11e + n / 2, odd ones 512 further on (KFD_QUEUE_DOORBELL_MIRROR_OFFSET).
    let offsets: Vec<u64> = created.iter().map(|c| (c.doorbell_offset & 0x1fff) / 8).collect();
    assert_eq!(offsets, [0x11e, 0x31e, 0x11f, 0x31f, 0x120, 0x320, 0x121, 0x321]);
}

#[test]
fn sdma_doorbells_follow_engine_and_queue() {
    let doorbells = |profile: Profile, count: usize| -> Vec<u64> {
        let rig = Rig::new(profile);
        let args = rig.sdma(QueueType::SDMA).args;
        (0..count).map(|_| (rig.create(&args).expect("create").doorbell_offset & 0x1fff) / 8).collect()
    };
    // allocate_sdma_queue deals queues out to the engines in turn: engine 0 at 0x100, engine 1 at 0x10a.
    assert_eq!(doorbells(Profile::Mi210, 4), [0x100, 0x10a, 0x300, 0x30a]);
    // gfx942: engine 1 at 0x10a is aligned to 4 (KFD_SDMA_SHADER_DOORBELL_GRANULARITY).
    assert_eq!(doorbells(Profile::Mi300x, 2), [0x100, 0x10c]);
    // SDMA 6: queues 0 and 1 of each engine belong to the kernel (kfd_device_info_set_sdma_info).
    assert_eq!(doorbells(Profile::Rx7900xtx, 2), [0x101, 0x10b]);
}

/// Case Q03: 1,000 times create and destroy, also with eight XCCs, leaves nothing.
#[test]
fn q03_a_thousand_queues_one_after_the_other_leave_nothing() {
    for profile in [Profile::Mi210, Profile::Mi300x] {
        let rig = Rig::new(profile);
        let queue = rig.compute(QueueType::COMPUTE_AQL, 4096);
        for _ in 0..1000 {
            let created = rig.create(&queue.args).expect("create");
            assert_eq!((created.queue_id, created.doorbell_offset & 0x1fff), (0, 0));
            rig.destroy(created.queue_id).expect("destroy");
        }
        assert_eq!(rig.program.unmap(queue.save_area.handle, &[rig.program.gpu()]), Ok(()));
        assert_eq!(rig.program.free(queue.save_area.handle), Ok(()));
    }
}
