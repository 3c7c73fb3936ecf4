//! Execution of SDMA packets.

use zerocopy::IntoBytes;

use super::packet::{self, DecodeError, Format, Packet, Poll, Rect, Window};
use crate::engine::access::atomic;
use crate::engine::atomics::{Atomic, Function};
use crate::engine::bits::hex;
use crate::engine::context::{Cx, Exception, ExceptionKind, PACKET, Step, Stop};
use crate::engine::stream::Stream;
use crate::engine::transfer::{Transfer, cost};

/// Bits of the event id that a trap interrupt carries (`SOC15_INTSRC_SDMA_TRAP` in
/// `kfd_int_process_v9.c`).
const TRAP_ID_BITS: u32 = 28;

/// Most words of a WRITE_LINEAR that are moved in one step.
const WRITE_WORDS: usize = 1024;

/// Most rows of a sub-window copy in one step.
const ROWS: u64 = 256;

/// An SDMA engine's view of one queue.
#[derive(Debug)]
pub(in crate::engine) struct Machine {
    format: Format,
    buffer: Option<Stream>,
    pending: Option<Pending>,
    /// Difference between the clock and the queue's own timestamp (TIMESTAMP_SET).
    timestamp_offset: u64,
}

/// A packet that takes more than one step.
#[derive(Debug)]
enum Pending {
    Transfer(Transfer),
    Rect { rect: Box<Rect>, row: u64 },
    Write { dst: u64, words: u64 },
    Poll { poll: Poll, tries: u32 },
    Atomic { op: Atomic, addr: u64, src: u64, compare: u64 },
}

impl Machine {
    pub(in crate::engine) const fn new(format: Format) -> Self {
        Self { format, buffer: None, pending: None, timestamp_offset: 0 }
    }

    /// Whether packets are under way: a packet that takes its time, or an indirect buffer.
    pub(in crate::engine) fn busy(&self) -> bool {
        self.pending.is_some() || self.buffer.is_some()
    }

    /// One step: of the packet under way, else of the indirect buffer, else of the ring.
    pub(in crate::engine) fn step(&mut self, cx: Cx<'_>, ring: &mut Stream) -> Result<Step, Stop> {
        if let Some(pending) = self.pending.take() {
            return self.resume(cx, ring, pending);
        }
        if self.buffer.is_some_and(|buffer| buffer.available() == 0) {
            self.buffer = None;
        }
        let in_buffer = self.buffer.is_some();
        let stream = self.buffer.as_mut().unwrap_or(ring);
        match fetch(cx, self.format, stream, in_buffer)? {
            Some((packet, words)) => self.execute(cx, ring, packet, &words),
            None => Ok(Step::Idle),
        }
    }

    fn execute(
        &mut self,
        cx: Cx<'_>,
        ring: &mut Stream,
        packet: Packet,
        words: &[u32],
    ) -> Result<Step, Stop> {
        let pending = match packet {
            Packet::Nop { skip } => {
                self.buffer.as_mut().unwrap_or(ring).advance(u64::from(skip));
                return Ok(PACKET);
            }
            Packet::Copy { src, dst, dst2, len } => {
                Pending::Transfer(Transfer::Copy { src, dst, dst2, left: len })
            }
            Packet::Fill { dst, len, value } => Pending::Transfer(Transfer::Fill { dst, value, left: len }),
            Packet::CopyRect(rect) => Pending::Rect { rect, row: 0 },
            Packet::Write { dst, words } => Pending::Write { dst, words: u64::from(words) },
            Packet::Poll(poll) => Pending::Poll { poll, tries: 0 },
            Packet::Atomic { op, addr, src, compare, repeat } => {
                if repeat && op.function == Function::CompareSwap {
                    Pending::Atomic { op, addr, src, compare }
                } else {
                    atomic(cx.vm, op, addr, src, compare)?;
                    return Ok(PACKET);
                }
            }
            short => {
                self.execute_short(cx, ring, &short, words)?;
                return Ok(PACKET);
            }
        };
        self.resume(cx, ring, pending)
    }

    /// Packets that are done in one step.
    fn execute_short(
        &mut self,
        cx: Cx<'_>,
        ring: &mut Stream,
        packet: &Packet,
        words: &[u32],
    ) -> Result<(), Stop> {
        match *packet {
            Packet::IndirectBuffer { base, words: length } => {
                if self.buffer.is_some() {
                    let message = format!("an indirect buffer within another; packet {}", hex(words));
                    return Err(Exception { kind: ExceptionKind::Unsupported, message }.into());
                }
                self.buffer = Some(Stream::buffer(base, u64::from(length)));
            }
            Packet::Fence { addr, value } => cx.vm.write_u32(addr, value)?,
            Packet::Trap { context } => cx.interrupts.signal_event(context, TRAP_ID_BITS),
            Packet::ConditionalExecution { addr, reference, words } => {
                let skip = cx.vm.read_u32(addr)? != reference;
                if skip {
                    self.buffer.as_mut().unwrap_or(ring).advance(u64::from(words));
                }
            }
            Packet::SetTimestamp { value } => self.timestamp_offset = value.wrapping_sub(cx.clock.now()),
            Packet::GetTimestamp { addr, global } => {
                let offset = if global { 0 } else { self.timestamp_offset };
                cx.vm.write_u64(addr, cx.clock.now().wrapping_add(offset))?;
            }
            // Only the HDP flush and its like are written by queues; there is no HDP cache here.
            Packet::WriteRegister { register, value } => {
                log::debug!("SDMA wrote {value:#x} to register {register:#x}, which has no effect");
            }
            _ => {}
        }
        Ok(())
    }

    fn resume(&mut self, cx: Cx<'_>, ring: &mut Stream, mut pending: Pending) -> Result<Step, Stop> {
        let step = match &mut pending {
            Pending::Transfer(transfer) => transfer.step(cx)?,
            Pending::Rect { rect, row } => rect_step(cx, rect, row)?,
            Pending::Write { dst, words } => {
                let in_buffer = self.buffer.is_some();
                write_step(cx, self.buffer.as_mut().unwrap_or(ring), in_buffer, dst, words)?
            }
            Pending::Poll { poll, tries } => poll_step(cx, poll, tries)?,
            Pending::Atomic { op, addr, src, compare } => {
                let old = atomic(cx.vm, *op, *addr, *src, *compare)?;
                (old != *compare).then_some(Step::Waiting)
            }
        };
        match step {
            Some(step) => {
                self.pending = Some(pending);
                Ok(step)
            }
            None => Ok(PACKET),
        }
    }
}

/// Reads the packet at the position and moves behind it; `None` while a ring does not hold all of it.
fn fetch(
    cx: Cx<'_>,
    format: Format,
    stream: &mut Stream,
    in_buffer: bool,
) -> Result<Option<(Packet, Vec<u32>)>, Stop> {
    if stream.available() == 0 {
        return Ok(None);
    }
    let header = stream.first(cx.vm)?;
    let length = packet::length(header).map_err(|error| refuse(error, &[header]))?;
    if stream.available() < length as u64 {
        return if in_buffer { Err(cut_short(header)) } else { Ok(None) };
    }
    let mut words = vec![0; length];
    stream.peek(cx.vm, 0, &mut words)?;
    let packet = packet::decode(format, &words).map_err(|error| refuse(error, &words))?;
    stream.advance(length as u64);
    Ok(Some((packet, words)))
}

fn refuse(error: DecodeError, words: &[u32]) -> Stop {
    Exception { kind: ExceptionKind::Unsupported, message: format!("{error}; packet {}", hex(words)) }.into()
}

fn cut_short(header: u32) -> Stop {
    let message = format!("a packet reaches over the end of its indirect buffer: {header:08x}");
    Exception { kind: ExceptionKind::Unsupported, message }.into()
}

/// Moves the next words of a WRITE_LINEAR. `None` when all are written.
fn write_step(
    cx: Cx<'_>,
    stream: &mut Stream,
    in_buffer: bool,
    dst: &mut u64,
    words: &mut u64,
) -> Result<Option<Step>, Stop> {
    if *words == 0 {
        return Ok(None);
    }
    let there = (*words).min(stream.available()).min(WRITE_WORDS as u64);
    if there == 0 {
        return if in_buffer { Err(cut_short(0)) } else { Ok(Some(Step::Idle)) };
    }
    let mut data = [0u32; WRITE_WORDS];
    let count = usize::try_from(there).unwrap_or(WRITE_WORDS);
    let data = data.get_mut(..count).unwrap_or_default();
    stream.peek(cx.vm, 0, data)?;
    for word in data.iter_mut() {
        *word = word.to_le();
    }
    cx.vm.write(*dst, data.as_bytes())?;
    stream.advance(there);
    *dst = dst.wrapping_add(there * 4);
    *words -= there;
    Ok(Some(Step::Progress { cost: cost(there * 4) }))
}

/// Looks once. `None` when the value is there.
fn poll_step(cx: Cx<'_>, poll: &Poll, tries: &mut u32) -> Result<Option<Step>, Stop> {
    // An HDP flush is over at once. Registers read as zero.
    if poll.hdp_flush || poll.test.always() {
        return Ok(None);
    }
    let value = if poll.memory { cx.vm.read_u32(poll.addr & !3)? } else { 0 };
    if poll.test.holds(value) {
        return Ok(None);
    }
    *tries = tries.saturating_add(1);
    if poll.retries.is_some_and(|limit| *tries > limit) {
        let message = format!("POLL_REGMEM at {:#x} gave up after {tries} tries", poll.addr);
        return Err(Exception { kind: ExceptionKind::Unsupported, message }.into());
    }
    Ok(Some(Step::Waiting))
}

/// Copies the next rows of a sub-window. `None` when all are copied.
fn rect_step(cx: Cx<'_>, rect: &Rect, row: &mut u64) -> Result<Option<Step>, Stop> {
    let rows = rect.height * rect.depth;
    if *row >= rows {
        return Ok(None);
    }
    let bytes = rect.width << rect.element;
    let last = rows.min(*row + ROWS);
    let done = (last - *row) * bytes;
    while *row < last {
        let (y, z) = (*row % rect.height, *row / rect.height);
        let at = |window: &Window| {
            let elements = window.x + (window.y + y) * window.pitch + (window.z + z) * window.slice;
            window.base.wrapping_add(elements << rect.element)
        };
        cx.vm.copy(at(&rect.dst), at(&rect.src), bytes)?;
        *row += 1;
    }
    Ok(Some(Step::Progress { cost: cost(done) }))
}
