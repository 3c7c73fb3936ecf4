//! Queues that stop, as the runtime sees it.

use std::sync::atomic::Ordering;

use protocol::kfd::Ioctl;
use protocol::kfd::args::{CreateEventArgs, RuntimeEnableArgs, WaitEventsArgs};
use protocol::kfd::constants::{AllocFlags, EventType, QueueType};
use protocol::kfd::types::{EventData, HsaMemoryExceptionData};
use zerocopy::{FromBytes, FromZeros};

use super::{RW, Rig, fence, wait};
use crate::profile::Profile;
use crate::server::memory::tests::Pages;

fn event(rig: &Rig, event_type: EventType) -> CreateEventArgs {
    let mut args = CreateEventArgs { event_type: event_type.0, ..Default::default() };
    if event_type == EventType::SIGNAL {
        args.event_page_offset = rig.gtt(32 << 10).handle;
    }
    rig.program.ioctl(Ioctl::CreateEvent, &mut args).expect("event");
    args
}

fn wait_for(rig: &Rig, event_id: u32) -> EventData {
    let mut data = EventData::new_zeroed();
    data.event_id = event_id;
    let events_ptr = std::ptr::from_mut(&mut data).expose_provenance() as u64;
    let mut args = WaitEventsArgs { events_ptr, num_events: 1, timeout: 20_000, ..Default::default() };
    rig.program.ioctl(Ioctl::WaitEvents, &mut args).expect("wait");
    assert_eq!(args.wait_result, 0, "KFD_IOC_WAIT_RESULT_COMPLETE");
    data
}

#[test]
fn a_kernel_dispatch_reaches_the_error_word_of_the_save_area_and_its_event() {
    let rig = Rig::new(Profile::Mi210);
    let error_event = event(&rig, EventType::SIGNAL);
    // Without it nobody is told (kfd_set_dbg_ev_from_interrupt).
    let mut runtime = RuntimeEnableArgs { mode_mask: 1, ..Default::default() };
    rig.program.ioctl(Ioctl::RuntimeEnable, &mut runtime).expect("no queue yet");
    let queue = rig.compute(QueueType::COMPUTE_AQL, 4096);
    // struct kfd_context_save_area_header: err_payload_addr at 24, err_event_id at 32, as the thunk fills them. The
    // word is in this program's memory, and the header too once the save area is at its own address.
    let word = Box::new(std::sync::atomic::AtomicU64::new(0));
    queue.save_area.u64(24).store(std::ptr::from_ref(&*word).expose_provenance() as u64, Ordering::Relaxed);
    queue.save_area.u64(32).store(u64::from(error_event.event_id), Ordering::Relaxed);
    let created = rig.create(&queue.args).expect("create");
    let mut packet = [0u32; 16];
    packet[0] = 2;
    queue.ring.words(4, &packet[1..]);
    queue.ring.words(0, &packet[..1]);
    rig.ring(&created, 0);
    wait_for(&rig, error_event.event_id);
    // A packet of no dimensions: EC_QUEUE_PACKET_DISPATCH_DIM_INVALID is 16; ROCr's AqlQueue::ExceptionHandler tests bit
    // code - 1.
    assert_eq!(word.load(Ordering::Acquire), 1 << 15);
}

/// The kernel takes the save area's address, and that of the error word in its header, as addresses of the program
/// (`send_exception_work_handler`: `get_user`, `put_user`). Here the program has other memory at the save area's
/// address than the GPU: what counts is the program's.
#[test]
fn the_save_area_is_read_at_the_programs_address_and_not_the_gpus() {
    let rig = Rig::new(Profile::Mi210);
    let error_event = event(&rig, EventType::SIGNAL);
    let mut runtime = RuntimeEnableArgs { mode_mask: 1, ..Default::default() };
    rig.program.ioctl(Ioctl::RuntimeEnable, &mut runtime).expect("no queue yet");
    let mut queue = rig.compute(QueueType::COMPUTE_AQL, 4096);
    // The same size again, on the GPU at an address where the program has pages of its own.
    let size = queue.save_area.mem.len() as u64;
    let pages = Pages::new(usize::try_from(size / 4096).expect("small"));
    let alias = rig.program.alloc(pages.addr(), size, AllocFlags::GTT | RW).expect("alloc");
    rig.program.map(alias.handle, &[rig.program.gpu()]).expect("map");
    queue.args.ctx_save_restore_address = pages.addr();
    let words = [0, 8].map(|_| Box::new(std::sync::atomic::AtomicU64::new(0)));
    let [on_gpu, in_program] = [0, 1].map(|n| std::ptr::from_ref(&*words[n]).expose_provenance() as u64);
    let vm = rig.machine.device().processes()[0].memory.vm(rig.program.gpu()).expect("acquired");
    vm.write_u64(pages.addr() + 24, on_gpu).expect("mapped");
    vm.write_u64(pages.addr() + 32, u64::from(error_event.event_id)).expect("mapped");
    pages.atomic(24).store(in_program, Ordering::Relaxed);
    pages.atomic(32).store(u64::from(error_event.event_id), Ordering::Relaxed);
    let created = rig.create(&queue.args).expect("create");
    queue.ring.words(0, &[2]);
    rig.ring(&created, 0);
    wait_for(&rig, error_event.event_id);
    let values = [0, 1].map(|n| words[n].load(Ordering::Acquire));
    assert_eq!(values, [0, 1 << 15], "EC_QUEUE_PACKET_DISPATCH_DIM_INVALID");
}

#[test]
fn a_fault_raises_the_memory_exception_with_its_address() {
    let rig = Rig::new(Profile::Mi210);
    let memory_event = event(&rig, EventType::MEMORY);
    let (bad, other) = (rig.sdma(QueueType::SDMA), rig.sdma(QueueType::SDMA));
    let created = rig.create(&bad.args).expect("create");
    let second = rig.create(&other.args).expect("create");
    bad.ring.words(0, &fence(0x1234_5000, 1));
    rig.ring(&created, 16);
    let data = wait_for(&rig, memory_event.event_id);
    let (memory, _) = HsaMemoryExceptionData::read_from_prefix(&data.body).expect("32 bytes");
    // kfd_signal_vm_fault_event: page address and GPU.
    assert_eq!((memory.va, memory.gpu_id), (0x1234_5000, rig.program.gpu()));
    // kfd_dqm_evict_pasid: no queue of the process runs on this GPU any more.
    let done = rig.gtt(4096);
    other.ring.words(0, &fence(done.va, 1));
    rig.ring(&second, 16);
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!(done.u64(0).load(Ordering::Acquire), 0);
    rig.destroy(created.queue_id).expect("destroy");
    rig.destroy(second.queue_id).expect("destroy");
}

#[test]
fn another_process_goes_on_after_a_fault() {
    let rig = Rig::new(Profile::Mi210);
    let queue = rig.sdma(QueueType::SDMA);
    let created = rig.create(&queue.args).expect("create");
    let memory_event = event(&rig, EventType::MEMORY);
    queue.ring.words(0, &fence(0x1000, 1));
    rig.ring(&created, 16);
    wait_for(&rig, memory_event.event_id);
    let second = Rig { program: rig.machine.running(2), machine: rig.machine, next_va: rig.next_va };
    let queue = second.sdma(QueueType::SDMA);
    let created = second.create(&queue.args).expect("create");
    let done = second.gtt(4096);
    queue.ring.words(0, &fence(done.va, 1));
    second.ring(&created, 16);
    wait("the fence", || done.u64(0).load(Ordering::Acquire) == 1);
}
