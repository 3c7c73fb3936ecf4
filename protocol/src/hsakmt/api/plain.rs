//! The functions of `hsakmt.h`.

use super::{Function, functions};

functions! {
    /// Every `hsaKmt*` function without a context.
    pub static PLAIN;
    hsaKmtOpenKFD Open V5_2_3 Versioned "void";
    hsaKmtCloseKFD Open V5_2_3 Versioned "void";
    hsaKmtGetVersion Version V5_2_3 Versioned "HsaVersionInfo*";
    hsaKmtAcquireSystemProperties Topology V5_2_3 Versioned "HsaSystemProperties*";
    hsaKmtReleaseSystemProperties Topology V5_2_3 Versioned "void";
    hsaKmtGetNodeProperties Topology V5_2_3 Versioned "HSAuint32, HsaNodeProperties*";
    hsaKmtGetNodeWallclockFrequency Time Y2026 Versioned "HSAuint32, uint64_t*";
    hsaKmtGetNodeMemoryProperties Topology V5_2_3 Versioned "HSAuint32, HSAuint32, HsaMemoryProperties*";
    hsaKmtGetNodeCacheProperties Topology V5_2_3 Versioned
        "HSAuint32, HSAuint32, HSAuint32, HsaCacheProperties*";
    hsaKmtGetNodeIoLinkProperties Topology V5_2_3 Versioned "HSAuint32, HSAuint32, HsaIoLinkProperties*";
    hsaKmtCreateEvent Event V5_2_3 Versioned "HsaEventDescriptor*, bool, bool, HsaEvent**";
    hsaKmtDestroyEvent Event V5_2_3 Versioned "HsaEvent*";
    hsaKmtSetEvent Event V5_2_3 Versioned "HsaEvent*";
    hsaKmtResetEvent Event V5_2_3 Versioned "HsaEvent*";
    hsaKmtQueryEventState Event V5_2_3 Versioned "HsaEvent*";
    hsaKmtWaitOnEvent Event V5_2_3 Versioned "HsaEvent*, HSAuint32";
    hsaKmtWaitOnMultipleEvents Event V5_2_3 Versioned "HsaEvent**, HSAuint32, bool, HSAuint32";
    hsaKmtCreateQueue Queue V5_2_3 Versioned
        "HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, void*, HSAuint64, HsaEvent*, \
        HsaQueueResource*";
    hsaKmtUpdateQueue Queue V5_2_3 Versioned
        "HSA_QUEUEID, HSAuint32, HSA_QUEUE_PRIORITY, void*, HSAuint64, HsaEvent*";
    hsaKmtDestroyQueue Queue V5_2_3 Versioned "HSA_QUEUEID";
    hsaKmtSetQueueCUMask Queue V5_2_3 Versioned "HSA_QUEUEID, HSAuint32, HSAuint32*";
    hsaKmtSetMemoryPolicy Memory V5_2_3 Versioned "HSAuint32, HSAuint32, HSAuint32, void*, HSAuint64";
    hsaKmtAllocMemory Memory V5_2_3 Versioned "HSAuint32, HSAuint64, HsaMemFlags, void**";
    hsaKmtAllocMemoryAlign Memory V6_2_4 Versioned "HSAuint32, HSAuint64, HSAuint64, HsaMemFlags, void**";
    hsaKmtFreeMemory Memory V5_2_3 Versioned "void*, HSAuint64";
    hsaKmtAvailableMemory Memory V6_2_4 Versioned "HSAuint32, HSAuint64*";
    hsaKmtRegisterMemory Memory V5_2_3 Versioned "void*, HSAuint64";
    hsaKmtRegisterMemoryToNodes Memory V5_2_3 Versioned "void*, HSAuint64, HSAuint64, HSAuint32*";
    hsaKmtImportExternalSemaphore Semaphore Y2026 Versioned
        "HSAuint32, void*, HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE, HSA_EXTERNAL_SEMAPHORE_HANDLE*";
    hsaKmtDestroyExternalSemaphore Semaphore Y2026 Versioned "HSA_EXTERNAL_SEMAPHORE_HANDLE";
    hsaKmtQueueSignalExternalSemaphore Semaphore Y2026 Versioned
        "HSA_QUEUEID, HSA_EXTERNAL_SEMAPHORE_HANDLE, HSAuint64";
    hsaKmtQueueWaitExternalSemaphore Semaphore Y2026 Versioned
        "HSA_QUEUEID, HSA_EXTERNAL_SEMAPHORE_HANDLE, HSAuint64";
    hsaKmtRegisterMemoryWithFlags Memory V5_2_3 Versioned "void*, HSAuint64, HsaMemFlags";
    hsaKmtRegisterGraphicsHandleToNodes DmaBuf V5_2_3 Versioned
        "HSAuint64, HsaGraphicsResourceInfo*, HSAuint64, HSAuint32*";
    hsaKmtShareMemory Ipc V5_2_3 Versioned "void*, HSAuint64, HsaSharedMemoryHandle*";
    hsaKmtRegisterSharedHandle Ipc V5_2_3 Versioned "const HsaSharedMemoryHandle*, void**, HSAuint64*";
    hsaKmtRegisterSharedHandleToNodes Ipc V5_2_3 Versioned
        "const HsaSharedMemoryHandle*, void**, HSAuint64*, HSAuint64, HSAuint32*";
    hsaKmtProcessVMRead Memory V5_2_3 Versioned
        "HSAuint32, HsaMemoryRange*, HSAuint64, HsaMemoryRange*, HSAuint64, HSAuint64*";
    hsaKmtProcessVMWrite Memory V5_2_3 Versioned
        "HSAuint32, HsaMemoryRange*, HSAuint64, HsaMemoryRange*, HSAuint64, HSAuint64*";
    hsaKmtDeregisterMemory Memory V5_2_3 Versioned "void*";
    hsaKmtMapMemoryToGPU Memory V5_2_3 Versioned "void*, HSAuint64, HSAuint64*";
    hsaKmtMapMemoryToGPUNodes Memory V5_2_3 Versioned
        "void*, HSAuint64, HSAuint64*, HsaMemFlags, HSAuint64, HSAuint32*";
    hsaKmtUnmapMemoryToGPU Memory V5_2_3 Versioned "void*";
    hsaKmtDbgRegister Debug V5_2_3 Versioned "HSAuint32";
    hsaKmtDbgUnregister Debug V5_2_3 Versioned "HSAuint32";
    hsaKmtDbgWavefrontControl Debug V5_2_3 Versioned
        "HSAuint32, HSA_DBG_WAVEOP, HSA_DBG_WAVEMODE, HSAuint32, HsaDbgWaveMessage*";
    hsaKmtDbgAddressWatch Debug V5_2_3 Versioned
        "HSAuint32, HSAuint32, HSA_DBG_WATCH_MODE*, void**, HSAuint64*, HsaEvent**";
    hsaKmtDbgEnable Debug V6_2_4 Versioned "void**, HSAuint32*";
    hsaKmtDbgDisable Debug V6_2_4 Versioned "void";
    hsaKmtDbgGetDeviceData Debug V6_2_4 Versioned "void**, HSAuint32*, HSAuint32*";
    hsaKmtDbgGetQueueData Debug V6_2_4 Versioned "void**, HSAuint32*, HSAuint32*, bool";
    hsaKmtGetClockCounters Time V5_2_3 Versioned "HSAuint32, HsaClockCounters*";
    hsaKmtPmcGetCounterProperties Perf V5_2_3 Versioned "HSAuint32, HsaCounterProperties**";
    hsaKmtPmcRegisterTrace Perf V5_2_3 Versioned "HSAuint32, HSAuint32, HsaCounter*, HsaPmcTraceRoot*";
    hsaKmtPmcUnregisterTrace Perf V5_2_3 Versioned "HSAuint32, HSATraceId";
    hsaKmtPmcAcquireTraceAccess Perf V5_2_3 Versioned "HSAuint32, HSATraceId";
    hsaKmtPmcReleaseTraceAccess Perf V5_2_3 Versioned "HSAuint32, HSATraceId";
    hsaKmtPmcStartTrace Perf V5_2_3 Versioned "HSATraceId, void*, HSAuint64";
    hsaKmtPmcQueryTrace Perf V5_2_3 Versioned "HSATraceId";
    hsaKmtPmcStopTrace Perf V5_2_3 Versioned "HSATraceId";
    hsaKmtMapGraphicHandle DmaBuf V5_2_3 Versioned
        "HSAuint32, HSAuint64, HSAuint64, HSAuint64, HSAuint64, HSAuint64*";
    hsaKmtUnmapGraphicHandle DmaBuf V5_2_3 Versioned "HSAuint32, HSAuint64, HSAuint64";
    hsaKmtSetTrapHandler Queue V5_2_3 Versioned "HSAuint32, void*, HSAuint64, void*, HSAuint64";
    hsaKmtGetTileConfig Memory V5_2_3 Versioned "HSAuint32, HsaGpuTileConfig*";
    hsaKmtQueryPointerInfo Memory V5_2_3 Versioned "const void*, HsaPointerInfo*";
    hsaKmtSetMemoryUserData Memory V5_2_3 Versioned "const void*, void*";
    hsaKmtGetQueueInfo Queue V5_2_3 Versioned "HSA_QUEUEID, HsaQueueInfo*";
    hsaKmtAllocQueueGWS Queue V5_2_3 Versioned "HSA_QUEUEID, HSAuint32, HSAuint32*";
    hsaKmtGetKernelQueueId Queue Y2026 Versioned "HSA_QUEUEID, HSAuint32*";
    hsaKmtRuntimeEnable Debug V5_2_3 Versioned "void*, bool";
    hsaKmtRuntimeDisable Debug V5_2_3 Versioned "void";
    hsaKmtCheckRuntimeDebugSupport Debug V6_2_4 Versioned "void";
    hsaKmtGetRuntimeCapabilities Debug V6_2_4 Versioned "HSAuint32*";
    hsaKmtGetKernelDebugTrapVersionInfo Debug V5_2_3 Retired "HSAuint32*, HSAuint32*";
    hsaKmtDebugTrapIoctl Debug V6_2_4 Versioned "struct kfd_ioctl_dbg_trap_args*, HSA_QUEUEID*, HSAuint64*";
    hsaKmtGetCoreRuntimeInfo Debug Y2026 Versioned "struct kfd_runtime_info*";
    hsaKmtGetCoreDeviceInfo Debug Y2026 Versioned "HSAuint32, struct kfd_dbg_device_info_entry*";
    hsaKmtSPMAcquire Spm V5_2_3 Versioned "HSAuint32";
    hsaKmtSPMRelease Spm V5_2_3 Versioned "HSAuint32";
    hsaKmtSPMSetDestBuffer Spm V5_2_3 Versioned "HSAuint32, HSAuint32, HSAuint32*, HSAuint32*, void*, bool*";
    hsaKmtSVMSetAttr Svm V5_2_3 Versioned "void*, HSAuint64, unsigned int, HSA_SVM_ATTRIBUTE*";
    hsaKmtSVMGetAttr Svm V5_2_3 Versioned "void*, HSAuint64, unsigned int, HSA_SVM_ATTRIBUTE*";
    hsaKmtSetXNACKMode Svm V5_2_3 Versioned "HSAint32";
    hsaKmtGetXNACKMode Svm V5_2_3 Versioned "HSAint32*";
    hsaKmtOpenSMI Event V6_2_4 Versioned "HSAuint32, int*";
    hsaKmtExportDMABufHandle DmaBuf V6_2_4 Versioned "void*, HSAuint64, int*, HSAuint64*";
    hsaKmtWaitOnEvent_Ext Event V6_2_4 Versioned "HsaEvent*, HSAuint32, uint64_t*";
    hsaKmtWaitOnMultipleEvents_Ext Event V6_2_4 Versioned "HsaEvent**, HSAuint32, bool, HSAuint32, uint64_t*";
    hsaKmtReplaceAsanHeaderPage Memory V6_2_4 Versioned "void*";
    hsaKmtReturnAsanHeaderPage Memory V6_2_4 Versioned "void*";
    hsaKmtGetAMDGPUDeviceHandle Handle V6_2_4 Versioned "HSAuint32, HsaAMDGPUDeviceHandle*";
    hsaKmtPcSamplingQueryCapabilities PcSampling V6_2_4 Versioned "HSAuint32, void*, HSAuint32, HSAuint32*";
    hsaKmtPcSamplingCreate PcSampling V6_2_4 Versioned "HSAuint32, HsaPcSamplingInfo*, HsaPcSamplingTraceId*";
    hsaKmtPcSamplingDestroy PcSampling V6_2_4 Versioned "HSAuint32, HsaPcSamplingTraceId";
    hsaKmtPcSamplingStart PcSampling V6_2_4 Versioned "HSAuint32, HsaPcSamplingTraceId";
    hsaKmtPcSamplingStop PcSampling V6_2_4 Versioned "HSAuint32, HsaPcSamplingTraceId";
    hsaKmtPcSamplingSupport PcSampling V6_2_4 Versioned "void";
    hsaKmtAisReadWriteFile Ais Y2026 Versioned
        "void*, HSAuint64, HSAint32, HSAint64, HsaAisFlags, HSAuint64*, HSAint32*";
    hsaKmtHandleImport DmaBuf Y2026 Versioned
        "const HsaHandleImportDesc*, HsaHandleImportResult*, HsaHandleImportFlags*";
    hsaKmtHandleExport DmaBuf Y2026 Versioned
        "const HsaHandleExportDesc*, HsaMemoryExportResult*, HsaHandleExportFlags*";
    hsaKmtMemoryVaMap Handle Y2026 Versioned
        "HsaMemoryObjectHandle, HSAuint64, HSAuint64, HSAuint64, HsaMemoryMapFlags, HSAuint32";
    hsaKmtMemoryVaUnmap Handle Y2026 Versioned
        "HsaMemoryObjectHandle, HSAuint64, HSAuint64, HSAuint64, HSAuint32";
    hsaKmtMemHandleFree Handle Y2026 Versioned "HsaMemoryObjectHandle";
    hsaKmtMemHandleFreePreserveMetadata Handle Y2026 Versioned "HsaMemoryObjectHandle";
    hsaKmtMemoryGetCpuAddr Handle Y2026 Versioned "HsaAMDGPUDeviceHandle, HsaMemoryObjectHandle, HSAuint64*";
    hsaKmtMemoryCpuMap Handle Y2026 Versioned "HsaMemoryObjectHandle, void**";
    hsaKmtSetSigbusDelay Other Y2026 Versioned "HSAuint32, HSAuint32";
    hsaKmtGetAmdGPUDeviceFd Handle Y2026 Versioned "HsaAMDGPUDeviceHandle, int*";
    hsaKmtSetPersistingCacheSize Memory Y2026 Versioned "HSAuint32, HSAuint64";
    hsaKmtCreateQueueExt Queue Aug2025 Header
        "HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32, void*, HSAuint64, \
        HsaEvent*, HsaQueueResource*";
    hsaKmtCreateQueueV2 Queue Y2026 Header
        "HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32, void*, HSAuint64, \
        HSAuint64, HsaEvent*, HsaQueueResource*";
    hsaKmtRegisterGraphicsHandleToNodesExt DmaBuf Aug2025 Header
        "HSAuint64, HsaGraphicsResourceInfo*, HSAuint64, HSAuint32*, HSA_REGISTER_MEM_FLAGS";
    hsaKmtReportQueue Queue V5_2_3 Header "HSA_QUEUEID, HsaQueueReport*";
    hsaKmtQueueRingDoorbell Queue Y2026 Header "HSA_QUEUEID, HSAuint64";
    hsaKmtModelEnabled Model Aug2025 Header "bool*";
    hsaKmtGetMemoryHandle Ipc Y2026 Unreleased "void*, void*, HSAuint64, uint64_t*";
    hsaKmtGetClockCountersPrecise Time Y2026 Unreleased "HSAuint32, HsaClockCounters*";
    hsaKmtQueryDmaBufInfo DmaBuf Y2026 Unreleased "int, HsaDmaBufInfo*";
}
