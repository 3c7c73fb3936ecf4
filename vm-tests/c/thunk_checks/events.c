/* Events: all kinds, set, reset, query, waits, exhaustion, many waiting threads. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* KFD_SIGNAL_EVENT_LIMIT of the uapi; id 0 is never given out (kfd_event_init_process). */
#define SIGNAL_IDS 4095
#define WAITERS 200

static HSAKMT_STATUS create(HSA_EVENTTYPE type, bool manual_reset, bool signaled, HsaEvent **event) {
    HsaEventDescriptor descriptor = {.EventType = type, .NodeId = 0};
    descriptor.SyncVar.SyncVar.UserData = NULL;
    descriptor.SyncVar.SyncVarSize = 0;
    *event = NULL;
    return hsaKmtCreateEvent(&descriptor, manual_reset, signaled, event);
}

static void kinds(void) {
    static const char *const names[] = {"signal", "nodechange",  "devicestate", "hw-exception", "system",
                                        "debug",  "profile",     "queue",       "memory"};
    char id[96];
    for (unsigned type = 0; type < HSA_EVENTTYPE_MAXID; type++) {
        HsaEvent *event;
        snprintf(id, sizeof(id), "event.create.%s", names[type]);
        const HSAKMT_STATUS status = create((HSA_EVENTTYPE)type, true, false, &event);
        check_status(id, status);
        if (status != HSAKMT_STATUS_SUCCESS)
            continue;
        snprintf(id, sizeof(id), "event.type.%s", names[type]);
        check_u64(id, event->EventData.EventType);
        snprintf(id, sizeof(id), "event.id-is-hwdata1.%s", names[type]);
        check_true(id, event->EventData.HWData1 == event->EventId);
        /* Signal and debug events have ids below the limit, the others come from KFD_FIRST_NONSIGNAL_EVENT_ID. */
        snprintf(id, sizeof(id), "event.signal-id.%s", names[type]);
        check_true(id, event->EventId >= 1 && event->EventId <= SIGNAL_IDS);
        snprintf(id, sizeof(id), "event.nonsignal-id.%s", names[type]);
        check_true(id, event->EventId >= 0x40000000u);
        snprintf(id, sizeof(id), "event.set.%s", names[type]);
        check_status(id, hsaKmtSetEvent(event));
        snprintf(id, sizeof(id), "event.query.%s", names[type]);
        check_status(id, hsaKmtQueryEventState(event));
        snprintf(id, sizeof(id), "event.reset.%s", names[type]);
        check_status(id, hsaKmtResetEvent(event));
        snprintf(id, sizeof(id), "event.wait-unset.%s", names[type]);
        check_status(id, hsaKmtWaitOnEvent(event, 0));
        snprintf(id, sizeof(id), "event.destroy.%s", names[type]);
        check_status(id, hsaKmtDestroyEvent(event));
    }
}

static void bad_arguments(void) {
    HsaEvent *event;
    check_status("event.create.maxid", create(HSA_EVENTTYPE_MAXID, true, false, &event));
    check_status("event.create.huge", create((HSA_EVENTTYPE)0x7fffffff, true, false, &event));
    check_status("event.destroy.null", hsaKmtDestroyEvent(NULL));
    check_status("event.set.null", hsaKmtSetEvent(NULL));
    check_status("event.reset.null", hsaKmtResetEvent(NULL));
    check_status("event.query.null", hsaKmtQueryEventState(NULL));
    check_status("event.wait.null", hsaKmtWaitOnEvent(NULL, 0));
    check_status("event.wait-multiple.null", hsaKmtWaitOnMultipleEvents(NULL, 1, true, 0));

    /* An id that KFD does not know, in a struct that the thunk trusts. */
    HsaEvent unknown;
    memset(&unknown, 0, sizeof(unknown));
    unknown.EventId = 4000;
    check_status("event.set.unknown-id", hsaKmtSetEvent(&unknown));
    check_status("event.reset.unknown-id", hsaKmtResetEvent(&unknown));
    check_status("event.destroy.unknown-id", hsaKmtDestroyEvent(&unknown));
    check_status("event.wait.unknown-id", hsaKmtWaitOnEvent(&unknown, 0));
    unknown.EventId = 0;
    check_status("event.set.id-0", hsaKmtSetEvent(&unknown));
    check_status("event.wait.id-0", hsaKmtWaitOnEvent(&unknown, 0));
    unknown.EventId = 0xffffffffu;
    check_status("event.set.id-max", hsaKmtSetEvent(&unknown));
    check_status("event.wait.id-max", hsaKmtWaitOnEvent(&unknown, 0));
}

static void reset_rules(void) {
    HsaEvent *manual, *automatic, *initial;
    check_status("event.manual.create", create(HSA_EVENTTYPE_SIGNAL, true, false, &manual));
    check_status("event.auto.create", create(HSA_EVENTTYPE_SIGNAL, false, false, &automatic));
    check_status("event.initial.create", create(HSA_EVENTTYPE_SIGNAL, true, true, &initial));

    check_status("event.initial.wait", hsaKmtWaitOnEvent(initial, 0));
    check_status("event.initial.wait-again", hsaKmtWaitOnEvent(initial, 0));

    check_status("event.manual.set", hsaKmtSetEvent(manual));
    check_status("event.manual.wait", hsaKmtWaitOnEvent(manual, 0));
    check_status("event.manual.wait-again", hsaKmtWaitOnEvent(manual, 0));
    check_status("event.manual.set-twice", hsaKmtSetEvent(manual));
    check_status("event.manual.reset", hsaKmtResetEvent(manual));
    check_status("event.manual.wait-after-reset", hsaKmtWaitOnEvent(manual, 0));
    check_status("event.manual.reset-twice", hsaKmtResetEvent(manual));

    check_status("event.auto.set", hsaKmtSetEvent(automatic));
    check_status("event.auto.wait", hsaKmtWaitOnEvent(automatic, 0));
    check_status("event.auto.wait-again", hsaKmtWaitOnEvent(automatic, 0));
    /* Two sets before a wait are one. */
    hsaKmtSetEvent(automatic);
    hsaKmtSetEvent(automatic);
    check_status("event.auto.two-sets.first-wait", hsaKmtWaitOnEvent(automatic, 0));
    check_status("event.auto.two-sets.second-wait", hsaKmtWaitOnEvent(automatic, 0));

    const uint64_t start = now_ms();
    check_status("event.timeout.50ms", hsaKmtWaitOnEvent(manual, 50));
    const uint64_t took = now_ms() - start;
    check_true("event.timeout.50ms.not-early", took >= 49);
    check_true("event.timeout.50ms.not-late", took < 5000);

    hsaKmtSetEvent(manual);
    check_status("event.infinite.already-set", hsaKmtWaitOnEvent(manual, HSA_EVENTTIMEOUT_INFINITE));

    check_status("event.manual.destroy", hsaKmtDestroyEvent(manual));
    check_status("event.auto.destroy", hsaKmtDestroyEvent(automatic));
    check_status("event.initial.destroy", hsaKmtDestroyEvent(initial));
}

static void multiple(void) {
    HsaEvent *events[3];
    for (int i = 0; i < 3; i++)
        create(HSA_EVENTTYPE_SIGNAL, true, false, &events[i]);

    check_status("event.any.none-set", hsaKmtWaitOnMultipleEvents(events, 3, false, 10));
    check_status("event.all.none-set", hsaKmtWaitOnMultipleEvents(events, 3, true, 10));
    hsaKmtSetEvent(events[2]);
    check_status("event.any.last-set", hsaKmtWaitOnMultipleEvents(events, 3, false, 10));
    check_status("event.all.one-of-three-set", hsaKmtWaitOnMultipleEvents(events, 3, true, 10));
    hsaKmtSetEvent(events[0]);
    hsaKmtSetEvent(events[1]);
    check_status("event.all.all-set", hsaKmtWaitOnMultipleEvents(events, 3, true, 10));

    HsaEvent *twice[2] = {events[0], events[0]};
    check_status("event.all.same-event-twice", hsaKmtWaitOnMultipleEvents(twice, 2, true, 10));
    check_status("event.any.zero-events", hsaKmtWaitOnMultipleEvents(events, 0, false, 0));
    check_status("event.all.zero-events", hsaKmtWaitOnMultipleEvents(events, 0, true, 0));

    /* V03: a memory event in the list that did not fire is not taken for one that did. */
    HsaEvent *memory;
    create(HSA_EVENTTYPE_MEMORY, true, false, &memory);
    HsaEvent *mixed[2] = {events[0], memory};
    check_status("V03.signal-set-memory-not.any", hsaKmtWaitOnMultipleEvents(mixed, 2, false, 0));
    check_hex("V03.memory-not-fired.address", memory->EventData.EventData.MemoryAccessFault.VirtualAddress);
    hsaKmtResetEvent(events[0]);
    check_status("V03.none-set.any", hsaKmtWaitOnMultipleEvents(mixed, 2, false, 0));
    hsaKmtDestroyEvent(memory);

    /* One bad id among good ones fails the whole wait (kfd_wait_on_events). */
    HsaEvent unknown;
    memset(&unknown, 0, sizeof(unknown));
    unknown.EventId = 4000;
    HsaEvent *bad[2] = {events[1], &unknown};
    check_status("event.any.one-unknown", hsaKmtWaitOnMultipleEvents(bad, 2, false, 0));

    for (int i = 0; i < 3; i++)
        hsaKmtDestroyEvent(events[i]);
}

static void exhaustion(void) {
    static HsaEvent *events[SIGNAL_IDS + 1];
    char id[64];
    for (int round = 1; round <= 3; round++) {
        unsigned count = 0;
        while (count <= SIGNAL_IDS && create(HSA_EVENTTYPE_SIGNAL, true, false, &events[count]) == 0)
            count++;
        snprintf(id, sizeof(id), "V01.count.round-%d", round);
        check_u64(id, count);
        HsaEvent *extra;
        snprintf(id, sizeof(id), "V01.beyond.round-%d", round);
        check_status(id, create(HSA_EVENTTYPE_SIGNAL, true, false, &extra));
        snprintf(id, sizeof(id), "V01.beyond.debug.round-%d", round);
        check_status(id, create(HSA_EVENTTYPE_DEBUG_EVENT, true, false, &extra));
        /* The other kinds have ids of their own. */
        snprintf(id, sizeof(id), "V01.beyond.queue.round-%d", round);
        check_status(id, create(HSA_EVENTTYPE_QUEUE_EVENT, true, false, &extra));
        hsaKmtDestroyEvent(extra);
        const unsigned freed_id = events[16]->EventId;
        hsaKmtDestroyEvent(events[16]);
        snprintf(id, sizeof(id), "V01.one-freed.round-%d", round);
        check_status(id, create(HSA_EVENTTYPE_SIGNAL, true, false, &events[16]));
        snprintf(id, sizeof(id), "V01.one-freed.same-id.round-%d", round);
        check_true(id, events[16]->EventId == freed_id);
        for (unsigned i = 0; i < count; i++)
            hsaKmtDestroyEvent(events[i]);
    }
}

struct waiter {
    pthread_t thread;
    HsaEvent *event;
    HSAKMT_STATUS status;
    int order;
};

static int woken;

static void *wait_for_one(void *arg) {
    struct waiter *waiter = arg;
    waiter->status = hsaKmtWaitOnEvent(waiter->event, 60000);
    waiter->order = __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Each of 200 threads waits for its own event; they are woken one after the other in a shuffled order. */
static void many_waiters(void) {
    static struct waiter waiters[WAITERS];
    int order[WAITERS];
    bool in_order = true, all = true;
    woken = 0;
    for (int i = 0; i < WAITERS; i++) {
        order[i] = i;
        create(HSA_EVENTTYPE_SIGNAL, false, false, &waiters[i].event);
        pthread_create(&waiters[i].thread, NULL, wait_for_one, &waiters[i]);
    }
    unsigned seed = 42;
    for (int i = WAITERS - 1; i > 0; i--) {
        const int j = rand_r(&seed) % (i + 1);
        const int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    check_u64("event.waiters.woken-before-set", (uint64_t)__atomic_load_n(&woken, __ATOMIC_SEQ_CST));
    for (int i = 0; i < WAITERS; i++) {
        struct waiter *waiter = &waiters[order[i]];
        hsaKmtSetEvent(waiter->event);
        pthread_join(waiter->thread, NULL);
        in_order = in_order && waiter->order == i + 1;
        all = all && waiter->status == HSAKMT_STATUS_SUCCESS;
        hsaKmtDestroyEvent(waiter->event);
    }
    check_true("event.waiters.each-by-its-own", in_order);
    check_true("event.waiters.all-succeed", all);
    check_u64("event.waiters.woken", (uint64_t)woken);
}

/* All wait for one event. It is a manual-reset event, so one set wakes all. */
static void one_event_many_waiters(void) {
    static struct waiter waiters[WAITERS];
    HsaEvent *event;
    unsigned succeeded = 0;
    create(HSA_EVENTTYPE_SIGNAL, true, false, &event);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].event = event;
        pthread_create(&waiters[i].thread, NULL, wait_for_one, &waiters[i]);
    }
    hsaKmtSetEvent(event);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        succeeded += waiters[i].status == HSAKMT_STATUS_SUCCESS;
    }
    check_u64("event.broadcast.woken", succeeded);
    hsaKmtDestroyEvent(event);
}

static void *destroy_later(void *arg) {
    usleep(100000);
    hsaKmtDestroyEvent(arg);
    return NULL;
}

/* destroy_event wakes its waiters, whose wait then fails. */
static void destroyed_while_waiting(void) {
    HsaEvent *event;
    pthread_t thread;
    create(HSA_EVENTTYPE_SIGNAL, true, false, &event);
    HsaEvent copy = *event;
    pthread_create(&thread, NULL, destroy_later, event);
    const uint64_t start = now_ms();
    check_status("event.destroyed-while-waiting", hsaKmtWaitOnEvent(&copy, 20000));
    check_true("event.destroyed-while-waiting.prompt", now_ms() - start < 10000);
    pthread_join(thread, NULL);
}

void event_checks(void) {
    kinds();
    bad_arguments();
    reset_rules();
    multiple();
    exhaustion();
    many_waiters();
    one_event_many_waiters();
    destroyed_while_waiting();
}
