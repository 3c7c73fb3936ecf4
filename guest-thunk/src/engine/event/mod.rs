//! Events: created, destroyed, set, reset, and waited for (`hsaKmtCreateEvent` and its kin).
//!
//! There are nine kinds. Signal and debug events have a slot in the [event page](page), by which a GPU sets them, and
//! there are 4095 of them in a process. The others have ids of their own and are set by KFD alone. KFD keeps all state
//! of events; this library has the event page only.

mod page;
mod payload;
mod report;
mod shared;
#[cfg(test)]
mod tests;
mod wait;

use std::os::fd::{FromRawFd, OwnedFd};

use protocol::Errno;
use protocol::hsakmt::{Event, EventData, EventDescriptor, EventPayload, EventType, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::{CreateEventArgs, DestroyEventArgs, ResetEventArgs, SetEventArgs, SmiEventsArgs};
use protocol::kfd::constants::SIGNAL_EVENT_LIMIT;

use super::{Engine, Result};
use page::{Buffer, EventPage, Progress};
pub use shared::SharedEvent;

/// What this part keeps.
#[derive(Debug, Default)]
pub(crate) struct State {
    page: EventPage,
}

impl State {
    pub(crate) fn new() -> Self {
        Self::default()
    }
}

impl Engine {
    /// Creates an event (`hsaKmtCreateEvent`, `AMDKFD_IOC_CREATE_EVENT`). `signaled` is for signal events; on others,
    /// which a program cannot set, it has no effect.
    ///
    /// The event belongs to KFD until [`Engine::destroy_event`]; the struct is the program's.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for a kind that is none of the nine; `ERROR` when KFD has no ids left, or fails.
    pub fn create_event(
        &self,
        descriptor: &EventDescriptor,
        manual_reset: bool,
        signaled: bool,
    ) -> Result<Event> {
        let EventDescriptor { event_type: kind, node_id, sync_var } = *descriptor;
        if kind > EventType::MEMORY {
            log::debug!("there is no kind {} of events", kind.0);
            return Err(Status::InvalidParameter);
        }
        let mut args = CreateEventArgs {
            event_type: kind.0,
            auto_reset: u32::from(!manual_reset),
            node_id,
            ..Default::default()
        };
        let page = self.create_with_page(&mut args)?;
        if signaled && kind == EventType::SIGNAL {
            self.set(args.event_id).inspect_err(|_| self.undo_create(args.event_id))?;
        }
        let has_slot = has_slot(kind) && page != 0 && args.event_slot_index < SIGNAL_EVENT_LIMIT;
        Ok(Event {
            event_id: args.event_id,
            event_data: EventData {
                event_type: kind,
                event_data: EventPayload::new(&sync_var),
                hw_data1: u64::from(args.event_id),
                hw_data2: if has_slot { page + u64::from(args.event_slot_index) * 8 } else { 0 },
                hw_data3: args.event_trigger_data,
            },
        })
    }

    /// Destroys an event (`hsaKmtDestroyEvent`). Waits for it end with `ERROR`.
    ///
    /// # Errors
    /// `ERROR` if KFD does not know it. The struct stays the program's then.
    pub fn destroy_event(&self, event: &SharedEvent) -> Result<()> {
        let mut args = DestroyEventArgs { event_id: event.id(), pad: 0 };
        self.channel
            .ioctl(Ioctl::DestroyEvent, &mut args)
            .map_err(|errno| refused("destroyed", args.event_id, errno))
    }

    /// Sets a signal event (`hsaKmtSetEvent`): wakes who waits for it.
    ///
    /// # Errors
    /// `ERROR` for all other kinds, and if KFD does not know it.
    pub fn set_event(&self, event: &SharedEvent) -> Result<()> {
        settable(event)?;
        self.set(event.id())
    }

    /// Resets a signal event (`hsaKmtResetEvent`).
    ///
    /// # Errors
    /// As [`Engine::set_event`].
    pub fn reset_event(&self, event: &SharedEvent) -> Result<()> {
        settable(event)?;
        let mut args = ResetEventArgs { event_id: event.id(), pad: 0 };
        self.channel
            .ioctl(Ioctl::ResetEvent, &mut args)
            .map_err(|errno| refused("reset", args.event_id, errno))
    }

    /// What `hsaKmtQueryEventState` answers for any event: success, as AMD's library does. KFD has no call that
    /// looks at an event and leaves it as it is, and the function has no place for a state; a wait of 0 ms tells it.
    ///
    /// # Errors
    /// None.
    #[allow(clippy::unused_self, reason = "the function needs an open library like the others")]
    pub fn query_event_state(&self, _event: &SharedEvent) -> Result<()> {
        Ok(())
    }

    /// A descriptor that tells what happens to a GPU (`hsaKmtOpenSMI`, `AMDKFD_IOC_SMI_EVENTS`): the program writes
    /// a mask of events to it, and reads lines of text.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for a node that there is not; `ERROR` for one without GPU, and if KFD fails.
    pub fn open_smi(&self, node: u32) -> Result<OwnedFd> {
        let gpu_id = self.snapshot()?.node(node).map(|node| node.gpu_id).ok_or_else(|| {
            log::debug!("there is no node {node} for SMI events");
            Status::InvalidNodeUnit
        })?;
        let mut args = SmiEventsArgs { gpuid: gpu_id, anon_fd: u32::MAX };
        self.channel.ioctl(Ioctl::SmiEvents, &mut args).map_err(|errno| {
            log::debug!("no SMI events of node {node}: {errno}");
            Status::Error
        })?;
        let fd = i32::try_from(args.anon_fd).map_err(|_| Status::Error)?;
        // SAFETY: a call that succeeded has given this process a new descriptor with this number, and nobody else
        // knows of it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Creates the event and, before the first one, the event page. Gives the address of the page, 0 if there is
    /// none.
    fn create_with_page(&self, args: &mut CreateEventArgs) -> Result<u64> {
        let page = &self.events.page;
        if let Some(address) = page.address() {
            return self.create(args).map(|()| address.get()).map_err(out_of_events);
        }
        let mut progress = page.lock();
        if let Some(address) = page.address() {
            drop(progress);
            return self.create(args).map(|()| address.get()).map_err(out_of_events);
        }
        if matches!(*progress, Progress::Nothing)
            && let Some(buffer) = self.event_buffer()?
        {
            *progress = Progress::Offered { buffer, perhaps_taken: false };
        }
        let Progress::Offered { buffer, perhaps_taken } = &mut *progress else {
            return self.create_on_kernels_page(args, &mut progress);
        };
        let address = buffer.address;
        self.create_with_buffer(args, *buffer, perhaps_taken).map_err(out_of_events)?;
        *progress = Progress::Taken;
        page.use_at(address);
        Ok(address)
    }

    /// Creates the event and lets KFD take the buffer as event page.
    fn create_with_buffer(
        &self,
        args: &mut CreateEventArgs,
        buffer: Buffer,
        perhaps_taken: &mut bool,
    ) -> core::result::Result<(), Errno> {
        args.event_page_offset = buffer.handle.get();
        match self.create(args) {
            // What KFD says to a second event page: it has taken ours before.
            Err(Errno::EINVAL) if *perhaps_taken => {
                args.event_page_offset = 0;
                self.create(args)
            }
            Err(errno) => {
                *perhaps_taken = *perhaps_taken || errno != Errno::EINVAL;
                Err(errno)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Without GPU: KFD has a page of its own, which has to be mapped before more than 255 ids are given out.
    fn create_on_kernels_page(&self, args: &mut CreateEventArgs, progress: &mut Progress) -> Result<u64> {
        self.create(args).map_err(out_of_events)?;
        if !has_slot(EventType(args.event_type)) || args.event_page_offset == 0 {
            return Ok(0);
        }
        let mapped =
            self.map_kernels_page(args.event_page_offset).inspect_err(|_| self.undo_create(args.event_id))?;
        let address = mapped.address();
        *progress = Progress::Kernels { _mapped: mapped };
        self.events.page.use_at(address);
        Ok(address)
    }

    fn create(&self, args: &mut CreateEventArgs) -> core::result::Result<(), Errno> {
        self.channel.ioctl(Ioctl::CreateEvent, args)
    }

    fn set(&self, event_id: u32) -> Result<()> {
        let mut args = SetEventArgs { event_id, pad: 0 };
        self.channel.ioctl(Ioctl::SetEvent, &mut args).map_err(|errno| refused("set", event_id, errno))
    }

    /// Destroys an event that no program has seen.
    fn undo_create(&self, event_id: u32) {
        let mut args = DestroyEventArgs { event_id, pad: 0 };
        if let Err(errno) = self.channel.ioctl(Ioctl::DestroyEvent, &mut args) {
            log::warn!("event {event_id:#x} is left over: {errno}");
        }
    }
}

/// Whether events of this kind have a slot in the event page (`kfd_event_create`).
fn has_slot(kind: EventType) -> bool {
    matches!(kind, EventType::SIGNAL | EventType::DEBUG_EVENT)
}

/// KFD alone sets the other kinds. Of debug events it says so itself.
fn settable(event: &SharedEvent) -> Result<()> {
    let kind = event.kind();
    if has_slot(kind) {
        return Ok(());
    }
    log::debug!("event {:#x} is of kind {kind:?}, which a program cannot set", event.id());
    Err(Status::Error)
}

fn refused(what: &str, event_id: u32, errno: Errno) -> Status {
    log::debug!("event {event_id:#x} cannot be {what}: {errno}");
    Status::Error
}

/// Why an event was not created. A program that leaks events meets the limit in a place that has nothing to do with
/// it (a queue, a signal), so an operator is told.
fn out_of_events(errno: Errno) -> Status {
    match errno {
        Errno::ENOSPC => log::warn!(
            "no event can be created: all {} ids of signal events of this process are in use",
            SIGNAL_EVENT_LIMIT - 1
        ),
        errno => log::warn!("no event can be created: {errno}"),
    }
    Status::Error
}
