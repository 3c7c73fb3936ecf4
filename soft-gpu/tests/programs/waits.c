// Blocking waits and signals. WAIT_EVENTS on the device under test waits for its time-out.
//   waits interrupt    a handler without SA_RESTART makes the wait fail with EINTR, promptly
//   waits restart      a handler with SA_RESTART runs during the wait, which then goes on to its end
//   waits thread       a signal for a second thread that waits reaches it
//   waits storm        a wait of 300 ms under a storm of restarting signals lasts 300 ms
//   waits shared       a signal for the process that only waiting threads do not block is handled once
//   waits many         200 threads wait at the same time
//   waits long         prints "waiting", then waits 3 s in the first thread and 1 s more
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct wait { uint64_t events; uint32_t count, all, timeout, result; };
static int fd;
static volatile int handled;
static void on_signal(int signal) { (void)signal; handled++; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int wait_ms(uint32_t ms) {
    struct wait wait = {.timeout = ms};
    return ioctl(fd, 0xc0184b0c, &wait) ? errno : 0;
}

static void handle(int signal, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static void alarm_in(int first_us, int then_us) {
    struct itimerval timer = {{0, then_us}, {0, first_us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int thread_result;
static double thread_time;
static void *waiter(void *unused) {
    (void)unused;
    double start = now();
    thread_result = wait_ms(10000);
    thread_time = now() - start;
    return NULL;
}

static int wrong;
static void *short_waiter(void *unused) {
    (void)unused;
    if (wait_ms(2000)) __sync_fetch_and_add(&wrong, 1);
    return NULL;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (fd < 0) return 2;
    double start = now();
    if (!strcmp(mode, "interrupt")) {
        handle(SIGALRM, 0);
        alarm_in(100000, 0);
        int result = wait_ms(10000);
        printf("result %s handled %d prompt %d\n", strerror(result), handled, now() - start < 2);
    } else if (!strcmp(mode, "restart")) {
        handle(SIGALRM, SA_RESTART);
        alarm_in(100000, 0);
        int result = wait_ms(500);
        double took = now() - start;
        printf("result %d handled %d whole %d\n", result, handled, took > 0.45 && took < 3);
    } else if (!strcmp(mode, "storm")) {
        handle(SIGALRM, SA_RESTART);
        alarm_in(5000, 5000);
        int result = wait_ms(300);
        alarm_in(0, 0);
        double took = now() - start;
        printf("result %d handled %d whole %d\n", result, handled > 20, took > 0.25 && took < 3);
    } else if (!strcmp(mode, "thread")) {
        handle(SIGUSR1, 0);
        pthread_t thread;
        pthread_create(&thread, NULL, waiter, NULL);
        usleep(100000);
        pthread_kill(thread, SIGUSR1);
        pthread_join(thread, NULL);
        printf("result %s handled %d prompt %d\n", strerror(thread_result), handled, thread_time < 2);
    } else if (!strcmp(mode, "shared")) {
        // A signal for the process that the first thread blocks, with 20 threads that wait.
        handle(SIGUSR1, SA_RESTART);
        pthread_t threads[20];
        for (int i = 0; i < 20; i++) pthread_create(&threads[i], NULL, short_waiter, NULL);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        usleep(300000);
        kill(getpid(), SIGUSR1);
        double sent = now();
        while (!handled && now() - sent < 5) usleep(1000);
        printf("handled %d prompt %d ", handled, now() - sent < 1);
        for (int i = 0; i < 20; i++) pthread_join(threads[i], NULL);
        printf("whole %d wrong %d\n", now() - start > 1.9, wrong);
    } else if (!strcmp(mode, "many")) {
        pthread_t threads[200];
        for (int i = 0; i < 200; i++) pthread_create(&threads[i], NULL, short_waiter, NULL);
        for (int i = 0; i < 200; i++) pthread_join(threads[i], NULL);
        double took = now() - start;
        printf("wrong %d together %d\n", wrong, took > 1.9 && took < 10);
    } else if (!strcmp(mode, "long")) {
        printf("waiting %d\n", getpid());
        fflush(stdout);
        int first = wait_ms(3000);
        printf("first %d at least 3 s: %d\n", first, now() - start > 2.9);
        printf("second %d\n", wait_ms(1000));
    } else if (!strcmp(mode, "forever")) {
        printf("waiting %d\n", getpid());
        fflush(stdout);
        wait_ms(600000);
    } else {
        return 3;
    }
    return 0;
}
