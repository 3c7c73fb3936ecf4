/* Loads the HIP runtime that is named in the first argument and prints what hipGetDeviceCount says: the smallest HIP
 * program there is. It is compiled on machines without HIP and runs where there is one. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	const char *library = argc > 1 ? argv[1] : "libamdhip64.so.5";
	void *hip = dlopen(library, RTLD_NOW);
	int (*get_device_count)(int *);
	int count = -1, status;

	if (!hip) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	/* POSIX lets a data pointer become a function pointer, ISO C does not. */
	*(void **)&get_device_count = dlsym(hip, "hipGetDeviceCount");
	if (!get_device_count) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	status = get_device_count(&count);
	printf("hipGetDeviceCount: status %d, %d devices\n", status, count);
	return 0;
}
