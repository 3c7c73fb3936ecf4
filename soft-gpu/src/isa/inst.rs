//! A decoded instruction.

use super::op::{Arch, Family, Op};

/// An operand as the encodings number them: 0 to 127 are scalar registers, 128 to 255 constants and special values
/// ([`Src::LITERAL`] is [`Inst::literal`]), 256 to 511 VGPRs, 512 to 767 accumulation VGPRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Src(pub u16);

impl Src {
    /// No operand.
    pub const NONE: Src = Src(u16::MAX);
    /// The literal behind the instruction.
    pub const LITERAL: Src = Src(255);
    /// VCC.
    pub const VCC: Src = Src(106);
    /// EXEC.
    pub const EXEC: Src = Src(126);

    /// VGPR `index`.
    #[must_use]
    pub const fn vgpr(index: u8) -> Self {
        Src(256 + index as u16)
    }

    /// VGPR, or accumulation VGPR where `acc`.
    #[must_use]
    pub const fn vector(index: u8, acc: bool) -> Self {
        Src(if acc { 512 } else { 256 } + index as u16)
    }

    /// Whether it is a VGPR or accumulation VGPR.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        self.0 >= 256 && self.0 < 768
    }
}

/// Modifiers of VOP3 and VOP3P; all zero otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mods {
    /// Bit per source: negate (VOP3P: the low half).
    pub neg: u8,
    /// Bit per source: absolute value (VOP3P: negate the high half).
    pub abs: u8,
    /// Clamp the result.
    pub clamp: bool,
    /// Multiply the result by 2, 4 or 0.5 (1, 2, 3).
    pub omod: u8,
    /// Bit per source: take the upper half (VOP3P: for the low result); bit 3: write the upper half.
    pub op_sel: u8,
    /// VOP3P: bit per source: take the upper half for the high result.
    pub op_sel_hi: u8,
}

/// Sub-dword addressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sdwa {
    /// Part of the destination that is written (0 to 3 bytes, 4 and 5 words, 6 all).
    pub dst_sel: u8,
    /// What happens to the other bits: 0 zero, 1 sign extension, 2 preserved.
    pub dst_unused: u8,
    /// Parts of the sources.
    pub src_sel: [u8; 2],
    /// Bit per source: sign extension of the part.
    pub sext: u8,
}

/// Data-parallel primitives: the first source comes from other lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dpp {
    /// Which lanes (`dpp_ctrl`).
    pub ctrl: u16,
    /// Lanes without a source read zero; otherwise they are not written.
    pub bound_ctrl: bool,
    /// Banks of four lanes that are written.
    pub bank_mask: u8,
    /// Rows of sixteen lanes that are written.
    pub row_mask: u8,
}

/// Which form of its family an instruction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The only or short form.
    Short,
    /// A VOP2, VOP1 or VOPC opcode in the VOP3 encoding.
    Long,
    /// With sub-dword addressing.
    Sdwa(Sdwa),
    /// With data from other lanes.
    Dpp(Dpp),
}

/// Bits of [`Inst::cache`]: cache policies and the like of memory instructions, by their place in the encodings.
pub mod bit {
    /// `glc` (gfx942: `sc0`): an atomic returns the old value.
    pub const GLC: u8 = 1;
    /// `slc` (gfx942: `nt`).
    pub const SLC: u8 = 2;
    /// `scc` (gfx942: `sc1`).
    pub const SCC: u8 = 4;
    /// `lds`.
    pub const LDS: u8 = 8;
    /// `offen`.
    pub const OFFEN: u8 = 16;
    /// `idxen`.
    pub const IDXEN: u8 = 32;
    /// `gds`.
    pub const GDS: u8 = 64;
    /// `nv` (SMEM).
    pub const NV: u8 = 128;
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    /// For which architecture it was decoded.
    pub arch: Arch,
    /// Family of the opcode (VOP2 for a VOP2 opcode in the VOP3 encoding).
    pub family: Family,
    /// The opcode.
    pub op: &'static Op,
    /// The form.
    pub form: Form,
    /// Length in bytes: 4, 8 or 12.
    pub size: u8,
    /// Destination; data of loads.
    pub dst: Src,
    /// Scalar destination of VOP3B, VOPC.
    pub sdst: Src,
    /// Sources. Memory: address, data, second data or scalar address.
    pub src: [Src; 3],
    /// MUBUF: the scalar offset; SMEM: the scalar offset or none.
    pub soffset: Src,
    /// Value of [`Src::LITERAL`].
    pub literal: u32,
    /// 16-bit constant, or memory offset.
    pub imm: i32,
    /// Modifiers.
    pub mods: Mods,
    /// Bits of [`bit`].
    pub cache: u8,
    /// Matrix operations: `cbsz`, `abid`, `blgp`.
    pub matrix: [u8; 3],
    /// Nothing changes the lanes of sources and result on their way ([`Inst::is_plain`]).
    pub plain: bool,
}

impl Inst {
    /// Whether the lanes of sources and result are taken as they are: no modifiers, parts of registers or other lanes.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let Mods { neg, abs, clamp, omod, op_sel, .. } = self.mods;
        matches!(self.form, Form::Short | Form::Long)
            && neg | abs | omod | op_sel == 0
            && !clamp
            && !self.op.is(super::op::flag::OP_SEL)
    }
}

impl PartialEq for Inst {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}
