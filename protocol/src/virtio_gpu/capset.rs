//! The data of capset 8 as our device gives it: how a guest recognises it before it opens a context.
//!
//! AMD's device uses the same capset id for other contents (24 bytes: wire format, three parts of a version, kind
//! of context, padding; its library wants 1 as the kind). The first word tells the two apart, and the word at 16,
//! which is the kind of context there, is never 1 here: AMD's library passes over this device.

use zerocopy::little_endian::U32;

use crate::kfd::structs::uapi_structs;

/// First word of [`Capset`]: `KFDV`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"KFDV");

/// Version of [`Capset`], and highest version that GET_CAPSET takes.
pub const VERSION: u32 = 1;

uapi_structs! {
    /// The data of the capset.
    pub struct Capset: "kfdvirt_capset", 24 {
        /// [`MAGIC`].
        pub magic: U32,
        /// [`VERSION`].
        pub version: U32,
        /// Lowest version of the context commands that the device speaks; 0: none yet.
        pub wire_min: U32,
        /// Highest version of the context commands that the device speaks; 0: none yet.
        pub wire_max: U32,
        /// Zero.
        pub reserved: U32,
        /// How the device shows host memory: 0 not at all.
        pub window: U32,
    }
}

impl Capset {
    /// The capset of a device that speaks these versions of the context commands.
    #[must_use]
    pub fn new(wire_min: u32, wire_max: u32) -> Capset {
        Capset {
            magic: U32::new(MAGIC),
            version: U32::new(VERSION),
            wire_min: U32::new(wire_min),
            wire_max: U32::new(wire_max),
            ..Capset::default()
        }
    }
}
