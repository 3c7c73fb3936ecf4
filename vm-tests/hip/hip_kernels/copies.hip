/* Copies and fills of every kind, each byte checked. */
#include "check.h"

static std::vector<uint8_t> noise(size_t count, uint32_t seed)
{
	std::vector<uint8_t> bytes(count);

	for (size_t i = 0; i < count; i++)
		bytes[i] = static_cast<uint8_t>((i * 2654435761u + seed) >> 13);
	return bytes;
}

static void compare(Check &check, const uint8_t *have, const uint8_t *want, size_t count)
{
	/* Most are right, so whole blocks are looked at first. */
	const size_t block = 4096;

	for (size_t at = 0; at < count; at += block) {
		size_t length = count - at < block ? count - at : block;
		bool same = !memcmp(have + at, want + at, length);

		for (size_t i = at; i < at + length; i++)
			check.value(same || have[i] == want[i]);
	}
}

/* Memory from malloc, with addresses that are not those of pages. */
static void check_both_ways(const char *name, size_t count)
{
	std::vector<uint8_t> bytes = noise(count, static_cast<uint32_t>(count));
	uint8_t *from = static_cast<uint8_t *>(malloc(count + 3)) + 3, *to = static_cast<uint8_t *>(malloc(count + 1)) + 1;
	memcpy(from, bytes.data(), count);
	memset(to, 0, count);
	Device<uint8_t> device(count);
	Check check(name);

	device.from(from);
	HIP(hipMemcpy(to, device, count, hipMemcpyDeviceToHost));
	check.computed();
	compare(check, to, bytes.data(), count);
	free(from - 3);
	free(to - 1);
}

static void check_memset(size_t count)
{
	std::vector<uint8_t> want(count, 0xa5);
	Device<uint8_t> device(want);
	Check check("hipMemset");

	HIP(hipMemset(device + 1, 0x3c, count - 4));
	HIP(hipDeviceSynchronize());
	check.computed();
	memset(want.data() + 1, 0x3c, count - 4);
	compare(check, device.values().data(), want.data(), count);
}

static void check_between(size_t count)
{
	std::vector<uint8_t> bytes = noise(count, 5);
	Device<uint8_t> from(bytes), to(count);
	Check check("copy on the GPU");

	HIP(hipMemcpy(to, from, count, hipMemcpyDeviceToDevice));
	HIP(hipDeviceSynchronize());
	check.computed();
	compare(check, to.values().data(), bytes.data(), count);
}

__global__ void add_one(uint32_t *values, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		values[i]++;
}

/* Two streams, one of which waits for the other's event. The memory is the runtime's own. */
static void check_streams(int n)
{
	uint32_t *pinned;
	hipStream_t first, second;
	hipEvent_t half_way;
	Device<uint32_t> device(n);

	HIP(hipHostMalloc(reinterpret_cast<void **>(&pinned), n * sizeof *pinned, hipHostMallocDefault));
	HIP(hipStreamCreate(&first));
	HIP(hipStreamCreate(&second));
	HIP(hipEventCreate(&half_way));
	for (int i = 0; i < n; i++)
		pinned[i] = mixed(i);
	{
		Check check("streams and events");

		HIP(hipMemcpyAsync(device, pinned, n * sizeof *pinned, hipMemcpyHostToDevice, first));
		hipLaunchKernelGGL(add_one, dim3((n + 255) / 256), dim3(256), 0, first, device, n);
		HIP(hipEventRecord(half_way, first));
		HIP(hipStreamWaitEvent(second, half_way, 0));
		hipLaunchKernelGGL(add_one, dim3((n + 255) / 256), dim3(256), 0, second, device, n);
		HIP(hipMemcpyAsync(pinned, device, n * sizeof *pinned, hipMemcpyDeviceToHost, second));
		HIP(hipStreamSynchronize(second));
		/* The kernel works on the host's memory in place. */
		hipLaunchKernelGGL(add_one, dim3((n + 255) / 256), dim3(256), 0, second, pinned, n);
		HIP(hipStreamSynchronize(second));
		check.computed();
		for (int i = 0; i < n; i++)
			check.value(pinned[i] == mixed(i) + 3);
	}
	HIP(hipEventDestroy(half_way));
	HIP(hipStreamDestroy(first));
	HIP(hipStreamDestroy(second));
	HIP(hipHostFree(pinned));
}

/* Where memory of the program's own cannot be shared with the GPU, the call says so and nothing else breaks. */
static void check_register(int n)
{
	std::vector<uint32_t> values(n, 41);
	hipError_t status = hipHostRegister(values.data(), n * sizeof(uint32_t), hipHostRegisterDefault);
	uint32_t *on_the_gpu;

	if (status != hipSuccess) {
		printf("%-28s refused: %s\n", "hipHostRegister", hipGetErrorString(status));
		(void)hipGetLastError();
		return;
	}
	HIP(hipHostGetDevicePointer(reinterpret_cast<void **>(&on_the_gpu), values.data(), 0));
	{
		Check check("hipHostRegister");

		hipLaunchKernelGGL(add_one, dim3((n + 255) / 256), dim3(256), 0, 0, on_the_gpu, n);
		HIP(hipDeviceSynchronize());
		check.computed();
		for (int i = 0; i < n; i++)
			check.value(values[i] == 42);
	}
	HIP(hipHostUnregister(values.data()));
}

void check_copies()
{
	check_both_ways("malloc memory, 1 B", 1);
	check_both_ways("malloc memory, 64 KiB", 64 << 10);
	check_both_ways("malloc memory, 64 MiB", 64 << 20);
	check_memset((1 << 20) + 3);
	check_between((1 << 20) + 5);
	check_streams(10000);
	check_register(50000);
	/* After a refusal everything goes on. */
	check_both_ways("after that, 64 KiB", 64 << 10);
}
