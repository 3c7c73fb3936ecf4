/* Cancels threads (pthread_cancel) at many points of calls of libhsakmt that open, read and write files: the topology, and the log.
 * The cancelled thread ends, and the library goes on working for the others. One asks to be cancelled anywhere, in the middle of
 * a wait too: it is, after the call. Prints `cancelled N`.
 */
#include <hsakmt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 60 };

/* Its only cancellation point of its own is at the end of a round, where it holds nothing. */
static void *take_snapshots(void *unused) {
    (void)unused;
    for (;;) {
        HsaSystemProperties properties;
        hsaKmtAcquireSystemProperties(&properties);
        hsaKmtReleaseSystemProperties();
        /* Refused, which is logged. */
        hsaKmtFreeMemory((void *)0x1000, 4096);
        pthread_testcancel();
    }
    return NULL;
}

/* Asynchronous cancellation is for threads that call nothing; one that does all the same is not to end the program. */
static void *wait_anywhere(void *event) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    hsaKmtWaitOnEvent(event, 300);
    pthread_testcancel();
    return NULL;
}

static int cancelled_anywhere(void) {
    HsaEventDescriptor descriptor;
    HsaEvent *event = NULL;
    pthread_t thread;
    void *result = NULL;
    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    if (hsaKmtCreateEvent(&descriptor, false, false, &event) != HSAKMT_STATUS_SUCCESS ||
        pthread_create(&thread, NULL, wait_anywhere, event))
        return 0;
    usleep(100000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    return result == PTHREAD_CANCELED && hsaKmtDestroyEvent(event) == HSAKMT_STATUS_SUCCESS;
}

int main(void) {
    int cancelled = 0;
    alarm(60);
    if (hsaKmtOpenKFD() != HSAKMT_STATUS_SUCCESS) {
        puts("hsaKmtOpenKFD fails");
        return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *result = NULL;
        const int error = pthread_create(&thread, NULL, take_snapshots, NULL);
        if (error) {
            printf("pthread_create: %s\n", strerror(error));
            return 1;
        }
        usleep(1000 + 100 * round);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    cancelled += cancelled_anywhere();
    HsaSystemProperties properties;
    if (hsaKmtAcquireSystemProperties(&properties) != HSAKMT_STATUS_SUCCESS || properties.NumNodes == 0) {
        puts("no topology after the threads");
        return 1;
    }
    printf("cancelled %d\n", cancelled);
    return 0;
}
