/* Calls functions of libhsakmt with nothing but zeros: before it is open, when it was only opened, and after it was closed. Each call
 * is made in a child, so that a crash is that call's alone. Prints `NAME STATE STATUS`, or `NAME STATE signal N`.
 *
 *   every_call NAME...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint32_t (*function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                             uintptr_t, uintptr_t);

enum state { CLOSED, OPEN, CLOSED_AGAIN, STATES };

static const char *const names[STATES] = {"closed", "open", "closed-again"};

static function look_up(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        printf("%s is not exported\n", name);
        exit(2);
    }
    return (function)(uintptr_t)found;
}

/* The C ABI passes integers, pointers and the thunk's unions of 32 bits alike; who takes fewer leaves the others alone. */
static uint32_t call(function f) { return f(0, 0, 0, 0, 0, 0, 0, 0, 0, 0); }

static void in_state(const char *name, enum state state) {
    int status = -1;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        if (state != CLOSED)
            call(look_up("hsaKmtOpenKFD"));
        if (state == CLOSED_AGAIN)
            call(look_up("hsaKmtCloseKFD"));
        printf("%s %s %u\n", name, names[state], call(look_up(name)));
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s %s signal %d\n", name, names[state], WTERMSIG(status));
}

int main(int argc, char **argv) {
    if (!dlopen("libhsakmt.so.1", RTLD_NOW | RTLD_GLOBAL)) {
        printf("%s\n", dlerror());
        return 2;
    }
    for (int at = 1; at < argc; at++)
        for (int state = CLOSED; state < STATES; state++)
            in_state(argv[at], (enum state)state);
    return 0;
}
