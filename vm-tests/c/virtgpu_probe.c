/* What the stock virtio-gpu driver of the guest makes of our device: the calls that a thunk over virtio will make, on
 * the render node that is named. Prints a line for each finding; with "wait" it waits for ever. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "virtgpu.h"

/* What the host's context of the test understands: a word that says what, and a blob. */
enum { INVERT = 1, HOLD = 2, RELEASE = 3 };

static int node;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void call(const char *name, unsigned long request, void *args)
{
	if (ioctl(node, request, args) != 0) {
		printf("%s: %s\n", name, strerror(errno));
		exit(1);
	}
}

static void parameter(const char *name, uint64_t param)
{
	uint32_t value = 0;
	struct getparam args = { param, (uintptr_t)&value };

	call(name, GETPARAM, &args);
	printf("%s %u\n", name, value);
}

static void capset(uint32_t version)
{
	uint8_t data[24] = { 0 };
	struct get_caps args = { .id = 8, .version = version, .addr = (uintptr_t)data, .size = sizeof(data) };
	int result = ioctl(node, GET_CAPS, &args);

	printf("capset version %u: %s", version, result == 0 ? "" : strerror(errno));
	for (size_t at = 0; result == 0 && at < sizeof(data); at++)
		printf("%02x", data[at]);
	printf("\n");
}

static struct create_blob blob(uint64_t size)
{
	struct create_blob args = { .mem = GUEST, .flags = MAPPABLE, .size = size };

	call("create a blob", CREATE_BLOB, &args);
	return args;
}

static volatile uint32_t *mapped(const struct create_blob *blob)
{
	struct map args = { .handle = blob->bo_handle };
	void *memory;

	call("map a blob", MAP, &args);
	memory = mmap(NULL, blob->size, PROT_READ | PROT_WRITE, MAP_SHARED, node, (off_t)args.offset);
	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return memory;
}

/* Sends a submission on a ring, and returns its fence. */
static int submit(uint32_t ring, uint32_t what, uint32_t resource)
{
	uint32_t command[2] = { what, resource };
	struct execbuffer args = {
		.flags = RING | FENCE_OUT,
		.size = sizeof(command),
		.command = (uintptr_t)command,
		.fence_fd = -1,
		.ring_idx = ring,
	};

	call("submit", EXECBUFFER, &args);
	return args.fence_fd;
}

static int signalled(int fence, int milliseconds)
{
	struct pollfd wait = { .fd = fence, .events = POLLIN };

	return poll(&wait, 1, milliseconds) == 1;
}

static void release(const struct create_blob *blob)
{
	struct gem_close args = { blob->bo_handle, 0 };

	call("close a blob", GEM_CLOSE, &args);
}

static void init(void)
{
	struct param params[] = { { 1, 8 }, { 2, 64 } };
	struct context_init args = { 2, 0, (uintptr_t)params };

	call("init a context", CONTEXT_INIT, &args);
}

static void many(uint32_t count, uint64_t size, struct create_blob kind)
{
	struct create_blob *blobs = calloc(count, sizeof(*blobs));
	double start = now(), made;

	kind.size = size;
	for (uint32_t at = 0; at < count; at++) {
		blobs[at] = kind;
		call("create a blob", CREATE_BLOB, &blobs[at]);
	}
	/* The driver does not wait for the device; this does. */
	if (!signalled(submit(0, INVERT, blobs[count - 1].res_handle), 60000))
		printf("no fence after %u blobs\n", count);
	made = now();
	for (uint32_t at = 0; at < count; at++)
		release(&blobs[at]);
	fprintf(stderr, "%u blobs of %llu bytes: %.0f ms, closed in %.0f ms\n", count, (unsigned long long)size,
		(made - start) * 1e3, (now() - made) * 1e3);
	free(blobs);
}

/* Memory of the host, in the device's window. */
static void window(void)
{
	const struct create_blob kind = { .mem = HOST3D, .flags = MAPPABLE, .blob_id = 1 };
	struct create_blob args = kind;
	volatile uint32_t *words;

	args.size = 1 << 20;
	if (ioctl(node, CREATE_BLOB, &args) != 0) {
		printf("host memory: %s\n", strerror(errno));
		return;
	}
	words = mapped(&args);
	printf("host memory: %08x", words[0] | words[(1 << 18) - 1]);
	words[0] = 0x12345678;
	printf(" %s", signalled(submit(5, INVERT, args.res_handle), 10000) ? "fence" : "no fence");
	printf(" %08x\n", words[(1 << 18) - 1]);
	munmap((void *)words, args.size);
	release(&args);
	/* More than QEMU has memory slots. */
	many(1000, 4096, kind);
}

static int by_time(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
	const struct create_blob guest = { .mem = GUEST, .flags = MAPPABLE };
	struct create_blob one;
	volatile uint32_t *words;
	double times[501];
	int held, free_ring, after;

	node = open(argc > 1 ? argv[1] : "", O_RDWR | O_CLOEXEC);
	if (node < 0) {
		perror("open the render node");
		return 1;
	}
	if (argc > 2 && strcmp(argv[2], "wait") == 0) {
		init();
		one = blob(1 << 20);
		held = submit(1, HOLD, one.res_handle);
		printf("waiting\n");
		fflush(stdout);
		return signalled(held, -1);
	}
	parameter("3D_FEATURES", 1);
	parameter("RESOURCE_BLOB", 3);
	parameter("HOST_VISIBLE", 4);
	parameter("CROSS_DEVICE", 5);
	parameter("CONTEXT_INIT", 6);
	parameter("SUPPORTED_CAPSET_IDs", 7);
	capset(1);
	capset(0);
	capset(2);
	init();

	one = blob(1 << 20);
	words = mapped(&one);
	words[0] = 0x12345678;
	words[(1 << 18) - 1] = 0;
	printf("inverted: %s", signalled(submit(5, INVERT, one.res_handle), 10000) ? "fence" : "no fence");
	printf(" %08x\n", words[(1 << 18) - 1]);

	held = submit(1, HOLD, 0);
	after = submit(1, INVERT, one.res_handle);
	free_ring = submit(2, INVERT, one.res_handle);
	printf("free ring %d\n", signalled(free_ring, 10000));
	printf("held ring %d %d\n", signalled(held, 200), signalled(after, 0));
	printf("release %d\n", signalled(submit(3, RELEASE, 0), 10000));
	printf("held ring %d %d\n", signalled(held, 10000), signalled(after, 10000));
	/* The driver does not know that a submission failed: its fence is signalled. */
	printf("refused %d\n", signalled(submit(4, 99, 0), 10000));

	window();

	for (int at = 0; at < 501; at++) {
		double start = now();
		int fence = submit(0, INVERT, one.res_handle);

		signalled(fence, 10000);
		times[at] = now() - start;
		close(fence);
	}
	qsort(times, 501, sizeof(times[0]), by_time);
	fprintf(stderr, "submission with a fence: %.0f us (median)\n", times[250] * 1e6);
	many(1000, 4096, guest);
	many(1, 61 << 20, guest);
	/* What is left open ends with the process. */
	printf("done\n");
	return 0;
}
