/* The GPU, its queues and memory. */
#include <stdarg.h>

#include "hsa_queues.h"

/* How long a part may take on a busy machine. */
static const double LIMIT = 60;

enum { ARGUMENTS = 16384, ARGUMENT_BYTES = 64 };

hsa_agent_t gpu;
hsa_pool_t host_pool, local_pool;
hsa_queue_t *queues[QUEUES];
bool prints = true;

static hsa_handle_t executable;
static char *arguments;
static uint32_t arguments_used;

void say(const char *format, ...)
{
	va_list list;

	if (!prints)
		return;
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf("\n");
	fflush(stdout);
}

void fail(const char *format, ...)
{
	va_list list;

	printf("WRONG in process %d: ", which_process());
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

static int each_agent(hsa_agent_t agent, void *data)
{
	int device = -1;

	(void)data;
	need(hsa_agent_get_info(agent, HSA_INFO_DEVICE, &device), "kind of an agent");
	if (device == HSA_DEVICE_GPU && !gpu.handle)
		gpu = agent;
	return HSA_SUCCESS;
}

static uint32_t flags_of(hsa_pool_t pool)
{
	uint32_t segment = 1, flags = 0;

	need(hsa_amd_memory_pool_get_info(pool, HSA_POOL_SEGMENT, &segment), "segment of a pool");
	if (segment != HSA_SEGMENT_GLOBAL)
		return 0;
	need(hsa_amd_memory_pool_get_info(pool, HSA_POOL_GLOBAL_FLAGS, &flags), "flags of a pool");
	return flags;
}

static int each_host_pool(hsa_pool_t pool, void *data)
{
	(void)data;
	if (flags_of(pool) & HSA_POOL_KERNARG)
		host_pool = pool;
	return HSA_SUCCESS;
}

static int each_local_pool(hsa_pool_t pool, void *data)
{
	(void)data;
	if (flags_of(pool) & HSA_POOL_COARSE_GRAINED && !local_pool.handle)
		local_pool = pool;
	return HSA_SUCCESS;
}

static int each_cpu(hsa_agent_t agent, void *data)
{
	int device = -1;

	need(hsa_agent_get_info(agent, HSA_INFO_DEVICE, &device), "kind of an agent");
	if (device == HSA_DEVICE_CPU && !host_pool.handle)
		need(hsa_amd_agent_iterate_memory_pools(agent, each_host_pool, data), "pools");
	return HSA_SUCCESS;
}

void *allocate_host(size_t bytes)
{
	void *memory;

	need(hsa_amd_memory_pool_allocate(host_pool, bytes, 0, &memory), "memory of the host");
	need(hsa_amd_agents_allow_access(1, &gpu, NULL, memory), "access");
	memset(memory, 0, bytes);
	return memory;
}

void *allocate_local(size_t bytes)
{
	void *memory;

	need(hsa_amd_memory_pool_allocate(local_pool, bytes, 0, &memory), "memory of the GPU");
	return memory;
}

void open_gpu(const char *code_object)
{
	need(hsa_init(), "hsa_init");
	need(hsa_iterate_agents(each_agent, NULL), "agents");
	need(hsa_iterate_agents(each_cpu, NULL), "agents");
	if (!gpu.handle || !host_pool.handle)
		fail("there is no GPU");
	need(hsa_amd_agent_iterate_memory_pools(gpu, each_local_pool, NULL), "pools of the GPU");
	executable = hsa_load_code(code_object, gpu);
	arguments = allocate_host(ARGUMENTS * ARGUMENT_BYTES);
}

static void on_queue_error(int status, hsa_queue_t *queue, void *data)
{
	(void)queue;
	(void)data;
	fail("queue error %#x", status);
}

void open_queues(void)
{
	for (int i = 0; i < QUEUES; i++)
		need(hsa_queue_create(gpu, 256, 0, on_queue_error, NULL, UINT32_MAX, UINT32_MAX, &queues[i]), "queue");
}

void close_queues(void)
{
	for (int i = 0; i < QUEUES; i++)
		need(hsa_queue_destroy(queues[i]), "end of a queue");
}

void reuse_arguments(void)
{
	arguments_used = 0;
}

void submit(int queue, int order, const char *kernel, uint32_t groups, uint32_t items, struct arguments what,
	    hsa_signal_t completion)
{
	/* Scopes of the fences: system. */
	uint32_t packet[16] = { HSA_PACKET_DISPATCH | order | 2 << 9 | 2 << 11 | 1 << 16, items | 1 << 16, 1,
				groups * items, 1, 1 };
	char *place = arguments + (size_t)arguments_used++ * ARGUMENT_BYTES;

	if (arguments_used > ARGUMENTS)
		fail("no room for arguments");
	hsa_name_kernel(packet, executable, gpu, kernel);
	memcpy(place, &what, sizeof what);
	memcpy(&packet[10], &place, 8);
	memcpy(&packet[14], &completion, 8);
	hsa_submit(queues[queue], packet);
}

void submit_barrier(int queue, int type, int count, const hsa_signal_t *signals, hsa_signal_t completion)
{
	uint32_t packet[16] = { type | IN_ORDER | 2 << 9 | 2 << 11 };

	memcpy(&packet[2], signals, count * sizeof *signals);
	memcpy(&packet[14], &completion, 8);
	hsa_submit(queues[queue], packet);
}

hsa_signal_t new_signal(int64_t value)
{
	hsa_signal_t signal;

	need(hsa_signal_create(value, 0, NULL, &signal), "signal");
	return signal;
}

volatile void *value_of(hsa_signal_t signal)
{
	return (char *)signal.handle + 8;
}

void wait_zero(hsa_signal_t signal, const char *what)
{
	double end = seconds_now() + LIMIT;
	int64_t value;

	/* The unit of the time-out is the system's clock, which nobody needs to know here: it only ends a sleep. */
	while ((value = hsa_signal_wait_scacquire(signal, HSA_LESS_THAN, 1, 10000000, HSA_WAIT_BLOCKED)) > 0)
		if (seconds_now() > end)
			fail("%s: a signal is still %ld", what, (long)value);
	if (value < 0)
		fail("%s: a signal is %ld", what, (long)value);
}

void wait_word(volatile uint32_t *word, uint32_t value, const char *what)
{
	double end = seconds_now() + LIMIT;

	for (uint32_t looks = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) != value; looks++) {
		if (looks > 1000)
			usleep(20);
		if (looks % 1000 == 0 && seconds_now() > end)
			fail("%s: %u and not %u", what, *word, value);
	}
}
