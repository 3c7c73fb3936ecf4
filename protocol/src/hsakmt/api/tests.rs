use std::collections::BTreeSet;

use super::*;

/// What Debian 12's libhsakmt.so.1 (5.2.3) exports, without the prefix `hsaKmt`.
const DEBIAN_12: &str = "
    AcquireSystemProperties AllocMemory AllocQueueGWS CloseKFD CreateEvent CreateQueue DbgAddressWatch
    DbgRegister DbgUnregister DbgWavefrontControl DeregisterMemory DestroyEvent DestroyQueue FreeMemory
    GetClockCounters GetKernelDebugTrapVersionInfo GetNodeCacheProperties GetNodeIoLinkProperties
    GetNodeMemoryProperties GetNodeProperties GetQueueInfo GetTileConfig GetVersion GetXNACKMode
    MapGraphicHandle MapMemoryToGPU MapMemoryToGPUNodes OpenKFD PmcAcquireTraceAccess
    PmcGetCounterProperties PmcQueryTrace PmcRegisterTrace PmcReleaseTraceAccess PmcStartTrace
    PmcStopTrace PmcUnregisterTrace ProcessVMRead ProcessVMWrite QueryEventState QueryPointerInfo
    RegisterGraphicsHandleToNodes RegisterMemory RegisterMemoryToNodes RegisterMemoryWithFlags
    RegisterSharedHandle RegisterSharedHandleToNodes ReleaseSystemProperties ResetEvent RuntimeDisable
    RuntimeEnable SPMAcquire SPMRelease SPMSetDestBuffer SVMGetAttr SVMSetAttr SetEvent SetMemoryPolicy
    SetMemoryUserData SetQueueCUMask SetTrapHandler SetXNACKMode ShareMemory UnmapGraphicHandle
    UnmapMemoryToGPU UpdateQueue WaitOnEvent WaitOnMultipleEvents
";

/// What Debian 13's (6.2.4) exports beyond that; it does not have GetKernelDebugTrapVersionInfo.
const NEW_IN_DEBIAN_13: &str = "
    AllocMemoryAlign AvailableMemory CheckRuntimeDebugSupport DbgDisable DbgEnable DbgGetDeviceData
    DbgGetQueueData DebugTrapIoctl ExportDMABufHandle GetAMDGPUDeviceHandle GetRuntimeCapabilities
    OpenSMI PcSamplingCreate PcSamplingDestroy PcSamplingQueryCapabilities PcSamplingStart
    PcSamplingStop PcSamplingSupport ReplaceAsanHeaderPage ReturnAsanHeaderPage WaitOnEvent_Ext
    WaitOnMultipleEvents_Ext
";

fn names<'a>(functions: impl Iterator<Item = &'a Function>) -> BTreeSet<String> {
    functions.map(|function| function.name.to_owned()).collect()
}

fn exports(list: &str) -> BTreeSet<String> {
    list.split_whitespace().map(|name| format!("hsaKmt{name}")).collect()
}

fn count(table: &[Function], export: Export) -> usize {
    table.iter().filter(|function| function.export == export).count()
}

#[test]
fn the_tables_have_as_many_functions_as_the_headers_and_version_scripts() {
    assert_eq!(count(PLAIN, Export::Versioned), 108);
    assert_eq!(count(PLAIN, Export::Retired), 1);
    assert_eq!(count(PLAIN, Export::Header), 6);
    assert_eq!(count(PLAIN, Export::Unreleased), 3);
    assert_eq!(count(CONTEXT, Export::Context), 75);
    assert_eq!(count(CONTEXT, Export::Unreleased), 1);
    assert_eq!(VIRTIO.len(), 83);
    assert_eq!(VIRTIO.iter().filter(|function| function.name.starts_with("vhsaKmt")).count(), 71);
    assert!(VIRTIO.iter().all(|function| function.export == Export::Virtio));
}

#[test]
fn names_are_unique() {
    assert_eq!(names(all()).len(), all().count());
}

#[test]
fn debian_12_exports_what_5_2_3_introduced() {
    let debian_12 = exports(DEBIAN_12);
    assert_eq!(debian_12.len(), 67);
    let ours = PLAIN.iter().filter(|function| function.since == Since::V5_2_3 && function.is_versioned());
    assert_eq!(names(ours), debian_12);
}

#[test]
fn debian_13_exports_what_6_2_4_introduced_too() {
    let mut debian_13: BTreeSet<_> = exports(DEBIAN_12).union(&exports(NEW_IN_DEBIAN_13)).cloned().collect();
    assert!(debian_13.remove("hsaKmtGetKernelDebugTrapVersionInfo"));
    assert_eq!(debian_13.len(), 88);
    let ours = PLAIN.iter().filter(|function| function.since <= Since::V6_2_4);
    assert_eq!(names(ours.filter(|function| function.export == Export::Versioned)), debian_13);
}

#[test]
fn a_context_function_takes_a_context_before_the_plain_parameters() {
    let mut mirrored = 0;
    for function in CONTEXT {
        let Some(plain) = function.mirrors() else { continue };
        let without_context = ["hsaKmtOpenKFDCtx", "hsaKmtCloseKFDCtx"].contains(&function.name);
        if !without_context {
            let expected: Vec<_> = ["HsaKFDContext*"].into_iter().chain(plain.param_types()).collect();
            assert_eq!(function.param_types().collect::<Vec<_>>(), expected, "{}", function.name);
        }
        assert_eq!(function.area, plain.area, "{}", function.name);
        mirrored += 1;
    }
    assert_eq!(
        mirrored,
        CONTEXT.len() - 3,
        "all but two for secondary contexts and one without a plain form"
    );
}

#[test]
fn a_virtio_function_takes_the_plain_parameters() {
    for function in VIRTIO.iter().filter(|function| function.area != Area::Drm) {
        let Some(plain) = function.mirrors() else {
            assert!(function.name.starts_with("vhsaKmtVirtio"), "{}", function.name);
            continue;
        };
        // AMD's header has a number of nodes of 32 bits here.
        if function.name != "vhsaKmtRegisterMemoryToNodes" {
            assert_eq!(function.params, plain.params, "{}", function.name);
        }
    }
    assert_eq!(find("vamdgpu_query_gpu_info").map(Function::returns), Some("int"));
}

#[test]
fn types_are_words_and_stars() {
    for function in all() {
        let letter = |letter: char| letter.is_ascii_alphanumeric() || "_* ".contains(letter);
        for param in function.params.split(", ") {
            assert!(!param.is_empty() && param.chars().all(letter), "{}: {param:?}", function.name);
        }
    }
    let params: Vec<_> = find("hsaKmtOpenKFD").expect("in the table").param_types().collect();
    assert!(params.is_empty());
    assert_eq!(find("hsaKmtCreateQueue").expect("in the table").param_types().count(), 8);
    assert_eq!(find("hsaKmtNoSuchFunction"), None);
}
