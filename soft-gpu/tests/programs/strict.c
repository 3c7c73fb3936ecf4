// What the kernel refuses, where it takes a program to see it.
//   strict sigbus   doorbells, mapped through the render node, are touched
//   strict svm      memory of the device is made shared virtual memory
//   strict fork     a child uses its parent's file
//   strict gpus     how many GPUs the apertures have
//   strict truncate the file behind the doorbells is emptied, then a queue made
#include "kfd.h"
#include <signal.h>

static void caught(int signal) {
    printf("signal %d\n", signal);
    fflush(stdout);
    _exit(0);
}

static int sigbus(void) {
    struct alloc doorbells;
    int error = allocate(&doorbells, 0x1000000000, 2 * PAGE,
        DOORBELL | WRITABLE);
    if (error) return error;
    volatile uint64_t *slots =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, render, doorbells.mmap_offset);
    if (slots == MAP_FAILED) return 3;
    puts("mapped");
    signal(SIGBUS, caught);
    signal(SIGSEGV, caught);
    *slots = 1;
    puts("touched");
    return 4;
}

static int svm(void) {
    struct alloc gtt;
    int error =
        allocate(&gtt, 0x1000000000, PAGE, GTT | WRITABLE);
    if (error) return error;
    char *device = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, render, gtt.mmap_offset);
    char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (device == MAP_FAILED || own == MAP_FAILED) return 3;
    char *memory[2] = {device, own};
    for (int i = 0; i < 2; i++) {
        struct svm args = {
            .start = (uintptr_t)memory[i], .size = PAGE, .op = 0, .nattr = 1, .type = 2, .value = gpu};
        int result = ioctl(kfd, SVM, &args);
        printf("%s %s\n", i ? "own" : "device", result ? strerror(errno) : "taken");
    }
    return 0;
}

static int inherited(void) {
    uint32_t version[2];
    int status;
    if (fork() == 0) {
        int refused = ioctl(kfd, GET_VERSION, version) ? errno : 0;
        void *events = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, (off_t)(2ull << 62));
        printf("ioctl %s mmap %s\n", strerror(refused), events == MAP_FAILED ? strerror(errno) : "done");
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    return ioctl(kfd, GET_VERSION, version) ? 3 : status;
}

static int gpus(void) {
    struct apertures_new args = {0};
    if (ioctl(kfd, APERTURES_NEW, &args)) return 3;
    printf("gpus %u\n", args.num_of_nodes);
    return 0;
}

// Does not come back: the device's doorbells are gone.
static int truncate_doorbells(void) {
    struct alloc ring;
    const uint64_t va = 0x1000000000;
    int error = allocate(&ring, va, PAGE, GTT | WRITABLE);
    if (error) return error;
    struct map map = {.handle = ring.handle, .device_ids = (uintptr_t)&gpu, .n_devices = 1};
    if (ioctl(kfd, MAP_MEMORY, &map) || ftruncate(kfd, 0)) return 3;
    struct create_queue queue = {.ring = va, .ring_size = PAGE, .read_pointer = va, .write_pointer = va + 64,
        .gpu_id = gpu, .type = QUEUE_SDMA, .percentage = 100};
    return ioctl(kfd, CREATE_QUEUE, &queue) ? 4 : 5;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = start();
    if (failed) return failed;
    if (!strcmp(mode, "sigbus")) return sigbus();
    if (!strcmp(mode, "svm")) return svm();
    if (!strcmp(mode, "fork")) return inherited();
    if (!strcmp(mode, "gpus")) return gpus();
    if (!strcmp(mode, "truncate")) return truncate_doorbells();
    return 99;
}
