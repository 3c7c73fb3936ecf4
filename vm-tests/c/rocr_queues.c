/* Queues through the HSA runtime: barriers with sleeping and spinning waits, copies by SDMA in both directions, and one
 * error, named by the argument, as the runtime tells the program of it: dispatch, packet, vendor or fault.
 *
 * Prints one line for each thing that is established. Time-outs are long: they only end a run that hangs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hsa_calls.h"

#define TICKS_TO_WAIT 60000000000ull
#define BARRIERS 2000
#define BYTES (8u << 20)

static hsa_agent_t gpu, cpu;
static hsa_pool_t pool;
static volatile int queue_error;
static volatile uint64_t fault_address;
static volatile uint32_t fault_reason;

static int agent(hsa_agent_t agent, void *data)
{
	int device = -1;

	(void)data;
	need(hsa_agent_get_info(agent, HSA_INFO_DEVICE, &device), "hsa_agent_get_info");
	if (device == HSA_DEVICE_GPU && !gpu.handle)
		gpu = agent;
	if (device == HSA_DEVICE_CPU && !cpu.handle)
		cpu = agent;
	return HSA_SUCCESS;
}

static int first_pool(hsa_pool_t each, void *data)
{
	int segment = -1;
	bool allowed = false;

	(void)data;
	need(hsa_amd_memory_pool_get_info(each, HSA_POOL_SEGMENT, &segment), "segment");
	need(hsa_amd_memory_pool_get_info(each, HSA_POOL_ALLOC_ALLOWED, &allowed), "allocation");
	if (segment == HSA_SEGMENT_GLOBAL && allowed && !pool.handle)
		pool = each;
	return HSA_SUCCESS;
}

static void *allocate(hsa_agent_t agent, size_t size)
{
	void *memory = NULL;

	pool.handle = 0;
	need(hsa_amd_agent_iterate_memory_pools(agent, first_pool, NULL), "pools");
	need(hsa_amd_memory_pool_allocate(pool, size, 0, &memory), "hsa_amd_memory_pool_allocate");
	return memory;
}

static void on_queue_error(int status, hsa_queue_t *queue, void *data)
{
	(void)queue;
	(void)data;
	queue_error = status;
}

static int on_event(const hsa_event_t *event, void *data)
{
	(void)data;
	fault_reason = event->fault_reason_mask;
	fault_address = event->virtual_address;
	return HSA_SUCCESS;
}

static int64_t wait_for(hsa_signal_t signal, int state)
{
	return hsa_signal_wait_scacquire(signal, HSA_LESS_THAN, 1, TICKS_TO_WAIT, state);
}

static void barriers(hsa_queue_t *queue, hsa_signal_t done)
{
	uint32_t packet[16] = { 3 | 1 << 8 | 2 << 9 | 2 << 11 };
	struct timespec start, end;

	memcpy(packet + 14, &done, 8);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < BARRIERS; i++) {
		hsa_signal_store_relaxed(done, 1);
		hsa_submit(queue, packet);
		if (wait_for(done, i % 2 ? HSA_WAIT_BLOCKED : HSA_WAIT_ACTIVE) != 0) {
			printf("barrier %d does not complete\n", i);
			_exit(1);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%d barriers\n", BARRIERS);
	fprintf(stderr, "%.1f us a barrier\n",
		((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / 1e3 / BARRIERS);
}

static void copies(hsa_signal_t done)
{
	uint32_t *from = allocate(cpu, BYTES), *back = allocate(cpu, BYTES), *local = allocate(gpu, BYTES);
	hsa_copy_time_t took;
	hsa_signal_t second;

	need(hsa_amd_agents_allow_access(1, &gpu, NULL, from), "access");
	need(hsa_amd_agents_allow_access(1, &gpu, NULL, back), "access");
	for (uint32_t i = 0; i < BYTES / 4; i++)
		from[i] = i * 2654435761u;
	need(hsa_signal_create(1, 0, NULL, &second), "hsa_signal_create");
	need(hsa_amd_profiling_async_copy_enable(true), "profiling");
	hsa_signal_store_relaxed(done, 1);
	need(hsa_amd_memory_async_copy(local, gpu, from, cpu, BYTES, 0, NULL, done), "copy to the GPU");
	/* The second waits for the first on the GPU. */
	need(hsa_amd_memory_async_copy(back, cpu, local, gpu, BYTES, 1, &done, second), "copy from the GPU");
	if (wait_for(second, HSA_WAIT_BLOCKED) != 0) {
		printf("copies do not complete\n");
		_exit(1);
	}
	need(hsa_amd_profiling_get_async_copy_time(done, &took), "time");
	printf("copies %s and %s time\n", memcmp(from, back, BYTES) ? "differ" : "arrive",
	       took.end > took.start ? "take" : "take no");
}

static void fail(hsa_queue_t *queue, const char *how)
{
	uint32_t packet[16] = { 0 };

	if (!strcmp(how, "dispatch")) {
		/* One work-item of no kernel. */
		packet[0] = 2 | 1 << 16;
		packet[1] = 1 | 1 << 16;
		packet[2] = packet[3] = packet[4] = packet[5] = 1;
	} else if (!strcmp(how, "packet")) {
		packet[0] = 9;
	} else if (!strcmp(how, "vendor")) {
		packet[0] = 77 << 16;
	} else {
		/* A barrier on a signal that is not mapped. */
		packet[0] = 3;
		packet[2] = 0x123000;
	}
	hsa_submit(queue, packet);
	for (int i = 0; i < 6000 && !queue_error && !fault_address; i++)
		usleep(10000);
	printf("%s: queue error %#x, fault at %#llx, reason %#x\n", how, queue_error,
	       (unsigned long long)fault_address, fault_reason);
}

int main(int argc, char **argv)
{
	hsa_queue_t *queue;
	hsa_signal_t done;

	setvbuf(stdout, NULL, _IONBF, 0);
	need(hsa_init(), "hsa_init");
	need(hsa_iterate_agents(agent, NULL), "hsa_iterate_agents");
	need(hsa_queue_create(gpu, 256, 0, on_queue_error, NULL, UINT32_MAX, UINT32_MAX, &queue), "hsa_queue_create");
	need(hsa_signal_create(1, 0, NULL, &done), "hsa_signal_create");
	barriers(queue, done);
	copies(done);
	need(hsa_amd_register_system_event_handler(on_event, NULL), "event handler");
	fail(queue, argc > 1 ? argv[1] : "dispatch");
	need(hsa_queue_destroy(queue), "hsa_queue_destroy");
	need(hsa_shut_down(), "hsa_shut_down");
	printf("end\n");
	return 0;
}
