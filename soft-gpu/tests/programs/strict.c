// What the kernel refuses, where it takes a program to see it.
//   strict sigbus   doorbells, mapped through the render node, are touched
//   strict svm      memory of the device is made shared virtual memory
//   strict fork     a child uses its parent's file
//   strict gpus     how many GPUs the apertures have
//   strict truncate what would change the size of a file does nothing to a device
//   strict emptied  registered memory is emptied, then a queue made on it
#define _GNU_SOURCE
#include "kfd.h"
#include <signal.h>
#include <sys/stat.h>

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

static void result(const char *what, int result) {
    printf("%s %s\n", what, result < 0 ? strerror(errno) : "done");
}

static int truncate_devices(void) {
    uint32_t version[2];
    struct stat stat;
    result("ftruncate", ftruncate(kfd, 0));
    result("fallocate", fallocate(kfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
    result("truncate", truncate("/dev/kfd", 0));
    result("truncate render", truncate("/dev/dri/renderD128", 0));
    result("exclusive", open("/dev/kfd", O_RDWR | O_CREAT | O_EXCL | O_TRUNC, 0600));
    result("directory", open("/dev/kfd", O_RDONLY | O_DIRECTORY | O_TRUNC));
    const int opened = open("/dev/kfd", O_RDWR | O_TRUNC | O_CREAT, 0600);
    const int created = creat("/dev/kfd", 0600);
    const int render = open("/dev/dri/renderD128", O_RDWR | O_TRUNC | O_CLOEXEC);
    result("open", opened);
    result("creat", created);
    result("open render", render);
    printf("close-on-exec %d %d\n", fcntl(opened, F_GETFD), fcntl(render, F_GETFD));
    printf("access %d %d\n", fcntl(opened, F_GETFL) & O_ACCMODE, fcntl(created, F_GETFL) & O_ACCMODE);
    result("version", ioctl(opened, GET_VERSION, version));
    result("fstat", fstat(created, &stat));
    printf("character device %d\n", S_ISCHR(stat.st_mode));
    return 0;
}

// Does not come back: the device uses memory that is gone.
static int emptied(void) {
    const uint64_t va = 0x1000000000;
    const int file = memfd_create("ring", 0);
    if (file < 0 || ftruncate(file, PAGE)) return 3;
    char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return 3;
    struct alloc ring = {.va = va, .size = PAGE, .mmap_offset = (uintptr_t)memory, .gpu_id = gpu,
        .flags = USERPTR | WRITABLE};
    if (ioctl(kfd, ALLOC_MEMORY, &ring)) return 4;
    struct map map = {.handle = ring.handle, .device_ids = (uintptr_t)&gpu, .n_devices = 1};
    if (ioctl(kfd, MAP_MEMORY, &map) || ftruncate(file, 0)) return 5;
    struct create_queue queue = {.ring = va, .ring_size = PAGE, .read_pointer = va, .write_pointer = va + 64,
        .gpu_id = gpu, .type = QUEUE_SDMA, .percentage = 100};
    return ioctl(kfd, CREATE_QUEUE, &queue) ? 6 : 7;
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
    if (!strcmp(mode, "truncate")) return truncate_devices();
    if (!strcmp(mode, "emptied")) return emptied();
    return 99;
}
