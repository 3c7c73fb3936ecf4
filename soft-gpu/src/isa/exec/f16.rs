//! IEEE binary16.
//!
//! Sums, products, quotients and roots of two halves, computed as f32 and rounded once more, are exact: 24 bits are more
//! than twice 11 plus 2. A fused multiply-add is not; see [`F16::fma`].

/// A half-precision number, by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct F16(pub(super) u16);

impl F16 {
    /// The same number, exactly.
    #[inline(always)]
    pub(super) fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
        // All three, then a choice, as that is done for many lanes at once. 2^-24 is the unit of denormals, which all are normal
        // in f32.
        let denormal = (magnitude as f32 * f32::from_bits(0x3380_0000)).to_bits();
        let normal = (magnitude << 13).wrapping_add(112 << 23);
        let special = magnitude << 13 | 0x7f80_0000;
        let finite = if magnitude < 0x400 { denormal } else { normal };
        f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { finite })
    }

    /// The nearest half, ties to even.
    #[inline(always)]
    pub(super) fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        // A carry out of the mantissa gives the next exponent, and infinity after the last.
        let odd = magnitude >> 13 & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
        // The unit of 0.5 is that of halves' denormals, 2^-24, so the sum is rounded to it.
        let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        // NaN is quiet, with the upper bits of the payload. From 2^16 on all are infinite.
        let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
        let finite = if magnitude < 0x3880_0000 { denormal } else { normal };
        let number = if magnitude >= 0x4780_0000 { 0x7c00 } else { finite };
        Self((sign | if magnitude > 0x7f80_0000 { nan } else { number }) as u16)
    }

    /// The half nearest to zero (`v_cvt_pkrtz_f16_f32`).
    #[inline(always)]
    pub(super) fn from_f32_toward_zero(value: f32) -> Self {
        Self::truncate(value)
    }

    fn truncate(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        let magnitude = bits & 0x7fff_ffff;
        if magnitude > 0x7f80_0000 {
            // Quiet, with the upper bits of the payload.
            return Self(sign | 0x7e00 | (magnitude >> 13 & 0x3ff) as u16);
        }
        if magnitude == 0x7f80_0000 {
            return Self(sign | 0x7c00);
        }
        let exponent = (magnitude >> 23).cast_signed() - 127;
        if exponent > 15 {
            return Self(sign | 0x7bff);
        }
        if exponent >= -14 {
            return Self(sign | (((exponent + 15) as u32) << 10) as u16 | (magnitude >> 13 & 0x3ff) as u16);
        }
        let drop = (13 + (-14 - exponent)).cast_unsigned();
        // Beyond, it is less than the smallest denormal.
        let kept = if drop > 24 { 0 } else { (magnitude & 0x007f_ffff | 0x0080_0000) >> drop };
        Self(sign | kept as u16)
    }

    /// Rounds a double once.
    #[inline(always)]
    pub(super) fn from_f64(value: f64) -> Self {
        Self::from_f32(to_odd(value))
    }

    /// `a * b + c`, rounded once.
    #[inline(always)]
    pub(super) fn fma(a: Self, b: Self, c: Self) -> Self {
        let (a, b, c) = (f64::from(a.to_f32()), f64::from(b.to_f32()), f64::from(c.to_f32()));
        // The product has 22 bits and is exact; the sum may not be, so its error decides how it is rounded.
        let product = a * b;
        let sum = product + c;
        let back = sum - product;
        let error = (product - (sum - back)) + (c - back);
        // To odd: the neighbour on the side of the error, whose last bit is one.
        let bits = sum.to_bits();
        let away = (error > 0.0) == (sum > 0.0);
        let neighbour = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
        let inexact = (error != 0.0) & error.is_finite() & sum.is_finite() & (bits & 1 == 0);
        let odd = f64::from_bits(if inexact { neighbour } else { bits });
        Self::from_f64(odd)
    }
}

/// The f32 toward zero of a double, with its last bit set if anything was lost, so that rounding it again to fewer bits is
/// as good as rounding once.
#[inline(always)]
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    let (bits, back) = (near.to_bits(), f64::from(near));
    let exact = (back == value) | !value.is_finite();
    let toward_zero = if back.abs() > value.abs() { bits.wrapping_sub(1) } else { bits };
    f32::from_bits(if exact { bits } else { toward_zero | 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^-48, in which all halves and products of two are whole numbers.
    const UNIT: i128 = 1 << 48;

    /// A finite half's number of units, from the definition of binary16.
    fn units(bits: u16) -> i128 {
        let (exponent, mantissa) = (i128::from(bits >> 10 & 0x1f), i128::from(bits & 0x3ff));
        // Denormals are mantissa * 2^-24, others (1024 + mantissa) * 2^(exponent - 25).
        let magnitude = match exponent {
            0 => mantissa * (UNIT >> 24),
            _ => ((1024 + mantissa) * (UNIT >> 25)) << exponent,
        };
        if bits & 0x8000 != 0 { -magnitude } else { magnitude }
    }

    /// The half nearest to so many units, by looking between which two it lies; an even one of two as near.
    fn nearest(exact: i128, sign: u16) -> u16 {
        let magnitude = exact.abs();
        let (mut low, mut high) = (0u16, 0x7c00u16);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if units(middle) <= magnitude { low = middle } else { high = middle }
        }
        // (For the largest half the next one would be 2^16.)
        let twice = units(low) + if low == 0x7bff { 65_536 * UNIT } else { units(low + 1) };
        let up = 2 * magnitude > twice || (2 * magnitude == twice && low & 1 != 0);
        sign | (low + u16::from(up))
    }

    #[test]
    fn every_half_is_its_f32_and_back() {
        for bits in 0..=u16::MAX {
            let value = F16(bits).to_f32();
            if bits & 0x7fff > 0x7c00 {
                assert!(value.is_nan());
                assert_eq!(F16::from_f32(value).0, bits | 0x200, "quiet");
                continue;
            }
            if bits & 0x7fff == 0x7c00 {
                assert!(value.is_infinite());
            } else {
                assert_eq!(f64::from(value) * UNIT as f64, units(bits) as f64, "{bits:x}");
            }
            assert_eq!([F16::from_f32(value).0, F16::from_f32_toward_zero(value).0], [bits; 2]);
        }
    }

    #[test]
    fn what_lies_between_halves_goes_to_the_nearest() {
        for low in 0..0x7c00u16 {
            let next = if low == 0x7bff { 65_536.0 } else { F16(low + 1).to_f32() };
            // (Exact: halves have 11 bits.)
            let middle = (F16(low).to_f32() + next) / 2.0;
            let (below, above) = (f32::from_bits(middle.to_bits() - 1), f32::from_bits(middle.to_bits() + 1));
            let got = [below, middle, above].map(|value| F16::from_f32(value).0);
            assert_eq!(got, [low, low + (low & 1), low + 1], "{low:x}");
            let truncated = [below, middle, above].map(|value| F16::from_f32_toward_zero(-value).0);
            assert_eq!(truncated, [low | 0x8000; 3], "{low:x}");
        }
    }

    #[test]
    fn fused_multiply_add_rounds_once() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = (state >> 40) as u16;
            if bits & 0x7c00 == 0x7c00 { bits & 0x83ff } else { bits }
        };
        for _ in 0..200_000 {
            let [a, b, c] = [random(), random(), random()];
            // Products are in units of 2^-48: the two have 2^-24 each.
            let exact = (units(a) >> 24) * (units(b) >> 24) + units(c);
            if exact != 0 {
                let want = nearest(exact, if exact < 0 { 0x8000 } else { 0 });
                assert_eq!(F16::fma(F16(a), F16(b), F16(c)).0, want, "{a:x} {b:x} {c:x}");
            }
        }
    }
}
