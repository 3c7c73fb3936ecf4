//! The functions of `hsakmtctx.h`: the same calls on a context that the caller names.

use super::{Function, functions};

functions! {
    /// Every `hsaKmt*Ctx` function.
    pub static CONTEXT;
    hsaKmtOpenKFDCtx Open Y2026 Context "HsaKFDContext**";
    hsaKmtCloseKFDCtx Open Y2026 Context "void";
    hsaKmtOpenSecondaryKFDCtx Open Y2026 Context "HsaKFDContext**";
    hsaKmtCloseSecondaryKFDCtx Open Y2026 Context "HsaKFDContext*";
    hsaKmtAcquireSystemPropertiesCtx Topology Y2026 Context "HsaKFDContext*, HsaSystemProperties*";
    hsaKmtReleaseSystemPropertiesCtx Topology Y2026 Context "HsaKFDContext*";
    hsaKmtGetNodePropertiesCtx Topology Y2026 Context "HsaKFDContext*, HSAuint32, HsaNodeProperties*";
    hsaKmtGetNodeMemoryPropertiesCtx Topology Y2026 Context
        "HsaKFDContext*, HSAuint32, HSAuint32, HsaMemoryProperties*";
    hsaKmtGetNodeCachePropertiesCtx Topology Y2026 Context
        "HsaKFDContext*, HSAuint32, HSAuint32, HSAuint32, HsaCacheProperties*";
    hsaKmtGetNodeIoLinkPropertiesCtx Topology Y2026 Context
        "HsaKFDContext*, HSAuint32, HSAuint32, HsaIoLinkProperties*";
    hsaKmtCreateEventCtx Event Y2026 Context "HsaKFDContext*, HsaEventDescriptor*, bool, bool, HsaEvent**";
    hsaKmtDestroyEventCtx Event Y2026 Context "HsaKFDContext*, HsaEvent*";
    hsaKmtSetEventCtx Event Y2026 Context "HsaKFDContext*, HsaEvent*";
    hsaKmtResetEventCtx Event Y2026 Context "HsaKFDContext*, HsaEvent*";
    hsaKmtQueryEventStateCtx Event Y2026 Context "HsaKFDContext*, HsaEvent*";
    hsaKmtWaitOnEventCtx Event Y2026 Context "HsaKFDContext*, HsaEvent*, HSAuint32";
    hsaKmtWaitOnEvent_ExtCtx Event Y2026 Context "HsaKFDContext*, HsaEvent*, HSAuint32, uint64_t*";
    hsaKmtWaitOnMultipleEventsCtx Event Y2026 Context
        "HsaKFDContext*, HsaEvent**, HSAuint32, bool, HSAuint32";
    hsaKmtWaitOnMultipleEvents_ExtCtx Event Y2026 Context
        "HsaKFDContext*, HsaEvent**, HSAuint32, bool, HSAuint32, uint64_t*";
    hsaKmtCreateQueueCtx Queue Y2026 Context
        "HsaKFDContext*, HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, void*, HSAuint64, \
        HsaEvent*, HsaQueueResource*";
    hsaKmtCreateQueueExtCtx Queue Y2026 Context
        "HsaKFDContext*, HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32, void*, \
        HSAuint64, HsaEvent*, HsaQueueResource*";
    hsaKmtCreateQueueV2Ctx Queue Y2026 Context
        "HsaKFDContext*, HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32, void*, \
        HSAuint64, HSAuint64, HsaEvent*, HsaQueueResource*";
    hsaKmtUpdateQueueCtx Queue Y2026 Context
        "HsaKFDContext*, HSA_QUEUEID, HSAuint32, HSA_QUEUE_PRIORITY, void*, HSAuint64, HsaEvent*";
    hsaKmtDestroyQueueCtx Queue Y2026 Context "HsaKFDContext*, HSA_QUEUEID";
    hsaKmtSetQueueCUMaskCtx Queue Y2026 Context "HsaKFDContext*, HSA_QUEUEID, HSAuint32, HSAuint32*";
    hsaKmtGetQueueInfoCtx Queue Y2026 Context "HsaKFDContext*, HSA_QUEUEID, HsaQueueInfo*";
    hsaKmtSetMemoryPolicyCtx Memory Y2026 Context
        "HsaKFDContext*, HSAuint32, HSAuint32, HSAuint32, void*, HSAuint64";
    hsaKmtAllocMemoryCtx Memory Y2026 Context "HsaKFDContext*, HSAuint32, HSAuint64, HsaMemFlags, void**";
    hsaKmtAllocMemoryAlignCtx Memory Y2026 Context
        "HsaKFDContext*, HSAuint32, HSAuint64, HSAuint64, HsaMemFlags, void**";
    hsaKmtFreeMemoryCtx Memory Y2026 Context "HsaKFDContext*, void*, HSAuint64";
    hsaKmtAvailableMemoryCtx Memory Y2026 Context "HsaKFDContext*, HSAuint32, HSAuint64*";
    hsaKmtRegisterMemoryCtx Memory Y2026 Context "HsaKFDContext*, void*, HSAuint64";
    hsaKmtRegisterMemoryToNodesCtx Memory Y2026 Context
        "HsaKFDContext*, void*, HSAuint64, HSAuint64, HSAuint32*";
    hsaKmtRegisterMemoryWithFlagsCtx Memory Y2026 Context "HsaKFDContext*, void*, HSAuint64, HsaMemFlags";
    hsaKmtRegisterGraphicsHandleToNodesCtx DmaBuf Y2026 Context
        "HsaKFDContext*, HSAuint64, HsaGraphicsResourceInfo*, HSAuint64, HSAuint32*";
    hsaKmtRegisterGraphicsHandleToNodesExtCtx DmaBuf Y2026 Context
        "HsaKFDContext*, HSAuint64, HsaGraphicsResourceInfo*, HSAuint64, HSAuint32*, \
        HSA_REGISTER_MEM_FLAGS";
    hsaKmtExportDMABufHandleCtx DmaBuf Y2026 Context "HsaKFDContext*, void*, HSAuint64, int*, HSAuint64*";
    hsaKmtShareMemoryCtx Ipc Y2026 Context "HsaKFDContext*, void*, HSAuint64, HsaSharedMemoryHandle*";
    hsaKmtRegisterSharedHandleCtx Ipc Y2026 Context
        "HsaKFDContext*, const HsaSharedMemoryHandle*, void**, HSAuint64*";
    hsaKmtRegisterSharedHandleToNodesCtx Ipc Y2026 Context
        "HsaKFDContext*, const HsaSharedMemoryHandle*, void**, HSAuint64*, HSAuint64, HSAuint32*";
    hsaKmtDeregisterMemoryCtx Memory Y2026 Context "HsaKFDContext*, void*";
    hsaKmtMapMemoryToGPUCtx Memory Y2026 Context "HsaKFDContext*, void*, HSAuint64, HSAuint64*";
    hsaKmtMapMemoryToGPUNodesCtx Memory Y2026 Context
        "HsaKFDContext*, void*, HSAuint64, HSAuint64*, HsaMemFlags, HSAuint64, HSAuint32*";
    hsaKmtUnmapMemoryToGPUCtx Memory Y2026 Context "HsaKFDContext*, void*";
    hsaKmtUnmapGraphicHandleCtx DmaBuf Y2026 Context "HsaKFDContext*, HSAuint32, HSAuint64, HSAuint64";
    hsaKmtGetAMDGPUDeviceHandleCtx Handle Y2026 Context "HsaKFDContext*, HSAuint32, HsaAMDGPUDeviceHandle*";
    hsaKmtSetTrapHandlerCtx Queue Y2026 Context
        "HsaKFDContext*, HSAuint32, void*, HSAuint64, void*, HSAuint64";
    hsaKmtGetTileConfigCtx Memory Y2026 Context "HsaKFDContext*, HSAuint32, HsaGpuTileConfig*";
    hsaKmtQueryPointerInfoCtx Memory Y2026 Context "HsaKFDContext*, const void*, HsaPointerInfo*";
    hsaKmtSetMemoryUserDataCtx Memory Y2026 Context "HsaKFDContext*, const void*, void*";
    hsaKmtAllocQueueGWSCtx Queue Y2026 Context "HsaKFDContext*, HSA_QUEUEID, HSAuint32, HSAuint32*";
    hsaKmtRuntimeEnableCtx Debug Y2026 Context "HsaKFDContext*, void*, bool";
    hsaKmtRuntimeDisableCtx Debug Y2026 Context "HsaKFDContext*";
    hsaKmtGetRuntimeCapabilitiesCtx Debug Y2026 Context "HsaKFDContext*, HSAuint32*";
    hsaKmtDbgEnableCtx Debug Y2026 Context "HsaKFDContext*, void**, HSAuint32*";
    hsaKmtDbgDisableCtx Debug Y2026 Context "HsaKFDContext*";
    hsaKmtDbgGetDeviceDataCtx Debug Y2026 Context "HsaKFDContext*, void**, HSAuint32*, HSAuint32*";
    hsaKmtDbgGetQueueDataCtx Debug Y2026 Context "HsaKFDContext*, void**, HSAuint32*, HSAuint32*, bool";
    hsaKmtCheckRuntimeDebugSupportCtx Debug Y2026 Context "HsaKFDContext*";
    hsaKmtDebugTrapIoctlCtx Debug Y2026 Context
        "HsaKFDContext*, struct kfd_ioctl_dbg_trap_args*, HSA_QUEUEID*, HSAuint64*";
    hsaKmtGetClockCountersCtx Time Y2026 Context "HsaKFDContext*, HSAuint32, HsaClockCounters*";
    hsaKmtPmcGetCounterPropertiesCtx Perf Y2026 Context "HsaKFDContext*, HSAuint32, HsaCounterProperties**";
    hsaKmtPmcRegisterTraceCtx Perf Y2026 Context
        "HsaKFDContext*, HSAuint32, HSAuint32, HsaCounter*, HsaPmcTraceRoot*";
    hsaKmtPmcUnregisterTraceCtx Perf Y2026 Context "HsaKFDContext*, HSAuint32, HSATraceId";
    hsaKmtPmcAcquireTraceAccessCtx Perf Y2026 Context "HsaKFDContext*, HSAuint32, HSATraceId";
    hsaKmtPmcReleaseTraceAccessCtx Perf Y2026 Context "HsaKFDContext*, HSAuint32, HSATraceId";
    hsaKmtSVMSetAttrCtx Svm Y2026 Context
        "HsaKFDContext*, void*, HSAuint64, unsigned int, HSA_SVM_ATTRIBUTE*";
    hsaKmtSVMGetAttrCtx Svm Y2026 Context
        "HsaKFDContext*, void*, HSAuint64, unsigned int, HSA_SVM_ATTRIBUTE*";
    hsaKmtSetXNACKModeCtx Svm Y2026 Context "HsaKFDContext*, HSAint32";
    hsaKmtGetXNACKModeCtx Svm Y2026 Context "HsaKFDContext*, HSAint32*";
    hsaKmtOpenSMICtx Event Y2026 Context "HsaKFDContext*, HSAuint32, int*";
    hsaKmtReplaceAsanHeaderPageCtx Memory Y2026 Context "HsaKFDContext*, void*";
    hsaKmtReturnAsanHeaderPageCtx Memory Y2026 Context "HsaKFDContext*, void*";
    hsaKmtAllocMemoryHostGttCtx Memory Y2026 Context
        "HsaKFDContext*, HSAuint32, HSAuint32, HSAuint64, HsaMemFlags, void**";
    hsaKmtSetPersistingCacheSizeCtx Memory Y2026 Context "HsaKFDContext*, HSAuint32, HSAuint64";
    hsaKmtQueryDmaBufInfoCtx DmaBuf Y2026 Unreleased "HsaKFDContext*, int, HsaDmaBufInfo*";
}
