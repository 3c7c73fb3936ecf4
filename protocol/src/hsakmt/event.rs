//! Events.

use zerocopy::{FromBytes, IntoBytes};

use super::declare::{hsa_enums, hsa_structs, hsa_words};

hsa_enums! {
    /// The nine kinds of events.
    pub struct EventType: u32, "HSA_EVENTTYPE" {
        /// Set by the GPU or by hsaKmtSetEvent.
        SIGNAL = 0, "HSA_EVENTTYPE_SIGNAL";
        /// A node comes or goes.
        NODE_CHANGE = 1, "HSA_EVENTTYPE_NODECHANGE";
        /// A device starts or stops.
        DEVICE_STATE_CHANGE = 2, "HSA_EVENTTYPE_DEVICESTATECHANGE";
        /// A GPU hangs or is reset.
        HW_EXCEPTION = 3, "HSA_EVENTTYPE_HW_EXCEPTION";
        /// The system suspends or resumes.
        SYSTEM_EVENT = 4, "HSA_EVENTTYPE_SYSTEM_EVENT";
        /// For a debugger.
        DEBUG_EVENT = 5, "HSA_EVENTTYPE_DEBUG_EVENT";
        /// For a profiler.
        PROFILE_EVENT = 6, "HSA_EVENTTYPE_PROFILE_EVENT";
        /// A queue becomes idle.
        QUEUE_EVENT = 7, "HSA_EVENTTYPE_QUEUE_EVENT";
        /// A GPU access fails.
        MEMORY = 8, "HSA_EVENTTYPE_MEMORY";
    }

    /// What a debug event is about.
    pub struct DebugEventType: u32, "HSA_DEBUG_EVENT_TYPE" {
        /// Nothing.
        NONE = 0, "HSA_DEBUG_EVENT_TYPE_NONE";
        /// A trap.
        TRAP = 1, "HSA_DEBUG_EVENT_TYPE_TRAP";
        /// A page fault.
        VMFAULT = 2, "HSA_DEBUG_EVENT_TYPE_VMFAULT";
        /// Both.
        TRAP_VMFAULT = 3, "HSA_DEBUG_EVENT_TYPE_TRAP_VMFAULT";
    }

    /// Kinds of devices.
    pub struct Device: u32, "HSA_DEVICE" {
        /// CPU.
        CPU = 0, "HSA_DEVICE_CPU";
        /// GPU.
        GPU = 1, "HSA_DEVICE_GPU";
    }

    /// What a node did.
    pub struct NodeChangeFlags: u32, "HSA_EVENTTYPE_NODECHANGE_FLAGS" {
        /// It came.
        ADD = 0, "HSA_EVENTTYPE_NODECHANGE_ADD";
        /// It went.
        REMOVE = 1, "HSA_EVENTTYPE_NODECHANGE_REMOVE";
    }

    /// What a device did.
    pub struct DeviceStateFlags: u32, "HSA_EVENTTYPE_DEVICESTATECHANGE_FLAGS" {
        /// It started.
        START = 0, "HSA_EVENTTYPE_DEVICESTATUSCHANGE_START";
        /// It stopped.
        STOP = 1, "HSA_EVENTTYPE_DEVICESTATUSCHANGE_STOP";
    }

    /// How bad a memory fault is.
    pub struct MemoryFaultFlags: u32, "HSA_EVENTID_MEMORYFLAGS" {
        /// The access can be repeated.
        RECOVERABLE = 0, "HSA_EVENTID_MEMORY_RECOVERABLE";
        /// The process is over.
        FATAL_PROCESS = 1, "HSA_EVENTID_MEMORY_FATAL_PROCESS";
        /// The whole address space is over.
        FATAL_VM = 2, "HSA_EVENTID_MEMORY_FATAL_VM";
    }

    /// Why there was a hardware exception.
    pub struct HwExceptionCause: u32, "HSA_EVENTID_HW_EXCEPTION_CAUSE" {
        /// The GPU hung.
        GPU_HANG = 0, "HSA_EVENTID_HW_EXCEPTION_GPU_HANG";
        /// An error that ECC could not correct.
        ECC = 1, "HSA_EVENTID_HW_EXCEPTION_ECC";
    }

    /// Times to wait that are special; others are milliseconds.
    pub struct EventTimeout: u32, "HsaEventTimeOut" {
        /// Do not wait.
        IMMEDIATE = 0, "HSA_EVENTTIMEOUT_IMMEDIATE";
        /// Wait for ever.
        INFINITE = 0xffff_ffff, "HSA_EVENTTIMEOUT_INFINITE";
    }
}

hsa_words! {
    /// What was wrong with an access.
    pub struct AccessFailure: u32, "HsaAccessAttributeFailure" {
        /// No page.
        NOT_PRESENT, not_present: 0, "NotPresent";
        /// A write to a read-only page.
        READ_ONLY, read_only: 1, "ReadOnly";
        /// Execution of a page that is not executable.
        NO_EXECUTE, no_execute: 2, "NoExecute";
        /// A page that only the host may use.
        GPU_ACCESS, gpu_access: 3, "GpuAccess";
        /// Memory with an error.
        ECC, ecc: 4, "ECC";
        /// The address is not exact.
        IMPRECISE, imprecise: 5, "Imprecise";
    } ranges {
        /// Kind of RAS error: 0 none, 1 SRAM, 2 DRAM, 3 a hang.
        ERROR_TYPE, error_type: 6, 3, "ErrorType";
    }
}

hsa_structs! {
    /// Memory that the GPU writes when it sets the event.
    pub struct SyncVar: "HsaSyncVar", 16 {
        /// Address, or any value of the caller. The header has a union of both here, `SyncVar`.
        pub user_data: u64, "SyncVar";
        /// Size in bytes.
        pub sync_var_size: u64, "SyncVarSize";
    }

    /// A node came or went.
    pub struct NodeChange: "HsaNodeChange", 4 {
        /// Which of both.
        pub flags: NodeChangeFlags, "Flags";
    }

    /// A device started or stopped.
    pub struct DeviceStateChange: "HsaDeviceStateChange", 12 {
        /// Node.
        pub node_id: u32, "NodeId";
        /// Kind of device.
        pub device: Device, "Device";
        /// Which of both.
        pub flags: DeviceStateFlags, "Flags";
    }

    /// A GPU access failed.
    pub struct MemoryAccessFault: "HsaMemoryAccessFault", 20 {
        /// Node of the GPU.
        pub node_id: u32, "NodeId";
        /// GPU virtual address.
        pub virtual_address: u64, "VirtualAddress";
        /// What was wrong.
        pub failure: AccessFailure, "Failure";
        /// How bad it is.
        pub flags: MemoryFaultFlags, "Flags";
    }

    /// A GPU hung or was reset. Since 6.2.4.
    pub struct HwException: "HsaHwException", 16 {
        /// Node of the GPU.
        pub node_id: u32, "NodeId";
        /// 0: the whole GPU, 1: one engine.
        pub reset_type: u32, "ResetType";
        /// 1: the contents of VRAM are lost.
        pub memory_lost: u32, "MemoryLost";
        /// Why.
        pub reset_cause: HwExceptionCause, "ResetCause";
    }

    /// What happened.
    pub struct EventData: "HsaEventData", 44 {
        /// Kind of event; it says what the payload is.
        pub event_type: EventType, "EventType";
        /// The header's union.
        pub event_data: EventPayload, "EventData";
        /// The kernel's id of the event. (internal to the thunk)
        pub hw_data1: u64, "HWData1";
        /// Address of the event's slot in the event page; the GPU writes there. (internal to the thunk)
        pub hw_data2: u64, "HWData2";
        /// What the GPU writes to set the event. (internal to the thunk)
        pub hw_data3: u32, "HWData3";
    }

    /// What kind of event to create.
    pub struct EventDescriptor: "HsaEventDescriptor", 24 {
        /// Kind of event.
        pub event_type: EventType, "EventType";
        /// Node, for the kinds that belong to one.
        pub node_id: u32, "NodeId";
        /// For signal events.
        pub sync_var: SyncVar, "SyncVar";
    }

    /// An event, as the thunk allocates it for the caller.
    pub struct Event: "HsaEvent", 48 {
        /// The kernel's id of the event.
        pub event_id: u32, "EventId";
        /// What happened.
        pub event_data: EventData, "EventData";
    }
}

/// The union inside `HsaEventData`: 20 bytes that mean something by the kind of event.
#[repr(transparent)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
pub struct EventPayload(pub [u32; 5]);

/// One of the union's members.
pub trait EventMember: super::HsaStruct {}

impl EventMember for SyncVar {}
impl EventMember for NodeChange {}
impl EventMember for DeviceStateChange {}
impl EventMember for MemoryAccessFault {}
impl EventMember for HwException {}

impl EventPayload {
    /// The payload with this member at its start and zeros behind.
    #[must_use]
    pub fn new<T: EventMember>(member: &T) -> Self {
        let mut payload = Self::default();
        payload.set(member);
        payload
    }

    /// Writes a member over the start; the rest stays.
    pub fn set<T: EventMember>(&mut self, member: &T) {
        const { assert!(size_of::<T>() <= size_of::<Self>()) };
        for (to, from) in self.as_mut_bytes().iter_mut().zip(member.as_bytes()) {
            *to = *from;
        }
    }

    /// Reads the payload as this member.
    #[must_use]
    pub fn get<T: EventMember>(&self) -> T {
        const { assert!(size_of::<T>() <= size_of::<Self>()) };
        let mut member = T::new_zeroed();
        for (to, from) in member.as_mut_bytes().iter_mut().zip(self.as_bytes()) {
            *to = *from;
        }
        member
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_what_was_put_in() {
        let fault = MemoryAccessFault {
            node_id: 3,
            virtual_address: 0x1122_3344_5566_7788,
            failure: AccessFailure::READ_ONLY | AccessFailure::NOT_PRESENT,
            flags: MemoryFaultFlags::FATAL_PROCESS,
        };
        let mut payload = EventPayload::new(&fault);
        assert_eq!(payload.0, [3, 0x5566_7788, 0x1122_3344, 3, 1]);
        assert_eq!(payload.get::<MemoryAccessFault>(), fault);
        payload.set(&NodeChange { flags: NodeChangeFlags::REMOVE });
        assert_eq!(payload.get::<NodeChange>().flags, NodeChangeFlags::REMOVE);
        assert_eq!(
            payload.get::<SyncVar>(),
            SyncVar { user_data: 0x5566_7788 << 32 | 1, sync_var_size: 3 << 32 | 0x1122_3344 }
        );
    }
}
