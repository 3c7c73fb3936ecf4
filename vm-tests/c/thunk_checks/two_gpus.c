/* Two GPUs: memory of one that the other uses, mapping to some of them, queues of both on one word. */
#include "check.h"
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define BUFFER (256u << 10)
#define EACH 1000
#define ADD_64 47

static HSAuint32 first, second;

static bool find_gpus(void) {
    HsaSystemProperties system;
    HsaNodeProperties node;
    unsigned found = 0;
    if (hsaKmtAcquireSystemProperties(&system) != HSAKMT_STATUS_SUCCESS)
        return false;
    node_count = system.NumNodes;
    check_u64("two.nodes", node_count);
    for (HSAuint32 i = 0; i < system.NumNodes; i++) {
        if (hsaKmtGetNodeProperties(i, &node) != HSAKMT_STATUS_SUCCESS || node.NumFComputeCores == 0)
            continue;
        if (found == 0)
            first = i;
        if (found == 1)
            second = i;
        found++;
    }
    check_u64("two.gpus", found);
    return found >= 2;
}

static void links(void) {
    HsaIoLinkProperties links[8];
    HsaNodeProperties node;
    memset(links, 0, sizeof(links));
    hsaKmtGetNodeProperties(first, &node);
    check_u64("two.links", node.NumIOLinks);
    check_status("two.link", hsaKmtGetNodeIoLinkProperties(first, node.NumIOLinks < 8 ? node.NumIOLinks : 8, links));
    for (unsigned i = 0; i < node.NumIOLinks && i < 8; i++) {
        if (links[i].NodeTo == second) {
            check_u64("two.link.type", links[i].IoLinkType);
            check_u64("two.link.weight", links[i].Weight);
        }
    }
}

static void mapping(void) {
    HsaMemMapFlags none;
    HSAuint32 one[1] = {first}, other[1] = {second}, both[2] = {first, second};
    HsaPointerInfo info;
    void *mem = NULL;
    memset(&none, 0, sizeof(none));
    hsaKmtAllocMemory(0, PAGE, gtt_flags(), &mem);

    check_status("two.map", hsaKmtMapMemoryToGPU(mem, PAGE, NULL));
    hsaKmtQueryPointerInfo(mem, &info);
    check_u64("two.map.nodes", info.NMappedNodes);
    /* The nodes of the call replace those of before. */
    check_status("two.map-to-second", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 1, other));
    hsaKmtQueryPointerInfo(mem, &info);
    check_true("two.map-to-second.is-second", info.NMappedNodes == 1 && info.MappedNodes[0] == second);
    check_status("two.map-to-both", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 2, both));
    hsaKmtQueryPointerInfo(mem, &info);
    check_u64("two.map-to-both.nodes", info.NMappedNodes);
    check_status("two.unmap", hsaKmtUnmapMemoryToGPU(mem));
    check_status("two.register-to-first", hsaKmtRegisterMemoryToNodes(mem, PAGE, 1, one));
    check_status("two.map-to-unregistered", hsaKmtMapMemoryToGPUNodes(mem, PAGE, NULL, none, 1, other));
    check_status("two.map-registered", hsaKmtMapMemoryToGPU(mem, PAGE, NULL));
    hsaKmtQueryPointerInfo(mem, &info);
    check_true("two.map-registered.is-first", info.NMappedNodes == 1 && info.MappedNodes[0] == first);
    check_status("two.unmap-registered", hsaKmtUnmapMemoryToGPU(mem));
    check_status("two.free", hsaKmtFreeMemory(mem, PAGE));
}

static HSAKMT_STATUS ring_on(struct ring *ring, HSAuint32 node) {
    gpu_node = (int)node;
    return ring_create(ring, HSA_QUEUE_SDMA, PAGE);
}

/* Host to the first one's VRAM, by the second's engine to its own VRAM, and back. */
static void peers(struct ring *of_first, struct ring *of_second) {
    uint8_t *host = gpu_alloc(0, BUFFER, gtt_flags()), *back = gpu_alloc(0, BUFFER, gtt_flags());
    uint8_t *near = gpu_alloc(first, BUFFER, vram_flags(false)), *far = gpu_alloc(second, BUFFER, vram_flags(false));
    uint32_t packet[SDMA_MAX];
    unsigned seed = 7;
    for (unsigned i = 0; i < BUFFER; i++)
        host[i] = (uint8_t)(rand_r(&seed) >> 8);
    ring_put(of_first, packet, sdma_copy(packet, (uintptr_t)near, (uintptr_t)host, BUFFER));
    check_true("two.copy.to-first", ring_drain(of_first));
    ring_put(of_second, packet, sdma_copy(packet, (uintptr_t)far, (uintptr_t)near, BUFFER));
    check_true("two.copy.first-to-second", ring_drain(of_second));
    ring_put(of_first, packet, sdma_copy(packet, (uintptr_t)back, (uintptr_t)far, BUFFER));
    check_true("two.copy.from-second", ring_drain(of_first));
    check_true("two.copy.equal", memcmp(host, back, BUFFER) == 0);
    gpu_free(host, BUFFER);
    gpu_free(back, BUFFER);
    gpu_free(near, BUFFER);
    gpu_free(far, BUFFER);
}

static void one_word(struct ring *of_first, struct ring *of_second) {
    volatile uint64_t *word = gpu_alloc(0, PAGE, gtt_flags());
    uint32_t packet[SDMA_MAX];
    *word = 0;
    for (int i = 0; i < EACH; i++) {
        ring_put(of_first, packet, sdma_atomic(packet, ADD_64, (uintptr_t)word, 1, 0));
        ring_put(of_second, packet, sdma_atomic(packet, ADD_64, (uintptr_t)word, 1, 0));
    }
    ring_submit(of_second);
    check_true("two.atomics.drain", ring_drain(of_first) && ring_drain(of_second));
    check_u64("two.atomics.sum", *word);
    gpu_free((void *)word, PAGE);
}

bool two_gpu_checks(void) {
    struct ring of_first, of_second;
    check_status("two.open", hsaKmtOpenKFD());
    if (!find_gpus())
        return false;
    links();
    mapping();
    check_status("two.queue-of-first", ring_on(&of_first, first));
    check_status("two.queue-of-second", ring_on(&of_second, second));
    const uint64_t one = of_first.resource.QueueDoorBell, other = of_second.resource.QueueDoorBell;
    check_true("two.doorbells-in-pages-of-their-own", one / 8192 != other / 8192);
    peers(&of_first, &of_second);
    one_word(&of_first, &of_second);
    ring_destroy(&of_first);
    ring_destroy(&of_second);
    check_status("two.close", hsaKmtCloseKFD());
    return true;
}
