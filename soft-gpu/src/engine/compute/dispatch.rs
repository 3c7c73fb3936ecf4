//! A kernel dispatch under way.

use std::sync::Arc;
use std::time::Duration;

use super::descriptor::{self, Descriptor};
use super::floor::{Floor, Spare, Standing, Surroundings};
use super::helpers;
use super::launch::{Launch, QueueFacts, Scratch};
use crate::engine::GpuFault;
use crate::engine::aql::packet::KernelDispatch;
use crate::engine::context::{Cx, Exception, ExceptionKind, Step, Stop};
use crate::isa::Arch;
use crate::isa::exec::{CodeCache, MemFault, Trap, TrapAt};

/// Most lanes of a workgroup.
const MOST_LANES: u32 = 1024;
/// Bytes of LDS of a compute unit.
const LDS_SIZE: u32 = 64 << 10;
/// How long a step runs workgroups.
const STEP: Duration = Duration::from_micros(100);

/// Decoded code of a queue's GPU; `None` for GPUs whose instructions are not executed.
pub(in crate::engine) struct Processor {
    arch: Arch,
    code: Arc<CodeCache>,
    spare: Arc<Spare>,
}

impl std::fmt::Debug for Processor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processor").field("arch", &self.arch).finish_non_exhaustive()
    }
}

impl Processor {
    /// For a GPU by its `gfx_target_version`.
    pub(in crate::engine) fn of(gfx: u32) -> Option<Self> {
        let arch = match gfx {
            90_010 => Arch::Gfx90a,
            90_402 => Arch::Gfx942,
            _ => return None,
        };
        Some(Self { arch, code: Arc::new(CodeCache::new(arch)), spare: Arc::default() })
    }
}

/// A dispatch under way.
pub(in crate::engine) struct Dispatch {
    launch: Launch,
    /// `None` before the first step.
    floor: Option<Arc<Floor>>,
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch").field("launch", &self.launch).finish_non_exhaustive()
    }
}

fn refuse(kind: ExceptionKind, message: String) -> Stop {
    Exception { kind, message }.into()
}

impl Dispatch {
    /// Checks the packet and the kernel.
    pub(in crate::engine) fn new(
        cx: Cx<'_>,
        processor: &mut Processor,
        packet: KernelDispatch,
        facts: QueueFacts,
    ) -> Result<Self, Stop> {
        let lanes: u32 = packet.group.iter().product();
        if packet.group.contains(&0) || packet.grid.contains(&0) {
            return Err(refuse(
                ExceptionKind::DispatchDim,
                format!("a dispatch without work-items: {packet:?}"),
            ));
        }
        if lanes > MOST_LANES {
            return Err(refuse(
                ExceptionKind::GroupSize,
                format!("a workgroup of {lanes} work-items: {packet:?}"),
            ));
        }
        if packet.lds > LDS_SIZE {
            return Err(refuse(
                ExceptionKind::GroupSegment,
                format!("{} bytes of LDS: {packet:?}", packet.lds),
            ));
        }
        let descriptor = read_descriptor(cx, packet.kernel_object)?;
        processor.code.begin();
        Ok(Self { launch: Launch { arch: processor.arch, packet, descriptor, facts }, floor: None })
    }

    /// Bytes of private memory that a lane needs.
    pub(in crate::engine) fn private_size(&self) -> u32 {
        self.launch.private_size()
    }

    /// The runtime gave the queue other private memory before the first group was started.
    pub(in crate::engine) fn set_scratch(&mut self, scratch: Scratch) {
        self.launch.facts.scratch = scratch;
    }

    /// Whether the queue's private memory is enough for a group.
    pub(in crate::engine) fn has_scratch(&self) -> bool {
        self.launch.private_slots() != 0
    }

    /// Runs groups for a moment. What is not done then, helpers go on with.
    pub(in crate::engine) fn step(&mut self, cx: Cx<'_>, processor: &Processor) -> Result<Step, Stop> {
        let floor = self.floor.get_or_insert_with(|| {
            let with = Surroundings {
                vm: Arc::clone(cx.vm),
                code: Arc::clone(&processor.code),
                clock: cx.clock,
                spare: Arc::clone(&processor.spare),
            };
            Arc::new(Floor::new(self.launch, with))
        });
        match floor.run(STEP, cx.interrupts).map_err(|trap| stop(&trap))? {
            Standing::Done => return Ok(Step::Idle),
            Standing::HasWork => helpers::offer(floor),
            // Alone it would only move from one processor to the other.
            Standing::LastOne | Standing::WithHelpers => {}
        }
        Ok(Step::Progress { cost: u32::try_from(STEP.as_nanos()).unwrap_or(u32::MAX) })
    }

    /// Lets nothing of it run until the next step.
    pub(in crate::engine) fn pause(&self) {
        if let Some(floor) = &self.floor {
            floor.pause();
        }
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        self.pause();
    }
}

fn read_descriptor(cx: Cx<'_>, address: u64) -> Result<Descriptor, Stop> {
    let invalid =
        |why: String| refuse(ExceptionKind::DispatchCode, format!("kernel object {address:#x}: {why}"));
    let mut bytes = [0; descriptor::SIZE];
    if address == 0 || !address.is_multiple_of(64) {
        return Err(invalid("no kernel descriptor can be there".into()));
    }
    cx.vm.read(address, &mut bytes).map_err(|fault| invalid(fault.to_string()))?;
    let descriptor = Descriptor::decode(&bytes);
    if descriptor.is_wave32() {
        return Err(invalid("waves of 32 lanes do not exist on this GPU".into()));
    }
    Ok(descriptor)
}

/// What a queue tells when a wave stopped.
fn stop(at: &TrapAt) -> Stop {
    let kind = match &at.trap {
        Trap::Fault(MemFault { addr, write, not_present }) => {
            log::error!("a wave {at}");
            return Stop::Fault(GpuFault { va: *addr, write: *write, not_present: *not_present });
        }
        Trap::Illegal(_) | Trap::Unsupported { .. } => ExceptionKind::IllegalInstruction,
        Trap::Trap(_) => ExceptionKind::Trap,
    };
    refuse(kind, format!("a wave {at}"))
}
