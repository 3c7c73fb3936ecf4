//! Floating-point functions that the vector opcodes are made of.

use super::f16::F16;

/// Operations that floats of both larger sizes have.
pub(super) trait Float: Copy + PartialOrd {
    fn is_nan(self) -> bool;
    fn quiet(self) -> Self;
    fn is_negative_zero_or_less(self) -> bool;
}

impl Float for f32 {
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
    #[inline(always)]
    fn quiet(self) -> Self {
        f32::from_bits(self.to_bits() | 0x0040_0000)
    }
    #[inline(always)]
    fn is_negative_zero_or_less(self) -> bool {
        self.is_sign_negative()
    }
}

impl Float for f64 {
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
    #[inline(always)]
    fn quiet(self) -> Self {
        f64::from_bits(self.to_bits() | 1 << 51)
    }
    #[inline(always)]
    fn is_negative_zero_or_less(self) -> bool {
        self.is_sign_negative()
    }
}

/// Whether `a` is before `b`, of which neither is NaN; -0 is less than 0.
#[inline(always)]
fn is_less<T: Float>(a: T, b: T) -> bool {
    (a < b) | ((a == b) & a.is_negative_zero_or_less())
}

/// A number wins over NaN; of two numbers the first if it is the one to take. (Choices without branches are made for many lanes
/// at once.)
#[inline(always)]
fn choose<T: Float>(a: T, b: T, takes_first: impl FnOnce(T, T) -> bool) -> T {
    let number = if takes_first(a, b) { a } else { b };
    let with_b = if b.is_nan() { a } else { number };
    let with_a = if a.is_nan() { b } else { with_b };
    if a.is_nan() & b.is_nan() { a.quiet() } else { with_a }
}

/// The smaller one; a number wins over NaN, and -0 is less than 0.
#[inline(always)]
pub(super) fn min<T: Float>(a: T, b: T) -> T {
    choose(a, b, is_less)
}

/// The larger one; see [`min`].
#[inline(always)]
pub(super) fn max<T: Float>(a: T, b: T) -> T {
    choose(a, b, |a, b| !is_less(a, b))
}

/// The one in the middle; with a NaN, the smallest of the others.
#[inline(always)]
pub(super) fn med3<T: Float>(a: T, b: T, c: T) -> T {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
}

/// A half through its exact f32.
#[inline(always)]
pub(super) fn half1(f: impl Fn(f32) -> f32) -> impl Fn(F16) -> F16 {
    move |a| F16::from_f32(f(a.to_f32()))
}

/// See [`half1`].
#[inline(always)]
pub(super) fn half2(f: impl Fn(f32, f32) -> f32) -> impl Fn(F16, F16) -> F16 {
    move |a, b| F16::from_f32(f(a.to_f32(), b.to_f32()))
}

/// See [`half1`].
#[inline(always)]
pub(super) fn half3(f: impl Fn(f32, f32, f32) -> f32) -> impl Fn(F16, F16, F16) -> F16 {
    move |a, b, c| F16::from_f32(f(a.to_f32(), b.to_f32(), c.to_f32()))
}

/// `x * 2^n`, rounded once.
pub(super) fn ldexp64(x: f64, n: i32) -> f64 {
    // Steps that stay normal until the last one, so that only it rounds.
    let step = |power: i32| f64::from_bits(u64::from((power + 1023).cast_unsigned()) << 52);
    let mut n = n.clamp(-4000, 4000);
    let mut x = x;
    if n > 1023 {
        while n > 1023 {
            x *= step(1023);
            n -= 1023;
        }
        return x * step(n);
    }
    if n >= -1022 {
        return x * step(n);
    }
    // Normalize first: multiplying by 2^-969 keeps at least 53 bits of a number above 2^-53.
    let (mantissa, exponent) = frexp64(x);
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = exponent + n;
    if exponent < -1080 {
        return 0.0f64.copysign(x);
    }
    // mantissa is in [0.5, 1): both factors are normal, and the second product rounds.
    mantissa * step(-60) * step((exponent + 60).max(-1022))
}

/// `x * 2^n`, rounded once.
pub(super) fn ldexp32(x: f32, n: i32) -> f32 {
    // A double holds every f32 times 2^n without rounding for |n| <= 800; beyond, the result is 0 or infinite anyway.
    ldexp64(f64::from(x), n.clamp(-800, 800)) as f32
}

/// Mantissa in [0.5, 1) and exponent; the mantissa of 0, infinity and NaN is the number itself, the exponent 0.
pub(super) fn frexp64(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (x, bias) =
        if x.abs() < f64::MIN_POSITIVE { (x * f64::from_bits(0x4350_0000_0000_0000), 54) } else { (x, 0) };
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022 - bias;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent)
}

/// See [`frexp64`].
pub(super) fn frexp32(x: f32) -> (f32, i32) {
    let (mantissa, exponent) = frexp64(f64::from(x));
    (mantissa as f32, exponent)
}

/// The fraction, below 1.
#[inline(always)]
pub(super) fn fract32(x: f32) -> f32 {
    let fraction = x - x.floor();
    // The largest float below 1; NaN and infinity go through.
    if fraction >= 1.0 { f32::from_bits(0x3f7f_ffff) } else { fraction }
}

/// See [`fract32`].
#[inline(always)]
pub(super) fn fract64(x: f64) -> f64 {
    let fraction = x - x.floor();
    if fraction >= 1.0 { f64::from_bits(0x3fef_ffff_ffff_ffff) } else { fraction }
}

/// The first 1201 bits behind the point of 2/pi, by words; the last 15 are not used.
const TWO_BY_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_0000,
];

/// 53 bits of 2/pi for the reduction of large angles (`v_trig_preop_f64`): those of segment `segment`, which begin later for large
/// numbers; scaled to their place, and by 2^128 for very large ones. (The manuals' rule.)
pub(super) fn trig_preop(x: f64, segment: u32) -> f64 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as u32;
    let shift = (segment & 31) * 53 + exponent.saturating_sub(1077);
    let (word, bit) = ((shift / 64) as usize, shift % 64);
    let at = |index: usize| u128::from(TWO_BY_PI.get(index).copied().unwrap_or(0));
    let bits = (at(word) << 64 | at(word + 1)) << bit >> 64;
    let scale = -53 - shift.cast_signed() + if exponent >= 1968 { 128 } else { 0 };
    ldexp64((bits as u64 >> 11) as f64, scale)
}

/// Sine or cosine of turns, as the hardware takes them.
pub(super) fn turns(x: f32, f: fn(f64) -> f64) -> f32 {
    if !x.is_finite() {
        return f32::NAN;
    }
    let x = f64::from(x);
    f((x - x.floor()) * std::f64::consts::TAU) as f32
}

/// Whether a float is of one of the classes of `mask` (`v_cmp_class`): signaling and quiet NaN, negative infinity,
/// normal, denormal, zero, then the positive ones from zero on.
pub(super) fn is_class(sign: bool, exponent: u32, mantissa: u64, max: u32, quiet: u64, mask: u32) -> bool {
    let class = match (exponent, mantissa) {
        (0, 0) => {
            if sign {
                5
            } else {
                6
            }
        }
        (0, _) => {
            if sign {
                4
            } else {
                7
            }
        }
        (e, 0) if e == max => {
            if sign {
                2
            } else {
                9
            }
        }
        (e, m) if e == max => u32::from(m & quiet != 0),
        _ => {
            if sign {
                3
            } else {
                8
            }
        }
    };
    mask >> class & 1 != 0
}

/// See [`is_class`].
pub(super) fn class32(x: u32, mask: u32) -> bool {
    is_class(x >> 31 != 0, x >> 23 & 0xff, u64::from(x & 0x7f_ffff), 0xff, 1 << 22, mask)
}

/// See [`is_class`].
pub(super) fn class64(x: u64, mask: u32) -> bool {
    is_class(x >> 63 != 0, (x >> 52 & 0x7ff) as u32, x & ((1 << 52) - 1), 0x7ff, 1 << 51, mask)
}

/// See [`is_class`].
pub(super) fn class16(x: u16, mask: u32) -> bool {
    is_class(x >> 15 != 0, u32::from(x >> 10 & 0x1f), u64::from(x & 0x3ff), 0x1f, 1 << 9, mask)
}

macro_rules! division {
    ($float:ty, $scale:ident, $fixup:ident, $fmas:ident, $exponent:ident, $max:literal, $bias:literal, $mantissa:literal, $up:literal, $tiny:literal, $ldexp:ident) => {
        /// The biased exponent.
        fn $exponent(x: $float) -> i32 {
            ((x.to_bits() >> $mantissa & $max) as u32).cast_signed()
        }

        /// `v_div_scale`: scales the denominator (`s0` equal to `s1`) or the numerator `s2` of a division so that the steps
        /// after it neither overflow nor underflow; the flag says that the quotient has to be scaled back.
        /// (The manuals' rules.)
        pub(super) fn $scale(s0: $float, s1: $float, s2: $float) -> ($float, bool) {
            let (denominator, numerator) = (s1, s2);
            let tiny = |x: $float| x != 0.0 && $exponent(x) == 0;
            if numerator == 0.0 || denominator == 0.0 {
                return (<$float>::NAN, false);
            }
            let is_denominator = s0.to_bits() == denominator.to_bits();
            let is_numerator = s0.to_bits() == numerator.to_bits();
            let quotient = numerator / denominator;
            if $exponent(numerator) - $exponent(denominator)
                >= $bias - (if $mantissa == 23 { 31 } else { 255 })
            {
                // The quotient is close to overflow.
                return (if is_denominator { $ldexp(s0, $up) } else { s0 }, true);
            }
            if tiny(denominator) {
                return ($ldexp(s0, $up), false);
            }
            if tiny(1.0 / denominator) && tiny(quotient) {
                // (The manuals scale up here, which would overflow.)
                return (if is_denominator { $ldexp(s0, -$up) } else { s0 }, true);
            }
            if tiny(1.0 / denominator) {
                return ($ldexp(s0, -$up), false);
            }
            if tiny(quotient) {
                return (if is_numerator { $ldexp(s0, $up) } else { s0 }, true);
            }
            if $exponent(numerator) <= $tiny {
                return ($ldexp(s0, $up), false);
            }
            (s0, false)
        }

        /// `v_div_fmas`: the last step of a division, with the scaling undone.
        pub(super) fn $fmas(a: $float, b: $float, c: $float, scaled: bool) -> $float {
            let result = a.mul_add(b, c);
            match (scaled, $exponent(c) > $bias) {
                (false, _) => result,
                (true, true) => $ldexp(result, $up),
                (true, false) => $ldexp(result, -$up),
            }
        }

        /// `v_div_fixup`: special cases of a division that the quotient `q` of the steps before does not have.
        pub(super) fn $fixup(q: $float, denominator: $float, numerator: $float) -> $float {
            let sign =
                if denominator.is_sign_negative() != numerator.is_sign_negative() { -1.0 } else { 1.0 };
            let signed = |x: $float| x * sign;
            if numerator.is_nan() {
                return numerator;
            }
            if denominator.is_nan() {
                return denominator;
            }
            let both_zero = numerator == 0.0 && denominator == 0.0;
            let both_infinite = numerator.is_infinite() && denominator.is_infinite();
            if both_zero || both_infinite {
                return -<$float>::NAN.abs();
            }
            if denominator == 0.0 || numerator.is_infinite() {
                return signed(<$float>::INFINITY);
            }
            if denominator.is_infinite() || numerator == 0.0 {
                return signed(0.0);
            }
            let distance = $exponent(numerator) - $exponent(denominator);
            if distance < -($bias + $mantissa) {
                return signed(0.0);
            }
            if distance > $bias + $mantissa {
                return signed(<$float>::INFINITY);
            }
            q.abs().copysign(sign)
        }
    };
}

division!(f32, div_scale32, div_fixup32, div_fmas32, exponent32, 0xff, 127, 23, 64, 23, ldexp32);
division!(f64, div_scale64, div_fixup64, div_fmas64, exponent64, 0x7ff, 1023, 52, 128, 53, ldexp64);
