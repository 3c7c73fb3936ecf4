//! The public C types of AMD's thunk libhsakmt (`hsakmttypes.h`), from 5.2.3 to 2026, declared once.
//!
//! Structs are here in their newest layout; [`Layout`] turns them into the bytes of the generation that a
//! caller was built for. [`api`] is the table of the functions.

pub mod api;
mod declare;
mod layout;
mod status;

pub mod debug;
pub mod event;
pub mod handle;
pub mod memory;
pub mod perf;
pub mod queue;
pub mod sampling;
pub mod svm;
pub mod topology;

pub use declare::{BitField, Enum, Field, HsaStruct, Struct, Word};
pub use layout::{Encoded, Layout, Placed, TooShort};
pub use status::Status;

pub use debug::{
    DbgExceptionCode, DbgNodeControl, DbgTrapMask, DbgTrapOverride, DbgWatchMode, DbgWaveLaunchMode,
    DbgWaveMessage, DbgWaveMode, DbgWaveMsgGen2, DbgWaveMsgType, DbgWaveOp, RuntimeCaps,
};
pub use event::{
    AccessFailure, DebugEventType, Device, DeviceStateChange, DeviceStateFlags, Event, EventData,
    EventDescriptor, EventPayload, EventTimeout, EventType, HwException, HwExceptionCause, MemoryAccessFault,
    MemoryFaultFlags, NodeChange, NodeChangeFlags, SyncVar,
};
pub use handle::{
    AisFlags, ExternalHandleType, ExternalSemaphoreHandle, ExternalSemaphoreHandleType, FabricHandle,
    HandleExportDesc, HandleExportFlags, HandleImportDesc, HandleImportFlags, HandleImportResult,
    MemoryExportResult, MemoryMapFlags, StructureSizes,
};
pub use memory::{
    CachingType, GpuTileConfig, GraphicsResourceInfo, MemFlags, MemMapFlags, MemoryRange, PageSize,
    PointerInfo, PointerType, RegisterMemFlags, SharedMemoryHandle, WddmSurfaceMetadata,
};
pub use perf::{
    Counter, CounterBlockProperties, CounterFlags, CounterProperties, PROFILE_BLOCKS, PmcTraceRoot,
    ProfileType, Uuid,
};
pub use queue::{
    ContextSaveAreaHeader, INVALID_QUEUE_ID, QueueInfo, QueuePriority, QueueReport, QueueResource, QueueType,
};
pub use sampling::{ClockCounters, PcSamplingInfo, PcSamplingMethod, PcSamplingUnits};
pub use svm::{
    MigrateTrigger, QueueEvictionTrigger, SMI_EVENT_MSG_SIZE, SmiEvent, SvmAttrType, SvmAttribute, SvmFlags,
    SvmUnmapTrigger,
};
pub use topology::{
    CComputeProperties, CPU_SIBLINGS, CacheProperties, CacheType, Capability, Capability2, DebugProperties,
    EngineId, EngineVersion, HeapType, INVALID_NODE_ID, INVALID_PID, IoLinkProperties, IoLinkType,
    LinkProperty, MemoryProperties, MemoryProperty, NodeProperties, PROCESSOR_ID_ALL, PUBLIC_NAME_SIZE,
    SystemProperties, VersionInfo,
};

/// Version of the header's definitions (`HSAKMT_VERSION_MAJOR`, `HSAKMT_VERSION_MINOR`).
pub const HSAKMT_VERSION: (u32, u32) = (0, 99);

/// Every struct, in the newest layout.
pub static STRUCTS: &[&[Struct]] = &[
    topology::STRUCTS,
    memory::STRUCTS,
    queue::STRUCTS,
    event::STRUCTS,
    svm::STRUCTS,
    sampling::STRUCTS,
    perf::STRUCTS,
    debug::STRUCTS,
    handle::STRUCTS,
];

/// Every enum.
pub static ENUMS: &[&[Enum]] = &[
    topology::ENUMS,
    memory::ENUMS,
    queue::ENUMS,
    event::ENUMS,
    svm::ENUMS,
    sampling::ENUMS,
    perf::ENUMS,
    debug::ENUMS,
    handle::ENUMS,
];

/// Every word of bits.
pub static WORDS: &[&[Word]] =
    &[topology::WORDS, memory::WORDS, event::WORDS, svm::WORDS, perf::WORDS, debug::WORDS, handle::WORDS];
