//! DESTROY_QUEUE, UPDATE_QUEUE, SET_CU_MASK, GET_QUEUE_WAVE_STATE, ALLOC_QUEUE_GWS.

use protocol::Errno;
use protocol::kfd::args::{
    AllocQueueGwsArgs, DestroyQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs, UpdateQueueArgs,
};
use zerocopy::IntoBytes;

use super::create::aligned_ring;
use super::properties::{check_ring, check_share};
use super::{Queue, State};
use crate::server::dispatch::Cx;

/// Most CUs that a mask of SET_CU_MASK covers; further ones are ignored.
const MAX_CU_MASK_BITS: u32 = 1024;

/// `kfd_ioctl_destroy_queue`. When it returns, nothing of the queue runs.
pub(in crate::server) fn destroy(cx: &Cx<'_>, args: &mut DestroyQueueArgs) -> Result<(), Errno> {
    let queues = &cx.process.queues;
    queues.lock().remove(args.queue_id).ok_or(Errno::EINVAL)?;
    queues.sources().remove(&args.queue_id);
    cx.process.debug.forget_queue(args.queue_id);
    Ok(())
}

/// `kfd_ioctl_update_queue`. An address of zero makes the queue inactive, as a share of zero does.
pub(in crate::server) fn update(cx: &Cx<'_>, args: &mut UpdateQueueArgs) -> Result<(), Errno> {
    check_share(args.queue_percentage, args.queue_priority)?;
    check_ring(args.ring_base_address, &mut args.ring_size)?;
    let mut state = cx.process.queues.lock();
    let State { queues, gpus } = &mut *state;
    // pqm_update_queue_properties: EFAULT, where DESTROY_QUEUE has EINVAL.
    let queue = queues.get_mut(&args.queue_id).ok_or(Errno::EFAULT)?;
    let gpu_id = queue.gpu.spec.gpu_id;
    if args.ring_base_address != 0 {
        let size = u64::from(args.ring_size);
        let ring = cx.process.memory.acquire_queue_buffer(gpu_id, args.ring_base_address, size);
        queue.buffers.ring = ring.map_err(|_| Errno::EFAULT)?;
    }
    queue.properties.ring = args.ring_base_address;
    queue.properties.ring_size = args.ring_size;
    queue.properties.percentage = args.queue_percentage & 0xff;
    queue.properties.priority = args.queue_priority;
    let active = queue.properties.is_active();
    if let Some(gpu) = gpus.get(&gpu_id) {
        let ring = aligned_ring(args.ring_base_address);
        gpu.engine.update(args.queue_id, ring, u64::from(args.ring_size), active);
    }
    Ok(())
}

/// `kfd_ioctl_set_cu_mask`. Which CUs work makes no difference here; what may be asked for does.
pub(in crate::server) fn set_cu_mask(cx: &Cx<'_>, args: &mut SetCuMaskArgs) -> Result<(), Errno> {
    if !args.num_cu_mask.is_multiple_of(32) || args.num_cu_mask == 0 {
        return Err(Errno::EINVAL);
    }
    let count = args.num_cu_mask.min(MAX_CU_MASK_BITS);
    let mut mask = [0u32; MAX_CU_MASK_BITS as usize / 32];
    let words = mask.get_mut(..count as usize / 32).unwrap_or_default();
    cx.call.mem().read(args.cu_mask_ptr, words.as_mut_bytes())?;
    let state = cx.process.queues.lock();
    let queue = state.queues.get(&args.queue_id).ok_or(Errno::EFAULT)?;
    if queue.gpu.spec.gfx.major >= 10 && !only_whole_pairs(words) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// From gfx10 on two CUs form a work-group processor and are enabled together (`pqm_update_mqd`).
fn only_whole_pairs(mask: &[u32]) -> bool {
    mask.iter().all(|word| word & 0x5555_5555 == (word >> 1) & 0x5555_5555)
}

/// `kfd_ioctl_get_queue_wave_state`: of an inactive compute queue, whose waves lie in its save area. There are no
/// waves here, so both parts are empty.
pub(in crate::server) fn get_wave_state(cx: &Cx<'_>, args: &mut GetQueueWaveStateArgs) -> Result<(), Errno> {
    let state = cx.process.queues.lock();
    let queue = state.queues.get(&args.queue_id).ok_or(Errno::EFAULT)?;
    if !queue.properties.kind.is_compute() || state.is_active(queue) {
        return Err(Errno::EINVAL);
    }
    let (stack, area, xccs) = wave_state_layout(queue);
    drop(state);
    for xcc in 0..u64::from(xccs) {
        let address = args.ctl_stack_address.wrapping_add(u64::from(area) * xcc);
        // struct kfd_context_save_area_header: control stack and wave state, offset and size of each. The stack
        // grows down from its end, waves are stored behind it.
        cx.call.mem().write(address, [stack, 0, stack, 0].as_bytes())?;
    }
    args.ctl_stack_used_size = 0;
    args.save_area_used_size = 0;
    Ok(())
}

/// Control stack size, distance of the areas of two XCCs, number of XCCs that report.
fn wave_state_layout(queue: &Queue) -> (u32, u32, u32) {
    let spec = &queue.gpu.spec;
    // get_wave_state_v9_4_3 goes through the XCCs, the functions of the other chips know one.
    let multi = spec.gfx.major == 9 && spec.gfx.minor >= 4;
    let xccs = if multi { spec.shaders.xccs } else { 1 };
    (queue.properties.ctl_stack_size, queue.properties.save_area_size, xccs)
}

/// `kfd_ioctl_alloc_queue_gws` and `pqm_set_gws`: global wave synchronisation, for one queue of a process.
pub(in crate::server) fn alloc_gws(cx: &Cx<'_>, args: &mut AllocQueueGwsArgs) -> Result<(), Errno> {
    let mut state = cx.process.queues.lock();
    let State { queues, gpus } = &mut *state;
    let queue = queues.get_mut(&args.queue_id).ok_or(Errno::EINVAL)?;
    let available = queue.gpu.spec.features.gws;
    if available == 0 {
        return Err(Errno::ENODEV);
    }
    let gpu = gpus.get_mut(&queue.gpu.spec.gpu_id).ok_or(Errno::EINVAL)?;
    let wanted = args.num_gws != 0;
    args.first_gws = 0;
    match (wanted, gpu.gws) {
        (true, 0) => {}
        (true, _) => return Err(Errno::EBUSY),
        (false, 0) => return Err(Errno::EINVAL),
        (false, _) => {}
    }
    gpu.gws = if wanted { available } else { 0 };
    queue.has_gws = wanted;
    Ok(())
}

impl State {
    /// `q->properties.is_active`: what it is set to, and not taken off the GPU by a fault.
    fn is_active(&self, queue: &Queue) -> bool {
        let evicted = self.gpus.get(&queue.gpu.spec.gpu_id).is_some_and(|gpu| gpu.engine.evicted());
        queue.properties.is_active() && !evicted
    }
}
