/* The other process: a fork from before the runtime was opened, and a page that both see. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "hsa_queues.h"

typedef struct { uint32_t words[8]; } hsa_ipc_memory_t;

int hsa_amd_ipc_memory_create(void *, size_t, hsa_ipc_memory_t *);
int hsa_amd_ipc_memory_attach(const hsa_ipc_memory_t *, size_t, uint32_t count, const hsa_agent_t *, void **);

/* How long one may wait for the other. */
static const double LIMIT = 80;

static struct {
	uint32_t arrived, refused;
	hsa_ipc_memory_t handle;
	double left;
} *page;
static pid_t child;
static int process;
static uint32_t meetings;

void fork_peer(bool two)
{
	if (!two)
		return;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0) {
		process = 1;
		prints = false;
	}
}

bool has_peer(void)
{
	return page != NULL;
}

int which_process(void)
{
	return process;
}

void meet(const char *where)
{
	double end = seconds_now() + LIMIT;

	if (!page)
		return;
	meetings++;
	__atomic_fetch_add(&page->arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&page->arrived, __ATOMIC_ACQUIRE) < 2 * meetings) {
		if (seconds_now() > end || (child && waitpid(child, NULL, WNOHANG) != 0))
			fail("%s: the other process does not come", where);
		usleep(100);
	}
}

void *share_local(void *memory, size_t bytes)
{
	void *seen = memory;

	if (process == 0)
		page->refused = hsa_amd_ipc_memory_create(memory, bytes, &page->handle) != HSA_SUCCESS;
	meet("sharing memory");
	if (page->refused)
		return NULL;
	if (process == 1)
		need(hsa_amd_ipc_memory_attach(&page->handle, bytes, 1, &gpu, &seen), "shared memory");
	return seen;
}

void leave(void)
{
	page->left = seconds_now();
	_exit(0);
}

double end_peer(void)
{
	int status = -1;

	if (!child)
		return 0;
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		fail("the other process ended with status %#x", status);
	return seconds_now() - page->left;
}
