//! SOP1, SOP2, SOPC, SOPK: scalar operations.

use super::super::inst::{Inst, Src};
use super::wave::{EXEC, M0, MODE_GPR_INDEX, Wave};
use super::{Env, Flow, Line, Trap};

/// A scalar operand of one or two registers.
trait Scalar: Copy {
    fn get(wave: &Wave, src: Src, literal: u32) -> Self;
    fn set(self, wave: &mut Wave, dst: Src);
}

macro_rules! scalar {
    ($ty:ty, |$w:ident, $s:ident, $l:ident| $get:expr, |$v:ident, $x:ident, $d:ident| $set:expr) => {
        impl Scalar for $ty {
            fn get($w: &Wave, $s: Src, $l: u32) -> Self {
                $get
            }
            fn set(self, $x: &mut Wave, $d: Src) {
                let $v = self;
                $set
            }
        }
    };
}

scalar!(u32, |w, s, l| w.scalar32(s, l), |v, w, d| w.s[usize::from(d.0) & 127] = v);
scalar!(i32, |w, s, l| w.scalar32(s, l).cast_signed(), |v, w, d| w.s[usize::from(d.0) & 127] =
    v.cast_unsigned());
scalar!(u64, |w, s, l| w.scalar64(s, l), |v, w, d| w.set_s64(usize::from(d.0), v));
scalar!(i64, |w, s, l| w.scalar64(s, l).cast_signed(), |v, w, d| w
    .set_s64(usize::from(d.0), v.cast_unsigned()));

/// What an operation does to the scalar condition: `None` leaves it.
type Scc = Option<bool>;

fn unary<D: Scalar, A: Scalar>(w: &mut Wave, i: &Inst, f: impl Fn(A) -> (D, Scc)) {
    let (value, scc) = f(A::get(w, i.src[0], i.literal));
    value.set(w, i.dst);
    w.scc = scc.unwrap_or(w.scc);
}

fn binary<D: Scalar, A: Scalar, B: Scalar>(w: &mut Wave, i: &Inst, f: impl Fn(A, B, bool) -> (D, Scc)) {
    let (a, b) = (A::get(w, i.src[0], i.literal), B::get(w, i.src[1], i.literal));
    let (value, scc) = f(a, b, w.scc);
    value.set(w, i.dst);
    w.scc = scc.unwrap_or(w.scc);
}

fn test<A: Scalar, B: Scalar>(w: &mut Wave, i: &Inst, f: impl Fn(A, B) -> bool) {
    w.scc = f(A::get(w, i.src[0], i.literal), B::get(w, i.src[1], i.literal));
}

/// With a constant of 16 bits as second operand; the destination is the first.
fn with_constant(w: &mut Wave, i: &Inst, f: impl Fn(i32, i32) -> (i32, Scc)) {
    let (value, scc) = f(i32::get(w, i.dst, 0), i.imm);
    value.set(w, i.dst);
    w.scc = scc.unwrap_or(w.scc);
}

/// EXEC becomes what `f` makes of the source and EXEC. `old`: the destination gets the old EXEC, otherwise the new one.
fn exec(w: &mut Wave, i: &Inst, old: bool, f: impl Fn(u64, u64) -> u64) {
    let (source, before) = (w.scalar64(i.src[0], i.literal), w.exec());
    let after = f(source, before);
    (if old { before } else { after }).set(w, i.dst);
    w.set_exec(after);
    w.scc = after != 0;
}

/// The condition of logical operations: not zero.
fn nz32(value: u32) -> (u32, Scc) {
    (value, Some(value != 0))
}

fn nz64(value: u64) -> (u64, Scc) {
    (value, Some(value != 0))
}

fn add(a: u32, b: u32, carry: bool) -> (u32, Scc) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, Some(sum >> 32 != 0))
}

fn sub(a: u32, b: u32, borrow: bool) -> (u32, Scc) {
    let wide = u64::from(a).wrapping_sub(u64::from(b)).wrapping_sub(u64::from(borrow));
    (wide as u32, Some(wide >> 32 != 0))
}

fn shift_add(a: u32, b: u32, by: u32) -> (u32, Scc) {
    let sum = (u64::from(a) << by) + u64::from(b);
    (sum as u32, Some(sum >> 32 != 0))
}

/// Offset and width of a bit field: bits 0 to 4 or 5, and 16 to 22.
fn bfe(value: u64, control: u32, offset_mask: u32, size: u32) -> u64 {
    let (offset, width) = (control & offset_mask, (control >> 16 & 0x7f).min(size));
    let shifted = value >> offset;
    if width >= 64 { shifted } else { shifted & ((1 << width) - 1) }
}

fn bfe_signed(value: i64, control: u32, offset_mask: u32, size: u32) -> i64 {
    let (offset, width) = (control & offset_mask, (control >> 16 & 0x7f).min(size));
    if width == 0 {
        return 0;
    }
    let shifted = value >> offset;
    shifted << (64 - width) >> (64 - width)
}

/// How many bits follow the sign that equal it; -1 if all do.
fn sign_run(value: i64, size: u32) -> u32 {
    let folded = if value < 0 { !value } else { value };
    if folded == 0 { u32::MAX } else { folded.leading_zeros() - (64 - size) }
}

fn quad_mask(value: u64) -> u64 {
    (0..16).fold(0, |mask, quad| mask | u64::from(value >> (quad * 4) & 15 != 0) << quad)
}

fn whole_quads(value: u64) -> u64 {
    (0..16).fold(0, |mask, quad| if value >> (quad * 4) & 15 != 0 { mask | 15 << (quad * 4) } else { mask })
}

/// -1 where there is none.
fn position(zeros: u32, size: u32) -> u32 {
    if zeros == size { u32::MAX } else { zeros }
}

macro_rules! line {
    ($name:literal, |$w:ident, $i:ident| $body:expr) => {{
        fn run($w: &mut Wave, $i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            $body;
            Ok(Flow::Next)
        }
        ($name, run)
    }};
}

#[rustfmt::skip]
pub(super) const SOP1: &[Line] = &[
    line!("s_mov_b32", |w, i| unary(w, i, |a: u32| (a, None))),
    line!("s_mov_b64", |w, i| unary(w, i, |a: u64| (a, None))),
    line!("s_cmov_b32", |w, i| if w.scc { unary(w, i, |a: u32| (a, None)) }),
    line!("s_cmov_b64", |w, i| if w.scc { unary(w, i, |a: u64| (a, None)) }),
    line!("s_not_b32", |w, i| unary(w, i, |a: u32| nz32(!a))),
    line!("s_not_b64", |w, i| unary(w, i, |a: u64| nz64(!a))),
    line!("s_wqm_b32", |w, i| unary(w, i, |a: u32| nz32(whole_quads(u64::from(a)) as u32))),
    line!("s_wqm_b64", |w, i| unary(w, i, |a: u64| nz64(whole_quads(a)))),
    line!("s_brev_b32", |w, i| unary(w, i, |a: u32| (a.reverse_bits(), None))),
    line!("s_brev_b64", |w, i| unary(w, i, |a: u64| (a.reverse_bits(), None))),
    line!("s_bcnt0_i32_b32", |w, i| unary(w, i, |a: u32| nz32(a.count_zeros()))),
    line!("s_bcnt0_i32_b64", |w, i| unary(w, i, |a: u64| nz32(a.count_zeros()))),
    line!("s_bcnt1_i32_b32", |w, i| unary(w, i, |a: u32| nz32(a.count_ones()))),
    line!("s_bcnt1_i32_b64", |w, i| unary(w, i, |a: u64| nz32(a.count_ones()))),
    line!("s_ff0_i32_b32", |w, i| unary(w, i, |a: u32| (position((!a).trailing_zeros(), 32), None))),
    line!("s_ff0_i32_b64", |w, i| unary(w, i, |a: u64| (position((!a).trailing_zeros(), 64), None))),
    line!("s_ff1_i32_b32", |w, i| unary(w, i, |a: u32| (position(a.trailing_zeros(), 32), None))),
    line!("s_ff1_i32_b64", |w, i| unary(w, i, |a: u64| (position(a.trailing_zeros(), 64), None))),
    line!("s_flbit_i32_b32", |w, i| unary(w, i, |a: u32| (position(a.leading_zeros(), 32), None))),
    line!("s_flbit_i32_b64", |w, i| unary(w, i, |a: u64| (position(a.leading_zeros(), 64), None))),
    line!("s_flbit_i32", |w, i| unary(w, i, |a: i32| (sign_run(i64::from(a), 32), None))),
    line!("s_flbit_i32_i64", |w, i| unary(w, i, |a: i64| (sign_run(a, 64), None))),
    line!("s_sext_i32_i8", |w, i| unary(w, i, |a: i32| (a << 24 >> 24, None))),
    line!("s_sext_i32_i16", |w, i| unary(w, i, |a: i32| (a << 16 >> 16, None))),
    line!("s_bitset0_b32", |w, i| { let old = u32::get(w, i.dst, 0); unary(w, i, |a: u32| (old & !(1u32 << (a & 31)), None)) }),
    line!("s_bitset0_b64", |w, i| { let old = u64::get(w, i.dst, 0); unary(w, i, |a: u32| (old & !(1u64 << (a & 63)), None)) }),
    line!("s_bitset1_b32", |w, i| { let old = u32::get(w, i.dst, 0); unary(w, i, |a: u32| (old | 1u32 << (a & 31), None)) }),
    line!("s_bitset1_b64", |w, i| { let old = u64::get(w, i.dst, 0); unary(w, i, |a: u32| (old | 1u64 << (a & 63), None)) }),
    line!("s_getpc_b64", |w, i| w.pc.wrapping_add(4).set(w, i.dst)),
    ("s_setpc_b64", |w, i, _| Ok(Flow::Jump(w.scalar64(i.src[0], 0)))),
    ("s_swappc_b64", |w, i, _| { let to = w.scalar64(i.src[0], 0); w.pc.wrapping_add(4).set(w, i.dst); Ok(Flow::Jump(to)) }),
    line!("s_and_saveexec_b64", |w, i| exec(w, i, true, |s, e| s & e)),
    line!("s_or_saveexec_b64", |w, i| exec(w, i, true, |s, e| s | e)),
    line!("s_xor_saveexec_b64", |w, i| exec(w, i, true, |s, e| s ^ e)),
    line!("s_andn2_saveexec_b64", |w, i| exec(w, i, true, |s, e| s & !e)),
    line!("s_orn2_saveexec_b64", |w, i| exec(w, i, true, |s, e| s | !e)),
    line!("s_nand_saveexec_b64", |w, i| exec(w, i, true, |s, e| !(s & e))),
    line!("s_nor_saveexec_b64", |w, i| exec(w, i, true, |s, e| !(s | e))),
    line!("s_xnor_saveexec_b64", |w, i| exec(w, i, true, |s, e| !(s ^ e))),
    line!("s_andn1_saveexec_b64", |w, i| exec(w, i, true, |s, e| !s & e)),
    line!("s_orn1_saveexec_b64", |w, i| exec(w, i, true, |s, e| !s | e)),
    line!("s_andn1_wrexec_b64", |w, i| exec(w, i, false, |s, e| !s & e)),
    line!("s_andn2_wrexec_b64", |w, i| exec(w, i, false, |s, e| s & !e)),
    line!("s_quadmask_b32", |w, i| unary(w, i, |a: u32| nz32(quad_mask(u64::from(a)) as u32))),
    line!("s_quadmask_b64", |w, i| unary(w, i, |a: u64| nz64(quad_mask(a)))),
    line!("s_movrels_b32", |w, i| { let at = moved(w, i.src[0]); u32::get(w, at, 0).set(w, i.dst) }),
    line!("s_movrels_b64", |w, i| { let at = moved(w, i.src[0]); u64::get(w, at, 0).set(w, i.dst) }),
    line!("s_movreld_b32", |w, i| { let at = moved(w, i.dst); u32::get(w, i.src[0], i.literal).set(w, at) }),
    line!("s_movreld_b64", |w, i| { let at = moved(w, i.dst); u64::get(w, i.src[0], i.literal).set(w, at) }),
    line!("s_set_gpr_idx_idx", |w, i| { let index = u32::get(w, i.src[0], i.literal); set_index(w, 0xff, index) }),
    line!("s_abs_i32", |w, i| unary(w, i, |a: i32| nz32(a.unsigned_abs()))),
    line!("s_bitreplicate_b64_b32", |w, i| unary(w, i, |a: u32| (replicate(a), None))),
];

/// Sets the bits of M0 that `mask` names: how far vector registers are moved, and which.
pub(super) fn set_index(w: &mut Wave, mask: u32, value: u32) {
    w.s[M0] = w.s[M0] & !mask | value & mask;
}

/// A scalar register, M0 further.
fn moved(w: &Wave, src: Src) -> Src {
    Src(((u32::from(src.0).wrapping_add(w.s[M0])) & 127) as u16)
}

/// Each bit twice.
fn replicate(value: u32) -> u64 {
    (0..32).fold(0, |wide, bit| wide | (u64::from(value >> bit & 1) * 3) << (2 * bit))
}

#[rustfmt::skip]
pub(super) const SOP2: &[Line] = &[
    line!("s_add_u32", |w, i| binary(w, i, |a: u32, b: u32, _| add(a, b, false))),
    line!("s_sub_u32", |w, i| binary(w, i, |a: u32, b: u32, _| sub(a, b, false))),
    line!("s_add_i32", |w, i| binary(w, i, |a: i32, b: i32, _| { let (d, o) = a.overflowing_add(b); (d, Some(o)) })),
    line!("s_sub_i32", |w, i| binary(w, i, |a: i32, b: i32, _| { let (d, o) = a.overflowing_sub(b); (d, Some(o)) })),
    line!("s_addc_u32", |w, i| binary(w, i, add)),
    line!("s_subb_u32", |w, i| binary(w, i, sub)),
    line!("s_min_i32", |w, i| binary(w, i, |a: i32, b: i32, _| (a.min(b), Some(a < b)))),
    line!("s_min_u32", |w, i| binary(w, i, |a: u32, b: u32, _| (a.min(b), Some(a < b)))),
    line!("s_max_i32", |w, i| binary(w, i, |a: i32, b: i32, _| (a.max(b), Some(a > b)))),
    line!("s_max_u32", |w, i| binary(w, i, |a: u32, b: u32, _| (a.max(b), Some(a > b)))),
    line!("s_cselect_b32", |w, i| binary(w, i, |a: u32, b: u32, c| (if c { a } else { b }, None))),
    line!("s_cselect_b64", |w, i| binary(w, i, |a: u64, b: u64, c| (if c { a } else { b }, None))),
    line!("s_and_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(a & b))),
    line!("s_and_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(a & b))),
    line!("s_or_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(a | b))),
    line!("s_or_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(a | b))),
    line!("s_xor_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(a ^ b))),
    line!("s_xor_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(a ^ b))),
    line!("s_andn2_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(a & !b))),
    line!("s_andn2_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(a & !b))),
    line!("s_orn2_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(a | !b))),
    line!("s_orn2_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(a | !b))),
    line!("s_nand_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(!(a & b)))),
    line!("s_nand_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(!(a & b)))),
    line!("s_nor_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(!(a | b)))),
    line!("s_nor_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(!(a | b)))),
    line!("s_xnor_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(!(a ^ b)))),
    line!("s_xnor_b64", |w, i| binary(w, i, |a: u64, b: u64, _| nz64(!(a ^ b)))),
    line!("s_lshl_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(a << (b & 31)))),
    line!("s_lshl_b64", |w, i| binary(w, i, |a: u64, b: u32, _| nz64(a << (b & 63)))),
    line!("s_lshr_b32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(a >> (b & 31)))),
    line!("s_lshr_b64", |w, i| binary(w, i, |a: u64, b: u32, _| nz64(a >> (b & 63)))),
    line!("s_ashr_i32", |w, i| binary(w, i, |a: i32, b: u32, _| nz32((a >> (b & 31)).cast_unsigned()))),
    line!("s_ashr_i64", |w, i| binary(w, i, |a: i64, b: u32, _| nz64((a >> (b & 63)).cast_unsigned()))),
    line!("s_bfm_b32", |w, i| binary(w, i, |a: u32, b: u32, _| (((1u32 << (a & 31)) - 1) << (b & 31), None))),
    line!("s_bfm_b64", |w, i| binary(w, i, |a: u32, b: u32, _| (((1u64 << (a & 63)) - 1) << (b & 63), None))),
    line!("s_mul_i32", |w, i| binary(w, i, |a: u32, b: u32, _| (a.wrapping_mul(b), None))),
    line!("s_bfe_u32", |w, i| binary(w, i, |a: u32, b: u32, _| nz32(bfe(u64::from(a), b, 31, 32) as u32))),
    line!("s_bfe_i32", |w, i| binary(w, i, |a: i32, b: u32, _| nz32(bfe_signed(i64::from(a), b, 31, 32) as u32))),
    line!("s_bfe_u64", |w, i| binary(w, i, |a: u64, b: u32, _| nz64(bfe(a, b, 63, 64)))),
    line!("s_bfe_i64", |w, i| binary(w, i, |a: i64, b: u32, _| nz64(bfe_signed(a, b, 63, 64).cast_unsigned()))),
    line!("s_absdiff_i32", |w, i| binary(w, i, |a: i32, b: i32, _| nz32(a.wrapping_sub(b).unsigned_abs()))),
    line!("s_mul_hi_u32", |w, i| binary(w, i, |a: u32, b: u32, _| (((u64::from(a) * u64::from(b)) >> 32) as u32, None))),
    line!("s_mul_hi_i32", |w, i| binary(w, i, |a: i32, b: i32, _| (((i64::from(a) * i64::from(b)) >> 32) as i32, None))),
    line!("s_lshl1_add_u32", |w, i| binary(w, i, |a: u32, b: u32, _| shift_add(a, b, 1))),
    line!("s_lshl2_add_u32", |w, i| binary(w, i, |a: u32, b: u32, _| shift_add(a, b, 2))),
    line!("s_lshl3_add_u32", |w, i| binary(w, i, |a: u32, b: u32, _| shift_add(a, b, 3))),
    line!("s_lshl4_add_u32", |w, i| binary(w, i, |a: u32, b: u32, _| shift_add(a, b, 4))),
    line!("s_pack_ll_b32_b16", |w, i| binary(w, i, |a: u32, b: u32, _| (a & 0xffff | b << 16, None))),
    line!("s_pack_lh_b32_b16", |w, i| binary(w, i, |a: u32, b: u32, _| (a & 0xffff | b & 0xffff_0000, None))),
    line!("s_pack_hh_b32_b16", |w, i| binary(w, i, |a: u32, b: u32, _| (a >> 16 | b & 0xffff_0000, None))),
];

#[rustfmt::skip]
pub(super) const SOPC: &[Line] = &[
    line!("s_cmp_eq_i32", |w, i| test(w, i, |a: i32, b: i32| a == b)),
    line!("s_cmp_lg_i32", |w, i| test(w, i, |a: i32, b: i32| a != b)),
    line!("s_cmp_gt_i32", |w, i| test(w, i, |a: i32, b: i32| a > b)),
    line!("s_cmp_ge_i32", |w, i| test(w, i, |a: i32, b: i32| a >= b)),
    line!("s_cmp_lt_i32", |w, i| test(w, i, |a: i32, b: i32| a < b)),
    line!("s_cmp_le_i32", |w, i| test(w, i, |a: i32, b: i32| a <= b)),
    line!("s_cmp_eq_u32", |w, i| test(w, i, |a: u32, b: u32| a == b)),
    line!("s_cmp_lg_u32", |w, i| test(w, i, |a: u32, b: u32| a != b)),
    line!("s_cmp_gt_u32", |w, i| test(w, i, |a: u32, b: u32| a > b)),
    line!("s_cmp_ge_u32", |w, i| test(w, i, |a: u32, b: u32| a >= b)),
    line!("s_cmp_lt_u32", |w, i| test(w, i, |a: u32, b: u32| a < b)),
    line!("s_cmp_le_u32", |w, i| test(w, i, |a: u32, b: u32| a <= b)),
    line!("s_bitcmp0_b32", |w, i| test(w, i, |a: u32, b: u32| a >> (b & 31) & 1 == 0)),
    line!("s_bitcmp1_b32", |w, i| test(w, i, |a: u32, b: u32| a >> (b & 31) & 1 == 1)),
    line!("s_bitcmp0_b64", |w, i| test(w, i, |a: u64, b: u32| a >> (b & 63) & 1 == 0)),
    line!("s_bitcmp1_b64", |w, i| test(w, i, |a: u64, b: u32| a >> (b & 63) & 1 == 1)),
    line!("s_cmp_eq_u64", |w, i| test(w, i, |a: u64, b: u64| a == b)),
    line!("s_cmp_lg_u64", |w, i| test(w, i, |a: u64, b: u64| a != b)),
    line!("s_set_gpr_idx_on", |w, i| {
        let index = u32::get(w, i.src[0], i.literal);
        set_index(w, 0xff, index);
        set_index(w, 0xf000, i.imm.cast_unsigned() << 12);
        w.mode |= MODE_GPR_INDEX;
    }),
];

/// Compares a register with the constant, which is signed or not.
fn test_constant(w: &mut Wave, i: &Inst, f: impl Fn(i64, i64) -> bool) {
    let value = u32::get(w, i.src[0], 0);
    w.scc = if i.op.name.ends_with("_u32") {
        f(i64::from(value), i64::from(i.imm.cast_unsigned() & 0xffff))
    } else {
        f(i64::from(value.cast_signed()), i64::from(i.imm))
    };
}

#[rustfmt::skip]
pub(super) const SOPK: &[Line] = &[
    line!("s_movk_i32", |w, i| i.imm.set(w, i.dst)),
    line!("s_cmovk_i32", |w, i| if w.scc { i.imm.set(w, i.dst) }),
    line!("s_cmpk_eq_i32", |w, i| test_constant(w, i, |a, b| a == b)),
    line!("s_cmpk_lg_i32", |w, i| test_constant(w, i, |a, b| a != b)),
    line!("s_cmpk_gt_i32", |w, i| test_constant(w, i, |a, b| a > b)),
    line!("s_cmpk_ge_i32", |w, i| test_constant(w, i, |a, b| a >= b)),
    line!("s_cmpk_lt_i32", |w, i| test_constant(w, i, |a, b| a < b)),
    line!("s_cmpk_le_i32", |w, i| test_constant(w, i, |a, b| a <= b)),
    line!("s_cmpk_eq_u32", |w, i| test_constant(w, i, |a, b| a == b)),
    line!("s_cmpk_lg_u32", |w, i| test_constant(w, i, |a, b| a != b)),
    line!("s_cmpk_gt_u32", |w, i| test_constant(w, i, |a, b| a > b)),
    line!("s_cmpk_ge_u32", |w, i| test_constant(w, i, |a, b| a >= b)),
    line!("s_cmpk_lt_u32", |w, i| test_constant(w, i, |a, b| a < b)),
    line!("s_cmpk_le_u32", |w, i| test_constant(w, i, |a, b| a <= b)),
    line!("s_addk_i32", |w, i| with_constant(w, i, |a, b| { let (d, o) = a.overflowing_add(b); (d, Some(o)) })),
    line!("s_mulk_i32", |w, i| with_constant(w, i, |a, b| (a.wrapping_mul(b), None))),
    ("s_call_b64", |w, i, _| { let next = w.pc.wrapping_add(4); next.set(w, i.dst); Ok(Flow::Jump(super::control::target(next, i.imm))) }),
    line!("s_getreg_b32", |w, i| get_register(w, i).set(w, i.dst)),
    ("s_setreg_b32", |w, i, _| { let value = u32::get(w, i.src[0], 0); set_register(w, i, value) }),
    ("s_setreg_imm32_b32", |w, i, _| set_register(w, i, i.literal)),
];

/// `HW_REG_MODE` of `s_setreg`.
const HW_REG_MODE: u32 = 1;
/// `HW_REG_XCC_ID`.
const HW_REG_XCC_ID: u32 = 20;

/// Register, first bit and bits of `hwreg(...)`.
fn field(i: &Inst) -> (u32, u32, u32) {
    let imm = i.imm.cast_unsigned();
    let size = (imm >> 11 & 31) + 1;
    (imm & 63, imm >> 6 & 31, u32::MAX >> (32 - size))
}

/// Registers other than the mode read as zero: wave 0 of the first unit.
fn get_register(w: &Wave, i: &Inst) -> u32 {
    let (register, offset, mask) = field(i);
    let value = match register {
        HW_REG_MODE => w.mode,
        HW_REG_XCC_ID => 0,
        _ => 0,
    };
    value >> offset & mask
}

fn set_register(w: &mut Wave, i: &Inst, value: u32) -> Result<Flow, Trap> {
    let (register, offset, mask) = field(i);
    if register != HW_REG_MODE {
        return Err(Trap::Unsupported { text: i.to_string(), why: "only the mode register can be written" });
    }
    let mode = w.mode & !(mask << offset) | (value & mask) << offset;
    w.mode = mode;
    Ok(Flow::Next)
}

const _: () = assert!(EXEC == 126);
