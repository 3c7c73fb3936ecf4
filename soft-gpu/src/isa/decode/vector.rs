//! The long vector encodings VOP3 and VOP3P, matrix operations among them.

use super::super::inst::{Form, Inst, Mods, Src};
use super::super::op::{Family, Op, Ty, flag};
use super::{DecodeError, Source, can, field, field8, is_set};

impl Source<'_> {
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

    pub(super) fn vop3(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn vop3p(&self, w: u32) -> Result<Inst, DecodeError> {
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
}
