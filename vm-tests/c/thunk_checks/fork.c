/* Children: they have nothing of their parent's KFD, and may open their own. */
#define _GNU_SOURCE
#include "check.h"
#include "child.h"
#include "gpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static HsaEvent *parents;

void in_child(const char *id, void (*part)(void)) {
    int status = -1;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        part();
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    check_true(id, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static HsaEvent *new_event(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *event = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    hsaKmtCreateEvent(&descriptor, true, false, &event);
    return event;
}

static void opens_its_own(void) {
    HsaVersionInfo version;
    HsaSystemProperties system;
    check_status("fork.child.version-before-open", hsaKmtGetVersion(&version));
    check_status("fork.child.set-event-before-open", hsaKmtSetEvent(parents));
    check_status("fork.child.close-before-open", hsaKmtCloseKFD());
    check_status("fork.child.open", hsaKmtOpenKFD());
    check_status("fork.child.version", hsaKmtGetVersion(&version));
    check_u64("fork.child.version.minor", version.KernelInterfaceMinorVersion);
    /* The parent's event is not one of the child's. */
    check_status("fork.child.set-event-of-parent", hsaKmtSetEvent(parents));
    check_status("fork.child.acquire", hsaKmtAcquireSystemProperties(&system));
    HsaEvent *event = new_event();
    check_true("fork.child.create-event", event != NULL);
    /* kfd_event_init_process takes id 0, so a process's first signal event has id 1. */
    check_u64("fork.child.first-event-id", event ? event->EventId : 0);
    check_status("fork.child.set-own-event", hsaKmtSetEvent(event));
    check_status("fork.child.wait-own-event", hsaKmtWaitOnEvent(event, 0));
    check_status("fork.child.close", hsaKmtCloseKFD());
    check_status("fork.child.close-again", hsaKmtCloseKFD());
}

/* A fork that the C library does not see: the kernel itself refuses the inherited descriptor (EBADF), and the thunk
 * learns from that. */
static void raw_fork(void) {
    int status = -1;
    fflush(stdout);
    const long pid = syscall(SYS_fork);
    if (pid == 0) {
        HsaVersionInfo version;
        check_status("fork.raw-child.version", hsaKmtGetVersion(&version));
        check_status("fork.raw-child.set-event", hsaKmtSetEvent(parents));
        check_status("fork.raw-child.version-after", hsaKmtGetVersion(&version));
        check_status("fork.raw-child.open", hsaKmtOpenKFD());
        check_status("fork.raw-child.version-own", hsaKmtGetVersion(&version));
        fflush(stdout);
        _exit(0);
    }
    waitpid((pid_t)pid, &status, 0);
    check_true("fork.raw-child.ends", WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void grandchild(void) {
    check_status("fork.grandchild.open", hsaKmtOpenKFD());
    check_status("fork.grandchild.close", hsaKmtCloseKFD());
}

static void opens_and_forks(void) {
    check_status("fork.child-of-two.open", hsaKmtOpenKFD());
    in_child("fork.grandchild.ends", grandchild);
    HsaVersionInfo version;
    check_status("fork.child-of-two.version", hsaKmtGetVersion(&version));
}

/* M28: little address space is no reason to fail, as this thunk reserves none on GPUs with 47 bits and more. */
static void open_with_limit(const char *id, rlim_t bytes) {
    struct rlimit limit = {bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
    check_status(id, hsaKmtOpenKFD());
}

static void limit_of_8_gib(void) { open_with_limit("M28.open.8-gib", 8ull << 30); }
static void limit_of_64_gib(void) { open_with_limit("M28.open.64-gib", 64ull << 30); }

void fork_checks(void) {
    parents = new_event();
    in_child("fork.child.ends", opens_its_own);
    raw_fork();
    in_child("fork.child-of-two.ends", opens_and_forks);
    in_child("M28.8-gib.ends", limit_of_8_gib);
    in_child("M28.64-gib.ends", limit_of_64_gib);
    check_status("fork.parent.event-not-set", hsaKmtWaitOnEvent(parents, 0));
    check_status("fork.parent.set-event", hsaKmtSetEvent(parents));
    check_status("fork.parent.wait-event", hsaKmtWaitOnEvent(parents, 0));
    hsaKmtDestroyEvent(parents);
}

static volatile uint32_t *shared_word;

/* GPU memory is not inherited (MADV_DONTFORK); the child's own GPU memory and queue work. */
static void child_uses_gpu(void) {
    HsaSystemProperties system;
    struct ring ring;
    uint32_t packet[SDMA_MAX];
    unsigned char resident;
    check_true("fork.gpu-child.memory-not-inherited", mincore((void *)shared_word, 4096, &resident) == -1);
    check_status("fork.gpu-child.open", hsaKmtOpenKFD());
    hsaKmtAcquireSystemProperties(&system);
    volatile uint32_t *word = gpu_alloc(0, 4096, gtt_flags());
    *word = 0;
    check_status("fork.gpu-child.queue", ring_create(&ring, HSA_QUEUE_SDMA, 4096));
    ring_put(&ring, packet, sdma_fence(packet, (uintptr_t)word, 42));
    check_true("fork.gpu-child.drains", ring_drain(&ring));
    check_u64("fork.gpu-child.fence", *word);
    ring_destroy(&ring);
    check_status("fork.gpu-child.close", hsaKmtCloseKFD());
}

void fork_gpu_checks(void) {
    struct ring ring;
    uint32_t packet[SDMA_MAX];
    shared_word = gpu_alloc(0, 4096, gtt_flags());
    *shared_word = 7;
    ring_create(&ring, HSA_QUEUE_SDMA, 4096);
    in_child("fork.gpu-child.ends", child_uses_gpu);
    check_u64("fork.gpu-parent.memory-kept", *shared_word);
    ring_put(&ring, packet, sdma_fence(packet, (uintptr_t)shared_word, 8));
    check_true("fork.gpu-parent.queue-goes-on", ring_drain(&ring));
    check_u64("fork.gpu-parent.fence", *shared_word);
    ring_destroy(&ring);
    gpu_free((void *)shared_word, 4096);
}
