/* Forks while other threads make their first calls of libhsakmt, for which it opens the GPU, and more that are logged: the children
 * make such calls too, and end. Prints `children that hung: N`.
 */
#include <hsakmt.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, CHILDREN = 40, MOST_HUNG = 3 };

static void *log_for_ever(void *unused) {
    (void)unused;
    for (;;)
        hsaKmtFreeMemory((void *)0x1000, 4096);
    return NULL;
}

int main(void) {
    pthread_t thread;
    int hung = 0;
    alarm(100);
    if (hsaKmtOpenKFD() != HSAKMT_STATUS_SUCCESS) {
        puts("hsaKmtOpenKFD fails");
        return 1;
    }
    for (int at = 0; at < THREADS; at++)
        if (pthread_create(&thread, NULL, log_for_ever, NULL)) {
            puts("no thread");
            return 1;
        }
    for (int at = 0; at < CHILDREN && hung < MOST_HUNG; at++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            const int opened = hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS;
            hsaKmtFreeMemory((void *)0x1000, 4096);
            _exit(opened && hsaKmtCloseKFD() == HSAKMT_STATUS_SUCCESS ? 0 : 1);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || (WIFEXITED(status) && WEXITSTATUS(status))) {
            printf("child %d: %x\n", at, (unsigned)status);
            return 1;
        }
        hung += !WIFEXITED(status);
    }
    printf("children that hung: %d\n", hung);
    fflush(stdout);
    _exit(0);
}
