/* Barrier packets between queues. */
#include "hsa_queues.h"

enum { ROUNDS = 100 };

/* A kernel behind a barrier-AND for kernels of the other queues sees what they did: all of it. One behind a barrier-OR for the same and for a
 * signal that nobody completes sees it too, and does not wait for the latter. */
static void round_of(int first, uint32_t *word, uint32_t *list, hsa_signal_t never)
{
	hsa_signal_t did[QUEUES], either[2], all = new_signal(1), one = new_signal(1);
	struct arguments what = { word, NULL, list, 0, 1 };

	*word = 0;
	list[0] = list[1] = 0;
	/* The barriers first: they have something to wait for. */
	for (int i = 1; i < QUEUES; i++)
		did[i] = new_signal(1);
	submit_barrier(first, HSA_PACKET_BARRIER_AND, QUEUES - 1, did + 1, (hsa_signal_t){ 0 });
	submit(first, IN_ANY_ORDER, "note", 1, 64, what, all);
	for (int i = 1; i < QUEUES; i++)
		submit((first + i) % QUEUES, IN_ORDER, "add", 2, 128, what, did[i]);
	either[0] = never;
	either[1] = did[1];
	what.at = 1;
	submit_barrier((first + 2) % QUEUES, HSA_PACKET_BARRIER_OR, 2, either, (hsa_signal_t){ 0 });
	submit((first + 2) % QUEUES, IN_ANY_ORDER, "note", 1, 64, what, one);
	wait_zero(all, "a kernel behind a barrier-AND");
	wait_zero(one, "a kernel behind a barrier-OR");
	if (list[0] != 3 * 256)
		fail("behind a barrier-AND for three kernels: %u items of %u", list[0], 3 * 256);
	/* Its own queue's kernel, and the one that it waited for. */
	if (list[1] < 2 * 256 || list[1] > 3 * 256)
		fail("behind a barrier-OR: %u items", list[1]);
	for (int i = 1; i < QUEUES; i++)
		need(hsa_signal_destroy(did[i]), "end of a signal");
	need(hsa_signal_destroy(all), "end of a signal");
	need(hsa_signal_destroy(one), "end of a signal");
}

/* As long as no signal of a barrier-OR is 0, nothing behind it runs. */
static void or_waits(uint32_t *list)
{
	hsa_signal_t either[5], done = new_signal(1);

	for (int i = 0; i < 5; i++)
		either[i] = new_signal(1);
	list[0] = 0;
	submit_barrier(1, HSA_PACKET_BARRIER_OR, 5, either, done);
	usleep(5000);
	if (hsa_signal_load_relaxed(done) != 1)
		fail("a barrier-OR did not wait");
	/* One that a kernel of another queue completes. */
	submit(3, IN_ORDER, "note", 1, 64, (struct arguments){ list + 1, NULL, list, 0, 0 }, either[4]);
	wait_zero(done, "a barrier-OR");
	for (int i = 0; i < 5; i++)
		need(hsa_signal_destroy(either[i]), "end of a signal");
	need(hsa_signal_destroy(done), "end of a signal");
}

void barriers(void)
{
	uint32_t *memory = allocate_host(4096);
	hsa_signal_t never = new_signal(1);

	for (int i = 0; i < ROUNDS; i++) {
		reuse_arguments();
		round_of(i % QUEUES, memory, memory + 16, never);
	}
	or_waits(memory);
	if (hsa_signal_load_relaxed(never) != 1)
		fail("a signal that nobody completes is complete");
	need(hsa_signal_destroy(never), "end of a signal");
	need(hsa_amd_memory_pool_free(memory), "end of memory");
	say("%d rounds of barriers between queues", ROUNDS);
}
