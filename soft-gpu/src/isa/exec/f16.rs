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
        let odd = if error != 0.0 && error.is_finite() && sum.is_finite() && sum.to_bits() & 1 == 0 {
            // To odd: the neighbour on the side of the error, whose last bit is one.
            let away = (error > 0.0) == (sum > 0.0);
            f64::from_bits(if away { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
        } else {
            sum
        };
        Self::from_f64(odd)
    }
}

/// The f32 toward zero of a double, with its last bit set if anything was lost, so that rounding it again to fewer bits is
/// as good as rounding once.
#[inline(always)]
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || !value.is_finite() {
        return near;
    }
    let bits = if f64::from(near).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(bits | 1)
}
