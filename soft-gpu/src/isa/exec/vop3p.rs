//! VOP3P: packed operations and dot products.

use super::super::inst::{Inst, Mods};
use super::f16::F16;
use super::float::{max, min};
use super::lanes::{map1, result, result_32, source};
use super::value::Value;
use super::vop2::{dot_halves, dot_signed, dot_unsigned};
use super::wave::{LANES, Wave};
use super::wide::widely;
use super::{Env, Flow, Line, Trap};

/// The instruction without modifiers, which mean other things here.
fn bare(i: &Inst) -> Inst {
    let mut bare = Inst { mods: Mods::default(), ..*i };
    bare.plain = bare.is_plain();
    bare
}

/// Bit `n` of a mask of sources.
fn bit(mask: u8, n: usize) -> bool {
    mask >> n & 1 != 0
}

/// Computes both halves; each source gives each half from its lower or upper one.
fn packed<T: Value<Bits = u32>>(w: &mut Wave, i: &Inst, f: impl Fn([T; 3]) -> T) {
    let (plain, m, count) = (bare(i), i.mods, i.op.src.len());
    let mut out = [0u32; LANES];
    {
        let mut bufs = [None; 3];
        let mut rows: [&[u32; LANES]; 3] = [&[0; LANES]; 3];
        for ((n, row), buf) in rows.iter_mut().enumerate().zip(&mut bufs).take(count) {
            *row = source::<T>(w, &plain, n, buf);
        }
        // For the low result, then for the high one: where in its register each source is, and what changes its sign.
        for (shift_out, select, negate) in [(0, m.op_sel, m.neg), (16, m.op_sel_hi, m.abs)] {
            let shift = [0, 1, 2].map(|n| if bit(select, n) { 16 } else { 0 });
            let sign = [0, 1, 2].map(|n| if bit(negate, n) { 0x8000 } else { 0 });
            widely(
                w.wide,
                #[inline(always)]
                || {
                    for lane in 0..LANES {
                        let part =
                            [0, 1, 2].map(|n| T::from_bits((rows[n][lane] >> shift[n] ^ sign[n]) & 0xffff));
                        out[lane] |= (f(part).into_bits() & 0xffff) << shift_out;
                    }
                },
            );
        }
    }
    if m.clamp {
        for value in &mut out {
            let clamped = |half: u32| u32::from(F16::from_f32(F16(half as u16).to_f32().clamp(0.0, 1.0)).0);
            *value = clamped(*value & 0xffff) | clamped(*value >> 16) << 16;
        }
    }
    result_32::<u32>(w, &plain, out);
}

/// Two f32 in two registers.
fn packed_f32(w: &mut Wave, i: &Inst, f: impl Fn([f32; 3]) -> f32) {
    let (plain, m, count) = (bare(i), i.mods, i.op.src.len());
    let mut out = [0u64; LANES];
    {
        let mut bufs = [[0u64; LANES]; 3];
        for (n, buf) in bufs.iter_mut().enumerate().take(count) {
            wide_source(w, &plain, n, buf);
        }
        for (shift_out, select, negate) in [(0, m.op_sel, m.neg), (32, m.op_sel_hi, m.abs)] {
            let shift = [0, 1, 2].map(|n| if bit(select, n) { 32 } else { 0 });
            let sign = [0, 1, 2].map(|n| u32::from(bit(negate, n)) << 31);
            widely(
                w.wide,
                #[inline(always)]
                || {
                    for lane in 0..LANES {
                        let part =
                            [0, 1, 2].map(|n| f32::from_bits((bufs[n][lane] >> shift[n]) as u32 ^ sign[n]));
                        let value = f(part);
                        let value = if m.clamp { value.clamp(0.0, 1.0) } else { value };
                        out[lane] |= u64::from(value.to_bits()) << shift_out;
                    }
                },
            );
        }
    }
    result::<u64>(w, &plain, out);
}

/// Two words of a source; a constant is both.
fn wide_source(w: &Wave, i: &Inst, n: usize, buf: &mut [u64; LANES]) {
    let src = i.src[n];
    if src.is_vector() || src.0 < 128 {
        *buf = *source::<u64>(w, i, n, &mut None);
    } else {
        let word = u64::from(w.scalar32(src, i.literal));
        *buf = [word | word << 32; LANES];
    }
}

/// `v_pk_mov_b32`: a word of the first source, then one of the second.
fn pack_words(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let plain = bare(i);
    let (mut a, mut b) = ([0; LANES], [0; LANES]);
    wide_source(w, &plain, 0, &mut a);
    wide_source(w, &plain, 1, &mut b);
    let mut out = [0; LANES];
    for lane in 0..LANES {
        let word = |value: u64, n| value >> if bit(i.mods.op_sel, n) { 32 } else { 0 } & 0xffff_ffff;
        out[lane] = word(a[lane], 0) | word(b[lane], 1) << 32;
    }
    result::<u64>(w, &plain, out);
    Ok(Flow::Next)
}

/// `a * b + c` where each source is an f32 or a half.
fn mixed(w: &Wave, i: &Inst) -> [f32; LANES] {
    let (plain, m) = (bare(i), i.mods);
    let mut values = [[0f32; LANES]; 3];
    for (n, values) in values.iter_mut().enumerate() {
        let half = bit(m.op_sel_hi, n);
        let mut buf = None;
        let bits =
            if half { source::<F16>(w, &plain, n, &mut buf) } else { source::<f32>(w, &plain, n, &mut buf) };
        for (value, &bits) in values.iter_mut().zip(bits) {
            let plain = if half {
                F16((bits >> if bit(m.op_sel, n) { 16 } else { 0 }) as u16).to_f32()
            } else {
                f32::from_bits(bits)
            };
            let positive = if bit(m.abs, n) { plain.abs() } else { plain };
            *value = if bit(m.neg, n) { -positive } else { positive };
        }
    }
    let mut out = [0.0; LANES];
    widely(
        w.wide,
        #[inline(always)]
        || {
            for lane in 0..LANES {
                let sum = values[0][lane].mul_add(values[1][lane], values[2][lane]);
                out[lane] = if m.clamp { sum.clamp(0.0, 1.0) } else { sum };
            }
        },
    );
    out
}

/// The half that is not written is kept.
fn mixed_half(w: &mut Wave, i: &Inst, shift: u32) {
    let (values, old) = (mixed(w, i), *w.row(i.dst, 0));
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = old[lane] & !(0xffff << shift) | u32::from(F16::from_f32(values[lane]).0) << shift;
    }
    result_32::<u32>(w, &bare(i), out);
}

/// Dot products take whole registers.
fn dot<C: Value<Bits = u32>>(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32, C) -> C) -> Result<Flow, Trap> {
    let m = i.mods;
    let plain_halves = m.op_sel & 3 == 0 && m.op_sel_hi & 3 == 3;
    if !plain_halves || m.neg | m.abs != 0 || m.clamp {
        return Err(Trap::Unsupported { text: i.to_string(), why: "modifiers of dot products" });
    }
    let plain = bare(i);
    let mut out = [0; LANES];
    {
        let [mut x, mut y, mut z] = [None; 3];
        let (a, b) = (source::<u32>(w, &plain, 0, &mut x), source::<u32>(w, &plain, 1, &mut y));
        let c = source::<C>(w, &plain, 2, &mut z);
        widely(
            w.wide,
            #[inline(always)]
            || {
                for lane in 0..LANES {
                    out[lane] = f(a[lane], b[lane], C::from_bits(c[lane])).into_bits();
                }
            },
        );
    }
    result_32::<u32>(w, &plain, out);
    Ok(Flow::Next)
}

macro_rules! line {
    ($name:literal, $with:ident, $f:expr) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            $with(w, i, $f);
            Ok(Flow::Next)
        }
        ($name, run)
    }};
    ($name:literal, try $with:ident, $f:expr) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            $with(w, i, $f)
        }
        ($name, run)
    }};
}

fn halves2(f: impl Fn(f32, f32) -> f32) -> impl Fn([F16; 3]) -> F16 {
    move |[a, b, _]| F16::from_f32(f(a.to_f32(), b.to_f32()))
}

#[rustfmt::skip]
pub(super) const VOP3P: &[Line] = &[
    line!("v_pk_mad_i16", packed, |[a, b, c]: [i16; 3]| a.wrapping_mul(b).wrapping_add(c)),
    line!("v_pk_mul_lo_u16", packed, |[a, b, _]: [u16; 3]| a.wrapping_mul(b)),
    line!("v_pk_add_i16", packed, |[a, b, _]: [i16; 3]| a.wrapping_add(b)),
    line!("v_pk_sub_i16", packed, |[a, b, _]: [i16; 3]| a.wrapping_sub(b)),
    line!("v_pk_lshlrev_b16", packed, |[a, b, _]: [u16; 3]| b << (a & 15)),
    line!("v_pk_lshrrev_b16", packed, |[a, b, _]: [u16; 3]| b >> (a & 15)),
    line!("v_pk_ashrrev_i16", packed, |[a, b, _]: [i16; 3]| b >> (a & 15)),
    line!("v_pk_max_i16", packed, |[a, b, _]: [i16; 3]| a.max(b)),
    line!("v_pk_min_i16", packed, |[a, b, _]: [i16; 3]| a.min(b)),
    line!("v_pk_mad_u16", packed, |[a, b, c]: [u16; 3]| a.wrapping_mul(b).wrapping_add(c)),
    line!("v_pk_add_u16", packed, |[a, b, _]: [u16; 3]| a.wrapping_add(b)),
    line!("v_pk_sub_u16", packed, |[a, b, _]: [u16; 3]| a.wrapping_sub(b)),
    line!("v_pk_max_u16", packed, |[a, b, _]: [u16; 3]| a.max(b)),
    line!("v_pk_min_u16", packed, |[a, b, _]: [u16; 3]| a.min(b)),
    line!("v_pk_fma_f16", packed, |[a, b, c]: [F16; 3]| F16::fma(a, b, c)),
    line!("v_pk_add_f16", packed, halves2(|a, b| a + b)),
    line!("v_pk_mul_f16", packed, halves2(|a, b| a * b)),
    line!("v_pk_min_f16", packed, halves2(min)),
    line!("v_pk_max_f16", packed, halves2(max)),
    line!("v_fma_mix_f32", mix_to_f32, ()),
    line!("v_fma_mixlo_f16", mixed_half, 0),
    line!("v_fma_mixhi_f16", mixed_half, 16),
    line!("v_dot2_f32_f16", try dot, |a, b, c: f32| dot_halves(a, b, c)),
    line!("v_dot2_i32_i16", try dot, |a, b, c: i32| dot_signed(a, b, c, 16)),
    line!("v_dot2_u32_u16", try dot, |a, b, c: u32| dot_unsigned(a, b, c, 16)),
    line!("v_dot4_i32_i8", try dot, |a, b, c: i32| dot_signed(a, b, c, 8)),
    line!("v_dot4_u32_u8", try dot, |a, b, c: u32| dot_unsigned(a, b, c, 8)),
    line!("v_dot8_i32_i4", try dot, |a, b, c: i32| dot_signed(a, b, c, 4)),
    line!("v_dot8_u32_u4", try dot, |a, b, c: u32| dot_unsigned(a, b, c, 4)),
    line!("v_pk_fma_f32", packed_f32, |[a, b, c]: [f32; 3]| a.mul_add(b, c)),
    line!("v_pk_mul_f32", packed_f32, |[a, b, _]: [f32; 3]| a * b),
    line!("v_pk_add_f32", packed_f32, |[a, b, _]: [f32; 3]| a + b),
    ("v_pk_mov_b32", pack_words),
    line!("v_accvgpr_read_b32", map1, |a: u32| a),
    line!("v_accvgpr_write_b32", map1, |a: u32| a),
];

/// Packed integer opcodes with the clamp bit, which then saturate.
#[rustfmt::skip]
pub(super) const SATURATING: &[Line] = &[
    line!("v_pk_add_i16", packed_integers, |[a, b, _]: [i16; 3]| a.saturating_add(b)),
    line!("v_pk_sub_i16", packed_integers, |[a, b, _]: [i16; 3]| a.saturating_sub(b)),
    line!("v_pk_add_u16", packed_integers, |[a, b, _]: [u16; 3]| a.saturating_add(b)),
    line!("v_pk_sub_u16", packed_integers, |[a, b, _]: [u16; 3]| a.saturating_sub(b)),
];

/// The clamp bit has been seen to.
fn packed_integers<T: Value<Bits = u32>>(w: &mut Wave, i: &Inst, f: impl Fn([T; 3]) -> T) {
    let mods = Mods { clamp: false, ..i.mods };
    packed(w, &Inst { mods, ..*i }, f);
}

fn mix_to_f32(w: &mut Wave, i: &Inst, (): ()) {
    let out = mixed(w, i).map(f32::to_bits);
    result_32::<f32>(w, &bare(i), out);
}
