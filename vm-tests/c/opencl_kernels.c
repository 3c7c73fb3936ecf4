/* Kernels (kernels/opencl.cl) through OpenCL, compiled once by the runtime itself. Every result is checked here on the CPU.
 *
 *   opencl_kernels SOURCE
 *
 * It prints a line for each kernel: how many values were checked, whether they were right, and how long it took. Its status is 0 only
 * if all were. */
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 1 << 16, SIDE = 64, GROUP = 256, COLUMNS = 500, ROWS = 32, BINS = 64, TILE = 16 };

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;
static cl_mem buffers[3];
static float a[COUNT], b[COUNT], out[COUNT];
static size_t total_wrong;

static void need(cl_int status, const char *what)
{
	if (status == CL_SUCCESS)
		return;
	printf("FAILED: %s: %d\n", what, status);
	fflush(stdout);
	_Exit(1);
}

static double milliseconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* A line of the table. */
static void line(const char *name, size_t checked, size_t wrong, double milliseconds)
{
	char verdict[40] = "OK";

	if (wrong || !checked)
		snprintf(verdict, sizeof verdict, "WRONG %zu", wrong);
	printf("%-28s %10zu values  %-12s %9.1f ms\n", name, checked, verdict, milliseconds);
	fflush(stdout);
	total_wrong += wrong + !checked;
}

/* Multiples of 1/8 from -4 to 4: sums of some thousand products of them are exact, in any order. */
static void eighths(float *to, uint32_t seed)
{
	for (uint32_t i = 0; i < COUNT; i++) {
		uint32_t mixed = (i * 2 + seed) * 2654435761u;

		to[i] = ((int)((mixed ^ mixed >> 15) % 65) - 32) / 8.0f;
	}
}

static char *read_source(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 16);

	if (!file || !text || !fread(text, 1, (1 << 16) - 1, file)) {
		printf("%s cannot be read\n", path);
		exit(1);
	}
	fclose(file);
	return text;
}

static void compile(const char *path)
{
	char *source = read_source(path), log[4096] = "";
	double start = milliseconds_now();
	cl_int status;

	program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &status);
	need(status, "clCreateProgramWithSource");
	status = clBuildProgram(program, 1, &device, "-cl-std=CL2.0", NULL, NULL);
	if (status != CL_SUCCESS)
		clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
	printf("compiled in %.1f ms\n%s", milliseconds_now() - start, log);
	need(status, "clBuildProgram");
	free(source);
}

/* Runs a kernel of the four arguments that all of them have, on fresh buffers, and reads the result. Returns the milliseconds. */
static double run(const char *name, size_t items, cl_int n)
{
	size_t group = GROUP;
	double start;
	cl_int status;
	cl_kernel kernel = clCreateKernel(program, name, &status);

	need(status, name);
	memset(out, 0, sizeof out);
	need(clEnqueueWriteBuffer(queue, buffers[0], CL_TRUE, 0, sizeof a, a, 0, NULL, NULL), "write");
	need(clEnqueueWriteBuffer(queue, buffers[1], CL_TRUE, 0, sizeof b, b, 0, NULL, NULL), "write");
	need(clEnqueueWriteBuffer(queue, buffers[2], CL_TRUE, 0, sizeof out, out, 0, NULL, NULL), "write");
	for (int i = 0; i < 3; i++)
		need(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]), "argument");
	need(clSetKernelArg(kernel, 3, sizeof n, &n), "argument");
	start = milliseconds_now();
	need(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL), name);
	need(clFinish(queue), "clFinish");
	start = milliseconds_now() - start;
	need(clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, sizeof out, out, 0, NULL, NULL), "read");
	need(clReleaseKernel(kernel), "kernel");
	return start;
}

static void elementwise(void)
{
	const int n = COUNT - 77;
	double took = run("vector_add", COUNT, n);
	size_t wrong = 0;

	for (int i = 0; i < COUNT; i++)
		wrong += out[i] != (i < n ? a[i] + b[i] : 0);
	line("vector add", COUNT, wrong, took);
	took = run("saxpy", COUNT, COUNT);
	wrong = 0;
	for (int i = 0; i < COUNT; i++)
		wrong += out[i] != fmaf(2.5f, a[i], b[i]);
	line("saxpy", COUNT, wrong, took);
}

static void shared(void)
{
	const int groups = 16;
	double took = run("reduce", groups * GROUP, COUNT - 5), have = 0, want = 0;
	int32_t bins[BINS] = { 0 }, counted[BINS];
	size_t wrong = 0;

	for (int i = 0; i < groups; i++)
		have += out[i];
	for (int i = 0; i < COUNT - 5; i++)
		want += a[i];
	line("reduction in LDS", 1, have != want, took);
	took = run("transpose", SIDE * SIDE, SIDE);
	for (int i = 0; i < SIDE * SIDE; i++)
		wrong += out[i] != a[i % SIDE * SIDE + i / SIDE];
	line("transpose", SIDE * SIDE, wrong, took);
	took = run("histogram", groups * GROUP, COUNT);
	wrong = 0;
	for (int i = 0; i < COUNT; i++)
		bins[((int)(a[i] * 8) + 32) & (BINS - 1)]++;
	memcpy(counted, out, sizeof counted);
	for (int i = 0; i < BINS; i++)
		wrong += counted[i] != bins[i];
	line("histogram by atomics", BINS, wrong, took);
}

static void softmax(void)
{
	double took = run("softmax", ROWS * GROUP, COLUMNS);
	size_t wrong = 0;

	for (int row = 0; row < ROWS; row++) {
		double most = -INFINITY, sum = 0;

		for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; i++)
			most = fmax(most, a[i]);
		for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; i++)
			sum += exp(a[i] - most);
		for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; i++) {
			double want = exp(a[i] - most) / sum;

			wrong += !(fabs(out[i] - want) <= want * 1e-5);
		}
	}
	line("softmax", ROWS * COLUMNS, wrong, took);
}

static void matrices(void)
{
	double took = run("matmul", SIDE * SIDE, SIDE);
	size_t wrong = 0;

	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			float sum = 0;

			for (int k = 0; k < SIDE; k++)
				sum += a[y * SIDE + k] * b[k * SIDE + x];
			wrong += out[y * SIDE + x] != sum;
		}
	line("matmul in tiles", SIDE * SIDE, wrong, took);
	took = run("dot_half", SIDE * SIDE, SIDE);
	wrong = 0;
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			float sum = 0;

			for (int k = 0; k < TILE; k++)
				sum += truncf(a[y * SIDE + k]) * truncf(b[k * SIDE + x]);
			wrong += out[y * SIDE + x] != sum;
		}
	line("fp16 without matrix cores", SIDE * SIDE, wrong, took);
}

/* Through pointers that the runtime hands out. Where it cannot share memory of its own with the GPU it says so. */
static void maps(void)
{
	double start = milliseconds_now();
	size_t wrong = 0;
	cl_int status;
	float *mapped = clEnqueueMapBuffer(queue, buffers[0], CL_TRUE, CL_MAP_READ, 0, sizeof a, 0, NULL, NULL, &status);

	if (status == CL_MAP_FAILURE) {
		printf("%-28s refused: CL_MAP_FAILURE\n", "mapped buffer");
		return;
	}
	need(status, "clEnqueueMapBuffer");
	for (int i = 0; i < COUNT; i++)
		wrong += mapped[i] != a[i];
	need(clEnqueueUnmapMemObject(queue, buffers[0], mapped, 0, NULL, NULL), "unmap");
	need(clFinish(queue), "clFinish");
	line("mapped buffer", COUNT, wrong, milliseconds_now() - start);
}

int main(int argc, char **argv)
{
	cl_platform_id platform;
	cl_int status;
	char name[256] = "", processor[256] = "", version[256] = "";

	if (argc != 2) {
		printf("usage: opencl_kernels SOURCE\n");
		return 1;
	}
	need(clGetPlatformIDs(1, &platform, NULL), "platform");
	need(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL), "device");
	need(clGetDeviceInfo(device, 0x4038 /* CL_DEVICE_BOARD_NAME_AMD */, sizeof name, name, NULL), "board");
	need(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof processor, processor, NULL), "name");
	need(clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version, version, NULL), "version");
	printf("%s (%s), %s\n", name, processor, version);
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
	need(status, "clCreateContext");
	queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
	need(status, "queue");
	compile(argv[1]);
	for (int i = 0; i < 3; i++) {
		buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof a, NULL, &status);
		need(status, "clCreateBuffer");
	}
	eighths(a, 1);
	eighths(b, 2);
	elementwise();
	shared();
	softmax();
	matrices();
	maps();
	for (int i = 0; i < 3; i++)
		need(clReleaseMemObject(buffers[i]), "clReleaseMemObject");
	need(clReleaseProgram(program), "clReleaseProgram");
	need(clReleaseCommandQueue(queue), "clReleaseCommandQueue");
	need(clReleaseContext(context), "clReleaseContext");
	if (total_wrong)
		printf("%zu values are wrong\n", total_wrong);
	else
		printf("all right\n");
	return total_wrong != 0;
}
