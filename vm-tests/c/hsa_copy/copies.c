/* Copies by SDMA from host memory to a GPU's, within or between GPUs, and back. */
#include <stdlib.h>
#include <string.h>

#include "hsa_copy.h"

/* Bytes before and after each copy that must stay as they are. */
#define GUARD 64
#define POISON 0xa5
/* The greatest distance from an aligned address that a place has. */
#define SLACK 64

static const size_t SIZES[] = {
	1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 255, 256, 257, 1023, 4095, 4096, 4097, 65535, 65536, 65537,
	1 << 20, (1 << 20) + 1,
	/* One SDMA packet copies 0x3fffe0 bytes at most (ROCr), 4 MiB - 1 by its field. */
	0x3fffdf, 0x3fffe0, 0x3fffe1, 4 << 20, 16 << 20, 64 << 20,
};

static const struct place PLACES[] = {
	{ 0, 0, 0, 0 }, { 1, 2, 3, 0 }, { 3, 1, 0, 2 }, { 4, 8, 12, 20 }, { 63, 5, 33, 1 },
};

/* Sizes that the table shows. */
static bool is_shown(size_t bytes)
{
	return bytes == 1 || bytes == 64 || bytes == 4096 || bytes == 65536 || bytes == 1 << 20 || bytes == 4 << 20 ||
	       bytes == 16 << 20 || bytes == 64 << 20;
}

/* Numbers without a period that a copy could hide in (splitmix64). */
static uint64_t next_number(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void copier_open(struct copier *copier, const struct machine *machine, size_t capacity, uint64_t seed)
{
	const hsa_agent_t gpus[2] = { machine->gpu, machine->peer };
	/* Without the owner, which has access. */
	uint32_t others = machine->gpu.handle != machine->peer.handle;
	size_t bytes = (capacity + 2 * GUARD + SLACK + 7) & ~(size_t)7;

	copier->machine = machine;
	copier->capacity = capacity;
	copier->from = allocate(machine->cpu_pool, bytes, gpus, 1 + others);
	copier->back = allocate(machine->cpu_pool, bytes, gpus, 1 + others);
	copier->first = allocate(machine->gpu_pool, bytes, &machine->peer, others);
	copier->second = allocate(machine->peer_pool, bytes, &machine->gpu, others);
	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *)copier->from)[i] = next_number(&seed);
	for (int i = 0; i < 3; i++)
		need(hsa_signal_create(0, 0, NULL, &copier->signals[i]), "a signal");
}

void copier_close(struct copier *copier)
{
	for (int i = 0; i < 3; i++)
		need(hsa_signal_destroy(copier->signals[i]), "the end of a signal");
	need(hsa_amd_memory_pool_free(copier->from), "free");
	need(hsa_amd_memory_pool_free(copier->back), "free");
	need(hsa_amd_memory_pool_free(copier->first), "free");
	need(hsa_amd_memory_pool_free(copier->second), "free");
}

enum hop { UP, ACROSS, DOWN };

/* One copy; waits for `after` where that is not NULL. */
static void submit(const struct copier *copier, enum hop hop, void *to, const void *from, size_t bytes,
		   const hsa_signal_t *after, hsa_signal_t done)
{
	const struct machine *machine = copier->machine;
	bool one_gpu = machine->gpu.handle == machine->peer.handle;
	/* The agents choose who copies. Within one GPU the runtime would take a kernel from 1 MiB on; with the CPU's name at
	 * one end an SDMA engine does it. */
	hsa_agent_t source = hop == UP ? machine->cpu : hop == ACROSS && one_gpu ? machine->cpu : machine->gpu;
	hsa_agent_t target = hop == DOWN ? machine->cpu : hop == ACROSS ? machine->peer : machine->gpu;

	if (hop == DOWN)
		source = machine->peer;
	hsa_signal_store_relaxed(done, 1);
	need(hsa_amd_memory_async_copy(to, target, from, source, bytes, after ? 1 : 0, after, done), "a copy");
}

static double copy(const struct copier *copier, enum hop hop, void *to, const void *from, size_t bytes)
{
	double start = seconds_now();

	submit(copier, hop, to, from, bytes, NULL, copier->signals[0]);
	if (sleep_until_done(copier->signals[0]) != 0)
		fail("a copy of %zu bytes does not complete", bytes);
	return seconds_now() - start;
}

/* Poisons the bytes around what is to be copied to. */
static void set_guards(struct copier *copier, size_t bytes, struct place at)
{
	uint8_t poison[GUARD];

	memset(poison, POISON, sizeof poison);
	memset(copier->back + at.back, POISON, bytes + 2 * GUARD);
	/* `back` serves as source: it holds nothing but poison. */
	for (int end = 0; end < 2; end++) {
		size_t offset = end ? GUARD + bytes : 0;
		copy(copier, UP, copier->first + at.first + offset, copier->back + at.back, GUARD);
		copy(copier, UP, copier->second + at.second + offset, copier->back + at.back, GUARD);
	}
}

static void check_poison(const uint8_t *bytes, size_t size, const char *where)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != POISON)
			fail("a copy of %zu bytes changed a byte %s", size, where);
}

/* Checks both ends of both GPU buffers through `back`, which has been checked before. */
static void check_guards(struct copier *copier, size_t bytes, struct place at)
{
	for (int end = 0; end < 2; end++) {
		size_t offset = end ? GUARD + bytes : 0;
		copy(copier, DOWN, copier->back, copier->first + at.first + offset, GUARD);
		check_poison(copier->back, GUARD, "of the first GPU buffer beside it");
		copy(copier, DOWN, copier->back, copier->second + at.second + offset, GUARD);
		check_poison(copier->back, GUARD, "of the second GPU buffer beside it");
	}
}

static void check_back(const struct copier *copier, size_t bytes, struct place at)
{
	const uint8_t *back = copier->back + at.back + GUARD, *from = copier->from + at.from + GUARD;

	check_poison(back - GUARD, GUARD, "before it");
	check_poison(back + bytes, GUARD, "after it");
	if (!memcmp(back, from, bytes))
		return;
	for (size_t i = 0; i < bytes; i++)
		if (back[i] != from[i])
			fail("byte %zu of %zu is %#x and not %#x (places %zu %zu %zu %zu)", i, bytes, back[i], from[i],
			     at.from, at.first, at.second, at.back);
}

struct hops copy_and_check(struct copier *copier, size_t bytes, struct place at, bool chained)
{
	const uint8_t *from = copier->from + at.from + GUARD;
	uint8_t *first = copier->first + at.first + GUARD, *second = copier->second + at.second + GUARD;
	uint8_t *back = copier->back + at.back + GUARD;
	hsa_signal_t *done = copier->signals;
	struct hops took = { 0 };

	set_guards(copier, bytes, at);
	if (chained) {
		double start = seconds_now();
		submit(copier, UP, first, from, bytes, NULL, done[0]);
		submit(copier, ACROSS, second, first, bytes, &done[0], done[1]);
		submit(copier, DOWN, back, second, bytes, &done[1], done[2]);
		if (sleep_until_done(done[2]) != 0)
			fail("chained copies of %zu bytes do not complete", bytes);
		took.down = seconds_now() - start;
	} else {
		took.up = copy(copier, UP, first, from, bytes);
		took.across = copy(copier, ACROSS, second, first, bytes);
		took.down = copy(copier, DOWN, back, second, bytes);
	}
	check_back(copier, bytes, at);
	check_guards(copier, bytes, at);
	return took;
}

static double mib_per_s(size_t bytes, double seconds)
{
	return bytes / seconds / (1 << 20);
}

static void show(size_t bytes, struct hops took, double chained)
{
	printf("%9zu B %10.1f %10.1f %10.1f %10.1f us %9.1f MiB/s\n", bytes, took.up * 1e6, took.across * 1e6,
	       took.down * 1e6, chained * 1e6, mib_per_s(bytes, took.up + took.across + took.down));
}

void copies(const struct machine *machine)
{
	const size_t sizes = sizeof SIZES / sizeof *SIZES, places = sizeof PLACES / sizeof *PLACES;
	struct copier copier;
	unsigned checked = 0;

	copier_open(&copier, machine, SIZES[sizes - 1], 1);
	/* The engines are set up and the pages appear at their first use, which no time should contain. */
	copy_and_check(&copier, copier.capacity, PLACES[0], true);
	printf("%11s %10s %10s %10s %13s\n", "copies", "to GPU", "on GPU", "to host", "chained");
	for (size_t i = 0; i < sizes; i++) {
		/* Long ones are tried at two places: their time is the memory's. */
		size_t tried = SIZES[i] > 1 << 20 ? 2 : places;
		struct hops aligned = copy_and_check(&copier, SIZES[i], PLACES[0], false);
		struct hops chained = { 0 };

		for (size_t n = 1; n < tried; n++)
			chained = copy_and_check(&copier, SIZES[i], PLACES[n], true);
		checked += tried;
		if (is_shown(SIZES[i]))
			show(SIZES[i], aligned, chained.down);
	}
	copier_close(&copier);
	printf("copies: %u of 1 B to 64 MiB, at aligned and other addresses, every byte right\n", checked);
}
