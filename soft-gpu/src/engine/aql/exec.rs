//! Execution of AQL packets.

use std::sync::atomic::Ordering;

use super::packet::{self, Condition, DecodeError, INVALID_HEADER, KernelDispatch, Packet, SIZE, WORDS};
use super::signal::Signal;
use crate::engine::GpuFault;
use crate::engine::bits::hex;
use crate::engine::compute::{Dispatch, Processor, QueueFacts, Scratch};
use crate::engine::context::{Cx, Exception, ExceptionKind, PACKET, Step, Stop};
use crate::engine::pm4;
use crate::engine::stream::Stream;

// Byte offsets in amd_queue_t of amd_hsa_queue.h. The packet processor finds the structure through
// the field behind read_dispatch_id, which holds the offset of read_dispatch_id.
const READ_DISPATCH_ID: u64 = 128;
const READ_DISPATCH_ID_OFFSET_FIELD: u64 = 8;
const SCRATCH_RESOURCE_DESCRIPTOR: u64 = 144;
const SCRATCH_BACKING_MEMORY_BYTE_SIZE: u64 = 168;
const SCRATCH_WAVE64_LANE_BYTE_SIZE: u64 = 176;
const QUEUE_PROPERTIES: u64 = 180;
const QUEUE_INACTIVE_SIGNAL: u64 = 192;

/// `AMD_QUEUE_PROPERTIES_ENABLE_PROFILING`.
const ENABLE_PROFILING: u32 = 1 << 3;
/// `AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE`.
const USE_SCRATCH_ONCE: u32 = 1 << 4;

/// What the packet processor stores in the inactive signal to ask the runtime for private memory, and to give large
/// private memory back; it goes on when the runtime has stored 0.
const NEEDS_SCRATCH: i64 = 1;
const RETURNS_SCRATCH: i64 = 512;

/// The AQL packet processor of one queue.
#[derive(Debug)]
pub(in crate::engine) struct Machine {
    current: Option<Current>,
    pm4: pm4::exec::Machine,
    /// `None`: this GPU's instructions are not executed.
    processor: Option<Processor>,
}

/// The packet under way.
#[derive(Debug)]
struct Current {
    work: Work,
    completion_signal: u64,
    start: u64,
}

#[derive(Debug)]
enum Work {
    /// Waits for all of these.
    All([u64; 5]),
    /// Waits for one of these.
    Any([u64; 5]),
    Value {
        signal: u64,
        value: i64,
        mask: i64,
        condition: Condition,
    },
    /// The PM4 machine runs an indirect buffer.
    IndirectBuffer,
    Kernel(Box<Dispatch>),
    /// The runtime has been asked for private memory.
    Scratch(Box<Dispatch>),
    /// The kernel ended; the runtime has been told that its large private memory is free.
    ScratchReturned,
}

impl Machine {
    /// For a GPU by its `gfx_target_version`.
    pub(in crate::engine) fn new(gfx: u32) -> Self {
        Self { current: None, pm4: pm4::exec::Machine::default(), processor: Processor::of(gfx) }
    }

    /// Lets nothing run until the next step.
    pub(in crate::engine) fn pause(&self) {
        if let Some(Current { work: Work::Kernel(dispatch), .. }) = &self.current {
            dispatch.pause();
        }
    }

    /// One step of the packet at the position of `ring`, whose words are counted in the stream.
    /// `queue` is the address of `read_dispatch_id`.
    pub(in crate::engine) fn step(
        &mut self,
        cx: Cx<'_>,
        ring: &mut Stream,
        queue: u64,
    ) -> Result<Step, Stop> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => match self.launch(cx, ring, queue)? {
                Ok(current) => current,
                Err(step) => return Ok(step),
            },
        };
        if let Work::Kernel(_) | Work::Scratch(_) | Work::ScratchReturned = current.work {
            let (work, step) = self.kernel_step(cx, queue, current.work)?;
            current.work = work;
            if step != Step::Idle {
                self.current = Some(current);
                return Ok(step);
            }
            complete(cx, ring, queue, &current)?;
            return Ok(PACKET);
        }
        let step = match &mut current.work {
            Work::IndirectBuffer => self.pm4.step(cx, None).map_err(as_vendor_packet)?,
            barrier => {
                if passes(cx, barrier)? {
                    Step::Idle
                } else {
                    Step::Waiting
                }
            }
        };
        if step != Step::Idle {
            self.current = Some(current);
            return Ok(step);
        }
        complete(cx, ring, queue, &current)?;
        Ok(PACKET)
    }

    /// Begins the next packet. `Ok(Err(_))` if there is none.
    fn launch(&mut self, cx: Cx<'_>, ring: &Stream, queue: u64) -> Result<Result<Current, Step>, Stop> {
        if ring.available() < WORDS as u64 {
            return Ok(Err(Step::Idle));
        }
        // The header is stored last by whoever writes a packet; what is read after it is whole.
        let header = ring.first(cx.vm)?;
        if packet::is_invalid(header) {
            return Ok(Err(Step::Waiting));
        }
        std::sync::atomic::fence(Ordering::Acquire);
        let mut words = [0; WORDS];
        ring.peek(cx.vm, 0, &mut words)?;
        words[0] = header;
        let work = match packet::decode(&words).map_err(|error| refuse(error, &words))? {
            Packet::Invalid => return Ok(Err(Step::Waiting)),
            Packet::BarrierAnd { signals } => Work::All(signals),
            Packet::BarrierOr { signals } => Work::Any(signals),
            Packet::BarrierValue { signal, value, mask, condition } => {
                Work::Value { signal, value, mask, condition }
            }
            Packet::IndirectBuffer { base, words } => {
                self.pm4.start(base, words);
                Work::IndirectBuffer
            }
            Packet::KernelDispatch(packet) => self.start_kernel(cx, ring, queue, packet, &words)?,
        };
        let completion_signal = packet::completion_signal(&words);
        Ok(Ok(Current { work, completion_signal, start: cx.clock.now() }))
    }
}

impl Machine {
    fn start_kernel(
        &mut self,
        cx: Cx<'_>,
        ring: &Stream,
        queue: u64,
        packet: KernelDispatch,
        words: &[u32],
    ) -> Result<Work, Stop> {
        let Some(processor) = &mut self.processor else {
            let object = packet.kernel_object;
            let message = format!(
                "kernel dispatch of {object:#x}: instructions of this GPU are not executed; packet {}",
                hex(words)
            );
            return Err(Exception { kind: ExceptionKind::DispatchCode, message }.into());
        };
        let facts = QueueFacts {
            packet: ring.address(0),
            index: ring.at / WORDS as u64,
            queue: amd_queue(cx, queue).unwrap_or(0),
            scratch: scratch(cx, queue)?,
        };
        let dispatch = Box::new(Dispatch::new(cx, processor, packet, facts)?);
        if dispatch.has_scratch() {
            return Ok(Work::Kernel(dispatch));
        }
        ask_for_scratch(cx, queue, &dispatch)?;
        Ok(Work::Scratch(dispatch))
    }

    /// One step of a kernel, and what it does next. `Step::Idle`: it is done.
    fn kernel_step(&mut self, cx: Cx<'_>, queue: u64, work: Work) -> Result<(Work, Step), Stop> {
        match (work, &mut self.processor) {
            (Work::Kernel(mut dispatch), Some(processor)) => {
                let step = dispatch.step(cx, processor)?;
                if step == Step::Idle
                    && dispatch.private_size() != 0
                    && properties(cx, queue)? & USE_SCRATCH_ONCE != 0
                {
                    store_inactive_signal(cx, queue, RETURNS_SCRATCH)?;
                    return Ok((Work::ScratchReturned, Step::Waiting));
                }
                Ok((Work::Kernel(dispatch), step))
            }
            (Work::Scratch(mut dispatch), Some(_)) => {
                if inactive_signal(cx, queue)? != 0 {
                    return Ok((Work::Scratch(dispatch), Step::Waiting));
                }
                dispatch.set_scratch(scratch(cx, queue)?);
                if dispatch.has_scratch() {
                    return Ok((Work::Kernel(dispatch), PACKET));
                }
                ask_for_scratch(cx, queue, &dispatch)?;
                Ok((Work::Scratch(dispatch), Step::Waiting))
            }
            (Work::ScratchReturned, _) => {
                let step = if inactive_signal(cx, queue)? == 0 { Step::Idle } else { Step::Waiting };
                Ok((Work::ScratchReturned, step))
            }
            (work, _) => Ok((work, Step::Idle)),
        }
    }
}

/// Private memory of the queue; none if there is no `amd_queue_t`.
fn scratch(cx: Cx<'_>, queue: u64) -> Result<Scratch, GpuFault> {
    let Some(base) = amd_queue(cx, queue) else { return Ok(Scratch::default()) };
    let mut descriptor = [0; 4];
    for (at, word) in (0..).zip(&mut descriptor) {
        *word = cx.vm.read_u32(base.wrapping_add(SCRATCH_RESOURCE_DESCRIPTOR + 4 * at))?;
    }
    Ok(Scratch {
        descriptor,
        lane_size: cx.vm.read_u32(base.wrapping_add(SCRATCH_WAVE64_LANE_BYTE_SIZE))?,
        size: cx.vm.read_u64(base.wrapping_add(SCRATCH_BACKING_MEMORY_BYTE_SIZE))?,
    })
}

/// Asks the runtime for private memory, if there is one that listens.
fn ask_for_scratch(cx: Cx<'_>, queue: u64, dispatch: &Dispatch) -> Result<(), Stop> {
    let has_signal = match amd_queue(cx, queue) {
        Some(base) => cx.vm.read_u64(base.wrapping_add(QUEUE_INACTIVE_SIGNAL))? != 0,
        None => false,
    };
    if !has_signal {
        let message = format!(
            "a kernel needs {} bytes of private memory, and the queue has none",
            dispatch.private_size()
        );
        return Err(Exception { kind: ExceptionKind::DispatchCode, message }.into());
    }
    Ok(store_inactive_signal(cx, queue, NEEDS_SCRATCH)?)
}

fn inactive_signal(cx: Cx<'_>, queue: u64) -> Result<i64, GpuFault> {
    let Some(base) = amd_queue(cx, queue) else { return Ok(0) };
    match cx.vm.read_u64(base.wrapping_add(QUEUE_INACTIVE_SIGNAL))? {
        0 => Ok(0),
        signal => Signal(signal).load(cx),
    }
}

/// PM4 packets of an AQL queue stand in vendor-specific packets.
fn as_vendor_packet(stop: Stop) -> Stop {
    match stop {
        Stop::Exception(Exception { kind: ExceptionKind::Unsupported, message }) => {
            Exception { kind: ExceptionKind::VendorUnsupported, message }.into()
        }
        other => other,
    }
}

fn refuse(error: DecodeError, words: &[u32]) -> Stop {
    let kind = match error {
        DecodeError::Type(_) | DecodeError::AgentDispatch => ExceptionKind::Unsupported,
        _ => ExceptionKind::VendorUnsupported,
    };
    Exception { kind, message: format!("{error}; packet {}", hex(words)) }.into()
}

/// Whether a barrier is passed. Signals that were seen at zero are not looked at again.
fn passes(cx: Cx<'_>, work: &mut Work) -> Result<bool, GpuFault> {
    match work {
        Work::All(signals) => {
            for signal in signals.iter_mut().filter(|signal| **signal != 0) {
                if Signal(*signal).load(cx)? != 0 {
                    return Ok(false);
                }
                *signal = 0;
            }
            Ok(true)
        }
        Work::Any(signals) => {
            for signal in signals.iter().filter(|signal| **signal != 0) {
                if Signal(*signal).load(cx)? == 0 {
                    return Ok(true);
                }
            }
            Ok(signals.iter().all(|signal| *signal == 0))
        }
        Work::Value { signal: 0, .. }
        | Work::IndirectBuffer
        | Work::Kernel(_)
        | Work::Scratch(_)
        | Work::ScratchReturned => Ok(true),
        Work::Value { signal, value, mask, condition } => {
            Ok(condition.holds(Signal(*signal).load(cx)? & *mask, *value))
        }
    }
}

/// Frees the packet's slot, moves the read index, and signals completion.
fn complete(cx: Cx<'_>, ring: &mut Stream, queue: u64, current: &Current) -> Result<(), GpuFault> {
    let slot = ring.address(0);
    cx.vm.write(slot, &INVALID_HEADER.to_le_bytes())?;
    ring.advance(WORDS as u64);
    std::sync::atomic::fence(Ordering::Release);
    cx.vm.write_u64(queue, ring.at / WORDS as u64)?;
    if current.completion_signal == 0 {
        return Ok(());
    }
    let signal = Signal(current.completion_signal);
    if properties(cx, queue)? & ENABLE_PROFILING != 0 {
        signal.set_times(cx, current.start, cx.clock.now())?;
    }
    std::sync::atomic::fence(Ordering::Release);
    signal.decrement(cx)
}

/// The address of `amd_queue_t`, if there is one around `read_dispatch_id`: users of the thunk alone
/// give a bare word as read pointer.
fn amd_queue(cx: Cx<'_>, queue: u64) -> Option<u64> {
    let offset = cx.vm.read_u32(queue.checked_add(READ_DISPATCH_ID_OFFSET_FIELD)?).ok()?;
    if u64::from(offset) != READ_DISPATCH_ID { None } else { queue.checked_sub(READ_DISPATCH_ID) }
}

fn properties(cx: Cx<'_>, queue: u64) -> Result<u32, GpuFault> {
    match amd_queue(cx, queue) {
        Some(base) => cx.vm.read_u32(base.wrapping_add(QUEUE_PROPERTIES)),
        None => Ok(0),
    }
}

/// Tells the runtime through the queue's inactive signal that the queue stopped.
pub(in crate::engine) fn store_inactive_signal(cx: Cx<'_>, queue: u64, value: i64) -> Result<(), GpuFault> {
    let Some(base) = amd_queue(cx, queue) else { return Ok(()) };
    match cx.vm.read_u64(base.wrapping_add(QUEUE_INACTIVE_SIGNAL))? {
        0 => Ok(()),
        signal => Signal(signal).store(cx, value),
    }
}

const _: () = assert!(SIZE == WORDS as u64 * 4);
