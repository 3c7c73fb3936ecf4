//! Memory: SMEM, DS, FLAT with its relatives, and MUBUF.

use super::super::inst::{Inst, Src, bit};
use super::super::op::{Arch, Family, Ty, flag};
use super::{DecodeError, Source, field, field8, is_set, signed};

impl Source<'_> {
    pub(super) fn smem(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn ds(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn flat(&self, w: u32) -> Result<Inst, DecodeError> {
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

    pub(super) fn mubuf(&self, w: u32) -> Result<Inst, DecodeError> {
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
