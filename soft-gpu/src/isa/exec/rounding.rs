//! Rounding as the mode register says, where that is not to the nearest.
//!
//! Bodies use the processor's own arithmetic, which rounds to the nearest. Where the mode says otherwise, which programs do for a
//! few instructions at most, the opcodes that round have these bodies instead; they are exact, and slow.
//!
//! The mode has a field for results of 32 bits and one for those of 16 and 64, which also rules conversions from f64. Opcodes that are
//! approximations (reciprocals, roots and the like) and matrix operations do not look at it.

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_apfloat::ieee::{Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

use super::super::inst::Inst;
use super::super::op::{Ty, flag};
use super::f16::F16;
use super::lanes::{Sink, accumulate, map1, map2, map3, result, result_32};
use super::value::Kind;
use super::vop3::with_flags;
use super::wave::{MODE_ROUND, VCC, Wave};
use super::{Body, Env, Flow, Line, Trap};

/// The body for the mode that the wave has.
pub(super) fn body(wave: &Wave, inst: &Inst, usual: Body) -> Result<Body, Trap> {
    static BODIES: LazyLock<HashMap<&'static str, Body>> =
        LazyLock::new(|| ARITHMETIC.into_iter().flatten().chain(OTHERS).copied().collect());
    let unusual = wave.mode & MODE_ROUND != 0 || wave.flushes(Kind::F16);
    if unusual && is_packed(inst) {
        let why = "packed and mixed arithmetic with this rounding or without denormals";
        return Err(Trap::Unsupported { text: inst.to_string(), why });
    }
    match wave.mode & MODE_ROUND {
        0 => Ok(usual),
        _ => Ok(BODIES.get(inst.op.name).copied().unwrap_or(usual)),
    }
}

/// Whether it computes with several floats of a register, or with floats of two types. (Matrix operations have their own rules.)
fn is_packed(inst: &Inst) -> bool {
    let op = inst.op;
    let types = op.src.iter().chain([&op.dst]);
    (types.into_iter().any(|ty| matches!(ty, Ty::PkF16 | Ty::PkF32)) && op.name != "v_pk_mov_b32")
        || op.is(flag::MIX)
}

/// A float whose operations round as one says.
trait Soft: Sink {
    type Float: Float;
    fn soft(self) -> Self::Float;
    fn hard(soft: Self::Float) -> Self;
    /// How the wave rounds results of this type.
    fn rounded(w: &Wave) -> Round {
        let mode = if Self::KIND == Kind::F32 { w.mode } else { w.mode >> 2 };
        match mode & 3 {
            0 => Round::NearestTiesToEven,
            1 => Round::TowardPositive,
            2 => Round::TowardNegative,
            _ => Round::TowardZero,
        }
    }
    fn add(self, b: Self, r: Round) -> Self {
        Self::hard(self.soft().add_r(b.soft(), r).value)
    }
    fn sub(self, b: Self, r: Round) -> Self {
        Self::hard(self.soft().sub_r(b.soft(), r).value)
    }
    fn mul(self, b: Self, r: Round) -> Self {
        Self::hard(self.soft().mul_r(b.soft(), r).value)
    }
    fn fma(self, b: Self, c: Self, r: Round) -> Self {
        Self::hard(self.soft().mul_add_r(b.soft(), c.soft(), r).value)
    }
    /// Times a power of two.
    fn scale(self, exponent: i32, r: Round) -> Self {
        Self::hard(self.soft().scalbn_r(exponent, r))
    }
    fn integer(value: i128, r: Round) -> Self {
        Self::hard(Self::Float::from_i128_r(value, r).value)
    }
    fn convert<T: Soft>(self, r: Round) -> T
    where
        Self::Float: FloatConvert<T::Float>,
    {
        T::hard(self.soft().convert_r(r, &mut false).value)
    }
}

macro_rules! soft {
    ($ty:ty, $soft:ty, |$from:ident| $bits:expr, |$to:ident| $value:expr) => {
        impl Soft for $ty {
            type Float = $soft;
            fn soft(self) -> $soft {
                let $from = self;
                <$soft>::from_bits(u128::from($bits))
            }
            fn hard(soft: $soft) -> Self {
                let $to = soft.to_bits();
                $value
            }
        }
    };
}
soft!(F16, Half, |v| v.0, |b| F16(b as u16));
soft!(f32, Single, |v| v.to_bits(), |b| f32::from_bits(b as u32));
soft!(f64, Double, |v| v.to_bits(), |b| f64::from_bits(b as u64));

/// The product is rounded before the sum; of 32 bits, without denormals (see [`super::vop2::mad`]).
fn mad<T: Soft>(a: T, b: T, c: T, r: Round) -> T {
    let flushed = |x: T| {
        if T::KIND == Kind::F32 && x.soft().is_denormal() {
            T::hard(T::Float::ZERO.copy_sign(x.soft()))
        } else {
            x
        }
    };
    flushed(flushed(flushed(a).mul(flushed(b), r)).add(flushed(c), r))
}

/// Below 1, also where the difference was rounded up.
fn fract<T: Soft>(x: T, below_one: T, r: Round) -> T {
    let floor = T::hard(x.soft().round_to_integral(Round::TowardNegative).value);
    let fraction = x.sub(floor, r);
    if fraction.soft() >= T::integer(1, r).soft() { below_one } else { fraction }
}

/// See [`super::float::div_fmas32`].
fn divided<T: Soft>(a: T, b: T, c: T, scaled: bool, r: Round, by: i32) -> T {
    let sum = a.fma(b, c, r);
    let up = c.soft().ilogb() > 0;
    match (scaled, up) {
        (false, _) => sum,
        (true, true) => sum.scale(by, r),
        (true, false) => sum.scale(-by, r),
    }
}

/// A body that carries `f` over the lanes with `with`; `r` is how results of type `ty` are rounded.
macro_rules! line {
    ($name:literal, $ty:ty, $with:ident, |$r:ident| $f:expr) => {{
        fn run(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
            let $r = <$ty>::rounded(w);
            $with(w, i, $f);
            Ok(Flow::Next)
        }
        ($name, run)
    }};
}

/// Sums, products and what is made of them, which several types have.
macro_rules! arithmetic {
    ($ty:ty, $($name:literal => $op:ident),* $(,)?) => { [$(arithmetic!(@ $ty, $name, $op)),*] };
    (@ $ty:ty, $name:literal, add) => { line!($name, $ty, map2, |r| move |a: $ty, b: $ty| a.add(b, r)) };
    (@ $ty:ty, $name:literal, sub) => { line!($name, $ty, map2, |r| move |a: $ty, b: $ty| a.sub(b, r)) };
    (@ $ty:ty, $name:literal, subrev) => { line!($name, $ty, map2, |r| move |a: $ty, b: $ty| b.sub(a, r)) };
    (@ $ty:ty, $name:literal, mul) => { line!($name, $ty, map2, |r| move |a: $ty, b: $ty| a.mul(b, r)) };
    (@ $ty:ty, $name:literal, fma) => { line!($name, $ty, map3, |r| move |a: $ty, b: $ty, c: $ty| a.fma(b, c, r)) };
    (@ $ty:ty, $name:literal, fmac) => { line!($name, $ty, accumulate, |r| move |a: $ty, b: $ty, c: $ty| a.fma(b, c, r)) };
    (@ $ty:ty, $name:literal, mad) => { line!($name, $ty, map3, |r| move |a: $ty, b: $ty, c: $ty| mad(a, b, c, r)) };
    (@ $ty:ty, $name:literal, mac) => { line!($name, $ty, accumulate, |r| move |a: $ty, b: $ty, c: $ty| mad(a, b, c, r)) };
}

const ARITHMETIC: [&[Line]; 3] = [
    &arithmetic!(f32,
        "v_add_f32" => add, "v_sub_f32" => sub, "v_subrev_f32" => subrev, "v_mul_f32" => mul,
        "v_fma_f32" => fma, "v_fmac_f32" => fmac, "v_fmamk_f32" => fma, "v_fmaak_f32" => fma,
        "v_mad_f32" => mad, "v_mac_f32" => mac, "v_madmk_f32" => mad, "v_madak_f32" => mad,
    ),
    &arithmetic!(f64,
        "v_add_f64" => add, "v_mul_f64" => mul, "v_fma_f64" => fma, "v_fmac_f64" => fmac,
    ),
    &arithmetic!(F16,
        "v_add_f16" => add, "v_sub_f16" => sub, "v_subrev_f16" => subrev, "v_mul_f16" => mul,
        "v_fma_f16" => fma, "v_mad_f16" => mad, "v_mac_f16" => mac, "v_madmk_f16" => mad, "v_madak_f16" => mad,
    ),
];

#[rustfmt::skip]
const OTHERS: &[Line] = &[
    line!("v_mul_legacy_f32", f32, map2, |r| move |a: f32, b: f32| if a == 0.0 || b == 0.0 { 0.0 } else { a.mul(b, r) }),
    line!("v_mad_legacy_f32", f32, map3, |r| move |a: f32, b: f32, c: f32| if a == 0.0 || b == 0.0 { c } else { mad(a, b, c, r) }),
    line!("v_cvt_f32_i32", f32, map1, |r| move |a: i32| f32::integer(i128::from(a), r)),
    line!("v_cvt_f32_u32", f32, map1, |r| move |a: u32| f32::integer(i128::from(a), r)),
    line!("v_cvt_f32_f64", f64, map1, |r| move |a: f64| -> f32 { a.convert(r) }),
    line!("v_cvt_f16_f32", F16, map1, |r| move |a: f32| -> F16 { a.convert(r) }),
    line!("v_cvt_f16_u16", F16, map1, |r| move |a: u16| F16::integer(i128::from(a), r)),
    line!("v_cvt_f16_i16", F16, map1, |r| move |a: i16| F16::integer(i128::from(a), r)),
    line!("v_ldexp_f16", F16, map2, |r| move |a: F16, b: i16| a.scale(i32::from(b), r)),
    line!("v_ldexp_f32", f32, map2, |r| move |a: f32, b: i32| a.scale(b, r)),
    line!("v_ldexp_f64", f64, map2, |r| move |a: f64, b: i32| a.scale(b, r)),
    line!("v_fract_f16", F16, map1, |r| move |a: F16| fract(a, F16(0x3bff), r)),
    line!("v_fract_f32", f32, map1, |r| move |a: f32| fract(a, f32::from_bits(0x3f7f_ffff), r)),
    line!("v_fract_f64", f64, map1, |r| move |a: f64| fract(a, f64::from_bits(0x3fef_ffff_ffff_ffff), r)),
    ("v_div_fmas_f32", |w, i, _| {
        let (vcc, r) = (w.s64(VCC), f32::rounded(w));
        let out = with_flags::<f32>(w, i, |a, b, c, lane| divided(a, b, c, vcc >> lane & 1 != 0, r, 64));
        result_32::<f32>(w, i, out);
        Ok(Flow::Next)
    }),
    ("v_div_fmas_f64", |w, i, _| {
        let (vcc, r) = (w.s64(VCC), f64::rounded(w));
        let out = with_flags::<f64>(w, i, |a, b, c, lane| divided(a, b, c, vcc >> lane & 1 != 0, r, 128));
        result::<f64>(w, i, out);
        Ok(Flow::Next)
    }),
];
