//! Text of instructions, as LLVM's disassembler prints it.

mod control;
mod memory;
mod operand;

use std::fmt::{self, Display, Formatter};

use super::inst::{Dpp, Form, Inst, Sdwa, Src};
use super::op::{Family, Ty, flag};
use operand::Operand;

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.op.name)?;
        match self.family {
            Family::Sop2 | Family::Sop1 | Family::Sopc => self.scalar(f),
            Family::Sopk => self.sopk(f),
            Family::Sopp => self.sopp(f),
            Family::Smem => self.smem(f),
            Family::Vop2 | Family::Vop1 | Family::Vopc | Family::Vop3 => self.vector(f),
            Family::Vop3p if self.is_matrix() => self.matrix(f),
            Family::Vop3p => self.packed(f),
            Family::Ds => self.ds(f),
            Family::Flat | Family::Scratch | Family::Global => self.flat(f),
            Family::Mubuf => self.mubuf(f),
        }
    }
}

/// Writes operands with commas between them.
struct List<'a, 'f> {
    f: &'a mut Formatter<'f>,
    first: bool,
}

impl<'a, 'f> List<'a, 'f> {
    fn new(f: &'a mut Formatter<'f>) -> Self {
        Self { f, first: true }
    }

    fn add(&mut self, item: impl Display) -> fmt::Result {
        let separator = if self.first { " " } else { ", " };
        self.first = false;
        write!(self.f, "{separator}{item}")
    }
}

/// One bit per source as LLVM lists them: `name:[0,1,1]`.
fn bits(f: &mut Formatter<'_>, name: &str, value: u8, count: usize) -> fmt::Result {
    let list: Vec<&str> = (0..count).map(|at| if value >> at & 1 != 0 { "1" } else { "0" }).collect();
    write!(f, " {name}:[{}]", list.join(","))
}

impl Inst {
    /// Whether it is a matrix operation.
    #[must_use]
    pub fn is_matrix(&self) -> bool {
        self.op.flags & (flag::MFMA | flag::SMFMAC) != 0
    }

    fn operand(&self, src: Src, ty: Ty) -> Operand {
        Operand {
            src,
            ty,
            literal: self.literal,
            neg: false,
            abs: false,
            sext: false,
            whole_literal: self.op.flags & (flag::MADMK | flag::MADAK) != 0,
        }
    }

    fn scalar(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut list = List::new(f);
        if self.op.dst != Ty::None {
            list.add(self.operand(self.dst, self.op.dst))?;
        }
        if self.op.name == "s_set_gpr_idx_on" {
            list.add(self.operand(self.src[0], Ty::B(1)))?;
            return list.add(control::gpr_idx(self.imm));
        }
        for (src, ty) in self.src.iter().zip(self.op.src) {
            list.add(self.operand(*src, *ty))?;
        }
        Ok(())
    }

    /// The suffix that names the form.
    fn suffix(&self) -> &'static str {
        match self.form {
            Form::Sdwa(_) => "_sdwa",
            Form::Dpp(_) => "_dpp",
            Form::Long => "_e64",
            Form::Short if self.family == Family::Vop3 || self.op.is(flag::NO_E64) => {
                if self.op.name == "v_pk_fmac_f16" { "_e32" } else { "" }
            }
            Form::Short => "_e32",
        }
    }

    fn vector(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.op.dst == Ty::None && self.op.src.is_empty() {
            return Ok(());
        }
        f.write_str(self.suffix())?;
        let mut list = List::new(f);
        if self.family == Family::Vopc {
            list.add(self.operand(self.sdst, Ty::Mask))?;
        } else {
            list.add(self.operand(self.dst, self.op.dst))?;
        }
        if self.op.is(flag::CARRY_OUT) {
            list.add(self.operand(self.sdst, Ty::Mask))?;
        }
        let sext = if let Form::Sdwa(sdwa) = self.form { sdwa.sext } else { 0 };
        for (at, ty) in self.op.src.iter().enumerate() {
            list.add(Operand {
                neg: self.mods.neg >> at & 1 != 0,
                abs: self.mods.abs >> at & 1 != 0,
                sext: sext >> at & 1 != 0,
                whole_literal: self.op.is(flag::MADMK) && at == 1 || self.op.is(flag::MADAK) && at == 2,
                ..self.operand(self.src[at], *ty)
            })?;
        }
        self.vector_mods(f)
    }

    fn vector_mods(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.mods.op_sel != 0 {
            // Stochastic rounding selects one of four bytes with the bits of the third source and the destination.
            let sources = if self.op.name.starts_with("v_cvt_sr") { 3 } else { self.op.src.len() };
            let shown = self.mods.op_sel & ((1 << sources) - 1) | (self.mods.op_sel >> 3 & 1) << sources;
            bits(f, "op_sel", shown, sources + 1)?;
        }
        if self.mods.clamp {
            f.write_str(" clamp")?;
        }
        f.write_str(["", " mul:2", " mul:4", " div:2"][usize::from(self.mods.omod & 3)])?;
        match self.form {
            Form::Sdwa(sdwa) => self.sdwa(f, sdwa),
            Form::Dpp(dpp) => dpp_text(f, dpp),
            Form::Short | Form::Long => Ok(()),
        }
    }

    fn sdwa(&self, f: &mut Formatter<'_>, sdwa: Sdwa) -> fmt::Result {
        const SEL: [&str; 8] = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "?"];
        const UNUSED: [&str; 4] = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "?"];
        if self.family != Family::Vopc {
            write!(f, " dst_sel:{}", SEL[usize::from(sdwa.dst_sel & 7)])?;
            write!(f, " dst_unused:{}", UNUSED[usize::from(sdwa.dst_unused & 3)])?;
        }
        write!(f, " src0_sel:{}", SEL[usize::from(sdwa.src_sel[0] & 7)])?;
        if self.op.src.len() > 1 {
            write!(f, " src1_sel:{}", SEL[usize::from(sdwa.src_sel[1] & 7)])?;
        }
        Ok(())
    }

    fn packed(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mix = self.op.is(flag::MIX);
        let sources = self.op.src.len();
        let mut list = List::new(f);
        list.add(self.operand(self.dst, self.op.dst))?;
        for (at, ty) in self.op.src.iter().enumerate() {
            list.add(Operand {
                neg: mix && self.mods.neg >> at & 1 != 0,
                abs: mix && self.mods.abs >> at & 1 != 0,
                ..self.operand(self.src[at], *ty)
            })?;
        }
        if self.op.name.starts_with("v_accvgpr") {
            return Ok(());
        }
        let all = (1 << sources) - 1;
        if self.mods.op_sel & all != 0 {
            bits(f, "op_sel", self.mods.op_sel, sources)?;
        }
        if self.mods.op_sel_hi & all != if mix { 0 } else { all } {
            bits(f, "op_sel_hi", self.mods.op_sel_hi, sources)?;
        }
        if !mix && self.mods.neg & all != 0 {
            bits(f, "neg_lo", self.mods.neg, sources)?;
        }
        if !mix && self.mods.abs & all != 0 {
            bits(f, "neg_hi", self.mods.abs, sources)?;
        }
        f.write_str(if self.mods.clamp { " clamp" } else { "" })
    }

    fn matrix(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut list = List::new(f);
        list.add(self.operand(self.dst, self.op.dst))?;
        for (src, ty) in self.src.iter().zip(self.op.src) {
            // Constants of C are floats or integers of 32 bits, whatever its size.
            let ty = if src.is_vector() {
                *ty
            } else if self.op.name.contains("f64") {
                Ty::F64
            } else {
                Ty::B(1)
            };
            list.add(self.operand(*src, ty))?;
        }
        let [cbsz, abid, blgp] = self.matrix;
        if cbsz != 0 {
            write!(f, " cbsz:{cbsz}")?;
        }
        if abid != 0 {
            write!(f, " abid:{abid}")?;
        }
        match blgp {
            0 => Ok(()),
            _ if self.op.on == super::On::B && self.op.name.starts_with("v_mfma_f64") => {
                bits(f, "neg", blgp, 3)
            }
            _ => write!(f, " blgp:{blgp}"),
        }
    }
}

fn dpp_text(f: &mut Formatter<'_>, dpp: Dpp) -> fmt::Result {
    let ctrl = dpp.ctrl;
    match ctrl {
        0..=0xff => {
            let lane = |at: u16| ctrl >> (at * 2) & 3;
            write!(f, " quad_perm:[{},{},{},{}]", lane(0), lane(1), lane(2), lane(3))
        }
        0x101..=0x10f => write!(f, " row_shl:{}", ctrl - 0x100),
        0x111..=0x11f => write!(f, " row_shr:{}", ctrl - 0x110),
        0x121..=0x12f => write!(f, " row_ror:{}", ctrl - 0x120),
        0x130 => f.write_str(" wave_shl:1"),
        0x134 => f.write_str(" wave_rol:1"),
        0x138 => f.write_str(" wave_shr:1"),
        0x13c => f.write_str(" wave_ror:1"),
        0x140 => f.write_str(" row_mirror"),
        0x141 => f.write_str(" row_half_mirror"),
        0x142 => f.write_str(" row_bcast:15"),
        0x143 => f.write_str(" row_bcast:31"),
        0x150..=0x15f => write!(f, " row_newbcast:{}", ctrl - 0x150),
        _ => write!(f, " dpp_ctrl:{ctrl:#x}"),
    }?;
    write!(f, " row_mask:{:#x} bank_mask:{:#x}", dpp.row_mask, dpp.bank_mask)?;
    f.write_str(if dpp.bound_ctrl { " bound_ctrl:1" } else { "" })
}
