/* What calls, sleeps, copies and doorbells cost through libhsakmt, natively and in a guest.
 *
 *   vm_bench rows ROUNDS [NODE]     a line for each: `name median least greatest`, in microseconds. NODE is the virtio-gpu device's
 *                                   render node: then the driver's own costs are measured too, in turns with what they are
 *                                   compared with
 *   vm_bench idle none|queue        opens the library, makes a queue that has done its work, prints `idle` and sleeps until killed */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <hsakmt.h>

#include "bench.h"
#include "thunk_status.h"
#include "thunk_use.h"

#define PAGE 4096u
#define HUGE (2u << 20)
#define COPY (32u << 20)
/* Whoever looks for more work without pause has stopped by then: the worker after 50 us, the relay after 20 ms. */
#define NAP_US 2000
#define LONG_NAP_US 100000
#define WAIT_MS 60000
#define TIME_LIMIT_S 900
#define ROUNDS_MAX 5000
#define OPENS 5
#define COPIES 9
/* amd_queue_t (amd_hsa_queue.h) and packets of AQL (hsa.h). */
#define QUEUE_WRITE_DISPATCH_ID 56
#define QUEUE_READ_DISPATCH_ID 128
#define QUEUE_READ_DISPATCH_ID_OFFSET 136
#define PACKETS 64
#define PACKET 64
#define INVALID 1u
#define BARRIER_AND (3u | 1u << 8 | 2u << 9 | 2u << 11)

/* amd_signal_t of amd_hsa_signal.h. */
struct signal {
	int64_t kind, value;
	uint64_t mailbox;
	uint32_t event, reserved1;
	uint64_t times[2], reserved[2];
};

static HSAuint32 gpu;
static unsigned rounds;
static bool raw;

double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void stop(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

/* Rows. */

struct row {
	const char *name;
	unsigned count;
	double took[ROUNDS_MAX];
};

static void add(struct row *row, double took)
{
	if (row->count < ROUNDS_MAX)
		row->took[row->count++] = took;
}

static int by_size(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void print(struct row *row)
{
	if (!row->count)
		return;
	qsort(row->took, row->count, sizeof(row->took[0]), by_size);
	printf("%s %.3f %.3f %.3f\n", row->name, row->took[row->count / 2], row->took[0], row->took[row->count - 1]);
	row->count = 0;
}

static void time_into(struct row *row, void (*step)(void))
{
	const double start = now_us();

	step();
	add(row, now_us() - start);
}

/* Memory. */

static void *try_allocate(HSAuint32 node, HsaMemFlags flags, uint64_t size)
{
	void *memory = NULL;

	if (hsaKmtAllocMemory(node, size, flags, &memory) != HSAKMT_STATUS_SUCCESS)
		return NULL;
	need(hsaKmtMapMemoryToGPU(memory, size, NULL), "hsaKmtMapMemoryToGPU");
	return memory;
}

static void *allocate(uint64_t size)
{
	void *memory = try_allocate(0, flags_of(false, true), size);

	if (!memory)
		stop("there is no memory");
	return memory;
}

static void release(void *memory, uint64_t size)
{
	need(hsaKmtUnmapMemoryToGPU(memory), "hsaKmtUnmapMemoryToGPU");
	need(hsaKmtFreeMemory(memory, size), "hsaKmtFreeMemory");
}

static void system_2m(void) { release(allocate(HUGE), HUGE); }

static void vram_2m(void)
{
	void *memory = try_allocate(gpu, flags_of(true, false), HUGE);

	if (!memory)
		stop("the GPU has no memory");
	release(memory, HUGE);
}

static void allocations(void)
{
	static struct row system = { .name = "system-2m" }, vram = { .name = "vram-2m" };

	for (unsigned i = 0; i < rounds; i++) {
		time_into(&system, system_2m);
		time_into(&vram, vram_2m);
	}
	print(&system);
	print(&vram);
}

/* Copies of the CPU, into memory that GPUs see too and into memory of the program's own. */
static void copies(void)
{
	static struct row own = { .name = "copy-own" }, shared = { .name = "copy-system" }, vram = { .name = "copy-vram" };
	const int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *from = mmap(NULL, COPY, access, flags, -1, 0), *to = mmap(NULL, COPY, access, flags, -1, 0);
	char *system = allocate(COPY), *seen = try_allocate(gpu, flags_of(true, true), COPY);

	if (from == MAP_FAILED || to == MAP_FAILED)
		stop("there is no memory");
	memset(from, 1, COPY);
	/* The first round finds pages that were never touched, and is not counted. */
	for (unsigned i = 0; i <= COPIES; i++) {
		const double start = now_us();
		memcpy(to, from, COPY);
		const double copied = now_us();
		memcpy(system, from, COPY);
		const double again = now_us();
		if (seen)
			memcpy(seen, from, COPY);
		if (!i)
			continue;
		add(&own, copied - start);
		add(&shared, again - copied);
		if (seen)
			add(&vram, now_us() - again);
	}
	if (memcmp(system, from, COPY) || (seen && memcmp(seen, from, COPY)))
		stop("a copy is not what was copied");
	print(&own);
	print(&shared);
	print(&vram);
	release(system, COPY);
	if (seen)
		release(seen, COPY);
	munmap(from, COPY);
	munmap(to, COPY);
}

/* Calls. */

static void clock_counters(void)
{
	HsaClockCounters counters;

	need(hsaKmtGetClockCounters(gpu, &counters), "hsaKmtGetClockCounters");
}

static void calls(void)
{
	static struct row hot = { .name = "call-hot" }, cold = { .name = "call-cold" };
	static struct row fence = { .name = "fence-hot" }, spin = { .name = "spin-cold" };

	clock_counters();
	for (unsigned i = 0; i < rounds; i++)
		time_into(&hot, clock_counters);
	for (unsigned i = 0; raw && i < rounds; i++)
		time_into(&fence, raw_fence);
	for (unsigned i = 0; i < rounds; i++) {
		usleep(NAP_US);
		time_into(&cold, clock_counters);
		if (!raw)
			continue;
		usleep(NAP_US);
		time_into(&spin, raw_spin);
	}
	print(&hot);
	print(&fence);
	print(&cold);
	print(&spin);
}

/* A thread that sleeps in a wait, and how long after somebody's act it is awake. */

static HsaEvent *event;
static sem_t asleep, awake;
static double woken_at;

static HsaEvent *new_event(void)
{
	HsaEventDescriptor descriptor;
	HsaEvent *made = NULL;

	memset(&descriptor, 0, sizeof(descriptor));
	descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
	need(hsaKmtCreateEvent(&descriptor, false, false, &made), "hsaKmtCreateEvent");
	return made;
}

static void *sleeper(void *count)
{
	for (unsigned i = *(unsigned *)count; i > 0; i--) {
		sem_post(&asleep);
		need(hsaKmtWaitOnEvent(event, WAIT_MS), "hsaKmtWaitOnEvent");
		woken_at = now_us();
		sem_post(&awake);
	}
	return NULL;
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore))
		;
}

/* `before` is not timed. */
static void sleeps(struct row *row, struct row *fence, void (*before)(void), void (*act)(void))
{
	unsigned count = rounds;
	pthread_t thread;

	if (pthread_create(&thread, NULL, sleeper, &count))
		stop("no thread");
	for (unsigned i = 0; i < rounds; i++) {
		wait_for(&asleep);
		usleep(NAP_US);
		if (before)
			before();
		const double start = now_us();
		act();
		wait_for(&awake);
		add(row, woken_at - start);
		if (!raw || !fence)
			continue;
		usleep(NAP_US);
		time_into(fence, raw_fence);
	}
	pthread_join(thread, NULL);
	print(row);
	if (fence)
		print(fence);
}

static void set_event(void) { need(hsaKmtSetEvent(event), "hsaKmtSetEvent"); }

/* Doorbells: a barrier packet that waits for nothing. */

static HsaQueueResource queue;
static char *packets, *pointers;
static struct signal *done;
static uint64_t next_packet;

static void new_queue(void)
{
	const uint32_t offset = QUEUE_READ_DISPATCH_ID;

	packets = allocate(PACKETS * PACKET);
	pointers = allocate(PAGE);
	done = allocate(PAGE);
	memset(packets, 0, PACKETS * PACKET);
	memset(pointers, 0, PAGE);
	memset(done, 0, PAGE);
	for (unsigned i = 0; i < PACKETS; i++)
		packets[i * PACKET] = INVALID;
	memcpy(pointers + QUEUE_READ_DISPATCH_ID_OFFSET, &offset, sizeof(offset));
	queue.QueueRptrValue = (uintptr_t)(pointers + QUEUE_READ_DISPATCH_ID);
	queue.QueueWptrValue = (uintptr_t)(pointers + QUEUE_WRITE_DISPATCH_ID);
	need(hsaKmtCreateQueue(gpu, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, packets, PACKETS * PACKET, NULL,
			       &queue),
	     "hsaKmtCreateQueue");
	done->kind = 1; /* AMD_SIGNAL_KIND_USER */
}

/* The signal becomes 0. */
static void launch(void)
{
	char *packet = packets + next_packet % PACKETS * PACKET;
	const uint64_t signal = (uintptr_t)done;

	done->value = 1;
	memset(packet + 4, 0, PACKET - 4);
	memcpy(packet + 56, &signal, sizeof(signal));
	__atomic_store_n((uint32_t *)(void *)packet, BARRIER_AND, __ATOMIC_RELEASE);
	next_packet++;
	__atomic_store_n((uint64_t *)(void *)(pointers + QUEUE_WRITE_DISPATCH_ID), next_packet, __ATOMIC_RELEASE);
	__atomic_store_n((volatile uint64_t *)queue.Queue_DoorBell_aql, next_packet - 1, __ATOMIC_RELEASE);
}

static void launch_and_look(void)
{
	const double end = now_us() + WAIT_MS * 1e3;

	launch();
	for (unsigned looks = 1; __atomic_load_n(&done->value, __ATOMIC_ACQUIRE); looks++) {
		__builtin_ia32_pause();
		if (looks % 4096 == 0 && now_us() > end)
			stop("the GPU does not signal");
	}
}

static void doorbells(void)
{
	static struct row hot = { .name = "launch-hot" }, cold = { .name = "launch-cold" };
	const unsigned naps = rounds / 10 + 1;

	new_queue();
	launch_and_look();
	for (unsigned i = 0; i < rounds; i++)
		time_into(&hot, launch_and_look);
	for (unsigned i = 0; i < naps; i++) {
		usleep(LONG_NAP_US);
		time_into(&cold, launch_and_look);
	}
	print(&hot);
	print(&cold);
}

static void waits(void)
{
	static struct row wait = { .name = "wake-by-call" }, cold = { .name = "wake-by-call-cold" };
	static struct row fence = { .name = "fence-cold" }, signal = { .name = "wake-by-gpu" };

	sem_init(&asleep, 0, 0);
	sem_init(&awake, 0, 0);
	event = new_event();
	/* The worker looks for calls when SetEvent comes, so that the time is the sleeper's way and not the call's. */
	sleeps(&wait, &fence, clock_counters, set_event);
	sleeps(&cold, NULL, NULL, set_event);
	done->mailbox = event->EventData.HWData2;
	done->event = event->EventId;
	sleeps(&signal, NULL, NULL, launch);
	done->mailbox = 0;
}

/* From opening to the properties of the GPU, which is looked for. */
static void open_library(void)
{
	HsaSystemProperties system;

	need(hsaKmtOpenKFD(), "hsaKmtOpenKFD");
	need(hsaKmtAcquireSystemProperties(&system), "hsaKmtAcquireSystemProperties");
	for (gpu = 0; gpu < system.NumNodes; gpu++) {
		HsaNodeProperties node;
		need(hsaKmtGetNodeProperties(gpu, &node), "hsaKmtGetNodeProperties");
		if (node.NumFComputeCores)
			return;
	}
	stop("no node is a GPU");
}

/* In processes of their own. */
static void opens(void)
{
	static struct row open = { .name = "open" };

	for (unsigned i = 0; i < OPENS; i++) {
		int ends[2], status = 0;
		double took = 0;
		if (pipe(ends))
			stop("no pipe");
		const pid_t child = fork();
		if (child == 0) {
			const double start = now_us();
			open_library();
			took = now_us() - start;
			_exit(write(ends[1], &took, sizeof(took)) != sizeof(took));
		}
		close(ends[1]);
		const bool told = read(ends[0], &took, sizeof(took)) == sizeof(took);
		close(ends[0]);
		if (child < 0 || waitpid(child, &status, 0) != child || status || !told)
			stop("the library cannot be opened");
		add(&open, took);
	}
	print(&open);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "idle")) {
		open_library();
		if (!strcmp(argv[2], "queue")) {
			new_queue();
			launch_and_look();
		}
		printf("idle\n");
		for (;;)
			pause();
	}
	if (argc < 3 || strcmp(argv[1], "rows")) {
		fprintf(stderr, "usage: %s rows ROUNDS [NODE] | idle none|queue\n", argv[0]);
		return 2;
	}
	alarm(TIME_LIMIT_S);
	rounds = (unsigned)atoi(argv[2]);
	raw = argc > 3;
	opens();
	open_library();
	if (raw)
		raw_open(argv[3]);
	calls();
	allocations();
	copies();
	doorbells();
	waits();
	hsaKmtCloseKFD();
	return 0;
}
