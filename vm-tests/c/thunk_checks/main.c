/* Calls libhsakmt as a runtime does and prints what comes back.
 *
 *   thunk_checks             everything
 *   thunk_checks --no-gpu    what needs no GPU
 *   thunk_checks --two-gpus  what needs two GPUs, and nothing else
 *
 * The values that are right stand in thunk_checks.expected and two_gpus.expected, each with its source. */
#include "check.h"
#include "thunk_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Far above what a slow machine needs; every wait has its own, shorter limit. */
#define TIME_LIMIT_S 900

void check_u64(const char *id, uint64_t value) { printf("%s %" PRIu64 "\n", id, value); }

void check_hex(const char *id, uint64_t value) { printf("%s 0x%" PRIx64 "\n", id, value); }

void check_str(const char *id, const char *value) { printf("%s %s\n", id, value); }

void check_true(const char *id, bool value) { check_str(id, value ? "yes" : "no"); }

void check_status(const char *id, HSAKMT_STATUS status) {
    const char *name = thunk_status_name(status);
    if (name)
        check_str(id, name);
    else
        check_u64(id, (uint64_t)status);
}

uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Children come before the parts that register the allocator's memory: under softgpu run such memory is shared with
 * children afterwards, and both would write to one heap. */
static void gpu_parts(void) {
    topology_gpu_checks();
    memory_gpu_checks();
    queue_checks();
    aql_checks();
    sdma_checks();
    shared_checks();
    misc_gpu_checks();
    event_gpu_checks();
    fork_gpu_checks();
    svm_checks();
    register_checks();
    increment_checks();
}

int main(int argc, char **argv) {
    const char *part = argc == 2 ? argv[1] : "";
    const bool gpu = strcmp(part, "--no-gpu") != 0, two = strcmp(part, "--two-gpus") == 0;
    if (argc > 2 || (argc == 2 && gpu && !two)) {
        fprintf(stderr, "usage: %s [--no-gpu | --two-gpus]\n", argv[0]);
        return 2;
    }
    /* A program that is killed in the middle still shows how far it came. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* ... and one that hangs is ended. */
    alarm(TIME_LIMIT_S);
    if (two)
        return two_gpu_checks() ? 0 : 1;
    open_checks_before();
    topology_checks();
    event_checks();
    memory_checks();
    misc_checks();
    fork_checks();
    if (gpu) {
        if (gpu_node < 0) {
            fprintf(stderr, "there is no node with a GPU; --no-gpu runs what needs none\n");
            return 1;
        }
        gpu_parts();
    }
    open_checks_after();
    return 0;
}
