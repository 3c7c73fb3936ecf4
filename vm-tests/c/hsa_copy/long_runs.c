/* Many threads for some time, and work without end. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hsa_copy.h"

struct worker {
	pthread_t thread;
	const struct machine *machine;
	unsigned seed;
	double end;
	unsigned long rounds;
};

static size_t up_to(unsigned *seed, size_t limit)
{
	return (size_t)rand_r(seed) % limit;
}

/* One round: buffers of a new size, a few copies of it at random places, and the way back. */
static void round_trip(struct worker *worker)
{
	size_t capacity = 1 + up_to(&worker->seed, worker->rounds % 4 ? 64 << 10 : 2 << 20);
	struct copier copier;

	copier_open(&copier, worker->machine, capacity, worker->seed);
	for (int i = 0; i < 4; i++) {
		struct place at = { up_to(&worker->seed, 64), up_to(&worker->seed, 64), up_to(&worker->seed, 64),
				    up_to(&worker->seed, 64) };
		copy_and_check(&copier, 1 + up_to(&worker->seed, capacity), at, i % 2);
	}
	copier_close(&copier);
}

static void *work(void *data)
{
	struct worker *worker = data;

	do {
		round_trip(worker);
		worker->rounds++;
	} while (seconds_now() < worker->end);
	return NULL;
}

void stress(const struct machine *machine, int seconds, int threads)
{
	struct worker *workers = calloc(threads, sizeof *workers);
	unsigned long rounds = 0;

	if (threads < 1 || !workers)
		fail("no memory for %d threads", threads);
	for (int i = 0; i < threads; i++) {
		struct worker *worker = &workers[i];

		worker->machine = machine;
		worker->seed = (unsigned)getpid() * 1000 + i;
		worker->end = seconds_now() + seconds;
		if (pthread_create(&worker->thread, NULL, work, worker))
			fail("a thread cannot be started");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		rounds += workers[i].rounds;
	}
	printf("stress: %d threads, %lu rounds of allocating, 4 checked trips and freeing\n", threads, rounds);
	free(workers);
}

static void *never_woken(void *data)
{
	sleep_until_done(*(hsa_signal_t *)data);
	return NULL;
}

void endless(const struct machine *machine)
{
	hsa_queue_t *queue = open_queue(machine, 64);
	hsa_signal_t never, gate;
	struct copier copier;
	pthread_t sleeper;

	need(hsa_signal_create(1, 0, NULL, &never), "a signal");
	need(hsa_signal_create(1, 0, NULL, &gate), "a signal");
	if (pthread_create(&sleeper, NULL, never_woken, &never))
		fail("a thread cannot be started");
	/* The queue has work that it cannot finish. */
	submit_barrier(queue, HSA_PACKET_BARRIER_AND, &never, 1, gate);
	copier_open(&copier, machine, 1 << 20, 1);
	copy_and_check(&copier, 1 << 20, (struct place){ 0 }, true);
	printf("running\n");
	for (;;)
		copy_and_check(&copier, 1 << 20, (struct place){ 1, 2, 3, 4 }, true);
}

/* Some of these copies are always under way: all together take the engine longer than a signal travels. */
#define TARGETS 8
#define TARGET_BYTES (32 << 20)

void writes(const struct machine *machine)
{
	uint8_t *targets[TARGETS], *source = allocate(machine->gpu_pool, TARGET_BYTES, NULL, 0);
	hsa_signal_t done[TARGETS];

	for (int i = 0; i < TARGETS; i++) {
		targets[i] = allocate(machine->cpu_pool, TARGET_BYTES, &machine->gpu, 1);
		need(hsa_signal_create(0, 0, NULL, &done[i]), "a signal");
	}
	memset(targets[0], WRITTEN, TARGET_BYTES);
	hsa_signal_store_relaxed(done[0], 1);
	need(hsa_amd_memory_async_copy(source, machine->gpu, targets[0], machine->cpu, TARGET_BYTES, 0, NULL, done[0]),
	     "a copy");
	for (unsigned long count = 0;; count++) {
		int i = count % TARGETS;

		if (sleep_until_done(done[i]) != 0)
			fail("a copy does not complete");
		if (count == 2 * TARGETS)
			printf("running\n");
		hsa_signal_store_relaxed(done[i], 1);
		need(hsa_amd_memory_async_copy(targets[i], machine->cpu, source, machine->gpu, TARGET_BYTES, 0, NULL, done[i]),
		     "a copy");
	}
}
