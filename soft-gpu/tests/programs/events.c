// Creates and destroys events under a storm of SIGALRM. A call that was executed twice would leave an
// event behind (the lowest free id would move) or fail (destroying what is gone: EINVAL).
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/time.h>

struct create { uint64_t page; uint32_t trigger, type, auto_reset, node, id, slot; };
static volatile long alarms;
static void on_alarm(int signal) { (void)signal; alarms++; }

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 50000;
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (fd < 0) return 2;
    struct itimerval timer = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &timer, NULL);
    uint32_t first = 0;
    long moved = 0, failed = 0;
    for (long i = 0; i < rounds; i++) {
        struct create create = {.auto_reset = 1};
        while (ioctl(fd, 0xc0204b08, &create)) if (errno != EINTR) return 3;
        if (i == 0) first = create.id;
        if (create.id != first) moved++;
        uint32_t destroy[2] = {create.id, 0};
        while (ioctl(fd, 0x40084b09, destroy)) if (errno != EINTR) { failed++; break; }
    }
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    printf("rounds %ld moved %ld failed %ld alarms %d\n", rounds, moved, failed, alarms > 100);
    return 0;
}
