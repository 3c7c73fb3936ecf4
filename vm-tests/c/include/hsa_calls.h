/* The part of the HSA runtime's interface that our programs use: declarations from the HSA Runtime specification 1.2
 * and AMD's extensions, so that nothing but Debian's runtime package (libhsa-runtime64-1) is needed. */
#ifndef HSA_CALLS_H
#define HSA_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

typedef struct { uint64_t handle; } hsa_agent_t;
typedef struct { uint64_t handle; } hsa_signal_t;
typedef struct { uint64_t handle; } hsa_pool_t;

typedef struct {
	uint32_t type, features;
	void *base_address;
	hsa_signal_t doorbell_signal;
	uint32_t size, reserved;
	uint64_t id;
} hsa_queue_t;

typedef struct {
	int type; /* 0: memory fault */
	hsa_agent_t agent;
	uint64_t virtual_address;
	uint32_t fault_reason_mask; /* bit 0: page not present */
} hsa_event_t;

typedef struct { uint64_t start, end; } hsa_copy_time_t;

enum { HSA_SUCCESS = 0, HSA_INFO_NAME = 0, HSA_INFO_DEVICE = 17, HSA_DEVICE_CPU = 0, HSA_DEVICE_GPU = 1 };
enum { HSA_POOL_SEGMENT = 0, HSA_POOL_GLOBAL_FLAGS = 1, HSA_POOL_SIZE = 2, HSA_POOL_ALLOC_ALLOWED = 5 };
enum { HSA_SEGMENT_GLOBAL = 0, HSA_POOL_KERNARG = 1, HSA_POOL_FINE_GRAINED = 2, HSA_POOL_COARSE_GRAINED = 4 };
enum { HSA_LESS_THAN = 2, HSA_WAIT_BLOCKED = 0, HSA_WAIT_ACTIVE = 1 };
enum { HSA_PACKET_BARRIER_AND = 3, HSA_PACKET_BARRIER_OR = 5 };

int hsa_init(void);
int hsa_shut_down(void);
int hsa_iterate_agents(int (*each)(hsa_agent_t, void *), void *data);
int hsa_agent_get_info(hsa_agent_t, int attribute, void *value);
int hsa_amd_agent_iterate_memory_pools(hsa_agent_t, int (*each)(hsa_pool_t, void *), void *data);
int hsa_amd_memory_pool_get_info(hsa_pool_t, int attribute, void *value);
int hsa_amd_memory_pool_allocate(hsa_pool_t, size_t, uint32_t flags, void **);
int hsa_amd_memory_pool_free(void *);
int hsa_amd_agents_allow_access(uint32_t count, const hsa_agent_t *, const uint32_t *flags, const void *);
int hsa_amd_memory_async_copy(void *dst, hsa_agent_t, const void *src, hsa_agent_t, size_t, uint32_t dep_count,
			      const hsa_signal_t *deps, hsa_signal_t completion);
int hsa_amd_profiling_async_copy_enable(bool);
int hsa_amd_profiling_get_async_copy_time(hsa_signal_t, hsa_copy_time_t *);
int hsa_amd_register_system_event_handler(int (*handler)(const hsa_event_t *, void *), void *data);
int hsa_queue_create(hsa_agent_t, uint32_t size, uint32_t type, void (*error)(int, hsa_queue_t *, void *), void *data,
		     uint32_t private_size, uint32_t group_size, hsa_queue_t **);
int hsa_queue_destroy(hsa_queue_t *);
uint64_t hsa_queue_add_write_index_relaxed(const hsa_queue_t *, uint64_t);
uint64_t hsa_queue_load_read_index_relaxed(const hsa_queue_t *);
int hsa_signal_create(int64_t value, uint32_t consumer_count, const hsa_agent_t *, hsa_signal_t *);
int hsa_signal_destroy(hsa_signal_t);
int64_t hsa_signal_load_relaxed(hsa_signal_t);
void hsa_signal_store_relaxed(hsa_signal_t, int64_t);
void hsa_signal_store_screlease(hsa_signal_t, int64_t);
int64_t hsa_signal_wait_scacquire(hsa_signal_t, int condition, int64_t, uint64_t timeout, int state);

/* Ends the program if a call failed. */
static inline void need(int status, const char *what)
{
	if (status == HSA_SUCCESS)
		return;
	printf("%s: status %#x\n", what, status);
	fflush(stdout);
	_exit(1);
}

/* Puts a packet into a queue: all words but the first, then that one, then the doorbell. Waits while the queue is full. */
static inline void hsa_submit(hsa_queue_t *queue, const uint32_t packet[16])
{
	uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
	uint32_t *slot = (uint32_t *)queue->base_address + index % queue->size * 16;

	while (index - hsa_queue_load_read_index_relaxed(queue) >= queue->size)
		usleep(10);
	for (int i = 1; i < 16; i++)
		slot[i] = packet[i];
	__atomic_store_n(slot, packet[0], __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, index);
}

#endif
