/* Cancels threads (pthread_cancel) at many points of calls of libhsakmt that open, read and write files: the topology, and the log.
 * The cancelled thread ends, and the library goes on working for the others. Prints `cancelled N`.
 */
#include <hsakmt.h>
#include <pthread.h>
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
    HsaSystemProperties properties;
    if (hsaKmtAcquireSystemProperties(&properties) != HSAKMT_STATUS_SUCCESS || properties.NumNodes == 0) {
        puts("no topology after the threads");
        return 1;
    }
    printf("cancelled %d\n", cancelled);
    return 0;
}
