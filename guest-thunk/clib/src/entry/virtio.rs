//! `vhsaKmt*`, the names under which AMD's library has the virtio transport: the same functions, over virtio only.

use std::ffi::{c_int, c_void};

use hsakmt::engine::Opened;
use hsakmt::engine::event::SharedEvent;
use protocol::hsakmt::{
    CacheProperties, ClockCounters, EventDescriptor, GpuTileConfig, GraphicsResourceInfo, IoLinkProperties,
    MemFlags, MemoryProperties, NodeProperties, PointerInfo, QueueInfo, QueuePriority, QueueResource,
    QueueType, SharedMemoryHandle, Status, SvmAttribute, SystemProperties, VersionInfo,
};

use super::{debug, event, lifetime, memory, queue, svm, topology};
use crate::drm::{self, DeviceHandle};
use crate::ffi::{Array, Out, Shared, Struct};
use crate::guard::{Uncancelled, entry, guard};
use crate::library;

/// An address of the program.
type Address = u64;

entry! {
    /// `hsaKmtOpenKFD` over virtio: fails where the library is open over something else.
    fn vhsaKmtOpenKFD() {
        match library::open_virtio()? {
            Opened::First => Ok(()),
            Opened::Again => Err(Status::KernelAlreadyOpened),
        }
    }
}

/// Declares names that are other functions, while the library is open over virtio.
macro_rules! over_virtio {
    ($($name:ident = $area:ident::$function:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[doc = concat!("[`", stringify!($function), "`](", stringify!($area), "::", stringify!($function), "), over virtio.")]
        ///
        /// # Safety
        /// As that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            if library::over_virtio().is_err() {
                let _uncancelled = Uncancelled::new();
                return guard(stringify!($name), || {
                    log::debug!(concat!(stringify!($name), ": the library is not open over virtio"));
                    Err(Status::KernelIoChannelNotOpened)
                });
            }
            // SAFETY: the caller promises what that function asks for.
            unsafe { $area::$function($($arg),*) }
        }
    )*
        /// The names of these functions.
        pub(crate) const OTHERS: &[&str] = &[$(stringify!($name)),*];
    };
}

over_virtio! {
    vhsaKmtCloseKFD = lifetime::hsaKmtCloseKFD();
    vhsaKmtAllocMemory = memory::hsaKmtAllocMemory(node: u32, size: u64, flags: MemFlags, address: Out<Address>);
    vhsaKmtAllocMemoryAlign = memory::hsaKmtAllocMemoryAlign(node: u32, size: u64, alignment: u64, flags: MemFlags, address: Out<Address>);
    vhsaKmtFreeMemory = memory::hsaKmtFreeMemory(address: Address, size: u64);
    vhsaKmtMapMemoryToGPUNodes = memory::hsaKmtMapMemoryToGPUNodes(address: Address, size: u64, alternate: Out<Address>, flags: u32, count: u64, nodes: Array<u32>);
    vhsaKmtUnmapMemoryToGPU = memory::hsaKmtUnmapMemoryToGPU(address: Address);
    vhsaKmtAvailableMemory = memory::hsaKmtAvailableMemory(node: u32, bytes: Out<u64>);
    vhsaKmtMapMemoryToGPU = memory::hsaKmtMapMemoryToGPU(address: Address, size: u64, alternate: Out<Address>);
    vhsaKmtRegisterMemoryWithFlags = memory::hsaKmtRegisterMemoryWithFlags(address: Address, size: u64, flags: MemFlags);
    vhsaKmtRegisterMemory = memory::hsaKmtRegisterMemory(address: Address, size: u64);
    vhsaKmtRegisterMemoryToNodes = memory::hsaKmtRegisterMemoryToNodes(address: Address, size: u64, count: u64, nodes: Array<u32>);
    vhsaKmtDeregisterMemory = memory::hsaKmtDeregisterMemory(address: Address);
    vhsaKmtGetVersion = lifetime::hsaKmtGetVersion(version: Struct<VersionInfo>);
    vhsaKmtAcquireSystemProperties = topology::hsaKmtAcquireSystemProperties(properties: Struct<SystemProperties>);
    vhsaKmtReleaseSystemProperties = topology::hsaKmtReleaseSystemProperties();
    vhsaKmtGetNodeProperties = topology::hsaKmtGetNodeProperties(node: u32, properties: Struct<NodeProperties>);
    vhsaKmtGetXNACKMode = svm::hsaKmtGetXNACKMode(enabled: Out<i32>);
    vhsaKmtSetXNACKMode = svm::hsaKmtSetXNACKMode(enable: i32);
    vhsaKmtRuntimeEnable = debug::hsaKmtRuntimeEnable(r_debug: u64, setup_ttmp: bool);
    vhsaKmtRuntimeDisable = debug::hsaKmtRuntimeDisable();
    vhsaKmtGetNodeMemoryProperties = topology::hsaKmtGetNodeMemoryProperties(node: u32, banks: u32, properties: Struct<MemoryProperties>);
    vhsaKmtGetNodeCacheProperties = topology::hsaKmtGetNodeCacheProperties(node: u32, processor: u32, caches: u32, properties: Struct<CacheProperties>);
    vhsaKmtGetNodeIoLinkProperties = topology::hsaKmtGetNodeIoLinkProperties(node: u32, links: u32, properties: Struct<IoLinkProperties>);
    vhsaKmtGetClockCounters = topology::hsaKmtGetClockCounters(node: u32, counters: Struct<ClockCounters>);
    vhsaKmtGetAMDGPUDeviceHandle = topology::hsaKmtGetAMDGPUDeviceHandle(node: u32, handle: Out<DeviceHandle>);
    vhsaKmtQueryPointerInfo = memory::hsaKmtQueryPointerInfo(address: Address, info: Struct<PointerInfo>);
    vhsaKmtGetTileConfig = queue::hsaKmtGetTileConfig(node: u32, config: Struct<GpuTileConfig>);
    vhsaKmtCreateEvent = event::hsaKmtCreateEvent(descriptor: Struct<EventDescriptor>, manual_reset: bool, signaled: bool, event: Out<Shared<SharedEvent>>);
    vhsaKmtDestroyEvent = event::hsaKmtDestroyEvent(event: Shared<SharedEvent>);
    vhsaKmtSetEvent = event::hsaKmtSetEvent(event: Shared<SharedEvent>);
    vhsaKmtResetEvent = event::hsaKmtResetEvent(event: Shared<SharedEvent>);
    vhsaKmtQueryEventState = event::hsaKmtQueryEventState(event: Shared<SharedEvent>);
    vhsaKmtWaitOnMultipleEvents = event::hsaKmtWaitOnMultipleEvents(events: Array<Option<&'static SharedEvent>>, count: u32, all: bool, milliseconds: u32);
    vhsaKmtWaitOnEvent = event::hsaKmtWaitOnEvent(event: Shared<SharedEvent>, milliseconds: u32);
    vhsaKmtWaitOnEvent_Ext = event::hsaKmtWaitOnEvent_Ext(event: Shared<SharedEvent>, milliseconds: u32, age: Out<u64>);
    vhsaKmtWaitOnMultipleEvents_Ext = event::hsaKmtWaitOnMultipleEvents_Ext(events: Array<Option<&'static SharedEvent>>, count: u32, all: bool, milliseconds: u32, ages: Out<u64>);
    vhsaKmtSetTrapHandler = queue::hsaKmtSetTrapHandler(node: u32, handler: u64, handler_size: u64, buffer: u64, buffer_size: u64);
    vhsaKmtCreateQueue = queue::hsaKmtCreateQueue(node: u32, queue_type: QueueType, percentage: u32, priority: QueuePriority, ring: u64, ring_size: u64, event: Shared<SharedEvent>, resource: Struct<QueueResource>);
    vhsaKmtCreateQueueExt = queue::hsaKmtCreateQueueExt(node: u32, queue_type: QueueType, percentage: u32, priority: QueuePriority, sdma_engine: u32, ring: u64, ring_size: u64, event: Shared<SharedEvent>, resource: Struct<QueueResource>);
    vhsaKmtDestroyQueue = queue::hsaKmtDestroyQueue(queue: u64);
    vhsaKmtUpdateQueue = queue::hsaKmtUpdateQueue(queue: u64, percentage: u32, priority: QueuePriority, address: u64, size: u64, event: Shared<SharedEvent>);
    vhsaKmtGetQueueInfo = queue::hsaKmtGetQueueInfo(queue: u64, info: Struct<QueueInfo>);
    vhsaKmtSetQueueCUMask = queue::hsaKmtSetQueueCUMask(queue: u64, bits: u32, mask: u64);
    vhsaKmtAllocQueueGWS = queue::hsaKmtAllocQueueGWS(queue: u64, count: u32, first: Out<u32>);
    vhsaKmtRegisterGraphicsHandleToNodes = memory::hsaKmtRegisterGraphicsHandleToNodes(handle: u64, info: Struct<GraphicsResourceInfo>, count: u64, nodes: Array<u32>);
    vhsaKmtUnmapGraphicHandle = memory::hsaKmtUnmapGraphicHandle(node: u32, address: Address, size: u64);
    vhsaKmtExportDMABufHandle = memory::hsaKmtExportDMABufHandle(address: Address, size: u64, fd: Out<c_int>, offset: Out<u64>);
    vhsaKmtGetRuntimeCapabilities = debug::hsaKmtGetRuntimeCapabilities(capabilities: Out<u32>);
    vhsaKmtShareMemory = memory::hsaKmtShareMemory(address: Address, size: u64, handle: Struct<SharedMemoryHandle>);
    vhsaKmtRegisterSharedHandle = memory::hsaKmtRegisterSharedHandle(handle: Struct<SharedMemoryHandle>, address: Out<Address>, size: Out<u64>);
    vhsaKmtRegisterSharedHandleToNodes = memory::hsaKmtRegisterSharedHandleToNodes(handle: Struct<SharedMemoryHandle>, address: Out<Address>, size: Out<u64>, count: u64, nodes: Array<u32>);
    vhsaKmtSetMemoryPolicy = memory::hsaKmtSetMemoryPolicy(node: u32, default: u32, alternate: u32, base: Address, size: u64);
    vhsaKmtSetMemoryUserData = memory::hsaKmtSetMemoryUserData(address: Address, user_data: u64);
    vhsaKmtSVMGetAttr = svm::hsaKmtSVMGetAttr(address: u64, size: u64, count: u32, attributes: Struct<SvmAttribute>);
    vhsaKmtSVMSetAttr = svm::hsaKmtSVMSetAttr(address: u64, size: u64, count: u32, attributes: Struct<SvmAttribute>);
    vhsaKmtOpenSMI = event::hsaKmtOpenSMI(node: u32, fd: Out<c_int>);
}

/// `amdgpu_query_gpu_info` of a GPU of a virtual machine's.
///
/// # Safety
/// `info` is NULL, or leads to a `struct amdgpu_gpu_info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vamdgpu_query_gpu_info(device: *mut c_void, info: *mut c_void) -> c_int {
    let _uncancelled = Uncancelled::new();
    // SAFETY: the caller promises so.
    unsafe { drm::own_query(device, info) }
}

/// Names of libdrm for a virtual machine's GPUs.
pub(crate) const DRM: &[&str] = &["vamdgpu_query_gpu_info"];
