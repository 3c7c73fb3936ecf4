/* Forks while another thread opens libhsakmt for the first time: the child opens it too, and ends. Each try is a process of its own,
 * forked from this one, which never opens the library. Prints `children that hung: N`.
 */
#include <hsakmt.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIES = 100, STEP = 4000, MOST_HUNG = 3, HUNG = 9 };

static void *open_first(void *unused) {
    hsaKmtOpenKFD();
    return unused;
}

/* Ends with 0, with HUNG if its child did not end, or with 1. */
static int try(int at) {
    pthread_t thread;
    int status = 0;
    if (pthread_create(&thread, NULL, open_first, NULL))
        return 1;
    for (volatile int spin = 0; spin < at * STEP; spin++)
        ;
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || pthread_join(thread, NULL))
        return 1;
    return WIFSIGNALED(status) ? HUNG : WEXITSTATUS(status);
}

int main(void) {
    int hung = 0;
    alarm(200);
    for (int at = 0; at < TRIES && hung < MOST_HUNG; at++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0)
            _exit(try(at));
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
            (WEXITSTATUS(status) && WEXITSTATUS(status) != HUNG)) {
            printf("try %d: %x\n", at, (unsigned)status);
            return 1;
        }
        hung += WEXITSTATUS(status) == HUNG;
    }
    printf("children that hung: %d\n", hung);
    return 0;
}
