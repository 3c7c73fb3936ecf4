//! The short vector encodings VOP1, VOP2 and VOPC, with SDWA and DPP.

use super::super::inst::{Dpp, Form, Inst, Sdwa, Src};
use super::super::op::{Family, Ty, flag};
use super::{DecodeError, Source, field, field8, field16, is_set};

const SDWA: u32 = 249;
const DPP: u32 = 250;

impl Source<'_> {
    pub(super) fn vop2(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn vop1(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn vopc(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Vopc, field(w, 17, 8))?;
        let mut inst = self.inst(Family::Vopc, op, 4);
        inst.sdst = Src::VCC;
        inst.src[1] = Src::vgpr(field8(w, 9, 8));
        self.first_source(&mut inst, field(w, 0, 9))?;
        Ok(inst)
    }

    /// Source 0 of the short encodings, which also tells whether SDWA, DPP or a literal follow.
    pub(super) fn first_source(&self, inst: &mut Inst, code: u32) -> Result<(), DecodeError> {
        match code {
            SDWA => self.sdwa(inst),
            DPP => self.dpp(inst),
            _ => {
                inst.src[0] = self.source(inst.op, code)?;
                self.literal(inst)
            }
        }
    }

    pub(super) fn sdwa(&self, inst: &mut Inst) -> Result<(), DecodeError> {
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

    pub(super) fn dpp(&self, inst: &mut Inst) -> Result<(), DecodeError> {
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
}
