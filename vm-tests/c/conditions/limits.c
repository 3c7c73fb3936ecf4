/* Makes this process short of something. */
#define _GNU_SOURCE
#include "conditions.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul

void impossible(const char *what) {
    printf("impossible %s: %s\n", what, strerror(errno));
    exit(3);
}

static uint64_t number(const char *text) {
    char *end;
    const uint64_t value = strtoull(text, &end, 0);
    if (*end || end == text) {
        fprintf(stderr, "%s is no number\n", text);
        exit(2);
    }
    return value;
}

static void limit(int resource, uint64_t value) {
    struct rlimit limit;
    getrlimit(resource, &limit);
    limit.rlim_cur = value > limit.rlim_max ? limit.rlim_max : value;
    if (setrlimit(resource, &limit))
        impossible("setrlimit");
}

void limit_addresses(const char *bytes) { limit(RLIMIT_AS, number(bytes)); }

void limit_descriptors(const char *count) { limit(RLIMIT_NOFILE, number(count)); }

/* Mappings that only take a place in the kernel's list: neighbours with other rights are not merged, and the library's own
 * mappings have none of these rights. */
static char *filler;
static size_t filler_len;

/* sysctl vm.max_map_count */
static size_t most_mappings(void) {
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    size_t count = 0;
    if (!file || fscanf(file, "%zu", &count) != 1)
        impossible("vm.max_map_count");
    fclose(file);
    return count;
}

void limit_mappings(const char *left) {
    const size_t keep = number(left);
    size_t at = 0;
    filler_len = (most_mappings() + 2) * PAGE;
    filler = mmap(NULL, filler_len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (filler == MAP_FAILED)
        impossible("mmap");
    /* Every second page may be executed: two mappings more for each. */
    while (at + 2 * PAGE < filler_len && !mprotect(filler + at + PAGE, PAGE, PROT_READ | PROT_EXEC))
        at += 2 * PAGE;
    if (at + 2 * PAGE >= filler_len)
        impossible("more mappings than allowed");
    /* One may still be free; two such pages are never merged. */
    for (int i = 0; i < 2; i++)
        mmap(NULL, PAGE, i ? PROT_EXEC : PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* The last ones are merged again: as many are free. */
    for (size_t i = 0; i < keep / 2 && at >= 2 * PAGE; i++, at -= 2 * PAGE)
        mprotect(filler + at - PAGE, PAGE, PROT_READ);
}

void lift_limits(void) {
    limit(RLIMIT_AS, UINT64_MAX);
    limit(RLIMIT_NOFILE, UINT64_MAX);
    if (filler)
        munmap(filler, filler_len);
    filler = NULL;
}

static void filter(const struct sock_filter *code, unsigned short len) {
    const struct sock_fprog program = {.len = len, .filter = (struct sock_filter *)code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        impossible("seccomp");
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Goes on if equal, else skips. */
#define ONLY(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, (action))

void open_fails(const char *text) {
    const uint32_t errno_answer = SECCOMP_RET_ERRNO | (uint32_t)number(text);
    /* Devices are the only files that the library opens for reading and writing. */
    const struct sock_filter code[] = {
        LOAD(nr),
        ONLY(SYS_openat, 4),
        LOAD(args[2]),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_ACCMODE | O_CLOEXEC),
        ONLY(O_RDWR | O_CLOEXEC, 1),
        ANSWER(errno_answer),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    filter(code, sizeof(code) / sizeof(code[0]));
}

void mbind_fails(const char *text) {
    const uint32_t errno_answer = SECCOMP_RET_ERRNO | (uint32_t)number(text);
    const struct sock_filter code[] = {
        LOAD(nr),
        ONLY(SYS_mbind, 1),
        ANSWER(errno_answer),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    filter(code, sizeof(code) / sizeof(code[0]));
}

void occupy_low_addresses(void) {
    const uintptr_t end = 4ul << 30;
    /* Pieces, because the program itself may lie there. */
    for (uintptr_t at = 1 << 16; at < end; at += 1 << 20) {
        const size_t len = at + (1 << 20) > end ? end - at : 1 << 20;
        mmap((void *)at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    }
}

#define SENTINELS 64
#define MARK 0x5afeu
static volatile uint32_t *sentinels[SENTINELS];

void put_sentinels(void) {
    for (size_t i = 0; i < SENTINELS; i++) {
        /* Differing sizes leave holes of differing sizes between them. */
        const size_t len = PAGE * (i % 4 + 1);
        char *hole = mmap(NULL, 2 * len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (hole == MAP_FAILED || munmap(hole, len))
            impossible("mmap");
        if (mprotect(hole + len, PAGE, PROT_READ | PROT_WRITE))
            impossible("mprotect");
        sentinels[i] = (volatile uint32_t *)(hole + len);
        *sentinels[i] = MARK + (uint32_t)i;
    }
}

int sentinels_are_whole(void) {
    unsigned char in_memory;
    for (size_t i = 0; i < SENTINELS; i++)
        if (mincore((void *)(uintptr_t)sentinels[i], PAGE, &in_memory) || *sentinels[i] != MARK + i)
            return 0;
    return 1;
}
