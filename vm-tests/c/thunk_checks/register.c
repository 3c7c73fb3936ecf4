/* Registered memory: the program's own, at any address and of any kind. */
#define _GNU_SOURCE
#include "check.h"
#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define THREADS 16
#define ROUNDS 60

/* M02: an address inside a page stays one. */
static void unaligned(void) {
    char *base = aligned_alloc(PAGE, 4 * PAGE);
    HSAuint64 gpu_address = 0;
    HsaPointerInfo info;
    memset(base, 0x11, 4 * PAGE);

    check_status("M02.register", hsaKmtRegisterMemory(base + 100, 5000));
    check_status("M02.map", hsaKmtMapMemoryToGPU(base + 100, 5000, &gpu_address));
    check_u64("M02.offset-in-page", gpu_address % PAGE);
    check_true("M02.contents-kept", all_bytes_are(base, 4 * PAGE, 0x11));
    check_status("M02.query", hsaKmtQueryPointerInfo(base + 200, &info));
    check_u64("M02.type", info.Type);
    check_u64("M02.size", info.SizeInBytes);
    check_true("M02.cpu-address", info.CPUAddress == base + 100);
    check_true("M02.gpu-address", info.GPUAddress == gpu_address);
    check_status("M02.map.other-size", hsaKmtMapMemoryToGPU(base + 100, 4999, &gpu_address));
    check_status("M02.unmap", hsaKmtUnmapMemoryToGPU(base + 100));
    check_status("M02.deregister-base", hsaKmtDeregisterMemory(base));
    check_status("M02.deregister", hsaKmtDeregisterMemory(base + 100));
    check_status("M02.deregister-again", hsaKmtDeregisterMemory(base + 100));
    check_status("M02.query-after", hsaKmtQueryPointerInfo(base + 200, &info));
    free(base);
}

static void counted(void) {
    char *mem = aligned_alloc(PAGE, 2 * PAGE);
    HSAuint64 first = 0, second = 0;
    memset(mem, 0, 2 * PAGE);
    check_status("register.counted.first", hsaKmtRegisterMemory(mem, 2 * PAGE));
    check_status("register.counted.second", hsaKmtRegisterMemory(mem, 2 * PAGE));
    check_status("register.counted.map", hsaKmtMapMemoryToGPU(mem, 2 * PAGE, &first));
    check_status("register.counted.map-again", hsaKmtMapMemoryToGPU(mem, 2 * PAGE, &second));
    check_true("register.counted.same-address", first == second && first != 0);
    check_status("register.counted.unmap", hsaKmtUnmapMemoryToGPU(mem));
    check_status("register.counted.unmap-again", hsaKmtUnmapMemoryToGPU(mem));
    check_status("register.counted.deregister", hsaKmtDeregisterMemory(mem));
    check_status("register.counted.deregister-second", hsaKmtDeregisterMemory(mem));
    check_status("register.counted.deregister-third", hsaKmtDeregisterMemory(mem));
    free(mem);
}

/* The same memory with two sizes is two registrations at two addresses, and this thunk then finds neither by the
 * address alone: they stay until the end. */
static void overlapping(void) {
    char *mem = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HSAuint64 first = 0, second = 0;
    memset(mem, 0x21, 2 * PAGE);
    check_status("register.overlap.first", hsaKmtRegisterMemory(mem, 2 * PAGE));
    check_status("register.overlap.second", hsaKmtRegisterMemory(mem, PAGE));
    check_status("register.overlap.map-first", hsaKmtMapMemoryToGPU(mem, 2 * PAGE, &first));
    check_status("register.overlap.map-second", hsaKmtMapMemoryToGPU(mem, PAGE, &second));
    check_true("register.overlap.other-address", first != second);
    check_true("register.overlap.contents-kept", all_bytes_are(mem, 2 * PAGE, 0x21));
    check_status("register.overlap.deregister", hsaKmtDeregisterMemory(mem));
}

static void flags(void) {
    char *mem = aligned_alloc(PAGE, PAGE);
    HsaMemFlags flags = paged_flags();
    memset(mem, 0, PAGE);
    check_status("register.with-flags", hsaKmtRegisterMemoryWithFlags(mem, PAGE, flags));
    check_status("register.with-flags.deregister", hsaKmtDeregisterMemory(mem));
    flags.ui32.CoarseGrain = 1;
    check_status("register.with-flags.coarse", hsaKmtRegisterMemoryWithFlags(mem, PAGE, flags));
    hsaKmtDeregisterMemory(mem);
    flags.ui32.NonPaged = 1;
    check_status("register.with-flags.non-paged", hsaKmtRegisterMemoryWithFlags(mem, PAGE, flags));
    flags = paged_flags();
    flags.ui32.HostAccess = 0;
    check_status("register.with-flags.no-host-access", hsaKmtRegisterMemoryWithFlags(mem, PAGE, flags));
    free(mem);
}

static void to_nodes(void) {
    HSAuint32 gpu[1] = {(HSAuint32)gpu_node}, cpu[1] = {0}, beyond[1] = {node_count};
    char *mem = aligned_alloc(PAGE, PAGE);
    void *ours = NULL;
    HsaPointerInfo info;
    memset(mem, 0, PAGE);

    check_status("register.to-nodes", hsaKmtRegisterMemoryToNodes(mem, PAGE, 1, gpu));
    hsaKmtQueryPointerInfo(mem, &info);
    check_u64("register.to-nodes.count", info.NRegisteredNodes);
    check_true("register.to-nodes.is-gpu", info.NRegisteredNodes == 1 && info.RegisteredNodes[0] == gpu[0]);
    check_status("register.to-nodes.same-again", hsaKmtRegisterMemoryToNodes(mem, PAGE, 1, gpu));
    check_status("register.to-nodes.other", hsaKmtRegisterMemoryToNodes(mem, PAGE, 1, cpu));
    check_status("register.to-nodes.none", hsaKmtRegisterMemoryToNodes(mem, PAGE, 0, gpu));
    check_status("register.to-nodes.null", hsaKmtRegisterMemoryToNodes(mem, PAGE, 1, NULL));
    check_status("register.to-nodes.beyond", hsaKmtRegisterMemoryToNodes(mem, PAGE, 1, beyond));
    check_status("register.to-nodes.map", hsaKmtMapMemoryToGPU(mem, PAGE, NULL));
    check_status("register.to-nodes.unmap", hsaKmtUnmapMemoryToGPU(mem));

    hsaKmtAllocMemory(0, PAGE, paged_flags(), &ours);
    check_status("register.allocated", hsaKmtRegisterMemory(ours, PAGE));
    check_status("register.allocated.deregister", hsaKmtDeregisterMemory(ours));
    check_status("register.allocated.to-nodes", hsaKmtRegisterMemoryToNodes(ours, PAGE, 1, gpu));
    check_status("register.allocated.to-nodes.deregister", hsaKmtDeregisterMemory(ours));
    hsaKmtFreeMemory(ours, PAGE);
}

/* Registers a mapping once and takes it back. */
static void mapping(const char *kind, int protection, int map_flags, int fd) {
    char id[64];
    void *mem = mmap(NULL, 2 * PAGE, protection, map_flags, fd, 0);
    snprintf(id, sizeof(id), "register.%s", kind);
    const HSAKMT_STATUS status = hsaKmtRegisterMemory(mem, 2 * PAGE);
    check_status(id, status);
    if (status == HSAKMT_STATUS_SUCCESS)
        hsaKmtDeregisterMemory(mem);
    munmap(mem, 2 * PAGE);
}

static void mappings(void) {
    const int private = MAP_PRIVATE | MAP_ANONYMOUS;
    mapping("private", PROT_READ | PROT_WRITE, private, -1);
    mapping("shared", PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    mapping("read-only", PROT_READ, private, -1);
    mapping("no-access", PROT_NONE, private, -1);
    const int fd = memfd_create("thunk-checks", MFD_CLOEXEC);
    if (ftruncate(fd, 2 * PAGE) == 0)
        mapping("memfd", PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    close(fd);

    check_status("register.null", hsaKmtRegisterMemory(NULL, PAGE));
    check_status("register.not-mapped", hsaKmtRegisterMemory((void *)(uintptr_t)0x10000, PAGE));
    check_status("L01.register.0xf0000000000000",
                 hsaKmtRegisterMemory((void *)(uintptr_t)0x00f0000000000000, PAGE));
    check_status("L01.map.0xf0000000000000",
                 hsaKmtMapMemoryToGPU((void *)(uintptr_t)0x00f0000000000000, PAGE, NULL));
    check_status("register.kernel-address", hsaKmtRegisterMemory((void *)(uintptr_t)0xffff800000000000, PAGE));
    char *mem = aligned_alloc(PAGE, PAGE);
    memset(mem, 0, PAGE);
    check_status("register.size-0", hsaKmtRegisterMemory(mem, 0));
    check_status("register.reaches-beyond", hsaKmtRegisterMemory(mem, 1ull << 46));
    free(mem);
    check_status("register.deregister.null", hsaKmtDeregisterMemory(NULL));
    check_status("register.deregister.not-ours", hsaKmtDeregisterMemory((void *)(uintptr_t)0x10000));
}

struct register_thread {
    pthread_t thread;
    void *mem;
    unsigned failures;
};

static void *register_often(void *arg) {
    struct register_thread *self = arg;
    for (int i = 0; i < ROUNDS; i++) {
        self->failures += hsaKmtRegisterMemory(self->mem, 64 << 10) != HSAKMT_STATUS_SUCCESS;
        self->failures += hsaKmtMapMemoryToGPU(self->mem, 64 << 10, NULL) != HSAKMT_STATUS_SUCCESS;
        self->failures += hsaKmtUnmapMemoryToGPU(self->mem) != HSAKMT_STATUS_SUCCESS;
        self->failures += hsaKmtDeregisterMemory(self->mem) != HSAKMT_STATUS_SUCCESS;
    }
    return NULL;
}

/* M04: many threads register one range. */
static void together(void) {
    static struct register_thread threads[THREADS];
    char *mem = aligned_alloc(PAGE, 64 << 10);
    unsigned failures = 0;
    memset(mem, 0x77, 64 << 10);
    for (int i = 0; i < THREADS; i++) {
        threads[i].mem = mem;
        pthread_create(&threads[i].thread, NULL, register_often, &threads[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        failures += threads[i].failures;
    }
    check_u64("M04.failures", failures);
    check_status("M04.nothing-is-left", hsaKmtDeregisterMemory(mem));
    check_true("M04.contents-kept", all_bytes_are(mem, 64 << 10, 0x77));
    free(mem);
}

void register_checks(void) {
    unaligned();
    counted();
    overlapping();
    flags();
    to_nodes();
    mappings();
    together();
}
