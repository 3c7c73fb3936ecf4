/* Kernels whose work-items have nothing to do with each other. */
#include "check.h"

static const int GROUP = 256;

__global__ void vector_add(const float *a, const float *b, float *sum, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		sum[i] = a[i] + b[i];
}

__global__ void saxpy(float factor, const float *x, float *y, int n)
{
	/* Fewer items than elements. */
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		y[i] = fmaf(factor, x[i], y[i]);
}

/* Double precision with what the library of the compiler has. */
__global__ void wave_function(const float *x, double *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = sin(static_cast<double>(x[i])) * exp(-0.25 * x[i]) / sqrt(2.0 + x[i] * x[i]) + pow(1.5, static_cast<double>(x[i]));
}

static int groups(int n)
{
	return (n + GROUP - 1) / GROUP;
}

static void check_vector_add(int n)
{
	std::vector<float> a = eighths(n, 1), b = eighths(n, 2);
	Device<float> da(a), db(b), sum(n);
	Check check("vector add");

	hipLaunchKernelGGL(vector_add, dim3(groups(n)), dim3(GROUP), 0, 0, da, db, sum, n);
	HIP(hipDeviceSynchronize());
	check.computed();
	std::vector<float> have = sum.values();
	for (int i = 0; i < n; i++)
		check.value(have[i] == a[i] + b[i]);
}

static void check_saxpy(int n)
{
	std::vector<float> x = eighths(n, 3), y = eighths(n, 4);
	Device<float> dx(x), dy(y);
	Check check("saxpy");

	hipLaunchKernelGGL(saxpy, dim3(groups(n) / 4), dim3(GROUP), 0, 0, 2.5f, dx, dy, n);
	HIP(hipDeviceSynchronize());
	check.computed();
	std::vector<float> have = dy.values();
	for (int i = 0; i < n; i++)
		check.value(have[i] == fmaf(2.5f, x[i], y[i]));
}

static void check_wave_function(int n)
{
	std::vector<float> x = eighths(n, 5);
	Device<float> dx(x);
	Device<double> dy(n);
	Check check("double sin, exp, sqrt, pow");

	hipLaunchKernelGGL(wave_function, dim3(groups(n)), dim3(GROUP), 0, 0, dx, dy, n);
	HIP(hipDeviceSynchronize());
	check.computed();
	std::vector<double> have = dy.values();
	for (int i = 0; i < n; i++) {
		double of = x[i], want = sin(of) * exp(-0.25 * of) / sqrt(2 + of * of) + pow(1.5, of);

		/* Each library is right but for a few of the last bits. */
		check.value(fabs(have[i] - want) <= 1e-14 * fmax(1, fabs(want)));
	}
}

void check_elementwise(Sizes sizes)
{
	check_vector_add(sizes.elements - 77);
	check_saxpy(sizes.elements);
	check_wave_function(sizes.elements / 16);
}
