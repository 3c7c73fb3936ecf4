/* Kernels of the kinds that programs are made of, and copies, through HIP. Every result is checked here on the CPU.
 *
 *   hip_kernels [large]
 *
 * It prints a line for each: how many values were checked, whether they were right, and how long it took. Its status is 0 only if
 * all were. */
#include "check.h"

size_t total_wrong;

int main(int argc, char **argv)
{
	bool large = argc > 1 && !strcmp(argv[1], "large");
	Sizes sizes = large ? Sizes { 1 << 22, 512 } : Sizes { 1 << 18, 128 };
	hipDeviceProp_t properties;
	int version;

	HIP(hipGetDeviceProperties(&properties, 0));
	HIP(hipRuntimeGetVersion(&version));
	printf("%s (%s), HIP %d\n", properties.name, properties.gcnArchName, version);
	check_elementwise(sizes);
	check_shared(sizes);
	check_matrices(sizes);
	check_copies();
	if (total_wrong)
		printf("%zu values are wrong\n", total_wrong);
	else
		printf("all right\n");
	return total_wrong != 0;
}
