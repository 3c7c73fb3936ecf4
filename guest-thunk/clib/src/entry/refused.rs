//! Names that are exported and not there yet. Programs that link them start; a call is answered by a status, and the log
//! names it.

use std::ffi::c_int;

use protocol::hsakmt::Status;

use crate::guard::{Uncancelled, refuse};
use crate::library;

refuse! {
    LATER, library::engine(), Status::NotSupported, "this function is not supported yet":
    hsaKmtGetNodeWallclockFrequency hsaKmtImportExternalSemaphore hsaKmtDestroyExternalSemaphore
    hsaKmtQueueSignalExternalSemaphore hsaKmtQueueWaitExternalSemaphore
    hsaKmtDbgWavefrontControl hsaKmtDbgAddressWatch hsaKmtDbgEnable hsaKmtDbgDisable
    hsaKmtDbgGetDeviceData hsaKmtDbgGetQueueData hsaKmtPmcGetCounterProperties hsaKmtPmcRegisterTrace
    hsaKmtPmcUnregisterTrace hsaKmtPmcAcquireTraceAccess hsaKmtPmcReleaseTraceAccess hsaKmtPmcStartTrace
    hsaKmtPmcQueryTrace hsaKmtPmcStopTrace
    hsaKmtDebugTrapIoctl hsaKmtGetCoreRuntimeInfo hsaKmtGetCoreDeviceInfo hsaKmtSPMAcquire hsaKmtSPMRelease
    hsaKmtSPMSetDestBuffer hsaKmtReplaceAsanHeaderPage hsaKmtReturnAsanHeaderPage
    hsaKmtPcSamplingQueryCapabilities hsaKmtPcSamplingCreate hsaKmtPcSamplingDestroy hsaKmtPcSamplingStart
    hsaKmtPcSamplingStop hsaKmtPcSamplingSupport hsaKmtAisReadWriteFile hsaKmtHandleImport
    hsaKmtHandleExport hsaKmtMemoryVaMap hsaKmtMemoryVaUnmap hsaKmtMemHandleFree
    hsaKmtMemHandleFreePreserveMetadata hsaKmtMemoryGetCpuAddr hsaKmtMemoryCpuMap hsaKmtSetSigbusDelay
    hsaKmtGetAmdGPUDeviceFd hsaKmtSetPersistingCacheSize hsaKmtCreateQueueV2
    hsaKmtRegisterGraphicsHandleToNodesExt hsaKmtReportQueue hsaKmtQueueRingDoorbell hsaKmtModelEnabled
    hsaKmtGetMemoryHandle hsaKmtGetClockCountersPrecise hsaKmtQueryDmaBufInfo
}

refuse! {
    CONTEXTS, Ok(()), Status::NotSupported, "secondary contexts are not supported yet":
    hsaKmtOpenKFDCtx hsaKmtCloseKFDCtx hsaKmtOpenSecondaryKFDCtx hsaKmtCloseSecondaryKFDCtx
    hsaKmtAcquireSystemPropertiesCtx hsaKmtReleaseSystemPropertiesCtx hsaKmtGetNodePropertiesCtx
    hsaKmtGetNodeMemoryPropertiesCtx hsaKmtGetNodeCachePropertiesCtx hsaKmtGetNodeIoLinkPropertiesCtx
    hsaKmtCreateEventCtx hsaKmtDestroyEventCtx hsaKmtSetEventCtx hsaKmtResetEventCtx
    hsaKmtQueryEventStateCtx hsaKmtWaitOnEventCtx hsaKmtWaitOnEvent_ExtCtx hsaKmtWaitOnMultipleEventsCtx
    hsaKmtWaitOnMultipleEvents_ExtCtx hsaKmtCreateQueueCtx hsaKmtCreateQueueExtCtx hsaKmtCreateQueueV2Ctx
    hsaKmtUpdateQueueCtx hsaKmtDestroyQueueCtx hsaKmtSetQueueCUMaskCtx hsaKmtGetQueueInfoCtx
    hsaKmtSetMemoryPolicyCtx hsaKmtAllocMemoryCtx hsaKmtAllocMemoryAlignCtx hsaKmtFreeMemoryCtx
    hsaKmtAvailableMemoryCtx hsaKmtRegisterMemoryCtx hsaKmtRegisterMemoryToNodesCtx
    hsaKmtRegisterMemoryWithFlagsCtx hsaKmtRegisterGraphicsHandleToNodesCtx
    hsaKmtRegisterGraphicsHandleToNodesExtCtx hsaKmtExportDMABufHandleCtx hsaKmtShareMemoryCtx
    hsaKmtRegisterSharedHandleCtx hsaKmtRegisterSharedHandleToNodesCtx hsaKmtDeregisterMemoryCtx
    hsaKmtMapMemoryToGPUCtx hsaKmtMapMemoryToGPUNodesCtx hsaKmtUnmapMemoryToGPUCtx
    hsaKmtUnmapGraphicHandleCtx hsaKmtGetAMDGPUDeviceHandleCtx hsaKmtSetTrapHandlerCtx
    hsaKmtGetTileConfigCtx hsaKmtQueryPointerInfoCtx hsaKmtSetMemoryUserDataCtx hsaKmtAllocQueueGWSCtx
    hsaKmtRuntimeEnableCtx hsaKmtRuntimeDisableCtx hsaKmtGetRuntimeCapabilitiesCtx hsaKmtDbgEnableCtx
    hsaKmtDbgDisableCtx hsaKmtDbgGetDeviceDataCtx hsaKmtDbgGetQueueDataCtx
    hsaKmtCheckRuntimeDebugSupportCtx hsaKmtDebugTrapIoctlCtx hsaKmtGetClockCountersCtx
    hsaKmtPmcGetCounterPropertiesCtx hsaKmtPmcRegisterTraceCtx hsaKmtPmcUnregisterTraceCtx
    hsaKmtPmcAcquireTraceAccessCtx hsaKmtPmcReleaseTraceAccessCtx hsaKmtSVMSetAttrCtx hsaKmtSVMGetAttrCtx
    hsaKmtSetXNACKModeCtx hsaKmtGetXNACKModeCtx hsaKmtOpenSMICtx hsaKmtReplaceAsanHeaderPageCtx
    hsaKmtReturnAsanHeaderPageCtx hsaKmtAllocMemoryHostGttCtx hsaKmtSetPersistingCacheSizeCtx
    hsaKmtQueryDmaBufInfoCtx
}

refuse! {
    GONE, Ok(()), Status::NotImplemented, "AMD's library (6.2 and later) does not implement this function":
    hsaKmtProcessVMRead hsaKmtProcessVMWrite hsaKmtMapGraphicHandle
}

refuse! {
    VIRTIO, library::over_virtio(), Status::NotSupported, "this function is not supported over virtio":
    vhsaKmtCreateQueueV2 vhsaKmtRegisterGraphicsHandleToNodesExt vhsaKmtMapGraphicHandle
    vhsaKmtReplaceAsanHeaderPage vhsaKmtReturnAsanHeaderPage vhsaKmtAisReadWriteFile vhsaKmtProcessVMRead
    vhsaKmtProcessVMWrite vhsaKmtModelEnabled vhsaKmtSPMAcquire vhsaKmtSPMRelease vhsaKmtSPMSetDestBuffer
    vhsaKmtVirtioMapHandleToVA vhsaKmtVirtioUnmapHandleFromVA
}

/// Declares libdrm's functions of the virtio transport.
macro_rules! refuse_drm {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: buffers of libdrm are not supported over virtio.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            let _uncancelled = Uncancelled::new();
            log::warn!(concat!(stringify!($name), ": buffers of libdrm are not supported over virtio"));
            -libc::ENOSYS
        }
    )*
        /// These names, and why they are refused.
        pub(crate) const VIRTIO_DRM: (&str, &[&str]) =
            ("buffers of libdrm are not supported over virtio", &[$(stringify!($name)),*]);
    };
}

refuse_drm! {
    vamdgpu_device_initialize vamdgpu_device_deinitialize vamdgpu_device_get_fd
    vdrmCommandWriteRead vamdgpu_bo_cpu_map vamdgpu_bo_free vamdgpu_bo_export vamdgpu_bo_import
    vamdgpu_bo_va_op vamdgpu_bo_query_info vamdgpu_bo_set_metadata
}

/// All of them.
pub(crate) const REFUSED: [(&str, &[&str]); 5] = [LATER, CONTEXTS, GONE, VIRTIO, VIRTIO_DRM];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e10_no_secondary_context_is_told_to_be_there_and_no_descriptor_is_left() {
        let descriptors = || std::fs::read_dir("/proc/self/fd").expect("proc").count();
        // Other tests open files at the same time; what leaks here would be many.
        let before = descriptors();
        for _ in 0..200 {
            assert_eq!(hsaKmtOpenSecondaryKFDCtx(), Status::NotSupported.code());
            assert_eq!(hsaKmtCloseSecondaryKFDCtx(), Status::NotSupported.code());
        }
        assert!(descriptors() < before + 100);
    }
}
