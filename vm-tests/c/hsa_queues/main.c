/* Four queues at work, in one process or in two at once, through the HSA runtime alone: kernels that wait for each other through memory and
 * signals, barriers between queues, dispatches back to back, and memory of the host that the CPU uses at the same time.
 *
 *   hsa_queues CODE_OBJECT one|two DISPATCHES     in one process or two; the code object is kernels/queues.cl
 *   hsa_queues CODE_OBJECT endless                kernels that never end, in a process that a second one waits for
 *
 * The first happens twice, and leaves nothing behind the second time: no descriptor and no mapping. It exits with 0 only if everything
 * was right, and prints a line for each thing that was. Whether something may be "refused" is for the caller to say. */
#include <dirent.h>

#include "hsa_queues.h"

struct held {
	int descriptors, fences, mappings;
};

static struct held held_now(void)
{
	struct held held = { 0, 0, 0 };
	DIR *directory = opendir("/proc/self/fd");
	FILE *maps = fopen("/proc/self/maps", "r");
	struct dirent *entry;
	int c;

	if (!directory || !maps)
		fail("/proc cannot be read");
	while ((entry = readdir(directory))) {
		char target[64] = "";

		if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) >= 0) {
			if (strcmp(target, "anon_inode:sync_file"))
				held.descriptors++;
			else
				held.fences++;
		}
	}
	while ((c = getc(maps)) != EOF)
		held.mappings += c == '\n';
	closedir(directory);
	fclose(maps);
	return held;
}

static void everything(uint32_t dispatches)
{
	meet("at the beginning");
	open_queues();
	reuse_arguments();
	turns();
	barriers();
	reuse_arguments();
	many(dispatches);
	reuse_arguments();
	host_memory();
	meet("at the end");
	close_queues();
}

/* The second process does it, and the first sees how long its end takes. */
static int end_of_endless(const char *code_object)
{
	double took;

	fork_peer(true);
	if (which_process() == 0) {
		took = end_peer();
		if (took > AN_END)
			fail("the end of a process took %.2f s", took);
		say("a process with an endless kernel ends");
		return 0;
	}
	prints = true;
	open_gpu(code_object);
	open_queues();
	endless();
}

int main(int argc, char **argv)
{
	struct held first, second;
	uint32_t dispatches;

	if (argc < 3) {
		printf("usage: hsa_queues CODE_OBJECT one|two DISPATCHES, or hsa_queues CODE_OBJECT endless\n");
		return 2;
	}
	dispatches = argc > 3 ? atoi(argv[3]) : 0;
	if (!strcmp(argv[2], "endless"))
		return end_of_endless(argv[1]);
	fork_peer(!strcmp(argv[2], "two"));
	open_gpu(argv[1]);
	everything(dispatches);
	first = held_now();
	prints = false;
	everything(dispatches);
	second = held_now();
	if (second.descriptors != first.descriptors || second.mappings != first.mappings)
		fail("%d descriptors and %d mappings after %d and %d", second.descriptors, second.mappings,
		     first.descriptors, first.mappings);
	/* In a virtual machine a thread that waits has one, and there is one such thread at most. */
	if (second.fences > 1)
		fail("%d fences", second.fences);
	need(hsa_shut_down(), "hsa_shut_down");
	end_peer();
	if (which_process() == 0) {
		prints = true;
		say("all right");
	}
	return 0;
}
