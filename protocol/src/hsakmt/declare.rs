//! How the types of `hsakmttypes.h` are declared: each macro gives the type and a table of what it holds.
//!
//! The header packs to 4 bytes (`#pragma pack(4)`), so every struct is `repr(C, packed(4))`: fields can be
//! read and written by value, a reference to a field of 8 bytes does not compile. Pointers are `u64`.

use super::Layout;

/// One field of a C struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name here.
    pub name: &'static str,
    /// The header's name of the field.
    pub c_name: &'static str,
    /// Byte offset in the newest layout.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// The first layout that has the field.
    pub since: Layout,
}

/// A C struct as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The header's name.
    pub c_name: &'static str,
    /// Size in bytes in the newest layout.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Its fields in order.
    pub fields: &'static [Field],
}

impl Struct {
    /// The declaration of `T`.
    #[must_use]
    pub const fn of<T: HsaStruct>() -> Struct {
        Struct { c_name: T::C_NAME, size: size_of::<T>(), align: align_of::<T>(), fields: T::FIELDS }
    }
}

/// A struct of the header, in its newest layout, with its field table.
pub trait HsaStruct: Copy + zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable {
    /// The header's name (`HsaNodeProperties`).
    const C_NAME: &'static str;
    /// Every field, in order.
    const FIELDS: &'static [Field];
    /// The generation with which it took its newest layout.
    const GREW: Layout = Layout::latest(Self::FIELDS);
}

/// An enum of the header as data: its name, its size in bytes and its values by name.
pub type Enum = (&'static str, usize, &'static [(&'static str, i64)]);

/// One field of a word of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// The header's name.
    pub c_name: &'static str,
    /// Lowest bit.
    pub shift: u32,
    /// Number of bits.
    pub width: u32,
}

/// A word of bits as data: the header's name, its size in bytes and what the bits mean.
pub type Word = (&'static str, usize, &'static [BitField]);

/// The bits `shift .. shift + width`.
pub(super) const fn mask(shift: u32, width: u32) -> u64 {
    let ones = match u64::MAX.checked_shr(64 - width) {
        Some(ones) => ones,
        None => 0,
    };
    ones << shift
}

/// Prints the bits that have a name (`A | B | C=3`), and the others as a number.
pub(super) fn fmt_word(
    bits: u64,
    fields: &[BitField],
    f: &mut core::fmt::Formatter<'_>,
) -> core::fmt::Result {
    let mut rest = bits;
    let mut separator = "";
    for field in fields {
        let mask = mask(field.shift, field.width);
        if bits & mask == 0 {
            continue;
        }
        write!(f, "{separator}{}", field.c_name)?;
        if field.width > 1 {
            write!(f, "={}", (bits & mask) >> field.shift)?;
        }
        rest &= !mask;
        separator = " | ";
    }
    match (rest, separator) {
        (0, "") => f.write_str("0"),
        (0, _) => Ok(()),
        _ => write!(f, "{separator}{rest:#x}"),
    }
}

/// Structs. A layout behind a field's name is the first one that has it.
macro_rules! hsa_structs {
    (@since) => { $crate::hsakmt::Layout::V356 };
    (@since $since:ident) => { $crate::hsakmt::Layout::$since };
    ($($(#[$doc:meta])* pub struct $name:ident: $c:literal, $size:literal {
        $($(#[$fdoc:meta])* pub $field:ident: $ty:ty, $cfield:literal $(, $since:ident)?;)*
    })*) => {$(
        $(#[$doc])*
        #[doc = concat!("\n\nC: `", $c, "`.")]
        #[repr(C, packed(4))]
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $name {
            $(
                $(#[$fdoc])*
                #[doc = concat!("\n\nC: `", $cfield, "`.")]
                pub $field: $ty,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        impl $crate::hsakmt::HsaStruct for $name {
            const C_NAME: &'static str = $c;
            const FIELDS: &'static [$crate::hsakmt::Field] = &[$(
                $crate::hsakmt::Field {
                    name: stringify!($field),
                    c_name: $cfield,
                    offset: core::mem::offset_of!($name, $field),
                    size: size_of::<$ty>(),
                    since: $crate::hsakmt::declare::hsa_structs!(@since $($since)?),
                },
            )*];
        }

        const _: () = assert!(size_of::<$name>() == $size, $c);
    )*

        /// Every struct of this module.
        pub const STRUCTS: &[$crate::hsakmt::Struct] = &[$($crate::hsakmt::Struct::of::<$name>()),*];
    };
}

/// Enums: newtypes, one constant per value that has a name, for a caller may pass any number. The header's
/// counts and sizes (`..._NUM...`, `..._SIZE`, `..._MAX`) are left out.
macro_rules! hsa_enums {
    ($($(#[$doc:meta])* pub struct $name:ident: $repr:ty, $c:literal {
        $($(#[$vdoc:meta])* $value:ident = $number:expr, $cvalue:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[doc = concat!("\n\nC: `", $c, "`.")]
        #[repr(transparent)]
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $name(pub $repr);

        impl $name {
            $(
                $(#[$vdoc])*
                #[doc = concat!("\n\nC: `", $cvalue, "`.")]
                pub const $value: Self = Self($number);
            )*

            /// The values that have a name.
            pub const NAMES: &'static [(&'static str, i64)] = &[$(($cvalue, $number)),*];

            /// The header's name of this value.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                Self::NAMES.iter().find(|(_, value)| *value == i64::from(self.0)).map(|(name, _)| *name)
            }
        }

        impl From<$repr> for $name {
            fn from(value: $repr) -> Self {
                Self(value)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }
    )*

        /// Every enum of this module.
        pub const ENUMS: &[$crate::hsakmt::Enum] = &[$(($c, size_of::<$repr>(), $name::NAMES)),*];
    };
}

/// Words of bits: `NAME, accessor: bit` and `NAME, accessor: lowest bit, width`. The constant of a range is
/// its mask. Reserved bits have no name.
macro_rules! hsa_words {
    ($($(#[$doc:meta])* pub struct $name:ident: $repr:ty, $c:literal {
        $($(#[$bdoc:meta])* $bit:ident, $is:ident: $at:literal, $cbit:literal;)*
    } $(ranges {
        $($(#[$rdoc:meta])* $range:ident, $get:ident: $shift:literal, $width:literal, $crange:literal;)*
    })?)*) => {$(
        $(#[$doc])*
        #[doc = concat!("\n\nC: `", $c, "`.")]
        #[repr(transparent)]
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $name(pub $repr);

        impl $name {
            $(
                $(#[$bdoc])*
                #[doc = concat!("\n\nC: `", $cbit, "`.")]
                pub const $bit: Self = Self(1 << $at);

                $(#[$bdoc])*
                #[must_use]
                pub const fn $is(self) -> bool {
                    self.contains(Self::$bit)
                }
            )*
            $($(
                $(#[$rdoc])*
                #[doc = concat!("\n\nC: `", $crange, "`.")]
                pub const $range: Self = Self((<$repr>::MAX >> (<$repr>::BITS - $width)) << $shift);

                $(#[$rdoc])*
                #[must_use]
                pub const fn $get(self) -> $repr {
                    self.get(Self::$range)
                }
            )*)?

            /// What the bits mean.
            pub const FIELDS: &'static [$crate::hsakmt::BitField] = &[
                $($crate::hsakmt::BitField { c_name: $cbit, shift: $at, width: 1 },)*
                $($($crate::hsakmt::BitField { c_name: $crange, shift: $shift, width: $width },)*)?
            ];

            /// Whether all bits of `bits` are set.
            #[must_use]
            pub const fn contains(self, bits: Self) -> bool {
                self.0 & bits.0 == bits.0
            }

            /// The bits of both.
            #[must_use]
            pub const fn union(self, bits: Self) -> Self {
                Self(self.0 | bits.0)
            }

            /// The bits of `self` that are not in `bits`.
            #[must_use]
            pub const fn without(self, bits: Self) -> Self {
                Self(self.0 & !bits.0)
            }

            /// The number in the bits of `range`.
            #[must_use]
            pub const fn get(self, range: Self) -> $repr {
                match (self.0 & range.0).checked_shr(range.0.trailing_zeros()) {
                    Some(value) => value,
                    None => 0,
                }
            }

            /// Puts a number into the bits of `range`; what does not fit is cut off.
            #[must_use]
            pub const fn with(self, range: Self, value: $repr) -> Self {
                match value.checked_shl(range.0.trailing_zeros()) {
                    Some(value) => Self(self.0 & !range.0 | value & range.0),
                    None => self,
                }
            }

            /// The bits that have no name.
            #[must_use]
            pub const fn unknown(self) -> Self {
                Self(self.0 $(& !Self::$bit.0)* $($(& !Self::$range.0)*)?)
            }
        }

        impl From<$repr> for $name {
            fn from(bits: $repr) -> Self {
                Self(bits)
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $crate::hsakmt::declare::fmt_word(u64::from(self.0), Self::FIELDS, f)
            }
        }
    )*

        /// Every word of bits of this module.
        pub const WORDS: &[$crate::hsakmt::Word] = &[$(($c, size_of::<$repr>(), $name::FIELDS)),*];
    };
}

pub(super) use {hsa_enums, hsa_structs, hsa_words};
