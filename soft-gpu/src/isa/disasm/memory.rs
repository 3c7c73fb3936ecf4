//! Text of memory instructions.

use std::fmt::{self, Formatter};

use super::{List, control, operand};
use crate::isa::inst::{Inst, Src, bit};
use crate::isa::op::{Arch, Family, Ty, flag};

impl Inst {
    pub(super) fn smem(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut list = List::new(f);
        if self.op.dst != Ty::None {
            list.add(self.operand(self.dst, self.op.dst))?;
        }
        if self.op.name.starts_with("s_atc_probe") {
            list.add(operand::literal(u32::from(self.matrix[0])))?;
        }
        if self.op.is(flag::STORE) {
            list.add(self.operand(self.src[1], self.op.src[1]))?;
        }
        if let Some(base) = self.op.src.first() {
            list.add(self.operand(self.src[0], *base))?;
            let sign = if self.imm < 0 { "-" } else { "" };
            let imm = format!("{sign}{:#x}", self.imm.unsigned_abs());
            match (self.soffset, self.imm) {
                (Src::NONE, _) => list.add(imm)?,
                (soffset, 0) => list.add(self.operand(soffset, Ty::B(1)))?,
                (soffset, _) => {
                    list.add(self.operand(soffset, Ty::B(1)))?;
                    write!(f, " offset:{imm}")?;
                }
            }
        }
        if self.cache & bit::GLC != 0 {
            f.write_str(" glc")?;
        }
        Ok(())
    }

    pub(super) fn ds(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut list = List::new(f);
        if self.op.dst != Ty::None {
            list.add(self.operand(self.dst, self.op.dst))?;
        }
        if self.src[0] != Src::NONE {
            list.add(self.operand(self.src[0], Ty::B(1)))?;
        }
        for (src, ty) in self.src[1..].iter().zip(self.op.src) {
            list.add(self.operand(*src, *ty))?;
        }
        if self.op.is(flag::TWO) {
            let [low, high, ..] = self.imm.to_le_bytes();
            for (name, offset) in [("offset0", low), ("offset1", high)].into_iter().filter(|(_, o)| *o != 0) {
                write!(f, " {name}:{offset}")?;
            }
        } else if self.op.name == "ds_swizzle_b32" {
            control::swizzle(f, self.imm)?;
        } else if self.imm != 0 {
            write!(f, " offset:{}", self.imm)?;
        }
        f.write_str(if self.cache & bit::GDS != 0 { " gds" } else { "" })
    }

    pub(super) fn flat(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut list = List::new(f);
        if self.dst != Src::NONE {
            list.add(self.operand(self.dst, self.op.dst))?;
        }
        let segment = self.family != Family::Flat;
        let address = match (self.family, self.src[2]) {
            // The scalar base makes the vector part an offset.
            (Family::Scratch, _) => Ty::B(1),
            (Family::Global, saddr) if saddr != Src::NONE => Ty::B(1),
            _ => Ty::B(2),
        };
        match self.src[0] {
            Src::NONE => list.add("off")?,
            vaddr => list.add(self.operand(vaddr, address))?,
        }
        if let Some(data) = self.op.src.first() {
            list.add(self.operand(self.src[1], *data))?;
        }
        if segment {
            match self.src[2] {
                Src::NONE => list.add("off")?,
                saddr => list.add(
                    self.operand(saddr, if self.family == Family::Scratch { Ty::B(1) } else { Ty::B(2) }),
                )?,
            }
        }
        if self.imm != 0 {
            write!(f, " offset:{}", self.imm)?;
        }
        self.cache_policy(f)
    }

    pub(super) fn mubuf(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let has = |bit| self.cache & bit != 0;
        if self.src[2] == Src::NONE {
            return if self.arch == Arch::Gfx942 { self.cache_policy(f) } else { Ok(()) };
        }
        let mut list = List::new(f);
        match (self.dst, self.src[1]) {
            (Src::NONE, Src::NONE) => {}
            (dst, Src::NONE) => list.add(self.operand(dst, self.op.dst))?,
            (_, data) => list.add(self.operand(data, self.op.src[0]))?,
        }
        match self.src[0] {
            Src::NONE => list.add("off")?,
            vaddr => {
                let ty = if has(bit::OFFEN) && has(bit::IDXEN) { Ty::B(2) } else { Ty::B(1) };
                list.add(self.operand(vaddr, ty))?;
            }
        }
        list.add(self.operand(self.src[2], Ty::B(4)))?;
        list.add(self.operand(self.soffset, Ty::B(1)))?;
        f.write_str(if has(bit::IDXEN) { " idxen" } else { "" })?;
        f.write_str(if has(bit::OFFEN) { " offen" } else { "" })?;
        if self.imm != 0 {
            write!(f, " offset:{}", self.imm)?;
        }
        self.cache_policy(f)?;
        f.write_str(if has(bit::LDS) { " lds" } else { "" })
    }

    fn cache_policy(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = match self.arch {
            Arch::Gfx90a => [" glc", " slc", " scc"],
            Arch::Gfx942 => [" sc0", " nt", " sc1"],
        };
        for (name, bit) in names.into_iter().zip([bit::GLC, bit::SLC, bit::SCC]) {
            f.write_str(if self.cache & bit != 0 { name } else { "" })?;
        }
        Ok(())
    }
}
