/* Takes the memory that a process leaves, and watches it: nobody else may write there.
 *
 *   taken_pages PID
 *
 * It takes all free memory first, kills the process, and fills what comes free then with a pattern, which must stay. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_BYTES (1 << 20)
#define CHUNK_WORDS (CHUNK_BYTES / 8)
#define MOST 16384
/* Bytes that are left to others, so that nothing has to be killed for want of memory. */
#define LEFT (96u << 20)
/* How long memory is taken and looked at after the kill: more than the host gives a context to end. */
#define SECONDS 6

static uint64_t *chunks[MOST];

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static bool is_free(void)
{
	struct sysinfo info;

	return !sysinfo(&info) && (uint64_t)info.freeram * info.mem_unit > LEFT + CHUNK_BYTES;
}

static uint64_t *take(void)
{
	void *memory = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t pattern(const uint64_t *word)
{
	return (uintptr_t)word * 0x9e3779b97f4a7c15u;
}

static void fill(uint64_t *chunk)
{
	for (size_t i = 0; i < CHUNK_WORDS; i++)
		chunk[i] = pattern(chunk + i);
}

static void check(const volatile uint64_t *chunk)
{
	for (size_t i = 0; i < CHUNK_WORDS; i++) {
		uint64_t found = chunk[i], right = pattern((const uint64_t *)chunk + i);

		if (found != right) {
			printf("WRONG: a word of taken memory is %#" PRIx64 " and not %#" PRIx64 "\n", found, right);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	pid_t pid = argc == 2 ? atoi(argv[1]) : 0;
	size_t before = 0, taken = 0, looked = 0, rounds = 0;
	double end;

	if (pid <= 1) {
		fprintf(stderr, "usage: %s PID\n", argv[0]);
		return 2;
	}
	while (is_free() && take())
		before++;
	if (kill(pid, SIGKILL)) {
		perror("kill");
		return 2;
	}
	end = seconds_now() + SECONDS;
	while (seconds_now() < end) {
		if (taken < MOST && is_free()) {
			chunks[taken] = take();
			if (!chunks[taken])
				break;
			fill(chunks[taken++]);
		} else if (taken) {
			check(chunks[looked]);
			looked = looked + 1 < taken ? looked + 1 : 0;
			rounds += looked == 0;
		} else {
			usleep(1000);
		}
	}
	for (size_t i = 0; i < taken; i++)
		check(chunks[i]);
	printf("%zu MiB taken before\n%zu MiB taken after, looked at %zu times and as they were filled\n", before, taken,
	       rounds + 1);
	return 0;
}
