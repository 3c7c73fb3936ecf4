//! Scalar operations: SOP1, SOP2, SOPC, SOPK and SOPP.

use super::super::inst::Inst;
use super::super::op::{Family, Ty};
use super::{DecodeError, Source, field, signed};

impl Source<'_> {
    pub(super) fn sop2(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn sop1(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn sopc(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn sopp(&self, w: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Sopp, field(w, 16, 7))?;
        let mut inst = self.inst(Family::Sopp, op, 4);
        if op.has_constant() {
            inst.imm = signed(field(w, 0, 16), 16);
        }
        Ok(inst)
    }

    pub(super) fn sopk(&self, w: u32) -> Result<Inst, DecodeError> {
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
}
