/* Kernels that must fail, each in the way that HIP's users know. One at a time, since most end the program:
 *
 *   hip_faults out-of-bounds       writes where no memory is
 *   hip_faults illegal             an instruction that there is not
 *   hip_faults trap                asks for the debugger's trap
 *   hip_faults assert              an assertion that fails
 *   hip_faults printf              prints, and goes on
 *   hip_faults misaligned          reads words at odd addresses, which this hardware can
 *   hip_faults local               more LDS than there is
 *   hip_faults scratch             as much private memory as a compiler gives, 125 KiB for each item
 *   hip_faults endless             never ends; the program exits with status 7 while it runs
 *
 * What HIP answers is printed. A program that reaches its end has the status 0. */
#include <hip/hip_runtime.h>

#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unistd.h>

/* No buffer lies there: it is not page aligned memory of any program. */
static uint32_t *const NOWHERE = (uint32_t *)0x123456789000;

__global__ void write_to(uint32_t *to) { to[threadIdx.x] = threadIdx.x; }

__global__ void run_illegal() { asm volatile(".long 0xbfff0000"); }

__global__ void run_trap() { __builtin_trap(); }

__global__ void run_assert(uint32_t value) { assert(value == 42); }

__global__ void run_printf(const char *word)
{
	printf("item %u of group %u says %s\n", (unsigned)threadIdx.x, (unsigned)blockIdx.x, word ? "no" : "yes");
}

__global__ void read_odd(const unsigned char *from, uint32_t *to)
{
	to[threadIdx.x] = *(const volatile uint32_t *)(from + 4 * threadIdx.x + 1);
}

extern __shared__ uint32_t local[];

__global__ void use_local(uint32_t *to)
{
	local[threadIdx.x] = threadIdx.x;
	__syncthreads();
	to[threadIdx.x] = local[blockDim.x - 1 - threadIdx.x];
}

/* A compiler gives 131,056 bytes at most, 8 MiB for a wave. */
__global__ void use_scratch(uint32_t *to, uint32_t at)
{
	volatile uint32_t room[32000];
	for (uint32_t i = threadIdx.x; i < 32000; i += 997)
		room[i] = i + at;
	to[threadIdx.x] = room[threadIdx.x + 997] - threadIdx.x;
}

__global__ void run_for_ever(volatile uint32_t *flag)
{
	while (*flag == 0)
		;
}

static void say(const char *what, hipError_t status)
{
	printf("%s: %s\n", what, hipGetErrorName(status));
	fflush(stdout);
}

static void finish()
{
	say("launch", hipGetLastError());
	say("synchronize", hipDeviceSynchronize());
}

static uint32_t *memory(size_t bytes)
{
	void *memory = nullptr;
	hipError_t status = hipMalloc(&memory, bytes);
	if (status == hipSuccess)
		status = hipMemset(memory, 0, bytes);
	if (status != hipSuccess) {
		say("memory", status);
		_exit(1);
	}
	return (uint32_t *)memory;
}

static int misaligned()
{
	unsigned char bytes[64 * 4 + 4];
	uint32_t read[64];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7);
	uint32_t *from = memory(sizeof(bytes)), *to = memory(sizeof(read));
	say("copy", hipMemcpy(from, bytes, sizeof(bytes), hipMemcpyHostToDevice));
	read_odd<<<1, 64>>>((const unsigned char *)from, to);
	finish();
	say("copy back", hipMemcpy(read, to, sizeof(read), hipMemcpyDeviceToHost));
	for (size_t i = 0; i < 64; i++) {
		uint32_t expected;
		memcpy(&expected, bytes + 4 * i + 1, sizeof(expected));
		if (read[i] != expected) {
			printf("word %zu is %#x and not %#x\n", i, read[i], expected);
			return 1;
		}
	}
	printf("all words are right\n");
	return 0;
}

static int scratch()
{
	uint32_t read[256];
	uint32_t *to = memory(sizeof(read));
	use_scratch<<<4, 64>>>(to, 5);
	finish();
	say("copy back", hipMemcpy(read, to, sizeof(read), hipMemcpyDeviceToHost));
	for (size_t i = 0; i < 64; i++)
		if (read[i] != 997 + 5) {
			printf("item %zu has %u\n", i, read[i]);
			return 1;
		}
	printf("all items are right\n");
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	auto is = [&](const char *other) { return !strcmp(name, other); };

	if (is("misaligned"))
		return misaligned();
	if (is("out-of-bounds"))
		write_to<<<1, 64>>>(NOWHERE);
	else if (is("illegal"))
		run_illegal<<<1, 64>>>();
	else if (is("trap"))
		run_trap<<<1, 64>>>();
	else if (is("assert"))
		run_assert<<<1, 1>>>(41);
	else if (is("printf"))
		run_printf<<<2, 2>>>(nullptr);
	else if (is("local"))
		use_local<<<1, 64, 1 << 20>>>(memory(4096));
	else if (is("scratch"))
		return scratch();
	else if (is("endless")) {
		run_for_ever<<<1, 64>>>(memory(4096));
		say("launch", hipGetLastError());
		usleep(200000);
		printf("leaving\n");
		fflush(stdout);
		_exit(7);
	} else {
		fprintf(stderr, "there is no %s\n", name);
		return 2;
	}
	finish();
	return 0;
}
