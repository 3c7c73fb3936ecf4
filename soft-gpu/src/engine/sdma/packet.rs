//! Decoding of SDMA packets, versions 4 (gfx9), 5 (gfx10), 6 (gfx11) and 7 (gfx12).
//!
//! Field positions are those of the kernel's `vega10_sdma_pkt_open.h` and `navi10_sdma_pkt_open.h` and of
//! ROCr's `sdma_registers.h`. Decoding is total: any words give a packet or an error that names the opcode.

use crate::engine::atomics::{Atomic, UnknownAtomic};
use crate::engine::bits::{bit, bits, pair, word};

/// What the packets of one SDMA version look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Format {
    /// Bits of the byte count of copies and fills: 22, or 30 on newer engines (ROCr's `count_ext`).
    count_bits: u32,
    /// Sub-window copies have wider fields (gfx12).
    wide_rect: bool,
}

impl Format {
    /// For a `gfx_target_version` as the topology has it (90010 is gfx90a).
    pub(in crate::engine) const fn of(gfx: u32) -> Self {
        // ROCr (GpuAgent::CreateBlitSdma) uses 30 bits on gfx90a and from gfx10.3 on. SDMA 4.4.2 (gfx940
        // to gfx950) gets 22 bits from ROCr, which is a subset: the upper bits are zero then.
        let long = gfx == 90010 || gfx / 100 == 904 || gfx / 100 == 905 || gfx >= 100_300;
        Self { count_bits: if long { 30 } else { 22 }, wide_rect: gfx >= 120_000 }
    }
}

/// A decoded packet. Addresses are GPU virtual addresses, lengths bytes unless they say words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Packet {
    /// Nothing; `skip` words of payload follow.
    Nop {
        skip: u32,
    },
    Copy {
        src: u64,
        dst: u64,
        dst2: Option<u64>,
        len: u64,
    },
    CopyRect(Box<Rect>),
    /// The words behind the packet go to `dst`.
    Write {
        dst: u64,
        words: u32,
    },
    IndirectBuffer {
        base: u64,
        words: u32,
    },
    Fence {
        addr: u64,
        value: u32,
    },
    Trap {
        context: u32,
    },
    Poll(Poll),
    /// Skips `words` unless the word at `addr` equals `reference`.
    ConditionalExecution {
        addr: u64,
        reference: u32,
        words: u32,
    },
    Atomic {
        op: Atomic,
        addr: u64,
        src: u64,
        compare: u64,
        repeat: bool,
    },
    Fill {
        dst: u64,
        len: u64,
        value: u32,
    },
    SetTimestamp {
        value: u64,
    },
    GetTimestamp {
        addr: u64,
        global: bool,
    },
    WriteRegister {
        register: u32,
        value: u32,
    },
    /// Cache control: our caches are the CPU's, which are coherent.
    CacheControl,
}

/// A wait for a value in memory or a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Poll {
    pub(in crate::engine) memory: bool,
    pub(in crate::engine) hdp_flush: bool,
    pub(in crate::engine) addr: u64,
    pub(in crate::engine) test: super::super::compare::Test,
    /// How often to look before giving up; `None` is for ever.
    pub(in crate::engine) retries: Option<u32>,
}

/// One side of a sub-window copy; positions and pitches in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Window {
    pub(in crate::engine) base: u64,
    pub(in crate::engine) x: u64,
    pub(in crate::engine) y: u64,
    pub(in crate::engine) z: u64,
    pub(in crate::engine) pitch: u64,
    pub(in crate::engine) slice: u64,
}

/// A sub-window copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Rect {
    /// log2 of the bytes of an element, at most 4.
    pub(in crate::engine) element: u32,
    pub(in crate::engine) src: Window,
    pub(in crate::engine) dst: Window,
    pub(in crate::engine) width: u64,
    pub(in crate::engine) height: u64,
    pub(in crate::engine) depth: u64,
}

/// Why words are no packet that this engine executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::engine) enum DecodeError {
    #[error("SDMA opcode {op} sub-opcode {sub} is unknown")]
    Unknown { op: u8, sub: u8 },
    #[error("SDMA packet {name} is not supported")]
    Unsupported { name: &'static str },
    #[error("SDMA packet {name} has an invalid field: {what}")]
    Field { name: &'static str, what: &'static str },
    #[error("SDMA packet ATOMIC: {0}")]
    Atomic(#[from] UnknownAtomic),
}

type Decoder = fn(Format, &[u32]) -> Result<Packet, DecodeError>;

/// One line of the opcode table.
struct Opcode {
    op: u8,
    sub: u8,
    name: &'static str,
    /// Words of the packet, without data that follows it.
    words: usize,
    /// `None`: known by name, not executed.
    decode: Option<Decoder>,
}

const fn opcode(op: u8, sub: u8, name: &'static str, words: usize, decode: Decoder) -> Opcode {
    Opcode { op, sub, name, words, decode: Some(decode) }
}

const fn named(op: u8, sub: u8, name: &'static str) -> Opcode {
    Opcode { op, sub, name, words: 1, decode: None }
}

const COPY: u8 = 1;
const BROADCAST_BIT: u32 = 27;
/// Words of the second destination of a broadcast copy.
const BROADCAST_WORDS: usize = 2;

/// Most words that a packet has without data that follows it.
pub(in crate::engine) const MAX_WORDS: usize = 13;

const OPCODES: &[Opcode] = &[
    opcode(0, 0, "NOP", 1, |_, w| Ok(Packet::Nop { skip: bits(word(w, 0), 16, 14) })),
    opcode(COPY, 0, "COPY_LINEAR", 7, copy),
    named(COPY, 1, "COPY_TILED"),
    named(COPY, 3, "COPY_SOA"),
    opcode(COPY, 4, "COPY_LINEAR_SUB_WIND", MAX_WORDS, rect),
    named(COPY, 5, "COPY_TILED_SUB_WIND"),
    named(COPY, 6, "COPY_T2T_SUB_WIND"),
    named(COPY, 7, "COPY_DIRTY_PAGE"),
    named(COPY, 8, "COPY_LINEAR_PHY"),
    opcode(2, 0, "WRITE_LINEAR", 4, |_, w| {
        Ok(Packet::Write { dst: pair(w, 1), words: bits(word(w, 3), 0, 20) + 1 })
    }),
    named(2, 1, "WRITE_TILED"),
    opcode(4, 0, "INDIRECT", 6, indirect),
    opcode(5, 0, "FENCE", 4, |_, w| Ok(Packet::Fence { addr: pair(w, 1), value: word(w, 3) })),
    opcode(6, 0, "TRAP", 2, |_, w| Ok(Packet::Trap { context: bits(word(w, 1), 0, 28) })),
    named(7, 0, "SEM"),
    opcode(8, 0, "POLL_REGMEM", 6, poll),
    named(8, 1, "POLL_REG_WRITE_MEM"),
    named(8, 2, "POLL_DBIT_WRITE_MEM"),
    named(8, 3, "POLL_MEM_VERIFY"),
    opcode(9, 0, "COND_EXE", 5, |_, w| {
        let words = bits(word(w, 4), 0, 14);
        Ok(Packet::ConditionalExecution { addr: pair(w, 1), reference: word(w, 3), words })
    }),
    opcode(10, 0, "ATOMIC", 8, atomic),
    opcode(11, 0, "CONST_FILL", 5, fill),
    named(11, 1, "DATA_FILL_MULTI"),
    named(12, 0, "PTEPDE_GEN"),
    named(12, 1, "PTEPDE_COPY"),
    named(12, 2, "PTEPDE_RMW"),
    named(12, 3, "PTEPDE_COPY_BACKWARDS"),
    opcode(13, 0, "TIMESTAMP_SET", 3, |_, w| Ok(Packet::SetTimestamp { value: pair(w, 1) })),
    opcode(13, 1, "TIMESTAMP_GET", 3, |_, w| {
        Ok(Packet::GetTimestamp { addr: pair(w, 1) & !7, global: false })
    }),
    opcode(13, 2, "TIMESTAMP_GET_GLOBAL", 3, |_, w| {
        Ok(Packet::GetTimestamp { addr: pair(w, 1) & !7, global: true })
    }),
    opcode(14, 0, "SRBM_WRITE", 3, |_, w| {
        Ok(Packet::WriteRegister { register: bits(word(w, 1), 0, 18), value: word(w, 2) })
    }),
    named(15, 0, "PRE_EXE"),
    named(16, 0, "GPUVM_INV"),
    opcode(17, 0, "GCR_REQ", 5, |_, _| Ok(Packet::CacheControl)),
    opcode(17, 1, "GCR_REQ (user)", 5, |_, _| Ok(Packet::CacheControl)),
    named(32, 0, "DUMMY_TRAP"),
];

fn find(header: u32) -> Result<&'static Opcode, DecodeError> {
    let [op, sub, ..] = header.to_le_bytes();
    OPCODES.iter().find(|o| o.op == op && o.sub == sub).ok_or(DecodeError::Unknown { op, sub })
}

/// Words of the packet that starts with `header`, without data that follows it.
pub(in crate::engine) fn length(header: u32) -> Result<usize, DecodeError> {
    let opcode = find(header)?;
    let broadcast = opcode.op == COPY && opcode.sub == 0 && bit(header, BROADCAST_BIT);
    Ok(if broadcast { opcode.words + BROADCAST_WORDS } else { opcode.words })
}

/// Decodes a packet of [`length`] words; missing words count as zero.
pub(in crate::engine) fn decode(format: Format, words: &[u32]) -> Result<Packet, DecodeError> {
    let opcode = find(word(words, 0))?;
    match opcode.decode {
        Some(decode) => decode(format, words),
        None => Err(DecodeError::Unsupported { name: opcode.name }),
    }
}

fn copy(format: Format, w: &[u32]) -> Result<Packet, DecodeError> {
    if bit(word(w, 0), 16) || bit(word(w, 0), 18) {
        return Err(DecodeError::Field { name: "COPY_LINEAR", what: "encrypted memory" });
    }
    // Byte swapping (PARAMETER.*_sw) was removed from use long ago; ROCm never sets it.
    let parameter = word(w, 2);
    if bits(parameter, 24, 2) != 0 || bits(parameter, 16, 2) != 0 {
        return Err(DecodeError::Field { name: "COPY_LINEAR", what: "byte swapping" });
    }
    let dst2 = bit(word(w, 0), BROADCAST_BIT).then(|| pair(w, 7));
    let len = u64::from(bits(word(w, 1), 0, format.count_bits)) + 1;
    Ok(Packet::Copy { src: pair(w, 3), dst: pair(w, 5), dst2, len })
}

fn rect(format: Format, w: &[u32]) -> Result<Packet, DecodeError> {
    let element = bits(word(w, 0), 29, 3);
    if element > 4 {
        return Err(DecodeError::Field { name: "COPY_LINEAR_SUB_WIND", what: "element size" });
    }
    let (xy, z) = if format.wide_rect { (16, 14) } else { (14, 11) };
    let (pitch_at, pitch, slice) = if format.wide_rect { (16, 16, 32) } else { (13, 19, 28) };
    let field = |index: usize, at: u32, len: u32| u64::from(bits(word(w, index), at, len));
    let window = |first: usize| Window {
        base: pair(w, first),
        x: field(first + 2, 0, xy),
        y: field(first + 2, 16, xy),
        z: field(first + 3, 0, z),
        pitch: field(first + 3, pitch_at, pitch) + 1,
        slice: field(first + 4, 0, slice) + 1,
    };
    Ok(Packet::CopyRect(Box::new(Rect {
        element,
        src: window(1),
        dst: window(6),
        width: field(11, 0, xy) + 1,
        height: field(11, 16, xy) + 1,
        depth: field(12, 0, z) + 1,
    })))
}

fn indirect(_: Format, w: &[u32]) -> Result<Packet, DecodeError> {
    let base = pair(w, 1);
    if !base.is_multiple_of(32) {
        return Err(DecodeError::Field { name: "INDIRECT", what: "the buffer is not 32-byte aligned" });
    }
    Ok(Packet::IndirectBuffer { base, words: bits(word(w, 3), 0, 20) })
}

fn poll(_: Format, w: &[u32]) -> Result<Packet, DecodeError> {
    let header = word(w, 0);
    let function = bits(header, 28, 3);
    let test = super::super::compare::Test::new(function, word(w, 3), word(w, 4))
        .ok_or(DecodeError::Field { name: "POLL_REGMEM", what: "function" })?;
    let retries = match bits(word(w, 5), 16, 12) {
        0xfff => None,
        count => Some(count),
    };
    Ok(Packet::Poll(Poll {
        memory: bit(header, 31),
        hdp_flush: bit(header, 26),
        addr: pair(w, 1),
        test,
        retries,
    }))
}

fn atomic(_: Format, w: &[u32]) -> Result<Packet, DecodeError> {
    let header = word(w, 0);
    let [.., top] = header.to_le_bytes();
    let op = Atomic::from_number(top >> 1)?;
    Ok(Packet::Atomic { op, addr: pair(w, 1), src: pair(w, 3), compare: pair(w, 5), repeat: bit(header, 16) })
}

fn fill(format: Format, w: &[u32]) -> Result<Packet, DecodeError> {
    let unit = match bits(word(w, 0), 30, 2) {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => return Err(DecodeError::Field { name: "CONST_FILL", what: "fill size" }),
    };
    // The count is one less than the bytes (kfdtest) or one unit less (ROCr): both round up to this.
    let len = (u64::from(bits(word(w, 4), 0, format.count_bits)) / unit + 1) * unit;
    let value = word(w, 3);
    let value = match unit {
        1 => value & 0xff | (value & 0xff) << 8 | (value & 0xff) << 16 | (value & 0xff) << 24,
        2 => value & 0xffff | (value & 0xffff) << 16,
        _ => value,
    };
    Ok(Packet::Fill { dst: pair(w, 1), len, value })
}
