//! The constants of the KFD interface, each with its uapi name.
//!
//! Values that a program passes are open newtypes, not enums: any number may arrive, and one that has no name
//! stays what it is. [`ALL`] lists every constant by name for traces and tests.

mod debug;
mod event;
mod limits;
mod memory;
mod profile;
mod queue;
mod smi;
mod svm;

pub use debug::{
    AddressWatchMode, DbgTrapFlags, DbgTrapMask, DbgTrapOp, DbgTrapOverride, EC_MASK_DEVICE, EC_MASK_PACKET,
    EC_MASK_PROCESS, EC_MASK_QUEUE, EC_MASK_QUEUE_ROCM, EventFlags, ExceptionCode, QUEUE_ERROR_BIT,
    QUEUE_ERROR_MASK, QUEUE_INVALID_BIT, QUEUE_INVALID_MASK, RuntimeCaps, RuntimeMode, RuntimeState,
    WaveLaunchMode,
};
pub use event::{
    EventType, HwExceptionCause, HwExceptionReset, MemoryError, SIGNAL_EVENT_LIMIT, WAIT_FOREVER, WaitResult,
};
pub use limits::{
    COMMAND_END, COMMAND_END_2, COMMAND_END_ROCM, COMMAND_START, COMMAND_START_2, CWSR_TBA_TMA_SIZE,
    INVALID_FD, INVALID_GPUID, INVALID_QUEUEID, LDS_BASE_GFX8, LDS_BASE_GFX9, MAJOR_VERSION,
    MAX_ALLOWED_AW_BUFF_SIZE, MAX_ALLOWED_NUM_POINTS, MAX_ALLOWED_WAC_BUFF_SIZE, MAX_PROCESSES,
    MAX_QUEUES_PER_PROCESS, MINOR_VERSION, MINOR_VERSION_6_12, MINOR_VERSION_ROCM, NUM_OF_SUPPORTED_GPUS,
    SCRATCH_BASE_GFX8, SCRATCH_BASE_GFX9,
};
pub use memory::{
    AllocFlags, CachePolicy, MMAP_GPU_ID_MASK, MMAP_GPU_ID_SHIFT, MMAP_TYPE_MASK, MMAP_TYPE_SHIFT,
};
pub use memory::{MmapOffset, MmapType, MmioRemap, ProcessFlags};
pub use profile::{
    AisOp, CriuOp, CrossMemoryFlags, PROFILER_VERSION, PcSampleFlags, PcSampleMethod, PcSampleOp,
    PcSampleQuery, PcSampleType, ProfilerOp, SpmOp,
};
pub use queue::{MAX_QUEUE_PERCENTAGE, MAX_QUEUE_PRIORITY, MIN_QUEUE_RING_SIZE, QueueType};
pub use smi::{MigrateTrigger, QueueEvictionTrigger, SMI_EVENT_MSG_SIZE, SmiEvent, SvmUnmapTrigger};
pub use svm::{SvmAttr, SvmFlags, SvmLocation, SvmOp};

/// Constants by uapi name.
pub type Names = &'static [(&'static str, u64)];

/// Every constant of this module, by group. A name that has different values in mainline's and in ROCm's header
/// is there once for each.
pub static ALL: &[Names] = &[
    limits::NAMES,
    queue::NAMES,
    QueueType::NAMES,
    CachePolicy::NAMES,
    ProcessFlags::NAMES,
    AllocFlags::NAMES,
    memory::NAMES,
    MmapType::NAMES,
    MmioRemap::NAMES,
    event::NAMES,
    EventType::NAMES,
    WaitResult::NAMES,
    HwExceptionReset::NAMES,
    HwExceptionCause::NAMES,
    MemoryError::NAMES,
    SvmOp::NAMES,
    SvmLocation::NAMES,
    SvmAttr::NAMES,
    SvmFlags::NAMES,
    smi::NAMES,
    SmiEvent::NAMES,
    MigrateTrigger::NAMES,
    QueueEvictionTrigger::NAMES,
    SvmUnmapTrigger::NAMES,
    debug::NAMES,
    DbgTrapOp::NAMES,
    DbgTrapOverride::NAMES,
    DbgTrapMask::NAMES,
    WaveLaunchMode::NAMES,
    AddressWatchMode::NAMES,
    DbgTrapFlags::NAMES,
    EventFlags::NAMES,
    ExceptionCode::NAMES,
    RuntimeMode::NAMES,
    RuntimeCaps::NAMES,
    RuntimeState::NAMES,
    profile::NAMES,
    CriuOp::NAMES,
    ProfilerOp::NAMES,
    SpmOp::NAMES,
    PcSampleOp::NAMES,
    PcSampleMethod::NAMES,
    PcSampleType::NAMES,
    PcSampleFlags::NAMES,
    PcSampleQuery::NAMES,
    CrossMemoryFlags::NAMES,
    AisOp::NAMES,
];

/// Plain constants of a module, and their names in `NAMES`.
macro_rules! kfd_consts {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $value:expr, $uapi:literal;)*) => {
        $(
            $(#[$doc])*
            #[doc = concat!("\n\nuapi: `", $uapi, "`.")]
            pub const $name: $ty = $value;
        )*

        pub(super) const NAMES: $crate::kfd::constants::Names = &[$(($uapi, $name as u64)),*];
    };
}

/// Newtypes over the numbers that the interface passes, one constant per value that has a name.
macro_rules! kfd_values {
    ($($(#[$doc:meta])* pub struct $type:ident: $repr:ty {
        $($(#[$vdoc:meta])* $name:ident = $value:expr, $uapi:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(pub $repr);

        impl $type {
            $(
                $(#[$vdoc])*
                #[doc = concat!("\n\nuapi: `", $uapi, "`.")]
                pub const $name: Self = Self($value);
            )*

            /// The values that have a name.
            pub const NAMES: $crate::kfd::constants::Names = &[$(($uapi, Self::$name.0 as u64)),*];

            /// The uapi's name of this value; the first one where two names have the same value.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                Self::NAMES.iter().find(|(_, value)| *value == u64::from(self.0)).map(|(name, _)| *name)
            }
        }

        impl From<$repr> for $type {
            fn from(value: $repr) -> Self {
                Self(value)
            }
        }

        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }
    )*};
}

/// Newtypes over flag words, one constant per bit that has a name.
macro_rules! kfd_flags {
    ($($(#[$doc:meta])* pub struct $type:ident: $repr:ty {
        $($(#[$vdoc:meta])* $name:ident = $value:expr, $uapi:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(pub $repr);

        impl $type {
            $(
                $(#[$vdoc])*
                #[doc = concat!("\n\nuapi: `", $uapi, "`.")]
                pub const $name: Self = Self($value);
            )*

            /// The bits that have a name.
            pub const NAMES: $crate::kfd::constants::Names = &[$(($uapi, Self::$name.0 as u64)),*];

            /// Whether all bits of `flags` are set.
            #[must_use]
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Whether any bit of `flags` is set.
            #[must_use]
            pub const fn intersects(self, flags: Self) -> bool {
                self.0 & flags.0 != 0
            }

            /// The bits of both.
            #[must_use]
            pub const fn union(self, flags: Self) -> Self {
                Self(self.0 | flags.0)
            }

            /// The bits of `self` that are not in `flags`.
            #[must_use]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }

            /// The bits that have no name.
            #[must_use]
            pub const fn unknown(self) -> Self {
                Self(self.0 & !(0 $(| Self::$name.0)*))
            }
        }

        impl From<$repr> for $type {
            fn from(bits: $repr) -> Self {
                Self(bits)
            }
        }

        impl core::ops::BitOr for $type {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $crate::kfd::constants::fmt_flags(u64::from(self.0), Self::NAMES, f)
            }
        }
    )*};
}

/// `A | B | 0x40`: names where there are some, the remaining bits as a number.
pub(crate) fn fmt_flags(bits: u64, names: Names, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
    let mut rest = bits;
    let mut separator = "";
    for (name, value) in names {
        if rest & value == *value {
            write!(f, "{separator}{name}")?;
            rest &= !value;
            separator = " | ";
        }
    }
    match (rest, separator) {
        (0, "") => f.write_str("0"),
        (0, _) => Ok(()),
        _ => write!(f, "{separator}{rest:#x}"),
    }
}

pub(crate) use {kfd_consts, kfd_flags, kfd_values};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_their_name_or_their_number() {
        assert_eq!(format!("{:?}", QueueType(2)), "KFD_IOC_QUEUE_TYPE_COMPUTE_AQL");
        assert_eq!(format!("{:?}", QueueType(99)), "0x63");
    }

    #[test]
    fn flags_print_their_names_and_the_bits_that_have_none() {
        assert_eq!(format!("{:?}", AllocFlags(0)), "0");
        let flags = AllocFlags::VRAM | AllocFlags::WRITABLE | AllocFlags(1 << 20);
        assert_eq!(
            format!("{flags:?}"),
            "KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | 0x100000"
        );
        assert_eq!(flags.unknown(), AllocFlags(1 << 20));
        assert_eq!(flags.without(AllocFlags::VRAM).unknown(), AllocFlags(1 << 20));
        assert!(flags.contains(AllocFlags::VRAM) && !flags.intersects(AllocFlags::GTT));
    }
}
