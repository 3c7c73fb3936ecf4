/* Barrier packets on an AQL queue: what they wait for, and in which order they complete. */
#include "hsa_copy.h"

#define DEPS 5
#define ROUNDS 200
/* Packets in a queue of 64: it wraps around many times. */
#define CHAIN 2000

static void create(hsa_signal_t *signals, int count, int64_t value)
{
	for (int i = 0; i < count; i++)
		need(hsa_signal_create(value, 0, NULL, &signals[i]), "a signal");
}

static void destroy(hsa_signal_t *signals, int count)
{
	for (int i = 0; i < count; i++)
		need(hsa_signal_destroy(signals[i]), "the end of a signal");
}

/* A barrier that waits for all its signals or for one. `last` is the signal that lets it through. */
static void one(hsa_queue_t *queue, hsa_signal_t *deps, hsa_signal_t done, int type, int last)
{
	for (int i = 0; i < DEPS; i++)
		hsa_signal_store_relaxed(deps[i], 1);
	hsa_signal_store_relaxed(done, 1);
	submit_barrier(queue, type, deps, DEPS, done);
	for (int i = 0; i < DEPS && type == HSA_PACKET_BARRIER_AND; i++)
		if (i != last)
			hsa_signal_store_relaxed(deps[i], 0);
	usleep(200);
	if (hsa_signal_load_relaxed(done) != 1)
		fail("a barrier of type %d did not wait for signal %d", type, last);
	hsa_signal_store_relaxed(deps[last], 0);
	if (sleep_until_done(done) != 0)
		fail("a barrier of type %d does not complete after signal %d", type, last);
}

/* More packets than the queue holds, each with the barrier bit: the last completes after all others. */
static double chain(hsa_queue_t *queue, hsa_signal_t gate, hsa_signal_t done)
{
	hsa_signal_t none = { 0 };
	double start;

	hsa_signal_store_relaxed(gate, 1);
	hsa_signal_store_relaxed(done, CHAIN);
	submit_barrier(queue, HSA_PACKET_BARRIER_AND, &gate, 1, none);
	start = seconds_now();
	hsa_signal_store_relaxed(gate, 0);
	for (int i = 0; i < CHAIN; i++)
		submit_barrier(queue, i % 2 ? HSA_PACKET_BARRIER_AND : HSA_PACKET_BARRIER_OR, NULL, 0, done);
	if (sleep_until_done(done) != 0)
		fail("%d barriers do not complete: %lld are left", CHAIN, (long long)hsa_signal_load_relaxed(done));
	return seconds_now() - start;
}

void barriers(hsa_queue_t *queue)
{
	hsa_signal_t deps[DEPS], done, none = { 0 };
	double start, empty = 0, took;

	create(deps, DEPS, 1);
	create(&done, 1, 1);
	for (int i = 0; i < ROUNDS; i++) {
		one(queue, deps, done, HSA_PACKET_BARRIER_AND, i % DEPS);
		one(queue, deps, done, HSA_PACKET_BARRIER_OR, i % DEPS);
	}
	for (int i = 0; i < ROUNDS; i++) {
		hsa_signal_store_relaxed(done, 1);
		start = seconds_now();
		submit_barrier(queue, HSA_PACKET_BARRIER_AND, &none, 1, done);
		if (hsa_signal_wait_scacquire(done, HSA_LESS_THAN, 1, TICKS_TO_WAIT, HSA_WAIT_ACTIVE) != 0)
			fail("a barrier does not complete");
		empty += seconds_now() - start;
	}
	took = chain(queue, deps[0], done);
	printf("barriers: %d of AND and OR wait for their signals; doorbell to signal %.1f us; %d in a queue of 64, %.1f us each\n",
	       2 * ROUNDS, empty / ROUNDS * 1e6, CHAIN, took / CHAIN * 1e6);
	destroy(&done, 1);
	destroy(deps, DEPS);
}
