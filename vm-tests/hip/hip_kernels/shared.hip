/* Kernels whose work-items share LDS, wait for each other, and count by atomics. */
#include "check.h"

static const int GROUP = 256;
static const int TILE = 16;
static const int BINS = 64;

/* A sum for each group: in LDS down to a wave, then between lanes. */
__global__ void reduce(const float *values, float *sums, int n)
{
	__shared__ float part[GROUP];
	int item = threadIdx.x;
	float sum = 0;

	for (int i = blockIdx.x * GROUP + item; i < n; i += gridDim.x * GROUP)
		sum += values[i];
	part[item] = sum;
	__syncthreads();
	for (int half = GROUP / 2; half >= 64; half /= 2) {
		if (item < half)
			part[item] += part[item + half];
		__syncthreads();
	}
	if (item >= 64)
		return;
	sum = part[item];
	for (int distance = 32; distance; distance /= 2)
		sum += __shfl_down(sum, distance);
	if (item == 0)
		sums[blockIdx.x] = sum;
}

__global__ void transpose(const uint32_t *from, uint32_t *to, int side)
{
	__shared__ uint32_t tile[TILE][TILE + 1];
	int x = blockIdx.x * TILE, y = blockIdx.y * TILE;

	tile[threadIdx.y][threadIdx.x] = from[(y + threadIdx.y) * side + x + threadIdx.x];
	__syncthreads();
	to[(x + threadIdx.y) * side + y + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void histogram(const uint32_t *values, uint32_t *bins, int n)
{
	__shared__ uint32_t mine[BINS];

	if (threadIdx.x < BINS)
		mine[threadIdx.x] = 0;
	__syncthreads();
	for (int i = blockIdx.x * GROUP + threadIdx.x; i < n; i += gridDim.x * GROUP)
		atomicAdd(&mine[values[i] % BINS], 1u);
	__syncthreads();
	if (threadIdx.x < BINS)
		atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

/* A row of `columns` for each group. */
__global__ void softmax(const float *values, float *out, int columns)
{
	__shared__ float part[GROUP];
	const float *row = values + static_cast<size_t>(blockIdx.x) * columns;
	int item = threadIdx.x;
	float most = -INFINITY, sum = 0;

	for (int i = item; i < columns; i += GROUP)
		most = fmaxf(most, row[i]);
	part[item] = most;
	__syncthreads();
	for (int half = GROUP / 2; half; half /= 2) {
		if (item < half)
			part[item] = fmaxf(part[item], part[item + half]);
		__syncthreads();
	}
	most = part[0];
	__syncthreads();
	for (int i = item; i < columns; i += GROUP)
		sum += expf(row[i] - most);
	part[item] = sum;
	__syncthreads();
	for (int half = GROUP / 2; half; half /= 2) {
		if (item < half)
			part[item] += part[item + half];
		__syncthreads();
	}
	for (int i = item; i < columns; i += GROUP)
		out[static_cast<size_t>(blockIdx.x) * columns + i] = expf(row[i] - most) / part[0];
}

static void check_reduce(int n)
{
	const int groups = 64;
	std::vector<float> values = eighths(n, 6);
	Device<float> device(values), sums(groups);
	Check check("reduction in LDS");
	double have = 0, want = 0;

	hipLaunchKernelGGL(reduce, dim3(groups), dim3(GROUP), 0, 0, device, sums, n);
	HIP(hipDeviceSynchronize());
	check.computed();
	for (float sum : sums.values())
		have += sum;
	for (float value : values)
		want += value;
	check.value(have == want);
}

static void check_transpose(int side)
{
	std::vector<uint32_t> values(side * side);
	for (int i = 0; i < side * side; i++)
		values[i] = mixed(i);
	Device<uint32_t> from(values), to(side * side);
	Check check("transpose");

	hipLaunchKernelGGL(transpose, dim3(side / TILE, side / TILE), dim3(TILE, TILE), 0, 0, from, to, side);
	HIP(hipDeviceSynchronize());
	check.computed();
	std::vector<uint32_t> have = to.values();
	for (int y = 0; y < side; y++)
		for (int x = 0; x < side; x++)
			check.value(have[x * side + y] == values[y * side + x]);
}

static void check_histogram(int n)
{
	std::vector<uint32_t> values(n), want(BINS);
	for (int i = 0; i < n; i++)
		want[(values[i] = mixed(i + 7)) % BINS]++;
	Device<uint32_t> device(values), bins(BINS);
	Check check("histogram by atomics");

	HIP(hipMemset(bins, 0, BINS * sizeof(uint32_t)));
	hipLaunchKernelGGL(histogram, dim3(32), dim3(GROUP), 0, 0, device, bins, n);
	HIP(hipDeviceSynchronize());
	check.computed();
	std::vector<uint32_t> have = bins.values();
	for (int i = 0; i < BINS; i++)
		check.value(have[i] == want[i]);
}

static void check_softmax(int rows)
{
	const int columns = 500;
	std::vector<float> values = eighths(static_cast<size_t>(rows) * columns, 8);
	Device<float> from(values), to(values.size());
	Check check("softmax");

	hipLaunchKernelGGL(softmax, dim3(rows), dim3(GROUP), 0, 0, from, to, columns);
	HIP(hipDeviceSynchronize());
	check.computed();
	std::vector<float> have = to.values();
	for (int row = 0; row < rows; row++) {
		const float *of = &values[static_cast<size_t>(row) * columns];
		double most = -INFINITY, sum = 0;

		for (int i = 0; i < columns; i++)
			most = fmax(most, of[i]);
		for (int i = 0; i < columns; i++)
			sum += exp(of[i] - most);
		for (int i = 0; i < columns; i++) {
			double want = exp(of[i] - most) / sum;

			check.value(fabs(have[static_cast<size_t>(row) * columns + i] - want) <= 1e-5 * want);
		}
	}
}

void check_shared(Sizes sizes)
{
	check_reduce(sizes.elements - 5);
	check_transpose(sizes.side * 2);
	check_histogram(sizes.elements);
	check_softmax(sizes.side / 4);
}
