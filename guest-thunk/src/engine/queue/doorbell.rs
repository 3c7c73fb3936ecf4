//! Doorbells: the pages of this process on each GPU, and the place of a queue in them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::kfd::topology::GfxVersion;

use super::super::{Engine, Result};

/// Doorbells of a process on a GPU (`KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`).
const DOORBELLS: u64 = 1024;
const PAGE: u64 = 4096;

/// The doorbell pages that are mapped, by GPU id. They are mapped at the first queue on a GPU and stay until the
/// library is closed and no queue has a doorbell in them.
///
/// This lock is taken before those of memory: pages are mapped while it is held, so that two first queues do not
/// map them twice. Memory never asks for queues.
#[derive(Debug, Default)]
pub(super) struct Doorbells(Mutex<BTreeMap<u32, Pages>>);

/// The doorbell pages of a GPU.
#[derive(Debug)]
struct Pages {
    address: u64,
    size: u64,
    /// Queues that have a doorbell in them.
    users: usize,
}

/// Where KFD put a queue's doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset of the pages for `mmap` of `/dev/kfd`.
    pages: u64,
    /// Bytes of the pages: only all of them can be mapped.
    size: u64,
    /// The doorbell's first byte in them.
    byte: u64,
}

impl Place {
    /// Takes apart what CREATE_QUEUE returned. From gfx9 on the lower bits are the doorbell's place, before it
    /// follows from the queue's id. The upper 32 bits belong to the offset of the pages.
    pub(super) fn of(gfx: GfxVersion, offset: u64, kernel_id: u32) -> Self {
        let each = u64::from(gfx.doorbell_size());
        let size = (each * DOORBELLS).next_multiple_of(PAGE);
        if gfx.major >= 9 {
            Self { pages: offset & !(size - 1), size, byte: offset & (size - 1) }
        } else {
            Self { pages: offset, size, byte: u64::from(kernel_id) % DOORBELLS * each }
        }
    }
}

impl Doorbells {
    /// The address of the doorbell of a new queue. The GPU's pages are mapped if they are not yet.
    ///
    /// # Errors
    /// Those of [`Engine::map_doorbells`].
    pub(super) fn take(&self, engine: &Engine, node: u32, gpu_id: u32, place: Place) -> Result<u64> {
        let mut mapped = self.lock();
        let pages = match mapped.entry(gpu_id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let address = engine.map_doorbells(node, place.pages, place.size)?;
                entry.insert(Pages { address, size: place.size, users: 0 })
            }
        };
        pages.users += 1;
        Ok(pages.address + place.byte)
    }

    /// The queue of a doorbell of this GPU is gone.
    pub(super) fn give_back(&self, gpu_id: u32) {
        if let Some(pages) = self.lock().get_mut(&gpu_id) {
            pages.users = pages.users.saturating_sub(1);
        }
    }

    /// Unmaps the pages that no queue uses.
    pub(super) fn release(&self, engine: &Engine) {
        self.lock().retain(|&gpu_id, pages| pages.users > 0 || !unmap(engine, gpu_id, pages));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Pages>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether they are gone.
fn unmap(engine: &Engine, gpu_id: u32, pages: &Pages) -> bool {
    let unmapped = engine.unmap_memory(pages.address);
    let freed = unmapped.and_then(|()| engine.free_memory(pages.address, pages.size));
    if let Err(status) = freed {
        log::warn!("the doorbells of GPU {gpu_id} at {:#x} cannot be unmapped: {status}", pages.address);
    }
    freed.is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GFX90A: GfxVersion = GfxVersion::new(9, 0, 10);

    #[test]
    fn q01_the_doorbell_is_in_the_low_bits_whatever_is_above_bit_32() {
        let place = Place::of(GFX90A, 0x4012_3456_0000_2018, 3);
        assert_eq!(place, Place { pages: 0x4012_3456_0000_2000, size: 8192, byte: 0x18 });
        let second_page = Place::of(GFX90A, 0x4012_3456_0000_3018, 3);
        assert_eq!(second_page, Place { pages: 0x4012_3456_0000_2000, size: 8192, byte: 0x1018 });
    }

    #[test]
    fn before_gfx9_it_follows_from_the_queue_id() {
        let place = Place::of(GfxVersion::new(8, 0, 3), 0x4000_0000_0000_1000, 5);
        assert_eq!(place, Place { pages: 0x4000_0000_0000_1000, size: 4096, byte: 20 });
    }

    proptest! {
        #[test]
        fn a_doorbell_never_lies_outside_of_its_pages(major in 7u8..=12, offset: u64, id: u32) {
            let gfx = GfxVersion::new(major, 0, 0);
            let place = Place::of(gfx, offset, id);
            prop_assert!(place.byte < place.size);
            if gfx.major >= 9 {
                prop_assert_eq!(place.pages + place.byte, offset);
            }
        }
    }
}
