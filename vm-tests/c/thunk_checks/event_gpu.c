/* What the GPU reports by events: memory faults. In a child of its own, since a fault ends all queues of a process. */
#include "check.h"
#include "child.h"
#include "gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
/* Nothing is there, and mmap puts nothing there. */
#define NOWHERE 0x7000

static HsaEvent *memory_event(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *event = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_MEMORY;
    descriptor.NodeId = (HSAuint32)gpu_node;
    hsaKmtCreateEvent(&descriptor, false, false, &event);
    return event;
}

static void opened(void) {
    HsaSystemProperties system;
    hsaKmtOpenKFD();
    hsaKmtAcquireSystemProperties(&system);
}

static void store_to_nowhere(void) {
    struct ring ring, other;
    uint32_t packet[SDMA_MAX];
    opened();
    HsaEvent *event = memory_event();
    volatile uint32_t *word = gpu_alloc(0, PAGE, gtt_flags());
    *word = 0;
    ring_create(&ring, HSA_QUEUE_SDMA, PAGE);
    ring_create(&other, HSA_QUEUE_SDMA, PAGE);
    check_status("fault.before", hsaKmtWaitOnEvent(event, 0));
    ring_put(&ring, packet, sdma_fence(packet, NOWHERE + 0x10, 1));
    ring_submit(&ring);
    check_status("fault.event", hsaKmtWaitOnEvent(event, GPU_WAIT_MS));
    const HsaMemoryAccessFault *fault = &event->EventData.EventData.MemoryAccessFault;
    check_hex("fault.page", fault->VirtualAddress);
    check_true("fault.node-is-gpu", fault->NodeId == (HSAuint32)gpu_node);
    check_u64("fault.no-execute", fault->Failure.NoExecute);
    check_u64("fault.imprecise", fault->Failure.Imprecise);
    check_u64("fault.ecc", fault->Failure.ECC);
    check_u64("fault.flags", fault->Flags);
    check_status("fault.event.auto-reset", hsaKmtWaitOnEvent(event, 0));
    /* kfd_dqm_evict_pasid: no queue of the process runs any more. */
    ring_put(&other, packet, sdma_fence(packet, (uintptr_t)word, 1));
    ring_submit(&other);
    usleep(100000);
    check_u64("fault.other-queue-is-stopped", *word);
    hsaKmtDestroyEvent(event);
}

static void store_to_read_only(void) {
    struct ring ring;
    uint32_t packet[SDMA_MAX];
    HsaMemFlags flags = vram_flags(false);
    flags.ui32.ReadOnly = 1;
    opened();
    HsaEvent *event = memory_event();
    char *mem = gpu_alloc((HSAuint32)gpu_node, PAGE, flags);
    ring_create(&ring, HSA_QUEUE_SDMA, PAGE);
    ring_put(&ring, packet, sdma_fence(packet, (uintptr_t)mem + 64, 1));
    ring_submit(&ring);
    check_status("fault.read-only.event", hsaKmtWaitOnEvent(event, GPU_WAIT_MS));
    const HsaMemoryAccessFault *fault = &event->EventData.EventData.MemoryAccessFault;
    check_true("fault.read-only.page", fault->VirtualAddress == (uintptr_t)mem);
    check_u64("fault.read-only.read-only", fault->Failure.ReadOnly);
    hsaKmtDestroyEvent(event);
}

/* The parent's queues do not notice. */
void event_gpu_checks(void) {
    struct ring ring;
    uint32_t packet[SDMA_MAX];
    volatile uint32_t *word = gpu_alloc(0, PAGE, gtt_flags());
    HsaEvent *event = memory_event();
    *word = 0;
    ring_create(&ring, HSA_QUEUE_SDMA, PAGE);
    in_child("fault.child-ends", store_to_nowhere);
    in_child("fault.read-only.child-ends", store_to_read_only);
    check_status("fault.not-of-parent", hsaKmtWaitOnEvent(event, 0));
    ring_put(&ring, packet, sdma_fence(packet, (uintptr_t)word, 3));
    check_true("fault.parent-goes-on", ring_drain(&ring));
    check_u64("fault.parent-fence", *word);
    ring_destroy(&ring);
    gpu_free((void *)word, PAGE);
    hsaKmtDestroyEvent(event);
}
