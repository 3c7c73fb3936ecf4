/* Kernels of the kinds that programs are made of, without any library: clang's builtins alone. Groups are of 256. */
#define N_GROUP 256
#define GROUP __builtin_amdgcn_workgroup_id_x()
#define LOCAL __builtin_amdgcn_workitem_id_x()
#define GLOBAL_ID (GROUP * N_GROUP + LOCAL)

static void barrier_all(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void vector_add(global const float *a, global const float *b, global float *c, int n)
{
	int i = GLOBAL_ID;

	if (i < n)
		c[i] = a[i] + b[i];
}

kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void saxpy(global const float *x, global const float *y, global float *out, int n)
{
	int i = GLOBAL_ID;

	if (i < n)
		out[i] = __builtin_fmaf(2.5f, x[i], y[i]);
}

/* Sums of groups. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void reduce(global const float *a, global const float *unused, global float *sums, int n)
{
	local float part[N_GROUP];
	int i = GLOBAL_ID, l = LOCAL;

	part[l] = i < n ? a[i] : 0;
	barrier_all();
	for (int step = N_GROUP / 2; step; step /= 2) {
		if (l < step)
			part[l] += part[l + step];
		barrier_all();
	}
	if (l == 0)
		sums[GROUP] = part[0];
}

/* 64 by 64 matrices, tiles of 16: groups are 16 by 16 items of a tile. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void matmul(global const float *a, global const float *b, global float *c, int n)
{
	local float ta[16][17], tb[16][17];
	int tiles = n / 16, row = LOCAL / 16, column = LOCAL % 16;
	int y = GROUP / tiles * 16 + row, x = GROUP % tiles * 16 + column;
	float sum = 0;

	for (int t = 0; t < tiles; t++) {
		ta[row][column] = a[y * n + t * 16 + column];
		tb[row][column] = b[(t * 16 + row) * n + x];
		barrier_all();
		for (int k = 0; k < 16; k++)
			sum = __builtin_fmaf(ta[row][k], tb[k][column], sum);
		barrier_all();
	}
	c[y * n + x] = sum;
}

kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void transpose(global const float *a, global const float *unused, global float *out, int n)
{
	local float tile[16][17];
	int tiles = n / 16, row = LOCAL / 16, column = LOCAL % 16;
	int ty = GROUP / tiles, tx = GROUP % tiles;

	tile[row][column] = a[(ty * 16 + row) * n + tx * 16 + column];
	barrier_all();
	out[(tx * 16 + row) * n + ty * 16 + column] = tile[column][row];
}

/* Counts into 64 bins, in LDS first. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void histogram(global const unsigned *a, global const float *unused, global unsigned *bins, int n)
{
	local unsigned mine[64];
	int i = GLOBAL_ID, l = LOCAL;

	if (l < 64)
		mine[l] = 0;
	barrier_all();
	if (i < n)
		__opencl_atomic_fetch_add((local atomic_uint *)&mine[a[i] % 64], 1, __ATOMIC_RELAXED, 1);
	barrier_all();
	if (l < 64 && mine[l])
		__opencl_atomic_fetch_add((global atomic_uint *)&bins[l], mine[l], __ATOMIC_RELAXED, 2);
}

/* Rows of 256, one for each group. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void softmax(global const float *a, global const float *unused, global float *out, int n)
{
	local float part[N_GROUP];
	int l = LOCAL;
	float x = a[GLOBAL_ID], e;

	part[l] = x;
	barrier_all();
	for (int step = N_GROUP / 2; step; step /= 2) {
		if (l < step)
			part[l] = __builtin_fmaxf(part[l], part[l + step]);
		barrier_all();
	}
	e = __builtin_amdgcn_exp2f((x - part[0]) * 1.44269504f);
	barrier_all();
	part[l] = e;
	barrier_all();
	for (int step = N_GROUP / 2; step; step /= 2) {
		if (l < step)
			part[l] += part[l + step];
		barrier_all();
	}
	out[GLOBAL_ID] = e / part[0];
}

/* An array that no compiler can keep in registers. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void private_array(global const unsigned *a, global const float *unused, global unsigned *out, int n)
{
	volatile unsigned mine[64];
	int i = GLOBAL_ID;
	unsigned sum = 0;

	for (unsigned k = 0; k < 64; k++)
		mine[k * 7 % 64] = a[i] + k;
	for (unsigned k = 0; k < 64; k += 3)
		sum = sum * 31 + mine[(a[i] + k) % 64];
	out[i] = sum;
}

/* Double precision, division and square root included. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void doubles(global const float *a, global const float *b, global double *out, int n)
{
	int i = GLOBAL_ID;
	double x = a[i], y = b[i];

	out[i] = __builtin_sqrt(x * x + y * y) / (y + 3.0) + x * (long)i;
}

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half half2 __attribute__((ext_vector_type(2)));

/* Packed half precision. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void halves(global const half2 *a, global const half2 *b, global half2 *out, int n)
{
	int i = GLOBAL_ID;

	out[i] = __builtin_elementwise_fma(a[i], b[i], a[i]);
}

/* Integer division and remainder, 64-bit products. */
kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void integers(global const unsigned *a, global const unsigned *b, global unsigned *out, int n)
{
	int i = GLOBAL_ID;
	unsigned x = a[i], y = b[i] | 1;
	unsigned long wide = (unsigned long)x * y + i;

	out[i] = x / y + x % y + (unsigned)(wide >> 17) + (unsigned)(wide / 1000003) + (unsigned)((int)x >> 3) % 77;
}

kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void wild_store(global const float *a, global const float *b, global float *c, int n)
{
	*(global float *)(0x123456789000ul + GLOBAL_ID * 4) = 1;
}

kernel __attribute__((reqd_work_group_size(N_GROUP, 1, 1)))
void trap(global const float *a, global const float *b, global float *c, int n)
{
	__builtin_trap();
}
