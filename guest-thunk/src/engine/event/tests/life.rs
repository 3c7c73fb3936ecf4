//! Creating, destroying, setting, resetting; the event page; SMI events.

use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use protocol::Errno;
use protocol::hsakmt::{Event, EventData, EventDescriptor, EventType, Status, SyncVar};
use protocol::kfd::Ioctl;
use protocol::kfd::args::CreateEventArgs;
use softgpu::{Kernel, Profile};
use zerocopy::FromBytes;

use super::*;
use crate::engine::Options;
use crate::engine::event::page::Buffer;
use crate::engine::testing::{
    self, device,
    faults::{self, Operation},
};

const KINDS: [EventType; 9] = [
    EventType::SIGNAL,
    EventType::NODE_CHANGE,
    EventType::DEVICE_STATE_CHANGE,
    EventType::HW_EXCEPTION,
    EventType::SYSTEM_EVENT,
    EventType::DEBUG_EVENT,
    EventType::PROFILE_EVENT,
    EventType::QUEUE_EVENT,
    EventType::MEMORY,
];

#[test]
fn all_nine_kinds_are_created_queried_and_destroyed() {
    let engine = engine();
    for kind in KINDS {
        let event = create(&engine, kind);
        let Event { event_id, event_data: data } = event.get();
        assert_eq!({ data.event_type }, kind);
        assert_eq!(({ data.hw_data1 }, { data.hw_data3 }), (u64::from(event_id), event_id));
        let sync = SyncVar { user_data: 0x1234_5678_9abc_def0, sync_var_size: 8 };
        assert_eq!({ data.event_data }.get::<SyncVar>(), sync);
        let has_slot = matches!(kind, EventType::SIGNAL | EventType::DEBUG_EVENT);
        assert_eq!((1..=4095).contains(&event_id), has_slot, "{kind:?}");
        assert_eq!(event_id >= 0x4000_0000, !has_slot, "{kind:?}");
        assert_eq!({ data.hw_data2 } != 0, has_slot, "only these have a slot in the event page");
        assert_eq!(engine.query_event_state(&event), Ok(()));
        assert_eq!(poll(&engine, &event), Err(Status::WaitTimeout));
        let settable = if kind == EventType::SIGNAL { Ok(()) } else { Err(Status::Error) };
        assert_eq!(engine.set_event(&event), settable, "{kind:?}");
        assert_eq!(engine.reset_event(&event), settable, "{kind:?}");
        assert_eq!(engine.destroy_event(&event), Ok(()));
        assert_eq!(engine.destroy_event(&event), Err(Status::Error), "it is gone");
    }
}

#[test]
fn a_kind_that_is_none_is_an_invalid_parameter() {
    let engine = engine();
    for kind in [9, 0x7fff_ffff, u32::MAX] {
        let created = try_create(&engine, EventType(kind), true, false);
        assert_eq!(created.err(), Some(Status::InvalidParameter));
    }
}

#[test]
fn ids_that_kfd_does_not_know_are_errors() {
    let engine = engine();
    for event_id in [0, 4000, 0x4000_0000, u32::MAX] {
        let unknown = SharedEvent::from(Event { event_id, ..Default::default() });
        assert_eq!(engine.set_event(&unknown), Err(Status::Error));
        assert_eq!(engine.reset_event(&unknown), Err(Status::Error));
        assert_eq!(engine.destroy_event(&unknown), Err(Status::Error));
        assert_eq!(poll(&engine, &unknown), Err(Status::Error));
        assert_eq!(engine.query_event_state(&unknown), Ok(()), "nobody is asked");
    }
}

#[test]
fn the_initial_state_is_for_signal_events() {
    let engine = engine();
    let set = try_create(&engine, EventType::SIGNAL, true, true).unwrap();
    assert_eq!((poll(&engine, &set), poll(&engine, &set)), (Ok(()), Ok(())), "manual reset");
    let once = try_create(&engine, EventType::SIGNAL, false, true).unwrap();
    assert_eq!((poll(&engine, &once), poll(&engine, &once)), (Ok(()), Err(Status::WaitTimeout)));
    for kind in KINDS.into_iter().skip(1) {
        let event = try_create(&engine, kind, true, true).unwrap();
        assert_eq!(poll(&engine, &event), Err(Status::WaitTimeout), "{kind:?}");
    }
}

#[test]
fn an_event_that_cannot_be_set_at_first_is_not_left_over() {
    let mut fail = true;
    let engine = testing::engine_answered(Profile::CpuOnly, Kernel::Linux6_12, move |nr, _| {
        let now = nr == u32::from(Ioctl::SetEvent.nr()) && std::mem::take(&mut fail);
        now.then_some(Err(Errno::ENOMEM))
    });
    assert_eq!(try_create(&engine, EventType::SIGNAL, true, true).err(), Some(Status::Error));
    assert_eq!(try_create(&engine, EventType::SIGNAL, true, true).unwrap().id(), 1, "the id is free again");
}

#[test]
fn set_and_reset() {
    let engine = engine();
    let (manual, auto) = (signal(&engine), auto_reset(&engine));
    for event in [&manual, &auto] {
        assert_eq!(engine.set_event(event), Ok(()));
        assert_eq!(engine.set_event(event), Ok(()), "two sets are one");
    }
    assert_eq!((poll(&engine, &manual), poll(&engine, &manual)), (Ok(()), Ok(())));
    assert_eq!((poll(&engine, &auto), poll(&engine, &auto)), (Ok(()), Err(Status::WaitTimeout)));
    assert_eq!((engine.reset_event(&manual), engine.reset_event(&manual)), (Ok(()), Ok(())));
    assert_eq!(poll(&engine, &manual), Err(Status::WaitTimeout));
}

// Case V01.
#[test]
fn v01_signal_ids_end_at_4095_and_come_back() {
    let engine = engine();
    for round in 0..3 {
        let mut events: Vec<_> =
            std::iter::from_fn(|| try_create(&engine, EventType::SIGNAL, true, false).ok())
                .take(5000)
                .collect();
        assert_eq!(events.len(), 4095, "round {round}");
        let refused = |kind| try_create(&engine, kind, true, false).err();
        assert_eq!(refused(EventType::SIGNAL), Some(Status::Error));
        assert_eq!(refused(EventType::DEBUG_EVENT), Some(Status::Error));
        for kind in [EventType::QUEUE_EVENT, EventType::MEMORY] {
            assert_eq!(engine.destroy_event(&create(&engine, kind)), Ok(()), "other ids are not used up");
        }
        let freed = events.remove(16);
        engine.destroy_event(&freed).unwrap();
        events.push(signal(&engine));
        assert_eq!(events.last().map(SharedEvent::id), Some(freed.id()));
        for event in &events {
            engine.destroy_event(event).unwrap();
        }
    }
}

#[test]
fn slots_of_the_event_page_lie_8_bytes_apart() {
    let engine = engine();
    let slot = |event: SharedEvent| (u64::from(event.id()), { event.get().event_data.hw_data2 });
    let (first, second) = (slot(signal(&engine)), slot(create(&engine, EventType::DEBUG_EVENT)));
    assert_eq!(first.1 - first.0 * 8, second.1 - second.0 * 8, "one page");
    assert_eq!((first.1 - first.0 * 8) % 4096, 0);
}

// The page is the kernel's as long as the process lives; a second one is refused.
#[test]
fn the_event_page_survives_the_last_close() {
    for profile in [Profile::CpuOnly, Profile::Mi210] {
        let engine = rig::engine(profile);
        let page = |event: SharedEvent| { event.get().event_data.hw_data2 } - u64::from(event.id()) * 8;
        let before = page(signal(&engine));
        engine.close();
        assert_eq!(page(signal(&engine)), before, "{profile:?}");
    }
}

#[test]
fn a_first_event_without_slot_needs_no_page() {
    for profile in [Profile::CpuOnly, Profile::Mi210] {
        let engine = rig::engine(profile);
        let memory = create(&engine, EventType::MEMORY);
        assert_eq!({ memory.get().event_data.hw_data2 }, 0, "{profile:?}");
        assert_ne!({ signal(&engine).get().event_data.hw_data2 }, 0, "{profile:?}");
    }
}

#[test]
fn threads_that_create_the_first_event_together_share_one_page() {
    let engine = engine();
    let pages: std::collections::BTreeSet<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| signal(&engine))).collect();
        let events = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        events.map(|event| { event.get().event_data.hw_data2 } - u64::from(event.id()) * 8).collect()
    });
    assert_eq!(pages.len(), 1);
}

#[test]
fn a_failed_creation_leaves_nothing_and_the_next_one_works() {
    for profile in [Profile::CpuOnly, Profile::Mi210] {
        let mut failures = 2;
        let engine = testing::engine_answered(profile, Kernel::Linux6_12, move |nr, _| {
            let now = nr == u32::from(Ioctl::CreateEvent.nr()) && failures > 0;
            failures -= u32::from(now);
            now.then_some(Err(Errno::ENOMEM))
        });
        for _ in 0..2 {
            assert_eq!(try_create(&engine, EventType::SIGNAL, true, false).err(), Some(Status::Error));
        }
        let event = signal(&engine);
        assert_eq!(event.id(), 1);
        assert_ne!({ event.get().event_data.hw_data2 }, 0);
    }
}

#[test]
fn with_a_gpu_the_first_event_brings_a_buffer_as_event_page() {
    // Linux 7.3 has no page of its own.
    for kernel in [Kernel::Linux6_12, Kernel::Linux7_3] {
        let offsets = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&offsets);
        let engine = testing::engine_answered(Profile::Mi210, kernel, move |nr, bytes| {
            if nr == u32::from(Ioctl::CreateEvent.nr()) {
                let args = CreateEventArgs::ref_from_bytes(bytes).expect("the struct");
                seen.lock().expect("no panic").push(args.event_page_offset);
            }
            None
        });
        let events = [create(&engine, EventType::MEMORY), signal(&engine), signal(&engine)];
        let slots = events.each_ref().map(|event| event.get().event_data.hw_data2);
        let page = engine.pointer_info(slots[1]).expect("a buffer");
        assert_eq!({ page.size_in_bytes }, 32 << 10);
        assert_eq!(slots, [0, { page.gpu_address } + 8, { page.gpu_address } + 16]);
        let offsets = offsets.lock().unwrap();
        assert_ne!(offsets[0], 0, "{kernel:?}");
        assert_eq!(offsets[1..], [0, 0], "{kernel:?}");
        assert!(engine.free_memory(page.gpu_address, 32 << 10).is_err(), "KFD keeps it");
    }
}

// hsaKmtCreateEvent never says NO_MEMORY.
#[test]
fn an_event_page_that_cannot_be_had_is_an_error_and_tried_again() {
    let mut failing = vec![Ioctl::AllocMemoryOfGpu, Ioctl::MapMemoryToGpu];
    let engine = testing::engine_answered(Profile::Mi210, Kernel::Linux6_12, move |nr, _| {
        let place = failing.iter().position(|ioctl| u32::from(ioctl.nr()) == nr)?;
        failing.remove(place);
        Some(Err(Errno::ENOMEM))
    });
    engine.acquire_system_properties().expect("page tables");
    let created = || try_create(&engine, EventType::SIGNAL, true, false).map(|event| event.id());
    let results: Vec<_> =
        std::iter::repeat_with(created).take(4).filter_map(|created| created.err()).collect();
    assert!(!results.is_empty() && results.iter().all(|status| *status == Status::Error), "{results:?}");
    let event = signal(&engine);
    assert!(engine.pointer_info(event.get().event_data.hw_data2).is_ok());
}

#[test]
fn an_event_page_that_cannot_be_mapped_takes_its_event_along() {
    let (device, _) = device::over(rig::device(Profile::CpuOnly), device::Untouched);
    let engine = rig::engine_on(&device, Options::default());
    for operation in [Operation::DeviceMap, Operation::Map] {
        faults::fail_next(operation, Errno::ENOMEM);
        assert_eq!(try_create(&engine, EventType::SIGNAL, true, false).err(), Some(Status::Error));
        assert_eq!(faults::stop(), Some(operation));
    }
    let event = signal(&engine);
    assert_eq!(event.id(), 1, "the id is free again");
    assert_ne!({ event.get().event_data.hw_data2 }, 0);
}

const BUFFER: Buffer = Buffer { handle: NonZeroU64::new(0x77).unwrap(), address: 0x7000 };

/// What an engine says to the answers of KFD when it offers a buffer as event page: the results, the offsets that it
/// sent, and whether KFD may have the buffer.
fn offered<const N: usize>(
    answers: [Option<Errno>; N],
) -> (Vec<core::result::Result<(), Errno>>, Vec<u64>, bool) {
    let offsets = Arc::new(Mutex::new(Vec::new()));
    let (seen, mut next) = (Arc::clone(&offsets), answers.into_iter());
    let engine = testing::engine_answered(Profile::Mi210, Kernel::Linux6_12, move |nr, bytes| {
        if nr != u32::from(Ioctl::CreateEvent.nr()) {
            return None;
        }
        let args = CreateEventArgs::ref_from_bytes(bytes).expect("the struct");
        seen.lock().expect("no panic").push(args.event_page_offset);
        Some(next.next().expect("an answer").map_or(Ok(0), Err))
    });
    let mut perhaps_taken = false;
    let mut results = Vec::new();
    while offsets.lock().unwrap().len() < N {
        let mut args = CreateEventArgs::default();
        results.push(engine.create_with_buffer(&mut args, BUFFER, &mut perhaps_taken));
    }
    let offsets = offsets.lock().unwrap().clone();
    (results, offsets, perhaps_taken)
}

// KFD takes the page before it makes the event; if that fails then, a second offer is EINVAL.
#[test]
fn a_buffer_that_kfd_took_before_it_failed_is_the_event_page() {
    let (enomem, einval) = (Errno::ENOMEM, Errno::EINVAL);
    assert_eq!(offered([None]), (vec![Ok(())], vec![0x77], false));
    let taken = offered([Some(enomem), Some(einval), None]);
    assert_eq!(taken, (vec![Err(enomem), Ok(())], vec![0x77, 0x77, 0], true));
    let again = offered([Some(enomem), Some(enomem), None]);
    assert_eq!(again, (vec![Err(enomem), Err(enomem), Ok(())], vec![0x77, 0x77, 0x77], true));
    // A buffer that KFD does not like never is.
    let bad = offered([Some(einval), Some(einval)]);
    assert_eq!(bad, (vec![Err(einval), Err(einval)], vec![0x77, 0x77], false));
}

#[test]
fn the_struct_of_an_unknown_event_is_zeros_and_the_default() {
    assert_eq!({ Event::default().event_data }, EventData::default());
    assert_eq!({ EventDescriptor::default().event_type }, EventType::SIGNAL);
}

#[test]
fn smi_events_are_read_from_a_descriptor() {
    let engine = rig::engine(Profile::Mi210);
    let mut file = std::fs::File::from(engine.open_smi(1).expect("a descriptor"));
    file.write_all(&1_u64.to_le_bytes()).expect("a mask of events is taken");
    assert_eq!(file.read(&mut [0; 96]).map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
    assert_eq!(engine.open_smi(0).err(), Some(Status::Error), "a node without GPU");
    assert_eq!(engine.open_smi(2).err(), Some(Status::InvalidNodeUnit));
    assert_eq!(engine.open_smi(u32::MAX).err(), Some(Status::InvalidNodeUnit));
}
