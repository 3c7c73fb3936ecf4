//! Types of lane values.

use super::f16::F16;

/// Bits of one or two registers.
pub(super) trait Bits: Copy + Default {}
impl Bits for u32 {}
impl Bits for u64 {}

/// How constants and modifiers see an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bits or an integer of 32 bits.
    B32,
    /// An integer of 16 bits.
    B16,
    /// A float.
    F32,
    /// A float.
    F16,
    /// Bits or an integer of 64 bits.
    B64,
    /// A float.
    F64,
}

/// A type that a lane can hold.
pub(super) trait Value: Copy {
    /// Its registers.
    type Bits: Bits;
    /// Its kind.
    const KIND: Kind;
    fn from_bits(bits: Self::Bits) -> Self;
    fn into_bits(self) -> Self::Bits;
}

macro_rules! value {
    ($ty:ty, $bits:ty, $kind:ident, |$from:ident| $f:expr, |$into:ident| $i:expr) => {
        impl Value for $ty {
            type Bits = $bits;
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn from_bits($from: $bits) -> Self {
                $f
            }
            #[inline(always)]
            fn into_bits(self) -> $bits {
                let $into = self;
                $i
            }
        }
    };
}

value!(u32, u32, B32, |b| b, |v| v);
value!(i32, u32, B32, |b| b.cast_signed(), |v| v.cast_unsigned());
value!(f32, u32, F32, |b| f32::from_bits(b), |v| v.to_bits());
value!(u16, u32, B16, |b| b as u16, |v| u32::from(v));
value!(i16, u32, B16, |b| (b as u16).cast_signed(), |v| u32::from(v.cast_unsigned()));
value!(F16, u32, F16, |b| F16(b as u16), |v| u32::from(v.0));
value!(u64, u64, B64, |b| b, |v| v);
value!(i64, u64, B64, |b| b.cast_signed(), |v| v.cast_unsigned());
value!(f64, u64, F64, |b| f64::from_bits(b), |v| v.to_bits());
