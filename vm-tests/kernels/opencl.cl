/* Kernels in OpenCL C as programs write them: the runtime compiles this file. */
#define GROUP 256
#define TILE 16
#define BINS 64

kernel void vector_add(global const float *a, global const float *b, global float *out, int n)
{
	int i = get_global_id(0);

	if (i < n)
		out[i] = a[i] + b[i];
}

kernel void saxpy(global const float *x, global const float *y, global float *out, int n)
{
	int i = get_global_id(0);

	if (i < n)
		out[i] = fma(2.5f, x[i], y[i]);
}

/* A sum for each group. */
kernel void reduce(global const float *values, global const float *unused, global float *sums, int n)
{
	local float part[GROUP];
	int item = get_local_id(0);
	float sum = 0;

	for (int i = get_global_id(0); i < n; i += get_global_size(0))
		sum += values[i];
	part[item] = sum;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (int half_way = GROUP / 2; half_way; half_way /= 2) {
		if (item < half_way)
			part[item] += part[item + half_way];
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	if (item == 0)
		sums[get_group_id(0)] = part[0];
}

/* Groups are rows of tiles of 16 by 16, of which a group's items are one. */
kernel void matmul(global const float *a, global const float *b, global float *out, int side)
{
	local float ta[TILE][TILE], tb[TILE][TILE];
	int row = get_local_id(0) / TILE, column = get_local_id(0) % TILE, tiles = side / TILE;
	int y = get_group_id(0) / tiles * TILE + row, x = get_group_id(0) % tiles * TILE + column;
	float sum = 0;

	for (int tile = 0; tile < side; tile += TILE) {
		ta[row][column] = a[y * side + tile + column];
		tb[row][column] = b[(tile + row) * side + x];
		barrier(CLK_LOCAL_MEM_FENCE);
		for (int k = 0; k < TILE; k++)
			sum += ta[row][k] * tb[k][column];
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	out[y * side + x] = sum;
}

kernel void transpose(global const float *from, global const float *unused, global float *to, int side)
{
	local float tile[TILE][TILE + 1];
	int row = get_local_id(0) / TILE, column = get_local_id(0) % TILE, tiles = side / TILE;
	int y = get_group_id(0) / tiles * TILE, x = get_group_id(0) % tiles * TILE;

	tile[row][column] = from[(y + row) * side + x + column];
	barrier(CLK_LOCAL_MEM_FENCE);
	to[(x + row) * side + y + column] = tile[column][row];
}

kernel void histogram(global const float *values, global const float *unused, volatile global int *bins, int n)
{
	local int mine[BINS];
	int item = get_local_id(0);

	if (item < BINS)
		mine[item] = 0;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (int i = get_global_id(0); i < n; i += get_global_size(0))
		atomic_inc(&mine[(int)(values[i] * 8) + 32 & BINS - 1]);
	barrier(CLK_LOCAL_MEM_FENCE);
	if (item < BINS)
		atomic_add(&bins[item], mine[item]);
}

/* A row of `columns` for each group. */
kernel void softmax(global const float *values, global const float *unused, global float *out, int columns)
{
	local float part[GROUP];
	global const float *row = values + get_group_id(0) * columns;
	int item = get_local_id(0);
	float most = -INFINITY, sum = 0;

	for (int i = item; i < columns; i += GROUP)
		most = fmax(most, row[i]);
	most = work_group_reduce_max(most);
	for (int i = item; i < columns; i += GROUP)
		sum += exp(row[i] - most);
	part[item] = sum;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (int half_way = GROUP / 2; half_way; half_way /= 2) {
		if (item < half_way)
			part[item] += part[item + half_way];
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	for (int i = item; i < columns; i += GROUP)
		out[get_group_id(0) * columns + i] = exp(row[i] - most) / part[0];
}

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

/* Sums of 16 products that are exact in half precision. */
kernel void dot_half(global const float *a, global const float *b, global float *out, int side)
{
	int x = get_global_id(0) % side, y = get_global_id(0) / side;
	half sum = 0;

	for (int k = 0; k < TILE; k++)
		sum = fma((half)trunc(a[y * side + k]), (half)trunc(b[k * side + x]), sum);
	out[y * side + x] = sum;
}
