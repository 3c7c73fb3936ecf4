/* The program's own memory, incremented by the CPU and by the GPU at the same time: no increment is lost. */
#include "check.h"
#include "gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define TIMES 1000000u
#define RING_BYTES (64u << 10)
#define ADD_64 47

static volatile bool started;

static void *cpu_increments(void *counter) {
    while (!started)
        ;
    for (unsigned i = 0; i < TIMES; i++)
        __atomic_fetch_add((uint64_t *)counter, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static bool gpu_increments(struct ring *ring, uint64_t address) {
    uint32_t packet[SDMA_MAX];
    const unsigned words = sdma_atomic(packet, ADD_64, address, 1, 0);
    for (unsigned i = 0; i < TIMES; i++) {
        ring_put(ring, packet, words);
        if (i % 512 == 0)
            ring_submit(ring);
    }
    return ring_drain(ring);
}

static void together(struct ring *ring, const char *kind, char *mem, size_t size, size_t offset) {
    volatile uint64_t *counter = (volatile uint64_t *)(mem + offset);
    HSAuint64 gpu_address = 0;
    pthread_t thread;
    char id[64];

    memset(mem, 0x42, size);
    *counter = 1000;
    snprintf(id, sizeof(id), "increment.%s.register", kind);
    check_status(id, hsaKmtRegisterMemory(mem, size));
    snprintf(id, sizeof(id), "increment.%s.map", kind);
    const HSAKMT_STATUS mapped = hsaKmtMapMemoryToGPU(mem, size, &gpu_address);
    check_status(id, mapped);
    if (mapped != HSAKMT_STATUS_SUCCESS)
        return;
    started = false;
    pthread_create(&thread, NULL, cpu_increments, (void *)counter);
    started = true;
    snprintf(id, sizeof(id), "increment.%s.gpu-done", kind);
    check_true(id, gpu_increments(ring, gpu_address + offset));
    pthread_join(thread, NULL);
    snprintf(id, sizeof(id), "increment.%s.sum", kind);
    check_u64(id, *counter);
    *counter = 0x4242424242424242;
    snprintf(id, sizeof(id), "increment.%s.rest-unchanged", kind);
    check_true(id, all_bytes_are(mem, size, 0x42));
    snprintf(id, sizeof(id), "increment.%s.unmap", kind);
    check_status(id, hsaKmtUnmapMemoryToGPU(mem));
    snprintf(id, sizeof(id), "increment.%s.deregister", kind);
    check_status(id, hsaKmtDeregisterMemory(mem));
    snprintf(id, sizeof(id), "increment.%s.still-there", kind);
    check_true(id, all_bytes_are(mem, size, 0x42));
}

void increment_checks(void) {
    struct ring ring;
    check_status("increment.queue", ring_create(&ring, HSA_QUEUE_SDMA, RING_BYTES));
    /* Small: shares its pages with the allocator. */
    char *mem = malloc(1000);
    together(&ring, "malloc", mem + (-(uintptr_t)mem & 7), 992, 400);
    free(mem);
    mem = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    together(&ring, "mmap", mem, 16 * PAGE, 5 * PAGE + 128);
    munmap(mem, 16 * PAGE);
    ring_destroy(&ring);
}
