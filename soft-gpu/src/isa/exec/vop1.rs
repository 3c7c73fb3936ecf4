//! VOP1: vector operations of one source.

use super::super::inst::{Form, Inst};
use super::f16::F16;
use super::float::{fract32, fract64, frexp32, frexp64, half1, turns};
use super::lanes::map1;
use super::wave::Wave;
use super::{Env, Flow, Line, Trap};

macro_rules! line {
    ($name:literal, |$a:ident: $ty:ty| -> $out:ty $body:block) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            map1(
                w,
                i,
                #[inline(always)]
                |$a: $ty| -> $out { $body },
            );
            Ok(Flow::Next)
        }
        ($name, run)
    }};
    ($name:literal, $f:expr) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            map1(w, i, $f);
            Ok(Flow::Next)
        }
        ($name, run)
    }};
}

/// Bytes 0 to 3 as floats.
#[inline(always)]
fn byte(value: u32, at: u32) -> f32 {
    f32::from((value >> (8 * at)) as u8)
}

/// The integer between -1 and 1 of a 4-bit fraction, for interpolation.
fn offset_of_four_bits(value: u32) -> f32 {
    ((value << 28).cast_signed() >> 28) as f32 / 16.0
}

/// How many bits follow the sign that equal it; -1 if all do.
fn sign_bits(value: i32) -> u32 {
    let folded = if value < 0 { !value } else { value };
    if folded == 0 { u32::MAX } else { folded.leading_zeros() }
}

fn unsigned_byte(value: i16) -> u32 {
    u32::from(value.clamp(0, 255).cast_unsigned())
}

fn round_even32(x: f32) -> f32 {
    x.round_ties_even()
}

/// The first active lane, or lane 0.
pub(super) fn first_lane(w: &Wave) -> usize {
    (w.exec().trailing_zeros() % 64) as usize
}

#[rustfmt::skip]
pub(super) const VOP1: &[Line] = &[
    ("v_nop", |_, _, _| Ok(Flow::Next)),
    ("v_clrexcp", |_, _, _| Ok(Flow::Next)),
    line!("v_mov_b32", |a: u32| -> u32 { a }),
    line!("v_mov_b64", |a: u64| -> u64 { a }),
    ("v_readfirstlane_b32", |w, i, _| {
        w.s[usize::from(i.dst.0) & 127] = w.row(i.src[0], 0)[first_lane(w)];
        Ok(Flow::Next)
    }),
    line!("v_cvt_i32_f64", |a: f64| -> i32 { a as i32 }),
    line!("v_cvt_f64_i32", |a: i32| -> f64 { f64::from(a) }),
    line!("v_cvt_f32_i32", |a: i32| -> f32 { a as f32 }),
    line!("v_cvt_f32_u32", |a: u32| -> f32 { a as f32 }),
    line!("v_cvt_u32_f32", |a: f32| -> u32 { a as u32 }),
    line!("v_cvt_i32_f32", |a: f32| -> i32 { a as i32 }),
    line!("v_cvt_f16_f32", |a: f32| -> F16 { F16::from_f32(a) }),
    line!("v_cvt_f32_f16", |a: F16| -> f32 { a.to_f32() }),
    line!("v_cvt_rpi_i32_f32", |a: f32| -> i32 { (a + 0.5).floor() as i32 }),
    line!("v_cvt_flr_i32_f32", |a: f32| -> i32 { a.floor() as i32 }),
    line!("v_cvt_off_f32_i4", |a: u32| -> f32 { offset_of_four_bits(a) }),
    line!("v_cvt_f32_f64", |a: f64| -> f32 { a as f32 }),
    line!("v_cvt_f64_f32", |a: f32| -> f64 { f64::from(a) }),
    line!("v_cvt_f32_ubyte0", |a: u32| -> f32 { byte(a, 0) }),
    line!("v_cvt_f32_ubyte1", |a: u32| -> f32 { byte(a, 1) }),
    line!("v_cvt_f32_ubyte2", |a: u32| -> f32 { byte(a, 2) }),
    line!("v_cvt_f32_ubyte3", |a: u32| -> f32 { byte(a, 3) }),
    line!("v_cvt_u32_f64", |a: f64| -> u32 { a as u32 }),
    line!("v_cvt_f64_u32", |a: u32| -> f64 { f64::from(a) }),
    line!("v_trunc_f64", |a: f64| -> f64 { a.trunc() }),
    line!("v_ceil_f64", |a: f64| -> f64 { a.ceil() }),
    line!("v_rndne_f64", |a: f64| -> f64 { a.round_ties_even() }),
    line!("v_floor_f64", |a: f64| -> f64 { a.floor() }),
    line!("v_fract_f32", |a: f32| -> f32 { fract32(a) }),
    line!("v_trunc_f32", |a: f32| -> f32 { a.trunc() }),
    line!("v_ceil_f32", |a: f32| -> f32 { a.ceil() }),
    line!("v_rndne_f32", |a: f32| -> f32 { round_even32(a) }),
    line!("v_floor_f32", |a: f32| -> f32 { a.floor() }),
    line!("v_exp_f32", |a: f32| -> f32 { f64::from(a).exp2() as f32 }),
    line!("v_log_f32", |a: f32| -> f32 { f64::from(a).log2() as f32 }),
    line!("v_rcp_f32", |a: f32| -> f32 { 1.0 / a }),
    line!("v_rcp_iflag_f32", |a: f32| -> f32 { 1.0 / a }),
    line!("v_rsq_f32", |a: f32| -> f32 { (1.0 / f64::from(a).sqrt()) as f32 }),
    line!("v_rcp_f64", |a: f64| -> f64 { 1.0 / a }),
    line!("v_rsq_f64", |a: f64| -> f64 { 1.0 / a.sqrt() }),
    line!("v_sqrt_f32", |a: f32| -> f32 { a.sqrt() }),
    line!("v_sqrt_f64", |a: f64| -> f64 { a.sqrt() }),
    line!("v_sin_f32", |a: f32| -> f32 { turns(a, f64::sin) }),
    line!("v_cos_f32", |a: f32| -> f32 { turns(a, f64::cos) }),
    line!("v_not_b32", |a: u32| -> u32 { !a }),
    line!("v_bfrev_b32", |a: u32| -> u32 { a.reverse_bits() }),
    line!("v_ffbh_u32", |a: u32| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }),
    line!("v_ffbl_b32", |a: u32| -> u32 { if a == 0 { u32::MAX } else { a.trailing_zeros() } }),
    line!("v_ffbh_i32", |a: i32| -> u32 { sign_bits(a) }),
    line!("v_frexp_exp_i32_f64", |a: f64| -> i32 { frexp64(a).1 }),
    line!("v_frexp_mant_f64", |a: f64| -> f64 { frexp64(a).0 }),
    line!("v_fract_f64", |a: f64| -> f64 { fract64(a) }),
    line!("v_frexp_exp_i32_f32", |a: f32| -> i32 { frexp32(a).1 }),
    line!("v_frexp_mant_f32", |a: f32| -> f32 { frexp32(a).0 }),
    line!("v_cvt_f16_u16", |a: u16| -> F16 { F16::from_f32(f32::from(a)) }),
    line!("v_cvt_f16_i16", |a: i16| -> F16 { F16::from_f32(f32::from(a)) }),
    line!("v_cvt_u16_f16", |a: F16| -> u16 { a.to_f32() as u16 }),
    line!("v_cvt_i16_f16", |a: F16| -> i16 { a.to_f32() as i16 }),
    line!("v_rcp_f16", half1(|a| 1.0 / a)),
    line!("v_sqrt_f16", half1(f32::sqrt)),
    line!("v_rsq_f16", half1(|a| 1.0 / a.sqrt())),
    line!("v_log_f16", half1(f32::log2)),
    line!("v_exp_f16", half1(f32::exp2)),
    line!("v_frexp_mant_f16", half1(|a| frexp32(a).0)),
    line!("v_frexp_exp_i16_f16", |a: F16| -> i16 { frexp32(a.to_f32()).1 as i16 }),
    line!("v_floor_f16", half1(f32::floor)),
    line!("v_ceil_f16", half1(f32::ceil)),
    line!("v_trunc_f16", half1(f32::trunc)),
    line!("v_rndne_f16", half1(round_even32)),
    line!("v_fract_f16", half1(|a| (a - a.floor()).min(0.999_511_7))),
    line!("v_sin_f16", half1(|a| turns(a, f64::sin))),
    line!("v_cos_f16", half1(|a| turns(a, f64::cos))),
    line!("v_sat_pk_u8_i16", |a: u32| -> u32 {
        unsigned_byte((a as u16).cast_signed()) | unsigned_byte(((a >> 16) as u16).cast_signed()) << 8
    }),
    ("v_swap_b32", swap),
    line!("v_accvgpr_mov_b32", |a: u32| -> u32 { a }),
];

fn swap(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    debug_assert_eq!(i.form, Form::Short);
    let exec = w.exec();
    let (a, b) = (*w.row(i.dst, 0), *w.row(i.src[0], 0));
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        w.row_mut(i.dst, 0)[lane] = b[lane];
        w.row_mut(i.src[0], 0)[lane] = a[lane];
    }
    Ok(Flow::Next)
}
