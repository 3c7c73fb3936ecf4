//! The guest's whole library and the host's worker process, joined without a VM: what a program in a guest does, with every
//! part but QEMU and the guest's kernel.

mod device;
mod program;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hsakmt::engine::event::SharedEvent;
use protocol::drm::info::InfoDevice;
use protocol::drm::query;
use protocol::hsakmt::{EventDescriptor, EventType, MemFlags, Status, SyncVar};

use zerocopy::IntoBytes as _;

use program::{DEADLINE, GPU, PAGE, Program, fill, wait_for, word, wrong};

const PROFILE: &str = "soft:mi210";

fn signal() -> EventDescriptor {
    EventDescriptor {
        event_type: EventType::SIGNAL,
        node_id: 0,
        sync_var: SyncVar { user_data: 0, sync_var_size: 8 },
    }
}

#[test]
fn the_topology_has_the_guests_processors_and_the_hosts_gpu() {
    let program = Program::new(PROFILE);
    let system = program.engine.acquire_system_properties().unwrap();
    assert_eq!({ system.num_nodes }, 2);
    let (cpu, gpu) =
        (program.engine.node_properties(0).unwrap(), program.engine.node_properties(GPU).unwrap());
    let online = std::thread::available_parallelism().unwrap().get();
    assert!({ cpu.num_cpu_cores } as usize >= online);
    assert_eq!(({ gpu.num_cpu_cores }, { gpu.num_f_compute_cores } > 0), (0, true));
    // What ROCr wants of libdrm: the rate of the GPU's clock.
    let minor = program.engine.render_minor(GPU).unwrap();
    let mut device = InfoDevice::default();
    program.engine.drm_info(minor, query::DEV_INFO, [0; 4], device.as_mut_bytes()).unwrap();
    assert!(device.gpu_counter_freq > 0 && device.device_id == u32::from(gpu.device_id));
    let memory = program.engine.node_memory_properties(0, 1).unwrap();
    assert_ne!({ memory[0].size_in_bytes }, 1 << 30, "not what the worker puts in its place");
}

#[test]
fn sdma_copies_between_guest_memory_and_vram() {
    const SIZE: u64 = 5 << 20;
    let program = Program::new(PROFILE);
    let (from, to, vram) = (program.system(SIZE), program.system(SIZE), program.vram(SIZE));
    fill(from, SIZE, 0x1234_5678_9abc_def0);
    let mut copier = program.copier();
    copier.copy(vram, from, SIZE);
    copier.copy(to, vram, SIZE);
    assert_eq!(wrong(to, SIZE, 0x1234_5678_9abc_def0), None);
    assert_eq!(wrong(from, SIZE, 0x1234_5678_9abc_def0), None);
    copier.destroy();
    for address in [from, to, vram] {
        program.free(address, SIZE);
    }
}

#[test]
fn memory_is_given_back() {
    let program = Program::new(PROFILE);
    let copier = program.copier();
    copier.destroy();
    // The page of doorbells stays.
    let before = program.device.blobs();
    let available = program.engine.available_memory(GPU).unwrap();
    for _ in 0..50 {
        let address = program.system(16 * PAGE);
        assert_eq!(word(address).load(Ordering::Relaxed), 0, "fresh memory");
        word(address).store(7, Ordering::Relaxed);
        program.free(address, 16 * PAGE);
    }
    let copier = program.copier();
    copier.destroy();
    program.wait_for_blobs(before);
    assert_eq!(program.engine.available_memory(GPU), Ok(available));
}

#[test]
fn memory_of_the_program_itself_is_refused_and_stays_as_it_is() {
    let program = Program::new(PROFILE);
    let mut own = vec![7_u8; 4 * PAGE as usize];
    let address = own.as_mut_ptr().expose_provenance() as u64;
    assert_eq!(program.engine.register_memory(address, 2 * PAGE), Err(Status::Error));
    assert!(own.iter().all(|&byte| byte == 7));
    // What the library allocated may be registered again.
    let shared = program.system(4 * PAGE);
    program.engine.register_memory_to_nodes(shared, 4 * PAGE, &[GPU]).unwrap();
    program.engine.deregister_memory(shared).unwrap();
    word(shared).store(1, Ordering::Relaxed);
    program.free(shared, 4 * PAGE);
}

#[test]
fn memory_that_only_the_host_could_show_is_refused() {
    let program = Program::new(PROFILE);
    let pinned = MemFlags::HOST_ACCESS | MemFlags::NON_PAGED;
    for (node, flags) in [(0, pinned), (GPU, pinned | MemFlags::GTT_ACCESS), (GPU, pinned)] {
        let refused = program.engine.alloc_memory(node, PAGE, 0, flags);
        assert!(refused.is_err(), "{node} {flags:?}");
    }
}

#[test]
fn events_wake_threads_in_any_order() {
    const THREADS: usize = 200;
    let program = Program::new(PROFILE);
    let events: Vec<SharedEvent> =
        (0..THREADS).map(|_| program.engine.create_event(&signal(), false, false).unwrap().into()).collect();
    let woken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for event in &events {
            let (engine, woken) = (&program.engine, &woken);
            scope.spawn(move || {
                engine.wait_on_event(event, 60_000, None).expect("somebody sets it");
                woken.fetch_add(1, Ordering::SeqCst);
            });
        }
        // Some wait already, some do not yet.
        std::thread::sleep(std::time::Duration::from_millis(50));
        for at in (0..THREADS).map(|at| at * 77 % THREADS) {
            program.engine.set_event(&events[at]).unwrap();
        }
    });
    assert_eq!(woken.load(Ordering::SeqCst), THREADS);
    for event in &events {
        program.engine.destroy_event(event).unwrap();
    }
}

#[test]
fn a_wait_that_ends_by_itself_says_so() {
    let program = Program::new(PROFILE);
    let event = program.engine.create_event(&signal(), false, false).unwrap().into();
    let start = Instant::now();
    assert_eq!(program.engine.wait_on_event(&event, 50, None), Err(Status::WaitTimeout));
    assert!(start.elapsed().as_millis() >= 50 && start.elapsed() < DEADLINE);
    program.engine.destroy_event(&event).unwrap();
}

#[test]
fn a_sleeping_wait_costs_other_calls_no_fence() {
    let program = Program::new(PROFILE);
    let event: SharedEvent = program.engine.create_event(&signal(), false, false).unwrap().into();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| program.engine.wait_on_event(&event, 60_000, None));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let before = program.device.fences();
        let start = Instant::now();
        for _ in 0..1000 {
            program.engine.clock_counters(GPU).unwrap();
        }
        let (fences, took) = (program.device.fences() - before, start.elapsed());
        println!("1000 calls in {took:?}, {fences} fences");
        assert!(!waiting.is_finished());
        program.engine.set_event(&event).unwrap();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_killed_worker_is_a_lost_device_within_a_second() {
    let program = Program::new(PROFILE);
    let event: SharedEvent = program.engine.create_event(&signal(), false, false).unwrap().into();
    let memory = program.system(PAGE);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| program.engine.wait_on_event(&event, u32::MAX, None));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let killed = Instant::now();
        program.device.kill_worker();
        assert!(waiting.join().unwrap().is_err());
        assert!(killed.elapsed().as_millis() < 1000, "{:?}", killed.elapsed());
    });
    assert!(program.engine.alloc_memory(0, PAGE, 0, MemFlags::HOST_ACCESS).is_err());
    // The program's memory is still its own.
    word(memory).store(5, Ordering::Relaxed);
    wait_for(memory, 5);
}

/// A forked child has a copy of this memory, and locks in it that nobody gives back.
#[test]
fn a_forked_child_is_refused_and_touches_nothing() {
    let program = Program::new(PROFILE);
    let event: SharedEvent = program.engine.create_event(&signal(), false, false).unwrap().into();
    let memory = program.system(PAGE);
    word(memory).store(3, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| program.engine.wait_on_event(&event, 60_000, None));
        std::thread::sleep(std::time::Duration::from_millis(100));
        // SAFETY: the child makes calls that take no lock of another thread, and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            let refused = program.engine.clock_counters(GPU).is_err()
                && program.engine.set_event(&event).is_err()
                && program.engine.wait_on_event(&event, 60_000, None).is_err();
            // SAFETY: ends the child without handlers that the test's program has for its own end.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = 0;
        // SAFETY: the status can be written.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        program.engine.set_event(&event).unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(word(memory).load(Ordering::Relaxed), 3);
}
