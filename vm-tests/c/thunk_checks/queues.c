/* Queues: creation with good and bad arguments, limits, update, CU masks, information. */
#include "check.h"
#include "gpu.h"

#include <stdio.h>
#include <string.h>

#define PAGE 4096u
#define MANY 64
/* Save areas of more bytes, all together, than the guests of the tests have memory. */
#define ROUNDS 64

/* Creates an AQL queue on a ring of its own pointers and destroys it again. */
static HSAKMT_STATUS try_queue(HSA_QUEUE_TYPE type, unsigned percent, HSA_QUEUE_PRIORITY priority, void *ring,
                               uint64_t size, void *pointers) {
    HsaQueueResource resource;
    memset(&resource, 0, sizeof(resource));
    resource.QueueRptrValue = (uintptr_t)pointers + 128;
    resource.QueueWptrValue = (uintptr_t)pointers + 56;
    const HSAKMT_STATUS status =
        hsaKmtCreateQueue((HSAuint32)gpu_node, type, percent, priority, ring, size, NULL, &resource);
    if (status == HSAKMT_STATUS_SUCCESS)
        hsaKmtDestroyQueue(resource.QueueId);
    return status;
}

static void arguments(void) {
    char *ring = gpu_alloc(0, PAGE, paged_flags());
    char *pointers = gpu_alloc(0, PAGE, gtt_flags());
    const HSA_QUEUE_TYPE aql = HSA_QUEUE_COMPUTE_AQL;
    const HSA_QUEUE_PRIORITY normal = HSA_QUEUE_PRIORITY_NORMAL;
    HsaQueueResource resource;

    check_status("queue.create.minimum-priority", try_queue(aql, 100, HSA_QUEUE_PRIORITY_MINIMUM, ring, PAGE, pointers));
    check_status("queue.create.maximum-priority", try_queue(aql, 100, HSA_QUEUE_PRIORITY_MAXIMUM, ring, PAGE, pointers));
    check_status("queue.create.priority-too-low", try_queue(aql, 100, (HSA_QUEUE_PRIORITY)-4, ring, PAGE, pointers));
    check_status("queue.create.priority-too-high", try_queue(aql, 100, (HSA_QUEUE_PRIORITY)4, ring, PAGE, pointers));
    check_status("queue.create.percent-0", try_queue(aql, 0, normal, ring, PAGE, pointers));
    check_status("queue.create.percent-101", try_queue(aql, 101, normal, ring, PAGE, pointers));
    check_status("queue.create.percent-with-xcc", try_queue(aql, 0x164, normal, ring, PAGE, pointers));
    check_status("queue.create.type-compute", try_queue(HSA_QUEUE_COMPUTE, 100, normal, ring, PAGE, pointers));
    check_status("queue.create.type-sdma", try_queue(HSA_QUEUE_SDMA, 100, normal, ring, PAGE, pointers));
    check_status("queue.create.type-sdma-xgmi", try_queue(HSA_QUEUE_SDMA_XGMI, 100, normal, ring, PAGE, pointers));
    check_status("queue.create.type-multimedia",
                 try_queue(HSA_QUEUE_MULTIMEDIA_DECODE, 100, normal, ring, PAGE, pointers));
    check_status("queue.create.type-dma-aql", try_queue(HSA_QUEUE_DMA_AQL, 100, normal, ring, PAGE, pointers));
    check_status("queue.create.ring-null", try_queue(aql, 100, normal, NULL, PAGE, pointers));
    check_status("queue.create.ring-not-ours", try_queue(aql, 100, normal, (void *)(uintptr_t)0x10000, PAGE, pointers));
    check_status("queue.create.ring-kernel-address",
                 try_queue(aql, 100, normal, (void *)(uintptr_t)0xffff800000000000, PAGE, pointers));
    check_status("queue.create.pointers-not-ours", try_queue(aql, 100, normal, ring, PAGE, (void *)(uintptr_t)0x10000));
    check_status("queue.create.node-beyond", hsaKmtCreateQueue(node_count, aql, 100, normal, ring, PAGE, NULL, &resource));
    check_status("queue.destroy.0", hsaKmtDestroyQueue(0));
    gpu_free(ring, PAGE);
    gpu_free(pointers, PAGE);
}

/* Q13, and that buffers are each one buffer of exactly the size. */
static void sizes(void) {
    static const struct {
        const char *name;
        uint64_t size;
    } cases[] = {{"0", 0},       {"64", 64},           {"256", 256},         {"1023", 1023},      {"1024", 1024},
                 {"4096", 4096}, {"3x4096", 3 * PAGE}, {"1-shl-31", 1u << 31}, {"1-shl-40", 1ull << 40}};
    char *ring = gpu_alloc(0, PAGE, paged_flags());
    char *big = gpu_alloc(0, 4 * PAGE, paged_flags());
    char *pointers = gpu_alloc(0, PAGE, gtt_flags());
    char *two_pages = gpu_alloc(0, 2 * PAGE, gtt_flags());
    const HSA_QUEUE_TYPE aql = HSA_QUEUE_COMPUTE_AQL;
    const HSA_QUEUE_PRIORITY normal = HSA_QUEUE_PRIORITY_NORMAL;
    void *unmapped = NULL;
    char id[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(id, sizeof(id), "Q13.size-%s", cases[i].name);
        check_status(id, try_queue(aql, 100, normal, ring, cases[i].size, pointers));
    }
    check_status("Q13.address-plus-8", try_queue(aql, 100, normal, ring + 8, PAGE, pointers));
    check_status("queue.exact.half-of-ring", try_queue(aql, 100, normal, big, 2 * PAGE, pointers));
    check_status("queue.exact.second-page-of-ring", try_queue(aql, 100, normal, big + PAGE, PAGE, pointers));
    check_status("queue.exact.whole-ring", try_queue(aql, 100, normal, big, 4 * PAGE, pointers));
    check_status("queue.exact.pointers-of-two-pages", try_queue(aql, 100, normal, ring, PAGE, two_pages));
    hsaKmtAllocMemory(0, PAGE, paged_flags(), &unmapped);
    check_status("queue.exact.ring-not-mapped", try_queue(aql, 100, normal, unmapped, PAGE, pointers));
    check_status("queue.exact.pointers-not-mapped", try_queue(aql, 100, normal, ring, PAGE, unmapped));
    hsaKmtFreeMemory(unmapped, PAGE);
    gpu_free(ring, PAGE);
    gpu_free(big, 4 * PAGE);
    gpu_free(pointers, PAGE);
    gpu_free(two_pages, 2 * PAGE);
}

/* What a live queue uses cannot be taken away from it. */
static void in_use(void) {
    struct aql_queue queue;
    check_status("queue.in-use.create", aql_create(&queue, 64));
    check_status("queue.in-use.unmap-ring", hsaKmtUnmapMemoryToGPU(queue.packets));
    check_status("queue.in-use.free-ring", hsaKmtFreeMemory(queue.packets, PAGE));
    check_status("queue.in-use.destroy", hsaKmtDestroyQueue(queue.resource.QueueId));
    /* The thunk counts the ring as unmapped after the refusal. */
    check_status("queue.in-use.map-ring-again", hsaKmtMapMemoryToGPU(queue.packets, PAGE, NULL));
    check_status("queue.in-use.unmap-ring-after", hsaKmtUnmapMemoryToGPU(queue.packets));
    check_status("queue.in-use.free-ring-after", hsaKmtFreeMemory(queue.packets, PAGE));
    gpu_free(queue.descriptor, PAGE);
}

static void doorbells(void) {
    struct aql_queue first, second;
    struct ring sdma;
    check_status("queue.doorbell.first", aql_create(&first, 64));
    check_status("queue.doorbell.second", aql_create(&second, 64));
    check_status("queue.doorbell.sdma", ring_create(&sdma, HSA_QUEUE_SDMA, PAGE));
    const uint64_t one = first.resource.QueueDoorBell, two = second.resource.QueueDoorBell;
    check_true("queue.doorbell.aligned", one % 8 == 0 && two % 8 == 0 && sdma.resource.QueueDoorBell % 8 == 0);
    check_true("queue.doorbell.different", one != two && one != sdma.resource.QueueDoorBell);
    /* Q01: all of them in the one process page of 8 KiB. */
    check_true("Q01.doorbells-in-one-process-page", one / 8192 == two / 8192);
    aql_destroy(&first);
    aql_destroy(&second);
    ring_destroy(&sdma);
}

static unsigned create_all(HSA_QUEUE_TYPE type, HSAKMT_STATUS *refusal) {
    static struct ring rings[MANY];
    unsigned count = 0;
    while (count < MANY) {
        *refusal = ring_create(&rings[count], type, PAGE);
        if (*refusal != HSAKMT_STATUS_SUCCESS) {
            gpu_free(rings[count].words, PAGE);
            break;
        }
        count++;
    }
    for (unsigned i = 0; i < count; i++)
        ring_destroy(&rings[i]);
    return count;
}

static void limits(void) {
    HSAKMT_STATUS refusal;
    check_u64("queue.limit.sdma", create_all(HSA_QUEUE_SDMA, &refusal));
    check_status("queue.limit.sdma.beyond", refusal);
    check_u64("queue.limit.sdma.second-round", create_all(HSA_QUEUE_SDMA, &refusal));
    check_u64("queue.limit.sdma-xgmi", create_all(HSA_QUEUE_SDMA_XGMI, &refusal));
    check_status("queue.limit.sdma-xgmi.beyond", refusal);
}

static void update(struct aql_queue *queue) {
    const HSA_QUEUEID id = queue->resource.QueueId;
    const HSA_QUEUE_PRIORITY normal = HSA_QUEUE_PRIORITY_NORMAL;
    void *ring = queue->packets;
    check_status("queue.update", hsaKmtUpdateQueue(id, 50, HSA_QUEUE_PRIORITY_HIGH, ring, PAGE, NULL));
    check_status("queue.update.percent-101", hsaKmtUpdateQueue(id, 101, normal, ring, PAGE, NULL));
    check_status("queue.update.priority-too-high", hsaKmtUpdateQueue(id, 100, (HSA_QUEUE_PRIORITY)4, ring, PAGE, NULL));
    check_status("queue.update.priority-too-low", hsaKmtUpdateQueue(id, 100, (HSA_QUEUE_PRIORITY)-4, ring, PAGE, NULL));
    check_status("queue.update.size-3x4096", hsaKmtUpdateQueue(id, 100, normal, ring, 3 * PAGE, NULL));
    check_status("queue.update.size-too-big", hsaKmtUpdateQueue(id, 100, normal, ring, 2 * PAGE, NULL));
    check_status("queue.update.ring-not-ours",
                 hsaKmtUpdateQueue(id, 100, normal, (void *)(uintptr_t)0x10000, PAGE, NULL));
    check_status("queue.update.0", hsaKmtUpdateQueue(0, 100, normal, ring, PAGE, NULL));
}

static void masks(struct aql_queue *queue) {
    const HSA_QUEUEID id = queue->resource.QueueId;
    uint32_t mask[4] = {0xffffffff, 0xffffffff, 0xffffffff, 0xff};
    check_status("queue.cu-mask", hsaKmtSetQueueCUMask(id, 128, mask));
    check_status("queue.cu-mask.one-word", hsaKmtSetQueueCUMask(id, 32, mask));
    check_status("queue.cu-mask.count-0", hsaKmtSetQueueCUMask(id, 0, mask));
    check_status("queue.cu-mask.count-33", hsaKmtSetQueueCUMask(id, 33, mask));
    check_status("queue.cu-mask.null", hsaKmtSetQueueCUMask(id, 32, NULL));
    check_status("queue.cu-mask.bad-pointer", hsaKmtSetQueueCUMask(id, 32, (uint32_t *)(uintptr_t)0x10000));
    check_status("queue.cu-mask.all-again", hsaKmtSetQueueCUMask(id, 128, mask));
}

static void information(struct aql_queue *queue) {
    const HSA_QUEUEID id = queue->resource.QueueId;
    HsaQueueInfo info;
    memset(&info, 0, sizeof(info));
    check_status("queue.info.null", hsaKmtGetQueueInfo(id, NULL));
    check_status("queue.info.0", hsaKmtGetQueueInfo(0, &info));
    check_status("queue.info.active", hsaKmtGetQueueInfo(id, &info));
    check_status("queue.disable", hsaKmtUpdateQueue(id, 0, HSA_QUEUE_PRIORITY_NORMAL, queue->packets, PAGE, NULL));
    check_status("queue.info", hsaKmtGetQueueInfo(id, &info));
    check_u64("queue.info.cu-mask-bits", info.NumCUAssigned);
    check_hex("queue.info.last-cu-mask-word", info.CUMaskInfo ? info.CUMaskInfo[3] : 0);
    check_u64("queue.info.control-stack-used", info.ControlStackUsedInBytes);
    check_u64("queue.info.save-area-used", info.SaveAreaSizeInBytes);
    check_u64("queue.info.wave-state-offset", info.SaveAreaHeader ? info.SaveAreaHeader->WaveStateOffset : 0);
    check_u64("queue.info.debug-offset", info.SaveAreaHeader ? info.SaveAreaHeader->DebugOffset : 0);
    check_u64("queue.info.debug-size", info.SaveAreaHeader ? info.SaveAreaHeader->DebugSize : 0);
    check_status("queue.disable-by-null-ring", hsaKmtUpdateQueue(id, 100, HSA_QUEUE_PRIORITY_NORMAL, NULL, 0, NULL));
    check_status("queue.info.disabled-by-null-ring", hsaKmtGetQueueInfo(id, &info));
    check_status("queue.enable", hsaKmtUpdateQueue(id, 100, HSA_QUEUE_PRIORITY_NORMAL, queue->packets, PAGE, NULL));
}

static void gws(struct aql_queue *first) {
    struct aql_queue second;
    HSAuint32 start = 99;
    aql_create(&second, 64);
    check_status("queue.gws.none-to-return", hsaKmtAllocQueueGWS(first->resource.QueueId, 0, &start));
    check_status("queue.gws", hsaKmtAllocQueueGWS(first->resource.QueueId, 64, &start));
    check_u64("queue.gws.first", start);
    check_status("queue.gws.second-queue", hsaKmtAllocQueueGWS(second.resource.QueueId, 64, &start));
    check_status("queue.gws.return", hsaKmtAllocQueueGWS(first->resource.QueueId, 0, &start));
    check_status("queue.gws.second-queue-after", hsaKmtAllocQueueGWS(second.resource.QueueId, 64, &start));
    aql_destroy(&second);
}

static void sdma_queue_is_no_compute_queue(void) {
    struct ring ring;
    HsaQueueInfo info;
    ring_create(&ring, HSA_QUEUE_SDMA, PAGE);
    check_status("queue.info.sdma", hsaKmtGetQueueInfo(ring.resource.QueueId, &info));
    check_status("queue.update.sdma",
                 hsaKmtUpdateQueue(ring.resource.QueueId, 100, HSA_QUEUE_PRIORITY_LOW, ring.words, PAGE, NULL));
    ring_destroy(&ring);
}

static unsigned long address_space_pages(void) {
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%lu", &pages) != 1)
        pages = 0;
    if (statm)
        fclose(statm);
    return pages;
}

/* Q03: a queue gives back its save area whole. */
static void rounds(void) {
    char *ring = gpu_alloc(0, PAGE, paged_flags());
    char *pointers = gpu_alloc(0, PAGE, gtt_flags());
    unsigned good = 0;
    unsigned long before = 0;
    for (int i = 0; i < ROUNDS; i++) {
        good += try_queue(HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, PAGE, pointers) == 0;
        if (i == 0)
            before = address_space_pages();
    }
    check_u64("Q03.rounds", good);
    check_true("Q03.address-space-is-the-same", before != 0 && address_space_pages() == before);
    gpu_free(ring, PAGE);
    gpu_free(pointers, PAGE);
}

void queue_checks(void) {
    struct aql_queue queue;
    HSAint32 xnack = 0;
    arguments();
    sizes();
    in_use();
    doorbells();
    limits();
    rounds();
    check_status("queue.aql", aql_create(&queue, 64));
    update(&queue);
    masks(&queue);
    information(&queue);
    gws(&queue);
    check_status("xnack.set.with-queue", hsaKmtSetXNACKMode(1));
    check_status("xnack.get.with-queue", hsaKmtGetXNACKMode(&xnack));
    check_status("queue.destroy", hsaKmtDestroyQueue(queue.resource.QueueId));
    gpu_free(queue.packets, PAGE);
    gpu_free(queue.descriptor, PAGE);
    sdma_queue_is_no_compute_queue();
}
