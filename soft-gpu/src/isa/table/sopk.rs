//! SOPK: scalar operations with a constant of 16 bits.

use crate::isa::op::On::Both;
use crate::isa::op::{Op, Ty};

use super::op;

#[rustfmt::skip]
pub(crate) const SOPK: &[Op] = &[
    op(0x00, "s_movk_i32", Both, Ty::B(1), &[], 0),
    op(0x01, "s_cmovk_i32", Both, Ty::B(1), &[], 0),
    op(0x02, "s_cmpk_eq_i32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x03, "s_cmpk_lg_i32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x04, "s_cmpk_gt_i32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x05, "s_cmpk_ge_i32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x06, "s_cmpk_lt_i32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x07, "s_cmpk_le_i32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x08, "s_cmpk_eq_u32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x09, "s_cmpk_lg_u32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x0a, "s_cmpk_gt_u32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x0b, "s_cmpk_ge_u32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x0c, "s_cmpk_lt_u32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x0d, "s_cmpk_le_u32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x0e, "s_addk_i32", Both, Ty::B(1), &[], 0),
    op(0x0f, "s_mulk_i32", Both, Ty::B(1), &[], 0),
    op(0x10, "s_cbranch_i_fork", Both, Ty::None, &[Ty::B(2)], 0),
    op(0x11, "s_getreg_b32", Both, Ty::B(1), &[], 0),
    op(0x12, "s_setreg_b32", Both, Ty::None, &[Ty::B(1)], 0),
    op(0x14, "s_setreg_imm32_b32", Both, Ty::None, &[], 0),
    op(0x15, "s_call_b64", Both, Ty::B(2), &[], 0),
];
