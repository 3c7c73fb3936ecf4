// Programs that come and go.
//   rounds N M   N children one after the other; then says "warm" and waits for a line; then M more; then says
//                "done" and waits for a line. Every second child cleans up after itself, the others just end.
#include "kfd.h"

#define VA 0x1000000000

static int map(uint64_t handle) {
    struct map args = {
        .handle = handle, .device_ids = (uintptr_t)&gpu, .n_devices = 1};
    return ioctl(kfd, MAP_MEMORY, &args);
}

static int unmap_and_free(uint64_t handle) {
    struct map unmap = {
        .handle = handle, .device_ids = (uintptr_t)&gpu, .n_devices = 1};
    struct free_memory free = {.handle = handle};
    return ioctl(kfd, UNMAP_MEMORY, &unmap) || ioctl(kfd, FREE_MEMORY, &free);
}

// 0, or the number of the failed step.
static int child(int tidy) {
    const uint32_t gtt = GTT | WRITABLE;
    const uint32_t vram =
        VRAM | PUBLIC | WRITABLE;
    const uint32_t flags[3] = {gtt, gtt, vram};
    struct alloc buffers[3];
    int failed = start();
    if (failed) return failed;
    for (int i = 0; i < 3; i++) {
        if (allocate(&buffers[i], VA + i * 2 * PAGE, PAGE, flags[i]) || map(buffers[i].handle)) return 10 + i;
        char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, render, buffers[i].mmap_offset);
        if (memory == MAP_FAILED) return 20 + i;
        memset(memory, 0, PAGE);
    }
    // Memory of the program itself, shared with the GPU while it lives.
    static char own[PAGE] __attribute__((aligned(PAGE)));
    struct alloc userptr = {.va = VA + 8 * PAGE, .size = PAGE, .gpu_id = gpu,
        .mmap_offset = (uintptr_t)own,
        .flags = USERPTR | WRITABLE};
    if (ioctl(kfd, ALLOC_MEMORY, &userptr) || map(userptr.handle)) return 30;
    struct create_queue queue = {.ring = VA, .ring_size = PAGE,
        .read_pointer = VA + 2 * PAGE, .write_pointer = VA + 2 * PAGE + 64, .gpu_id = gpu,
        .type = QUEUE_SDMA, .percentage = 100};
    if (ioctl(kfd, CREATE_QUEUE, &queue)) return 40;
    struct create_event event = {0};
    if (ioctl(kfd, CREATE_EVENT, &event)) return 41;
    if (!tidy) return 0;
    struct destroy destroy_event = {.id = event.event_id};
    struct destroy destroy_queue = {.id = queue.queue_id};
    if (ioctl(kfd, DESTROY_EVENT, &destroy_event)) return 50;
    if (ioctl(kfd, DESTROY_QUEUE, &destroy_queue)) return 51;
    for (int i = 0; i < 3; i++)
        if (unmap_and_free(buffers[i].handle)) return 60 + i;
    if (unmap_and_free(userptr.handle)) return 63;
    close(render);
    close(kfd);
    return 0;
}

static int rounds(int count) {
    for (int i = 0, status; i < count; i++) {
        if (fork() == 0) _exit(child(i % 2));
        if (wait(&status) < 0 || status) {
            printf("round %d: status %#x\n", i, status);
            return 1;
        }
    }
    return 0;
}

static void pause_after(const char *word) {
    char line[16];
    puts(word);
    if (!fgets(line, sizeof line, stdin)) exit(2);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3 || rounds(atoi(argv[1]))) return 1;
    pause_after("warm");
    if (rounds(atoi(argv[2]))) return 1;
    pause_after("done");
    return 0;
}
