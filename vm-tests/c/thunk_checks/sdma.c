/* SDMA queues at work: every packet that ROCm's runtimes use. */
#include "check.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define BUFFER (1u << 20)
#define NOT_YET_US 50000

/* GFX9's cache operations (TC_OP_*): numbers as SDMA_ATOMIC_ADD64 of sdma_registers.h. */
enum { SWAP_64 = 39, CMPSWAP_64 = 40, ADD_64 = 47, SUB_64 = 48, SMIN_64 = 49, UMIN_64 = 50, SMAX_64 = 51,
       UMAX_64 = 52, AND_64 = 53, OR_64 = 54, XOR_64 = 55 };

static uint64_t at(const volatile void *address) { return (uintptr_t)address; }

static void put_and_wait(struct ring *ring, const uint32_t *packet, unsigned words, const char *id) {
    ring_put(ring, packet, words);
    check_true(id, ring_drain(ring));
}

static void fill_pattern(uint8_t *bytes, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(rand_r(&seed) >> 8);
}

static void copies(struct ring *ring) {
    static const uint32_t sizes[] = {1, 3, 4, 64, 4095, 4096, 65539, BUFFER - 64};
    uint8_t *from = gpu_alloc(0, BUFFER, paged_flags());
    uint8_t *to = gpu_alloc(0, BUFFER, gtt_flags());
    uint8_t *vram = gpu_alloc((HSAuint32)gpu_node, BUFFER, vram_flags(false));
    /* Not where the heap is private. */
    uint8_t *public = gpu_try_alloc((HSAuint32)gpu_node, BUFFER, vram_flags(true));
    uint8_t *second = public ? public : gpu_alloc((HSAuint32)gpu_node, BUFFER, vram_flags(false));
    uint32_t packet[SDMA_MAX];
    char id[64];
    fill_pattern(from, BUFFER, 1);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(to, 0xee, BUFFER);
        snprintf(id, sizeof(id), "sdma.copy.%u", sizes[i]);
        put_and_wait(ring, packet, sdma_copy(packet, at(to + 16), at(from + 5), sizes[i]), id);
        snprintf(id, sizeof(id), "sdma.copy.%u.equal", sizes[i]);
        check_true(id, memcmp(to + 16, from + 5, sizes[i]) == 0);
        snprintf(id, sizeof(id), "sdma.copy.%u.nothing-around", sizes[i]);
        check_true(id, all_bytes_are(to, 16, 0xee) && all_bytes_are(to + 16 + sizes[i], 32, 0xee));
    }
    memset(to, 0, BUFFER);
    ring_put(ring, packet, sdma_copy(packet, at(vram), at(from), BUFFER));
    ring_put(ring, packet, sdma_copy(packet, at(second), at(vram), BUFFER));
    put_and_wait(ring, packet, sdma_copy(packet, at(to), at(second), BUFFER), "sdma.copy.through-vram");
    check_true("sdma.copy.through-vram.equal", memcmp(to, from, BUFFER) == 0);
    if (public)
        check_true("sdma.copy.host-reads-vram", memcmp(public, from, BUFFER) == 0);
    gpu_free(from, BUFFER);
    gpu_free(to, BUFFER);
    gpu_free(vram, BUFFER);
    gpu_free(second, BUFFER);
}

static void stores(struct ring *ring, volatile uint32_t *words) {
    static const uint32_t data[3] = {0x11111111, 0x22222222, 0x33333333};
    uint32_t packet[SDMA_MAX];

    memset((void *)words, 0, PAGE);
    put_and_wait(ring, packet, sdma_write(packet, at(words), data, 3), "sdma.write");
    check_true("sdma.write.equal", memcmp((const void *)words, data, sizeof(data)) == 0 && words[3] == 0);
    put_and_wait(ring, packet, sdma_fill(packet, at(&words[16]), 0xa5a5a5a5, 256), "sdma.fill");
    check_true("sdma.fill.equal", all_bytes_are((const void *)&words[16], 256, 0xa5));
    check_hex("sdma.fill.next-word", words[16 + 64]);
    put_and_wait(ring, packet, sdma_fence(packet, at(&words[200]), 0xdeadbeef), "sdma.fence");
    check_hex("sdma.fence.value", words[200]);
    check_hex("sdma.fence.next-word", words[201]);
}

static void atomics(struct ring *ring, volatile uint64_t *word) {
    static const struct {
        const char *name;
        unsigned operation;
        uint64_t before, operand, compare;
    } cases[] = {
        {"add", ADD_64, 10, 5, 0},
        {"add-wraps", ADD_64, ~0ull, 2, 0},
        {"sub", SUB_64, 10, 3, 0},
        {"swap", SWAP_64, 10, 99, 0},
        {"cmpswap-equal", CMPSWAP_64, 10, 99, 10},
        {"cmpswap-other", CMPSWAP_64, 10, 99, 11},
        {"smin", SMIN_64, ~0ull, 1, 0},
        {"umin", UMIN_64, ~0ull, 1, 0},
        {"smax", SMAX_64, ~0ull, 1, 0},
        {"umax", UMAX_64, ~0ull, 1, 0},
        {"and", AND_64, 0xff0, 0x0ff, 0},
        {"or", OR_64, 0xff0, 0x0ff, 0},
        {"xor", XOR_64, 0xff0, 0x0ff, 0},
    };
    uint32_t packet[SDMA_MAX];
    char id[64];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        word[0] = cases[i].before;
        word[1] = 0x7777;
        ring_put(ring, packet,
                 sdma_atomic(packet, cases[i].operation, at(word), cases[i].operand, cases[i].compare));
        ring_drain(ring);
        snprintf(id, sizeof(id), "sdma.atomic.%s", cases[i].name);
        check_hex(id, word[0]);
    }
    check_hex("sdma.atomic.next-word", word[1]);
}

static void polls(struct ring *ring, volatile uint32_t *words) {
    /* function 3: equal; 5: greater or equal */
    static const struct {
        const char *name;
        unsigned function;
        uint32_t before, reference, after;
    } cases[] = {{"equal", 3, 1, 7, 7}, {"greater-or-equal", 5, 6, 7, 9}};
    uint32_t packet[SDMA_MAX];
    char id[64];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        words[0] = cases[i].before;
        words[1] = 0;
        ring_put(ring, packet, sdma_poll(packet, at(&words[0]), cases[i].function, cases[i].reference));
        ring_put(ring, packet, sdma_fence(packet, at(&words[1]), 1));
        ring_submit(ring);
        usleep(NOT_YET_US);
        snprintf(id, sizeof(id), "sdma.poll.%s.holds-back", cases[i].name);
        check_u64(id, words[1]);
        __atomic_store_n(&words[0], cases[i].after, __ATOMIC_RELEASE);
        snprintf(id, sizeof(id), "sdma.poll.%s.goes-on", cases[i].name);
        check_true(id, wait_word(&words[1], 1));
    }
    ring_drain(ring);
}

static void timestamps(struct ring *ring, volatile uint64_t *words) {
    HsaClockCounters before, after;
    uint32_t packet[SDMA_MAX];
    words[0] = words[1] = 0;
    hsaKmtGetClockCounters((HSAuint32)gpu_node, &before);
    ring_put(ring, packet, sdma_timestamp(packet, at(&words[0])));
    ring_drain(ring);
    usleep(20000);
    ring_put(ring, packet, sdma_timestamp(packet, at(&words[1])));
    ring_drain(ring);
    hsaKmtGetClockCounters((HSAuint32)gpu_node, &after);
    check_true("sdma.timestamp.grows", words[1] > words[0] && words[0] > 0);
    /* 100 MHz: 20 ms are 2,000,000 ticks. */
    check_true("sdma.timestamp.rate", words[1] - words[0] >= 1900000);
    check_true("sdma.timestamp.is-clock-counter",
               before.GPUClockCounter <= words[0] && words[1] <= after.GPUClockCounter);
}

/* A fence into the event's mailbox and a trap: how ROCr's SDMA copies wake a sleeping thread. */
static void traps(struct ring *ring) {
    HsaEventDescriptor descriptor;
    HsaEvent *event = NULL;
    uint32_t packet[SDMA_MAX];
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    hsaKmtCreateEvent(&descriptor, false, false, &event);
    check_status("sdma.trap.before", hsaKmtWaitOnEvent(event, 0));
    ring_put(ring, packet, sdma_fence(packet, event->EventData.HWData2, event->EventId));
    ring_put(ring, packet, sdma_trap(packet, event->EventId));
    ring_submit(ring);
    check_status("sdma.trap.wakes", hsaKmtWaitOnEvent(event, GPU_WAIT_MS));
    check_status("sdma.trap.once", hsaKmtWaitOnEvent(event, 0));
    hsaKmtDestroyEvent(event);
    ring_drain(ring);
}

/* 4,096 bytes of ring, many times over. */
static void wraps(struct ring *ring, volatile uint64_t *word) {
    uint32_t packet[SDMA_MAX];
    word[0] = 0;
    for (int i = 0; i < 3000; i++)
        ring_put(ring, packet, sdma_atomic(packet, ADD_64, at(word), 1, 0));
    check_true("sdma.wrap.drains", ring_drain(ring));
    check_u64("sdma.wrap.sum", word[0]);
}

static void queues_together(volatile uint64_t *word) {
    enum { QUEUES = 4 };
    struct ring rings[QUEUES];
    uint32_t packet[SDMA_MAX];
    bool drained = true;
    word[0] = 0;
    for (int q = 0; q < QUEUES; q++)
        ring_create(&rings[q], HSA_QUEUE_SDMA, PAGE);
    for (int i = 0; i < 500; i++)
        for (int q = 0; q < QUEUES; q++)
            ring_put(&rings[q], packet, sdma_atomic(packet, ADD_64, at(word), 1, 0));
    for (int q = 0; q < QUEUES; q++) {
        drained = ring_drain(&rings[q]) && drained;
        ring_destroy(&rings[q]);
    }
    check_true("sdma.four-queues.drain", drained);
    check_u64("sdma.four-queues.sum", word[0]);
}

void sdma_checks(void) {
    struct ring ring, xgmi;
    uint32_t packet[SDMA_MAX];
    uint32_t *words = gpu_alloc(0, PAGE, paged_flags());
    check_status("sdma.create", ring_create(&ring, HSA_QUEUE_SDMA, PAGE));
    copies(&ring);
    stores(&ring, words);
    atomics(&ring, (volatile uint64_t *)words);
    polls(&ring, words);
    timestamps(&ring, (volatile uint64_t *)words);
    traps(&ring);
    wraps(&ring, (volatile uint64_t *)words);
    queues_together((volatile uint64_t *)words);
    check_status("sdma.xgmi.create", ring_create(&xgmi, HSA_QUEUE_SDMA_XGMI, PAGE));
    words[0] = 0;
    put_and_wait(&xgmi, packet, sdma_fence(packet, at(words), 77), "sdma.xgmi.fence");
    check_u64("sdma.xgmi.fence.value", words[0]);
    ring_destroy(&xgmi);
    ring_destroy(&ring);
    gpu_free(words, PAGE);
}
