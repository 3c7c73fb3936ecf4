//! SOPP: program control.

use super::super::inst::Inst;
use super::scalar::set_index;
use super::wave::{M0, MODE_GPR_INDEX, VCC, Wave};
use super::{Env, Flow, Line, Trap};

/// Where a branch goes: words from the next instruction.
pub(super) fn target(next: u64, words: i32) -> u64 {
    next.wrapping_add_signed(i64::from(words) * 4)
}

fn branch(w: &Wave, i: &Inst, taken: bool) -> Result<Flow, Trap> {
    Ok(if taken { Flow::Jump(target(w.pc.wrapping_add(4), i.imm)) } else { Flow::Next })
}

/// Nothing that this machine notices: memory is in order, and no unit runs ahead.
fn nothing(_: &mut Wave, _: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    Ok(Flow::Next)
}

/// `MSG_INTERRUPT`: the driver takes M0 for the id of an event of the process. Other messages are for shaders of graphics.
fn send_message(w: &mut Wave, i: &Inst, env: &mut Env<'_>) -> Result<Flow, Trap> {
    const MSG_INTERRUPT: i32 = 1;
    if i.imm & 15 != MSG_INTERRUPT {
        return Err(Trap::Unsupported { text: i.to_string(), why: "this message" });
    }
    env.memory.interrupt(w.s[M0] & INTERRUPT_DATA);
    Ok(Flow::Next)
}

/// What of M0 an interrupt of a wave carries.
const INTERRUPT_DATA: u32 = 0xff_ffff;

#[rustfmt::skip]
pub(super) const SOPP: &[Line] = &[
    ("s_nop", nothing),
    ("s_endpgm", |_, _, _| Ok(Flow::End)),
    ("s_branch", |w, i, _| branch(w, i, true)),
    ("s_wakeup", nothing),
    ("s_cbranch_scc0", |w, i, _| branch(w, i, !w.scc)),
    ("s_cbranch_scc1", |w, i, _| branch(w, i, w.scc)),
    ("s_cbranch_vccz", |w, i, _| branch(w, i, w.s64(VCC) == 0)),
    ("s_cbranch_vccnz", |w, i, _| branch(w, i, w.s64(VCC) != 0)),
    ("s_cbranch_execz", |w, i, _| branch(w, i, w.exec() == 0)),
    ("s_cbranch_execnz", |w, i, _| branch(w, i, w.exec() != 0)),
    ("s_barrier", |_, _, _| Ok(Flow::Barrier)),
    ("s_waitcnt", nothing),
    ("s_sleep", |_, _, _| Ok(Flow::Yield)),
    ("s_setprio", nothing),
    ("s_sendmsg", send_message),
    ("s_trap", |_, i, _| Err(Trap::Trap((i.imm & 0xff) as u8))),
    ("s_icache_inv", nothing),
    ("s_set_gpr_idx_off", |w, _, _| { w.mode &= !MODE_GPR_INDEX; Ok(Flow::Next) }),
    ("s_set_gpr_idx_mode", |w, i, _| { set_index(w, 0xf000, i.imm.cast_unsigned() << 12); Ok(Flow::Next) }),
    ("s_incperflevel", nothing),
    ("s_decperflevel", nothing),
    ("s_ttracedata", nothing),
];
