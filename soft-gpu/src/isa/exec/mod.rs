//! Execution of waves.
//!
//! [`Wave`] has the registers, as one array of 64 lanes for each vector register. A body computes one opcode; each
//! encoding family has a file with a table of them, one line for each opcode. Bodies of vector opcodes
//! are pure functions of a lane's values, carried over the lanes by [`lanes`]. Memory is a trait that the
//! owner of the waves implements.

// Loops over lanes walk several arrays at once; comparisons that are true for NaN are what some opcodes are for.
#![allow(clippy::needless_range_loop, clippy::neg_cmp_op_on_partial_ord)]

mod code;
mod control;
mod dpp;
mod ds;
mod f16;
mod flat;
mod float;
mod group;
mod lanes;
mod memory;
mod mfma;
mod modify;
mod mubuf;
mod operands;
pub mod report;
mod rounding;
mod scalar;
mod smem;
mod value;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;
mod vopc;
mod wave;
mod wide;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use code::CodeCache;
pub use group::{Group, GroupConfig, Progress};
pub(crate) use memory::active;
pub use memory::{MemFault, Memory};
pub use wave::{Aperture, LANES, Lds, Registers, Wave};

use super::decode::DecodeError;
use super::inst::{Inst, Src};
use super::op::{Family, Ty};

/// What an instruction's body works with besides the wave.
pub struct Env<'a> {
    /// Memory by GPU virtual address.
    pub memory: &'a dyn Memory,
    /// The workgroup's local data share.
    pub lds: &'a mut Lds,
}

/// Where a wave goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Behind the instruction.
    Next,
    /// At an address.
    Jump(u64),
    /// Behind the instruction, when all waves of the group have arrived.
    Barrier,
    /// Behind the instruction, but others may run first.
    Yield,
    /// The wave ends.
    End,
}

/// Why a wave stops before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trap {
    /// A memory access that is not allowed.
    #[error("{0}")]
    Fault(#[from] MemFault),
    /// The bytes at the program counter are no instruction.
    #[error("illegal instruction: {0}")]
    Illegal(#[from] DecodeError),
    /// An instruction that is known and not executed.
    #[error("`{text}` is not executed: {why}")]
    Unsupported {
        /// The instruction's text.
        text: String,
        /// What is missing.
        why: &'static str,
    },
    /// `s_trap`.
    #[error("s_trap {0}")]
    Trap(u8),
}

/// A trap with the place where it happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {pc:#x}: {trap}")]
pub struct TrapAt {
    /// Program counter of the instruction.
    pub pc: u64,
    /// What happened.
    pub trap: Trap,
}

/// Executes one instruction.
pub(super) type Body = fn(&mut Wave, &Inst, &mut Env<'_>) -> Result<Flow, Trap>;

/// A line of a table of bodies.
pub(super) type Line = (&'static str, Body);

static BODIES: LazyLock<HashMap<&'static str, Body>> = LazyLock::new(|| {
    let tables: [&[Line]; 17] = [
        scalar::SOP1,
        scalar::SOP2,
        scalar::SOPC,
        scalar::SOPK,
        control::SOPP,
        smem::SMEM,
        vop1::VOP1,
        vop2::VOP2,
        vop3::VOP3,
        vop3p::VOP3P,
        mfma::MFMA,
        ds::DS,
        ds::ATOMICS_32,
        ds::ATOMICS_64,
        flat::FLAT,
        mubuf::MUBUF,
        vopc::EXTRA,
    ];
    let mut bodies: HashMap<_, _> = tables.into_iter().flatten().copied().collect();
    bodies.extend(vopc::comparisons());
    bodies
});

/// The body of an instruction, or why there is none.
pub(super) fn bind(inst: &Inst) -> Result<Body, Trap> {
    let unsupported = |why| Trap::Unsupported { text: inst.to_string(), why };
    if inst.mods.clamp && !has_float(inst) && inst.family != Family::Vopc {
        let mut saturating = vop3::SATURATING.iter().chain(vop3p::SATURATING);
        let body = saturating.find(|(name, _)| *name == inst.op.name);
        return body.map(|(_, body)| *body).ok_or_else(|| unsupported("this opcode with saturation"));
    }
    BODIES.get(inst.op.name).copied().ok_or_else(|| unsupported("this opcode has no implementation yet"))
}

/// Whether the clamp bit means 0 to 1.
fn has_float(inst: &Inst) -> bool {
    inst.op.dst.is_float() || matches!(inst.op.dst, Ty::PkF16 | Ty::PkF32)
}

/// Whether an opcode is executed at all, by its name.
#[must_use]
pub fn is_executed(name: &str) -> bool {
    BODIES.contains_key(name)
}

/// The vector registers of an instruction, moved as the low byte of M0 says: sources 0 to 2 and the destination where bit 12 to 15
/// of M0 is set. Only vector operations are affected.
#[cold]
fn indexed(wave: &Wave, inst: &Inst) -> Inst {
    let is_vector =
        matches!(inst.family, Family::Vop1 | Family::Vop2 | Family::Vop3 | Family::Vop3p | Family::Vopc);
    let (m0, mut moved) = (wave.s[wave::M0], *inst);
    let [s0, s1, s2] = &mut moved.src;
    for (at, operand) in [s0, s1, s2, &mut moved.dst].into_iter().enumerate() {
        if is_vector && m0 >> (12 + at) & 1 != 0 && operand.is_vector() {
            // Beyond the last register it is register 0.
            let (file, index) = (operand.0 & !255, (u32::from(operand.0 & 255) + (m0 & 255)) as u16);
            *operand = Src(file + if index < 256 { index } else { 0 });
        }
    }
    moved
}

/// See [`perform`]: vector registers are relative, or rounding or denormals are not what programs have nearly always.
#[cold]
fn perform_unusual(body: Body, wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<Flow, Trap> {
    let body = rounding::body(wave, inst, body)?;
    if wave.mode & wave::MODE_GPR_INDEX != 0 {
        let moved = indexed(wave, inst);
        return body(wave, &moved, env);
    }
    body(wave, inst, env)
}

/// Executes a decoded instruction with its body.
#[inline(always)]
pub(super) fn perform(body: Body, wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<Flow, Trap> {
    if (wave.mode ^ wave::MODE_DENORM_64_16) & wave::MODE_UNUSUAL != 0 {
        return perform_unusual(body, wave, inst, env);
    }
    body(wave, inst, env)
}

/// Executes one decoded instruction; the program counter is the caller's business.
///
/// # Errors
/// What stops the wave.
pub fn execute(wave: &mut Wave, inst: &Inst, env: &mut Env<'_>) -> Result<Flow, Trap> {
    perform(bind(inst)?, wave, inst, env)
}
