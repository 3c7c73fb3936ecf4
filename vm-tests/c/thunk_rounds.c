/* Uses libhsakmt again and again, and says whether it gives back all that it takes.
 *
 *   thunk_rounds OPENS ALLOCATIONS [watched]
 *
 * OPENS times it opens the library, uses a bit of everything and closes it; THREADS threads allocate and free ALLOCATIONS
 * times together. It does a tenth of both before, for what is kept once: caches, and the descriptors of /dev/kfd and
 * the render node. It prints `before` and `after`, each with descriptors, mappings and resident KiB, and exits with 1 if
 * there is more than before; unless something watches it, as valgrind, which needs more and more itself. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hsakmt.h>

#include "thunk_status.h"
#include "thunk_use.h"

#define PAGE 4096u
#define THREADS 8u
#define TIME_LIMIT_S 240
/* The C library caches stacks of threads that ended, two mappings each. One mapping kept in every hundredth round would
 * be a hundred more, a page kept in every tenth 4 MB. */
#define MAPPINGS_MORE (2 * THREADS)
#define KIB_MORE 2048

static HSAuint32 gpu;

static void print(const char *when, struct held held) {
    printf("%s: %lu descriptors, %lu mappings, %lu KiB\n", when, held.descriptors, held.mappings, held.kib);
}

static void *allocate(HSAuint32 node, HsaMemFlags flags) {
    void *memory = NULL;
    need(hsaKmtAllocMemory(node, PAGE, flags, &memory), "hsaKmtAllocMemory");
    need(hsaKmtMapMemoryToGPU(memory, PAGE, NULL), "hsaKmtMapMemoryToGPU");
    return memory;
}

static void release(void *memory) {
    need(hsaKmtUnmapMemoryToGPU(memory), "hsaKmtUnmapMemoryToGPU");
    need(hsaKmtFreeMemory(memory, PAGE), "hsaKmtFreeMemory");
}

static void find_gpu(HSAuint32 nodes) {
    for (HSAuint32 node = 0; node < nodes; node++) {
        HsaNodeProperties properties;
        need(hsaKmtGetNodeProperties(node, &properties), "hsaKmtGetNodeProperties");
        if (properties.NumFComputeCores > 0)
            gpu = node;
    }
}

static void event(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *made = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    need(hsaKmtCreateEvent(&descriptor, true, true, &made), "hsaKmtCreateEvent");
    need(hsaKmtWaitOnEvent(made, 60000), "hsaKmtWaitOnEvent");
    need(hsaKmtDestroyEvent(made), "hsaKmtDestroyEvent");
}

static void queue(void) {
    HsaQueueResource resource;
    void *ring = allocate(0, flags_of(1, 1));
    memset(&resource, 0, sizeof(resource));
    need(hsaKmtCreateQueue(gpu, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE, NULL, &resource),
         "hsaKmtCreateQueue");
    need(hsaKmtDestroyQueue(resource.QueueId), "hsaKmtDestroyQueue");
    release(ring);
}

static void open_round(void) {
    HsaSystemProperties system;
    need(hsaKmtOpenKFD(), "hsaKmtOpenKFD");
    need(hsaKmtAcquireSystemProperties(&system), "hsaKmtAcquireSystemProperties");
    find_gpu(system.NumNodes);
    void *host = allocate(0, flags_of(1, 1)), *vram = allocate(gpu, flags_of(1, 0));
    memset(host, 1, PAGE);
    event();
    queue();
    release(host);
    release(vram);
    need(hsaKmtReleaseSystemProperties(), "hsaKmtReleaseSystemProperties");
    need(hsaKmtCloseKFD(), "hsaKmtCloseKFD");
}

static void *allocation_rounds(void *count) {
    for (unsigned long i = 0; i < *(unsigned long *)count; i++) {
        void *memory = i % 2 ? allocate(0, flags_of(1, 1)) : allocate(gpu, flags_of(1, 0));
        release(memory);
    }
    return NULL;
}

static void rounds(unsigned long opens, unsigned long allocations) {
    pthread_t threads[THREADS];
    HsaSystemProperties system;
    unsigned long each = (allocations + THREADS - 1) / THREADS;
    for (unsigned long i = 0; i < opens; i++)
        open_round();
    need(hsaKmtOpenKFD(), "hsaKmtOpenKFD");
    need(hsaKmtAcquireSystemProperties(&system), "hsaKmtAcquireSystemProperties");
    find_gpu(system.NumNodes);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, allocation_rounds, &each))
            exit(1);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    need(hsaKmtReleaseSystemProperties(), "hsaKmtReleaseSystemProperties");
    need(hsaKmtCloseKFD(), "hsaKmtCloseKFD");
}

int main(int argc, char **argv) {
    int watched = argc == 4 && !strcmp(argv[3], "watched");
    if (argc != 3 && !watched)
        return 2;
    alarm(TIME_LIMIT_S);
    /* Otherwise each new thread may get an arena, which is kept. */
    mallopt(M_ARENA_MAX, 1);
    unsigned long opens = strtoul(argv[1], NULL, 0), allocations = strtoul(argv[2], NULL, 0);
    rounds(opens / 10 + 1, allocations / 10 + 1);
    struct held before = measure();
    rounds(opens, allocations);
    struct held after = measure();
    print("before", before);
    print("after", after);
    return !watched && (after.descriptors > before.descriptors || after.mappings > before.mappings + MAPPINGS_MORE ||
           after.kib > before.kib + KIB_MORE);
}
