/* Memory and queues of a GPU, for the parts that use them. */
#ifndef KFDVIRT_THUNK_CHECKS_GPU_H
#define KFDVIRT_THUNK_CHECKS_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hsakmt.h>

/* Host memory that can be swapped out: a userptr buffer. */
HsaMemFlags paged_flags(void);
/* Host memory that stays: GTT. */
HsaMemFlags gtt_flags(void);
/* The GPU's own memory, mapped for the host or not. */
HsaMemFlags vram_flags(bool host);

/* Allocated and mapped to all GPUs, or NULL. */
void *gpu_try_alloc(HSAuint32 node, uint64_t size, HsaMemFlags flags);
/* The same; ends the program if it fails. */
void *gpu_alloc(HSAuint32 node, uint64_t size, HsaMemFlags flags);
void gpu_free(void *mem, uint64_t size);

bool all_bytes_are(const void *mem, size_t size, uint8_t byte);

/* Waits until the word has the value. False after `GPU_WAIT_MS`. */
#define GPU_WAIT_MS 30000
bool wait_word(const volatile uint32_t *word, uint32_t value);
bool wait_long(const volatile uint64_t *word, uint64_t value);

/* An SDMA or PM4 queue: words go into its ring. */
struct ring {
    HsaQueueResource resource;
    uint32_t *words;
    uint32_t size;       /* bytes, a power of two */
    uint64_t write;      /* dwords since the start, as far as they are in the ring */
    bool bytes;          /* pointers and doorbell count bytes (SDMA), not dwords (PM4) */
};

HSAKMT_STATUS ring_create(struct ring *ring, HSA_QUEUE_TYPE type, uint32_t size);
void ring_destroy(struct ring *ring);
/* Puts a packet into the ring, when there is room, padded so that it does not wrap. */
void ring_put(struct ring *ring, const uint32_t *packet, unsigned words);
/* Tells the GPU. */
void ring_submit(struct ring *ring);
/* Waits until all is read. */
bool ring_drain(struct ring *ring);

/* An AQL queue with its amd_queue_t. */
struct aql_queue {
    HsaQueueResource resource;
    uint8_t *packets;
    uint8_t *descriptor; /* a page; amd_queue_t */
    uint32_t count;      /* packets in the ring */
    uint64_t index;      /* the next packet */
};

HSAKMT_STATUS aql_create(struct aql_queue *queue, uint32_t count);
void aql_destroy(struct aql_queue *queue);
volatile uint64_t *aql_read_index(const struct aql_queue *queue);

/* amd_signal_t of amd_hsa_signal.h. */
struct signal {
    int64_t kind;
    volatile int64_t value;
    uint64_t event_mailbox;
    uint32_t event_id;
    uint32_t reserved1;
    uint64_t start_ts;
    uint64_t end_ts;
    uint64_t reserved2;
    uint64_t reserved3[1];
};

#define AQL_BARRIER_AND 3
#define AQL_BARRIER_OR 5
/* Puts a barrier packet that waits for `signals` (up to 5) and then decrements `done`, and rings. */
void aql_barrier(struct aql_queue *queue, unsigned type, struct signal *const *signals, unsigned count,
                 struct signal *done);
bool wait_signal(const struct signal *signal, int64_t value);

/* SDMA packets (sdma_registers.h of ROCr); each returns its words. */
#define SDMA_MAX 16
unsigned sdma_copy(uint32_t *packet, uint64_t to, uint64_t from, uint32_t bytes);
unsigned sdma_write(uint32_t *packet, uint64_t to, const uint32_t *data, unsigned words);
unsigned sdma_fill(uint32_t *packet, uint64_t to, uint32_t value, uint32_t bytes);
unsigned sdma_fence(uint32_t *packet, uint64_t to, uint32_t value);
unsigned sdma_trap(uint32_t *packet, uint32_t event_id);
unsigned sdma_poll(uint32_t *packet, uint64_t address, unsigned function, uint32_t value);
unsigned sdma_atomic(uint32_t *packet, unsigned operation, uint64_t address, uint64_t value, uint64_t compare);
unsigned sdma_timestamp(uint32_t *packet, uint64_t to);

#endif
