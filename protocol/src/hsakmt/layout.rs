//! Layout generations: the same struct as callers of different ages allocate it.
//!
//! libhsakmt kept its SONAME while structs grew, some of them in the middle. Fields were only ever added, so a
//! generation is the newest struct without the fields that came later; everything here follows from the
//! `since` of each [`Field`].

use core::fmt;

use super::{Field, HsaStruct};

/// A generation of the header, named after the size of `HsaNodeProperties` in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// 356 bytes: thunk 5.2.3 (Debian 12) to 6.2.4 (Debian 13). `HsaIoLinkProperties` has 48 bytes.
    V356,
    /// 360 bytes: ROCR-Runtime's thunk from the end of August 2024. `HsaIoLinkProperties` has 52 bytes.
    V360,
    /// 368 bytes: August 2025. Everything behind `NumFComputeCores` has moved.
    V368,
    /// 396 bytes: 2026. Queue, cache and graphics structs have grown as well.
    V396,
}

impl Layout {
    /// All generations, oldest first.
    pub const ALL: [Layout; 4] = [Layout::V356, Layout::V360, Layout::V368, Layout::V396];

    /// The one that the types of this module have.
    pub const NEWEST: Layout = Layout::V396;

    /// The fields of `T` in this generation, with their offsets in it.
    pub fn fields<T: HsaStruct>(self) -> impl Iterator<Item = Placed> {
        let mut offset = 0;
        T::FIELDS.iter().filter(move |field| field.since <= self).map(move |field| {
            let placed = Placed { field, offset };
            offset += field.size;
            placed
        })
    }

    /// The generation with which the last of these fields came.
    pub(super) const fn latest(fields: &[Field]) -> Layout {
        let (mut latest, mut i) = (Layout::V356, 0);
        while i < fields.len() {
            if fields[i].since.age() > latest.age() {
                latest = fields[i].since;
            }
            i += 1;
        }
        latest
    }

    /// As the order of [`Layout::ALL`].
    const fn age(self) -> u8 {
        match self {
            Layout::V356 => 0,
            Layout::V360 => 1,
            Layout::V368 => 2,
            Layout::V396 => 3,
        }
    }

    /// Whether `T` has its newest layout in this generation, as most structs always had.
    const fn is_newest_of<T: HsaStruct>(self) -> bool {
        self.age() >= T::GREW.age()
    }

    /// Size in bytes of `T` in this generation.
    #[must_use]
    pub fn size_of<T: HsaStruct>(self) -> usize {
        if self.is_newest_of::<T>() {
            return size_of::<T>();
        }
        self.fields::<T>().map(|placed| placed.field.size).sum()
    }

    /// The bytes of `value` in this generation. What it has no field for is left out.
    #[must_use]
    pub fn encode<T: HsaStruct>(self, value: &T) -> Encoded<T> {
        if self.is_newest_of::<T>() {
            return Encoded { storage: *value, len: size_of::<T>() };
        }
        let mut encoded = Encoded { storage: T::new_zeroed(), len: self.size_of::<T>() };
        let (from, to) = (value.as_bytes(), encoded.storage.as_mut_bytes());
        for Placed { field, offset } in self.fields::<T>() {
            copy(from, field.offset, to, offset, field.size);
        }
        encoded
    }

    /// The value whose bytes in this generation are at the start of `bytes`. Fields that the generation lacks are
    /// zero.
    ///
    /// # Errors
    /// [`TooShort`] if there are fewer bytes than [`Layout::size_of`] says.
    pub fn decode<T: HsaStruct>(self, bytes: &[u8]) -> Result<T, TooShort> {
        let size = self.size_of::<T>();
        if bytes.len() < size {
            return Err(TooShort { c_name: T::C_NAME, size, found: bytes.len() });
        }
        let mut value = T::new_zeroed();
        if self.is_newest_of::<T>() {
            copy(bytes, 0, value.as_mut_bytes(), 0, size);
            return Ok(value);
        }
        let to = value.as_mut_bytes();
        for Placed { field, offset } in self.fields::<T>() {
            copy(bytes, offset, to, field.offset, field.size);
        }
        Ok(value)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::V356 => "356",
            Layout::V360 => "360",
            Layout::V368 => "368",
            Layout::V396 => "396",
        })
    }
}

/// Copies `len` bytes if both sides have them, which the field tables make sure of.
fn copy(from: &[u8], from_offset: usize, to: &mut [u8], to_offset: usize, len: usize) {
    let from = from.get(from_offset..).and_then(|bytes| bytes.get(..len));
    let to = to.get_mut(to_offset..).and_then(|bytes| bytes.get_mut(..len));
    if let (Some(from), Some(to)) = (from, to) {
        to.copy_from_slice(from);
    }
}

/// A field at its place in a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The field, with its offset in the newest layout.
    pub field: &'static Field,
    /// Byte offset in the generation.
    pub offset: usize,
}

/// The bytes of a `T` in some generation.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<T> {
    /// The bytes, in memory that is as big as the newest layout.
    storage: T,
    /// How many of them the generation has.
    len: usize,
}

impl<T: HsaStruct> Encoded<T> {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.storage.as_bytes().get(..self.len).unwrap_or_default()
    }
}

/// There are not enough bytes for a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{c_name} has {size} bytes in this layout, found {found}")]
pub struct TooShort {
    /// The header's name of the struct.
    pub c_name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// The bytes that there are.
    pub found: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hsakmt::{
        CacheProperties, GraphicsResourceInfo, IoLinkProperties, NodeProperties, PointerInfo, QueueInfo,
        QueueResource,
    };

    /// What a value still is after a way through a generation: the fields that the generation has, else zero.
    fn common<T: HsaStruct>(layout: Layout, value: &T) -> Vec<u8> {
        let mut bytes = value.as_bytes().to_vec();
        for field in T::FIELDS.iter().filter(|field| field.since > layout) {
            bytes[field.offset..field.offset + field.size].fill(0);
        }
        bytes
    }

    /// Encode and decode in each generation; byte counts and common fields must hold.
    fn round_trips<T: HsaStruct>(bytes: &[u8]) {
        let value = T::read_from_prefix(bytes).expect("enough bytes").0;
        for layout in Layout::ALL {
            let encoded = layout.encode(&value);
            assert_eq!(encoded.as_bytes().len(), layout.size_of::<T>());
            let decoded: T = layout.decode(encoded.as_bytes()).expect("as many bytes as the layout has");
            assert_eq!(decoded.as_bytes(), common(layout, &value), "{} {layout}", T::C_NAME);
            assert_eq!(layout.encode(&decoded).as_bytes(), encoded.as_bytes());
        }
        assert_eq!(Layout::NEWEST.encode(&value).as_bytes(), value.as_bytes());
    }

    proptest! {
        #[test]
        fn every_generation_keeps_the_fields_that_it_has(bytes in proptest::collection::vec(any::<u8>(), 1060)) {
            round_trips::<NodeProperties>(&bytes);
            round_trips::<IoLinkProperties>(&bytes);
            round_trips::<CacheProperties>(&bytes);
            round_trips::<QueueInfo>(&bytes);
            round_trips::<QueueResource>(&bytes);
            round_trips::<GraphicsResourceInfo>(&bytes);
        }

        #[test]
        fn any_bytes_decode_or_are_too_short(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            for layout in Layout::ALL {
                let size = layout.size_of::<NodeProperties>();
                match layout.decode::<NodeProperties>(&bytes) {
                    Ok(value) => {
                        prop_assert!(bytes.len() >= size);
                        let again = layout.encode(&value);
                        prop_assert_eq!(again.as_bytes(), &bytes[..size]);
                    }
                    Err(error) => {
                        prop_assert!(bytes.len() < size);
                        prop_assert_eq!(error, TooShort { c_name: "HsaNodeProperties", size, found: bytes.len() });
                    }
                }
            }
        }
    }

    /// What is copied whole has nothing between its fields.
    #[test]
    fn the_fields_of_a_struct_are_all_that_it_has() {
        for layout in Layout::ALL {
            assert_eq!(NodeProperties::GREW, Layout::V396);
            assert_eq!(layout.is_newest_of::<PointerInfo>(), PointerInfo::GREW <= layout);
        }
        for each in crate::hsakmt::STRUCTS.iter().copied().flatten() {
            let sum: usize = each.fields.iter().map(|field| field.size).sum();
            assert_eq!(sum, each.size, "{}", each.c_name);
        }
    }

    /// The trap of clients.md: with the wrong generation ROCr reads one field as another.
    #[test]
    fn the_number_of_memory_banks_moves_from_8_to_12() {
        let node = NodeProperties { num_memory_banks: 0x0102_0304, ..Default::default() };
        for (layout, at) in [(Layout::V356, 8), (Layout::V360, 8), (Layout::V368, 12), (Layout::V396, 12)] {
            let encoded = layout.encode(&node);
            let bytes = encoded.as_bytes();
            assert_eq!(bytes[at..at + 4], 0x0102_0304_u32.to_le_bytes(), "{layout}");
            assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 4, "{layout}");
        }
    }

    #[test]
    fn a_generation_is_named_after_its_node_properties() {
        for layout in Layout::ALL {
            assert_eq!(layout.to_string(), layout.size_of::<NodeProperties>().to_string());
        }
    }
}
