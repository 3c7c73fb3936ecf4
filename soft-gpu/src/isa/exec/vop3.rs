//! VOP3: vector operations of up to three sources.

use super::super::inst::Inst;
use super::f16::F16;
use super::float::{
    div_fixup32, div_fixup64, div_fmas32, div_fmas64, div_scale32, div_scale64, half3, ldexp32, ldexp64, max,
    med3, min, trig_preop,
};
use super::lanes::{Source, map2, map3, result, result_32, source};
use super::vop2::{i24, line, mad, u24};
use super::wave::{LANES, VCC, Wave};
use super::wide::widely;
use super::{Env, Flow, Line, Trap};

/// Sources of three operands with a flag for each lane, as the divisions have.
pub(super) fn with_flags<T: Source>(w: &Wave, i: &Inst, f: impl Fn(T, T, T, usize) -> T) -> [T::Bits; LANES] {
    let mut out = [T::Bits::default(); LANES];
    let [mut x, mut y, mut z] = [None; 3];
    let (a, b, c) =
        (source::<T>(w, i, 0, &mut x), source::<T>(w, i, 1, &mut y), source::<T>(w, i, 2, &mut z));
    widely(
        w.wide,
        #[inline(always)]
        || {
            for lane in 0..LANES {
                let value = f(T::from_bits(a[lane]), T::from_bits(b[lane]), T::from_bits(c[lane]), lane);
                out[lane] = value.into_bits();
            }
        },
    );
    out
}

fn scale32(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let mask = std::cell::Cell::new(0u64);
    let out = with_flags::<f32>(w, i, |a, b, c, lane| {
        let (value, scaled) = div_scale32(a, b, c);
        mask.set(mask.get() | u64::from(scaled) << lane);
        value
    });
    result_32::<f32>(w, i, out);
    w.set_s64(usize::from(i.sdst.0), mask.get() & w.exec());
    Ok(Flow::Next)
}

fn scale64(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let mask = std::cell::Cell::new(0u64);
    let out = with_flags::<f64>(w, i, |a, b, c, lane| {
        let (value, scaled) = div_scale64(a, b, c);
        mask.set(mask.get() | u64::from(scaled) << lane);
        value
    });
    result::<f64>(w, i, out);
    w.set_s64(usize::from(i.sdst.0), mask.get() & w.exec());
    Ok(Flow::Next)
}

fn fmas32(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let vcc = w.s64(VCC);
    let out = with_flags::<f32>(w, i, |a, b, c, lane| div_fmas32(a, b, c, vcc >> lane & 1 != 0));
    result_32::<f32>(w, i, out);
    Ok(Flow::Next)
}

fn fmas64(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let vcc = w.s64(VCC);
    let out = with_flags::<f64>(w, i, |a, b, c, lane| div_fmas64(a, b, c, vcc >> lane & 1 != 0));
    result::<f64>(w, i, out);
    Ok(Flow::Next)
}

/// `a * b + c` of 64 bits with the carry out.
fn mad64(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32, u64) -> (u64, bool)) {
    let (mut out, mut mask) = ([0; LANES], 0u64);
    {
        let (mut x, mut y, mut z) = (None, None, None);
        let (a, b) = (source::<u32>(w, i, 0, &mut x), source::<u32>(w, i, 1, &mut y));
        let c = source::<u64>(w, i, 2, &mut z);
        widely(
            w.wide,
            #[inline(always)]
            || {
                for lane in 0..LANES {
                    let (value, carry) = f(a[lane], b[lane], c[lane]);
                    out[lane] = value;
                    mask |= u64::from(carry) << lane;
                }
            },
        );
    }
    result::<u64>(w, i, out);
    w.set_s64(usize::from(i.sdst.0), mask & w.exec());
}

/// How many bits of `mask` below a lane are set, added to the second source.
fn mask_count(w: &mut Wave, i: &Inst, shift: usize) {
    let mut out = [0; LANES];
    {
        let (mut x, mut y) = (None, None);
        let (a, b) = (source::<u32>(w, i, 0, &mut x), source::<u32>(w, i, 1, &mut y));
        for lane in 0..LANES {
            let below = match lane.checked_sub(shift) {
                None => 0,
                Some(at @ 0..32) => (1u32 << at) - 1,
                Some(_) => u32::MAX,
            };
            out[lane] = (a[lane] & below).count_ones().wrapping_add(b[lane]);
        }
    }
    result_32::<u32>(w, i, out);
}

/// A byte of the eight in two words, or a constant.
#[inline(always)]
fn permuted(high: u32, low: u32, selector: u32) -> u32 {
    let all = u64::from(high) << 32 | u64::from(low);
    (0..4).fold(0, |word, at| {
        let sel = selector >> (8 * at) & 0xff;
        let byte = match sel {
            0..=7 => (all >> (8 * sel)) as u32 & 0xff,
            // The sign of a word, in all bits.
            8..=11 => {
                if all >> (16 * (sel - 8) + 15) & 1 != 0 {
                    0xff
                } else {
                    0
                }
            }
            12 => 0,
            _ => 0xff,
        };
        word | byte << (8 * at)
    })
}

#[inline(always)]
fn absolute_differences(a: u32, b: u32, c: u32) -> u32 {
    (0..4).fold(c, |sum, at| sum.wrapping_add((a >> (8 * at) & 0xff).abs_diff(b >> (8 * at) & 0xff)))
}

#[inline(always)]
fn normalized(value: f32, max: f32, min: f32) -> u32 {
    let scaled = (value.clamp(min, 1.0) * max).round_ties_even();
    (if value.is_nan() { 0.0 } else { scaled }) as i32 as u32 & 0xffff
}

fn unsigned_bit_field(a: u32, b: u32, c: u32) -> u32 {
    let (offset, width) = (b & 31, c & 31);
    a >> offset & ((1 << width) - 1)
}

fn signed_bit_field(a: i32, b: u32, c: u32) -> i32 {
    let (offset, width) = (b & 31, c & 31);
    if width == 0 {
        return 0;
    }
    let shifted = i64::from(a >> offset);
    (shifted << (64 - width) >> (64 - width)) as i32
}

#[rustfmt::skip]
pub(super) const VOP3: &[Line] = &[
    line!("v_mad_f32", with map3, |a: f32, b: f32, c: f32| mad(a, b, c)),
    line!("v_mad_legacy_f32", |a: f32, b: f32, c: f32| -> f32 { if a == 0.0 || b == 0.0 { c } else { mad(a, b, c) } }),
    line!("v_mad_i32_i24", |a: u32, b: u32, c: u32| -> u32 { ((i24(a) * i24(b)) as u32).wrapping_add(c) }),
    line!("v_mad_u32_u24", |a: u32, b: u32, c: u32| -> u32 { ((u24(a) * u24(b)) as u32).wrapping_add(c) }),
    line!("v_bfe_u32", |a: u32, b: u32, c: u32| -> u32 { unsigned_bit_field(a, b, c) }),
    line!("v_bfe_i32", |a: i32, b: u32, c: u32| -> i32 { signed_bit_field(a, b, c) }),
    line!("v_bfi_b32", |a: u32, b: u32, c: u32| -> u32 { a & b | !a & c }),
    line!("v_fma_f32", |a: f32, b: f32, c: f32| -> f32 { a.mul_add(b, c) }),
    line!("v_fma_f64", |a: f64, b: f64, c: f64| -> f64 { a.mul_add(b, c) }),
    line!("v_alignbit_b32", |a: u32, b: u32, c: u32| -> u32 { ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32 }),
    line!("v_alignbyte_b32", |a: u32, b: u32, c: u32| -> u32 { ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32 }),
    line!("v_min3_f32", |a: f32, b: f32, c: f32| -> f32 { min(min(a, b), c) }),
    line!("v_min3_i32", |a: i32, b: i32, c: i32| -> i32 { a.min(b).min(c) }),
    line!("v_min3_u32", |a: u32, b: u32, c: u32| -> u32 { a.min(b).min(c) }),
    line!("v_max3_f32", |a: f32, b: f32, c: f32| -> f32 { max(max(a, b), c) }),
    line!("v_max3_i32", |a: i32, b: i32, c: i32| -> i32 { a.max(b).max(c) }),
    line!("v_max3_u32", |a: u32, b: u32, c: u32| -> u32 { a.max(b).max(c) }),
    line!("v_med3_f32", |a: f32, b: f32, c: f32| -> f32 { med3(a, b, c) }),
    line!("v_med3_i32", |a: i32, b: i32, c: i32| -> i32 { a.min(b).max(a.max(b).min(c)) }),
    line!("v_med3_u32", |a: u32, b: u32, c: u32| -> u32 { a.min(b).max(a.max(b).min(c)) }),
    line!("v_sad_u8", |a: u32, b: u32, c: u32| -> u32 { absolute_differences(a, b, c) }),
    line!("v_sad_hi_u8", |a: u32, b: u32, c: u32| -> u32 { (absolute_differences(a, b, 0) << 16).wrapping_add(c) }),
    line!("v_sad_u16", |a: u32, b: u32, c: u32| -> u32 { c.wrapping_add((a & 0xffff).abs_diff(b & 0xffff)).wrapping_add((a >> 16).abs_diff(b >> 16)) }),
    line!("v_sad_u32", |a: u32, b: u32, c: u32| -> u32 { a.abs_diff(b).wrapping_add(c) }),
    line!("v_div_fixup_f32", |a: f32, b: f32, c: f32| -> f32 { div_fixup32(a, b, c) }),
    line!("v_div_fixup_f64", |a: f64, b: f64, c: f64| -> f64 { div_fixup64(a, b, c) }),
    line!("v_div_fixup_f16", |a: F16, b: F16, c: F16| -> F16 { F16::from_f32(div_fixup32(a.to_f32(), b.to_f32(), c.to_f32())) }),
    ("v_div_scale_f32", scale32),
    ("v_div_scale_f64", scale64),
    ("v_div_fmas_f32", fmas32),
    ("v_div_fmas_f64", fmas64),
    line!("v_mad_u64_u32", with mad64, |a, b, c| (u64::from(a) * u64::from(b)).overflowing_add(c)),
    line!("v_mad_i64_i32", with mad64, |a, b, c| {
        let (sum, over) = (i64::from(a.cast_signed()) * i64::from(b.cast_signed())).overflowing_add(c.cast_signed());
        (sum.cast_unsigned(), over)
    }),
    line!("v_perm_b32", |a: u32, b: u32, c: u32| -> u32 { permuted(a, b, c) }),
    line!("v_mad_u32_u16", |a: u16, b: u16, c: u32| -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) }),
    line!("v_mad_i32_i16", |a: i16, b: i16, c: i32| -> i32 { (i32::from(a) * i32::from(b)).wrapping_add(c) }),
    line!("v_xad_u32", |a: u32, b: u32, c: u32| -> u32 { (a ^ b).wrapping_add(c) }),
    line!("v_min3_f16", with map3, half3(|a, b, c| min(min(a, b), c))),
    line!("v_max3_f16", with map3, half3(|a, b, c| max(max(a, b), c))),
    line!("v_med3_f16", with map3, half3(med3)),
    line!("v_min3_i16", |a: i16, b: i16, c: i16| -> i16 { a.min(b).min(c) }),
    line!("v_min3_u16", |a: u16, b: u16, c: u16| -> u16 { a.min(b).min(c) }),
    line!("v_max3_i16", |a: i16, b: i16, c: i16| -> i16 { a.max(b).max(c) }),
    line!("v_max3_u16", |a: u16, b: u16, c: u16| -> u16 { a.max(b).max(c) }),
    line!("v_med3_i16", |a: i16, b: i16, c: i16| -> i16 { a.min(b).max(a.max(b).min(c)) }),
    line!("v_med3_u16", |a: u16, b: u16, c: u16| -> u16 { a.min(b).max(a.max(b).min(c)) }),
    line!("v_lshl_add_u32", |a: u32, b: u32, c: u32| -> u32 { (a << (b & 31)).wrapping_add(c) }),
    line!("v_add_lshl_u32", |a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b) << (c & 31) }),
    line!("v_add3_u32", |a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b).wrapping_add(c) }),
    line!("v_lshl_or_b32", |a: u32, b: u32, c: u32| -> u32 { a << (b & 31) | c }),
    line!("v_and_or_b32", |a: u32, b: u32, c: u32| -> u32 { a & b | c }),
    line!("v_or3_b32", |a: u32, b: u32, c: u32| -> u32 { a | b | c }),
    line!("v_mad_f16", with map3, |a: F16, b: F16, c: F16| F16::from_f32(F16::from_f32(a.to_f32() * b.to_f32()).to_f32() + c.to_f32())),
    line!("v_mad_u16", |a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) }),
    line!("v_mad_i16", |a: i16, b: i16, c: i16| -> i16 { a.wrapping_mul(b).wrapping_add(c) }),
    line!("v_fma_f16", with map3, F16::fma),
    line!("v_lshl_add_u64", |a: u64, b: u32, c: u64| -> u64 { (a << (b & 7)).wrapping_add(c) }),
    line!("v_add_f64", |a: f64, b: f64| -> f64 { a + b }),
    line!("v_mul_f64", |a: f64, b: f64| -> f64 { a * b }),
    line!("v_min_f64", |a: f64, b: f64| -> f64 { min(a, b) }),
    line!("v_max_f64", |a: f64, b: f64| -> f64 { max(a, b) }),
    line!("v_ldexp_f64", |a: f64, b: i32| -> f64 { ldexp64(a, b) }),
    line!("v_trig_preop_f64", |a: f64, b: u32| -> f64 { trig_preop(a, b) }),
    line!("v_mul_lo_u32", |a: u32, b: u32| -> u32 { a.wrapping_mul(b) }),
    line!("v_mul_hi_u32", |a: u32, b: u32| -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 }),
    line!("v_mul_hi_i32", |a: i32, b: i32| -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 }),
    line!("v_ldexp_f32", |a: f32, b: i32| -> f32 { ldexp32(a, b) }),
    ("v_readlane_b32", |w, i, _| {
        let lane = w.scalar32(i.src[1], 0) as usize & 63;
        w.s[usize::from(i.dst.0) & 127] = w.row(i.src[0], 0)[lane];
        Ok(Flow::Next)
    }),
    ("v_writelane_b32", |w, i, _| {
        let (value, lane) = (w.scalar32(i.src[0], 0), w.scalar32(i.src[1], 0) as usize & 63);
        w.row_mut(i.dst, 0)[lane] = value;
        Ok(Flow::Next)
    }),
    line!("v_bcnt_u32_b32", |a: u32, b: u32| -> u32 { a.count_ones().wrapping_add(b) }),
    line!("v_mbcnt_lo_u32_b32", with mask_count, 0),
    line!("v_mbcnt_hi_u32_b32", with mask_count, 32),
    line!("v_lshlrev_b64", |a: u32, b: u64| -> u64 { b << (a & 63) }),
    line!("v_lshrrev_b64", |a: u32, b: u64| -> u64 { b >> (a & 63) }),
    line!("v_ashrrev_i64", |a: u32, b: i64| -> i64 { b >> (a & 63) }),
    line!("v_bfm_b32", |a: u32, b: u32| -> u32 { ((1u32 << (a & 31)) - 1) << (b & 31) }),
    line!("v_cvt_pknorm_i16_f32", |a: f32, b: f32| -> u32 { normalized(a, 32767.0, -1.0) | normalized(b, 32767.0, -1.0) << 16 }),
    line!("v_cvt_pknorm_u16_f32", |a: f32, b: f32| -> u32 { normalized(a, 65535.0, 0.0) | normalized(b, 65535.0, 0.0) << 16 }),
    line!("v_cvt_pkrtz_f16_f32", |a: f32, b: f32| -> u32 {
        u32::from(F16::from_f32_toward_zero(a).0) | u32::from(F16::from_f32_toward_zero(b).0) << 16
    }),
    line!("v_cvt_pk_u16_u32", |a: u32, b: u32| -> u32 { a.min(0xffff) | b.min(0xffff) << 16 }),
    line!("v_cvt_pk_i16_i32", |a: i32, b: i32| -> u32 {
        let low = |x: i32| x.clamp(-0x8000, 0x7fff).cast_unsigned() & 0xffff;
        low(a) | low(b) << 16
    }),
    line!("v_add_i32", |a: i32, b: i32| -> i32 { a.wrapping_add(b) }),
    line!("v_sub_i32", |a: i32, b: i32| -> i32 { a.wrapping_sub(b) }),
    line!("v_add_i16", |a: i16, b: i16| -> i16 { a.wrapping_add(b) }),
    line!("v_sub_i16", |a: i16, b: i16| -> i16 { a.wrapping_sub(b) }),
    line!("v_pack_b32_f16", |a: F16, b: F16| -> u32 { u32::from(a.0) | u32::from(b.0) << 16 }),
    line!("v_mul_legacy_f32", |a: f32, b: f32| -> f32 { if a == 0.0 || b == 0.0 { 0.0 } else { a * b } }),
];

/// Integer opcodes with the clamp bit, which then saturate.
#[rustfmt::skip]
pub(super) const SATURATING: &[Line] = &[
    line!("v_add_u32", |a: u32, b: u32| -> u32 { a.saturating_add(b) }),
    line!("v_sub_u32", |a: u32, b: u32| -> u32 { a.saturating_sub(b) }),
    line!("v_subrev_u32", |a: u32, b: u32| -> u32 { b.saturating_sub(a) }),
    line!("v_add_i32", |a: i32, b: i32| -> i32 { a.saturating_add(b) }),
    line!("v_sub_i32", |a: i32, b: i32| -> i32 { a.saturating_sub(b) }),
    line!("v_add_u16", |a: u16, b: u16| -> u16 { a.saturating_add(b) }),
    line!("v_sub_u16", |a: u16, b: u16| -> u16 { a.saturating_sub(b) }),
    line!("v_subrev_u16", |a: u16, b: u16| -> u16 { b.saturating_sub(a) }),
    line!("v_add_i16", |a: i16, b: i16| -> i16 { a.saturating_add(b) }),
    line!("v_sub_i16", |a: i16, b: i16| -> i16 { a.saturating_sub(b) }),
];
