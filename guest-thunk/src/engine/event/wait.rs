//! Waiting for events (`AMDKFD_IOC_WAIT_EVENTS`).
//!
//! No lock is held while a wait sleeps, and none is taken at all unless a memory or hardware exception has come: any
//! number of threads can wait while others use the library.

use protocol::hsakmt::{EventType, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::WaitEventsArgs;
use protocol::kfd::constants::WaitResult;
use protocol::kfd::types::EventData;
use zerocopy::FromZeros;

use super::SharedEvent;
use super::payload::{self, Payload, UnknownGpu};
use crate::engine::{Engine, Result, room};

/// Waits of up to this many events need no memory from the heap.
const ON_STACK: usize = 16;

/// More events than this in one wait are refused. The kernel stops earlier: it keeps 56 bytes for each in one piece of
/// at most 4 MiB, that is 74,898 events (`alloc_event_waiters`).
const MOST_EVENTS: usize = 1 << 17;

/// Interface version from which KFD compares ages.
const AGES_SINCE: u32 = 14;

/// Elements of a wait: on the stack, or on the heap if there are many.
struct Elements {
    few: [EventData; ON_STACK],
    many: Vec<EventData>,
}

impl Elements {
    fn new() -> Self {
        Self { few: [EventData::new_zeroed(); ON_STACK], many: Vec::new() }
    }

    fn zeroed(&mut self, count: usize) -> Result<&mut [EventData]> {
        if count > MOST_EVENTS {
            log::warn!("a wait for {count} events at once; the most are {MOST_EVENTS}");
            return Err(Status::Error);
        }
        if count <= ON_STACK {
            return Ok(self.few.get_mut(..count).unwrap_or_default());
        }
        self.many = room::filled(count, EventData::new_zeroed())?;
        Ok(&mut self.many)
    }
}

impl Engine {
    /// Waits for one event (`hsaKmtWaitOnEvent`, `hsaKmtWaitOnEvent_Ext`).
    ///
    /// # Errors
    /// As [`Engine::wait_on_events`].
    pub fn wait_on_event(&self, event: &SharedEvent, milliseconds: u32, age: Option<&mut u64>) -> Result<()> {
        self.wait_on_events(&[Some(event)], true, milliseconds, age.map(std::slice::from_mut))
    }

    /// Waits for any or all events of a list (`hsaKmtWaitOnMultipleEvents`, `hsaKmtWaitOnMultipleEvents_Ext`), for
    /// ever if `milliseconds` is `0xffffffff`. After a signal handler the wait goes on with the rest of the time.
    ///
    /// The list is C's `HsaEvent *Events[]`: some may be null, and one event may stand in it twice. An empty one is
    /// complete at once. What memory and hardware exceptions tell is written into their events.
    ///
    /// `ages` has the age of each signal event that the program has seen. An event whose age is another one has
    /// happened since, and the real age is written back, after a timeout too; 0 is "do not compare". Kernels
    /// before KFD 1.14 have no ages; there they are left as they are.
    ///
    /// # Errors
    /// `WAIT_TIMEOUT` when the time is over; `INVALID_HANDLE` for a null in the list; `INVALID_PARAMETER` if there
    /// are fewer ages than events; `NO_MEMORY`; `INVALID_NODE_UNIT` when an exception of a GPU came that is no node
    /// of this process; `ERROR` for events that KFD does not know, events that are destroyed meanwhile, and too many.
    pub fn wait_on_events(
        &self,
        events: &[Option<&SharedEvent>],
        all: bool,
        milliseconds: u32,
        ages: Option<&mut [u64]>,
    ) -> Result<()> {
        if let Some(ages) = ages.as_ref().filter(|ages| ages.len() < events.len()) {
            log::debug!("a wait has {} events, but {} ages", events.len(), ages.len());
            return Err(Status::InvalidParameter);
        }
        let mut ages = ages.filter(|_| self.version.kernel_interface_minor_version >= AGES_SINCE);
        let mut elements = Elements::new();
        let data = elements.zeroed(events.len())?;
        fill(data, events, ages.as_deref())?;
        let result = self.wait(data, all, milliseconds);
        // After an error another thread may have destroyed the events: they are not looked at, and KFD has told no age.
        if result != Err(Status::Error)
            && let Some(ages) = &mut ages
        {
            take_ages(data, events, ages);
        }
        result?;
        self.take_payloads(data, events)
    }

    fn wait(&self, data: &mut [EventData], all: bool, milliseconds: u32) -> Result<()> {
        let num_events = u32::try_from(data.len()).map_err(|_| Status::Error)?;
        let mut args = WaitEventsArgs {
            events_ptr: data.as_mut_ptr().expose_provenance() as u64,
            num_events,
            wait_for_all: u32::from(all),
            timeout: milliseconds,
            wait_result: WaitResult::FAIL.0,
        };
        // A wait that a signal handler interrupted is made again with these arguments, in which the kernel has put
        // the time that is left.
        self.channel.ioctl(Ioctl::WaitEvents, &mut args).map_err(|errno| {
            log::debug!("a wait for {num_events} events failed: {errno}");
            Status::Error
        })?;
        match WaitResult(args.wait_result) {
            WaitResult::COMPLETE => Ok(()),
            WaitResult::TIMEOUT => Err(Status::WaitTimeout),
            WaitResult(other) => {
                log::debug!("a wait for {num_events} events gave {other}");
                Err(Status::Error)
            }
        }
    }

    /// Writes what exceptions tell into their events, into all of them even if one cannot be told.
    fn take_payloads(&self, data: &[EventData], events: &[Option<&SharedEvent>]) -> Result<()> {
        let mut result = Ok(());
        for (data, event) in data.iter().zip(events) {
            let Some(event) = event else { continue };
            let node_of_gpu = |gpu_id| self.snapshot().ok()?.node_of_gpu(gpu_id);
            match payload::decode(event.kind(), data, node_of_gpu) {
                None => {}
                Some(Ok(Payload::Memory(fault))) => {
                    event.set_payload(&fault);
                    self.report_memory_exception(&fault);
                }
                Some(Ok(Payload::Hardware(exception))) => {
                    event.set_payload(&exception);
                    log::error!("a GPU was reset: {exception:?}");
                }
                Some(Err(UnknownGpu(gpu_id))) => {
                    let id = event.id();
                    log::error!("event {id:#x} tells of GPU {gpu_id:#x}, which is no node of this process");
                    result = Err(Status::InvalidNodeUnit);
                }
            }
        }
        result
    }
}

/// Brings the list into KFD's form.
fn fill(data: &mut [EventData], events: &[Option<&SharedEvent>], ages: Option<&[u64]>) -> Result<()> {
    for (index, (to, event)) in data.iter_mut().zip(events).enumerate() {
        let Some(event) = event else {
            log::debug!("event {index} of {} in a wait is null", events.len());
            return Err(Status::InvalidHandle);
        };
        to.event_id = event.id();
        if let Some(age) = ages.and_then(|ages| ages.get(index)).filter(|_| has_age(event)) {
            payload::set_age(to, *age);
        }
    }
    Ok(())
}

fn take_ages(data: &[EventData], events: &[Option<&SharedEvent>], ages: &mut [u64]) {
    for ((data, event), age) in data.iter().zip(events).zip(ages) {
        if event.is_some_and(has_age) {
            *age = payload::age(data);
        }
    }
}

fn has_age(event: &SharedEvent) -> bool {
    event.kind() == EventType::SIGNAL
}
