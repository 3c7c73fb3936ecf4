//! The opcodes: one file per encoding family, one line per opcode.
//!
//! Numbers and operand sizes were learnt from LLVM's assembler and AMD's public manuals of the MI200 and MI300
//! instruction sets.

mod ds;
mod flat;
mod mubuf;
mod smem;
mod sop1;
mod sop2;
mod sopc;
mod sopk;
mod sopp;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;
mod vopc;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::op::{Arch, Family, On, Op, Ty, flag};

/// A line of a table.
const fn op(code: u16, name: &'static str, on: On, dst: Ty, src: &'static [Ty], flags: u32) -> Op {
    let flags = if approximate(name) { flags | flag::APPROX } else { flags };
    Op { code, name, on, dst, src, flags }
}

/// The opcodes that hardware approximates, by the manuals: reciprocals, roots, exponentials, logarithms, sine and
/// cosine; and those that add up several products of floats in an order that the manuals do not say.
const fn approximate(name: &str) -> bool {
    let name = name.as_bytes();
    let prefixes: [&[u8]; 11] = [
        b"v_rcp_",
        b"v_rsq_",
        b"v_sqrt_",
        b"v_exp_",
        b"v_log_",
        b"v_sin_",
        b"v_cos_",
        b"v_dot2_f32_",
        b"v_dot2c_f32_",
        b"v_mfma_f",
        b"v_smfmac_f",
    ];
    let mut which = 0;
    while which < prefixes.len() {
        let prefix = prefixes[which];
        let mut at = 0;
        while at < prefix.len() && at < name.len() && name[at] == prefix[at] {
            at += 1;
        }
        if at == prefix.len() {
            return true;
        }
        which += 1;
    }
    false
}

/// Every table, by family.
pub(crate) const TABLES: [(Family, &[Op]); 16] = [
    (Family::Sop2, sop2::SOP2),
    (Family::Sopk, sopk::SOPK),
    (Family::Sop1, sop1::SOP1),
    (Family::Sopc, sopc::SOPC),
    (Family::Sopp, sopp::SOPP),
    (Family::Smem, smem::SMEM),
    (Family::Vop2, vop2::VOP2),
    (Family::Vop1, vop1::VOP1),
    (Family::Vopc, vopc::VOPC),
    (Family::Vop3, vop3::VOP3),
    (Family::Vop3p, vop3p::VOP3P),
    (Family::Ds, ds::DS),
    (Family::Flat, flat::FLAT),
    (Family::Scratch, flat::SCRATCH),
    (Family::Global, flat::GLOBAL),
    (Family::Mubuf, mubuf::MUBUF),
];

static INDEX: LazyLock<HashMap<(Arch, Family, u16), &'static Op>> = LazyLock::new(|| {
    let mut index = HashMap::new();
    for arch in [Arch::Gfx90a, Arch::Gfx942] {
        for (family, table) in TABLES {
            for op in table.iter().filter(|op| op.on.has(arch)) {
                index.insert((arch, family, op.code), op);
            }
        }
    }
    index
});

/// The opcode with this number.
pub(crate) fn find(arch: Arch, family: Family, code: u16) -> Option<&'static Op> {
    INDEX.get(&(arch, family, code)).copied()
}
