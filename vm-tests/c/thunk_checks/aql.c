/* AQL and PM4 queues at work: barriers, signals, sleeping waits, wrap-around. */
#include "check.h"
#include "gpu.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define RING 64
#define LONG_RUN 1000
/* Long enough for a GPU that would not wait. */
#define NOT_YET_US 50000

static struct signal *signals;

static struct signal *signal_at(unsigned index, int64_t value) {
    struct signal *signal = &signals[index];
    memset(signal, 0, sizeof(*signal));
    signal->kind = 1; /* AMD_SIGNAL_KIND_USER */
    signal->value = value;
    return signal;
}

static void set(struct signal *signal, int64_t value) { __atomic_store_n(&signal->value, value, __ATOMIC_RELEASE); }

static void barriers(struct aql_queue *queue) {
    struct signal *done = signal_at(0, 1);
    struct signal *waits[5];

    aql_barrier(queue, AQL_BARRIER_AND, NULL, 0, done);
    check_true("aql.barrier-and.no-signals.completes", wait_signal(done, 0));
    check_u64("aql.read-index", *aql_read_index(queue));
    check_u64("aql.packet-type-after", *queue->packets);

    for (unsigned i = 0; i < 5; i++)
        waits[i] = signal_at(1 + i, 1);
    done = signal_at(0, 7);
    aql_barrier(queue, AQL_BARRIER_AND, waits, 5, done);
    for (unsigned i = 0; i < 4; i++)
        set(waits[i], 0);
    usleep(NOT_YET_US);
    check_u64("aql.barrier-and.four-of-five", (uint64_t)done->value);
    set(waits[4], 0);
    check_true("aql.barrier-and.five-of-five", wait_signal(done, 6));

    waits[0] = signal_at(1, 1);
    waits[1] = signal_at(2, 1);
    done = signal_at(0, 1);
    aql_barrier(queue, AQL_BARRIER_OR, waits, 2, done);
    usleep(NOT_YET_US);
    check_u64("aql.barrier-or.none-of-two", (uint64_t)done->value);
    set(waits[1], 0);
    check_true("aql.barrier-or.one-of-two", wait_signal(done, 0));

    done = signal_at(0, 5);
    waits[0] = signal_at(1, 0);
    aql_barrier(queue, AQL_BARRIER_OR, waits, 1, done);
    check_true("aql.barrier-or.set-before", wait_signal(done, 4));
    /* A negative value is not zero. */
    waits[0] = signal_at(1, -1);
    done = signal_at(0, 1);
    aql_barrier(queue, AQL_BARRIER_AND, waits, 1, done);
    usleep(NOT_YET_US);
    check_u64("aql.barrier-and.negative-waits", (uint64_t)done->value);
    set(waits[0], 0);
    check_true("aql.barrier-and.negative-then-zero", wait_signal(done, 0));
}

/* Packets with the barrier bit complete in the order of the ring; the signal of one is the condition of another. */
static void chained(struct aql_queue *queue, struct aql_queue *other) {
    struct signal *gate = signal_at(1, 1), *middle = signal_at(2, 1), *last = signal_at(3, 1);
    aql_barrier(other, AQL_BARRIER_AND, &middle, 1, last);
    aql_barrier(queue, AQL_BARRIER_AND, &gate, 1, NULL);
    aql_barrier(queue, AQL_BARRIER_AND, NULL, 0, middle);
    usleep(NOT_YET_US);
    check_u64("aql.chain.second-packet-waits", (uint64_t)middle->value);
    check_u64("aql.chain.other-queue-waits", (uint64_t)last->value);
    set(gate, 0);
    check_true("aql.chain.completes", wait_signal(last, 0));
    check_u64("aql.chain.middle", (uint64_t)middle->value);
}

static void wraps(struct aql_queue *queue) {
    struct signal *done = signal_at(0, LONG_RUN);
    const uint64_t start = queue->index;
    for (int i = 0; i < LONG_RUN; i++)
        aql_barrier(queue, AQL_BARRIER_AND, NULL, 0, done);
    check_true("aql.wrap.all-complete", wait_signal(done, 0));
    check_true("aql.wrap.read-index", wait_long(aql_read_index(queue), start + LONG_RUN));
    usleep(NOT_YET_US);
    check_u64("aql.wrap.none-twice", (uint64_t)done->value);
}

static void *open_gate(void *gate) {
    usleep(100000);
    set(gate, 0);
    return NULL;
}

static HsaEvent *signal_event(bool manual_reset) {
    HsaEventDescriptor descriptor;
    HsaEvent *event = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    hsaKmtCreateEvent(&descriptor, manual_reset, false, &event);
    return event;
}

/* Reads a word that may be out of the CPU's reach: in a virtual machine the event page is the host's. */
static bool read_word(uint64_t address, uint64_t *word) {
    int ends[2];
    if (pipe(ends))
        return false;
    /* The kernel copies from device memory too, and says EFAULT where nothing can be read. */
    const bool read_it = write(ends[1], (const void *)(uintptr_t)address, sizeof *word) == sizeof *word &&
                         read(ends[0], word, sizeof *word) == sizeof *word;
    close(ends[0]);
    close(ends[1]);
    return read_it;
}

/* The interrupt of a signal wakes a thread that sleeps in the kernel. */
static void interrupts(struct aql_queue *queue) {
    HsaEvent *event = signal_event(false);
    struct signal *gate = signal_at(1, 1), *done = signal_at(0, 1);
    uint64_t mailbox = 0;
    pthread_t thread;
    done->event_mailbox = event->EventData.HWData2;
    done->event_id = event->EventId;
    check_true("aql.event.has-mailbox", done->event_mailbox != 0);
    check_true("aql.event.mailbox-is-slot-of-id", done->event_mailbox % PAGE == event->EventId * 8 % PAGE);

    aql_barrier(queue, AQL_BARRIER_AND, &gate, 1, done);
    check_status("aql.event.before", hsaKmtWaitOnEvent(event, 20));
    const uint64_t start = now_ms();
    pthread_create(&thread, NULL, open_gate, gate);
    check_status("aql.event.wait", hsaKmtWaitOnEvent(event, GPU_WAIT_MS));
    const uint64_t took = now_ms() - start;
    pthread_join(thread, NULL);
    check_true("aql.event.slept", took >= 90);
    check_u64("aql.event.signal-value", (uint64_t)done->value);
    /* UNSIGNALED_EVENT_SLOT, written by acknowledge_signal */
    if (read_word(done->event_mailbox, &mailbox))
        check_hex("aql.event.mailbox-after", mailbox);
    check_status("aql.event.auto-reset", hsaKmtWaitOnEvent(event, 0));
    hsaKmtDestroyEvent(event);
}

/* Signals of one queue with events of their own; each wait returns for its own. */
static void many_events(struct aql_queue *queue) {
    enum { EVENTS = 32 };
    HsaEvent *events[EVENTS];
    struct signal *gate = signal_at(0, 1);
    unsigned woken = 0;
    aql_barrier(queue, AQL_BARRIER_AND, &gate, 1, NULL);
    for (unsigned i = 0; i < EVENTS; i++) {
        struct signal *done = signal_at(1 + i, 1);
        events[i] = signal_event(true);
        done->event_mailbox = events[i]->EventData.HWData2;
        done->event_id = events[i]->EventId;
        aql_barrier(queue, AQL_BARRIER_AND, NULL, 0, done);
    }
    check_status("aql.events.none-yet", hsaKmtWaitOnMultipleEvents(events, EVENTS, false, 20));
    set(gate, 0);
    check_status("aql.events.all", hsaKmtWaitOnMultipleEvents(events, EVENTS, true, GPU_WAIT_MS));
    for (unsigned i = 0; i < EVENTS; i++) {
        woken += hsaKmtWaitOnEvent(events[i], 0) == HSAKMT_STATUS_SUCCESS;
        hsaKmtDestroyEvent(events[i]);
    }
    check_u64("aql.events.woken", woken);
}

/* A queue that is disabled by an update takes no packets until it is enabled again. */
static void disabled(struct aql_queue *queue) {
    const HSA_QUEUEID id = queue->resource.QueueId;
    struct signal *done = signal_at(0, 1);
    const HSA_QUEUE_PRIORITY normal = HSA_QUEUE_PRIORITY_NORMAL;
    hsaKmtUpdateQueue(id, 0, normal, queue->packets, RING * 64, NULL);
    aql_barrier(queue, AQL_BARRIER_AND, NULL, 0, done);
    usleep(NOT_YET_US);
    check_u64("aql.disabled.waits", (uint64_t)done->value);
    hsaKmtUpdateQueue(id, 100, normal, queue->packets, RING * 64, NULL);
    check_true("aql.enabled.completes", wait_signal(done, 0));
}

/* PACKET3 WRITE_DATA to memory, as kfdtest's PM4WriteDataPacket builds it. */
static void pm4(void) {
    struct ring ring;
    volatile uint32_t *words = gpu_alloc(0, PAGE, gtt_flags());
    const uint64_t address = (uintptr_t)&words[4];
    const uint32_t packet[5] = {3u << 30 | 3u << 16 | 0x37u << 8, 5u << 8 | 1u << 20, (uint32_t)address,
                                (uint32_t)(address >> 32), 0xfeedbeef};
    words[4] = 0;
    check_status("pm4.create", ring_create(&ring, HSA_QUEUE_COMPUTE, PAGE));
    ring_put(&ring, packet, 5);
    ring_submit(&ring);
    check_true("pm4.write-data", wait_word(&words[4], 0xfeedbeef));
    check_true("pm4.read-pointer-follows", ring_drain(&ring));
    ring_destroy(&ring);
    gpu_free((void *)words, PAGE);
}

void aql_checks(void) {
    struct aql_queue queue, other;
    signals = gpu_alloc(0, PAGE, gtt_flags());
    check_status("aql.create", aql_create(&queue, RING));
    check_status("aql.create.other", aql_create(&other, RING));
    barriers(&queue);
    chained(&queue, &other);
    wraps(&queue);
    interrupts(&queue);
    many_events(&queue);
    disabled(&queue);
    aql_destroy(&queue);
    aql_destroy(&other);
    pm4();
    gpu_free(signals, PAGE);
}
