/* Uses libhsakmt three times. The first time one call to the device may fail (softgpu run --fail): the function that meets
 * it has to say so, or to get on without, and has to work when it is called again. After that nothing may be left over.
 *
 *   thunk_faults [once]   prints `met: FUNCTION STATUS` (or `met: nothing`), then `held: DESCRIPTORS`, and exits with 0 if all
 *                         went well. With `once` the first round is all.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hsakmt.h>

#include "thunk_status.h"
#include "thunk_use.h"

#define PAGE 4096u
#define TIME_LIMIT_S 60

static int may_fail;
static HSAuint32 gpu;

/* A call that has to work; in the first round once at the second try. */
#define TRY(call)                                                                                   \
    do {                                                                                            \
        HSAKMT_STATUS status_ = (call);                                                             \
        if (status_ != HSAKMT_STATUS_SUCCESS && may_fail) {                                         \
            may_fail = 0;                                                                           \
            printf("met: %s %s\n", #call, thunk_status_name(status_));                              \
            status_ = (call);                                                                       \
        }                                                                                           \
        need(status_, #call);                                                                       \
    } while (0)

static void topology(void) {
    HsaSystemProperties system;
    HsaClockCounters clocks;
    TRY(hsaKmtAcquireSystemProperties(&system));
    for (HSAuint32 node = 0; node < system.NumNodes; node++) {
        HsaNodeProperties properties;
        TRY(hsaKmtGetNodeProperties(node, &properties));
        if (properties.NumFComputeCores > 0)
            gpu = node;
    }
    TRY(hsaKmtGetClockCounters(gpu, &clocks));
}

static void *allocate(HSAuint32 node, HsaMemFlags flags) {
    void *memory = NULL;
    TRY(hsaKmtAllocMemory(node, PAGE, flags, &memory));
    TRY(hsaKmtMapMemoryToGPU(memory, PAGE, NULL));
    return memory;
}

static void release(void *memory) {
    TRY(hsaKmtUnmapMemoryToGPU(memory));
    TRY(hsaKmtFreeMemory(memory, PAGE));
}

static void memory(void) {
    HsaPointerInfo info;
    void *all[] = {allocate(0, flags_of(0, 1)), allocate(0, flags_of(1, 1)), allocate(gpu, flags_of(1, 0)),
                   allocate(gpu, flags_of(1, 1))};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        TRY(hsaKmtQueryPointerInfo(all[i], &info));
        release(all[i]);
    }
    /* A mapping of its own: the launcher's way to share memory would leave the heap's in pieces. */
    void *own = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        exit(1);
    TRY(hsaKmtRegisterMemory(own, 4 * PAGE));
    TRY(hsaKmtMapMemoryToGPU(own, 4 * PAGE, NULL));
    TRY(hsaKmtUnmapMemoryToGPU(own));
    TRY(hsaKmtDeregisterMemory(own));
    munmap(own, 4 * PAGE);
}

static void events(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *made = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    TRY(hsaKmtCreateEvent(&descriptor, true, false, &made));
    TRY(hsaKmtSetEvent(made));
    TRY(hsaKmtWaitOnEvent(made, 1000));
    TRY(hsaKmtResetEvent(made));
    TRY(hsaKmtDestroyEvent(made));
}

static void queues(void) {
    HSA_QUEUE_TYPE kinds[] = {HSA_QUEUE_SDMA, HSA_QUEUE_COMPUTE};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        HsaQueueResource resource;
        memset(&resource, 0, sizeof(resource));
        void *ring = allocate(0, flags_of(1, 1));
        TRY(hsaKmtCreateQueue(gpu, kinds[i], 100, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE, NULL, &resource));
        TRY(hsaKmtUpdateQueue(resource.QueueId, 50, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE, NULL));
        TRY(hsaKmtDestroyQueue(resource.QueueId));
        release(ring);
    }
}

static void round_of_all(void) {
    TRY(hsaKmtOpenKFD());
    topology();
    memory();
    events();
    queues();
    TRY(hsaKmtReleaseSystemProperties());
    TRY(hsaKmtCloseKFD());
}

int main(int argc, char **argv) {
    alarm(TIME_LIMIT_S);
    mallopt(M_ARENA_MAX, 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    may_fail = 1;
    round_of_all();
    if (may_fail)
        printf("met: nothing\n");
    if (argc == 2 && !strcmp(argv[1], "once"))
        return 0;
    may_fail = 0;
    round_of_all();
    struct held before = measure();
    round_of_all();
    struct held after = measure();
    printf("held: %lu\n", after.descriptors);
    if (after.descriptors == before.descriptors && after.mappings <= before.mappings)
        return 0;
    fprintf(stderr, "%lu descriptors and %lu mappings, before %lu and %lu\n", after.descriptors, after.mappings,
            before.descriptors, before.mappings);
    return 1;
}
