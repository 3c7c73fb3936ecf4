/* The baseline: one context without our library. What it says to the worker is written down in protocol/src/wire (area.rs, submit.rs). */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "virtgpu.h"

/* wire::area */
#define QUEUE 4096
#define QUEUE_LEN 16384
#define SLOT (QUEUE + QUEUE_LEN * 4)
#define AREA_BYTES (SLOT + 256 * 4096)
#define SUBMITTED_WORD 64
#define SLOT_SUBMITTED 1
#define SLOT_DONE 2
/* wire::submit */
#define SETUP 1
#define KICK 2
#define WAKE 3
/* Of no command. */
#define UNKNOWN 0x7fffffff
/* The ring of wake-ups in the library's contexts too. */
#define RING_OF_FENCES 1
#define LIMIT_MS 60000

static int node;
static uint8_t *area;
static uint32_t submitted;

static void call(const char *what, unsigned long request, void *args)
{
	if (ioctl(node, request, args) == 0)
		return;
	perror(what);
	exit(1);
}

static int32_t submit(uint32_t kind, uint32_t value, uint32_t flags)
{
	uint32_t message[2] = { kind, value };
	struct execbuffer args = {
		.flags = flags,
		.size = sizeof(message),
		.command = (uintptr_t)message,
		.fence_fd = -1,
		.ring_idx = flags & RING ? RING_OF_FENCES : 0,
	};

	call("EXECBUFFER", EXECBUFFER, &args);
	return args.fence_fd;
}

void raw_open(const char *path)
{
	struct param params[] = { { 1, 8 }, { 2, 2 } };
	struct context_init init = { 2, 0, (uintptr_t)params };
	struct create_blob blob = { .mem = GUEST, .flags = MAPPABLE, .size = AREA_BYTES };
	struct map map = { 0 };

	node = open(path, O_RDWR | O_CLOEXEC);
	if (node < 0) {
		perror(path);
		exit(1);
	}
	call("CONTEXT_INIT", CONTEXT_INIT, &init);
	call("RESOURCE_CREATE_BLOB", CREATE_BLOB, &blob);
	map.handle = blob.bo_handle;
	call("MAP", MAP, &map);
	area = mmap(NULL, blob.size, PROT_READ | PROT_WRITE, MAP_SHARED, node, (off_t)map.offset);
	if (area == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	submit(SETUP, blob.res_handle, 0);
}

void raw_fence(void)
{
	/* No answer was slept for yet, so that the worker has nothing to wait for. */
	int fence = submit(WAKE, 1, RING | FENCE_OUT);
	struct pollfd wait = { .fd = fence, .events = POLLIN };

	if (poll(&wait, 1, LIMIT_MS) != 1) {
		fprintf(stderr, "a fence does not signal\n");
		exit(1);
	}
	close(fence);
}

void raw_spin(void)
{
	uint32_t *slot = (uint32_t *)(void *)(area + SLOT);
	uint32_t *queue = (uint32_t *)(void *)(area + QUEUE), *count = (uint32_t *)(void *)(area + SUBMITTED_WORD);
	const double end = now_us() + LIMIT_MS * 1e3;

	for (unsigned i = 1; i < 8; i++)
		slot[i] = 0;
	slot[1] = UNKNOWN;
	/* Room for an answer. */
	slot[3] = 64;
	__atomic_store_n(&slot[0], SLOT_SUBMITTED, __ATOMIC_RELEASE);
	__atomic_store_n(&queue[submitted++ % QUEUE_LEN], 0, __ATOMIC_RELEASE);
	__atomic_store_n(count, submitted, __ATOMIC_SEQ_CST);
	submit(KICK, 0, 0);
	for (unsigned looks = 1; __atomic_load_n(&slot[0], __ATOMIC_SEQ_CST) != SLOT_DONE; looks++) {
		__builtin_ia32_pause();
		if (looks % 4096 == 0 && now_us() > end) {
			fprintf(stderr, "the worker does not answer\n");
			exit(1);
		}
	}
}
