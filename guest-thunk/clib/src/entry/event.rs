//! Events. A `HsaEvent` that C holds is a box of ours, from its creation to `hsaKmtDestroyEvent`.

use std::ffi::c_int;
use std::os::fd::IntoRawFd;

use hsakmt::Result;
use hsakmt::engine::event::SharedEvent;
use protocol::hsakmt::{EventDescriptor, Status};

use crate::ffi::{Array, Out, Shared, Struct};
use crate::guard::entry;
use crate::library;

entry! {
    /// Creates an event.
    fn hsaKmtCreateEvent(
        descriptor: Struct<EventDescriptor>,
        manual_reset: bool,
        signaled: bool,
        event: Out<Shared<SharedEvent>>,
    ) {
        let engine = library::engine()?;
        let event = event.required()?;
        let created = engine.create_event(&descriptor.get()?, manual_reset, signaled)?;
        event.set(Shared::give(Box::new(SharedEvent::from(created))));
        Ok(())
    }

    /// Destroys an event.
    fn hsaKmtDestroyEvent(event: Shared<SharedEvent>) {
        let engine = library::engine()?;
        engine.destroy_event(get(event)?)?;
        // KFD has given the id up, which it does once for each event.
        event.take_back();
        Ok(())
    }

    /// Signals an event.
    fn hsaKmtSetEvent(event: Shared<SharedEvent>) {
        library::engine()?.set_event(get(event)?)
    }

    /// Takes an event's signal back.
    fn hsaKmtResetEvent(event: Shared<SharedEvent>) {
        library::engine()?.reset_event(get(event)?)
    }

    /// The state of an event.
    fn hsaKmtQueryEventState(event: Shared<SharedEvent>) {
        library::engine()?.query_event_state(get(event)?)
    }

    /// Waits for an event.
    fn hsaKmtWaitOnEvent(event: Shared<SharedEvent>, milliseconds: u32) {
        let event = get(event)?;
        library::engine()?.wait_on_event(event, milliseconds, None)
    }

    /// Waits for an event that is of another age than the caller has seen.
    fn hsaKmtWaitOnEvent_Ext(event: Shared<SharedEvent>, milliseconds: u32, age: Out<u64>) {
        let event = get(event)?;
        let mut seen = age.get().ok();
        let result = library::engine()?.wait_on_event(event, milliseconds, seen.as_mut());
        seen.into_iter().for_each(|now| age.set(now));
        result
    }

    /// Waits for one or all of some events.
    fn hsaKmtWaitOnMultipleEvents(
        events: Array<Option<&'static SharedEvent>>,
        count: u32,
        all: bool,
        milliseconds: u32,
    ) {
        let engine = library::engine()?;
        engine.wait_on_events(list(&events, count)?, all, milliseconds, None)
    }

    /// Waits for one or all of some events that are of another age than the caller has seen.
    fn hsaKmtWaitOnMultipleEvents_Ext(
        events: Array<Option<&'static SharedEvent>>,
        count: u32,
        all: bool,
        milliseconds: u32,
        ages: Out<u64>,
    ) {
        let engine = library::engine()?;
        let events = list(&events, count)?;
        let ages = if ages.is_null() { None } else { Some(ages.as_mut_slice(u64::from(count))?) };
        engine.wait_on_events(events, all, milliseconds, ages)
    }

    /// A descriptor from which messages about a GPU can be read.
    fn hsaKmtOpenSMI(node: u32, fd: Out<c_int>) {
        let engine = library::engine()?;
        let fd = fd.required()?;
        fd.set(engine.open_smi(node)?.into_raw_fd());
        Ok(())
    }
}

fn get(event: Shared<SharedEvent>) -> Result<&'static SharedEvent> {
    event.get().ok_or(Status::InvalidHandle)
}

/// `HsaEvent *Events[]`.
fn list<'a>(events: &Array<Option<&'a SharedEvent>>, count: u32) -> Result<&'a [Option<&'a SharedEvent>]> {
    if events.is_null() {
        return Err(Status::InvalidHandle);
    }
    events.as_slice(u64::from(count))
}
