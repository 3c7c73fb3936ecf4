//! Events (`kfd_events.c`): created, set and reset by the process, signalled by the GPU, waited for.
//!
//! Signal events have the low ids, which are also their slots in the event page: the GPU writes to a slot and
//! raises an interrupt, the driver looks which slots are set. All other kinds have ids from 0x40000000 up.
//!
//! [`table`] holds the events and their rules, [`mod@wait`] the waits, [`page`] the event page.

mod ids;
mod page;
mod table;
#[cfg(test)]
mod tests;
mod wait;

use protocol::Errno;
use protocol::kfd::args::{CreateEventArgs, DestroyEventArgs, ResetEventArgs, SetEventArgs, WaitEventsArgs};
use protocol::kfd::constants::EventType;

pub(crate) use table::{Events, fault_data};

use super::dispatch::Cx;

/// `kfd_ioctl_create_event`.
pub(super) fn create(cx: &Cx<'_>, args: &mut CreateEventArgs) -> Result<(), Errno> {
    if args.event_page_offset != 0 {
        set_page_from_buffer(cx, args.event_page_offset)?;
    }
    args.event_page_offset = 0;
    if table::has_slot(EventType(args.event_type)) {
        cx.process.events.need_page(&cx.process.device.kfd_arena)?;
    }
    let created = cx.process.events.create(EventType(args.event_type), args.auto_reset != 0)?;
    args.event_id = created.id;
    args.event_trigger_data = created.id;
    if let Some(page_offset) = created.page_offset {
        args.event_page_offset = page_offset;
        args.event_slot_index = created.id;
    }
    Ok(())
}

/// `kfd_kmap_event_page`: the process gives a buffer of its own as event page.
fn set_page_from_buffer(cx: &Cx<'_>, handle: u64) -> Result<(), Errno> {
    if cx.process.events.has_page() {
        return Err(Errno::EINVAL);
    }
    let slots = cx.process.memory.pin_event_page(handle, page::PAGE_BYTES)?;
    cx.process.events.set_page(slots)
}

/// `kfd_ioctl_destroy_event`.
pub(super) fn destroy(cx: &Cx<'_>, args: &mut DestroyEventArgs) -> Result<(), Errno> {
    cx.process.events.destroy(args.event_id)
}

/// `kfd_ioctl_set_event`.
pub(super) fn set(cx: &Cx<'_>, args: &mut SetEventArgs) -> Result<(), Errno> {
    cx.process.events.set(args.event_id)
}

/// `kfd_ioctl_reset_event`.
pub(super) fn reset(cx: &Cx<'_>, args: &mut ResetEventArgs) -> Result<(), Errno> {
    cx.process.events.reset(args.event_id)
}

/// `kfd_ioctl_wait_events`.
pub(super) fn wait(cx: &Cx<'_>, args: &mut WaitEventsArgs) -> Result<(), Errno> {
    cx.process.events.wait(args, cx.call)
}
