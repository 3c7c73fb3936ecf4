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
        let (sign, exponent, mantissa) = ((bits & 0x8000) << 16, bits >> 10 & 0x1f, bits & 0x3ff);
        match exponent {
            0 => {
                // 2^-24 is the unit of denormals, which all are normal in f32.
                let value = mantissa as f32 * f32::from_bits(0x3380_0000);
                f32::from_bits(value.to_bits() | sign)
            }
            31 => f32::from_bits(sign | 0x7f80_0000 | mantissa << 13),
            _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
        }
    }

    /// The nearest half, ties to even.
    #[inline(always)]
    pub(super) fn from_f32(value: f32) -> Self {
        Self::round(value, true)
    }

    /// The half nearest to zero (`v_cvt_pkrtz_f16_f32`).
    #[inline(always)]
    pub(super) fn from_f32_toward_zero(value: f32) -> Self {
        Self::round(value, false)
    }

    #[inline(always)]
    fn round(value: f32, nearest: bool) -> Self {
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
            return Self(sign | if nearest { 0x7c00 } else { 0x7bff });
        }
        // The mantissa with its leading one, and how many of its bits are too many.
        let (mantissa, drop, base) = if exponent >= -14 {
            (magnitude & 0x007f_ffff, 13, ((exponent + 15) as u32) << 10)
        } else {
            let drop = (13 + (-14 - exponent)).cast_unsigned();
            if drop > 24 {
                // Less than half of the smallest denormal, or zero.
                return Self(sign);
            }
            (magnitude & 0x007f_ffff | 0x0080_0000, drop, 0)
        };
        let kept = mantissa >> drop;
        let rest = mantissa & ((1 << drop) - 1);
        let half = 1u32 << (drop - 1);
        let up = nearest && (rest > half || (rest == half && kept & 1 != 0));
        // A carry out of the mantissa gives the next exponent, and infinity after the last.
        Self(sign | (base + kept + u32::from(up)) as u16)
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
