/* Products of matrices: tiles in LDS, and matrix operations of half precision and of bfloat16. */
#include "check.h"

static const int TILE = 16;

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef short short4v __attribute__((ext_vector_type(4)));
typedef float float4v __attribute__((ext_vector_type(4)));

__global__ void matmul(const float *a, const float *b, float *c, int side)
{
	__shared__ float ta[TILE][TILE], tb[TILE][TILE];
	int row = threadIdx.y, column = threadIdx.x;
	int y = blockIdx.y * TILE + row, x = blockIdx.x * TILE + column;
	float sum = 0;

	for (int tile = 0; tile < side; tile += TILE) {
		ta[row][column] = a[y * side + tile + column];
		tb[row][column] = b[(tile + row) * side + x];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += ta[row][k] * tb[k][column];
		__syncthreads();
	}
	c[y * side + x] = sum;
}

/* A tile of 16 by 16 for each wave. A lane has four of a row of A, and four of a column of B. */
__global__ void gemm_half(const _Float16 *a, const _Float16 *b, float *c, int side)
{
	int lane = threadIdx.x, at = lane % 16, part = lane / 16;
	int y = blockIdx.y * TILE, x = blockIdx.x * TILE;
	float4v sum = { 0, 0, 0, 0 };

	for (int tile = 0; tile < side; tile += TILE) {
		half4 fa, fb;

		for (int i = 0; i < 4; i++) {
			fa[i] = a[(y + at) * side + tile + part * 4 + i];
			fb[i] = b[(tile + part * 4 + i) * side + x + at];
		}
		sum = __builtin_amdgcn_mfma_f32_16x16x16f16(fa, fb, sum, 0, 0, 0);
	}
	for (int i = 0; i < 4; i++)
		c[(y + part * 4 + i) * side + x + at] = sum[i];
}

__global__ void gemm_bfloat(const uint16_t *a, const uint16_t *b, float *c, int side)
{
	int lane = threadIdx.x, at = lane % 16, part = lane / 16;
	int y = blockIdx.y * TILE, x = blockIdx.x * TILE;
	float4v sum = { 0, 0, 0, 0 };

	for (int tile = 0; tile < side; tile += TILE) {
		short4v fa, fb;

		for (int i = 0; i < 4; i++) {
			fa[i] = static_cast<short>(a[(y + at) * side + tile + part * 4 + i]);
			fb[i] = static_cast<short>(b[(tile + part * 4 + i) * side + x + at]);
		}
		sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(fa, fb, sum, 0, 0, 0);
	}
	for (int i = 0; i < 4; i++)
		c[(y + part * 4 + i) * side + x + at] = sum[i];
}

/* The same without matrix operations: packed halves. */
__global__ void dot_half(const _Float16 *a, const _Float16 *b, _Float16 *c, int side)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
	_Float16 sum = 0;

	/* Sums of 16 products that are exact in half precision. */
	for (int k = 0; k < TILE; k++)
		sum += a[y * side + k] * b[k * side + x];
	c[y * side + x] = sum;
}

/* Multiples of 1/8 have few bits, so the shorter types hold them. */
static uint16_t to_bfloat(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	return static_cast<uint16_t>(bits >> 16);
}

static void compare(Check &check, const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &have, int side)
{
	std::vector<float> row(side);

	for (int y = 0; y < side; y++) {
		row.assign(side, 0);
		for (int k = 0; k < side; k++)
			for (int x = 0; x < side; x++)
				row[x] += a[y * side + k] * b[k * side + x];
		for (int x = 0; x < side; x++)
			check.value(have[y * side + x] == row[x]);
	}
}

static void check_matmul(int side)
{
	std::vector<float> a = eighths(side * side, 9), b = eighths(side * side, 10);
	Device<float> da(a), db(b), dc(side * side);
	Check check("matmul in tiles");

	hipLaunchKernelGGL(matmul, dim3(side / TILE, side / TILE), dim3(TILE, TILE), 0, 0, da, db, dc, side);
	HIP(hipDeviceSynchronize());
	check.computed();
	compare(check, a, b, dc.values(), side);
}

static void check_gemm_half(int side)
{
	std::vector<float> a = eighths(side * side, 11), b = eighths(side * side, 12);
	Device<_Float16> da(std::vector<_Float16>(a.begin(), a.end())), db(std::vector<_Float16>(b.begin(), b.end()));
	Device<float> dc(side * side);
	Check check("fp16 GEMM");

	hipLaunchKernelGGL(gemm_half, dim3(side / TILE, side / TILE), dim3(64), 0, 0, da, db, dc, side);
	HIP(hipDeviceSynchronize());
	check.computed();
	compare(check, a, b, dc.values(), side);
}

static void check_gemm_bfloat(int side)
{
	std::vector<float> a = eighths(side * side, 13), b = eighths(side * side, 14);
	std::vector<uint16_t> short_a, short_b;
	for (int i = 0; i < side * side; i++) {
		short_a.push_back(to_bfloat(a[i]));
		short_b.push_back(to_bfloat(b[i]));
	}
	Device<uint16_t> da(short_a), db(short_b);
	Device<float> dc(side * side);
	Check check("bf16 GEMM");

	hipLaunchKernelGGL(gemm_bfloat, dim3(side / TILE, side / TILE), dim3(64), 0, 0, da, db, dc, side);
	HIP(hipDeviceSynchronize());
	check.computed();
	compare(check, a, b, dc.values(), side);
}

static void check_dot_half(int side)
{
	std::vector<float> a = eighths(side * side, 15), b = eighths(side * side, 16);
	/* Whole numbers up to 4, so that sums need no more than 11 bits. */
	for (float &value : a)
		value = truncf(value);
	for (float &value : b)
		value = truncf(value);
	Device<_Float16> da(std::vector<_Float16>(a.begin(), a.end())), db(std::vector<_Float16>(b.begin(), b.end())), dc(side * side);
	Check check("fp16 without matrix cores");

	hipLaunchKernelGGL(dot_half, dim3(side / 64, side), dim3(64), 0, 0, da, db, dc, side);
	HIP(hipDeviceSynchronize());
	check.computed();
	std::vector<_Float16> have = dc.values();
	for (int y = 0; y < side; y++)
		for (int x = 0; x < side; x++) {
			float sum = 0;

			for (int k = 0; k < TILE; k++)
				sum += a[y * side + k] * b[k * side + x];
			check.value(static_cast<float>(have[y * side + x]) == sum);
		}
}

void check_matrices(Sizes sizes)
{
	check_matmul(sizes.side);
	check_gemm_half(sizes.side);
	check_gemm_bfloat(sizes.side);
	check_dot_half(sizes.side);
}
