/* Opening and closing: what calls answer without a channel to KFD, and counting. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/* Every call that asks for the channel first. Only calls that read no argument before. */
static void calls_without_channel(const char *prefix) {
    HsaVersionInfo version;
    HsaSystemProperties system;
    HsaNodeProperties node;
    HsaMemoryProperties memory;
    HsaCacheProperties cache;
    HsaIoLinkProperties link;
    HsaClockCounters clocks;
    HsaQueueInfo queue_info;
    HsaQueueResource resource;
    HsaSharedMemoryHandle handle;
    HsaMemFlags flags;
    HsaEvent *event = NULL;
    HSA_SVM_ATTRIBUTE attribute = {HSA_SVM_ATTR_GRANULARITY, 0};
    HsaEventDescriptor descriptor;
    HSAint32 xnack = 0;
    uint32_t mask = 1, nodes[1] = {0};
    void *address = NULL;
    HSAuint64 size = 0;
    char page[16], id[96];

    memset(&flags, 0, sizeof(flags));
    memset(&handle, 0, sizeof(handle));
    memset(&descriptor, 0, sizeof(descriptor));
    memset(&resource, 0, sizeof(resource));
    const struct {
        const char *name;
        HSAKMT_STATUS status;
    } calls[] = {
        {"get-version", hsaKmtGetVersion(&version)},
        {"acquire-system-properties", hsaKmtAcquireSystemProperties(&system)},
        {"get-node-properties", hsaKmtGetNodeProperties(0, &node)},
        {"get-node-memory-properties", hsaKmtGetNodeMemoryProperties(0, 1, &memory)},
        {"get-node-cache-properties", hsaKmtGetNodeCacheProperties(0, 0, 1, &cache)},
        {"get-node-io-link-properties", hsaKmtGetNodeIoLinkProperties(0, 1, &link)},
        {"create-event", hsaKmtCreateEvent(&descriptor, true, false, &event)},
        {"destroy-event", hsaKmtDestroyEvent(NULL)},
        {"set-event", hsaKmtSetEvent(NULL)},
        {"reset-event", hsaKmtResetEvent(NULL)},
        {"query-event-state", hsaKmtQueryEventState(NULL)},
        {"wait-on-multiple-events", hsaKmtWaitOnMultipleEvents(NULL, 1, true, 0)},
        {"create-queue", hsaKmtCreateQueue(0, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, page, 4096, NULL,
                                           &resource)},
        {"update-queue", hsaKmtUpdateQueue(0, 100, HSA_QUEUE_PRIORITY_NORMAL, page, 4096, NULL)},
        {"destroy-queue", hsaKmtDestroyQueue(0)},
        {"set-queue-cu-mask", hsaKmtSetQueueCUMask(0, 32, &mask)},
        {"get-queue-info", hsaKmtGetQueueInfo(0, &queue_info)},
        {"alloc-queue-gws", hsaKmtAllocQueueGWS(0, 0, NULL)},
        {"set-memory-policy", hsaKmtSetMemoryPolicy(0, 0, 0, NULL, 0)},
        {"alloc-memory", hsaKmtAllocMemory(0, 4096, flags, &address)},
        {"free-memory", hsaKmtFreeMemory(page, 4096)},
        {"register-memory", hsaKmtRegisterMemory(page, 16)},
        {"register-memory-to-nodes", hsaKmtRegisterMemoryToNodes(page, 16, 1, nodes)},
        {"register-memory-with-flags", hsaKmtRegisterMemoryWithFlags(page, 16, flags)},
        {"deregister-memory", hsaKmtDeregisterMemory(page)},
        {"map-memory-to-gpu", hsaKmtMapMemoryToGPU(page, 16, NULL)},
        {"unmap-memory-to-gpu", hsaKmtUnmapMemoryToGPU(page)},
        {"share-memory", hsaKmtShareMemory(page, 4096, &handle)},
        {"register-shared-handle", hsaKmtRegisterSharedHandle(&handle, &address, &size)},
        {"dbg-register", hsaKmtDbgRegister(0)},
        {"dbg-unregister", hsaKmtDbgUnregister(0)},
        {"get-clock-counters", hsaKmtGetClockCounters(0, &clocks)},
        {"set-trap-handler", hsaKmtSetTrapHandler(0, NULL, 0, NULL, 0)},
        {"svm-set-attr", hsaKmtSVMSetAttr(page, 4096, 1, &attribute)},
        {"svm-get-attr", hsaKmtSVMGetAttr(page, 4096, 1, &attribute)},
        {"set-xnack-mode", hsaKmtSetXNACKMode(0)},
        {"get-xnack-mode", hsaKmtGetXNACKMode(&xnack)},
        {"close", hsaKmtCloseKFD()},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        snprintf(id, sizeof(id), "%s.%s", prefix, calls[i].name);
        check_status(id, calls[i].status);
    }
}

static void calls_that_answer_before_they_ask(void) {
    HsaPmcTraceRoot root;
    HsaCounterProperties *counters;
    HsaGpuTileConfig tile;
    HsaCounter counter;
    HsaMemMapFlags map_flags;
    HSAuint64 address = 0;

    memset(&tile, 0, sizeof(tile));
    memset(&counter, 0, sizeof(counter));
    memset(&map_flags, 0, sizeof(map_flags));
    check_status("before-open.get-node-properties.null", hsaKmtGetNodeProperties(0, NULL));
    check_status("before-open.wait-on-event.null", hsaKmtWaitOnEvent(NULL, 0));
    check_status("before-open.get-tile-config", hsaKmtGetTileConfig(0, &tile));
    check_status("before-open.map-memory-to-gpu-nodes.null",
                 hsaKmtMapMemoryToGPUNodes(NULL, 4096, NULL, map_flags, 0, NULL));
    check_status("before-open.query-pointer-info.null", hsaKmtQueryPointerInfo(&tile, NULL));
    check_status("before-open.map-graphic-handle", hsaKmtMapGraphicHandle(0, 0, 0, 0, 4096, &address));
    check_status("before-open.spm-acquire", hsaKmtSPMAcquire(0));
    check_status("before-open.pmc-get-counter-properties", hsaKmtPmcGetCounterProperties(0, &counters));
    check_status("before-open.pmc-register-trace", hsaKmtPmcRegisterTrace(0, 1, &counter, &root));
    check_status("before-open.pmc-stop-trace.0", hsaKmtPmcStopTrace(0));
    check_status("before-open.process-vm-read.null", hsaKmtProcessVMRead(1, NULL, 0, NULL, 0, NULL));
    check_status("before-open.release-system-properties", hsaKmtReleaseSystemProperties());
}

void open_checks_before(void) {
    HsaVersionInfo version = {0, 0};
    calls_without_channel("before-open");
    calls_that_answer_before_they_ask();

    check_status("open.first", hsaKmtOpenKFD());
    check_status("open.second", hsaKmtOpenKFD());
    check_status("open.third", hsaKmtOpenKFD());
    check_status("close.third", hsaKmtCloseKFD());
    check_status("close.second", hsaKmtCloseKFD());
    check_status("version", hsaKmtGetVersion(&version));
    check_u64("version.major", version.KernelInterfaceMajorVersion);
    check_u64("version.minor", version.KernelInterfaceMinorVersion);
}

/* The kernel keeps a process's events until the process ends, not until its descriptor is closed. */
static void reopened(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *before, *after;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;

    check_status("reopen.event-before", hsaKmtCreateEvent(&descriptor, true, false, &before));
    check_status("close.last", hsaKmtCloseKFD());
    calls_without_channel("after-close");
    check_status("reopen", hsaKmtOpenKFD());
    check_status("reopen.set-event-of-before", hsaKmtSetEvent(before));
    check_status("reopen.wait-event-of-before", hsaKmtWaitOnEvent(before, 0));
    check_status("reopen.event-after", hsaKmtCreateEvent(&descriptor, true, false, &after));
    check_true("reopen.event-after.other-id", after->EventId != before->EventId);
    check_status("reopen.wait-event-after", hsaKmtWaitOnEvent(after, 0));
    hsaKmtDestroyEvent(before);
    hsaKmtDestroyEvent(after);
    check_status("close.reopened", hsaKmtCloseKFD());
}

void open_checks_after(void) {
    reopened();
    check_status("close.too-often", hsaKmtCloseKFD());
}
