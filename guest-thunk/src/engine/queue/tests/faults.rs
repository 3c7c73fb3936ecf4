//! Calls of the device that fail at each point: nothing is left of a queue that was not made.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use protocol::Errno;
use protocol::hsakmt::{QueueType, Status};
use protocol::kfd::topology::Tree;
use protocol::kfd::{Call, Caller, FileId, Ioctl, Kfd, Mapping, Node, Process, Transfer};
use softgpu::Profile;

use super::super::super::{Options, rig};
use super::{Memory, PAGE, Program, wait_for, without_svm};

/// A device whose calls fail by plan, and which counts what is alive.
struct Faulty {
    inner: Arc<dyn Kfd>,
    plan: Arc<Plan>,
}

struct FaultyProcess {
    inner: Arc<dyn Process>,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan {
    /// Calls until one fails before it is carried out, counted down; then what it fails with.
    before: Mutex<Option<(u64, Errno)>>,
    /// This ioctl is refused.
    refused: Mutex<Option<(Ioctl, Errno)>>,
    /// This ioctl is carried out and fails nevertheless.
    after: Mutex<Option<(Ioctl, Errno)>>,
    calls: AtomicU64,
    buffers: AtomicI64,
    queues: AtomicI64,
}

impl Plan {
    fn alive(&self) -> (i64, i64) {
        (self.buffers.load(Ordering::SeqCst), self.queues.load(Ordering::SeqCst))
    }

    /// Whether the next call is to fail.
    fn next(&self) -> Result<(), Errno> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut before = self.before.lock().unwrap();
        match &mut *before {
            Some((0, errno)) => {
                let errno = *errno;
                *before = None;
                Err(errno)
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn count(&self, request: u32) {
        if request == Ioctl::AllocMemoryOfGpu.request() {
            self.buffers.fetch_add(1, Ordering::SeqCst);
        } else if request == Ioctl::FreeMemoryOfGpu.request() {
            self.buffers.fetch_sub(1, Ordering::SeqCst);
        } else if request == Ioctl::CreateQueue.request() {
            self.queues.fetch_add(1, Ordering::SeqCst);
        } else if request == Ioctl::DestroyQueue.request() {
            self.queues.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// By number alone: the size of the SVM call is that of its attributes.
fn fails(planned: &Mutex<Option<(Ioctl, Errno)>>, request: u32) -> Result<(), Errno> {
    match *planned.lock().unwrap() {
        Some((ioctl, errno)) if ioctl.request() & 0xffff == request & 0xffff => Err(errno),
        _ => Ok(()),
    }
}

impl Kfd for Faulty {
    fn topology(&self) -> Result<Tree, Errno> {
        self.inner.topology()
    }

    fn attach(&self, caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        let inner = self.inner.attach(caller)?;
        Ok(Arc::new(FaultyProcess { inner, plan: Arc::clone(&self.plan) }))
    }
}

impl Process for FaultyProcess {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        self.inner.open(node)
    }

    fn close(&self, file: FileId) {
        self.inner.close(file);
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.inner.transfer(file, request)
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        self.plan.next()?;
        fails(&self.plan.refused, request)?;
        let done = self.inner.ioctl(file, request, args, call)?;
        self.plan.count(request);
        fails(&self.plan.after, request)?;
        Ok(done)
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        self.plan.next()?;
        self.inner.mmap(file, offset, len)
    }
}

fn program(profile: Profile) -> (Program, Arc<Plan>) {
    program_with(profile, Options::default())
}

fn program_with(profile: Profile, options: Options) -> (Program, Arc<Plan>) {
    let plan = Arc::new(Plan::default());
    let device: Arc<dyn Kfd> = Arc::new(Faulty { inner: rig::device(profile), plan: Arc::clone(&plan) });
    (Program::with(&device, options), plan)
}

/// Makes a queue with each of its calls failing in turn, until it is made without meeting the failure.
fn every_call_fails_once(profile: Profile, options: Options, queue_type: QueueType) {
    let (program, plan) = program_with(profile, options);
    let (ring, descriptor) = (program.paged(PAGE), program.gtt());
    let request = program.request(queue_type, ring);
    let before = plan.alive();
    let mut failed = 0;
    for call in 0.. {
        // The doorbells of the queue that was made are not there for the next one.
        program.engine.queues.close(&program.engine);
        *plan.before.lock().unwrap() = Some((call, Errno::ENOMEM));
        let made = program.try_create(&request, Some(descriptor));
        let met = plan.before.lock().unwrap().take().is_none();
        if let Ok(resource) = made {
            program.engine.destroy_queue(resource.queue_id).expect("a queue");
            program.engine.queues.close(&program.engine);
        } else {
            failed += 1;
            assert!(matches!(made, Err(Status::NoMemory | Status::Error)), "call {call}: {made:?}");
        }
        assert_eq!(program.queue_count(), 0, "call {call}");
        assert_eq!(plan.alive(), before, "call {call}: buffers and queues");
        if !met {
            assert!(made.is_ok(), "nothing failed: {made:?}");
            break;
        }
    }
    assert!(failed >= 4, "only {failed} of the calls matter");
    program.free(ring);
    program.free(descriptor);
}

#[test]
fn a_failed_call_leaves_nothing_of_an_aql_queue() {
    every_call_fails_once(Profile::Mi210, Options::default(), QueueType::COMPUTE_AQL);
}

#[test]
fn a_failed_call_leaves_nothing_of_an_aql_queue_without_shared_virtual_memory() {
    every_call_fails_once(Profile::Mi210, without_svm(), QueueType::COMPUTE_AQL);
}

#[test]
fn a_save_area_is_shared_virtual_memory_or_a_buffer() {
    // The end-of-pipe buffer and the doorbells are buffers either way.
    for (options, buffers) in [(Options::default(), 2), (without_svm(), 3)] {
        let (program, plan) = program_with(Profile::Mi210, options);
        let (ring, descriptor) = (program.paged(PAGE), program.gtt());
        let before = plan.alive().0;
        let request = program.request(QueueType::COMPUTE_AQL, ring);
        let resource = program.try_create(&request, Some(descriptor)).expect("a queue");
        assert_eq!(plan.alive().0 - before, buffers);
        program.engine.destroy_queue(resource.queue_id).expect("a queue");
    }
}

#[test]
fn where_the_kernel_refuses_shared_virtual_memory_the_save_area_is_a_buffer() {
    let (program, plan) = program(Profile::Mi210);
    let before = plan.alive().0;
    *plan.refused.lock().unwrap() = Some((Ioctl::Svm, Errno::EPERM));
    let queue = program.aql_queue();
    // Ring and descriptor, too.
    assert_eq!(plan.alive().0 - before, 5);
    queue.barrier(0, program.paged(PAGE).address);
    wait_for(queue.read, 1);
    program.destroy(queue);
}

#[test]
fn a_failed_call_leaves_nothing_of_a_pm4_queue_with_mes() {
    every_call_fails_once(Profile::Rx7900xtx, Options::default(), QueueType::COMPUTE);
}

#[test]
fn a_failed_call_leaves_nothing_of_an_sdma_queue() {
    every_call_fails_once(Profile::Mi210, Options::default(), QueueType::SDMA);
}

#[test]
fn a_queue_that_cannot_be_destroyed_is_one_still() {
    let (program, plan) = program(Profile::Mi210);
    let queue = program.aql_queue();
    let alive = plan.alive();
    *plan.before.lock().unwrap() = Some((0, Errno::EINVAL));
    assert_eq!(program.engine.destroy_queue(queue.id), Err(Status::Error));
    assert_eq!(plan.alive(), alive);
    let signals = program.paged(PAGE);
    queue.barrier(0, signals.address);
    wait_for(queue.read, 1);
    program.destroy(queue);
    assert_eq!(program.queue_count(), 0);
}

#[test]
fn a_queue_whose_gpu_hung_is_gone_and_its_memory_free() {
    let (program, plan) = program(Profile::Mi210);
    for errno in [Errno::ETIME, Errno::EIO] {
        let before = plan.alive();
        let queue = program.ring_queue(QueueType::SDMA);
        *plan.after.lock().unwrap() = Some((Ioctl::DestroyQueue, errno));
        assert_eq!(program.engine.destroy_queue(queue.id), Err(Status::Error), "{errno}");
        *plan.after.lock().unwrap() = None;
        assert_eq!(program.engine.destroy_queue(queue.id), Err(Status::InvalidParameter), "{errno}");
        program.free(queue.ring);
        program.engine.queues.close(&program.engine);
        assert_eq!(plan.alive(), before, "{errno}");
    }
}

#[test]
fn what_fails_leaves_the_callers_resource_alone() {
    let (program, _) = program(Profile::Mi210);
    let none = Memory { address: 0, size: PAGE };
    let mut resource = protocol::hsakmt::QueueResource { error_reason: 8, ..Default::default() };
    let before = resource;
    let request = program.request(QueueType::SDMA, none);
    assert_eq!(program.engine.create_queue(&request, &mut resource), Err(Status::Error));
    assert_eq!(resource, before);
}
