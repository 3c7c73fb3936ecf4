/* Times calls of libhsakmt, of whichever the loader finds; the first line says which: `library path`.
 *
 *   thunk_bench KIND LIVE ROUNDS SCALE CASE...
 *
 * KIND (gtt, vram, paged) and LIVE: what is allocated and mapped before, and stays, 4 KiB each. For each CASE it prints
 * ROUNDS lines `case elapsed cpu steps`: nanoseconds of a step in that round, on the clock and as this thread ran, itself or
 * in the kernel. A round's steps are the case's own number of them times SCALE percent. `measured` runs a round and nothing else, so that callgrind can count in it alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hsakmt.h>

#include "thunk_status.h"
#include "thunk_use.h"

#define PAGE 4096u
#define HUGE (2u << 20)
/* Far above what a slow machine needs. */
#define TIME_LIMIT_S 900
#define WAIT_MS 60000
/* Rings for AQL queues, and where amd_queue_t (amd_hsa_queue.h) has its indices. */
#define QUEUE_WRITE_DISPATCH_ID 56
#define QUEUE_READ_DISPATCH_ID 128

static HSAuint32 gpu;
static void **live;
static unsigned live_count;

/* Memory. */

static HsaMemFlags gtt(void) { return flags_of(true, true); }
static HsaMemFlags vram(void) { return flags_of(true, false); }
static HsaMemFlags paged(void) { return flags_of(false, true); }

/* System memory is the first node's, a CPU's. */
static void *allocate(HsaMemFlags flags, uint64_t size) {
    void *memory = NULL;
    need(hsaKmtAllocMemory(flags.ui32.HostAccess ? 0 : gpu, size, flags, &memory), "hsaKmtAllocMemory");
    need(hsaKmtMapMemoryToGPU(memory, size, NULL), "hsaKmtMapMemoryToGPU");
    return memory;
}

static void release(void *memory, uint64_t size) {
    need(hsaKmtUnmapMemoryToGPU(memory), "hsaKmtUnmapMemoryToGPU");
    need(hsaKmtFreeMemory(memory, size), "hsaKmtFreeMemory");
}

static void gtt_4k(void) { release(allocate(gtt(), PAGE), PAGE); }
static void gtt_2m(void) { release(allocate(gtt(), HUGE), HUGE); }
static void vram_4k(void) { release(allocate(vram(), PAGE), PAGE); }
static void vram_2m(void) { release(allocate(vram(), HUGE), HUGE); }
static void paged_4k(void) { release(allocate(paged(), PAGE), PAGE); }
static void paged_2m(void) { release(allocate(paged(), HUGE), HUGE); }

/* In no order, so that what the last query touched does not help. */
static void pointer_info(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    const char *address = live[(uint64_t)state * live_count >> 32];
    HsaPointerInfo info;
    need(hsaKmtQueryPointerInfo(address + 64, &info), "hsaKmtQueryPointerInfo");
}

/* Events. */

static HsaEvent *first, *second;

static HsaEvent *new_event(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *event = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    need(hsaKmtCreateEvent(&descriptor, false, false, &event), "hsaKmtCreateEvent");
    return event;
}

static void new_events(void) {
    first = new_event();
    second = new_event();
}

/* Of the thread itself: an auto-reset event that is set is waited for. */
static void event(void) {
    need(hsaKmtSetEvent(first), "hsaKmtSetEvent");
    need(hsaKmtWaitOnEvent(first, WAIT_MS), "hsaKmtWaitOnEvent");
}

/* The library is closed while the answering thread waits. */
static atomic_bool ending;

__attribute__((noreturn)) static void *answer(void *unused) {
    (void)unused;
    for (;;) {
        const HSAKMT_STATUS status = hsaKmtWaitOnEvent(first, WAIT_MS);
        while (atomic_load(&ending))
            pause();
        need(status, "hsaKmtWaitOnEvent");
        need(hsaKmtSetEvent(second), "hsaKmtSetEvent");
    }
}

static void new_thread(void) {
    pthread_t thread;
    new_events();
    if (pthread_create(&thread, NULL, answer, NULL)) {
        fprintf(stderr, "no thread\n");
        exit(1);
    }
}

/* Another thread wakes up and wakes this one. */
static void event_wake(void) {
    need(hsaKmtSetEvent(first), "hsaKmtSetEvent");
    need(hsaKmtWaitOnEvent(second, WAIT_MS), "hsaKmtWaitOnEvent");
}

/* Queues. */

static char *ring, *pointers;

static void new_ring(void) {
    ring = allocate(gtt(), PAGE);
    pointers = allocate(gtt(), PAGE);
}

static void queue_of(HSA_QUEUE_TYPE type) {
    HsaQueueResource resource;
    memset(&resource, 0, sizeof(resource));
    resource.QueueRptrValue = (uintptr_t)(pointers + QUEUE_READ_DISPATCH_ID);
    resource.QueueWptrValue = (uintptr_t)(pointers + QUEUE_WRITE_DISPATCH_ID);
    need(hsaKmtCreateQueue(gpu, type, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE, NULL, &resource),
         "hsaKmtCreateQueue");
    need(hsaKmtDestroyQueue(resource.QueueId), "hsaKmtDestroyQueue");
}

static void queue_aql(void) { queue_of(HSA_QUEUE_COMPUTE_AQL); }
static void queue_sdma(void) { queue_of(HSA_QUEUE_SDMA); }

/* From opening to the properties of all nodes: `gpu` is what is looked for. */
static void open_library(void) {
    HsaSystemProperties system;
    need(hsaKmtOpenKFD(), "hsaKmtOpenKFD");
    need(hsaKmtAcquireSystemProperties(&system), "hsaKmtAcquireSystemProperties");
    for (gpu = 0; gpu < system.NumNodes; gpu++) {
        HsaNodeProperties node;
        need(hsaKmtGetNodeProperties(gpu, &node), "hsaKmtGetNodeProperties");
        if (node.NumFComputeCores)
            return;
    }
    fprintf(stderr, "no node is a GPU\n");
    exit(1);
}

/* The same without opening. */
static void topology(void) {
    HsaSystemProperties system;
    HsaNodeProperties node;
    need(hsaKmtReleaseSystemProperties(), "hsaKmtReleaseSystemProperties");
    need(hsaKmtAcquireSystemProperties(&system), "hsaKmtAcquireSystemProperties");
    need(hsaKmtGetNodeProperties(gpu, &node), "hsaKmtGetNodeProperties");
}

static const struct bench {
    const char *name;
    void (*prepare)(void);
    void (*step)(void);
    unsigned steps;
} cases[] = {
    {"gtt-4k", NULL, gtt_4k, 200},
    {"gtt-2m", NULL, gtt_2m, 200},
    {"vram-4k", NULL, vram_4k, 200},
    {"vram-2m", NULL, vram_2m, 200},
    {"paged-4k", NULL, paged_4k, 10},
    {"paged-2m", NULL, paged_2m, 10},
    {"pointer-info", NULL, pointer_info, 20000},
    {"event", new_events, event, 500},
    {"event-wake", new_thread, event_wake, 500},
    {"queue-aql", new_ring, queue_aql, 10},
    {"queue-sdma", new_ring, queue_sdma, 20},
    {"topology", NULL, topology, 5},
};

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* One round. Known to callgrind by its name. */
__attribute__((noinline, noclone)) void measured(void (*step)(void), unsigned steps);
void measured(void (*step)(void), unsigned steps) {
    for (unsigned i = 0; i < steps; i++)
        step();
}

static void time_rounds(const char *name, void (*step)(void), unsigned steps, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        const uint64_t start = now(CLOCK_MONOTONIC), cpu_start = now(CLOCK_THREAD_CPUTIME_ID);
        measured(step, steps);
        const uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu_start, elapsed = now(CLOCK_MONOTONIC) - start;
        printf("%s %.1f %.1f %u\n", name, (double)elapsed / steps, (double)cpu / steps, steps);
    }
}

static void run(const char *name, unsigned rounds, unsigned scale) {
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, name))
            continue;
        const unsigned steps = cases[i].steps * scale / 100;
        if (cases[i].prepare)
            cases[i].prepare();
        /* What is done once is not timed. */
        cases[i].step();
        cases[i].step();
        time_rounds(name, cases[i].step, steps ? steps : 1, rounds);
        return;
    }
    fprintf(stderr, "there is no case %s\n", name);
    exit(2);
}

static void make_live(const char *kind, unsigned count) {
    const HsaMemFlags flags = !strcmp(kind, "vram") ? vram() : !strcmp(kind, "paged") ? paged() : gtt();
    /* One at least, for queries. */
    live_count = count ? count : 1;
    live = calloc(live_count, sizeof(*live));
    if (!live)
        exit(1);
    for (unsigned i = 0; i < live_count; i++)
        live[i] = allocate(flags, PAGE);
}

static void name_library(void) {
    Dl_info found;
    if (!dladdr((void *)hsaKmtOpenKFD, &found)) {
        fprintf(stderr, "nobody knows which library this is\n");
        exit(1);
    }
    printf("library %s\n", found.dli_fname);
}

/* Debian's library leaves a file in /dev/shm otherwise. It answers that it is not open where it is not. */
static void close_library(void) {
    atomic_store(&ending, true);
    hsaKmtCloseKFD();
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: %s gtt|vram|paged LIVE ROUNDS SCALE CASE...\n", argv[0]);
        return 2;
    }
    const unsigned rounds = (unsigned)atoi(argv[3]), scale = (unsigned)atoi(argv[4]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(TIME_LIMIT_S);
    name_library();
    atexit(close_library);
    /* `open` can be measured once in a process: the library stays open. */
    if (argc == 6 && !strcmp(argv[5], "open")) {
        time_rounds("open", open_library, 1, 1);
        return 0;
    }
    open_library();
    make_live(argv[1], (unsigned)atoi(argv[2]));
    for (int i = 5; i < argc; i++)
        run(argv[i], rounds, scale);
    /* The answering thread ends with the process. */
    return 0;
}
