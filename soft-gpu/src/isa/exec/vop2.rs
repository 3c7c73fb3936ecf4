//! VOP2: vector operations of two sources.

use super::super::inst::Inst;
use super::f16::F16;
use super::float::{half2, ldexp32, max, min};
use super::lanes::{accumulate, carry, map2, map3, mask_operand, result_32, source};
use super::operands::spread_mask;
use super::wave::Wave;
use super::wide::widely;
use super::{Env, Flow, Line, Trap};

/// A line of the table of VOP2 or VOP3: a body of two or three lanes' values, or a function that carries one over the lanes.
macro_rules! line {
    ($name:literal, |$a:ident: $ta:ty, $b:ident: $tb:ty| -> $out:ty $body:block) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            map2(
                w,
                i,
                #[inline(always)]
                |$a: $ta, $b: $tb| -> $out { $body },
            );
            Ok(Flow::Next)
        }
        ($name, run)
    }};
    ($name:literal, |$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty| -> $out:ty $body:block) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            map3(
                w,
                i,
                #[inline(always)]
                |$a: $ta, $b: $tb, $c: $tc| -> $out { $body },
            );
            Ok(Flow::Next)
        }
        ($name, run)
    }};
    ($name:literal, with $with:ident, $f:expr) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            $with(w, i, $f);
            Ok(Flow::Next)
        }
        ($name, run)
    }};
}

pub(super) use line;

/// Sign-extends 24 bits.
#[inline(always)]
pub(super) fn i24(value: u32) -> i64 {
    i64::from((value << 8).cast_signed() >> 8)
}

/// The lower 24 bits.
#[inline(always)]
pub(super) fn u24(value: u32) -> u64 {
    u64::from(value & 0x00ff_ffff)
}

/// Where the mask is set, the second source, else the first.
fn select(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let mask = mask_operand(w, i);
    widely(
        w.wide,
        #[inline(always)]
        || {
            let selected = |w: &Wave| {
                let (mut x, mut y) = (None, None);
                let (a, b) = (source::<u32>(w, i, 0, &mut x), source::<u32>(w, i, 1, &mut y));
                let chosen = spread_mask(mask);
                std::array::from_fn(
                    #[inline(always)]
                    |lane| b[lane] & chosen[lane] | a[lane] & !chosen[lane],
                )
            };
            let out = selected(w);
            result_32::<u32>(w, i, out);
        },
    );
    Ok(Flow::Next)
}

/// Both halves of a register.
#[inline(always)]
pub(super) fn halves(value: u32) -> [F16; 2] {
    [F16(value as u16), F16((value >> 16) as u16)]
}

/// Sum of the products of 4-bit or 8-bit parts.
#[inline(always)]
pub(super) fn dot_signed(a: u32, b: u32, c: i32, bits: u32) -> i32 {
    let part = |value: u32, at: u32| (value << (32 - bits - at * bits)).cast_signed() >> (32 - bits);
    (0..32 / bits).fold(c, |sum, at| sum.wrapping_add(part(a, at).wrapping_mul(part(b, at))))
}

/// See [`dot_signed`].
#[inline(always)]
pub(super) fn dot_unsigned(a: u32, b: u32, c: u32, bits: u32) -> u32 {
    let part = |value: u32, at: u32| value >> (at * bits) & ((1 << bits) - 1);
    (0..32 / bits).fold(c, |sum, at| sum.wrapping_add(part(a, at).wrapping_mul(part(b, at))))
}

/// Sum of the products of halves, in f32.
#[inline(always)]
pub(super) fn dot_halves(a: u32, b: u32, c: f32) -> f32 {
    let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
    a1.to_f32().mul_add(b1.to_f32(), a0.to_f32().mul_add(b0.to_f32(), c))
}

/// `v_mad` and `v_mac` of 32 bits know no denormals, and round the product.
#[inline(always)]
pub(super) fn mad(a: f32, b: f32, c: f32) -> f32 {
    let flush = |x: f32| if x.is_subnormal() { 0.0f32.copysign(x) } else { x };
    flush(flush(flush(a) * flush(b)) + flush(c))
}

#[inline(always)]
fn borrow(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let (first, carry) = (a.wrapping_sub(b), u32::from(carry));
    (first.wrapping_sub(carry), (a < b) | (first < carry))
}

#[inline(always)]
fn add(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let first = a.wrapping_add(b);
    let value = first.wrapping_add(u32::from(carry));
    (value, (first < a) | (value < first))
}

#[rustfmt::skip]
pub(super) const VOP2: &[Line] = &[
    ("v_cndmask_b32", select),
    line!("v_add_f32", |a: f32, b: f32| -> f32 { a + b }),
    line!("v_sub_f32", |a: f32, b: f32| -> f32 { a - b }),
    line!("v_subrev_f32", |a: f32, b: f32| -> f32 { b - a }),
    line!("v_fmac_f64", with accumulate, |a: f64, b: f64, c: f64| a.mul_add(b, c)),
    line!("v_mul_f32", |a: f32, b: f32| -> f32 { a * b }),
    line!("v_mul_i32_i24", |a: u32, b: u32| -> u32 { (i24(a) * i24(b)) as u32 }),
    line!("v_mul_hi_i32_i24", |a: u32, b: u32| -> u32 { ((i24(a) * i24(b)) >> 32) as u32 }),
    line!("v_mul_u32_u24", |a: u32, b: u32| -> u32 { (u24(a) * u24(b)) as u32 }),
    line!("v_mul_hi_u32_u24", |a: u32, b: u32| -> u32 { ((u24(a) * u24(b)) >> 32) as u32 }),
    line!("v_min_f32", |a: f32, b: f32| -> f32 { min(a, b) }),
    line!("v_max_f32", |a: f32, b: f32| -> f32 { max(a, b) }),
    line!("v_min_i32", |a: i32, b: i32| -> i32 { a.min(b) }),
    line!("v_max_i32", |a: i32, b: i32| -> i32 { a.max(b) }),
    line!("v_min_u32", |a: u32, b: u32| -> u32 { a.min(b) }),
    line!("v_max_u32", |a: u32, b: u32| -> u32 { a.max(b) }),
    line!("v_lshrrev_b32", |a: u32, b: u32| -> u32 { b >> (a & 31) }),
    line!("v_ashrrev_i32", |a: u32, b: i32| -> i32 { b >> (a & 31) }),
    line!("v_lshlrev_b32", |a: u32, b: u32| -> u32 { b << (a & 31) }),
    line!("v_and_b32", |a: u32, b: u32| -> u32 { a & b }),
    line!("v_or_b32", |a: u32, b: u32| -> u32 { a | b }),
    line!("v_xor_b32", |a: u32, b: u32| -> u32 { a ^ b }),
    line!("v_mac_f32", with accumulate, |a: f32, b: f32, c: f32| mad(a, b, c)),
    line!("v_madmk_f32", with map3, |a: f32, b: f32, c: f32| mad(a, b, c)),
    line!("v_madak_f32", with map3, |a: f32, b: f32, c: f32| mad(a, b, c)),
    line!("v_fmamk_f32", with map3, |a: f32, b: f32, c: f32| a.mul_add(b, c)),
    line!("v_fmaak_f32", with map3, |a: f32, b: f32, c: f32| a.mul_add(b, c)),
    line!("v_add_co_u32", with carry, |a, b, _| add(a, b, false)),
    line!("v_sub_co_u32", with carry, |a, b, _| borrow(a, b, false)),
    line!("v_subrev_co_u32", with carry, |a, b, _| borrow(b, a, false)),
    line!("v_addc_co_u32", with carry, add),
    line!("v_subb_co_u32", with carry, borrow),
    line!("v_subbrev_co_u32", with carry, |a, b, c| borrow(b, a, c)),
    line!("v_add_f16", with map2, half2(|a, b| a + b)),
    line!("v_sub_f16", with map2, half2(|a, b| a - b)),
    line!("v_subrev_f16", with map2, half2(|a, b| b - a)),
    line!("v_mul_f16", with map2, half2(|a, b| a * b)),
    line!("v_mac_f16", with accumulate, |a: F16, b: F16, c: F16| F16::from_f32(F16::from_f32(a.to_f32() * b.to_f32()).to_f32() + c.to_f32())),
    line!("v_madmk_f16", with map3, |a: F16, b: F16, c: F16| F16::from_f32(F16::from_f32(a.to_f32() * b.to_f32()).to_f32() + c.to_f32())),
    line!("v_madak_f16", with map3, |a: F16, b: F16, c: F16| F16::from_f32(F16::from_f32(a.to_f32() * b.to_f32()).to_f32() + c.to_f32())),
    line!("v_add_u16", |a: u16, b: u16| -> u16 { a.wrapping_add(b) }),
    line!("v_sub_u16", |a: u16, b: u16| -> u16 { a.wrapping_sub(b) }),
    line!("v_subrev_u16", |a: u16, b: u16| -> u16 { b.wrapping_sub(a) }),
    line!("v_mul_lo_u16", |a: u16, b: u16| -> u16 { a.wrapping_mul(b) }),
    line!("v_lshlrev_b16", |a: u16, b: u16| -> u16 { b << (a & 15) }),
    line!("v_lshrrev_b16", |a: u16, b: u16| -> u16 { b >> (a & 15) }),
    line!("v_ashrrev_i16", |a: u16, b: i16| -> i16 { b >> (a & 15) }),
    line!("v_max_f16", with map2, half2(max)),
    line!("v_min_f16", with map2, half2(min)),
    line!("v_max_u16", |a: u16, b: u16| -> u16 { a.max(b) }),
    line!("v_max_i16", |a: i16, b: i16| -> i16 { a.max(b) }),
    line!("v_min_u16", |a: u16, b: u16| -> u16 { a.min(b) }),
    line!("v_min_i16", |a: i16, b: i16| -> i16 { a.min(b) }),
    line!("v_ldexp_f16", |a: F16, b: i16| -> F16 { F16::from_f32(ldexp32(a.to_f32(), i32::from(b))) }),
    line!("v_add_u32", |a: u32, b: u32| -> u32 { a.wrapping_add(b) }),
    line!("v_sub_u32", |a: u32, b: u32| -> u32 { a.wrapping_sub(b) }),
    line!("v_subrev_u32", |a: u32, b: u32| -> u32 { b.wrapping_sub(a) }),
    line!("v_dot2c_f32_f16", with accumulate, |a: u32, b: u32, c: f32| dot_halves(a, b, c)),
    line!("v_dot4c_i32_i8", with accumulate, |a: u32, b: u32, c: i32| dot_signed(a, b, c, 8)),
    line!("v_dot8c_i32_i4", with accumulate, |a: u32, b: u32, c: i32| dot_signed(a, b, c, 4)),
    line!("v_dot2c_i32_i16", with accumulate, |a: u32, b: u32, c: i32| dot_signed(a, b, c, 16)),
    line!("v_fmac_f32", with accumulate, |a: f32, b: f32, c: f32| a.mul_add(b, c)),
    line!("v_pk_fmac_f16", with accumulate, |a: u32, b: u32, c: u32| {
        let ([a0, a1], [b0, b1], [c0, c1]) = (halves(a), halves(b), halves(c));
        u32::from(F16::fma(a0, b0, c0).0) | u32::from(F16::fma(a1, b1, c1).0) << 16
    }),
    line!("v_xnor_b32", |a: u32, b: u32| -> u32 { !(a ^ b) }),
];
