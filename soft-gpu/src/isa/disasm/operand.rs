//! Text of operands.

use std::fmt::{self, Display, Formatter};

use crate::isa::inst::Src;
use crate::isa::op::Ty;

/// An operand with what its text depends on.
pub(super) struct Operand {
    pub(super) src: Src,
    pub(super) ty: Ty,
    pub(super) literal: u32,
    pub(super) neg: bool,
    pub(super) abs: bool,
    pub(super) sext: bool,
    /// All of a literal is shown, although a 16-bit operand uses half of it.
    pub(super) whole_literal: bool,
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Src(code) = self.src;
        // "-1" would be the constant minus one.
        let constant = (128..256).contains(&code) && !matches!(code, 235..=238 | 251..=253);
        let (open, close) = match (self.neg, self.abs, self.sext) {
            (true, true, _) => ("-|", "|"),
            (true, false, _) if constant => ("neg(", ")"),
            (true, false, _) => ("-", ""),
            (false, true, _) => ("|", "|"),
            (_, _, true) => ("sext(", ")"),
            _ => ("", ""),
        };
        f.write_str(open)?;
        self.bare(f)?;
        f.write_str(close)
    }
}

impl Operand {
    fn bare(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Src(code) = self.src;
        let count = u16::from(self.ty.dwords().max(1));
        match code {
            0..=127 => scalar(f, code, count),
            128..=192 => write!(f, "{}", code - 128),
            193..=208 => write!(f, "-{}", code - 192),
            240..=247 => f.write_str(FLOATS[usize::from(code - 240)]),
            248 if matches!(self.ty, Ty::F64 | Ty::B(2)) => f.write_str("0.15915494309189532"),
            248 => f.write_str("0.15915494"),
            255 => self.literal(f),
            256..=511 => range(f, "v", code - 256, count),
            512..=767 => range(f, "a", code - 512, count),
            _ => f.write_str(special(code)),
        }
    }

    fn literal(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.ty {
            // Only the low half is used.
            Ty::F16 | Ty::B16 if !self.whole_literal => write!(f, "{:#x}", self.literal & 0xffff),
            Ty::F64 | Ty::B(2) => write!(f, "{:#x}", self.literal),
            _ => f.write_str(&literal(self.literal)),
        }
    }
}

/// A constant of 32 bits: those that need no literal are written as if they had none.
pub(super) fn literal(value: u32) -> String {
    match value.cast_signed() {
        small @ -16..=64 => small.to_string(),
        _ => format!("{value:#x}"),
    }
}

const FLOATS: [&str; 8] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"];

fn special(code: u16) -> &'static str {
    match code {
        235 => "src_shared_base",
        236 => "src_shared_limit",
        237 => "src_private_base",
        238 => "src_private_limit",
        251 => "src_vccz",
        252 => "src_execz",
        253 => "src_scc",
        _ => "?",
    }
}

/// Scalar registers from `code` on.
pub(super) fn scalar(f: &mut Formatter<'_>, code: u16, count: u16) -> fmt::Result {
    let named = |f: &mut Formatter<'_>, name: &str, first: u16| match (count, code - first) {
        (1, 0) => write!(f, "{name}_lo"),
        (1, _) => write!(f, "{name}_hi"),
        _ => f.write_str(name),
    };
    match code {
        102 | 103 => named(f, "flat_scratch", 102),
        104 | 105 => named(f, "xnack_mask", 104),
        106 | 107 => named(f, "vcc", 106),
        126 | 127 => named(f, "exec", 126),
        124 => f.write_str("m0"),
        108..=123 => range(f, "ttmp", code - 108, count),
        _ => range(f, "s", code, count),
    }
}

fn range(f: &mut Formatter<'_>, prefix: &str, first: u16, count: u16) -> fmt::Result {
    match count {
        1 => write!(f, "{prefix}{first}"),
        _ => write!(f, "{prefix}[{first}:{}]", first + count - 1),
    }
}
