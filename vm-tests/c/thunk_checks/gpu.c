/* Memory and queues of a GPU. */
#include "gpu.h"

#include "check.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define AQL_PACKET 64u
#define AQL_INVALID 1u

/* Offsets in amd_queue_t (amd_hsa_queue.h). */
#define QUEUE_WRITE_DISPATCH_ID 56
#define QUEUE_READ_DISPATCH_ID 128
#define QUEUE_READ_DISPATCH_ID_OFFSET 136

HsaMemFlags paged_flags(void) {
    HsaMemFlags flags;
    memset(&flags, 0, sizeof(flags));
    flags.ui32.HostAccess = 1;
    flags.ui32.PageSize = HSA_PAGE_SIZE_4KB;
    return flags;
}

HsaMemFlags gtt_flags(void) {
    HsaMemFlags flags = paged_flags();
    flags.ui32.NonPaged = 1;
    return flags;
}

HsaMemFlags vram_flags(bool host) {
    HsaMemFlags flags = gtt_flags();
    flags.ui32.HostAccess = host;
    return flags;
}

void *gpu_try_alloc(HSAuint32 node, uint64_t size, HsaMemFlags flags) {
    void *mem = NULL;
    HSAKMT_STATUS status = hsaKmtAllocMemory(node, size, flags, &mem);
    if (status != HSAKMT_STATUS_SUCCESS)
        return NULL;
    status = hsaKmtMapMemoryToGPU(mem, size, NULL);
    if (status == HSAKMT_STATUS_SUCCESS)
        return mem;
    hsaKmtFreeMemory(mem, size);
    return NULL;
}

void *gpu_alloc(HSAuint32 node, uint64_t size, HsaMemFlags flags) {
    void *mem = gpu_try_alloc(node, size, flags);
    /* A guest without window sees no memory of the host. Here it is only a place for data; memory.c looks at the kinds. */
    if (!mem && node == 0 && flags.ui32.NonPaged)
        mem = gpu_try_alloc(node, size, paged_flags());
    if (!mem) {
        fprintf(stderr, "failed to allocate %llu bytes on node %u, flags %#x\n", (unsigned long long)size, node,
                flags.Value);
        exit(1);
    }
    return mem;
}

void gpu_free(void *mem, uint64_t size) {
    hsaKmtUnmapMemoryToGPU(mem);
    hsaKmtFreeMemory(mem, size);
}

bool all_bytes_are(const void *mem, size_t size, uint8_t byte) {
    const uint8_t *bytes = mem;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

/* A word of four or eight bytes. */
static uint64_t load(const volatile void *word, size_t size) {
    if (size == sizeof(uint32_t))
        return __atomic_load_n((const volatile uint32_t *)word, __ATOMIC_ACQUIRE);
    return __atomic_load_n((const volatile uint64_t *)word, __ATOMIC_ACQUIRE);
}

static bool wait_for(const volatile void *word, size_t size, uint64_t value) {
    const uint64_t end = now_ms() + GPU_WAIT_MS;
    while (load(word, size) != value) {
        if (now_ms() > end)
            return false;
        sched_yield();
    }
    return true;
}

bool wait_word(const volatile uint32_t *word, uint32_t value) {
    return wait_for(word, sizeof(*word), value);
}

bool wait_long(const volatile uint64_t *word, uint64_t value) {
    return wait_for(word, sizeof(*word), value);
}

HSAKMT_STATUS ring_create(struct ring *ring, HSA_QUEUE_TYPE type, uint32_t size) {
    memset(ring, 0, sizeof(*ring));
    ring->size = size;
    ring->bytes = type != HSA_QUEUE_COMPUTE;
    ring->words = gpu_alloc(0, size, paged_flags());
    return hsaKmtCreateQueue((HSAuint32)gpu_node, type, 100, HSA_QUEUE_PRIORITY_NORMAL, ring->words, size, NULL,
                             &ring->resource);
}

void ring_destroy(struct ring *ring) {
    hsaKmtDestroyQueue(ring->resource.QueueId);
    gpu_free(ring->words, ring->size);
}

/* How far the GPU is, in dwords since the start. */
static uint64_t ring_read(const struct ring *ring) {
    const uint64_t value = __atomic_load_n((volatile uint64_t *)ring->resource.Queue_read_ptr, __ATOMIC_ACQUIRE);
    if (ring->bytes)
        return value / 4;
    /* PM4 queues report a place in the ring. */
    const uint64_t all = ring->size / 4, place = (uint32_t)value, written = ring->write % all;
    return ring->write - (written >= place ? written - place : written + all - place);
}

static void ring_wait_room(struct ring *ring, unsigned words) {
    const uint64_t end = now_ms() + GPU_WAIT_MS;
    while (ring->size / 4 - (ring->write - ring_read(ring)) <= words) {
        ring_submit(ring);
        if (now_ms() > end) {
            fprintf(stderr, "the GPU reads no more of the ring: %llu of %llu words\n",
                    (unsigned long long)ring_read(ring), (unsigned long long)ring->write);
            exit(1);
        }
        sched_yield();
    }
}

void ring_put(struct ring *ring, const uint32_t *packet, unsigned words) {
    const uint32_t all = ring->size / 4;
    /* A word of zeros is a NOP of SDMA; a PM4 ring is not filled up to its end by these checks. */
    while (ring->write % all + words > all) {
        ring_wait_room(ring, 1);
        ring->words[ring->write % all] = 0;
        ring->write++;
    }
    ring_wait_room(ring, words);
    memcpy(&ring->words[ring->write % all], packet, words * sizeof(*packet));
    ring->write += words;
}

void ring_submit(struct ring *ring) {
    const uint64_t value = ring->bytes ? ring->write * 4 : ring->write;
    __atomic_store_n((volatile uint64_t *)ring->resource.Queue_write_ptr, value, __ATOMIC_RELEASE);
    __atomic_store_n((volatile uint64_t *)ring->resource.Queue_DoorBell, value, __ATOMIC_RELEASE);
}

bool ring_drain(struct ring *ring) {
    const uint64_t end = now_ms() + GPU_WAIT_MS;
    ring_submit(ring);
    while (ring_read(ring) != ring->write) {
        if (now_ms() > end)
            return false;
        sched_yield();
    }
    return true;
}

HSAKMT_STATUS aql_create(struct aql_queue *queue, uint32_t count) {
    memset(queue, 0, sizeof(*queue));
    queue->count = count;
    queue->packets = gpu_alloc(0, count * AQL_PACKET, paged_flags());
    queue->descriptor = gpu_alloc(0, PAGE, gtt_flags());
    memset(queue->descriptor, 0, PAGE);
    for (uint32_t i = 0; i < count; i++)
        queue->packets[i * AQL_PACKET] = AQL_INVALID;
    const uint32_t offset = QUEUE_READ_DISPATCH_ID;
    memcpy(queue->descriptor + QUEUE_READ_DISPATCH_ID_OFFSET, &offset, sizeof(offset));
    queue->resource.QueueRptrValue = (uintptr_t)(queue->descriptor + QUEUE_READ_DISPATCH_ID);
    queue->resource.QueueWptrValue = (uintptr_t)(queue->descriptor + QUEUE_WRITE_DISPATCH_ID);
    return hsaKmtCreateQueue((HSAuint32)gpu_node, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL,
                             queue->packets, count * AQL_PACKET, NULL, &queue->resource);
}

void aql_destroy(struct aql_queue *queue) {
    hsaKmtDestroyQueue(queue->resource.QueueId);
    gpu_free(queue->packets, queue->count * AQL_PACKET);
    gpu_free(queue->descriptor, PAGE);
}

volatile uint64_t *aql_read_index(const struct aql_queue *queue) {
    return (volatile uint64_t *)(queue->descriptor + QUEUE_READ_DISPATCH_ID);
}

void aql_barrier(struct aql_queue *queue, unsigned type, struct signal *const *signals, unsigned count,
                 struct signal *done) {
    const uint64_t end = now_ms() + GPU_WAIT_MS;
    while (queue->index - __atomic_load_n(aql_read_index(queue), __ATOMIC_ACQUIRE) >= queue->count) {
        if (now_ms() > end) {
            fprintf(stderr, "the GPU takes no more packets\n");
            exit(1);
        }
        sched_yield();
    }
    uint8_t *packet = queue->packets + queue->index % queue->count * AQL_PACKET;
    uint64_t body[7] = {0};
    for (unsigned i = 0; i < count && i < 5; i++)
        body[i] = (uintptr_t)signals[i];
    body[6] = (uintptr_t)done;
    memcpy(packet + 8, body, sizeof(body));
    memset(packet + 4, 0, 4);
    /* The header goes last: barrier bit, system scope for acquire and release (hsa.h). */
    const uint32_t header = type | 1u << 8 | 2u << 9 | 2u << 11;
    __atomic_store_n((uint32_t *)packet, header, __ATOMIC_RELEASE);
    queue->index++;
    volatile uint64_t *write = (volatile uint64_t *)(queue->descriptor + QUEUE_WRITE_DISPATCH_ID);
    __atomic_store_n(write, queue->index, __ATOMIC_RELEASE);
    __atomic_store_n((volatile uint64_t *)queue->resource.Queue_DoorBell_aql, queue->index - 1, __ATOMIC_RELEASE);
}

bool wait_signal(const struct signal *signal, int64_t value) {
    return wait_long((const volatile uint64_t *)&signal->value, (uint64_t)value);
}

static void put_address(uint32_t *words, uint64_t address) {
    words[0] = (uint32_t)address;
    words[1] = (uint32_t)(address >> 32);
}

unsigned sdma_copy(uint32_t *packet, uint64_t to, uint64_t from, uint32_t bytes) {
    packet[0] = 1;
    packet[1] = bytes - 1;
    packet[2] = 0;
    put_address(&packet[3], from);
    put_address(&packet[5], to);
    return 7;
}

unsigned sdma_write(uint32_t *packet, uint64_t to, const uint32_t *data, unsigned words) {
    packet[0] = 2;
    put_address(&packet[1], to);
    packet[3] = words - 1;
    memcpy(&packet[4], data, words * sizeof(*data));
    return 4 + words;
}

unsigned sdma_fill(uint32_t *packet, uint64_t to, uint32_t value, uint32_t bytes) {
    packet[0] = 11 | 2u << 30; /* fill size: words */
    put_address(&packet[1], to);
    packet[3] = value;
    packet[4] = bytes - 1;
    return 5;
}

unsigned sdma_fence(uint32_t *packet, uint64_t to, uint32_t value) {
    packet[0] = 5;
    put_address(&packet[1], to);
    packet[3] = value;
    return 4;
}

unsigned sdma_trap(uint32_t *packet, uint32_t event_id) {
    packet[0] = 6;
    packet[1] = event_id;
    return 2;
}

unsigned sdma_poll(uint32_t *packet, uint64_t address, unsigned function, uint32_t value) {
    packet[0] = 8 | function << 28 | 1u << 31;
    put_address(&packet[1], address);
    packet[3] = value;
    packet[4] = 0xffffffff;
    packet[5] = 4 | 0xfffu << 16; /* retry for ever */
    return 6;
}

unsigned sdma_atomic(uint32_t *packet, unsigned operation, uint64_t address, uint64_t value, uint64_t compare) {
    packet[0] = 10 | operation << 25;
    put_address(&packet[1], address);
    put_address(&packet[3], value);
    put_address(&packet[5], compare);
    packet[7] = 0;
    return 8;
}

unsigned sdma_timestamp(uint32_t *packet, uint64_t to) {
    packet[0] = 13 | 2u << 8;
    put_address(&packet[1], to);
    return 3;
}
