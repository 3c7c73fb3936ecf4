//! What KFD tells with an event, as `hsakmttypes.h` says it.

use protocol::hsakmt::{
    AccessFailure, EventType, HwException, HwExceptionCause, MemoryAccessFault, MemoryFaultFlags,
};
use protocol::kfd::constants::MemoryError;
use protocol::kfd::types::{EventData, HsaHwExceptionData, HsaMemoryExceptionData};
use zerocopy::FromBytes;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// A memory exception.
    Memory(MemoryAccessFault),
    /// A GPU was reset or has to be.
    Hardware(HwException),
}

/// A GPU by KFD's id of it, which is no node of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownGpu(pub(super) u32);

/// Reads an element that came back from a wait. `None` for events that have nothing to tell or have not fired: KFD
/// writes to the elements of fired events only, so a GPU id of 0 is one that was not written.
pub(super) fn decode(
    kind: EventType,
    data: &EventData,
    node_of_gpu: impl FnOnce(u32) -> Option<u32>,
) -> Option<Result<Payload, UnknownGpu>> {
    let (gpu_id, payload): (u32, fn(&EventData, u32) -> Payload) = match kind {
        EventType::MEMORY => {
            (memory_data(data).gpu_id, |data, node| Payload::Memory(memory(&memory_data(data), node)))
        }
        EventType::HW_EXCEPTION => {
            (hardware_data(data).gpu_id, |data, node| Payload::Hardware(hardware(&hardware_data(data), node)))
        }
        _ => return None,
    };
    if gpu_id == 0 {
        return None;
    }
    Some(node_of_gpu(gpu_id).map(|node| payload(data, node)).ok_or(UnknownGpu(gpu_id)))
}

fn memory_data(data: &EventData) -> HsaMemoryExceptionData {
    zerocopy::transmute!(data.body)
}

fn hardware_data(data: &EventData) -> HsaHwExceptionData {
    HsaHwExceptionData::read_from_prefix(&data.body).map(|(read, _)| read).unwrap_or_default()
}

fn memory(data: &HsaMemoryExceptionData, node_id: u32) -> MemoryAccessFault {
    let ecc = matches!(MemoryError(data.error_type), MemoryError::SRAM_ECC | MemoryError::POISON_CONSUMED);
    let bits = [
        (data.failure.not_present != 0, AccessFailure::NOT_PRESENT),
        (data.failure.read_only != 0, AccessFailure::READ_ONLY),
        (data.failure.no_execute != 0, AccessFailure::NO_EXECUTE),
        (data.failure.imprecise != 0, AccessFailure::IMPRECISE),
        (ecc, AccessFailure::ECC),
    ];
    let failure = bits
        .into_iter()
        .filter(|(is, _)| *is)
        .fold(AccessFailure::default(), |all, (_, bit)| all | bit)
        .with(AccessFailure::ERROR_TYPE, data.error_type);
    MemoryAccessFault { node_id, virtual_address: data.va, failure, flags: MemoryFaultFlags::FATAL_PROCESS }
}

fn hardware(data: &HsaHwExceptionData, node_id: u32) -> HwException {
    HwException {
        node_id,
        reset_type: data.reset_type,
        memory_lost: data.memory_lost,
        reset_cause: HwExceptionCause(data.reset_cause),
    }
}

/// Age of a signal event, in and out.
pub(super) fn set_age(data: &mut EventData, age: u64) {
    for (to, from) in data.body.iter_mut().zip(age.to_le_bytes()) {
        *to = from;
    }
}

/// Age that came back.
pub(super) fn age(data: &EventData) -> u64 {
    u64::read_from_prefix(&data.body).map_or(0, |(age, _)| age)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::kfd::types::MemoryExceptionFailure;
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;

    fn element<T: IntoBytes + zerocopy::Immutable>(body: &T) -> EventData {
        let mut data = EventData::new_zeroed();
        data.body[..size_of::<T>()].copy_from_slice(body.as_bytes());
        data
    }

    fn fault(failure: MemoryExceptionFailure, error_type: u32) -> AccessFailure {
        let data = element(&HsaMemoryExceptionData { failure, va: 0x7000, gpu_id: 5, error_type });
        match decode(EventType::MEMORY, &data, |gpu_id| Some(gpu_id + 1)) {
            Some(Ok(Payload::Memory(fault))) => {
                assert_eq!(({ fault.node_id }, { fault.virtual_address }), (6, 0x7000));
                assert_eq!({ fault.flags }, MemoryFaultFlags::FATAL_PROCESS);
                fault.failure
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_reason_of_a_memory_exception_has_its_bit() {
        let none = MemoryExceptionFailure::default();
        assert_eq!(fault(MemoryExceptionFailure { not_present: 1, ..none }, 0), AccessFailure::NOT_PRESENT);
        assert_eq!(fault(MemoryExceptionFailure { read_only: 1, ..none }, 0), AccessFailure::READ_ONLY);
        assert_eq!(fault(MemoryExceptionFailure { no_execute: 1, ..none }, 0), AccessFailure::NO_EXECUTE);
        assert_eq!(fault(MemoryExceptionFailure { imprecise: 1, ..none }, 0), AccessFailure::IMPRECISE);
        assert_eq!((fault(none, 1).ecc(), fault(none, 1).error_type()), (true, 1));
        assert_eq!((fault(none, 2).ecc(), fault(none, 2).error_type()), (true, 2));
        assert_eq!((fault(none, 3).ecc(), fault(none, 3).error_type()), (false, 3));
    }

    #[test]
    fn a_hardware_exception_keeps_type_cause_and_loss() {
        let data = HsaHwExceptionData { reset_type: 1, reset_cause: 1, memory_lost: 1, gpu_id: 9 };
        let expected =
            HwException { node_id: 2, reset_type: 1, memory_lost: 1, reset_cause: HwExceptionCause::ECC };
        let decoded = decode(EventType::HW_EXCEPTION, &element(&data), |gpu_id| (gpu_id == 9).then_some(2));
        assert_eq!(decoded, Some(Ok(Payload::Hardware(expected))));
    }

    // Case V03.
    #[test]
    fn an_element_that_kfd_did_not_write_has_not_fired() {
        let unwritten = EventData::new_zeroed();
        let asked = |_| -> Option<u32> { panic!("no GPU to ask for") };
        assert_eq!(decode(EventType::MEMORY, &unwritten, asked), None);
        assert_eq!(decode(EventType::HW_EXCEPTION, &unwritten, asked), None);
        let fired = element(&HsaMemoryExceptionData { gpu_id: 4, ..Default::default() });
        assert_eq!(decode(EventType::SIGNAL, &fired, asked), None, "other kinds have no payload");
        assert_eq!(decode(EventType::MEMORY, &fired, |_| None), Some(Err(UnknownGpu(4))));
    }

    proptest! {
        #[test]
        fn any_bytes_decode(kind in 0_u32..12, body in any::<[u8; 32]>(), node in any::<Option<u32>>()) {
            let data = EventData { body, ..Default::default() };
            let decoded = decode(EventType(kind), &data, |_| node);
            match (kind, decoded) {
                (8, Some(Ok(Payload::Memory(fault)))) => {
                    prop_assert_eq!(Some(fault.node_id), node);
                    prop_assert_eq!({ fault.failure }.unknown(), AccessFailure::default());
                }
                (3, Some(Ok(Payload::Hardware(exception)))) => prop_assert_eq!(Some(exception.node_id), node),
                (3 | 8, Some(Err(UnknownGpu(gpu_id)))) => prop_assert!(node.is_none() && gpu_id != 0),
                (3 | 8, None) => prop_assert!(body[12..16] == [0; 4] || body[24..28] == [0; 4]),
                (_, decoded) => prop_assert_eq!(decoded, None),
            }
        }

        #[test]
        fn ages_come_back(age_in in any::<u64>()) {
            let mut data = EventData::new_zeroed();
            set_age(&mut data, age_in);
            prop_assert_eq!(age(&data), age_in);
            prop_assert_eq!({ data.event_id }, 0);
        }
    }
}
