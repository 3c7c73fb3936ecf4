//! The events of a process and the rules of setting, resetting and destroying them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::kfd::Mapping;
use protocol::kfd::constants::{EventType, MmapType, SIGNAL_EVENT_LIMIT};
use protocol::kfd::types::{HsaMemoryExceptionData, MemoryExceptionFailure};

use super::ids::Ids;
use super::page::{PAGE_BYTES, SignalPage};
use super::wait::Waiter;
use crate::engine::GpuFault;
use crate::kernel::Kernel;
use crate::mem::{Arena, HostMem};

/// `KFD_FIRST_NONSIGNAL_EVENT_ID`.
pub(super) const FIRST_NONSIGNAL_ID: u32 = 0x4000_0000;

/// Slots that a process may use before it has mapped the event page: what the oldest user space maps.
const UNMAPPED_SLOTS: u64 = 256;

/// Most events of one process, of either range. The kernel stops when its memory ends; a server that lives
/// for others does not try how far it gets.
const MOST_EVENTS: usize = 1 << 17;

/// All events of one process.
#[derive(Debug)]
pub(crate) struct Events {
    kernel: Kernel,
    table: Mutex<Table>,
}

/// The part behind the lock (`event_mutex` and what it protects).
#[derive(Debug)]
pub(super) struct Table {
    pub(super) events: BTreeMap<u32, Event>,
    signal_ids: Ids,
    other_ids: Ids,
    page: Option<SignalPage>,
    /// Signal and debug events, and one for id 0, which is never given out.
    signal_count: u64,
    /// Bytes of the event page that the process can see; the rest of the slots is not used. 0 before the first.
    mapped_bytes: u64,
}

/// One event (`struct kfd_event`).
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: EventType,
    pub(super) auto_reset: bool,
    pub(super) signaled: bool,
    /// 1 when created, one more with each signal; 0 is what a waiter says that knows no ages.
    pub(super) age: u64,
    pub(super) waiters: Vec<Registration>,
    pub(super) memory: HsaMemoryExceptionData,
}

/// A wait that names this event.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) waiter: Arc<Waiter>,
    /// Index in the waiter's list.
    pub(super) slot: usize,
    /// Whether the wait still stands in the event's queue: it leaves it when a signal wakes it.
    pub(super) queued: bool,
}

/// What [`Events::create`] made.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) id: u32,
    /// Where to map the event page; `None` for an event without slot.
    pub(crate) page_offset: Option<u64>,
}

/// Whether events of this type have a slot in the event page (`event_can_be_gpu_signaled`).
pub(super) fn has_slot(kind: EventType) -> bool {
    matches!(kind, EventType::SIGNAL | EventType::DEBUG_EVENT)
}

impl Event {
    fn new(kind: EventType, auto_reset: bool) -> Self {
        Self {
            kind,
            auto_reset,
            signaled: false,
            age: 1,
            waiters: Vec::new(),
            memory: HsaMemoryExceptionData::default(),
        }
    }

    fn has_slot(&self) -> bool {
        has_slot(self.kind)
    }

    /// `set_event`: wakes every wait in the queue. An auto-reset event stays signaled only if nobody was there.
    pub(super) fn set(&mut self) {
        self.signaled = !self.auto_reset || !self.waiters.iter().any(|registration| registration.queued);
        // Never back to the reserved ages 0 and 1.
        self.age = self.age.checked_add(1).unwrap_or(2);
        for registration in &mut self.waiters {
            if registration.queued {
                registration.queued = false;
                registration.waiter.activate(registration.slot);
            }
        }
    }
}

/// What a memory event tells about a fault (`kfd_signal_vm_fault_event`).
pub(crate) fn fault_data(gpu_id: u32, fault: &GpuFault) -> HsaMemoryExceptionData {
    HsaMemoryExceptionData {
        failure: MemoryExceptionFailure {
            not_present: u32::from(fault.not_present),
            read_only: u32::from(fault.write && !fault.not_present),
            no_execute: 0,
            imprecise: 0,
        },
        // The hardware reports the page.
        va: fault.va & !0xfff,
        gpu_id,
        error_type: 0,
    }
}

impl Events {
    pub(crate) fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            table: Mutex::new(Table {
                events: BTreeMap::new(),
                // Id 0 is kept for interrupts without a context id (kfd_event_init_process).
                signal_ids: Ids::starting_at(1),
                other_ids: Ids::starting_at(FIRST_NONSIGNAL_ID),
                page: None,
                signal_count: 1,
                mapped_bytes: 0,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the process has an event page.
    pub(crate) fn has_page(&self) -> bool {
        self.lock().page.is_some()
    }

    /// `kfd_event_page_set`: makes a buffer the event page.
    ///
    /// # Errors
    /// `EBUSY` if there is one already, `EINVAL` for a buffer of less than 32 KiB.
    pub(crate) fn set_page(&self, buffer: HostMem) -> Result<(), Errno> {
        let mut table = self.lock();
        if table.page.is_some() {
            return Err(Errno::EBUSY);
        }
        let len = buffer.len() as u64;
        if len < PAGE_BYTES {
            return Err(Errno::EINVAL);
        }
        table.page = Some(SignalPage::new(buffer));
        table.mapped_bytes = len;
        Ok(())
    }

    /// `allocate_signal_page`: the driver's own event page, made with the first signal event of a process that
    /// gave none.
    ///
    /// # Errors
    /// `ENOMEM` from Linux 7.3 on, which has no page of its own, and where `arena` is full.
    pub(crate) fn need_page(&self, arena: &Arena) -> Result<(), Errno> {
        let mut table = self.lock();
        if table.page.is_some() {
            return Ok(());
        }
        if self.kernel == Kernel::Linux7_3 {
            return Err(Errno::ENOMEM);
        }
        table.page = Some(SignalPage::of_the_driver(arena)?);
        table.mapped_bytes = UNMAPPED_SLOTS * 8;
        Ok(())
    }

    /// `kfd_event_create`.
    ///
    /// # Errors
    /// `ENOSPC` when every slot that the process can see is in use, `ENOMEM` without an event page and for a
    /// number of events that is beyond reason.
    pub(crate) fn create(&self, kind: EventType, auto_reset: bool) -> Result<Created, Errno> {
        let mut table = self.lock();
        let event = Event::new(kind, auto_reset);
        if table.events.len() >= MOST_EVENTS {
            log::warn!("a process has {MOST_EVENTS} events and gets no more");
            return Err(Errno::ENOMEM);
        }
        if !event.has_slot() {
            let id = table.other_ids.take(1 << 31).ok_or(Errno::ENOSPC)?;
            table.events.insert(id, event);
            return Ok(Created { id, page_offset: None });
        }
        let slots = table.mapped_bytes / 8;
        let end = u32::try_from(slots).unwrap_or(u32::MAX).min(FIRST_NONSIGNAL_ID);
        let page_offset = table.page.as_ref().ok_or(Errno::ENOMEM)?.offset().unwrap_or(MmapType::EVENTS.0);
        let Some(id) = table.signal_ids.take(end) else {
            log::info!("all {} signal event ids of a process are in use", slots.saturating_sub(1));
            return Err(Errno::ENOSPC);
        };
        if let Some(page) = &table.page {
            page.clear(id);
        }
        table.events.insert(id, event);
        table.signal_count += 1;
        Ok(Created { id, page_offset: Some(page_offset) })
    }

    /// `kfd_event_destroy`. Waits for the event fail.
    ///
    /// # Errors
    /// `EINVAL` for an id that is not in use.
    pub(crate) fn destroy(&self, id: u32) -> Result<(), Errno> {
        let mut table = self.lock();
        let event = table.events.remove(&id).ok_or(Errno::EINVAL)?;
        for Registration { waiter, slot, .. } in &event.waiters {
            waiter.fail(*slot);
        }
        if event.has_slot() {
            table.signal_count -= 1;
            table.signal_ids.put_back(id);
        } else {
            table.other_ids.put_back(id);
        }
        Ok(())
    }

    /// `kfd_set_event`.
    ///
    /// # Errors
    /// `EINVAL` for an unknown id and for an event that is not of type signal.
    pub(crate) fn set(&self, id: u32) -> Result<(), Errno> {
        self.with_signal_event(id, Event::set)
    }

    /// `kfd_reset_event`.
    ///
    /// # Errors
    /// As [`Events::set`].
    pub(crate) fn reset(&self, id: u32) -> Result<(), Errno> {
        self.with_signal_event(id, |event| event.signaled = false)
    }

    fn with_signal_event(&self, id: u32, change: impl FnOnce(&mut Event)) -> Result<(), Errno> {
        let mut table = self.lock();
        match table.events.get_mut(&id) {
            Some(event) if event.kind == EventType::SIGNAL => {
                change(event);
                Ok(())
            }
            Some(_) | None => Err(Errno::EINVAL),
        }
    }

    /// `kfd_signal_event_interrupt`: the GPU raised an interrupt that carries the low bits of an event id.
    pub(crate) fn interrupt(&self, partial_id: u32, valid_id_bits: u32) {
        let mut table = self.lock();
        let found =
            if valid_id_bits == 0 { None } else { table.signaled_by_partial_id(partial_id, valid_id_bits) };
        match found {
            Some(id) => table.set_from_interrupt(id),
            // The payload told nothing: look at all slots.
            None => {
                for id in table.signaled_ids() {
                    table.set_from_interrupt(id);
                }
            }
        }
    }

    /// `kfd_signal_vm_fault_event`: tells every memory event of the process.
    pub(crate) fn memory_exception(&self, data: HsaMemoryExceptionData) {
        let mut table = self.lock();
        for event in table.others_of(EventType::MEMORY) {
            event.memory = data;
            event.set();
        }
    }

    /// `kfd_event_mmap`: `len` bytes of the driver's own event page. Slots that the program does not map are
    /// not given out from then on.
    pub(crate) fn mmap(&self, len: u64) -> Result<Mapping, Errno> {
        let mut table = self.lock();
        let mapping = match &table.page {
            Some(page) => page.map(len)?,
            None => return Err(Errno::EINVAL),
        };
        table.mapped_bytes = len;
        Ok(mapping)
    }

    /// [`Events::mmap`] if `offset` is where the page lies in the backing file, else `None`.
    pub(crate) fn mmap_at(&self, offset: u64, len: u64) -> Option<Result<Mapping, Errno>> {
        let page_offset = self.lock().page.as_ref().and_then(SignalPage::offset);
        (page_offset == Some(offset)).then(|| self.mmap(len))
    }

    /// `kfd_event_free_process`.
    pub(crate) fn exit(&self) {
        let mut table = self.lock();
        for event in table.events.values() {
            for Registration { waiter, slot, .. } in &event.waiters {
                waiter.fail(*slot);
            }
        }
        table.events.clear();
        table.page = None;
    }
}

impl Table {
    fn others_of(&mut self, kind: EventType) -> impl Iterator<Item = &mut Event> {
        self.events
            .range_mut(FIRST_NONSIGNAL_ID..)
            .map(|(_, event)| event)
            .filter(move |event| event.kind == kind)
    }

    /// `lookup_signaled_event_by_partial_id`.
    fn signaled_by_partial_id(&self, partial_id: u32, bits: u32) -> Option<u32> {
        let page = self.page.as_ref()?;
        let exists = |id: &u32| page.is_signaled(*id) && self.events.contains_key(id);
        if partial_id >= SIGNAL_EVENT_LIMIT {
            return None;
        }
        match 1_u32.checked_shl(bits) {
            Some(step) if step < SIGNAL_EVENT_LIMIT => {
                let step = usize::try_from(step).ok()?;
                (partial_id..SIGNAL_EVENT_LIMIT).step_by(step).find(exists)
            }
            _ => Some(partial_id).filter(exists),
        }
    }

    /// Every event whose slot is set.
    fn signaled_ids(&self) -> Vec<u32> {
        let Some(page) = &self.page else { return Vec::new() };
        self.events
            .range(..SIGNAL_EVENT_LIMIT)
            .map(|(id, _)| *id)
            .filter(|id| page.is_signaled(*id))
            .collect()
    }

    /// `set_event_from_interrupt`: acknowledges the slot, then sets the event.
    fn set_from_interrupt(&mut self, id: u32) {
        let Some(event) = self.events.get_mut(&id).filter(|event| event.has_slot()) else { return };
        if let Some(page) = &self.page {
            page.clear(id);
        }
        event.set();
    }
}
