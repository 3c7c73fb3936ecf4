//! Queues that are made and destroyed again and again leave the address space as it was (case Q03). Alone in its
//! process: other tests would change the address space meanwhile.

use std::fs;
use std::sync::Arc;

use hsakmt::engine::queue::QueueRequest;
use hsakmt::{Engine, Options};
use protocol::hsakmt::{MemFlags, QueueResource, QueueType};
use protocol::kfd::Kfd;
use softgpu::local_mem::LocalMem;
use softgpu::{BackingFiles, Config, Kernel, Profile, SoftGpu};

const PAGE: u64 = 4096;

fn engine(profile: Profile, options: Options) -> Engine {
    let machine = profile.machine(Kernel::Linux6_12);
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memory files");
    let device: Arc<dyn Kfd> =
        Arc::new(SoftGpu::new(Config { machine, backing }).expect("a built-in profile"));
    let engine = Engine::new(&device, Arc::new(LocalMem), options).expect("the software GPU opens");
    engine.acquire_system_properties().expect("a topology");
    engine
}

/// Pages of address space of this process, and mappings.
fn address_space() -> (u64, usize) {
    let text = fs::read_to_string("/proc/self/statm").expect("/proc/self/statm");
    let pages = text.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number of pages");
    (pages, fs::read_to_string("/proc/self/maps").expect("/proc/self/maps").lines().count())
}

fn gpu_memory(engine: &Engine, home: u32, gpu: u32, flags: MemFlags) -> u64 {
    let address = engine.alloc_memory(home, PAGE, 0, flags).expect("memory");
    engine.map_memory_to_nodes(address, PAGE, 0, &[gpu]).expect("mapped");
    address
}

/// Makes and destroys an AQL and an SDMA queue.
fn round(engine: &Engine, gpu: u32, ring: u64, pointers: u64) {
    for queue_type in [QueueType::COMPUTE_AQL, QueueType::SDMA] {
        let request = QueueRequest {
            node: gpu,
            queue_type,
            percentage: 100,
            ring,
            ring_size: PAGE,
            ..Default::default()
        };
        let mut resource = QueueResource {
            queue_read_ptr: pointers + 128,
            queue_write_ptr: pointers + 56,
            ..Default::default()
        };
        engine.create_queue(&request, &mut resource).expect("a queue");
        engine.destroy_queue(resource.queue_id).expect("a queue");
    }
}

#[test]
fn q03_a_thousand_queues_leave_no_address_space_behind() {
    // One XCC, and eight, of which each has its part in the save area; as a buffer and as shared virtual memory.
    let cases = [
        (Profile::Mi210, false, 1000),
        (Profile::Mi300x, false, 100),
        (Profile::Mi210, true, 300),
        (Profile::Mi300x, true, 100),
    ];
    for (profile, svm, rounds) in cases {
        let engine = engine(profile, Options { svm, ..Options::default() });
        let has_gpu = |&node: &u32| engine.clock_counters(node).expect("a node").gpu_clock_counter != 0;
        let gpu = (0..).find(has_gpu).expect("a GPU");
        let ring = gpu_memory(&engine, 0, gpu, MemFlags::HOST_ACCESS);
        let flags = MemFlags::HOST_ACCESS | MemFlags::NON_PAGED | MemFlags::GTT_ACCESS;
        let pointers = gpu_memory(&engine, gpu, gpu, flags);
        // What is made once, as the doorbells.
        for _ in 0..3 {
            round(&engine, gpu, ring, pointers);
        }
        let before = address_space();
        for _ in 0..rounds {
            round(&engine, gpu, ring, pointers);
        }
        assert_eq!(address_space(), before, "{profile:?}, SVM: {svm}");
    }
}
