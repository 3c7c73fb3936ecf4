//! Text of constants with a meaning: wait counters, hardware registers, messages, swizzles.

use std::fmt::{self, Formatter};

use super::List;
use super::operand::literal;
use crate::isa::inst::Inst;
use crate::isa::op::{Arch, Ty};

/// The low 16 bits of a constant.
fn low16(imm: i32) -> u32 {
    imm.cast_unsigned() & 0xffff
}

impl Inst {
    pub(super) fn sopk(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.op.name;
        let mut list = List::new(f);
        if name.starts_with("s_setreg") {
            list.add(hwreg(self.arch, self.imm))?;
            return match self.size {
                8 => list.add(literal(self.literal)),
                _ => list.add(self.operand(self.src[0], Ty::B(1))),
            };
        }
        match self.op.src.first() {
            Some(ty) => list.add(self.operand(self.src[0], *ty))?,
            None => list.add(self.operand(self.dst, self.op.dst))?,
        }
        match name {
            "s_getreg_b32" => list.add(hwreg(self.arch, self.imm)),
            "s_call_b64" | "s_cbranch_i_fork" => list.add(low16(self.imm)),
            _ => list.add(format_args!("{:#x}", low16(self.imm))),
        }
    }

    pub(super) fn sopp(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let imm = low16(self.imm);
        match self.op.name {
            "s_endpgm" if imm == 0 => Ok(()),
            _ if !self.op.has_constant() => Ok(()),
            "s_waitcnt" => waitcnt(f, imm),
            "s_sendmsg" | "s_sendmsghalt" => write!(f, " {}", sendmsg(imm)),
            "s_set_gpr_idx_mode" => write!(f, " {}", gpr_idx(self.imm)),
            name if name.contains("branch") || name == "s_endpgm" => write!(f, " {imm}"),
            _ if imm <= 64 => write!(f, " {imm}"),
            _ => write!(f, " {imm:#x}"),
        }
    }
}

/// `gpr_idx(...)`: which operands are indexed.
pub(super) fn gpr_idx(imm: i32) -> String {
    let names: Vec<&str> = ["SRC0", "SRC1", "SRC2", "DST"]
        .into_iter()
        .enumerate()
        .filter(|(at, _)| imm >> at & 1 != 0)
        .map(|(_, name)| name)
        .collect();
    if imm & !15 != 0 { format!("{:#x}", low16(imm)) } else { format!("gpr_idx({})", names.join(",")) }
}

/// Counters that are waited for; those at their maximum are not named, unless all are.
fn waitcnt(f: &mut Formatter<'_>, imm: u32) -> fmt::Result {
    let vm = imm & 15 | (imm >> 14 & 3) << 4;
    let counters = [("vmcnt", vm, 63), ("expcnt", imm >> 4 & 7, 7), ("lgkmcnt", imm >> 8 & 15, 15)];
    let all = counters.iter().all(|(_, value, max)| value == max);
    for (name, value, _) in counters.into_iter().filter(|(_, value, max)| all || value != max) {
        write!(f, " {name}({value})")?;
    }
    Ok(())
}

fn sendmsg(imm: u32) -> String {
    const GS_OPS: [&str; 4] = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"];
    let (id, op, stream) = (imm & 15, imm >> 4 & 7, imm >> 8 & 3);
    const SYSTEM_OPS: [&str; 5] =
        ["", "SYSMSG_OP_ECC_ERR_INTERRUPT", "SYSMSG_OP_REG_RD", "", "SYSMSG_OP_TTRACE_PC"];
    let name = match id {
        1 => "MSG_INTERRUPT",
        2 => "MSG_GS",
        3 => "MSG_GS_DONE",
        4 => "MSG_SAVEWAVE",
        5 => "MSG_STALL_WAVE_GEN",
        6 => "MSG_HALT_WAVES",
        7 => "MSG_ORDERED_PS_DONE",
        8 => "MSG_EARLY_PRIM_DEALLOC",
        9 => "MSG_GS_ALLOC_REQ",
        10 => "MSG_GET_DOORBELL",
        _ => "",
    };
    match (id, op, stream) {
        (2 | 3, 1..4, _) => format!("sendmsg({name}, {}, {stream})", GS_OPS[op as usize]),
        (15, 1 | 2 | 4, 0) => format!("sendmsg(MSG_SYSMSG, {})", SYSTEM_OPS[op as usize]),
        (3, 0, 0) => format!("sendmsg({name}, GS_OP_NOP)"),
        (1 | 4..=10, 0, 0) => format!("sendmsg({name})"),
        _ if imm & !0x37f != 0 => format!("{imm}"),
        _ => format!("sendmsg({id}, {op}, {stream})"),
    }
}

const HWREGS: [(u32, &str); 10] = [
    (1, "HW_REG_MODE"),
    (2, "HW_REG_STATUS"),
    (3, "HW_REG_TRAPSTS"),
    (4, "HW_REG_HW_ID"),
    (5, "HW_REG_GPR_ALLOC"),
    (6, "HW_REG_LDS_ALLOC"),
    (7, "HW_REG_IB_STS"),
    (15, "HW_REG_SH_MEM_BASES"),
    (16, "HW_REG_TBA_LO"),
    (17, "HW_REG_TBA_HI"),
];
const MORE_HWREGS: [(u32, &str); 2] = [(18, "HW_REG_TMA_LO"), (19, "HW_REG_TMA_HI")];
const GFX942_HWREGS: [(u32, &str); 4] = [
    (20, "HW_REG_XCC_ID"),
    (21, "HW_REG_SQ_PERF_SNAPSHOT_DATA"),
    (22, "HW_REG_SQ_PERF_SNAPSHOT_DATA1"),
    (23, "HW_REG_SQ_PERF_SNAPSHOT_PC_LO"),
];

fn hwreg(arch: Arch, imm: i32) -> String {
    let imm = low16(imm);
    let (id, offset, size) = (imm & 63, imm >> 6 & 31, (imm >> 11 & 31) + 1);
    let newer: &[_] = if arch == Arch::Gfx942 { &GFX942_HWREGS } else { &[] };
    let known = HWREGS.iter().chain(&MORE_HWREGS).chain(newer).find(|(number, _)| *number == id);
    let name = match (known, id) {
        (Some((_, name)), _) => (*name).to_string(),
        (None, 24) if arch == Arch::Gfx942 => "HW_REG_SQ_PERF_SNAPSHOT_PC_HI".into(),
        (None, _) => id.to_string(),
    };
    match (offset, size) {
        (0, 32) => format!("hwreg({name})"),
        _ => format!("hwreg({name}, {offset}, {size})"),
    }
}

/// The pattern of `ds_swizzle_b32`.
pub(super) fn swizzle(f: &mut Formatter<'_>, imm: i32) -> fmt::Result {
    let imm = low16(imm);
    if imm == 0 {
        return Ok(());
    }
    if imm & 0xff00 == 0x8000 {
        let lane = |at: u32| imm >> (at * 2) & 3;
        return write!(f, " offset:swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3));
    }
    if imm & 0x8000 != 0 {
        return write!(f, " offset:{imm}");
    }
    let (and, or, xor) = (imm & 31, imm >> 5 & 31, imm >> 10 & 31);
    // Bit patterns with names of their own.
    if and == 31 && or == 0 && xor.is_power_of_two() {
        return write!(f, " offset:swizzle(SWAP,{xor})");
    }
    if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return write!(f, " offset:swizzle(REVERSE,{})", xor + 1);
    }
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return write!(f, " offset:swizzle(BROADCAST,{group},{or})");
    }
    write!(f, " offset:swizzle(BITMASK_PERM,\"")?;
    for at in (0..5).rev() {
        let probe = |lane: u32| ((lane & and | or) ^ xor) >> at & 1;
        let text = match (probe(0), probe(1 << at)) {
            (0, 0) => "0",
            (1, 1) => "1",
            (0, _) => "p",
            _ => "i",
        };
        f.write_str(text)?;
    }
    f.write_str("\")")
}
