//! Queues, trap handlers, tiling.

use hsakmt::engine::event::SharedEvent;
use hsakmt::engine::queue::QueueRequest;
use protocol::hsakmt::{GpuTileConfig, QueueInfo, QueuePriority, QueueResource, QueueType};

use crate::ffi::{Out, Shared, Struct};
use crate::guard::entry;
use crate::library;

entry! {
    /// Creates a queue; the SDMA engine, if it is one for SDMA, is the kernel's choice.
    fn hsaKmtCreateQueue(
        node: u32,
        queue_type: QueueType,
        percentage: u32,
        priority: QueuePriority,
        ring: u64,
        ring_size: u64,
        event: Shared<SharedEvent>,
        resource: Struct<QueueResource>,
    ) {
        let (sdma_engine, event_id) = (None, id(event));
        create(
            &QueueRequest { node, queue_type, percentage, priority, sdma_engine, ring, ring_size, event_id },
            resource,
        )
    }

    /// Creates a queue on a given SDMA engine.
    fn hsaKmtCreateQueueExt(
        node: u32,
        queue_type: QueueType,
        percentage: u32,
        priority: QueuePriority,
        sdma_engine: u32,
        ring: u64,
        ring_size: u64,
        event: Shared<SharedEvent>,
        resource: Struct<QueueResource>,
    ) {
        let (sdma_engine, event_id) = (Some(sdma_engine), id(event));
        create(
            &QueueRequest { node, queue_type, percentage, priority, sdma_engine, ring, ring_size, event_id },
            resource,
        )
    }

    /// Changes ring, share and priority of a queue.
    fn hsaKmtUpdateQueue(
        queue: u64,
        percentage: u32,
        priority: QueuePriority,
        address: u64,
        size: u64,
        _event: Shared<SharedEvent>,
    ) {
        library::engine()?.update_queue(queue, percentage, priority, address, size)
    }

    /// Destroys a queue.
    fn hsaKmtDestroyQueue(queue: u64) {
        library::engine()?.destroy_queue(queue)
    }

    /// Restricts a queue to some compute units. `bits` is the length of the mask.
    fn hsaKmtSetQueueCUMask(queue: u64, bits: u32, mask: u64) {
        library::engine()?.set_queue_cu_mask(queue, mask, bits)
    }

    /// Saved state of a queue.
    fn hsaKmtGetQueueInfo(queue: u64, info: Struct<QueueInfo>) {
        let engine = library::engine()?;
        let info = info.required()?;
        info.set(&engine.queue_info(queue)?);
        Ok(())
    }

    /// The kernel's id of a queue.
    fn hsaKmtGetKernelQueueId(queue: u64, id: Out<u32>) {
        let engine = library::engine()?;
        let id = id.required()?;
        id.set(engine.kernel_queue_id(queue)?);
        Ok(())
    }

    /// Gives a queue global wave sync resources.
    fn hsaKmtAllocQueueGWS(queue: u64, count: u32, first: Out<u32>) {
        let granted = library::engine()?.alloc_queue_gws(queue, count)?;
        first.set(granted);
        Ok(())
    }

    /// The trap handler of the process on a GPU.
    fn hsaKmtSetTrapHandler(node: u32, handler: u64, handler_size: u64, buffer: u64, buffer_size: u64) {
        library::engine()?.set_trap_handler(node, handler, handler_size, buffer, buffer_size)
    }

    /// Tiling registers of a GPU.
    fn hsaKmtGetTileConfig(node: u32, config: Struct<GpuTileConfig>) {
        let engine = library::engine()?;
        let config = config.required()?;
        let mut filled = config.get()?;
        engine.tile_config(node, &mut filled)?;
        config.set(&filled);
        Ok(())
    }
}

/// The event's id, or none for NULL.
fn id(event: Shared<SharedEvent>) -> Option<u32> {
    event.get().map(SharedEvent::id)
}

fn create(request: &QueueRequest, resource: Struct<QueueResource>) -> hsakmt::Result<()> {
    let engine = library::engine()?;
    let resource = resource.required()?;
    // Addresses of the pointers of AQL queues are passed in here.
    let mut filled = resource.get()?;
    engine.create_queue(request, &mut filled)?;
    resource.set(&filled);
    Ok(())
}
