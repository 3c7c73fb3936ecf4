//! A program that uses every function of the engine, and gives back all that it took.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};

use protocol::hsakmt::{
    EventDescriptor, EventType, GpuTileConfig, MemFlags, QueuePriority, QueueResource, QueueType,
    RegisterMemFlags, Status, SvmAttrType, SvmAttribute, SyncVar,
};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::walk::Walk;
use crate::engine::event::SharedEvent;
use crate::engine::queue::QueueRequest;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

/// The machine that the program runs on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Nodes, the first a CPU, all others GPUs.
    pub(super) nodes: u32,
    /// Whether the kernel passes buffers from process to process by handles (ROCm's).
    pub(super) handles: bool,
    /// Whether GPUs have copy queues for XGMI links and global wave sync.
    pub(super) gfx9: bool,
    /// How many kinds of queues are made: one in shared virtual memory takes the software GPU long.
    pub(super) queue_kinds: usize,
    /// An address that all GPUs reach and where nothing is, another one for each program that runs at a time.
    pub(super) free_address: u64,
}

impl Machine {
    fn gpus(self) -> Vec<u32> {
        (1..self.nodes).collect()
    }
}

/// Memory of the program itself, a mapping that lives as long as the engine: in one process the software GPU cannot tell
/// that shared virtual memory was unmapped if something else is mapped there by the time it looks.
pub(super) struct Own {
    start: *mut c_void,
    bytes: usize,
}

impl Own {
    pub(super) fn new() -> Self {
        let bytes = 8 * PAGE as usize;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) };
        Self { start: start.expect("memory"), bytes }
    }

    fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which no reference leads.
        unsafe { munmap(self.start, self.bytes) }.expect("it is mapped");
    }
}

/// All of it.
pub(super) fn whole(walk: &mut Walk<'_>, machine: Machine, own: &Own) {
    topology(walk, machine);
    events(walk);
    if let [gpu, ..] = machine.gpus()[..] {
        device(walk, gpu);
        allocation(walk, gpu, machine.free_address);
        scratch(walk, gpu);
        registration(walk, gpu, own.address() + 5);
        sharing(walk, gpu, machine);
        shared_virtual_memory(walk, gpu, own.address() + 4 * PAGE);
        queues(walk, gpu, machine);
    }
    walk.call("release_system_properties", |engine| engine.release_system_properties());
    walk.call("close", |engine| {
        engine.close();
        Ok(())
    });
}

fn topology(walk: &mut Walk<'_>, machine: Machine) {
    let system = walk.call("acquire_system_properties", |engine| engine.acquire_system_properties());
    assert_eq!({ system.num_nodes }, machine.nodes);
    for node in 0..machine.nodes {
        let properties = walk.call("node_properties", |engine| engine.node_properties(node));
        let (banks, caches, links) =
            (properties.num_memory_banks, properties.num_caches, properties.num_io_links);
        walk.call("node_memory_properties", |engine| engine.node_memory_properties(node, banks));
        walk.call("node_cache_properties", |engine| engine.node_cache_properties(node, 0, caches));
        walk.call("node_io_link_properties", |engine| engine.node_io_link_properties(node, links));
        walk.call("clock_counters", |engine| engine.clock_counters(node));
    }
    walk.call("check_runtime_debug_support", |engine| engine.check_runtime_debug_support());
    walk.call("runtime_enable", |engine| engine.runtime_enable(0, false));
    walk.call("runtime_disable", |engine| engine.runtime_disable());
    walk.refused("debug_register", Status::Error, |engine| engine.debug_register(0));
    walk.refused("debug_unregister", Status::Error, |engine| engine.debug_unregister(0));
    assert!(walk.call("version", |engine| Ok(engine.version())).kernel_interface_major_version == 1);
}

/// Calls for a GPU as a whole.
fn device(walk: &mut Walk<'_>, gpu: u32) {
    assert_eq!(walk.call("render_minor", |engine| engine.render_minor(gpu)), 128);
    walk.call("tile_config", |engine| engine.tile_config(gpu, &mut GpuTileConfig::default()));
    walk.call("set_trap_handler", |engine| engine.set_trap_handler(gpu, 0x10_0000, PAGE, 0, 0));
    walk.call("set_trap_handler", |engine| engine.set_trap_handler(gpu, 0, 0, 0, 0));
    walk.refused("set_memory_policy", Status::NotImplemented, |engine| {
        engine.set_memory_policy(gpu, 0, 0, 0, 0)
    });
    walk.call("available_memory", |engine| engine.available_memory(gpu));
    drop(walk.call("open_smi", |engine| engine.open_smi(gpu)));
}

/// Allocates, maps, asks, unmaps and frees memory of each kind.
fn allocation(walk: &mut Walk<'_>, gpu: u32, free_address: u64) {
    let (gtt, vram) = (MemFlags::HOST_ACCESS | MemFlags::NON_PAGED, MemFlags::NON_PAGED);
    let (cpu, ring) = (0, MemFlags::AQL_QUEUE_MEMORY);
    let kinds = [
        ("alloc_memory, paged", cpu, PAGE, MemFlags::HOST_ACCESS),
        ("alloc_memory, paged", cpu, HUGE, MemFlags::HOST_ACCESS | MemFlags::EXECUTE_ACCESS),
        ("alloc_memory, paged ring", cpu, PAGE, MemFlags::HOST_ACCESS | ring),
        ("alloc_memory, GTT", cpu, PAGE, gtt),
        ("alloc_memory, GTT of a GPU", gpu, PAGE, gtt | MemFlags::GTT_ACCESS),
        ("alloc_memory, GTT ring", cpu, PAGE, gtt | ring),
        ("alloc_memory, VRAM", gpu, HUGE, vram),
        ("alloc_memory, visible VRAM", gpu, PAGE, gtt | MemFlags::COARSE_GRAIN),
    ];
    for (name, node, size, flags) in kinds {
        let at = walk.call(name, |engine| engine.alloc_memory(node, size, 0, flags));
        walk.call("map_memory", |engine| engine.map_memory(at, size));
        walk.call("pointer_info", |engine| engine.pointer_info(at));
        walk.call("set_memory_user_data", |engine| engine.set_memory_user_data(at, 7));
        walk.call("map_memory_to_nodes", |engine| engine.map_memory_to_nodes(at, size, 0, &[gpu]));
        walk.call("unmap_memory", |engine| engine.unmap_memory(at));
        walk.call("map_memory_to_nodes", |engine| engine.map_memory_to_nodes(at, size, 0, &[gpu]));
        walk.call("unmap_memory", |engine| engine.unmap_memory(at));
        walk.call("free_memory", |engine| engine.free_memory(at, size));
    }
    let kinds = [
        ("alloc_memory, addresses", gpu, vram | MemFlags::ONLY_ADDRESS),
        ("alloc_memory, VRAM without addresses", gpu, vram | MemFlags::NO_ADDRESS),
        ("alloc_memory, GTT without addresses", cpu, vram | MemFlags::NO_ADDRESS),
    ];
    for (name, node, flags) in kinds {
        let at = walk.call(name, |engine| engine.alloc_memory(node, PAGE, 0, flags));
        walk.call("free_memory", |engine| engine.free_memory(at, PAGE));
    }
    let fixed = gtt | MemFlags::FIXED_ADDRESS;
    let at = walk.call("alloc_memory_at", |engine| engine.alloc_memory_at(cpu, PAGE, 0, fixed, free_address));
    walk.call("free_memory", |engine| engine.free_memory(at, PAGE));
}

fn scratch(walk: &mut Walk<'_>, gpu: u32) {
    let (piece, size) = (64 << 10, 1 << 20);
    let flags = MemFlags::NON_PAGED | MemFlags::SCRATCH;
    let at = walk.call("alloc_memory, scratch", |engine| engine.alloc_memory(gpu, size, 0, flags));
    for offset in [0, piece] {
        walk.call("map_memory, scratch", |engine| engine.map_memory(at + offset, piece));
    }
    walk.call("unmap_memory, scratch", |engine| engine.unmap_memory(at + piece));
    walk.call("free_memory, scratch", |engine| engine.free_memory(at, size));
}

fn registration(walk: &mut Walk<'_>, gpu: u32, at: u64) {
    let size = 2 * PAGE;
    for again in [false, true] {
        walk.call("register_memory", |engine| engine.register_memory(at, size));
        if again {
            walk.call("register_memory", |engine| engine.register_memory(at, size));
            walk.call("deregister_memory", |engine| engine.deregister_memory(at));
        }
        walk.call("map_memory, registered", |engine| engine.map_memory(at, size));
        walk.call("pointer_info", |engine| engine.pointer_info(at));
        walk.call("unmap_memory, registered", |engine| engine.unmap_memory(at));
        walk.call("deregister_memory", |engine| engine.deregister_memory(at));
    }
    walk.call("register_memory_to_nodes", |engine| engine.register_memory_to_nodes(at, size, &[gpu, gpu]));
    walk.call("map_memory_to_nodes, registered", |engine| engine.map_memory_to_nodes(at, size, 0, &[gpu]));
    // Mapped or not.
    walk.call("deregister_memory, mapped", |engine| engine.deregister_memory(at));
    walk.call("register_memory_with_flags", |engine| {
        engine.register_memory_with_flags(at, size, MemFlags::HOST_ACCESS)
    });
    walk.call("deregister_memory", |engine| engine.deregister_memory(at));

    let flags = MemFlags::HOST_ACCESS;
    let at = walk.call("alloc_memory, paged", |engine| engine.alloc_memory(0, PAGE, 0, flags));
    walk.call("register_memory_to_nodes, allocated", |engine| {
        engine.register_memory_to_nodes(at, PAGE, &[gpu])
    });
    walk.call("map_memory", |engine| engine.map_memory(at, PAGE));
    walk.call("unmap_memory", |engine| engine.unmap_memory(at));
    walk.call("deregister_memory, allocated", |engine| engine.deregister_memory(at));
    walk.call("free_memory", |engine| engine.free_memory(at, PAGE));
}

fn sharing(walk: &mut Walk<'_>, gpu: u32, machine: Machine) {
    let flags = MemFlags::HOST_ACCESS | MemFlags::NON_PAGED;
    let at = walk.call("alloc_memory, visible VRAM", |engine| engine.alloc_memory(gpu, PAGE, 0, flags));
    let (fd, _): (OwnedFd, u64) = walk.call("export_dmabuf", |engine| engine.export_dmabuf(at, PAGE));
    let number = u64::from(fd.as_raw_fd().unsigned_abs());
    let cases = [(&[gpu][..], 0), (&[], RegisterMemFlags::REQUIRES_VADDR.0), (&[], 0)];
    for (nodes, flags) in cases {
        let info = walk.call("register_graphics_handle_to_nodes", |engine| {
            engine.register_graphics_handle_to_nodes(number, nodes, flags)
        });
        walk.call("deregister_memory, imported", |engine| engine.deregister_memory(info.memory_address));
    }
    drop(fd);
    if machine.handles {
        let handle = walk.call("share_memory", |engine| engine.share_memory(at, PAGE));
        for nodes in [None, Some(&[gpu][..])] {
            let (other, size) =
                walk.call("register_shared_handle", |engine| engine.register_shared_handle(&handle, nodes));
            walk.call("map_memory", |engine| engine.map_memory(other, size));
            walk.call("deregister_memory, imported and mapped", |engine| engine.deregister_memory(other));
        }
    } else {
        walk.refused("share_memory", Status::Error, |engine| engine.share_memory(at, PAGE));
    }
    walk.call("free_memory", |engine| engine.free_memory(at, PAGE));
}

fn shared_virtual_memory(walk: &mut Walk<'_>, gpu: u32, at: u64) {
    let size = 4 * PAGE;
    let attribute = |kind: SvmAttrType, value| SvmAttribute { type_: kind.0, value };
    walk.call("svm_set_attributes", |engine| {
        engine.svm_set_attributes(at, size, &[attribute(SvmAttrType::ACCESS, gpu)])
    });
    walk.call("svm_get_attributes", |engine| {
        engine.svm_get_attributes(at, size, &mut [attribute(SvmAttrType::PREFERRED_LOC, 0)])
    });
    let mode = walk.call("xnack_mode", |engine| engine.xnack_mode());
    walk.call("set_xnack_mode", |engine| engine.set_xnack_mode(mode));
}

fn event(kind: EventType) -> EventDescriptor {
    let sync_var = SyncVar { user_data: 0, sync_var_size: 8 };
    EventDescriptor { event_type: kind, node_id: 0, sync_var }
}

fn events(walk: &mut Walk<'_>) {
    for kind in (0..=EventType::MEMORY.0).map(EventType) {
        let made = walk.call("create_event", |engine| engine.create_event(&event(kind), true, false));
        let made = SharedEvent::from(made);
        walk.call("query_event_state", |engine| engine.query_event_state(&made));
        walk.call("destroy_event", |engine| engine.destroy_event(&made));
    }
    // More than a wait has room for without an allocation.
    let signals: Vec<SharedEvent> = (0..20)
        .map(|_| {
            let descriptor = event(EventType::SIGNAL);
            walk.call("create_event, signaled", |engine| engine.create_event(&descriptor, true, true)).into()
        })
        .collect();
    let list: Vec<_> = signals.iter().map(Some).collect();
    walk.call("wait_on_events", |engine| engine.wait_on_events(&list, true, 60_000, None));
    let first = &signals[0];
    walk.call("reset_event", |engine| engine.reset_event(first));
    walk.call("set_event", |engine| engine.set_event(first));
    walk.call("wait_on_event", |engine| engine.wait_on_event(first, 60_000, Some(&mut 1)));
    for signal in &signals {
        walk.call("destroy_event", |engine| engine.destroy_event(signal));
    }
}

fn queues(walk: &mut Walk<'_>, gpu: u32, machine: Machine) {
    let kinds = [
        ("create_queue, AQL", QueueType::COMPUTE_AQL, true),
        ("create_queue, PM4", QueueType::COMPUTE, true),
        ("create_queue, SDMA", QueueType::SDMA, true),
        ("create_queue, XGMI", QueueType::SDMA_XGMI, machine.gfx9),
        ("create_queue, SDMA engine", QueueType::SDMA_BY_ENG_ID, true),
    ];
    for (name, queue_type, _) in kinds.into_iter().filter(|(.., there)| *there).take(machine.queue_kinds) {
        queue(walk, gpu, name, queue_type, machine);
    }
}

fn queue(walk: &mut Walk<'_>, gpu: u32, name: &'static str, queue_type: QueueType, machine: Machine) {
    let gtt = MemFlags::HOST_ACCESS | MemFlags::NON_PAGED | MemFlags::GTT_ACCESS;
    let mut memory = |node, flags| {
        let at = walk.call("alloc_memory, for a queue", |engine| engine.alloc_memory(node, PAGE, 0, flags));
        walk.call("map_memory_to_nodes", |engine| engine.map_memory_to_nodes(at, PAGE, 0, &[gpu]));
        at
    };
    let (ring, pointers) = (memory(0, MemFlags::HOST_ACCESS), memory(gpu, gtt));
    let sdma_engine = (queue_type == QueueType::SDMA_BY_ENG_ID).then_some(1);
    let request = QueueRequest {
        node: gpu,
        queue_type,
        percentage: 100,
        ring,
        ring_size: PAGE,
        sdma_engine,
        ..Default::default()
    };
    let made = walk.call(name, |engine| {
        let (queue_read_ptr, queue_write_ptr) = (pointers + 128, pointers + 56);
        let mut made = QueueResource { queue_read_ptr, queue_write_ptr, ..Default::default() };
        engine.create_queue(&request, &mut made).map(|()| made)
    });
    let id = made.queue_id;
    walk.call("kernel_queue_id", |engine| engine.kernel_queue_id(id));
    if matches!(queue_type, QueueType::COMPUTE_AQL | QueueType::COMPUTE) {
        let mask = [u32::MAX; 4];
        let address = mask.as_ptr().expose_provenance() as u64;
        walk.call("set_queue_cu_mask", |engine| engine.set_queue_cu_mask(id, address, 128));
        walk.call("update_queue", |engine| engine.update_queue(id, 0, QueuePriority(0), ring, PAGE));
        walk.call("queue_info", |engine| engine.queue_info(id));
        walk.call("update_queue", |engine| engine.update_queue(id, 100, QueuePriority(0), ring, PAGE));
    }
    if machine.gfx9 && queue_type == QueueType::COMPUTE_AQL {
        walk.call("alloc_queue_gws", |engine| engine.alloc_queue_gws(id, 64));
        walk.call("alloc_queue_gws", |engine| engine.alloc_queue_gws(id, 0));
    }
    walk.call("destroy_queue", |engine| engine.destroy_queue(id));
    for at in [ring, pointers] {
        walk.call("unmap_memory", |engine| engine.unmap_memory(at));
        walk.call("free_memory", |engine| engine.free_memory(at, PAGE));
    }
}
