/* Code objects through the HSA runtime: loading one, and naming one of its kernels in a packet. */
#ifndef HSA_CODE_H
#define HSA_CODE_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hsa_calls.h"

typedef struct { uint64_t handle; } hsa_handle_t;

int hsa_code_object_reader_create_from_memory(const void *, size_t, hsa_handle_t *);
int hsa_executable_create_alt(int profile, int rounding, const char *options, hsa_handle_t *);
int hsa_executable_load_agent_code_object(hsa_handle_t, hsa_agent_t, hsa_handle_t reader, const char *, hsa_handle_t *);
int hsa_executable_freeze(hsa_handle_t, const char *options);
int hsa_executable_get_symbol_by_name(hsa_handle_t, const char *, const hsa_agent_t *, hsa_handle_t *);
int hsa_executable_symbol_get_info(hsa_handle_t, int attribute, void *);

enum { HSA_SYMBOL_GROUP_SIZE = 13, HSA_SYMBOL_PRIVATE_SIZE = 14, HSA_SYMBOL_KERNEL_OBJECT = 22 };
enum { HSA_PACKET_DISPATCH = 2, HSA_PROFILE_FULL = 1 };

/* Loads the code object in a file for a GPU, or ends the program. The executable is the program's for the rest of its life. */
static inline hsa_handle_t hsa_load_code(const char *path, hsa_agent_t gpu)
{
	FILE *file = fopen(path, "rb");
	static char bytes[1 << 20];
	size_t length = file ? fread(bytes, 1, sizeof bytes, file) : 0;
	hsa_handle_t reader, executable, loaded;

	if (!length) {
		printf("%s cannot be read\n", path);
		exit(1);
	}
	fclose(file);
	need(hsa_code_object_reader_create_from_memory(bytes, length, &reader), "code object");
	need(hsa_executable_create_alt(HSA_PROFILE_FULL, 0, "", &executable), "executable");
	need(hsa_executable_load_agent_code_object(executable, gpu, reader, "", &loaded), "loading");
	need(hsa_executable_freeze(executable, ""), "freezing");
	return executable;
}

/* Puts the kernel of that name into a packet: its object and the sizes of its segments. */
static inline void hsa_name_kernel(uint32_t packet[16], hsa_handle_t executable, hsa_agent_t gpu, const char *name)
{
	char symbol_name[80];
	hsa_handle_t symbol;
	uint64_t object;

	snprintf(symbol_name, sizeof symbol_name, "%s.kd", name);
	need(hsa_executable_get_symbol_by_name(executable, symbol_name, &gpu, &symbol), name);
	need(hsa_executable_symbol_get_info(symbol, HSA_SYMBOL_KERNEL_OBJECT, &object), "kernel object");
	need(hsa_executable_symbol_get_info(symbol, HSA_SYMBOL_PRIVATE_SIZE, &packet[6]), "private size");
	need(hsa_executable_symbol_get_info(symbol, HSA_SYMBOL_GROUP_SIZE, &packet[7]), "group size");
	memcpy(&packet[8], &object, 8);
}

static inline double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

#endif
