/* Uses libhsakmt in a process that is short of something, and prints each call's status.
 *
 *   conditions [WHEN CONDITION [VALUE]] [tour|far|reserve|exports]
 *
 * WHEN: `before` the library is opened, `between` that and the topology, or `after` both. CONDITION: addresses BYTES, descriptors COUNT,
 * mappings LEFT, open ERRNO, mbind ERRNO, low. tests/conditions.rs says what is right. */
#define _GNU_SOURCE
#include "conditions.h"
#include "thunk_status.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define KIB_64 (64u << 10)
#define MIB_2 (2u << 20)
#define GIB_32 (32ull << 30)
/* HsaMemFlags.OnlyAddress, which Debian 12's header does not have yet. */
#define ONLY_ADDRESS (1u << 19)
/* HsaMemFlags.NoAddress, as above. */
#define NO_ADDRESS (1u << 18)
/* Far above what a slow machine needs. */
#define TIME_LIMIT_S 120

static HSAuint32 cpu, gpu;
static bool has_gpu;

void say(const char *step, HSAKMT_STATUS status) {
    const char *name = thunk_status_name(status);
    printf("%s %s\n", step, name ? name : "unknown");
}

void say_if(const char *what, int is) { printf("%s %s\n", what, is ? "yes" : "no"); }

static void condition(const char *name, const char *value) {
    static const struct {
        const char *name;
        void (*make)(const char *value);
    } conditions[] = {
        {"addresses", limit_addresses}, {"descriptors", limit_descriptors}, {"mappings", limit_mappings},
        {"open", open_fails},           {"mbind", mbind_fails},
    };
    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
        if (strcmp(name, conditions[i].name) == 0) {
            conditions[i].make(value);
            return;
        }
    }
    if (strcmp(name, "low") == 0) {
        occupy_low_addresses();
        return;
    }
    fprintf(stderr, "no condition is named %s\n", name);
    exit(2);
}

static bool open_library(void) {
    const HSAKMT_STATUS status = hsaKmtOpenKFD();
    say("open", status);
    return status == HSAKMT_STATUS_SUCCESS;
}

static bool read_topology(void) {
    HsaSystemProperties system;
    HsaNodeProperties node;
    const HSAKMT_STATUS status = hsaKmtAcquireSystemProperties(&system);
    say("topology", status);
    if (status != HSAKMT_STATUS_SUCCESS)
        return false;
    printf("nodes %u\n", system.NumNodes);
    for (HSAuint32 i = 0; i < system.NumNodes; i++) {
        if (hsaKmtGetNodeProperties(i, &node) != HSAKMT_STATUS_SUCCESS)
            continue;
        if (node.NumFComputeCores && !has_gpu) {
            gpu = i;
            has_gpu = true;
        }
        if (node.NumCPUCores)
            printf("node-%u.cpu-caches %s\n", i, node.NumCaches ? "some" : "none");
    }
    return true;
}

static HsaMemFlags flags(bool non_paged, bool host) {
    HsaMemFlags flags;
    memset(&flags, 0, sizeof(flags));
    flags.ui32.NonPaged = non_paged;
    flags.ui32.HostAccess = host;
    flags.ui32.PageSize = HSA_PAGE_SIZE_4KB;
    return flags;
}

/* Allocates, maps, uses if the host may, unmaps and frees. */
static void memory(const char *name, HSAuint32 node, uint64_t size, HsaMemFlags flags) {
    void *mem = NULL;
    char step[64];
    HSAKMT_STATUS status = hsaKmtAllocMemory(node, size, flags, &mem);
    snprintf(step, sizeof(step), "%s.alloc", name);
    say(step, status);
    if (status != HSAKMT_STATUS_SUCCESS)
        return;
    snprintf(step, sizeof(step), "%s.map", name);
    say(step, hsaKmtMapMemoryToGPU(mem, size, NULL));
    if (flags.ui32.HostAccess)
        memset(mem, 0x5a, size);
    hsaKmtUnmapMemoryToGPU(mem);
    snprintf(step, sizeof(step), "%s.free", name);
    say(step, hsaKmtFreeMemory(mem, size));
}

static void event(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *event = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    HSAKMT_STATUS status = hsaKmtCreateEvent(&descriptor, true, false, &event);
    say("event.create", status);
    if (status != HSAKMT_STATUS_SUCCESS)
        return;
    say("event.wait", hsaKmtWaitOnEvent(event, 0));
    say("event.set", hsaKmtSetEvent(event));
    say("event.wait-set", hsaKmtWaitOnEvent(event, 10000));
    say("event.destroy", hsaKmtDestroyEvent(event));
}

static void queue(void) {
    HsaQueueResource queue;
    void *ring = NULL;
    memset(&queue, 0, sizeof(queue));
    HSAKMT_STATUS status = hsaKmtAllocMemory(cpu, KIB_64, flags(false, true), &ring);
    if (status == HSAKMT_STATUS_SUCCESS)
        status = hsaKmtMapMemoryToGPU(ring, KIB_64, NULL);
    say("queue.ring", status);
    if (status == HSAKMT_STATUS_SUCCESS) {
        status = hsaKmtCreateQueue(gpu, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, KIB_64, NULL, &queue);
        say("queue.create", status);
        if (status == HSAKMT_STATUS_SUCCESS)
            say("queue.destroy", hsaKmtDestroyQueue(queue.QueueId));
    }
    if (ring) {
        hsaKmtUnmapMemoryToGPU(ring);
        hsaKmtFreeMemory(ring, KIB_64);
    }
}

/* A little of everything. */
static void tour(void) {
    static char own[2 * PAGE] __attribute__((aligned(4096)));
    HsaMemFlags bound = flags(false, true);
    bound.ui32.NoSubstitute = 1;
    event();
    memory("host", cpu, KIB_64, flags(false, true));
    if (!has_gpu)
        return;
    memory("host-of-one-node", cpu, KIB_64, bound);
    memory("pinned", cpu, KIB_64, flags(true, true));
    memory("vram", gpu, MIB_2, flags(true, false));
    memory("vram-for-host", gpu, MIB_2, flags(true, true));
    memory("much-vram", gpu, 8ull << 30, flags(true, false));
    say("register", hsaKmtRegisterMemory(own, sizeof(own)));
    say("deregister", hsaKmtDeregisterMemory(own));
    queue();
}

/* Memory of this process that is there, beyond what GPUs reach: with page tables of five levels alone. */
static void memory_beyond(void) {
    void *wish = (void *)(uintptr_t)(1ull << 50), *at;
    at = mmap(wish, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        impossible("mmap");
    const bool beyond = (uintptr_t)at >= 1ull << 47;
    say_if("five-levels", beyond);
    if (!beyond)
        return;
    memset(at, 1, PAGE);
    say("register", hsaKmtRegisterMemory(at, PAGE));
    HSAuint64 for_gpu = 0;
    say("map", hsaKmtMapMemoryToGPU(at, PAGE, &for_gpu));
    say_if("gpu-reaches-it", for_gpu != 0 && for_gpu < 1ull << 47);
    say("unmap", hsaKmtUnmapMemoryToGPU(at));
    say("deregister", hsaKmtDeregisterMemory(at));
}

/* Addresses that no GPU reaches, and some that are none. */
static void far(void) {
    static const uint64_t addresses[] = {1ull << 47, 1ull << 48, 1ull << 52, 1ull << 56, 0x00f0000000000000ull,
                                         0xffff800000000000ull, UINT64_MAX - PAGE + 1};
    HsaMemFlags fixed = flags(true, true);
    fixed.ui32.FixedAddress = 1;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        void *address = (void *)(uintptr_t)addresses[i], *wanted = address;
        HsaPointerInfo info;
        memset(&info, 0, sizeof(info));
        printf("at 0x%016llx:\n", (unsigned long long)addresses[i]);
        say("register", hsaKmtRegisterMemory(address, PAGE));
        say("map", hsaKmtMapMemoryToGPU(address, PAGE, NULL));
        say("alloc-fixed", hsaKmtAllocMemory(gpu, PAGE, fixed, &wanted));
        say("pointer-info", hsaKmtQueryPointerInfo(address, &info));
        printf("type %u\n", info.Type);
        say("free", hsaKmtFreeMemory(address, PAGE));
    }
    memory_beyond();
}

/* Bytes of this process that are in memory. */
static uint64_t resident(void) {
    unsigned long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%lu %lu", &size, &pages) != 2)
        impossible("/proc/self/statm");
    fclose(file);
    return (uint64_t)pages * PAGE;
}

/* Case M10: addresses alone take no memory. */
static void reserve(void) {
    enum { COUNT = 1024 };
    static void *small[COUNT];
    HsaMemFlags only = flags(false, false);
    void *big = NULL;
    size_t made = 0;
    only.Value |= ONLY_ADDRESS;
    const uint64_t before = resident();
    say("reserve-32-gib", hsaKmtAllocMemory(gpu, GIB_32, only, &big));
    while (made < COUNT && hsaKmtAllocMemory(gpu, 1u << 30, only, &small[made]) == HSAKMT_STATUS_SUCCESS)
        made++;
    printf("reserved %zu of 1 GiB\n", made);
    say_if("takes-no-memory", resident() - before < 1u << 20);
    for (size_t i = 0; i < made; i++)
        if (hsaKmtFreeMemory(small[i], 1u << 30) != HSAKMT_STATUS_SUCCESS)
            printf("free of reservation %zu fails\n", i);
    say("free-32-gib", hsaKmtFreeMemory(big, GIB_32));
}

/* Case M11: memory takes no descriptors, exported or not; that there is none left is told apart from a lack of memory. */
static void exports(void) {
    enum { COUNT = 2000, FILLERS = 256 };
    HSAKMT_STATUS (*export)(void *, HSAuint64, int *, HSAuint64 *) = dlsym(RTLD_DEFAULT, "hsaKmtExportDMABufHandle");
    static void *kept[COUNT];
    int fillers[FILLERS], file = -1;
    size_t made = 0, filled = 0;
    HsaMemFlags vram = flags(true, false);
    HSAuint64 offset;
    vram.Value |= NO_ADDRESS;
    if (!export)
        impossible("hsaKmtExportDMABufHandle");
    for (; made < COUNT; made++) {
        HSAKMT_STATUS status = hsaKmtAllocMemory(gpu, MIB_2, vram, &kept[made]);
        if (status == HSAKMT_STATUS_SUCCESS)
            status = export(kept[made], MIB_2, &file, &offset);
        if (status != HSAKMT_STATUS_SUCCESS) {
            say("one-of-many", status);
            break;
        }
        close(file);
    }
    printf("exported %zu\n", made);
    while (filled < FILLERS && (fillers[filled] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        filled++;
    say("export.without-descriptors", export(kept[0], MIB_2, &file, &offset));
    while (filled)
        close(fillers[--filled]);
    say("export.again", export(kept[0], MIB_2, &file, &offset));
    close(file);
    for (size_t i = 0; i < made; i++)
        if (hsaKmtFreeMemory(kept[i], MIB_2) != HSAKMT_STATUS_SUCCESS)
            printf("free of %zu fails\n", i);
}

static void run(const char *what) {
    if (strcmp(what, "far") == 0)
        far();
    else if (strcmp(what, "reserve") == 0)
        reserve();
    else if (strcmp(what, "exports") == 0)
        exports();
    else
        tour();
}

int main(int argc, char **argv) {
    const bool limited = argc >= 3;
    const char *when = limited ? argv[1] : "never", *name = limited ? argv[2] : "";
    const char *value = argc >= 4 ? argv[3] : "0", *what = argc >= 2 ? argv[argc - 1] : "tour";
    bool opened, started;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(TIME_LIMIT_S);
    put_sentinels();
    if (strcmp(when, "before") == 0)
        condition(name, value);
    opened = open_library();
    if (strcmp(when, "between") == 0)
        condition(name, value);
    started = opened && read_topology();
    if (strcmp(when, "after") == 0)
        condition(name, value);
    if (started)
        run(what);
    if (limited) {
        printf("without limits:\n");
        lift_limits();
        opened = opened || open_library();
        started = started || (opened && read_topology());
        if (started)
            run(what);
    }
    if (opened)
        say("close", hsaKmtCloseKFD());
    say_if("other-mappings-are-whole", sentinels_are_whole());
    return 0;
}
