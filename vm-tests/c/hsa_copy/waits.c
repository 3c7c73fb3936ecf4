/* Waits that sleep: for another thread, for the GPU, and many at once. */
#include <pthread.h>
#include <stdlib.h>

#include "hsa_copy.h"

#define ROUNDS 10
#define PAUSE_US 50000

static void *set_later(void *data)
{
	hsa_signal_t *signal = data;

	usleep(PAUSE_US);
	hsa_signal_store_screlease(*signal, 0);
	return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), void *data)
{
	int error = pthread_create(thread, NULL, body, data);

	if (error)
		fail("a thread cannot be started: error %d", error);
}

/* Sleeps for `awaited` while another thread sets `set` after 50 ms; shows what that cost the sleeper. */
static void sleep_rounds(const char *what, hsa_signal_t set, hsa_signal_t awaited, hsa_queue_t *queue)
{
	double cpu = 0, late = 0, all = 0;

	for (int i = 0; i < ROUNDS; i++) {
		pthread_t other;
		double begin, used, slept;

		hsa_signal_store_relaxed(set, 1);
		if (queue) {
			hsa_signal_store_relaxed(awaited, 1);
			submit_barrier(queue, HSA_PACKET_BARRIER_AND, &set, 1, awaited);
		}
		begin = seconds_now();
		start(&other, set_later, &set);
		used = cpu_seconds();
		if (sleep_until_done(awaited) != 0)
			fail("a wait for %s does not end", what);
		cpu += cpu_seconds() - used;
		slept = seconds_now() - begin;
		if (slept < PAUSE_US / 1e6)
			fail("a wait for %s ended after %.1f ms of %d", what, slept * 1e3, PAUSE_US / 1000);
		late += slept - PAUSE_US / 1e6;
		all += slept;
		pthread_join(other, NULL);
	}
	printf("waits: asleep for %d ms, woken by %s %.2f ms late, %.2f ms of CPU time each\n", PAUSE_US / 1000, what,
	       late / ROUNDS * 1e3, cpu / ROUNDS * 1e3);
	/* The runtime looks for 0.2 ms before it sleeps; a wait that does not sleep looks all the time. Half of it tells the two
	 * apart on emulated processors too, where a call takes many times as long. */
	if (cpu > all / 2)
		fail("a wait for %s did not sleep", what);
}

void waits(hsa_queue_t *queue)
{
	hsa_signal_t set, done;

	need(hsa_signal_create(1, 0, NULL, &set), "a signal");
	need(hsa_signal_create(1, 0, NULL, &done), "a signal");
	sleep_rounds("another thread", set, set, NULL);
	sleep_rounds("the GPU", set, done, queue);
	need(hsa_signal_destroy(set), "the end of a signal");
	need(hsa_signal_destroy(done), "the end of a signal");
}

struct sleeper {
	pthread_t thread;
	hsa_signal_t signal;
	volatile bool was_set;
	volatile bool woke_early;
	volatile bool woke;
};

static void *sleep_once(void *data)
{
	struct sleeper *sleeper = data;

	if (sleep_until_done(sleeper->signal) != 0)
		fail("a sleeper is not woken");
	sleeper->woke_early = !sleeper->was_set;
	sleeper->woke = true;
	return NULL;
}

static void shuffle(int *order, int count)
{
	for (int i = count - 1; i > 0; i--) {
		int other = rand() % (i + 1), kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
}

void many_waits(int threads)
{
	struct sleeper *sleepers = calloc(threads, sizeof *sleepers);
	int *order = calloc(threads, sizeof *order);
	double begin;

	if (threads < 1 || !sleepers || !order)
		fail("no memory for %d threads", threads);
	for (int i = 0; i < threads; i++) {
		order[i] = i;
		need(hsa_signal_create(1, 0, NULL, &sleepers[i].signal), "a signal");
		start(&sleepers[i].thread, sleep_once, &sleepers[i]);
	}
	/* Time to fall asleep: correct without, but then it proves less. */
	usleep(500000);
	shuffle(order, threads);
	begin = seconds_now();
	for (int i = 0; i < threads; i++) {
		struct sleeper *sleeper = &sleepers[order[i]];

		sleeper->was_set = true;
		hsa_signal_store_screlease(sleeper->signal, 0);
		if (i % 2)
			usleep(1000);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(sleepers[i].thread, NULL);
		if (sleepers[i].woke_early || !sleepers[i].woke)
			fail("thread %d woke before its signal", i);
		need(hsa_signal_destroy(sleepers[i].signal), "the end of a signal");
	}
	printf("waits: %d threads asleep, each woken by its own signal in random order, %.1f ms\n", threads,
	       (seconds_now() - begin) * 1e3);
	free(order);
	free(sleepers);
}
