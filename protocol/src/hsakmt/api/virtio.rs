//! The functions of AMD's virtio thunk (`hsakmt_virtio.h`): the same calls over a virtio-gpu device, and
//! libdrm's for the same device.

use super::{Function, functions};

functions! {
    /// Every `vhsaKmt*`, `vamdgpu_*` and `vdrm*` function.
    pub static VIRTIO;
    vhsaKmtOpenKFD Open Aug2025 Virtio "void";
    vhsaKmtCloseKFD Open Aug2025 Virtio "void";
    vhsaKmtAllocMemory Memory Aug2025 Virtio "HSAuint32, HSAuint64, HsaMemFlags, void**";
    vhsaKmtAllocMemoryAlign Memory Y2026 Virtio "HSAuint32, HSAuint64, HSAuint64, HsaMemFlags, void**";
    vhsaKmtFreeMemory Memory Aug2025 Virtio "void*, HSAuint64";
    vhsaKmtMapMemoryToGPUNodes Memory Aug2025 Virtio
        "void*, HSAuint64, HSAuint64*, HsaMemFlags, HSAuint64, HSAuint32*";
    vhsaKmtUnmapMemoryToGPU Memory Aug2025 Virtio "void*";
    vhsaKmtAvailableMemory Memory Aug2025 Virtio "HSAuint32, HSAuint64*";
    vhsaKmtMapMemoryToGPU Memory Aug2025 Virtio "void*, HSAuint64, HSAuint64*";
    vhsaKmtRegisterMemoryWithFlags Memory Aug2025 Virtio "void*, HSAuint64, HsaMemFlags";
    vhsaKmtRegisterMemory Memory Y2026 Virtio "void*, HSAuint64";
    vhsaKmtRegisterMemoryToNodes Memory Y2026 Virtio "void*, HSAuint64, HSAuint32, HSAuint32*";
    vhsaKmtDeregisterMemory Memory Aug2025 Virtio "void*";
    vhsaKmtGetVersion Version Aug2025 Virtio "HsaVersionInfo*";
    vhsaKmtAcquireSystemProperties Topology Aug2025 Virtio "HsaSystemProperties*";
    vhsaKmtReleaseSystemProperties Topology Aug2025 Virtio "void";
    vhsaKmtGetNodeProperties Topology Aug2025 Virtio "HSAuint32, HsaNodeProperties*";
    vhsaKmtGetXNACKMode Svm Aug2025 Virtio "HSAint32*";
    vhsaKmtSetXNACKMode Svm Y2026 Virtio "HSAint32";
    vhsaKmtRuntimeEnable Debug Aug2025 Virtio "void*, bool";
    vhsaKmtRuntimeDisable Debug Aug2025 Virtio "void";
    vhsaKmtGetNodeMemoryProperties Topology Aug2025 Virtio "HSAuint32, HSAuint32, HsaMemoryProperties*";
    vhsaKmtGetNodeCacheProperties Topology Aug2025 Virtio
        "HSAuint32, HSAuint32, HSAuint32, HsaCacheProperties*";
    vhsaKmtGetNodeIoLinkProperties Topology Aug2025 Virtio "HSAuint32, HSAuint32, HsaIoLinkProperties*";
    vhsaKmtGetClockCounters Time Aug2025 Virtio "HSAuint32, HsaClockCounters*";
    vhsaKmtGetAMDGPUDeviceHandle Handle Aug2025 Virtio "HSAuint32, HsaAMDGPUDeviceHandle*";
    vhsaKmtQueryPointerInfo Memory Aug2025 Virtio "const void*, HsaPointerInfo*";
    vhsaKmtGetTileConfig Memory Aug2025 Virtio "HSAuint32, HsaGpuTileConfig*";
    vhsaKmtCreateEvent Event Aug2025 Virtio "HsaEventDescriptor*, bool, bool, HsaEvent**";
    vhsaKmtDestroyEvent Event Aug2025 Virtio "HsaEvent*";
    vhsaKmtSetEvent Event Aug2025 Virtio "HsaEvent*";
    vhsaKmtResetEvent Event Aug2025 Virtio "HsaEvent*";
    vhsaKmtQueryEventState Event Aug2025 Virtio "HsaEvent*";
    vhsaKmtWaitOnMultipleEvents Event Aug2025 Virtio "HsaEvent**, HSAuint32, bool, HSAuint32";
    vhsaKmtWaitOnEvent Event Aug2025 Virtio "HsaEvent*, HSAuint32";
    vhsaKmtWaitOnEvent_Ext Event Aug2025 Virtio "HsaEvent*, HSAuint32, uint64_t*";
    vhsaKmtWaitOnMultipleEvents_Ext Event Aug2025 Virtio "HsaEvent**, HSAuint32, bool, HSAuint32, uint64_t*";
    vhsaKmtSetTrapHandler Queue Aug2025 Virtio "HSAuint32, void*, HSAuint64, void*, HSAuint64";
    vhsaKmtCreateQueue Queue Aug2025 Virtio
        "HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, void*, HSAuint64, HsaEvent*, \
        HsaQueueResource*";
    vhsaKmtCreateQueueExt Queue Aug2025 Virtio
        "HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32, void*, HSAuint64, \
        HsaEvent*, HsaQueueResource*";
    vhsaKmtCreateQueueV2 Queue Y2026 Virtio
        "HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32, void*, HSAuint64, \
        HSAuint64, HsaEvent*, HsaQueueResource*";
    vhsaKmtDestroyQueue Queue Aug2025 Virtio "HSA_QUEUEID";
    vhsaKmtUpdateQueue Queue Y2026 Virtio
        "HSA_QUEUEID, HSAuint32, HSA_QUEUE_PRIORITY, void*, HSAuint64, HsaEvent*";
    vhsaKmtGetQueueInfo Queue Y2026 Virtio "HSA_QUEUEID, HsaQueueInfo*";
    vhsaKmtSetQueueCUMask Queue Y2026 Virtio "HSA_QUEUEID, HSAuint32, HSAuint32*";
    vhsaKmtAllocQueueGWS Queue Y2026 Virtio "HSA_QUEUEID, HSAuint32, HSAuint32*";
    vhsaKmtRegisterGraphicsHandleToNodes DmaBuf Aug2025 Virtio
        "HSAuint64, HsaGraphicsResourceInfo*, HSAuint64, HSAuint32*";
    vhsaKmtRegisterGraphicsHandleToNodesExt DmaBuf Y2026 Virtio
        "HSAuint64, HsaGraphicsResourceInfo*, HSAuint64, HSAuint32*, HSA_REGISTER_MEM_FLAGS";
    vhsaKmtMapGraphicHandle DmaBuf Y2026 Virtio
        "HSAuint32, HSAuint64, HSAuint64, HSAuint64, HSAuint64, HSAuint64*";
    vhsaKmtUnmapGraphicHandle DmaBuf Y2026 Virtio "HSAuint32, HSAuint64, HSAuint64";
    vhsaKmtExportDMABufHandle DmaBuf Y2026 Virtio "void*, HSAuint64, int*, HSAuint64*";
    vhsaKmtGetRuntimeCapabilities Debug Aug2025 Virtio "HSAuint32*";
    vhsaKmtShareMemory Ipc Y2026 Virtio "void*, HSAuint64, HsaSharedMemoryHandle*";
    vhsaKmtRegisterSharedHandle Ipc Y2026 Virtio "const HsaSharedMemoryHandle*, void**, HSAuint64*";
    vhsaKmtRegisterSharedHandleToNodes Ipc Y2026 Virtio
        "const HsaSharedMemoryHandle*, void**, HSAuint64*, HSAuint64, HSAuint32*";
    vhsaKmtSetMemoryPolicy Memory Y2026 Virtio "HSAuint32, HSAuint32, HSAuint32, void*, HSAuint64";
    vhsaKmtSetMemoryUserData Memory Y2026 Virtio "const void*, void*";
    vhsaKmtSVMGetAttr Svm Y2026 Virtio "void*, HSAuint64, unsigned int, HSA_SVM_ATTRIBUTE*";
    vhsaKmtSVMSetAttr Svm Y2026 Virtio "void*, HSAuint64, unsigned int, HSA_SVM_ATTRIBUTE*";
    vhsaKmtReplaceAsanHeaderPage Memory Y2026 Virtio "void*";
    vhsaKmtReturnAsanHeaderPage Memory Y2026 Virtio "void*";
    vhsaKmtAisReadWriteFile Ais Y2026 Virtio
        "void*, HSAuint64, HSAint32, HSAint64, HsaAisFlags, HSAuint64*, HSAint32*";
    vhsaKmtProcessVMRead Memory Y2026 Virtio
        "HSAuint32, HsaMemoryRange*, HSAuint64, HsaMemoryRange*, HSAuint64, HSAuint64*";
    vhsaKmtProcessVMWrite Memory Y2026 Virtio
        "HSAuint32, HsaMemoryRange*, HSAuint64, HsaMemoryRange*, HSAuint64, HSAuint64*";
    vhsaKmtModelEnabled Model Y2026 Virtio "bool*";
    vhsaKmtOpenSMI Event Y2026 Virtio "HSAuint32, int*";
    vhsaKmtSPMAcquire Spm Y2026 Virtio "HSAuint32";
    vhsaKmtSPMRelease Spm Y2026 Virtio "HSAuint32";
    vhsaKmtSPMSetDestBuffer Spm Y2026 Virtio "HSAuint32, HSAuint32, HSAuint32*, HSAuint32*, void*, bool*";
    vhsaKmtVirtioMapHandleToVA Memory Y2026 Virtio "void*, void*, HSAuint64, int";
    vhsaKmtVirtioUnmapHandleFromVA Memory Y2026 Virtio "void*, HSAuint64";
    vamdgpu_query_gpu_info Drm Aug2025 Virtio "amdgpu_device_handle, void*";
    vamdgpu_device_initialize Drm Y2026 Virtio "int, uint32_t*, uint32_t*, amdgpu_device_handle*";
    vamdgpu_device_deinitialize Drm Y2026 Virtio "amdgpu_device_handle";
    vamdgpu_device_get_fd Drm Y2026 Virtio "amdgpu_device_handle";
    vdrmCommandWriteRead Drm Y2026 Virtio "int, unsigned long, void*, unsigned long";
    vamdgpu_bo_cpu_map Drm Y2026 Virtio "amdgpu_bo_handle, void**";
    vamdgpu_bo_free Drm Y2026 Virtio "amdgpu_bo_handle";
    vamdgpu_bo_export Drm Y2026 Virtio "amdgpu_bo_handle, enum amdgpu_bo_handle_type, uint32_t*";
    vamdgpu_bo_import Drm Y2026 Virtio
        "amdgpu_device_handle, enum amdgpu_bo_handle_type, uint32_t, struct amdgpu_bo_import_result*";
    vamdgpu_bo_va_op Drm Y2026 Virtio "amdgpu_bo_handle, uint64_t, uint64_t, uint64_t, uint64_t, uint32_t";
    vamdgpu_bo_query_info Drm Y2026 Virtio "amdgpu_bo_handle, struct amdgpu_bo_info*";
    vamdgpu_bo_set_metadata Drm Y2026 Virtio "amdgpu_bo_handle, struct amdgpu_bo_metadata*";
}
