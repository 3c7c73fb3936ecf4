//! SOPC: scalar comparisons.

use crate::isa::op::On::Both;
use crate::isa::op::{Op, Ty};

use super::op;

#[rustfmt::skip]
pub(crate) const SOPC: &[Op] = &[
    op(0x00, "s_cmp_eq_i32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x01, "s_cmp_lg_i32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x02, "s_cmp_gt_i32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x03, "s_cmp_ge_i32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x04, "s_cmp_lt_i32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x05, "s_cmp_le_i32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x06, "s_cmp_eq_u32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x07, "s_cmp_lg_u32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x08, "s_cmp_gt_u32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x09, "s_cmp_ge_u32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x0a, "s_cmp_lt_u32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x0b, "s_cmp_le_u32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x0c, "s_bitcmp0_b32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x0d, "s_bitcmp1_b32", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x0e, "s_bitcmp0_b64", Both, Ty::None, &[Ty::B(2), Ty::B(1)], 0),
    op(0x0f, "s_bitcmp1_b64", Both, Ty::None, &[Ty::B(2), Ty::B(1)], 0),
    op(0x10, "s_setvskip", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x11, "s_set_gpr_idx_on", Both, Ty::None, &[Ty::B(1), Ty::B(1)], 0),
    op(0x12, "s_cmp_eq_u64", Both, Ty::None, &[Ty::B(2), Ty::B(2)], 0),
    op(0x13, "s_cmp_lg_u64", Both, Ty::None, &[Ty::B(2), Ty::B(2)], 0),
];
