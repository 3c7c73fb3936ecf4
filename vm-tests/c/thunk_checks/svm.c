/* Attributes of shared virtual memory, and XNACK. */
#include "check.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define SIZE (64u << 10)

static void *fresh(void) {
    void *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mem, 0, SIZE);
    return mem;
}

static HSAKMT_STATUS set_one(void *mem, uint64_t size, unsigned type, unsigned value) {
    HSA_SVM_ATTRIBUTE attribute = {type, value};
    return hsaKmtSVMSetAttr(mem, size, 1, &attribute);
}

/* `access` says in its type what the GPU may do. */
static void look(const char *prefix, void *mem) {
    HSA_SVM_ATTRIBUTE attributes[] = {
        {HSA_SVM_ATTR_PREFERRED_LOC, 0}, {HSA_SVM_ATTR_PREFETCH_LOC, 0}, {HSA_SVM_ATTR_ACCESS, (HSAuint32)gpu_node},
        {HSA_SVM_ATTR_SET_FLAGS, 0},     {HSA_SVM_ATTR_CLR_FLAGS, 0},    {HSA_SVM_ATTR_GRANULARITY, 0}};
    static const char *const names[] = {"preferred", "prefetch", "access", "set-flags", "clear-flags", "granularity"};
    char id[64];
    snprintf(id, sizeof(id), "%s.get", prefix);
    check_status(id, hsaKmtSVMGetAttr(mem, SIZE, 6, attributes));
    for (unsigned i = 0; i < 6; i++) {
        snprintf(id, sizeof(id), "%s.%s", prefix, names[i]);
        check_hex(id, i == 2 ? attributes[i].type : attributes[i].value);
    }
}

static void attributes(void) {
    const unsigned gpu = (unsigned)gpu_node;
    void *mem = fresh();
    look("svm.default", mem);
    check_status("svm.set.access", set_one(mem, SIZE, HSA_SVM_ATTR_ACCESS, gpu));
    check_status("svm.set.preferred", set_one(mem, SIZE, HSA_SVM_ATTR_PREFERRED_LOC, 0));
    check_status("svm.set.granularity", set_one(mem, SIZE, HSA_SVM_ATTR_GRANULARITY, 4));
    check_status("svm.set.flags", set_one(mem, SIZE, HSA_SVM_ATTR_SET_FLAGS, HSA_SVM_FLAG_GPU_RO));
    look("svm.changed", mem);
    check_status("svm.set.in-place", set_one(mem, SIZE, HSA_SVM_ATTR_ACCESS_IN_PLACE, gpu));
    check_status("svm.set.clear-flags", set_one(mem, SIZE, HSA_SVM_ATTR_CLR_FLAGS, HSA_SVM_FLAG_COHERENT));
    look("svm.in-place", mem);
    check_status("svm.set.no-access", set_one(mem, SIZE, HSA_SVM_ATTR_NO_ACCESS, gpu));
    look("svm.no-access", mem);
    /* What has attributes cannot be registered as a buffer as well. */
    check_status("svm.register-over-range", hsaKmtRegisterMemory(mem, SIZE));
    munmap(mem, SIZE);
}

static void refusals(void) {
    void *mem = fresh();
    const unsigned gpu = (unsigned)gpu_node;
    HSA_SVM_ATTRIBUTE no_access = {HSA_SVM_ATTR_NO_ACCESS, gpu};
    check_status("svm.set.null", set_one(NULL, PAGE, HSA_SVM_ATTR_ACCESS, gpu));
    check_status("svm.set.unaligned", set_one((char *)mem + 1, PAGE, HSA_SVM_ATTR_ACCESS, gpu));
    check_status("svm.set.size-0", set_one(mem, 0, HSA_SVM_ATTR_ACCESS, gpu));
    check_status("svm.set.size-4097", set_one(mem, PAGE + 1, HSA_SVM_ATTR_ACCESS, gpu));
    check_status("svm.set.access-of-cpu", set_one(mem, PAGE, HSA_SVM_ATTR_ACCESS, 0));
    check_status("svm.set.access-beyond", set_one(mem, PAGE, HSA_SVM_ATTR_ACCESS, node_count));
    check_status("svm.set.unknown-type", set_one(mem, PAGE, 99, 0));
    check_status("svm.set.not-mapped", set_one((void *)(uintptr_t)0x10000, PAGE, HSA_SVM_ATTR_ACCESS, gpu));
    check_status("svm.get.no-access", hsaKmtSVMGetAttr(mem, PAGE, 1, &no_access));
    check_status("svm.set.kernel-address",
                 set_one((void *)(uintptr_t)0xffff800000000000, PAGE, HSA_SVM_ATTR_ACCESS, gpu));
    munmap(mem, SIZE);

    mem = gpu_alloc(0, PAGE, paged_flags());
    check_status("svm.set.over-buffer", set_one(mem, PAGE, HSA_SVM_ATTR_ACCESS, gpu));
    gpu_free(mem, PAGE);
    mem = gpu_try_alloc(gpu, PAGE, vram_flags(true));
    if (mem) {
        check_status("svm.set.over-device-mapping", set_one(mem, PAGE, HSA_SVM_ATTR_ACCESS, gpu));
        gpu_free(mem, PAGE);
    }
}

static void xnack(void) {
    HSAint32 mode = 99;
    check_status("xnack.get", hsaKmtGetXNACKMode(&mode));
    check_u64("xnack.default", (uint64_t)mode);
    check_status("xnack.on", hsaKmtSetXNACKMode(1));
    hsaKmtGetXNACKMode(&mode);
    check_u64("xnack.now-on", (uint64_t)mode);
    void *mem = fresh();
    look("xnack.svm-default", mem);
    munmap(mem, SIZE);
    check_status("xnack.off", hsaKmtSetXNACKMode(0));
    hsaKmtGetXNACKMode(&mode);
    check_u64("xnack.now-off", (uint64_t)mode);
}

void svm_checks(void) {
    attributes();
    refusals();
    xnack();
}
