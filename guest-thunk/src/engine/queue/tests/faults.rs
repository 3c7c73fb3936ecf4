//! Calls of the device that fail in ways of their own: refused SVM, a queue that cannot be destroyed, a GPU that hangs.

use std::sync::{Arc, Mutex};

use protocol::Errno;
use protocol::hsakmt::{QueueType, Status};
use protocol::kfd::{Call, Ioctl};
use softgpu::Profile;

use super::super::super::{Options, rig};
use super::{Memory, PAGE, Program, wait_for, without_svm};
use crate::engine::testing::device::{self, Hooks, Record};
use crate::engine::testing::faults;

/// An ioctl, and what becomes of it.
type Planned = Mutex<Option<(Ioctl, Errno)>>;

/// Calls that do not go well.
#[derive(Default)]
struct Plan {
    /// This one is refused.
    refused: Planned,
    /// This one is carried out and fails nevertheless.
    after: Planned,
}

fn planned(planned: &Planned, nr: u32) -> Result<(), Errno> {
    match *planned.lock().unwrap() {
        Some((ioctl, errno)) if u32::from(ioctl.nr()) == nr => Err(errno),
        _ => Ok(()),
    }
}

impl Hooks for Arc<Plan> {
    fn ioctl(&self, nr: u32, _args: &mut [u8]) -> Option<Result<i32, Errno>> {
        planned(&self.refused, nr).err().map(Err)
    }

    fn done(&self, nr: u32, _args: &mut [u8], _call: &dyn Call) -> Result<(), Errno> {
        planned(&self.after, nr)
    }
}

/// Buffers and queues of the device.
fn alive(record: &Record) -> (i64, i64) {
    let alive = record.alive();
    (alive.buffers, alive.queues)
}

fn program(options: Options) -> (Program, Arc<Plan>, Arc<Record>) {
    let plan = Arc::new(Plan::default());
    let (device, record) = device::over(rig::device(Profile::Mi210), Arc::clone(&plan));
    (Program::with(&device, options), plan, record)
}

#[test]
fn a_save_area_is_shared_virtual_memory_or_a_buffer() {
    // The end-of-pipe buffer and the doorbells are buffers either way.
    for (options, buffers) in [(Options::default(), 2), (without_svm(), 3)] {
        let (program, _, record) = program(options);
        let (ring, descriptor) = (program.paged(PAGE), program.gtt());
        let before = alive(&record).0;
        let request = program.request(QueueType::COMPUTE_AQL, ring);
        let resource = program.try_create(&request, Some(descriptor)).expect("a queue");
        assert_eq!(alive(&record).0 - before, buffers);
        program.engine.destroy_queue(resource.queue_id).expect("a queue");
    }
}

#[test]
fn where_the_kernel_refuses_shared_virtual_memory_the_save_area_is_a_buffer() {
    let (program, plan, record) = program(Options::default());
    let before = alive(&record).0;
    *plan.refused.lock().unwrap() = Some((Ioctl::Svm, Errno::EPERM));
    let queue = program.aql_queue();
    // Ring and descriptor, too.
    assert_eq!(alive(&record).0 - before, 5);
    queue.barrier(0, program.paged(PAGE).address);
    wait_for(queue.read, 1);
    program.destroy(queue);
}

#[test]
fn a_queue_that_cannot_be_destroyed_is_one_still() {
    let (program, _, record) = program(Options::default());
    let queue = program.aql_queue();
    let before = alive(&record);
    faults::fail_at(0, Errno::EINVAL);
    assert_eq!(program.engine.destroy_queue(queue.id), Err(Status::Error));
    assert_eq!(alive(&record), before);
    let signals = program.paged(PAGE);
    queue.barrier(0, signals.address);
    wait_for(queue.read, 1);
    program.destroy(queue);
    assert_eq!(program.queue_count(), 0);
}

#[test]
fn a_queue_whose_gpu_hung_is_gone_and_its_memory_free() {
    let (program, plan, record) = program(Options::default());
    for errno in [Errno::ETIME, Errno::EIO] {
        let before = alive(&record);
        let queue = program.ring_queue(QueueType::SDMA);
        *plan.after.lock().unwrap() = Some((Ioctl::DestroyQueue, errno));
        assert_eq!(program.engine.destroy_queue(queue.id), Err(Status::Error), "{errno}");
        *plan.after.lock().unwrap() = None;
        assert_eq!(program.engine.destroy_queue(queue.id), Err(Status::InvalidParameter), "{errno}");
        program.free(queue.ring);
        program.engine.queues.close(&program.engine);
        assert_eq!(alive(&record), before, "{errno}");
    }
}

#[test]
fn what_fails_leaves_the_callers_resource_alone() {
    let (program, ..) = program(Options::default());
    let none = Memory { address: 0, size: PAGE };
    let mut resource = protocol::hsakmt::QueueResource { error_reason: 8, ..Default::default() };
    let before = resource;
    let request = program.request(QueueType::SDMA, none);
    assert_eq!(program.engine.create_queue(&request, &mut resource), Err(Status::Error));
    assert_eq!(resource, before);
}
