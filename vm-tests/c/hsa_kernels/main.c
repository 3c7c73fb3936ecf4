/* Runs the kernels of a code object (kernels/corpus.cl) through the HSA runtime alone, and checks every result on the CPU.
 *
 *   hsa_kernels CODE_OBJECT             all of them
 *   hsa_kernels CODE_OBJECT NAME        one: a kernel of the table below, or
 *   hsa_kernels CODE_OBJECT fault|trap  one that must fail: prints what the runtime says about it
 *   hsa_kernels CODE_OBJECT many COUNT  dispatches back to back
 *
 * It exits with 0 only if every word was right, and says otherwise what was not. */
#include <math.h>

#include "hsa_code.h"

enum { GROUP = 256, COUNT = 4096, SIDE = 64 };

struct arguments {
	const void *a, *b;
	void *out;
	int32_t n;
};

static hsa_agent_t gpu;
static hsa_pool_t pool;
static hsa_queue_t *queue;
static hsa_signal_t done;
static hsa_handle_t executable;
static struct arguments *arguments;
static uint32_t *a, *b, *out;
static volatile int queue_status;

static int each_agent(hsa_agent_t agent, void *data)
{
	int device = -1;

	(void)data;
	need(hsa_agent_get_info(agent, HSA_INFO_DEVICE, &device), "kind of an agent");
	if (device == HSA_DEVICE_GPU && !gpu.handle)
		gpu = agent;
	return HSA_SUCCESS;
}

/* Memory that both sides see, and that arguments may be in. */
static int each_pool(hsa_pool_t each, void *data)
{
	uint32_t flags = 0, segment = 1;

	(void)data;
	need(hsa_amd_memory_pool_get_info(each, HSA_POOL_SEGMENT, &segment), "segment of a pool");
	if (segment != HSA_SEGMENT_GLOBAL)
		return HSA_SUCCESS;
	need(hsa_amd_memory_pool_get_info(each, HSA_POOL_GLOBAL_FLAGS, &flags), "flags of a pool");
	if (flags & HSA_POOL_KERNARG)
		pool = each;
	return HSA_SUCCESS;
}

static int each_cpu(hsa_agent_t agent, void *data)
{
	int device = -1;

	need(hsa_agent_get_info(agent, HSA_INFO_DEVICE, &device), "kind of an agent");
	if (device == HSA_DEVICE_CPU && !pool.handle)
		need(hsa_amd_agent_iterate_memory_pools(agent, each_pool, data), "pools");
	return HSA_SUCCESS;
}

static void *allocate(size_t bytes)
{
	void *memory;

	need(hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory), "memory");
	need(hsa_amd_agents_allow_access(1, &gpu, NULL, memory), "access");
	return memory;
}

static void submit(const char *name, uint32_t items, hsa_signal_t completion)
{
	uint32_t packet[16] = { HSA_PACKET_DISPATCH | 1 << 8 | 2 << 9 | 2 << 11 | 1 << 16, GROUP | 1 << 16, 1, items, 1, 1 };

	hsa_name_kernel(packet, executable, gpu, name);
	memcpy(&packet[10], &arguments, 8);
	memcpy(&packet[14], &completion, 8);
	hsa_submit(queue, packet);
}

static void run(const char *name, uint32_t items)
{
	hsa_signal_store_relaxed(done, 1);
	submit(name, items, done);
	while (hsa_signal_wait_scacquire(done, HSA_LESS_THAN, 1, 100000000, HSA_WAIT_BLOCKED) != 0 && !queue_status)
		;
}

static float as_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, 4);
	return value;
}

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	return bits;
}

static void fail(const char *name, int at, double have, double want)
{
	printf("WRONG: %s: [%d] is %.17g, not %.17g\n", name, at, have, want);
	fflush(stdout);
	_exit(1);
}

static void same_float(const char *name, int at, float want)
{
	if (out[at] != bits_of(want))
		fail(name, at, as_float(out[at]), want);
}

static void same_word(const char *name, int at, uint32_t want)
{
	if (out[at] != want)
		fail(name, at, out[at], want);
}

/* Floats of many sizes and both signs. */
static void floats(uint32_t *to, uint32_t seed)
{
	for (int i = 0; i < COUNT; i++) {
		uint32_t mixed = (i + seed) * 2654435761u;

		to[i] = bits_of((int32_t)mixed / 1048576.0f);
	}
}

static void words(uint32_t *to, uint32_t seed)
{
	for (int i = 0; i < COUNT; i++)
		to[i] = (i + seed) * 2654435761u ^ i >> 3;
}

static void start(void (*fill)(uint32_t *, uint32_t), int n)
{
	fill(a, 1);
	fill(b, 77);
	memset(out, 0, COUNT * 8);
	*arguments = (struct arguments){ a, b, out, n };
}

static void vector_add(void)
{
	int n = COUNT - 77;

	start(floats, n);
	run("vector_add", COUNT - 13);
	for (int i = 0; i < COUNT; i++)
		same_float("vector_add", i, i < n ? as_float(a[i]) + as_float(b[i]) : 0);
}

static void saxpy(void)
{
	start(floats, COUNT);
	run("saxpy", COUNT);
	for (int i = 0; i < COUNT; i++)
		same_float("saxpy", i, fmaf(2.5f, as_float(a[i]), as_float(b[i])));
}

/* The order of the kernel's sums. */
static void reduce(void)
{
	start(floats, COUNT);
	run("reduce", COUNT);
	for (int group = 0; group < COUNT / GROUP; group++) {
		float part[GROUP];

		for (int i = 0; i < GROUP; i++)
			part[i] = as_float(a[group * GROUP + i]);
		for (int half = GROUP / 2; half; half /= 2)
			for (int i = 0; i < half; i++)
				part[i] += part[i + half];
		same_float("reduce", group, part[0]);
	}
}

static void matmul(void)
{
	start(floats, SIDE);
	run("matmul", SIDE * SIDE);
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			float sum = 0;

			for (int k = 0; k < SIDE; k++)
				sum = fmaf(as_float(a[y * SIDE + k]), as_float(b[k * SIDE + x]), sum);
			same_float("matmul", y * SIDE + x, sum);
		}
}

static void transpose(void)
{
	start(words, SIDE);
	run("transpose", SIDE * SIDE);
	for (int i = 0; i < SIDE * SIDE; i++)
		same_word("transpose", i, a[i % SIDE * SIDE + i / SIDE]);
}

static void histogram(void)
{
	uint32_t bins[64] = { 0 };

	start(words, COUNT - 5);
	run("histogram", COUNT);
	for (int i = 0; i < COUNT - 5; i++)
		bins[a[i] % 64]++;
	for (int i = 0; i < 64; i++)
		same_word("histogram", i, bins[i]);
}

/* Exponentials are approximations. */
static void softmax(void)
{
	start(floats, COUNT);
	for (int i = 0; i < COUNT; i++)
		a[i] = bits_of(as_float(a[i]) / 256);
	run("softmax", COUNT);
	for (int row = 0; row < COUNT / GROUP; row++) {
		double most = -INFINITY, sum = 0;

		for (int i = row * GROUP; i < (row + 1) * GROUP; i++)
			most = fmax(most, as_float(a[i]));
		for (int i = row * GROUP; i < (row + 1) * GROUP; i++)
			sum += exp(as_float(a[i]) - most);
		for (int i = row * GROUP; i < (row + 1) * GROUP; i++) {
			double want = exp(as_float(a[i]) - most) / sum, have = as_float(out[i]);

			if (!(fabs(have - want) <= want * 1e-5))
				fail("softmax", i, have, want);
		}
	}
}

static void private_array(void)
{
	start(words, COUNT);
	run("private_array", COUNT);
	for (int i = 0; i < COUNT; i++) {
		uint32_t mine[64], sum = 0;

		for (uint32_t k = 0; k < 64; k++)
			mine[k * 7 % 64] = a[i] + k;
		for (uint32_t k = 0; k < 64; k += 3)
			sum = sum * 31 + mine[(a[i] + k) % 64];
		same_word("private_array", i, sum);
	}
}

/* Division and root are exact; the compiler may fuse the others, so the last bits may differ. */
static void doubles(void)
{
	start(floats, COUNT);
	run("doubles", COUNT);
	for (int i = 0; i < COUNT; i++) {
		double x = as_float(a[i]), y = as_float(b[i]), have;
		double want = sqrt(x * x + y * y) / (y + 3.0) + x * i;

		memcpy(&have, out + 2 * i, 8);
		if (!(fabs(have - want) <= fabs(want) * 1e-13))
			fail("doubles", i, have, want);
	}
}

static float from_half(uint16_t half)
{
	float value = ldexpf((half & 0x3ff) | (half & 0x7c00 ? 0x400 : 0), (half & 0x7c00 ? (half >> 10 & 31) : 1) - 25);

	return half & 0x8000 ? -value : value;
}

/* The half nearest to a number that is exact in double: searched, not computed. */
static bool is_nearest_half(uint16_t half, double want)
{
	double error = fabs(from_half(half) - want);
	double up = fabs(from_half(half + 1) - want), down = fabs(from_half(half & 0x7fff ? half - 1 : half) - want);

	return error <= up && error <= down && ((error != up && error != down) || !(half & 1));
}

static void halves(void)
{
	start(words, COUNT);
	for (int i = 0; i < COUNT; i++) {
		/* Numbers from 2^-9 to 2^4. */
		a[i] = (a[i] & 0x9fff9fff) + 0x18001800;
		b[i] = (b[i] & 0x9fff9fff) + 0x18001800;
	}
	run("halves", COUNT);
	for (int i = 0; i < COUNT * 2; i++) {
		double x = from_half(a[i / 2] >> i % 2 * 16), y = from_half(b[i / 2] >> i % 2 * 16);

		if (!is_nearest_half(out[i / 2] >> i % 2 * 16, x * y + x))
			fail("halves", i, from_half(out[i / 2] >> i % 2 * 16), x * y + x);
	}
}

static void integers(void)
{
	start(words, COUNT);
	run("integers", COUNT);
	for (int i = 0; i < COUNT; i++) {
		uint32_t x = a[i], y = b[i] | 1;
		uint64_t wide = (uint64_t)x * y + i;

		same_word("integers", i, x / y + x % y + (uint32_t)(wide >> 17) + (uint32_t)(wide / 1000003)
			  + (uint32_t)((int32_t)x >> 3) % 77);
	}
}

static const struct {
	const char *name;
	void (*check)(void);
} KERNELS[] = {
	{ "vector_add", vector_add }, { "saxpy", saxpy },         { "reduce", reduce },   { "matmul", matmul },
	{ "transpose", transpose },   { "histogram", histogram }, { "softmax", softmax }, { "private_array", private_array },
	{ "doubles", doubles },       { "halves", halves },       { "integers", integers },
};

static void on_queue_error(int status, hsa_queue_t *which, void *data)
{
	(void)which;
	(void)data;
	queue_status = status;
}

static int on_event(const hsa_event_t *event, void *data)
{
	(void)data;
	printf("memory fault at %#lx\n", event->virtual_address);
	fflush(stdout);
	_exit(0);
}

static void must_fail(const char *name)
{
	start(words, COUNT);
	run(name, GROUP);
	printf("queue error %#x\n", queue_status);
}

static void many(int count)
{
	double before = seconds_now();

	start(floats, GROUP);
	hsa_signal_store_relaxed(done, count);
	for (int i = 0; i < count; i++)
		submit("vector_add", GROUP, done);
	while (hsa_signal_wait_scacquire(done, HSA_LESS_THAN, 1, UINT64_MAX, HSA_WAIT_BLOCKED) != 0)
		;
	for (int i = 0; i < GROUP; i++)
		same_float("vector_add", i, as_float(a[i]) + as_float(b[i]));
	printf("%d dispatches: %.1f us each\n", count, (seconds_now() - before) / count * 1e6);
}

int main(int argc, char **argv)
{
	const char *only = argc > 2 ? argv[2] : NULL;

	need(hsa_init(), "hsa_init");
	need(hsa_iterate_agents(each_agent, NULL), "agents");
	need(hsa_iterate_agents(each_cpu, NULL), "agents");
	if (argc < 2 || !gpu.handle || !pool.handle) {
		printf("usage: hsa_kernels CODE_OBJECT [NAME], with a GPU\n");
		return 1;
	}
	need(hsa_amd_register_system_event_handler(on_event, NULL), "event handler");
	need(hsa_queue_create(gpu, 1024, 0, on_queue_error, NULL, UINT32_MAX, UINT32_MAX, &queue), "queue");
	need(hsa_signal_create(1, 0, NULL, &done), "signal");
	executable = hsa_load_code(argv[1], gpu);
	arguments = allocate(4096);
	a = allocate(COUNT * 8);
	b = allocate(COUNT * 8);
	out = allocate(COUNT * 8);
	if (only && !strcmp(only, "fault"))
		must_fail("wild_store");
	else if (only && !strcmp(only, "trap"))
		must_fail("trap");
	else if (only && !strcmp(only, "many"))
		many(argc > 3 ? atoi(argv[3]) : 1000);
	else
		for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++) {
			if (only && strcmp(only, KERNELS[i].name))
				continue;
			double before = seconds_now();

			KERNELS[i].check();
			printf("%-14s right, %.1f ms\n", KERNELS[i].name, (seconds_now() - before) * 1e3);
		}
	need(hsa_queue_destroy(queue), "queue");
	need(hsa_signal_destroy(done), "signal");
	need(hsa_shut_down(), "hsa_shut_down");
	printf("all right\n");
	return 0;
}
