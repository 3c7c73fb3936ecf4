/* GPU memory, copies, barriers and waits through the HSA runtime alone: no kernel is dispatched.
 *
 *   hsa_copy                            everything once, with a table of times
 *   hsa_copy stress SECONDS THREADS     threads that allocate, copy, wait and free
 *   hsa_copy waits THREADS              as many threads asleep, woken in random order
 *   hsa_copy endless                    copies without end, until it is killed
 *   hsa_copy writes                     the GPU writes 256 MiB of host memory without end, until it is killed
 *
 * It exits with 0 only if every byte and every signal was right, and says otherwise what was not. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hsa_copy.h"

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("WRONG: ");
	vprintf(format, arguments);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

int64_t sleep_until_done(hsa_signal_t signal)
{
	return hsa_signal_wait_scacquire(signal, HSA_LESS_THAN, 1, TICKS_TO_WAIT, HSA_WAIT_BLOCKED);
}

static int each_agent(hsa_agent_t agent, void *data)
{
	struct machine *machine = data;
	int device = -1;

	need(hsa_agent_get_info(agent, HSA_INFO_DEVICE, &device), "kind of an agent");
	if (device == HSA_DEVICE_CPU && !machine->cpu.handle)
		machine->cpu = agent;
	if (device == HSA_DEVICE_GPU && machine->gpu.handle == machine->peer.handle) {
		machine->peer = agent;
		if (!machine->gpu.handle)
			machine->gpu = agent;
	}
	return HSA_SUCCESS;
}

static int each_pool(hsa_pool_t pool, void *data)
{
	hsa_pool_t *found = data;
	int segment = -1;
	uint32_t flags = 0;
	bool allowed = false;

	need(hsa_amd_memory_pool_get_info(pool, HSA_POOL_SEGMENT, &segment), "segment of a pool");
	need(hsa_amd_memory_pool_get_info(pool, HSA_POOL_ALLOC_ALLOWED, &allowed), "whether a pool allocates");
	if (segment != HSA_SEGMENT_GLOBAL || !allowed || found->handle)
		return HSA_SUCCESS;
	need(hsa_amd_memory_pool_get_info(pool, HSA_POOL_GLOBAL_FLAGS, &flags), "flags of a pool");
	if (!(flags & HSA_POOL_KERNARG))
		*found = pool;
	return HSA_SUCCESS;
}

static hsa_pool_t pool_of(hsa_agent_t agent, const char *name)
{
	hsa_pool_t pool = { 0 };

	need(hsa_amd_agent_iterate_memory_pools(agent, each_pool, &pool), "memory pools");
	if (!pool.handle)
		fail("%s has no pool to allocate from", name);
	return pool;
}

void find_machine(struct machine *machine, bool print)
{
	uint64_t size = 0;

	memset(machine, 0, sizeof *machine);
	need(hsa_iterate_agents(each_agent, machine), "agents");
	if (!machine->cpu.handle || !machine->gpu.handle)
		fail("there is no %s", machine->cpu.handle ? "GPU" : "CPU");
	need(hsa_agent_get_info(machine->cpu, HSA_INFO_NAME, machine->cpu_name), "name of the CPU");
	need(hsa_agent_get_info(machine->gpu, HSA_INFO_NAME, machine->gpu_name), "name of the GPU");
	machine->cpu_pool = pool_of(machine->cpu, machine->cpu_name);
	machine->gpu_pool = pool_of(machine->gpu, machine->gpu_name);
	machine->peer_pool = pool_of(machine->peer, "the second GPU");
	need(hsa_amd_memory_pool_get_info(machine->gpu_pool, HSA_POOL_SIZE, &size), "size of a pool");
	if (print)
		printf("CPU %s, GPU %s with %.1f GiB%s\n", machine->cpu_name, machine->gpu_name,
		       size / (double)(1 << 30), machine->gpu.handle == machine->peer.handle ? "" : ", and a second");
}

void *allocate(hsa_pool_t pool, size_t bytes, const hsa_agent_t *users, uint32_t count)
{
	void *memory = NULL;

	need(hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory), "memory of a pool");
	if (count)
		need(hsa_amd_agents_allow_access(count, users, NULL, memory), "access to memory");
	return memory;
}

static void on_queue_error(int status, hsa_queue_t *queue, void *data)
{
	(void)queue;
	(void)data;
	fail("the queue stopped with status %#x", status);
}

hsa_queue_t *open_queue(const struct machine *machine, uint32_t packets)
{
	hsa_queue_t *queue = NULL;

	need(hsa_queue_create(machine->gpu, packets, 0, on_queue_error, NULL, UINT32_MAX, UINT32_MAX, &queue), "a queue");
	return queue;
}

void close_queue(hsa_queue_t *queue)
{
	/* Two signals of a queue share one event. A runtime without event ages can lose the wake-up of hsa_queue_destroy for
	 * that (ROCr 5.2.3, ~AqlQueue), about once in a hundred times here; its queues end with the program. This function
	 * came with the ages, and is not called. */
	if (dlsym(RTLD_DEFAULT, "hsa_amd_memory_async_copy_on_engine"))
		need(hsa_queue_destroy(queue), "the end of a queue");
}

void submit_barrier(hsa_queue_t *queue, int type, const hsa_signal_t *deps, int count, hsa_signal_t completion)
{
	/* The barrier bit, and both fences of system scope. */
	uint32_t packet[16] = { (uint32_t)type | 1 << 8 | 2 << 9 | 2 << 11 };

	memcpy(packet + 2, deps, count * sizeof *deps);
	memcpy(packet + 14, &completion, sizeof completion);
	hsa_submit(queue, packet);
}

static void everything(const struct machine *machine)
{
	hsa_queue_t *queue = open_queue(machine, 64);

	copies(machine);
	barriers(queue);
	waits(queue);
	many_waits(16);
	close_queue(queue);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct machine machine;

	setvbuf(stdout, NULL, _IOLBF, 0);
	double start = seconds_now();
	need(hsa_init(), "hsa_init");
	find_machine(&machine, true);
	printf("opened in %.1f ms\n", (seconds_now() - start) * 1e3);
	if (argc == 1)
		everything(&machine);
	else if (argc == 4 && !strcmp(what, "stress"))
		stress(&machine, atoi(argv[2]), atoi(argv[3]));
	else if (argc == 3 && !strcmp(what, "waits"))
		many_waits(atoi(argv[2]));
	else if (argc == 2 && !strcmp(what, "endless"))
		endless(&machine);
	else if (argc == 2 && !strcmp(what, "writes"))
		writes(&machine);
	else
		fail("the arguments: see the top of main.c");
	need(hsa_shut_down(), "hsa_shut_down");
	printf("all right\n");
	return 0;
}
