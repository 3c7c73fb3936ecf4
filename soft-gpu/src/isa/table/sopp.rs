//! SOPP: program control, with a constant of 16 bits.

use crate::isa::op::On::Both;
use crate::isa::op::{Op, Ty};

use super::op;

#[rustfmt::skip]
pub(crate) const SOPP: &[Op] = &[
    op(0x00, "s_nop", Both, Ty::None, &[], 0),
    op(0x01, "s_endpgm", Both, Ty::None, &[], 0),
    op(0x02, "s_branch", Both, Ty::None, &[], 0),
    op(0x03, "s_wakeup", Both, Ty::None, &[], 0),
    op(0x04, "s_cbranch_scc0", Both, Ty::None, &[], 0),
    op(0x05, "s_cbranch_scc1", Both, Ty::None, &[], 0),
    op(0x06, "s_cbranch_vccz", Both, Ty::None, &[], 0),
    op(0x07, "s_cbranch_vccnz", Both, Ty::None, &[], 0),
    op(0x08, "s_cbranch_execz", Both, Ty::None, &[], 0),
    op(0x09, "s_cbranch_execnz", Both, Ty::None, &[], 0),
    op(0x0a, "s_barrier", Both, Ty::None, &[], 0),
    op(0x0b, "s_setkill", Both, Ty::None, &[], 0),
    op(0x0c, "s_waitcnt", Both, Ty::None, &[], 0),
    op(0x0d, "s_sethalt", Both, Ty::None, &[], 0),
    op(0x0e, "s_sleep", Both, Ty::None, &[], 0),
    op(0x0f, "s_setprio", Both, Ty::None, &[], 0),
    op(0x10, "s_sendmsg", Both, Ty::None, &[], 0),
    op(0x11, "s_sendmsghalt", Both, Ty::None, &[], 0),
    op(0x12, "s_trap", Both, Ty::None, &[], 0),
    op(0x13, "s_icache_inv", Both, Ty::None, &[], 0),
    op(0x14, "s_incperflevel", Both, Ty::None, &[], 0),
    op(0x15, "s_decperflevel", Both, Ty::None, &[], 0),
    op(0x16, "s_ttracedata", Both, Ty::None, &[], 0),
    op(0x17, "s_cbranch_cdbgsys", Both, Ty::None, &[], 0),
    op(0x18, "s_cbranch_cdbguser", Both, Ty::None, &[], 0),
    op(0x19, "s_cbranch_cdbgsys_or_user", Both, Ty::None, &[], 0),
    op(0x1a, "s_cbranch_cdbgsys_and_user", Both, Ty::None, &[], 0),
    op(0x1b, "s_endpgm_saved", Both, Ty::None, &[], 0),
    op(0x1c, "s_set_gpr_idx_off", Both, Ty::None, &[], 0),
    op(0x1d, "s_set_gpr_idx_mode", Both, Ty::None, &[], 0),
];
