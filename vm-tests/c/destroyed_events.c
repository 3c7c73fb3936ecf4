/* Destroys an event that threads wait for, with ages: each wait fails, and looks at the event no more. Prints
 * `waits that failed: N`.
 */
#include <hsakmt.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* Not in the header of 5.2.3. */
HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent *event, HSAuint32 milliseconds, HSAuint64 *age);
#pragma weak hsaKmtWaitOnEvent_Ext

enum { WAITERS = 4 };

static HsaEvent *event;

static void *wait_for_it(void *failed) {
    HSAuint64 age = 1;
    *(int *)failed = hsaKmtWaitOnEvent_Ext(event, 60000, &age) == HSAKMT_STATUS_ERROR && age == 1;
    return NULL;
}

int main(void) {
    HsaEventDescriptor descriptor = {.EventType = HSA_EVENTTYPE_SIGNAL};
    pthread_t threads[WAITERS];
    int failed[WAITERS] = {0}, count = 0;
    alarm(100);
    if (!hsaKmtWaitOnEvent_Ext || hsaKmtOpenKFD() != HSAKMT_STATUS_SUCCESS ||
        hsaKmtCreateEvent(&descriptor, 0, 0, &event) != HSAKMT_STATUS_SUCCESS) {
        puts("no event");
        return 1;
    }
    for (int at = 0; at < WAITERS; at++)
        if (pthread_create(&threads[at], NULL, wait_for_it, &failed[at])) {
            puts("no thread");
            return 1;
        }
    /* Long enough for all to wait, under valgrind too. */
    sleep(3);
    if (hsaKmtDestroyEvent(event) != HSAKMT_STATUS_SUCCESS) {
        puts("the event cannot be destroyed");
        return 1;
    }
    for (int at = 0; at < WAITERS; at++) {
        pthread_join(threads[at], NULL);
        count += failed[at];
    }
    printf("waits that failed: %d\n", count);
    return hsaKmtCloseKFD() == HSAKMT_STATUS_SUCCESS ? 0 : 1;
}
