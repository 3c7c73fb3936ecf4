/* Dispatches back to back, and memory of the host that kernels use while the CPU does. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "hsa_queues.h"

int hsa_amd_memory_lock(void *, size_t, hsa_agent_t *, int count, void **);
int hsa_amd_memory_unlock(void *);

enum { ITEMS = 64, EACH = 50, CPU_ADDS = 100000, EXCHANGES = 300 };

/* All queues at once; each item of each dispatch is counted. */
void many(uint32_t dispatches)
{
	uint32_t *word = allocate_host(4);
	hsa_signal_t done = new_signal(dispatches);
	double before = seconds_now();

	for (uint32_t i = 0; i < dispatches; i++)
		submit(i % QUEUES, IN_ORDER, "add", 1, ITEMS, (struct arguments){ word, NULL, NULL, 0, 1 }, done);
	wait_zero(done, "dispatches back to back");
	if (*(volatile uint32_t *)word != dispatches * ITEMS)
		fail("%u items of %u", *word, dispatches * ITEMS);
	fprintf(stderr, "process %d: %.1f us a dispatch\n", which_process(), (seconds_now() - before) / dispatches * 1e6);
	need(hsa_signal_destroy(done), "end of a signal");
	need(hsa_amd_memory_pool_free(word), "end of memory");
	say("%u dispatches back to back", dispatches);
}

static void *add_on_the_cpu(void *word)
{
	for (int i = 0; i < CPU_ADDS; i++)
		__atomic_fetch_add((uint32_t *)word, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Kernels of all queues and a thread of the CPU add to one word; none of their additions is lost. `seen` is where the GPU sees `word`. */
static void add_together(const char *what, uint32_t *word, uint32_t *seen)
{
	enum { GROUPS = 8 };
	hsa_signal_t done = new_signal(QUEUES * EACH);
	uint32_t want = *word + CPU_ADDS + (uint32_t)QUEUES * EACH * GROUPS * ITEMS;
	pthread_t thread;

	if (pthread_create(&thread, NULL, add_on_the_cpu, word))
		fail("no thread");
	for (int i = 0; i < QUEUES * EACH; i++)
		submit(i % QUEUES, IN_ORDER, "add", GROUPS, ITEMS, (struct arguments){ seen, NULL, NULL, 0, 1 }, done);
	wait_zero(done, what);
	pthread_join(thread, NULL);
	if (*(volatile uint32_t *)word != want)
		fail("%s: %u additions of %u", what, *word, want);
	need(hsa_signal_destroy(done), "end of a signal");
}

/* A running kernel and the CPU answer each other; a word beside that is not atomic goes along. */
static void exchange(const char *what, uint32_t *words, uint32_t *seen)
{
	hsa_signal_t done = new_signal(1);
	volatile uint32_t *word = words, *beside = words + 16;

	*word = beside[0] = beside[1] = 0;
	submit(2, IN_ORDER, "answer", 1, 64, (struct arguments){ seen, NULL, seen + 16, 0, EXCHANGES }, done);
	for (uint32_t i = 0; i < EXCHANGES; i++) {
		beside[1] = i;
		__atomic_store_n(word, 2 * i + 1, __ATOMIC_RELEASE);
		wait_word(word, 2 * i + 2, what);
		if (beside[0] != i * (i + 1) / 2)
			fail("%s: the sum after %u is %u", what, i, beside[0]);
	}
	wait_zero(done, what);
	need(hsa_signal_destroy(done), "end of a signal");
}

/* Memory of the program's own is registered and released again and again while kernels of other queues add to `busy`, and keeps what is
 * in it. */
static void register_under_load(uint32_t *busy)
{
	enum { BYTES = 256 << 10, TIMES = 20 };
	hsa_signal_t done = new_signal(TIMES), working = new_signal(3 * TIMES);

	for (int i = 0; i < TIMES; i++) {
		uint32_t *memory = malloc(BYTES), *seen;

		if (!memory)
			fail("malloc: %s", strerror(errno));
		for (uint32_t k = 0; k < BYTES / 4; k++)
			memory[k] = k * 7 + i;
		for (int queue = 1; queue < QUEUES; queue++)
			submit(queue, IN_ORDER, "add", 4, ITEMS, (struct arguments){ busy, NULL, NULL, 0, 1 }, working);
		need(hsa_amd_memory_lock(memory, BYTES, &gpu, 1, (void **)&seen), "hsa_amd_memory_lock");
		hsa_signal_store_relaxed(done, 1);
		/* The second half from the first. */
		submit(0, IN_ORDER, "copy", 1, 64,
		       (struct arguments){ seen, NULL, seen + BYTES / 8, 0, BYTES / 8 }, done);
		wait_zero(done, "a kernel with registered memory");
		need(hsa_amd_memory_unlock(memory), "hsa_amd_memory_unlock");
		for (uint32_t k = 0; k < BYTES / 4; k++)
			if (memory[k] != k % (BYTES / 8) * 7 + i)
				fail("registered memory: word %u is %u", k, memory[k]);
		free(memory);
	}
	wait_zero(working, "kernels beside registrations");
	need(hsa_signal_destroy(done), "end of a signal");
	need(hsa_signal_destroy(working), "end of a signal");
}

void host_memory(void)
{
	enum { BYTES = 64 << 10 };
	uint32_t *pinned = allocate_host(BYTES);
	uint32_t *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *seen = NULL;

	if (own == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	add_together("pinned memory", pinned, pinned);
	exchange("pinned memory", pinned, pinned);
	say("pinned memory with %d queues and the CPU", QUEUES);

	own[0] = 5;
	if (hsa_amd_memory_lock(own, BYTES, &gpu, 1, (void **)&seen) != HSA_SUCCESS) {
		say("registered memory: refused");
	} else {
		add_together("registered memory", own, seen);
		exchange("registered memory", own, seen);
		register_under_load(seen);
		need(hsa_amd_memory_unlock(own), "hsa_amd_memory_unlock");
		say("registered memory with %d queues and the CPU", QUEUES);
	}
	munmap(own, BYTES);
	need(hsa_amd_memory_pool_free(pinned), "end of memory");
}
