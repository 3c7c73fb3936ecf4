//! From bytes to instructions.

mod memory;
mod scalar;
mod short;
mod vector;

use super::inst::{Form, Inst, Mods, Src, bit};
use super::op::{Arch, Family, Op, Ty, flag};
use super::table;

/// Why bytes are no instruction that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the instruction has.
    #[error("the instruction is cut off after {have} of {need} bytes")]
    CutOff {
        /// Bytes that are there.
        have: usize,
        /// Bytes that it needs.
        need: usize,
    },
    /// No opcode of the family has this number.
    #[error("{family:?} opcode {code:#x} is unknown; words {first:08x} {second:08x}")]
    Opcode {
        /// The family.
        family: Family,
        /// The number.
        code: u16,
        /// First word.
        first: u32,
        /// Second word, or 0.
        second: u32,
    },
    /// An encoding that is not one of compute kernels on these parts (images, exports, interpolation, typed buffers).
    #[error("an encoding that is not known: word {0:08x}")]
    Encoding(u32),
    /// The opcode does not exist in this form, or its fields have a reserved value.
    #[error("{name}: {what} is reserved or not possible; words {first:08x} {second:08x}")]
    Reserved {
        /// The opcode's name.
        name: &'static str,
        /// Which field.
        what: &'static str,
        /// First word.
        first: u32,
        /// Second word, or 0.
        second: u32,
    },
}

/// `count` bits of `word` from bit `at`.
const fn field(word: u32, at: u32, count: u32) -> u32 {
    word >> at & ((1 << count) - 1)
}

const fn field8(word: u32, at: u32, count: u32) -> u8 {
    (field(word, at, count) & 0xff) as u8
}

const fn field16(word: u32, at: u32, count: u32) -> u16 {
    (field(word, at, count) & 0xffff) as u16
}

const fn is_set(word: u32, at: u32) -> bool {
    word >> at & 1 != 0
}

/// The low `count` bits of `value` as a signed number.
const fn signed(value: u32, count: u32) -> i32 {
    let shift = 32 - count;
    (value << shift).cast_signed() >> shift
}

struct Source<'a> {
    arch: Arch,
    bytes: &'a [u8],
}

/// Decodes the instruction at the start of `bytes`.
///
/// # Errors
/// See [`DecodeError`]; never panics.
pub fn decode(arch: Arch, bytes: &[u8]) -> Result<Inst, DecodeError> {
    let source = Source { arch, bytes };
    let mut inst = source.any()?;
    source.check_tuples(&inst)?;
    inst.plain = inst.is_plain();
    Ok(inst)
}

/// Whether `count` registers can begin at `src`: scalar ones are aligned, and none reaches over the end of its file.
fn fits(src: Src, count: u8) -> bool {
    let count = u16::from(count.max(1));
    match src.0 {
        // Scalar registers with a name are pairs.
        102..=107 | 124..=127 => {
            count <= 2 && (count == 1 || src.0.is_multiple_of(2)) && (count == 1 || src.0 != 124)
        }
        code @ 0..=101 => code.is_multiple_of(count.next_power_of_two().min(4)) && code + count <= 102,
        code @ 108..=123 => {
            (code - 108).is_multiple_of(count.next_power_of_two().min(4)) && code + count <= 124
        }
        // Vector registers are allocated in pairs on these parts.
        code @ 256..=511 => code + count <= 512 && (count == 1 || code.is_multiple_of(2)),
        code @ 512..=767 => code + count <= 768 && (count == 1 || code.is_multiple_of(2)),
        _ => true,
    }
}

impl Source<'_> {
    fn any(&self) -> Result<Inst, DecodeError> {
        let source = self;
        let first = source.word(0)?;
        match first >> 23 {
            0b1_0111_1101 => return source.sop1(first),
            0b1_0111_1110 => return source.sopc(first),
            0b1_0111_1111 => return source.sopp(first),
            0b1_1010_0111 => return source.vop3p(first),
            _ => {}
        }
        match first >> 26 {
            0b11_0000 => return source.smem(first),
            0b11_0100 => return source.vop3(first),
            0b11_0110 => return source.ds(first),
            0b11_0111 => return source.flat(first),
            0b11_1000 => return source.mubuf(first),
            _ => {}
        }
        match (first >> 25, first >> 28, first >> 30, first >> 31) {
            (0b011_1111, ..) => source.vop1(first),
            (0b011_1110, ..) => source.vopc(first),
            (_, _, _, 0) => source.vop2(first),
            (_, 0b1011, ..) => source.sopk(first),
            (_, _, 0b10, _) => source.sop2(first),
            _ => Err(DecodeError::Encoding(first)),
        }
    }

    /// Registers that an operand of several cannot be.
    fn check_tuples(&self, inst: &Inst) -> Result<(), DecodeError> {
        let op = inst.op;
        let memory = matches!(
            inst.family,
            Family::Smem | Family::Ds | Family::Flat | Family::Scratch | Family::Global | Family::Mubuf
        );
        if !fits(inst.dst, op.dst.dwords()) || !fits(inst.sdst, 2) {
            return Err(self.reserved(op, "the destination"));
        }
        // Where a memory instruction has its data, and how large addresses are.
        let sizes: [u8; 3] = if !memory {
            [0, 1, 2].map(|at| op.src.get(at).map_or(0, |ty| ty.dwords()))
        } else {
            let data = |at: usize| op.src.get(at).map_or(0, |ty| ty.dwords());
            match inst.family {
                Family::Smem => [data(0), data(1), 0],
                Family::Ds => [1, data(0), data(1)],
                Family::Flat => [2, data(0), 0],
                Family::Global if inst.src[2] != Src::NONE => [1, data(0), 2],
                Family::Global => [2, data(0), 0],
                Family::Mubuf if inst.cache & (bit::OFFEN | bit::IDXEN) == bit::OFFEN | bit::IDXEN => {
                    [2, data(0), 4]
                }
                Family::Mubuf => [1, data(0), 4],
                _ => [1, data(0), 1],
            }
        };
        if inst.src.iter().zip(sizes).any(|(src, size)| !fits(*src, size)) {
            return Err(self.reserved(op, "a source"));
        }
        // Scalar memory does not load what the wave's execution depends on.
        let data = if op.is(flag::STORE) { inst.src[1] } else { inst.dst };
        if inst.family == Family::Smem && matches!(data, Src(124 | 126 | 127)) {
            return Err(self.reserved(op, "the data register"));
        }
        if op.dst == Ty::S && inst.family == Family::Vop1 && !inst.src[0].is_vector() {
            return Err(self.reserved(op, "a source"));
        }
        Ok(())
    }

    fn word(&self, index: usize) -> Result<u32, DecodeError> {
        let at = index * 4;
        match self.bytes.get(at..at + 4) {
            Some(&[a, b, c, d]) => Ok(u32::from_le_bytes([a, b, c, d])),
            _ => Err(DecodeError::CutOff { have: self.bytes.len(), need: at + 4 }),
        }
    }

    /// The second word, for error messages.
    fn second(&self) -> u32 {
        self.word(1).unwrap_or(0)
    }

    fn find(&self, family: Family, code: u32) -> Result<&'static Op, DecodeError> {
        let code = field16(code, 0, 16);
        let first = self.word(0)?;
        let unknown = DecodeError::Opcode { family, code, first, second: self.second() };
        table::find(self.arch, family, code).ok_or(unknown)
    }

    fn reserved(&self, op: &Op, what: &'static str) -> DecodeError {
        DecodeError::Reserved { name: op.name, what, first: self.word(0).unwrap_or(0), second: self.second() }
    }

    fn inst(&self, family: Family, op: &'static Op, size: u8) -> Inst {
        Inst {
            arch: self.arch,
            family,
            op,
            form: Form::Short,
            size,
            dst: Src::NONE,
            sdst: Src::NONE,
            src: [Src::NONE; 3],
            soffset: Src::NONE,
            literal: 0,
            imm: 0,
            mods: Mods::default(),
            cache: 0,
            matrix: [0; 3],
            plain: false,
        }
    }

    /// Reads the literal if a source asks for one. It follows the words read so far.
    fn literal(&self, inst: &mut Inst) -> Result<(), DecodeError> {
        if inst.src.contains(&Src::LITERAL) {
            inst.literal = self.word(usize::from(inst.size / 4))?;
            inst.size += 4;
        }
        Ok(())
    }

    /// A source of a scalar instruction: 8 bits.
    fn scalar(&self, op: &Op, code: u32) -> Result<Src, DecodeError> {
        self.source(op, code & 0xff)
    }

    /// A source of 9 bits.
    fn source(&self, op: &Op, code: u32) -> Result<Src, DecodeError> {
        match code {
            125 | 209..=234 | 249 | 250 | 254 => Err(self.reserved(op, "a source")),
            // The base of the address space of exports, which no compute part has.
            239 => Err(self.reserved(op, "a source")),
            // The scratch registers are fixed on gfx942.
            102 | 103 if self.arch == Arch::Gfx942 => Err(self.reserved(op, "a source")),
            _ => Ok(Src(field16(code, 0, 9))),
        }
    }

    fn scalar_dst(&self, op: &Op, code: u32) -> Result<Src, DecodeError> {
        match code {
            125 | 128.. => Err(self.reserved(op, "the destination")),
            102 | 103 if self.arch == Arch::Gfx942 => Err(self.reserved(op, "the destination")),
            _ => Ok(Src(field16(code, 0, 7))),
        }
    }
}

/// Which result modifiers an opcode takes in the VOP3 encoding.
pub(super) struct Can {
    pub(super) clamp: bool,
    pub(super) omod: bool,
}

pub(super) fn can(op: &Op) -> Can {
    let float_src = op.src.iter().any(|ty| ty.is_float());
    Can {
        clamp: op.is(flag::CLAMP) || ((op.dst.is_float() || float_src) && !op.is(flag::NO_CLAMP)),
        omod: op.dst.is_float() && !op.is(flag::OP_SEL | flag::NO_OMOD),
    }
}
