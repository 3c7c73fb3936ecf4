//! Execution of PM4 packets.

use std::collections::HashMap;

use zerocopy::IntoBytes;

use super::packet::{self, DecodeError, DmaSource, Packet, Place, ReleaseData, Source};
use crate::engine::access::atomic;
use crate::engine::aql::signal::END_OF_PIPE_ID_BITS;
use crate::engine::atomics::{Atomic, Function};
use crate::engine::bits::hex;
use crate::engine::compare::Test;
use crate::engine::context::{Cx, Exception, ExceptionKind, PACKET, Step, Stop};
use crate::engine::stream::Stream;
use crate::engine::transfer::Transfer;

/// Deepest nesting of indirect buffers: one in the ring, one in that (chaining replaces the inner).
const MAX_DEPTH: usize = 2;

/// Bits of a register number.
const REGISTER_MASK: u32 = 0x3_ffff;

/// A PM4 processor: what it is doing, and the registers that packets wrote.
///
/// The registers have no effect: they configure dispatches, which this engine refuses.
#[derive(Debug, Default)]
pub(in crate::engine) struct Machine {
    buffers: Vec<Stream>,
    pending: Option<Pending>,
    registers: HashMap<u32, u32>,
    /// What the last ATOMIC_MEM returned.
    returned: u64,
    /// Words of the ring that conditional execution skips.
    skip_ring: u64,
}

/// A packet that takes more than one step.
#[derive(Debug)]
enum Pending {
    Wait { at: Place, test: Test },
    Transfer(Transfer),
    Atomic { op: Atomic, addr: u64, src: u64, compare: u64 },
}

impl Machine {
    /// Whether packets are under way: a packet that waits, or an indirect buffer.
    pub(in crate::engine) fn busy(&self) -> bool {
        self.pending.is_some() || !self.buffers.is_empty()
    }

    /// Starts an indirect buffer, as if a packet of the ring had named it.
    pub(in crate::engine) fn start(&mut self, base: u64, words: u32) {
        self.buffers.push(Stream::buffer(base, u64::from(words)));
    }

    /// One step: of the packet under way, else of the innermost buffer, else of the ring.
    pub(in crate::engine) fn step(&mut self, cx: Cx<'_>, ring: Option<&mut Stream>) -> Result<Step, Stop> {
        if let Some(pending) = self.pending.take() {
            return self.resume(cx, pending);
        }
        while self.buffers.last().is_some_and(|buffer| buffer.available() == 0) {
            self.buffers.pop();
        }
        let in_buffer = !self.buffers.is_empty();
        let fetched = match (self.buffers.last_mut(), ring) {
            (Some(buffer), _) => fetch(cx, buffer, in_buffer)?,
            (None, Some(ring)) => {
                ring.advance(std::mem::take(&mut self.skip_ring));
                fetch(cx, ring, in_buffer)?
            }
            (None, None) => None,
        };
        match fetched {
            Some((packet, words)) => self.execute(cx, packet, &words),
            None => Ok(Step::Idle),
        }
    }

    fn resume(&mut self, cx: Cx<'_>, mut pending: Pending) -> Result<Step, Stop> {
        let step = match &mut pending {
            Pending::Wait { at, test } => {
                if test.holds(self.load(cx, *at)?) {
                    return Ok(PACKET);
                }
                Step::Waiting
            }
            Pending::Transfer(transfer) => match transfer.step(cx)? {
                None => return Ok(PACKET),
                Some(step) => step,
            },
            Pending::Atomic { op, addr, src, compare } => {
                self.returned = atomic(cx.vm, *op, *addr, *src, *compare)?;
                if self.returned == *compare {
                    return Ok(PACKET);
                }
                Step::Waiting
            }
        };
        self.pending = Some(pending);
        Ok(step)
    }

    fn execute(&mut self, cx: Cx<'_>, packet: Packet, words: &[u32]) -> Result<Step, Stop> {
        match packet {
            Packet::Nothing => {}
            Packet::WriteData { to, increment, data } => self.write_data(cx, to, increment, &data)?,
            Packet::CopyData { from, to, wide } => self.copy_data(cx, from, to, wide)?,
            Packet::ReleaseMem { addr, data, interrupt } => {
                release_mem(cx, addr, data)?;
                if let Some(context) = interrupt {
                    cx.interrupts.signal_event(context, END_OF_PIPE_ID_BITS);
                }
            }
            Packet::Wait { at, test } => return self.resume(cx, Pending::Wait { at, test }),
            Packet::WriteThenWait { register, value, at, test } => {
                self.store_register(register, value);
                return self.resume(cx, Pending::Wait { at, test });
            }
            Packet::IndirectBuffer { base, words: length, chain } => {
                self.indirect_buffer(base, length, chain, words)?;
            }
            Packet::SetRegisters { first, values } => {
                for (register, value) in (first..).zip(values) {
                    self.store_register(register, value);
                }
            }
            Packet::Atomic { op, addr, src, compare, repeat } => {
                if repeat && op.function == Function::CompareSwap {
                    return self.resume(cx, Pending::Atomic { op, addr, src, compare });
                }
                self.returned = atomic(cx.vm, op, addr, src, compare)?;
            }
            Packet::DmaData { from, dst, len } => {
                let transfer = match from {
                    DmaSource::Memory(src) => Transfer::Copy { src, dst, dst2: None, left: len },
                    DmaSource::Data(value) => Transfer::Fill { dst, value, left: len },
                };
                return self.resume(cx, Pending::Transfer(transfer));
            }
            Packet::ConditionalExecution { addr, words } => {
                if cx.vm.read_u32(addr)? == 0 {
                    self.skip(words);
                }
            }
            // Work is never split over dies here: what runs is die 0.
            Packet::PredicatedExecution { dies, words } => {
                if dies & 1 == 0 {
                    self.skip(words);
                }
            }
            Packet::Dispatch { name } => {
                let message = format!("{name}: instructions are not executed; packet {}", hex(words));
                return Err(Exception { kind: ExceptionKind::DispatchCode, message }.into());
            }
        }
        Ok(PACKET)
    }

    /// Skips words of the stream that the current packet came from.
    fn skip(&mut self, words: u32) {
        match self.buffers.last_mut() {
            Some(buffer) => buffer.advance(u64::from(words)),
            None => self.skip_ring = u64::from(words),
        }
    }

    fn indirect_buffer(&mut self, base: u64, length: u32, chain: bool, words: &[u32]) -> Result<(), Stop> {
        // A chained buffer replaces the rest of the one that names it.
        if chain {
            self.buffers.pop();
        }
        if self.buffers.len() >= MAX_DEPTH {
            let message = format!("indirect buffers are nested too deeply; packet {}", hex(words));
            return Err(Exception { kind: ExceptionKind::Unsupported, message }.into());
        }
        self.start(base, length);
        Ok(())
    }

    fn write_data(&mut self, cx: Cx<'_>, to: Place, increment: bool, data: &[u32]) -> Result<(), Stop> {
        match to {
            Place::Memory(addr) if increment => {
                let data: Vec<u32> = data.iter().map(|word| word.to_le()).collect();
                cx.vm.write(addr, data.as_bytes())?;
            }
            Place::Memory(addr) => {
                for &word in data {
                    cx.vm.write_u32(addr, word)?;
                }
            }
            Place::Register(first) => {
                for (index, &word) in (0..).zip(data) {
                    self.store_register(if increment { first.wrapping_add(index) } else { first }, word);
                }
            }
        }
        Ok(())
    }

    fn copy_data(&mut self, cx: Cx<'_>, from: Source, to: Place, wide: bool) -> Result<(), Stop> {
        let value = match from {
            Source::Immediate(value) => value,
            Source::AtomicReturn => self.returned,
            Source::GpuClock => cx.clock.now(),
            Source::Place(Place::Memory(addr)) if wide => cx.vm.read_u64(addr)?,
            Source::Place(Place::Register(register)) if wide => {
                let high = self.register(register.wrapping_add(1));
                u64::from(self.register(register)) | u64::from(high) << 32
            }
            Source::Place(place) => u64::from(self.load(cx, place)?),
        };
        let [low, high] = [value & 0xffff_ffff, value >> 32].map(|half| u32::try_from(half).unwrap_or(0));
        match to {
            Place::Memory(addr) if wide => cx.vm.write_u64(addr, value)?,
            Place::Memory(addr) => cx.vm.write_u32(addr, low)?,
            Place::Register(register) => {
                self.store_register(register, low);
                if wide {
                    self.store_register(register.wrapping_add(1), high);
                }
            }
        }
        Ok(())
    }

    fn load(&self, cx: Cx<'_>, place: Place) -> Result<u32, Stop> {
        match place {
            Place::Memory(addr) => Ok(cx.vm.read_u32(addr)?),
            Place::Register(register) => Ok(self.register(register)),
        }
    }

    fn register(&self, register: u32) -> u32 {
        self.registers.get(&(register & REGISTER_MASK)).copied().unwrap_or(0)
    }

    fn store_register(&mut self, register: u32, value: u32) {
        self.registers.insert(register & REGISTER_MASK, value);
    }
}

/// Reads the packet at the position and moves behind it; `None` while a ring does not hold all of it.
fn fetch(cx: Cx<'_>, stream: &mut Stream, in_buffer: bool) -> Result<Option<(Packet, Vec<u32>)>, Stop> {
    if stream.available() == 0 {
        return Ok(None);
    }
    let header = stream.first(cx.vm)?;
    let length = packet::body_length(header).map_err(|error| refuse(error, &[header]))? + 1;
    if stream.available() < length as u64 {
        if in_buffer {
            let message = format!("a packet reaches over the end of its indirect buffer: {header:08x}");
            return Err(Exception { kind: ExceptionKind::Unsupported, message }.into());
        }
        return Ok(None);
    }
    let mut words = vec![0; length];
    stream.peek(cx.vm, 0, &mut words)?;
    let body = words.get(1..).unwrap_or_default();
    let packet = packet::decode(header, body).map_err(|error| refuse(error, &words))?;
    stream.advance(length as u64);
    Ok(Some((packet, words)))
}

fn refuse(error: DecodeError, words: &[u32]) -> Stop {
    Exception { kind: ExceptionKind::Unsupported, message: format!("{error}; packet {}", hex(words)) }.into()
}

fn release_mem(cx: Cx<'_>, addr: u64, data: ReleaseData) -> Result<(), Stop> {
    match data {
        ReleaseData::None => {}
        ReleaseData::Low32(value) => cx.vm.write_u32(addr, value)?,
        ReleaseData::Full64(value) => cx.vm.write_u64(addr, value)?,
        ReleaseData::GpuClock => cx.vm.write_u64(addr, cx.clock.now())?,
    }
    Ok(())
}
