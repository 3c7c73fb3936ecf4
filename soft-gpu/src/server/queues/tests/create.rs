//! What CREATE_QUEUE checks, in the kernel's order.

use protocol::Errno;
use protocol::kfd::args::CreateQueueArgs;
use protocol::kfd::constants::{AllocFlags, MmapOffset, MmapType, QueueType};
use protocol::kfd::{Ioctl, topology};

use super::{RW, Rig};
use crate::Kernel;
use crate::profile::Profile;
use crate::server::memory::tests::{Machine, Pages};

type Change = fn(&mut CreateQueueArgs);

/// A change to good arguments, and the error that it gives.
fn check(rig: &Rig, good: &CreateQueueArgs, cases: &[(&str, Change, Errno)]) {
    for (what, change, errno) in cases {
        let mut args = *good;
        change(&mut args);
        assert_eq!(rig.create(&args), Err(*errno), "{what}");
    }
    let created = rig.create(good).expect("the unchanged arguments are good");
    rig.destroy(created.queue_id).expect("destroy");
}

#[test]
fn arguments_are_checked_before_anything_is_looked_up() {
    let rig = Rig::new(Profile::Mi210);
    let good = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    // set_queue_properties_from_user; ENOTSUPP is 524.
    check(
        &rig,
        &good,
        &[
            ("percentage", |a| a.queue_percentage = 101, Errno::EINVAL),
            ("priority", |a| a.queue_priority = 16, Errno::EINVAL),
            (
                "priority before ring",
                |a| (a.queue_priority, a.ring_base_address) = (16, 1 << 63),
                Errno::EINVAL,
            ),
            ("ring address", |a| a.ring_base_address = 1 << 63, Errno::EFAULT),
            ("ring size", |a| a.ring_size = 3 * 4096, Errno::EINVAL),
            ("read pointer", |a| a.read_pointer_address = u64::MAX, Errno::EFAULT),
            ("write pointer", |a| a.write_pointer_address = u64::MAX, Errno::EFAULT),
            ("eop", |a| a.eop_buffer_address = u64::MAX, Errno::EFAULT),
            ("save area", |a| a.ctx_save_restore_address = u64::MAX, Errno::EFAULT),
            ("type", |a| a.queue_type = 5, Errno::ENOTSUPP),
            ("type before GPU", |a| (a.queue_type, a.gpu_id) = (5, 1), Errno::ENOTSUPP),
            ("GPU", |a| a.gpu_id = 1, Errno::EINVAL),
            ("GPU 0", |a| a.gpu_id = 0, Errno::EINVAL),
        ],
    );
}

#[test]
fn bits_8_to_15_of_the_percentage_choose_a_die() {
    let rig = Rig::new(Profile::Mi210);
    let mut args = rig.compute(QueueType::COMPUTE, 4096).args;
    // set_queue_properties_from_user: pm4_target_xcc.
    args.queue_percentage = 0xff00 | 100;
    assert!(rig.create(&args).is_ok());
}

#[test]
fn queues_need_page_tables() {
    let machine = Machine::new(Profile::Mi210);
    let program = machine.process(1);
    let mut args = CreateQueueArgs { gpu_id: program.gpu(), ring_size: 4096, ..Default::default() };
    // kfd_ioctl_create_queue: kfd_bind_process_to_device fails.
    assert_eq!(program.ioctl(Ioctl::CreateQueue, &mut args), Err(Errno::ESRCH));
}

#[test]
fn buffers_are_exactly_one_mapping() {
    let rig = Rig::new(Profile::Mi210);
    let good = rig.compute(QueueType::COMPUTE_AQL, 8192).args;
    // kfd_queue_buffer_get compares page and length of the mapping.
    check(
        &rig,
        &good,
        &[
            ("ring smaller than its mapping", |a| a.ring_size = 4096, Errno::EINVAL),
            ("ring larger than its mapping", |a| a.ring_size = 16384, Errno::EINVAL),
            (
                "ring in the middle of its mapping",
                |a| (a.ring_base_address, a.ring_size) = (a.ring_base_address + 4096, 4096),
                Errno::EINVAL,
            ),
            ("ring nowhere", |a| a.ring_base_address = 0, Errno::EINVAL),
            ("read pointer nowhere", |a| a.read_pointer_address = 0, Errno::EINVAL),
            ("write pointer nowhere", |a| a.write_pointer_address = 0x1000, Errno::EINVAL),
            (
                "read pointer in a large mapping",
                |a| a.read_pointer_address = a.ring_base_address,
                Errno::EINVAL,
            ),
            ("eop too small", |a| a.eop_buffer_size = 2048, Errno::EINVAL),
            ("eop larger than its mapping", |a| a.eop_buffer_size = 4097, Errno::EINVAL),
            ("control stack smaller", |a| a.ctl_stack_size -= 4096, Errno::EINVAL),
            ("control stack larger", |a| a.ctl_stack_size += 4096, Errno::EINVAL),
            ("save area smaller than the node's", |a| a.ctx_save_restore_size -= 4096, Errno::EINVAL),
            ("save area larger than its mapping", |a| a.ctx_save_restore_size += 4096, Errno::EINVAL),
            ("save area nowhere", |a| a.ctx_save_restore_address = 0, Errno::EINVAL),
        ],
    );
}

#[test]
fn the_control_stack_is_exactly_the_nodes_and_the_save_area_at_least() {
    // kfd_queue_acquire_buffers: `ctl_stack_size != topo_dev->node_props.ctl_stack_size`,
    // `ctx_save_restore_area_size < topo_dev->node_props.cwsr_size`.
    let rig = Rig::new(Profile::Mi210);
    let good = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    let sizes = rig.spec().queue_sizes;
    for (change, errno) in [(-4096, Some(Errno::EINVAL)), (4096, Some(Errno::EINVAL)), (0, None)] {
        let ctl_stack_size = sizes.ctl_stack.saturating_add_signed(change);
        assert_eq!(rig.create(&CreateQueueArgs { ctl_stack_size, ..good }).err(), errno, "{change}");
    }
    // A larger save area, in a mapping that is as large.
    let larger = sizes.cwsr + 8192;
    let area = rig.gtt(u64::from(larger + sizes.debug_memory).next_multiple_of(4096));
    let args = CreateQueueArgs { ctx_save_restore_address: area.va, ctx_save_restore_size: larger, ..good };
    assert!(rig.create(&args).is_ok());
    let args = CreateQueueArgs { ctx_save_restore_size: sizes.cwsr - 4096, ..args };
    assert_eq!(rig.create(&args).err(), Some(Errno::EINVAL));
}

#[test]
fn a_slab_is_no_queue_buffer() {
    let rig = Rig::new(Profile::Mi210);
    let mut args = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    let slab = rig.gtt(1 << 20);
    args.write_pointer_address = slab.va;
    // kfd_queue_buffer_get: the mapping is longer than a page.
    assert_eq!(rig.create(&args), Err(Errno::EINVAL));
}

#[test]
fn an_eop_buffer_is_optional() {
    let rig = Rig::new(Profile::Mi210);
    let mut args = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    (args.eop_buffer_address, args.eop_buffer_size) = (0, 0);
    // kfd_queue_acquire_buffers: not required for all ASICs.
    assert!(rig.create(&args).is_ok());
}

#[test]
fn buffers_of_a_live_queue_stay_mapped() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.compute(QueueType::COMPUTE_AQL, 4096);
    let created = rig.create(&queue.args).expect("create");
    for buffer in [&queue.ring, &queue.pointers, &queue.save_area] {
        // unmap_bo_from_gpuvm: queue_refcount.
        assert_eq!(rig.program.unmap(buffer.handle, &[rig.program.gpu()]), Err((Errno::EBUSY, 0)));
    }
    rig.destroy(created.queue_id).expect("destroy");
    for buffer in [&queue.ring, &queue.pointers, &queue.save_area] {
        assert_eq!(rig.program.unmap(buffer.handle, &[rig.program.gpu()]), Ok(()));
    }
}

#[test]
fn a_refused_queue_leaves_its_buffers_free() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.compute(QueueType::COMPUTE_AQL, 4096);
    let mut args = queue.args;
    args.ctl_stack_size = 0;
    assert_eq!(rig.create(&args), Err(Errno::EINVAL));
    // kfd_queue_acquire_buffers gives back what it took.
    assert_eq!(rig.program.unmap(queue.ring.handle, &[rig.program.gpu()]), Ok(()));
}

/// Case Q13: tiny and odd ring sizes are raised or refused the same way for all.
#[test]
fn q13_ring_sizes_are_raised_to_1024_or_refused() {
    let rig = Rig::new(Profile::Mi210);
    let good = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    // (size, result); the buffer has one page. KFD_MIN_QUEUE_RING_SIZE is 1024; below a page only the start of the
    // mapping is compared (kfd_queue_buffer_get).
    let cases = [
        (0, Ok(1024)),
        (64, Ok(1024)),
        (256, Ok(1024)),
        (1023, Err(Errno::EINVAL)),
        (1024, Ok(1024)),
        (4096, Ok(4096)),
        (3 * 4096, Err(Errno::EINVAL)),
        (1 << 31, Err(Errno::EINVAL)),
    ];
    for (ring_size, expected) in cases {
        let result = rig.create(&CreateQueueArgs { ring_size, ..good });
        assert_eq!(result.map(|created| created.ring_size), expected, "ring size {ring_size}");
        if let Ok(created) = result {
            rig.destroy(created.queue_id).expect("destroy");
        }
    }
    // An address that is off by 8 is in the same page; the hardware drops its lower bits.
    let unaligned = CreateQueueArgs { ring_base_address: good.ring_base_address + 8, ..good };
    assert!(rig.create(&unaligned).is_ok());
}

#[test]
fn a_raised_ring_size_is_reported_even_when_the_call_fails() {
    let rig = Rig::new(Profile::Mi210);
    let mut args = CreateQueueArgs { ring_size: 64, gpu_id: 1, ..Default::default() };
    assert_eq!(rig.program.ioctl(Ioctl::CreateQueue, &mut args), Err(Errno::EINVAL));
    assert_eq!(args.ring_size, 1024);
}

#[test]
fn mes_wants_the_write_pointer_in_pinned_memory_of_the_same_gpu() {
    let rig = Rig::new(Profile::Rx7900xtx);
    let mut args = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    assert!(rig.create(&args).is_ok());
    let pages = Pages::new(1);
    args.write_pointer_address = rig.userptr(&pages, 4096);
    // init_user_queue: amdgpu_amdkfd_map_gtt_bo_to_gart, amdgpu_bo_pin refuses userptr.
    assert_eq!(rig.create(&args), Err(Errno::EPERM));
    let other = Rig::new(Profile::Mi210);
    let mut args = other.compute(QueueType::COMPUTE_AQL, 4096).args;
    let pages = Pages::new(1);
    args.write_pointer_address = other.userptr(&pages, 4096);
    assert!(other.create(&args).is_ok(), "without MES userptr is fine");
}

#[test]
fn mes_refuses_a_write_pointer_of_another_gpu() {
    let mut machine = Profile::TwoGpu.machine(Kernel::Linux6_12);
    for gpu in &mut machine.gpus {
        gpu.features.mes = true;
    }
    let rig = Rig::on(Machine::of(machine));
    let mut args = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    args.write_pointer_address = rig.buffer(1, 4096, AllocFlags::GTT | RW).va;
    // init_user_queue: "Queue memory allocated to wrong device".
    assert_eq!(rig.create(&args), Err(Errno::EINVAL));
}

/// Case Q01, the server's side: the pages of the doorbell and the byte in them come apart by a mask of 13 bits, and of
/// 32.
#[test]
fn q01_doorbell_offsets_have_the_slot_in_their_lower_13_bits() {
    let rig = Rig::new(Profile::Mi210);
    let args = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    // allocate_doorbell: compute queues get the lowest free id, 8 bytes each.
    let created: Vec<CreateQueueArgs> = (0..4).map(|_| rig.create(&args).expect("create")).collect();
    let offsets: Vec<u64> = created.iter().map(|c| c.doorbell_offset & 0x1fff).collect();
    assert_eq!(offsets, [0, 8, 16, 24]);
    assert!(created.iter().all(|c| c.doorbell_offset & !0x1fff == created[0].doorbell_offset & !0x1fff));
    // The thunk of ROCm 5.2 takes 32 bits for the first queue of a node (`doorbells[NodeId].size - 1` before the size
    // is known).
    assert_eq!(created[0].doorbell_offset & 0xffff_ffff, 0);
    assert_eq!(created.iter().map(|c| c.queue_id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    rig.destroy(created[1].queue_id).expect("destroy");
    let again = rig.create(&args).expect("create");
    assert_eq!((again.queue_id, again.doorbell_offset & 0x1fff), (1, 8), "the lowest free ones");
}

/// Debian 12's thunk masks with 2^32 - 1 for the first queue of a process (case Q01).
#[test]
fn q01_doorbell_offsets_have_nothing_but_the_slot_in_their_lower_32_bits() {
    let rig = Rig::new(Profile::Mi210);
    let args = rig.compute(QueueType::COMPUTE_AQL, 4096).args;
    let offsets = [0, 8].map(|slot| (rig.create(&args).expect("create").doorbell_offset & 0xffff_ffff, slot));
    assert!(offsets.iter().all(|(low, slot)| low == slot), "{offsets:x?}");
}

#[test]
fn doorbell_pages_are_mapped_as_a_whole() {
    let rig = Rig::new(Profile::Mi210);
    let created = rig.create(&rig.compute(QueueType::COMPUTE_AQL, 4096).args).expect("create");
    let base = created.doorbell_offset & !0x1fff;
    let map = |offset, len| rig.program.process.mmap(rig.program.kfd, offset, len).map(|m| (m.offset, m.len));
    // kfd_doorbell_mmap
    assert_eq!(map(base, 4096).unwrap_err(), Errno::EINVAL);
    assert_eq!(map(base, 16384).unwrap_err(), Errno::EINVAL);
    let encoded = MmapOffset::new(MmapType::DOORBELL, rig.program.gpu()).0;
    assert_eq!(map(encoded, 8192), map(base, 8192), "the kernel's own form of the offset");
    // kfd_mmap: kfd_device_by_id finds nothing.
    assert_eq!(map(MmapOffset::new(MmapType::DOORBELL, 1).0, 8192).unwrap_err(), Errno::ENODEV);
}

#[test]
fn sizes_of_the_node_are_those_that_queues_must_have() {
    // kfd_queue_ctx_save_restore_size for gfx90a with 104 CUs in 8 shader engines: 2,048 to 4,160 waves.
    let rig = Rig::new(Profile::Mi210);
    let sizes: topology::QueueSizes = rig.spec().queue_sizes;
    assert_eq!((sizes.ctl_stack % 4096, sizes.cwsr % 4096, sizes.eop_buffer), (0, 0, 4096));
    assert!(sizes.cwsr > sizes.ctl_stack && sizes.ctl_stack > 0);
}
