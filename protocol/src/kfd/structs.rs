//! How the uapi structs are declared: one macro gives the type, its layout check and a field table.

/// One field of a uapi struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The uapi's name of the field, in snake case.
    pub name: &'static str,
    /// Byte offset in the struct.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// The Rust type, as written in the declaration.
    pub ty: &'static str,
}

/// A uapi struct as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The uapi's name.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Its fields in order.
    pub fields: &'static [Field],
}

impl Struct {
    /// The declaration of `T`.
    #[must_use]
    pub const fn of<T: UapiStruct>() -> Struct {
        Struct { name: T::NAME, size: size_of::<T>(), fields: T::FIELDS }
    }
}

/// A uapi struct with its field table.
pub trait UapiStruct: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable {
    /// The uapi's name (`kfd_ioctl_get_version_args`).
    const NAME: &'static str;
    /// Every field, in order.
    const FIELDS: &'static [Field];
}

/// Declares `#[repr(C)]` structs without implicit padding, each with its uapi name and size.
macro_rules! uapi_structs {
    ($($(#[$doc:meta])* pub struct $name:ident: $uapi:literal, $size:literal {
        $($(#[$fdoc:meta])* pub $field:ident: $ty:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        impl $crate::kfd::structs::UapiStruct for $name {
            const NAME: &'static str = $uapi;
            const FIELDS: &'static [$crate::kfd::structs::Field] = &[$(
                $crate::kfd::structs::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    size: core::mem::size_of::<$ty>(),
                    ty: stringify!($ty),
                },
            )*];
        }

        const _: () = assert!(core::mem::size_of::<$name>() == $size, $uapi);
    )*

        /// Every struct of this module.
        pub const STRUCTS: &[$crate::kfd::structs::Struct] = &[$($crate::kfd::structs::Struct::of::<$name>()),*];
    };
}

pub(crate) use uapi_structs;
