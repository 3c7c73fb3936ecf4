//! `hsaKmtCreateQueue` and `hsaKmtCreateQueueExt`.

use std::sync::Arc;

use protocol::Errno;
use protocol::hsakmt::{QueuePriority, QueueResource, QueueType, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::CreateQueueArgs;
use protocol::kfd::constants::QueueType as KernelType;

use super::super::topology::Node;
use super::super::{Engine, Result};
use super::control::End;
use super::doorbell;
use super::parts::{Buffer, Parts, Place};
use super::save_area::{Report, SaveArea};
use super::sizes::Sizes;
use super::table::Queue;

/// What a program wants of a new queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRequest {
    /// The GPU's node.
    pub node: u32,
    /// Packets and engine.
    pub queue_type: QueueType,
    /// Share in per cent; bits 8 to 15 choose the XCC of a PM4 queue.
    pub percentage: u32,
    /// How urgent it is.
    pub priority: QueuePriority,
    /// Copy engine of an `SDMA_BY_ENG_ID` queue, which `hsaKmtCreateQueue` has no argument for.
    pub sdma_engine: Option<u32>,
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring.
    pub ring_size: u64,
    /// Event that is set when the queue fails.
    pub event_id: Option<u32>,
}

/// What a queue's ring holds, and which engine reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pm4,
    Aql,
    Sdma,
    SdmaXgmi,
    SdmaEngine(u32),
}

impl Kind {
    fn of(request: &QueueRequest) -> Result<Self> {
        match (request.queue_type, request.sdma_engine) {
            (QueueType::COMPUTE, _) => Ok(Self::Pm4),
            (QueueType::SDMA, _) => Ok(Self::Sdma),
            (QueueType::SDMA_XGMI, _) => Ok(Self::SdmaXgmi),
            (QueueType::SDMA_BY_ENG_ID, Some(engine)) => Ok(Self::SdmaEngine(engine)),
            (QueueType::COMPUTE_AQL, _) => Ok(Self::Aql),
            (other, _) => {
                log::debug!("KFD has no queues of type {other:?}");
                Err(Status::InvalidParameter)
            }
        }
    }

    pub(super) fn is_compute(self) -> bool {
        matches!(self, Self::Pm4 | Self::Aql)
    }

    fn kernel_type(self) -> KernelType {
        match self {
            Self::Pm4 => KernelType::COMPUTE,
            Self::Aql => KernelType::COMPUTE_AQL,
            Self::Sdma => KernelType::SDMA,
            Self::SdmaXgmi => KernelType::SDMA_XGMI,
            Self::SdmaEngine(_) => KernelType::SDMA_BY_ENG_ID,
        }
    }

    fn sdma_engine(self) -> u32 {
        match self {
            Self::SdmaEngine(engine) => engine,
            _ => 0,
        }
    }
}

/// KFD's priority, 0 to 15, for the thunk's -3 to 3. Another one is `INVALID_PARAMETER`.
pub(super) fn kernel_priority(priority: QueuePriority) -> Result<u32> {
    match priority {
        QueuePriority::MINIMUM => Ok(0),
        QueuePriority::LOW => Ok(3),
        QueuePriority::BELOW_NORMAL => Ok(5),
        QueuePriority::NORMAL => Ok(7),
        QueuePriority::ABOVE_NORMAL => Ok(9),
        QueuePriority::HIGH => Ok(11),
        QueuePriority::MAXIMUM => Ok(15),
        other => {
            log::debug!("there is no queue priority {other:?}");
            Err(Status::InvalidParameter)
        }
    }
}

/// Bytes of a ring as KFD takes them.
pub(super) fn kernel_ring_size(size: u64) -> Result<u32> {
    u32::try_from(size).map_err(|_| {
        // AMD's library cuts the upper bits off and makes a queue of another size.
        log::debug!("a ring of {size:#x} bytes is larger than KFD can be told");
        Status::Error
    })
}

impl Engine {
    /// Makes a queue and says in `resource` where its doorbell is; queues but AQL ones get their read and write pointer
    /// from the library. `resource` is unchanged on errors.
    ///
    /// # Errors
    /// `ERROR` for `SDMA_BY_ENG_ID` without an engine, and where KFD refuses the ring, its size, pointers, percentage or
    /// one queue more; `INVALID_PARAMETER` for the priority or the type; `INVALID_NODE_UNIT` unless the node has a GPU;
    /// `NO_MEMORY`.
    pub fn create_queue(&self, request: &QueueRequest, resource: &mut QueueResource) -> Result<()> {
        if request.queue_type == QueueType::SDMA_BY_ENG_ID && request.sdma_engine.is_none() {
            log::debug!(
                "hsaKmtCreateQueue makes no queue on a chosen copy engine: hsaKmtCreateQueueExt does"
            );
            return Err(Status::Error);
        }
        let priority = kernel_priority(request.priority)?;
        let (snapshot, index) = self.gpu_node(request.node)?;
        let node = snapshot.nodes.get(index).ok_or(Status::InvalidNodeUnit)?;
        let kind = Kind::of(request)?;
        let ring_size = kernel_ring_size(request.ring_size)?;
        let mut draft = Draft::new(self);
        let place = Place { engine: self, snapshot: &snapshot, node, node_id: request.node };
        draft.allocate(place, kind, request, resource)?;
        let pointers = draft.parts.pointer_addresses();
        let (read_pointer, write_pointer) =
            pointers.unwrap_or((resource.queue_read_ptr, resource.queue_write_ptr));
        let mut args = CreateQueueArgs {
            ring_base_address: request.ring,
            ring_size,
            read_pointer_address: read_pointer,
            write_pointer_address: write_pointer,
            gpu_id: node.gpu_id,
            queue_type: kind.kernel_type().0,
            queue_percentage: request.percentage,
            queue_priority: priority,
            sdma_engine_id: kind.sdma_engine(),
            ..draft.buffers()
        };
        draft.create(place, &mut args)?;
        let spot = doorbell::Place::of(place.node.hardware, args.doorbell_offset, args.queue_id);
        let doorbell =
            self.queues.doorbells.take(self, request.node, node.gpu_id, spot).map_err(|status| {
                log::debug!("the doorbells of node {} cannot be mapped: {status}", request.node);
                Status::Error
            })?;
        let queue = Queue::new(node.gpu_id, args.queue_id, draft.finish(), compute_units(node));
        resource.queue_id = self.queues.table().insert(Arc::new(queue));
        resource.queue_doorbell = doorbell;
        (resource.queue_read_ptr, resource.queue_write_ptr) = (read_pointer, write_pointer);
        Ok(())
    }
}

/// CUs of all XCCs.
fn compute_units(node: &Node) -> u32 {
    let properties = &node.kfd.properties;
    properties.simd_count.checked_div(properties.simd_per_cu).unwrap_or(0)
}

/// A queue in the making. Dropped before it is finished, it gives everything back.
struct Draft<'a> {
    engine: &'a Engine,
    parts: Parts,
    kernel_id: Option<u32>,
}

impl<'a> Draft<'a> {
    fn new(engine: &'a Engine) -> Self {
        Self { engine, parts: Parts::default(), kernel_id: None }
    }

    /// The memory that a queue of this kind needs.
    fn allocate(
        &mut self,
        place: Place<'_>,
        kind: Kind,
        request: &QueueRequest,
        resource: &QueueResource,
    ) -> Result<()> {
        let sizes = Sizes::of(kind, place.node.hardware, &place.node.kfd.properties);
        if kind != Kind::Aql {
            self.parts.pointers = Some(Buffer::pointers(place)?);
        }
        if sizes.eop != 0 {
            self.parts.eop = Some(Buffer::eop(place, sizes.eop)?);
        }
        if let Some(save) = sizes.save {
            let report = Report { reason: resource.error_reason, event_id: request.event_id.unwrap_or(0) };
            self.parts.save_area = Some(SaveArea::new(place, save, report)?);
        }
        Ok(())
    }

    /// The arguments that name this memory.
    fn buffers(&self) -> CreateQueueArgs {
        let eop = self.parts.eop.as_ref().map_or((0, 0), |eop| (eop.address, eop.size));
        let save = self.parts.save_area.as_ref();
        CreateQueueArgs {
            eop_buffer_address: eop.0,
            eop_buffer_size: eop.1,
            ctx_save_restore_address: save.map_or(0, |save| save.address),
            ctx_save_restore_size: save.map_or(0, |save| save.sizes.area),
            ctl_stack_size: save.map_or(0, |save| save.sizes.ctl_stack),
            ..Default::default()
        }
    }

    fn create(&mut self, place: Place<'_>, args: &mut CreateQueueArgs) -> Result<()> {
        self.engine.channel.ioctl(Ioctl::CreateQueue, args).map_err(|errno| {
            let (node, gfx) = (place.node_id, place.node.hardware);
            log::debug!("KFD makes no queue on node {node} ({gfx}): {errno}, for {args:x?}");
            if errno == Errno::EPERM && gfx.has_mes() {
                log::warn!(
                    "the write pointer of a queue of {gfx} must lie in GTT memory of that GPU (AllocateGTTAccess), not in \
                     memory of the process"
                );
            }
            Status::Error
        })?;
        self.kernel_id = Some(args.queue_id);
        Ok(())
    }

    /// Leaves the memory to the queue.
    fn finish(mut self) -> Parts {
        self.kernel_id = None;
        std::mem::take(&mut self.parts)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.kernel_id
            && let End::Refused(errno) = self.engine.end_kernel_queue(id)
        {
            log::warn!("queue {id}, which is of no use, cannot be destroyed: {errno}; its memory stays");
            return;
        }
        self.parts.free(self.engine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_spread_over_kfds_sixteen() {
        let known: Vec<_> =
            (-3..=3).map(|priority| kernel_priority(QueuePriority(priority)).unwrap()).collect();
        assert_eq!(known, [0, 3, 5, 7, 9, 11, 15]);
        for wrong in [-4, 4, i64::MIN, i64::MAX, 1 << 32, 0xffff_ffff] {
            assert_eq!(kernel_priority(QueuePriority(wrong)), Err(Status::InvalidParameter), "{wrong}");
        }
    }

    #[test]
    fn types_without_a_kind_in_kfd_are_refused() {
        for wrong in [0, 3, 4, 7, 11, 14, 22, 23, u32::MAX] {
            let request = QueueRequest { queue_type: QueueType(wrong), ..Default::default() };
            assert_eq!(Kind::of(&request), Err(Status::InvalidParameter), "{wrong}");
        }
    }

    #[test]
    fn q13_a_ring_of_more_than_32_bits_is_refused_and_not_cut() {
        assert_eq!(kernel_ring_size(u64::from(u32::MAX)), Ok(u32::MAX));
        assert_eq!(kernel_ring_size(1 << 32), Err(Status::Error));
        assert_eq!(kernel_ring_size(1 << 40), Err(Status::Error));
    }
}
