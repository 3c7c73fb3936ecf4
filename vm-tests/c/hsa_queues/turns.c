/* Kernels that wait for each other: through memory, and through signals. */
#include "hsa_queues.h"

int hsa_amd_memory_fill(void *, uint32_t value, size_t count);
int hsa_amd_ipc_memory_detach(void *);

enum { TURNS = 320, LIST = 16 };

/* What the kernels' list holds, by the same rule. */
static void check_list(const volatile uint32_t *list)
{
	uint32_t want = 1;

	for (uint32_t at = 0; at < TURNS; at++) {
		if (at)
			want = want * 3 + at;
		if (list[at] != want)
			fail("turn %u: %u and not %u", at, list[at], want);
	}
}

/* The turns of the queues of `processes` processes, mixed: each kernel waits for one of another queue or process, and the queues'
 * own are in order. */
static void submit_turns(struct arguments what, uint32_t processes, hsa_signal_t done)
{
	for (uint32_t at = 0; at < TURNS; at++) {
		uint32_t queue = at * 3 % (processes * QUEUES);

		if (processes == 1 || queue % 2 == (uint32_t)which_process()) {
			what.at = at;
			submit(queue / processes, IN_ORDER, "take_turn", 1, 64, what, done);
		}
	}
}

static void turns_alone(void)
{
	uint32_t *memory = allocate_host((LIST + TURNS) * 4);
	hsa_signal_t done = new_signal(TURNS);

	submit_turns((struct arguments){ memory, NULL, memory + LIST, 0, 0 }, 1, done);
	wait_zero(done, "turns of four queues");
	check_list(memory + LIST);
	need(hsa_signal_destroy(done), "end of a signal");
	need(hsa_amd_memory_pool_free(memory), "end of memory");
	say("%d turns of %d queues", TURNS, QUEUES);
}

/* The second process's kernels write their results where the first one's read them. */
static void turns_together(void)
{
	enum { BYTES = 4096 };
	uint32_t *own = which_process() ? NULL : allocate_local(BYTES);
	uint32_t *read_back = allocate_host(BYTES);
	uint32_t *memory;
	hsa_signal_t done = new_signal(TURNS / 2), copied = new_signal(1);

	if (own)
		need(hsa_amd_memory_fill(own, 0, BYTES / 4), "filling memory");
	memory = share_local(own, BYTES);
	if (memory) {
		submit_turns((struct arguments){ memory, NULL, memory + LIST, 0, 0 }, 2, done);
		wait_zero(done, "turns of two processes");
		meet("after the turns");
		submit(0, IN_ORDER, "copy", 1, 64, (struct arguments){ memory, NULL, read_back, 0, BYTES / 4 }, copied);
		wait_zero(copied, "reading the shared memory");
		check_list(read_back + LIST);
	}
	say(memory ? "turns of two processes" : "memory of two processes: refused");
	if (memory && !own)
		need(hsa_amd_ipc_memory_detach(memory), "end of shared memory");
	meet("before the shared memory ends");
	if (own)
		need(hsa_amd_memory_pool_free(own), "end of memory");
	need(hsa_amd_memory_pool_free(read_back), "end of memory");
	need(hsa_signal_destroy(done), "end of a signal");
	need(hsa_signal_destroy(copied), "end of a signal");
}

/* A ring of queues: each kernel waits for the completion signal of the one before it, which is in another queue, behind
 * those that waited before. */
static void signals(void)
{
	enum { LINKS = 64 };
	uint32_t *word = allocate_host(4);
	hsa_signal_t links[LINKS + 1];

	for (int i = 0; i <= LINKS; i++)
		links[i] = new_signal(1);
	/* The last first, within the queues in order: what a kernel waits for is never behind it in its own queue. */
	for (int queue = QUEUES - 1; queue >= 0; queue--)
		for (int i = queue; i < LINKS; i += QUEUES)
			submit(queue, IN_ORDER, "await", 1, 64,
			       (struct arguments){ word, value_of(links[i]), NULL, 0, 0 }, links[i + 1]);
	usleep(2000);
	if (*(volatile uint32_t *)word != 0)
		fail("kernels did not wait for their signals");
	hsa_signal_store_screlease(links[0], 0);
	wait_zero(links[LINKS], "a chain of signals");
	if (*(volatile uint32_t *)word != LINKS)
		fail("%u kernels of %d in the chain", *word, LINKS);
	for (int i = 0; i <= LINKS; i++)
		need(hsa_signal_destroy(links[i]), "end of a signal");
	need(hsa_amd_memory_pool_free(word), "end of memory");
	say("a chain of %d signals", LINKS);
}

void turns(void)
{
	turns_alone();
	if (has_peer())
		turns_together();
	signals();
}
