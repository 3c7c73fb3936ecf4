// What the programs here need of KFD and a render node.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

// Structs and requests of the KFD interface; the header of the system may be missing or old.
struct apertures {
    uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
    uint32_t gpu_id, pad;
};
struct apertures_new { uint64_t list; uint32_t num_of_nodes, pad; };
struct acquire_vm { uint32_t drm_fd, gpu_id; };
struct alloc { uint64_t va, size, handle, mmap_offset; uint32_t gpu_id, flags; };
struct free_memory { uint64_t handle; };
struct map { uint64_t handle, device_ids; uint32_t n_devices, n_success; };
struct create_queue {
    uint64_t ring, write_pointer, read_pointer, doorbell_offset;
    uint32_t ring_size, gpu_id, type, percentage, priority, queue_id;
    uint64_t eop, eop_size, save_area;
    uint32_t save_area_size, ctl_stack_size, sdma_engine_id, pad;
};
struct destroy { uint32_t id, pad; };
struct create_event {
    uint64_t page_offset;
    uint32_t trigger_data, type, auto_reset, node_id, event_id, slot;
};
// With one attribute; KFD_IOCTL_SVM_ATTR_ACCESS is 2.
struct svm { uint64_t start, size; uint32_t op, nattr, type, value; };

#define GET_VERSION _IOR('K', 0x01, uint32_t[2])
#define CREATE_QUEUE _IOWR('K', 0x02, struct create_queue)
#define DESTROY_QUEUE _IOWR('K', 0x03, struct destroy)
#define CREATE_EVENT _IOWR('K', 0x08, struct create_event)
#define DESTROY_EVENT _IOW('K', 0x09, struct destroy)
#define APERTURES_NEW _IOWR('K', 0x14, struct apertures_new)
#define ACQUIRE_VM _IOW('K', 0x15, struct acquire_vm)
#define ALLOC_MEMORY _IOWR('K', 0x16, struct alloc)
#define FREE_MEMORY _IOW('K', 0x17, struct free_memory)
#define MAP_MEMORY _IOWR('K', 0x18, struct map)
#define UNMAP_MEMORY _IOWR('K', 0x19, struct map)
#define SVM _IOWR('K', 0x20, struct svm)

#define VRAM (1u << 0)
#define GTT (1u << 1)
#define USERPTR (1u << 2)
#define DOORBELL (1u << 3)
#define PUBLIC (1u << 29)
#define WRITABLE (1u << 31)
#define QUEUE_SDMA 1

__attribute__((unused)) static int kfd = -1, render = -1;
__attribute__((unused)) static uint32_t gpu;

// The id of the first GPU, from the apertures.
static uint32_t first_gpu(void) {
    struct apertures list[8];
    struct apertures_new args = {
        .list = (uintptr_t)list, .num_of_nodes = 1};
    return ioctl(kfd, APERTURES_NEW, &args) ? 0 : list[0].gpu_id;
}

// Opens both files and acquires page tables: 0, or the number of the failed step.
__attribute__((unused)) static int start(void) {
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    render = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    if (kfd < 0 || render < 0) return 1;
    gpu = first_gpu();
    struct acquire_vm args = {.drm_fd = render, .gpu_id = gpu};
    return ioctl(kfd, ACQUIRE_VM, &args) ? 2 : 0;
}

// A buffer: its handle and mmap offset in the arguments. 0, or errno.
__attribute__((unused)) static int allocate(struct alloc *args, uint64_t va, uint64_t size, uint32_t flags) {
    *args = (struct alloc){
        .va = va, .size = size, .gpu_id = gpu, .flags = flags};
    return ioctl(kfd, ALLOC_MEMORY, args) ? errno : 0;
}
