//! From bytes to instructions.

use super::inst::{Dpp, Form, Inst, Mods, Sdwa, Src, bit};
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

const SDWA: u32 = 249;
const DPP: u32 = 250;

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

    fn sop2(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Sop2, field(w, 23, 7))?;
        let mut inst = self.inst(Family::Sop2, op, 4);
        if op.dst != Ty::None {
            inst.dst = self.scalar_dst(op, field(w, 16, 7))?;
        }
        inst.src[0] = self.scalar(op, field(w, 0, 8))?;
        inst.src[1] = self.scalar(op, field(w, 8, 8))?;
        self.literal(&mut inst)?;
        Ok(inst)
    }

    fn sop1(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Sop1, field(w, 8, 8))?;
        let mut inst = self.inst(Family::Sop1, op, 4);
        if op.dst != Ty::None {
            inst.dst = self.scalar_dst(op, field(w, 16, 7))?;
        }
        if !op.src.is_empty() {
            inst.src[0] = self.scalar(op, field(w, 0, 8))?;
        }
        // Jumps go where a register says.
        if op.dst == Ty::None && op.name != "s_set_gpr_idx_idx" && inst.src[0].0 >= 128 {
            return Err(self.reserved(op, "a source"));
        }
        self.literal(&mut inst)?;
        Ok(inst)
    }

    fn sopc(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Sopc, field(w, 16, 7))?;
        let mut inst = self.inst(Family::Sopc, op, 4);
        inst.src[0] = self.scalar(op, field(w, 0, 8))?;
        if op.name == "s_set_gpr_idx_on" {
            inst.imm = signed(field(w, 8, 8), 16);
        } else {
            inst.src[1] = self.scalar(op, field(w, 8, 8))?;
        }
        self.literal(&mut inst)?;
        Ok(inst)
    }

    fn sopp(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Sopp, field(w, 16, 7))?;
        let mut inst = self.inst(Family::Sopp, op, 4);
        if op.has_constant() {
            inst.imm = signed(field(w, 0, 16), 16);
        }
        Ok(inst)
    }

    fn sopk(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Sopk, field(w, 23, 5))?;
        let mut inst = self.inst(Family::Sopk, op, 4);
        inst.imm = signed(field(w, 0, 16), 16);
        if op.dst != Ty::None {
            inst.dst = self.scalar_dst(op, field(w, 16, 7))?;
        }
        if !op.src.is_empty() {
            inst.src[0] = self.scalar_dst(op, field(w, 16, 7))?;
        }
        if op.name == "s_setreg_imm32_b32" {
            inst.literal = self.word(1)?;
            inst.size = 8;
        }
        Ok(inst)
    }

    fn smem(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Smem, field(w, 18, 8))?;
        let w1 = self.word(1)?;
        let mut inst = self.inst(Family::Smem, op, 8);
        let data = self.scalar_dst(op, field(w, 6, 7))?;
        let base = self.scalar_dst(op, field(w, 0, 6) * 2)?;
        if op.dst != Ty::None {
            inst.dst = data;
        }
        if !op.src.is_empty() {
            inst.src[0] = base;
        }
        if op.is(flag::STORE) {
            inst.src[1] = data;
        }
        let (imm, soe) = (is_set(w, 17), is_set(w, 14));
        if imm {
            inst.imm = signed(field(w1, 0, 21), 21);
        }
        // Without an immediate offset the scalar one stands in the offset's field.
        match (soe, imm) {
            (true, _) => inst.soffset = self.scalar_dst(op, field(w1, 25, 7))?,
            (false, false) if !op.src.is_empty() => {
                inst.soffset = self.scalar_dst(op, field(w1, 0, 7))?;
            }
            _ => {}
        }
        if op.src.is_empty() || op.name.starts_with("s_dcache") {
            return Ok(inst);
        }
        inst.cache = if is_set(w, 16) { bit::GLC } else { 0 } | if is_set(w, 15) { bit::NV } else { 0 };
        if op.name.starts_with("s_atc_probe") {
            inst.matrix[0] = field8(w, 6, 7);
        }
        Ok(inst)
    }

    fn vop2(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Vop2, field(w, 25, 6))?;
        let mut inst = self.inst(Family::Vop2, op, 4);
        inst.dst = Src::vgpr(field8(w, 17, 8));
        if op.is(flag::CARRY_OUT) {
            inst.sdst = Src::VCC;
        }
        if op.is(flag::MASK_IN) {
            inst.src[2] = Src::VCC;
        }
        inst.src[1] = Src::vgpr(field8(w, 9, 8));
        self.first_source(&mut inst, field(w, 0, 9))?;
        if op.is(flag::MADMK) || op.is(flag::MADAK) {
            if inst.size == 4 {
                inst.literal = self.word(1)?;
                inst.size = 8;
            }
            if op.is(flag::MADMK) {
                inst.src[2] = inst.src[1];
                inst.src[1] = Src::LITERAL;
            } else {
                inst.src[2] = Src::LITERAL;
            }
        }
        Ok(inst)
    }

    fn vop1(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Vop1, field(w, 9, 8))?;
        let mut inst = self.inst(Family::Vop1, op, 4);
        inst.dst = match op.dst {
            Ty::None => Src::NONE,
            Ty::S => self.scalar_dst(op, field(w, 17, 8))?,
            _ => Src::vector(field8(w, 17, 8), op.name == "v_accvgpr_mov_b32"),
        };
        if op.src.is_empty() {
            return Ok(inst);
        }
        self.first_source(&mut inst, field(w, 0, 9))?;
        if op.name == "v_accvgpr_mov_b32" {
            match inst.src[0] {
                Src(code @ 256..=511) => inst.src[0] = Src(code + 256),
                _ => return Err(self.reserved(op, "a source")),
            }
        }
        if op.name == "v_swap_b32" && !inst.src[0].is_vector() {
            return Err(self.reserved(op, "a source"));
        }
        Ok(inst)
    }

    fn vopc(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Vopc, field(w, 17, 8))?;
        let mut inst = self.inst(Family::Vopc, op, 4);
        inst.sdst = Src::VCC;
        inst.src[1] = Src::vgpr(field8(w, 9, 8));
        self.first_source(&mut inst, field(w, 0, 9))?;
        Ok(inst)
    }

    /// Source 0 of the short encodings, which also tells whether SDWA, DPP or a literal follow.
    fn first_source(&self, inst: &mut Inst, code: u32) -> Result<(), DecodeError> {
        match code {
            SDWA => self.sdwa(inst),
            DPP => self.dpp(inst),
            _ => {
                inst.src[0] = self.source(inst.op, code)?;
                self.literal(inst)
            }
        }
    }

    fn sdwa(&self, inst: &mut Inst) -> Result<(), DecodeError> {
        let op = inst.op;
        if op.is(flag::NO_SDWA) {
            return Err(self.reserved(op, "SDWA"));
        }
        let w = self.word(1)?;
        inst.size = 8;
        let mut sdwa =
            Sdwa { dst_sel: 6, dst_unused: 0, src_sel: [field8(w, 16, 3), 6], sext: field8(w, 19, 1) };
        inst.mods.neg = field8(w, 20, 1);
        inst.mods.abs = field8(w, 21, 1);
        inst.src[0] =
            if is_set(w, 23) { self.source(op, field(w, 0, 8))? } else { Src::vgpr(field8(w, 0, 8)) };
        if inst.family == Family::Vopc {
            if is_set(w, 15) {
                inst.sdst = self.scalar_dst(op, field(w, 8, 7))?;
            } else if field(w, 8, 7) != 0 {
                return Err(self.reserved(op, "the destination"));
            }
        } else {
            sdwa.dst_sel = field8(w, 8, 3);
            sdwa.dst_unused = field8(w, 11, 2);
            inst.mods.clamp = is_set(w, 13);
            inst.mods.omod = field8(w, 14, 2);
        }
        let two = op.src.len() > 1;
        if two {
            sdwa.src_sel[1] = field8(w, 24, 3);
            sdwa.sext |= field8(w, 27, 1) << 1;
            inst.mods.neg |= field8(w, 28, 1) << 1;
            inst.mods.abs |= field8(w, 29, 1) << 1;
            if is_set(w, 31) {
                let Src(index) = inst.src[1];
                inst.src[1] = self.source(op, u32::from(index) & 0xff)?;
            }
        } else if w >> 24 != 0 {
            return Err(self.reserved(op, "SDWA of a second source"));
        }
        let sel = [sdwa.dst_sel, sdwa.src_sel[0], sdwa.src_sel[1]];
        if sel.contains(&7) || sdwa.dst_unused == 3 || inst.src.contains(&Src::LITERAL) {
            return Err(self.reserved(op, "an SDWA selection"));
        }
        inst.form = Form::Sdwa(sdwa);
        self.check_sdwa_mods(inst, sdwa)
    }

    /// Sign extension is for integers, negation and absolute value are for floats, and share bits in the manuals'
    /// view of neither.
    fn check_sdwa_mods(&self, inst: &Inst, sdwa: Sdwa) -> Result<(), DecodeError> {
        for (source, &ty) in inst.op.src.iter().take(2).enumerate() {
            let bit = 1 << source;
            let float = ty.is_float();
            if (float && sdwa.sext & bit != 0) || (!float && (inst.mods.neg | inst.mods.abs) & bit != 0) {
                return Err(self.reserved(inst.op, "an SDWA modifier"));
            }
        }
        if inst.mods.omod != 0 && !inst.op.dst.is_float() {
            return Err(self.reserved(inst.op, "omod"));
        }
        Ok(())
    }

    fn dpp(&self, inst: &mut Inst) -> Result<(), DecodeError> {
        let op = inst.op;
        if op.is(flag::NO_DPP) {
            return Err(self.reserved(op, "DPP"));
        }
        let w = self.word(1)?;
        inst.size = 8;
        let ctrl = field16(w, 8, 9);
        let wide = op.dst.dwords() == 2 || op.src.iter().any(|ty| *ty != Ty::Mask && ty.dwords() == 2);
        let known = match ctrl {
            0..=0xff => !wide,
            0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f => !wide,
            0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143 => !wide,
            0x150..=0x15f => true,
            _ => false,
        };
        if !known {
            return Err(self.reserved(op, "dpp_ctrl"));
        }
        let two = op.src.len() > 1;
        inst.mods.neg = field8(w, 20, 1) | field8(w, 22, 1) << 1;
        inst.mods.abs = field8(w, 21, 1) | field8(w, 23, 1) << 1;
        for source in 0..2 {
            let float = op.src.get(source).is_some_and(|ty| ty.is_float());
            if !float && (inst.mods.neg | inst.mods.abs) >> source & 1 != 0 {
                return Err(self.reserved(op, "a DPP modifier"));
            }
        }
        if !two {
            inst.src[1] = Src::NONE;
        }
        inst.src[0] = Src::vgpr(field8(w, 0, 8));
        inst.form = Form::Dpp(Dpp {
            ctrl,
            bound_ctrl: is_set(w, 19),
            bank_mask: field8(w, 24, 4),
            row_mask: field8(w, 28, 4),
        });
        Ok(())
    }

    /// A VOP3 opcode: one of its own, or one of VOPC, VOP2 and VOP1 at an offset.
    fn vop3_opcode(&self, code: u32) -> Result<(Family, &'static Op), DecodeError> {
        let (family, own) = match code {
            0..0x100 => (Family::Vopc, code),
            0x100..0x140 => (Family::Vop2, code - 0x100),
            0x140..0x1c0 => (Family::Vop1, code - 0x140),
            _ => (Family::Vop3, code),
        };
        let op = self.find(family, own)?;
        if op.is(flag::NO_E64) {
            return Err(self.reserved(op, "the long form"));
        }
        Ok((family, op))
    }

    fn vop3(&self, w: u32) -> Result<Inst, DecodeError> {
        let (family, op) = self.vop3_opcode(field(w, 16, 10))?;
        let w1 = self.word(1)?;
        let mut inst = self.inst(family, op, 8);
        if family != Family::Vop3 {
            inst.form = Form::Long;
        }
        let dst = field(w, 0, 8);
        inst.dst = match (family, op.dst) {
            (_, Ty::None) => Src::NONE,
            (Family::Vopc, _) => {
                inst.sdst = self.scalar_dst(op, dst)?;
                Src::NONE
            }
            (_, Ty::S) => self.scalar_dst(op, dst)?,
            _ => Src::vgpr(field8(w, 0, 8)),
        };
        if op.is(flag::CARRY_OUT) {
            inst.sdst = self.scalar_dst(op, field(w, 8, 7))?;
        }
        for (source, ty) in op.src.iter().enumerate() {
            let code = field(w1, u32::try_from(source).unwrap_or(0) * 9, 9);
            let src = self.source(op, code)?;
            let scalar = matches!(ty, Ty::S | Ty::Mask);
            if src == Src::LITERAL
                || (scalar && src.is_vector())
                || (op.dst == Ty::S && source == 0 && !src.is_vector())
            {
                return Err(self.reserved(op, "a source"));
            }
            inst.src[source] = src;
        }
        if op.name == "v_mqsad_u32_u8" && !inst.src[2].is_vector() {
            return Err(self.reserved(op, "a source"));
        }
        self.vop3_mods(&mut inst, w, w1)?;
        Ok(inst)
    }

    fn vop3_mods(&self, inst: &mut Inst, w: u32, w1: u32) -> Result<(), DecodeError> {
        let op = inst.op;
        let sources: u8 = (1 << op.src.len()) - 1;
        let floats =
            (0..op.src.len()).filter(|&at| op.src[at].is_float()).fold(0u8, |mask, at| mask | 1 << at);
        let mods = &mut inst.mods;
        mods.neg = field8(w1, 29, 3);
        mods.omod = field8(w1, 27, 2);
        mods.clamp = is_set(w, 15);
        if !op.is(flag::CARRY_OUT) {
            mods.abs = field8(w, 8, 3);
            mods.op_sel = field8(w, 11, 4);
        }
        let can = can(op);
        if (mods.neg | mods.abs) & !floats != 0 {
            return Err(self.reserved(op, "neg or abs"));
        }
        if mods.clamp && !can.clamp {
            return Err(self.reserved(op, "clamp"));
        }
        if mods.omod != 0 && !can.omod {
            return Err(self.reserved(op, "omod"));
        }
        if mods.op_sel & !(if op.is(flag::OP_SEL) { sources | 8 } else { 0 }) != 0 {
            return Err(self.reserved(op, "op_sel"));
        }
        Ok(())
    }

    fn vop3p(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Vop3p, field(w, 16, 7))?;
        let w1 = self.word(1)?;
        if op.is(flag::MFMA) || op.is(flag::SMFMAC) {
            return self.mfma(op, w, w1);
        }
        let mut inst = self.inst(Family::Vop3p, op, 8);
        inst.dst = Src::vector(field8(w, 0, 8), op.name == "v_accvgpr_write_b32");
        for source in 0..op.src.len() {
            let code = field(w1, u32::try_from(source).unwrap_or(0) * 9, 9);
            let src = self.source(op, code)?;
            if src == Src::LITERAL {
                return Err(self.reserved(op, "a source"));
            }
            inst.src[source] = src;
        }
        if op.name == "v_accvgpr_read_b32" {
            match inst.src[0] {
                Src(code @ 256..=511) => inst.src[0] = Src(code + 256),
                _ => return Err(self.reserved(op, "a source")),
            }
        }
        inst.mods = Mods {
            neg: field8(w1, 29, 3),
            abs: field8(w, 8, 3),
            clamp: is_set(w, 15),
            omod: 0,
            op_sel: field8(w, 11, 3),
            op_sel_hi: field8(w1, 27, 2) | field8(w, 14, 1) << 2,
        };
        if op.name.starts_with("v_accvgpr") {
            inst.mods = Mods::default();
        }
        Ok(inst)
    }

    fn mfma(&self, op: &'static Op, w: u32, w1: u32) -> Result<Inst, DecodeError> {
        let mut inst = self.inst(Family::Vop3p, op, 8);
        let acc_cd = is_set(w, 15);
        inst.dst = Src::vector(field8(w, 0, 8), acc_cd);
        for source in 0..2 {
            let code = field(w1, source * 9, 9);
            if code < 256 {
                return Err(self.reserved(op, "a source"));
            }
            inst.src[source as usize] = Src::vector(field8(code, 0, 8), is_set(w1, 27 + source));
        }
        inst.src[2] = match self.source(op, field(w1, 18, 9))? {
            Src(code @ 256..) => Src::vector((code & 0xff) as u8, acc_cd && !op.is(flag::SMFMAC)),
            src @ Src(128..=208 | 240..=248) if !op.is(flag::SMFMAC) => src,
            _ => return Err(self.reserved(op, "a source")),
        };
        inst.matrix = [field8(w, 8, 3), field8(w, 11, 4), field8(w1, 29, 3)];
        Ok(inst)
    }

    fn ds(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Ds, field(w, 17, 8))?;
        let w1 = self.word(1)?;
        let mut inst = self.inst(Family::Ds, op, 8);
        let acc = is_set(w, 25);
        if op.name != "ds_nop" {
            inst.imm = signed(field(w, 0, 16), 17);
        }
        // The global data share is no part of compute on these parts.
        if is_set(w, 16) {
            return Err(self.reserved(op, "gds"));
        }
        if !op.is(flag::NO_ADDR) {
            inst.src[0] = Src::vgpr(field8(w1, 0, 8));
        }
        if op.dst != Ty::None {
            inst.dst = Src::vector(field8(w1, 24, 8), acc);
        }
        if !op.src.is_empty() {
            inst.src[1] = Src::vector(field8(w1, 8, 8), acc);
        }
        if op.src.len() > 1 {
            inst.src[2] = Src::vector(field8(w1, 16, 8), acc);
        }
        Ok(inst)
    }

    fn flat(&self, w: u32) -> Result<Inst, DecodeError> {
        let family = match field(w, 14, 2) {
            0 => Family::Flat,
            1 => Family::Scratch,
            2 => Family::Global,
            _ => return Err(DecodeError::Encoding(w)),
        };
        let op = self.find(family, field(w, 18, 7))?;
        let w1 = self.word(1)?;
        let mut inst = self.inst(family, op, 8);
        inst.imm =
            if family == Family::Flat { signed(field(w, 0, 12), 13) } else { signed(field(w, 0, 13), 13) };
        let acc = is_set(w1, 23);
        inst.cache = [(16, bit::GLC), (17, bit::SLC), (25, bit::SCC)]
            .into_iter()
            .filter(|(at, _)| is_set(w, *at))
            .fold(0, |bits, (_, bit)| bits | bit);
        let saddr = field(w1, 16, 7);
        let has_saddr = family != Family::Flat && saddr != 127;
        if has_saddr {
            inst.src[2] = self.scalar_dst(op, saddr)?;
        }
        // Scratch addresses come from a VGPR, an SGPR, or (gfx942, by the bit `sve`) none, one or both.
        let has_vaddr = match (family, self.arch) {
            (Family::Scratch, Arch::Gfx90a) => !has_saddr,
            (Family::Scratch, Arch::Gfx942) => is_set(w, 13),
            _ => true,
        };
        if has_vaddr {
            inst.src[0] = Src::vgpr(field8(w1, 0, 8));
        }
        let returns = inst.cache & bit::GLC != 0;
        if op.dst != Ty::None && (!op.is(flag::ATOMIC) || returns) {
            inst.dst = Src::vector(field8(w1, 24, 8), acc);
        }
        if !op.src.is_empty() {
            inst.src[1] = Src::vector(field8(w1, 8, 8), acc);
        }
        Ok(inst)
    }

    fn mubuf(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Mubuf, field(w, 18, 7))?;
        let w1 = self.word(1)?;
        let mut inst = self.inst(Family::Mubuf, op, 8);
        inst.cache = [
            (12, bit::OFFEN),
            (13, bit::IDXEN),
            (14, bit::GLC),
            (15, bit::SCC),
            (16, bit::LDS),
            (17, bit::SLC),
        ]
        .into_iter()
        .filter(|(at, _)| is_set(w, *at))
        .fold(0, |bits, (_, bit)| bits | bit);
        if op.dst == Ty::None && op.src.is_empty() && !op.is(flag::LDS) {
            // On gfx942 the cache bits say how far a write-back or invalidation goes.
            inst.cache &= match (self.arch, op.code) {
                (Arch::Gfx942, 0x28 | 0x29) => bit::GLC | bit::SLC | bit::SCC,
                _ => 0,
            };
            return Ok(inst);
        }
        let to_lds = op.is(flag::LDS)
            || matches!(
                op.name,
                "buffer_load_ubyte"
                    | "buffer_load_sbyte"
                    | "buffer_load_ushort"
                    | "buffer_load_sshort"
                    | "buffer_load_dword"
                    | "buffer_load_format_x"
            );
        if inst.cache & bit::LDS != 0 && !to_lds {
            return Err(self.reserved(op, "lds"));
        }
        inst.imm = signed(field(w, 0, 12), 13);
        let acc = is_set(w1, 23);
        let data = Src::vector(field8(w1, 8, 8), acc);
        if op.is(flag::LDS) || inst.cache & bit::LDS != 0 {
            inst.dst = Src::NONE;
        } else if op.src.is_empty() {
            inst.dst = data;
        } else {
            inst.src[1] = data;
            if op.is(flag::ATOMIC) && inst.cache & bit::GLC != 0 {
                inst.dst = data;
            }
        }
        if inst.cache & (bit::OFFEN | bit::IDXEN) != 0 {
            inst.src[0] = Src::vgpr(field8(w1, 0, 8));
        }
        inst.src[2] = self.scalar_dst(op, field(w1, 16, 5) * 4)?;
        inst.soffset = self.scalar(op, field(w1, 24, 8))?;
        if inst.soffset == Src::LITERAL {
            return Err(self.reserved(op, "the scalar offset"));
        }
        Ok(inst)
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
