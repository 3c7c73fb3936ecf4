//! Decoding of PM4 packets as the compute command processor (MEC) of gfx9 and later takes them.
//!
//! Opcodes and fields are those of the kernel's `soc15d.h` and `nvd.h` and of the packet structs of
//! kfdtest and ROCr (`amd_gpu_pm4.h`). Decoding is total: any words give a packet or an error by name.

use crate::engine::atomics::{Atomic, UnknownAtomic};
use crate::engine::bits::{bit, bits, pair, word};
use crate::engine::compare::Test;

/// A decoded packet. Addresses are GPU virtual addresses, registers are numbers of 32-bit registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Packet {
    /// Nothing to do, the payload included: NOP, and cache and pipeline flushes (our caches are the
    /// CPU's, and packets are executed one after the other).
    Nothing,
    WriteData {
        to: Place,
        increment: bool,
        data: Vec<u32>,
    },
    CopyData {
        from: Source,
        to: Place,
        wide: bool,
    },
    ReleaseMem {
        addr: u64,
        data: ReleaseData,
        interrupt: Option<u32>,
    },
    Wait {
        at: Place,
        test: Test,
    },
    /// Writes `value` to `register`, then waits.
    WriteThenWait {
        register: u32,
        value: u32,
        at: Place,
        test: Test,
    },
    IndirectBuffer {
        base: u64,
        words: u32,
        chain: bool,
    },
    SetRegisters {
        first: u32,
        values: Vec<u32>,
    },
    Atomic {
        op: Atomic,
        addr: u64,
        src: u64,
        compare: u64,
        repeat: bool,
    },
    DmaData {
        from: DmaSource,
        dst: u64,
        len: u64,
    },
    /// Skips `words` if the word at `addr` is zero.
    ConditionalExecution {
        addr: u64,
        words: u32,
    },
    /// Skips `words` on the compute dies that `dies` does not name.
    PredicatedExecution {
        dies: u8,
        words: u32,
    },
    /// A kernel launch.
    Dispatch {
        name: &'static str,
    },
}

/// Where a packet reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Place {
    Memory(u64),
    Register(u32),
}

/// What COPY_DATA copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Source {
    Place(Place),
    Immediate(u64),
    /// What the last ATOMIC_MEM returned.
    AtomicReturn,
    GpuClock,
}

/// What RELEASE_MEM writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum ReleaseData {
    None,
    Low32(u32),
    Full64(u64),
    GpuClock,
}

/// What DMA_DATA copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum DmaSource {
    Memory(u64),
    Data(u32),
}

/// Why words are no packet that this engine executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::engine) enum DecodeError {
    #[error("PM4 packet type {0} is not accepted by compute queues")]
    Type(u32),
    #[error("PM4 opcode {0:#x} is unknown")]
    Unknown(u8),
    #[error("PM4 packet {name} is not supported")]
    Unsupported { name: &'static str },
    #[error("PM4 packet {name} has {words} words, which is too few")]
    Short { name: &'static str, words: usize },
    #[error("PM4 packet {name}: {what} is not supported")]
    Field { name: &'static str, what: &'static str },
    #[error("PM4 packet ATOMIC_MEM: {0}")]
    Atomic(#[from] UnknownAtomic),
}

type Decoder = fn(&[u32]) -> Result<Packet, DecodeError>;

/// One line of the opcode table.
struct Opcode {
    op: u8,
    name: &'static str,
    /// Least words behind the header.
    body: usize,
    /// `None`: known by name, not executed.
    decode: Option<Decoder>,
}

const fn opcode(op: u8, name: &'static str, body: usize, decode: Decoder) -> Opcode {
    Opcode { op, name, body, decode: Some(decode) }
}

const fn named(op: u8, name: &'static str) -> Opcode {
    Opcode { op, name, body: 0, decode: None }
}

const NOP: u8 = 0x10;
/// A NOP with this count has no body (`PACKET3(PACKET3_NOP, 0x3fff)`).
const SINGLE_WORD_NOP: u32 = 0x3fff;

// First registers of the SET_*_REG packets (soc15d.h, PACKET3_SET_*_REG_START).
const CONFIG_REGISTERS: u32 = 0x2000;
const SH_REGISTERS: u32 = 0x2c00;
const CONTEXT_REGISTERS: u32 = 0xa000;
const UCONFIG_REGISTERS: u32 = 0xc000;

const OPCODES: &[Opcode] = &[
    opcode(NOP, "NOP", 0, |_| Ok(Packet::Nothing)),
    opcode(0x15, "DISPATCH_DIRECT", 4, |_| Ok(Packet::Dispatch { name: "DISPATCH_DIRECT" })),
    opcode(0x16, "DISPATCH_INDIRECT", 2, |_| Ok(Packet::Dispatch { name: "DISPATCH_INDIRECT" })),
    opcode(0x1e, "ATOMIC_MEM", 8, atomic_mem),
    opcode(0x22, "COND_EXEC", 4, |b| {
        Ok(Packet::ConditionalExecution { addr: pair(b, 0) & !3, words: bits(word(b, 3), 0, 14) })
    }),
    opcode(0x23, "PRED_EXEC", 1, |b| {
        let [.., dies] = word(b, 0).to_le_bytes();
        Ok(Packet::PredicatedExecution { dies, words: bits(word(b, 0), 0, 14) })
    }),
    opcode(0x37, "WRITE_DATA", 4, write_data),
    opcode(0x3c, "WAIT_REG_MEM", 6, wait_reg_mem),
    opcode(0x3f, "INDIRECT_BUFFER", 3, indirect_buffer),
    opcode(0x40, "COPY_DATA", 5, copy_data),
    opcode(0x46, "EVENT_WRITE", 1, event_write),
    opcode(0x49, "RELEASE_MEM", 6, release_mem),
    opcode(0x50, "DMA_DATA", 6, dma_data),
    opcode(0x58, "ACQUIRE_MEM", 6, |_| Ok(Packet::Nothing)),
    opcode(0x68, "SET_CONFIG_REG", 2, |b| set_registers(CONFIG_REGISTERS, b)),
    opcode(0x69, "SET_CONTEXT_REG", 2, |b| set_registers(CONTEXT_REGISTERS, b)),
    opcode(0x76, "SET_SH_REG", 2, |b| set_registers(SH_REGISTERS, b)),
    opcode(0x79, "SET_UCONFIG_REG", 2, |b| set_registers(UCONFIG_REGISTERS, b)),
    opcode(0x7a, "SET_UCONFIG_REG_INDEX", 2, |b| set_registers(UCONFIG_REGISTERS, b)),
    opcode(0x9b, "SET_SH_REG_INDEX", 2, |b| set_registers(SH_REGISTERS, b)),
    named(0x11, "SET_BASE"),
    named(0x12, "CLEAR_STATE"),
    named(0x1d, "ATOMIC_GDS"),
    named(0x1f, "OCCLUSION_QUERY"),
    named(0x20, "SET_PREDICATION"),
    named(0x21, "REG_RMW"),
    named(0x28, "CONTEXT_CONTROL"),
    named(0x33, "INDIRECT_BUFFER_CONST"),
    named(0x39, "MEM_SEMAPHORE"),
    named(0x42, "PFP_SYNC_ME"),
    named(0x45, "COND_WRITE"),
    named(0x4a, "PREAMBLE_CNTL"),
    named(0x59, "REWIND"),
    named(0x5e, "LOAD_UCONFIG_REG"),
    named(0x5f, "LOAD_SH_REG"),
    named(0x60, "LOAD_CONFIG_REG"),
    named(0x61, "LOAD_CONTEXT_REG"),
    named(0x77, "SET_SH_REG_OFFSET"),
    named(0x78, "SET_QUEUE_REG"),
    named(0x7d, "SCRATCH_RAM_WRITE"),
    named(0x7e, "SCRATCH_RAM_READ"),
    named(0x93, "WAIT_REG_MEM64"),
    named(0x98, "INVALIDATE_TLBS"),
    named(0xa0, "SET_RESOURCES"),
    named(0xa1, "MAP_PROCESS"),
    named(0xa2, "MAP_QUEUES"),
    named(0xa3, "UNMAP_QUEUES"),
    named(0xa4, "QUERY_STATUS"),
    named(0xa5, "RUN_LIST"),
];

/// Words behind the header of the packet that starts with `header`.
pub(in crate::engine) fn body_length(header: u32) -> Result<usize, DecodeError> {
    let count = bits(header, 16, 14);
    match bits(header, 30, 2) {
        3 if opcode_of(header) == NOP && count == SINGLE_WORD_NOP => Ok(0),
        3 => Ok(count as usize + 1),
        // Type 2 is a filler of one word.
        2 => Ok(0),
        other => Err(DecodeError::Type(other)),
    }
}

fn opcode_of(header: u32) -> u8 {
    let [_, op, ..] = header.to_le_bytes();
    op
}

/// Decodes a packet from its header and the [`body_length`] words behind it.
pub(in crate::engine) fn decode(header: u32, body: &[u32]) -> Result<Packet, DecodeError> {
    match bits(header, 30, 2) {
        2 => return Ok(Packet::Nothing),
        3 => {}
        other => return Err(DecodeError::Type(other)),
    }
    let op = opcode_of(header);
    let opcode = OPCODES.iter().find(|o| o.op == op).ok_or(DecodeError::Unknown(op))?;
    if body.len() < opcode.body {
        return Err(DecodeError::Short { name: opcode.name, words: body.len() + 1 });
    }
    match opcode.decode {
        Some(decode) => decode(body),
        None => Err(DecodeError::Unsupported { name: opcode.name }),
    }
}

/// INDIRECT_BUFFER: also what an AQL packet of format PM4-IB holds.
pub(in crate::engine) fn indirect_buffer(b: &[u32]) -> Result<Packet, DecodeError> {
    const NAME: &str = "INDIRECT_BUFFER";
    let control = word(b, 2);
    if !bit(control, 23) {
        return Err(DecodeError::Field { name: NAME, what: "a buffer without the valid bit" });
    }
    let base = (pair(b, 0) & !3) & 0xffff_ffff_ffff;
    Ok(Packet::IndirectBuffer { base, words: bits(control, 0, 20), chain: bit(control, 20) })
}

fn write_data(b: &[u32]) -> Result<Packet, DecodeError> {
    const NAME: &str = "WRITE_DATA";
    let to = match bits(word(b, 0), 8, 4) {
        0 => Place::Register(word(b, 1)),
        // 2: through the L2, 5: memory, asynchronous.
        2 | 5 => Place::Memory(pair(b, 1) & !3),
        3 => return Err(DecodeError::Field { name: NAME, what: "the global data share" }),
        _ => return Err(DecodeError::Field { name: NAME, what: "this destination" }),
    };
    let data = b.get(3..).unwrap_or_default().to_vec();
    Ok(Packet::WriteData { to, increment: !bit(word(b, 0), 16), data })
}

fn copy_data(b: &[u32]) -> Result<Packet, DecodeError> {
    const NAME: &str = "COPY_DATA";
    let control = word(b, 0);
    let wide = bit(control, 16);
    let align = if wide { !7 } else { !3 };
    let from = match bits(control, 0, 4) {
        0 => Source::Place(Place::Register(bits(word(b, 1), 0, 18))),
        1 | 2 => Source::Place(Place::Memory(pair(b, 1) & align)),
        5 => Source::Immediate(pair(b, 1)),
        6 => Source::AtomicReturn,
        9 => Source::GpuClock,
        _ => return Err(DecodeError::Field { name: NAME, what: "this source" }),
    };
    let to = match bits(control, 8, 4) {
        0 => Place::Register(bits(word(b, 3), 0, 18)),
        1 | 2 | 5 => Place::Memory(pair(b, 3) & align),
        _ => return Err(DecodeError::Field { name: NAME, what: "this destination" }),
    };
    Ok(Packet::CopyData { from, to, wide })
}

fn release_mem(b: &[u32]) -> Result<Packet, DecodeError> {
    const NAME: &str = "RELEASE_MEM";
    let control = word(b, 1);
    if bits(control, 16, 2) > 1 {
        return Err(DecodeError::Field { name: NAME, what: "this destination" });
    }
    let data = match bits(control, 29, 3) {
        0 => ReleaseData::None,
        1 => ReleaseData::Low32(word(b, 4)),
        2 => ReleaseData::Full64(pair(b, 4)),
        3 => ReleaseData::GpuClock,
        _ => return Err(DecodeError::Field { name: NAME, what: "this data selection" }),
    };
    let align = if matches!(data, ReleaseData::Low32(_)) { !3 } else { !7 };
    // gfx9 and later have the interrupt's context in an eighth word.
    let interrupt = match bits(control, 24, 3) {
        0 | 3 => None,
        1 | 2 | 4 => Some(word(b, 6)),
        _ => return Err(DecodeError::Field { name: NAME, what: "a conditional interrupt" }),
    };
    Ok(Packet::ReleaseMem { addr: pair(b, 2) & align, data, interrupt })
}

fn wait_reg_mem(b: &[u32]) -> Result<Packet, DecodeError> {
    const NAME: &str = "WAIT_REG_MEM";
    let control = word(b, 0);
    let test = Test::new(bits(control, 0, 3), word(b, 3), word(b, 4))
        .ok_or(DecodeError::Field { name: NAME, what: "this function" })?;
    let at = match bits(control, 4, 2) {
        0 => Place::Register(bits(word(b, 1), 0, 18)),
        1 => Place::Memory(pair(b, 1) & !3),
        _ => return Err(DecodeError::Field { name: NAME, what: "this space" }),
    };
    match (bits(control, 6, 2), at) {
        // 3 only lets the scheduler preempt the queue while it waits.
        (0 | 3, _) => Ok(Packet::Wait { at, test }),
        (1, Place::Register(register)) => {
            let at = Place::Register(bits(word(b, 2), 0, 18));
            Ok(Packet::WriteThenWait { register, value: word(b, 3), at, test })
        }
        _ => Err(DecodeError::Field { name: NAME, what: "this operation" }),
    }
}

fn event_write(b: &[u32]) -> Result<Packet, DecodeError> {
    // Index 4: partial flushes; 7: cache flushes; 0: other events without data. 1 to 3 dump counters.
    match bits(word(b, 0), 8, 4) {
        0 | 4 | 7 => Ok(Packet::Nothing),
        _ => Err(DecodeError::Field { name: "EVENT_WRITE", what: "an event that writes counters" }),
    }
}

fn set_registers(base: u32, b: &[u32]) -> Result<Packet, DecodeError> {
    let first = base + bits(word(b, 0), 0, 16);
    Ok(Packet::SetRegisters { first, values: b.get(1..).unwrap_or_default().to_vec() })
}

fn atomic_mem(b: &[u32]) -> Result<Packet, DecodeError> {
    const NAME: &str = "ATOMIC_MEM";
    let control = word(b, 0);
    let [number, ..] = (control & 0x7f).to_le_bytes();
    let repeat = match bits(control, 8, 4) {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::Field { name: NAME, what: "this command" }),
    };
    let op = Atomic::from_number(number)?;
    Ok(Packet::Atomic { op, addr: pair(b, 1), src: pair(b, 3), compare: pair(b, 5), repeat })
}

fn dma_data(b: &[u32]) -> Result<Packet, DecodeError> {
    const NAME: &str = "DMA_DATA";
    let (control, command) = (word(b, 0), word(b, 5));
    let registers = bit(command, 26) || bit(command, 27);
    let fixed = bit(command, 28) || bit(command, 29);
    if registers || fixed {
        return Err(DecodeError::Field { name: NAME, what: "a register or a fixed address" });
    }
    let from = match bits(control, 29, 2) {
        0 | 3 => DmaSource::Memory(pair(b, 1)),
        2 => DmaSource::Data(word(b, 1)),
        _ => return Err(DecodeError::Field { name: NAME, what: "the global data share" }),
    };
    if bits(control, 20, 2) == 1 {
        return Err(DecodeError::Field { name: NAME, what: "the global data share" });
    }
    Ok(Packet::DmaData { from, dst: pair(b, 3), len: u64::from(bits(command, 0, 26)) })
}
