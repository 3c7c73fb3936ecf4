// 100,000 ioctls under a storm of SIGALRM: each must be executed exactly once and return 0.
// The device counts its GET_CLOCK_COUNTERS calls and returns the count.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

struct clock { uint64_t gpu, cpu, system, freq; uint32_t gpu_id, pad; };
static volatile long alarms;
static void on_alarm(int signal) { (void)signal; alarms++; }

int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 100000;
    struct sigaction action = {.sa_handler = on_alarm};  // without SA_RESTART
    sigaction(SIGALRM, &action, NULL);
    int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    struct clock clock;
    memset(&clock, 0, sizeof clock);
    if (fd < 0 || ioctl(fd, 0xc0284b05, &clock)) return 2;
    uint64_t last = clock.gpu;
    struct itimerval timer = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &timer, NULL);
    long interrupted = 0, wrong = 0;
    for (long i = 0; i < calls; i++) {
        // A call that was interrupted before it was executed may be repeated, like any system call.
        while (ioctl(fd, 0xc0284b05, &clock)) {
            if (errno != EINTR) { printf("errno %d at %ld\n", errno, i); return 3; }
            interrupted++;
        }
        if (clock.gpu != last + 1) wrong++;
        last = clock.gpu;
    }
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    printf("calls %ld wrong %ld interrupted %ld alarms %d\n", calls, wrong, interrupted, alarms > 100);
    return wrong != 0;
}
