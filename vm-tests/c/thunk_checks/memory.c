/* Allocations of all kinds, good and bad; pointer information; user data; mapping. */
#include "check.h"
#include "gpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE 4096u
#define KEPT 1000

static HsaMemFlags large_pages(HsaMemFlags flags) {
    flags.ui32.PageSize = HSA_PAGE_SIZE_64KB;
    return flags;
}

static void bad_sizes(void) {
    void *mem = NULL;
    check_status("memory.alloc.size-0", hsaKmtAllocMemory(0, 0, paged_flags(), &mem));
    check_status("memory.alloc.size-1", hsaKmtAllocMemory(0, 1, paged_flags(), &mem));
    check_status("memory.alloc.size-4097", hsaKmtAllocMemory(0, PAGE + 1, paged_flags(), &mem));
    check_status("memory.alloc.address-null", hsaKmtAllocMemory(0, PAGE, paged_flags(), NULL));
    check_status("memory.alloc.64k-pages.size-4096", hsaKmtAllocMemory(0, PAGE, large_pages(paged_flags()), &mem));
    check_status("memory.alloc.node-beyond", hsaKmtAllocMemory(node_count, PAGE, paged_flags(), &mem));
    check_status("memory.alloc.node-max", hsaKmtAllocMemory(0xffffffffu, PAGE, paged_flags(), &mem));
    HsaMemFlags fixed = paged_flags();
    fixed.ui32.FixedAddress = 1;
    mem = NULL;
    check_status("memory.alloc.fixed-address-null", hsaKmtAllocMemory(0, PAGE, fixed, &mem));
    check_status("memory.free.null", hsaKmtFreeMemory(NULL, PAGE));
    check_status("memory.free.not-ours", hsaKmtFreeMemory((void *)(uintptr_t)0x10000, PAGE));
    check_status("memory.map.null", hsaKmtMapMemoryToGPU(NULL, PAGE, NULL));
    check_status("memory.unmap.null", hsaKmtUnmapMemoryToGPU(NULL));
}

static void pointer_info(const void *mem) {
    HsaPointerInfo info;
    int datum;
    check_status("pointer.query", hsaKmtQueryPointerInfo(mem, &info));
    check_u64("pointer.type", info.Type);
    check_u64("pointer.node", info.Node);
    check_u64("pointer.size", info.SizeInBytes);
    check_true("pointer.cpu-address-is-it", info.CPUAddress == mem);
    check_true("pointer.gpu-address-is-it", info.GPUAddress == (uintptr_t)mem);
    check_u64("pointer.registered-nodes", info.NRegisteredNodes);
    check_hex("pointer.flags", info.MemFlags.Value);
    check_true("pointer.user-data-is-null", info.UserData == NULL);
    check_status("pointer.set-user-data", hsaKmtSetMemoryUserData(mem, &datum));
    check_status("pointer.query-inside", hsaKmtQueryPointerInfo((const char *)mem + PAGE + 5, &info));
    check_true("pointer.inside.gpu-address-is-start", info.GPUAddress == (uintptr_t)mem);
    check_true("pointer.user-data-is-kept", info.UserData == &datum);
    check_status("pointer.query.behind-the-end", hsaKmtQueryPointerInfo((const char *)mem + 2 * PAGE, &info));
    check_u64("pointer.behind-the-end.type", info.Type);
    check_status("pointer.query.info-null", hsaKmtQueryPointerInfo(mem, NULL));
    check_status("pointer.query.null", hsaKmtQueryPointerInfo(NULL, &info));
    check_status("pointer.set-user-data.not-ours", hsaKmtSetMemoryUserData((void *)(uintptr_t)0x10000, &datum));
}

void memory_checks(void) {
    void *mem = NULL;
    HSAuint64 alternate = ~0ull;
    bad_sizes();
    check_status("memory.paged", hsaKmtAllocMemory(0, 2 * PAGE, paged_flags(), &mem));
    check_true("memory.paged.page-aligned", (uintptr_t)mem % PAGE == 0);
    check_true("memory.paged.zeroed", all_bytes_are(mem, 2 * PAGE, 0));
    memset(mem, 0x5a, 2 * PAGE);
    pointer_info(mem);
    check_status("memory.paged.map", hsaKmtMapMemoryToGPU(mem, 2 * PAGE, &alternate));
    check_hex("memory.paged.alternate-address", alternate);
    check_true("memory.paged.contents-kept", all_bytes_are(mem, 2 * PAGE, 0x5a));
    check_status("memory.paged.unmap", hsaKmtUnmapMemoryToGPU(mem));
    check_status("memory.paged.unmap-again", hsaKmtUnmapMemoryToGPU(mem));
    check_status("memory.paged.free-second-page", hsaKmtFreeMemory((char *)mem + PAGE, PAGE));
    check_status("memory.paged.free", hsaKmtFreeMemory(mem, 2 * PAGE));
    check_status("memory.paged.free-again", hsaKmtFreeMemory(mem, 2 * PAGE));
}

/* Allocates, maps, looks, unmaps, frees: as any kind of memory does. */
static void life(const char *kind, HSAuint32 node, HSAuint64 size, HsaMemFlags flags, bool host) {
    char id[96];
    void *mem = NULL;
    HsaPointerInfo info;
    const HSAKMT_STATUS status = hsaKmtAllocMemory(node, size, flags, &mem);
    snprintf(id, sizeof(id), "memory.%s", kind);
    check_status(id, status);
    if (status != HSAKMT_STATUS_SUCCESS)
        return;
    if (host) {
        memset(mem, 0x3c, size);
        snprintf(id, sizeof(id), "memory.%s.host-can-write", kind);
        check_true(id, all_bytes_are(mem, size, 0x3c));
    }
    snprintf(id, sizeof(id), "memory.%s.map", kind);
    check_status(id, hsaKmtMapMemoryToGPU(mem, size, NULL));
    hsaKmtQueryPointerInfo(mem, &info);
    snprintf(id, sizeof(id), "memory.%s.node", kind);
    check_u64(id, info.Node);
    snprintf(id, sizeof(id), "memory.%s.size", kind);
    check_u64(id, info.SizeInBytes);
    snprintf(id, sizeof(id), "memory.%s.mapped-nodes", kind);
    check_u64(id, info.NMappedNodes);
    snprintf(id, sizeof(id), "memory.%s.free-mapped", kind);
    check_status(id, hsaKmtFreeMemory(mem, size));
    snprintf(id, sizeof(id), "memory.%s.unmap", kind);
    check_status(id, hsaKmtUnmapMemoryToGPU(mem));
    snprintf(id, sizeof(id), "memory.%s.free", kind);
    check_status(id, hsaKmtFreeMemory(mem, size));
}

static void kinds(void) {
    const HSAuint32 gpu = (HSAuint32)gpu_node;
    HsaMemFlags flags = vram_flags(false);
    life("vram", gpu, PAGE, flags, false);
    life("vram-public", gpu, 2 * PAGE, vram_flags(true), true);
    life("gtt", 0, PAGE, gtt_flags(), true);
    life("paged-on-gpu-node", gpu, PAGE, paged_flags(), true);
    flags = paged_flags();
    flags.ui32.CoarseGrain = 1;
    life("paged-coarse", 0, PAGE, flags, true);
    flags = paged_flags();
    flags.ui32.ExecuteAccess = 1;
    life("paged-executable", 0, PAGE, flags, true);
    flags = gtt_flags();
    flags.ui32.Uncached = 1;
    life("gtt-uncached", 0, PAGE, flags, true);
    flags = vram_flags(false);
    flags.ui32.ReadOnly = 1;
    life("vram-read-only", gpu, PAGE, flags, false);
    life("vram-64k-pages", gpu, 64 << 10, large_pages(vram_flags(false)), false);
    flags = vram_flags(false);
    flags.ui32.PageSize = HSA_PAGE_SIZE_2MB;
    life("vram-2m-pages", gpu, 2 << 20, flags, false);
    flags = vram_flags(false);
    flags.ui32.AQLQueueMemory = 1;
    life("vram-aql", gpu, PAGE, flags, false);
}

/* Memory for an AQL queue is there twice, one copy behind the other. */
static void doubled(void) {
    void *mem = NULL;
    HsaMemFlags flags = gtt_flags();
    flags.ui32.AQLQueueMemory = 1;
    const HSAKMT_STATUS status = hsaKmtAllocMemory(0, PAGE, flags, &mem);
    check_status("memory.gtt-aql", status);
    if (status != HSAKMT_STATUS_SUCCESS)
        return;
    volatile uint32_t *words = mem;
    words[3] = 0x1234;
    check_hex("memory.gtt-aql.second-half-is-first", words[PAGE / 4 + 3]);
    check_status("memory.gtt-aql.map", hsaKmtMapMemoryToGPU(mem, PAGE, NULL));
    check_status("memory.gtt-aql.unmap", hsaKmtUnmapMemoryToGPU(mem));
    check_status("memory.gtt-aql.free", hsaKmtFreeMemory(mem, PAGE));
}

/* M01. 0x7ffffffff000 is not among them: this thunk answers it with munmap of its whole process. */
static void big(void) {
    static const struct {
        const char *name;
        uint64_t size;
    } sizes[] = {
        {"0xfffff000", 0xfffff000},           {"0x100000000", 0x100000000},
        {"0x100001000", 0x100001000},         {"1-tib", 1ull << 40},
        {"64-tib", 1ull << 46},               {"0xfffffffffffff000", 0xfffffffffffff000},
        {"more-than-vram", 65521ull << 20},
    };
    char id[96];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *mem = NULL;
        HsaPointerInfo info;
        snprintf(id, sizeof(id), "M01.vram.%s", sizes[i].name);
        const HSAKMT_STATUS status = hsaKmtAllocMemory((HSAuint32)gpu_node, sizes[i].size, vram_flags(false), &mem);
        check_status(id, status);
        if (status != HSAKMT_STATUS_SUCCESS)
            continue;
        hsaKmtQueryPointerInfo(mem, &info);
        snprintf(id, sizeof(id), "M01.vram.%s.size", sizes[i].name);
        check_hex(id, info.SizeInBytes);
        snprintf(id, sizeof(id), "M01.vram.%s.free", sizes[i].name);
        check_status(id, hsaKmtFreeMemory(mem, sizes[i].size));
    }
}

/* L01: addresses that are not the GPU's. This thunk gives no fixed address in an aperture that mmap manages. */
static void fixed_addresses(void) {
    static const struct {
        const char *name;
        uint64_t address;
    } addresses[] = {
        {"1-shl-48", 1ull << 48}, {"1-shl-56", 1ull << 56}, {"0xffff800000000000", 0xffff800000000000}};
    char id[64];
    HsaMemFlags flags = vram_flags(false);
    flags.ui32.FixedAddress = 1;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        void *mem = (void *)(uintptr_t)addresses[i].address;
        snprintf(id, sizeof(id), "L01.fixed.%s", addresses[i].name);
        check_status(id, hsaKmtAllocMemory((HSAuint32)gpu_node, PAGE, flags, &mem));
    }
}

static void scratch(void) {
    const HSAuint32 gpu = (HSAuint32)gpu_node;
    void *mem = NULL, *second = NULL;
    HsaMemFlags flags = vram_flags(false);
    flags.ui32.Scratch = 1;
    check_status("memory.scratch", hsaKmtAllocMemory(gpu, 1 << 20, flags, &mem));
    check_true("memory.scratch.64k-aligned", (uintptr_t)mem % (64 << 10) == 0);
    check_status("memory.scratch.second", hsaKmtAllocMemory(gpu, 1 << 20, flags, &second));
    check_status("memory.scratch.map", hsaKmtMapMemoryToGPU(mem, 64 << 10, NULL));
    check_status("memory.scratch.map-beyond", hsaKmtMapMemoryToGPU((char *)mem + (1 << 20) - PAGE, 2 * PAGE, NULL));
    check_status("memory.scratch.unmap", hsaKmtUnmapMemoryToGPU(mem));
    check_status("memory.scratch.free", hsaKmtFreeMemory(mem, 1 << 20));
    check_status("memory.scratch.after-free", hsaKmtAllocMemory(gpu, 1 << 20, flags, &mem));
    hsaKmtFreeMemory(mem, 1 << 20);
}

static void map_to_nodes(void) {
    HsaMemMapFlags none;
    HSAuint32 gpu[1] = {(HSAuint32)gpu_node}, cpu[1] = {0}, beyond[1] = {node_count};
    HsaPointerInfo info;
    void *mem = NULL;
    memset(&none, 0, sizeof(none));
    hsaKmtAllocMemory(0, PAGE, paged_flags(), &mem);

    check_status("memory.map-to-nodes", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 1, gpu));
    check_status("memory.map-to-nodes.again", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 1, gpu));
    hsaKmtQueryPointerInfo(mem, &info);
    check_u64("memory.map-to-nodes.count", info.NMappedNodes);
    check_true("memory.map-to-nodes.is-gpu", info.NMappedNodes == 1 && info.MappedNodes[0] == gpu[0]);
    check_status("memory.map-to-nodes.cpu", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 1, cpu));
    check_status("memory.map-to-nodes.beyond", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 1, beyond));
    check_status("memory.map-to-nodes.no-nodes", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 0, gpu));
    check_status("memory.map-to-nodes.null-nodes", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 1, NULL));
    check_status("memory.map-to-nodes.null", hsaKmtMapMemoryToGPUNodes(NULL, PAGE, NULL, none, 1, gpu));
    check_status("memory.map-to-nodes.not-ours",
                 hsaKmtMapMemoryToGPUNodes((void *)(uintptr_t)0x10000, PAGE, NULL, none, 1, gpu));
    check_status("memory.map-to-nodes.unmap", hsaKmtUnmapMemoryToGPU(mem));
    check_status("memory.map.twice.first", hsaKmtMapMemoryToGPU(mem, PAGE, NULL));
    check_status("memory.map.twice.second", hsaKmtMapMemoryToGPU(mem, PAGE, NULL));
    check_status("memory.map.twice.unmap", hsaKmtUnmapMemoryToGPU(mem));
    check_status("memory.map.twice.free", hsaKmtFreeMemory(mem, PAGE));
    check_status("memory.map.not-ours", hsaKmtMapMemoryToGPU((void *)(uintptr_t)0x10000, PAGE, NULL));
    check_status("memory.unmap.not-ours", hsaKmtUnmapMemoryToGPU((void *)(uintptr_t)0x10000));
}

/* M11: buffers need no descriptors. */
static void descriptors(void) {
    static void *kept[KEPT];
    struct rlimit old, low;
    unsigned count = 0;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &low);
    while (count < KEPT && hsaKmtAllocMemory((HSAuint32)gpu_node, 2 << 20, vram_flags(false), &kept[count]) == 0)
        count++;
    check_u64("M11.buffers-with-64-descriptors", count);
    unsigned freed = 0;
    for (unsigned i = 0; i < count; i++)
        freed += hsaKmtFreeMemory(kept[i], 2 << 20) == HSAKMT_STATUS_SUCCESS;
    check_u64("M11.freed", freed);
    setrlimit(RLIMIT_NOFILE, &old);
}

void memory_gpu_checks(void) {
    kinds();
    doubled();
    big();
    fixed_addresses();
    scratch();
    map_to_nodes();
    descriptors();
}
