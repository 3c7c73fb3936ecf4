// 200 threads wait, each for an event of its own; the events are set in a shuffled order. Every thread must
// be woken by its own event and by no other.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define THREADS 200

struct create { uint64_t page; uint32_t trigger, type, auto_reset, node, id, slot; };
struct set { uint32_t id, pad; };
struct data { uint64_t body[4], ext; uint32_t id, pad; };
struct wait { uint64_t events; uint32_t count, all, timeout, result; };

static int fd, woken;
static struct waiter { pthread_t thread; uint32_t event; int error; uint32_t result; int order; } waiters[THREADS];

static void *wait_for(void *arg) {
    struct waiter *waiter = arg;
    struct data data = {.id = waiter->event};
    struct wait wait = {.events = (uintptr_t)&data, .count = 1, .timeout = 60000};
    waiter->error = ioctl(fd, 0xc0184b0c, &wait) ? errno : 0;
    waiter->result = wait.result;
    waiter->order = __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void) {
    int order[THREADS];
    unsigned seed = 7;
    fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (fd < 0) return perror("/dev/kfd"), 1;
    for (int i = 0; i < THREADS; i++) {
        struct create create = {.auto_reset = 1};
        if (ioctl(fd, 0xc0204b08, &create)) return perror("CREATE_EVENT"), 1;
        waiters[i].event = create.id;
        order[i] = i;
        if (pthread_create(&waiters[i].thread, NULL, wait_for, &waiters[i])) return fprintf(stderr, "no thread\n"), 1;
    }
    for (int i = THREADS - 1; i > 0; i--) {
        int j = rand_r(&seed) % (i + 1), other = order[i];
        order[i] = order[j], order[j] = other;
    }
    for (int i = 0; i < THREADS; i++) {
        struct waiter *waiter = &waiters[order[i]];
        struct set set = {.id = waiter->event};
        if (ioctl(fd, 0x40084b0a, &set)) return perror("SET_EVENT"), 1;
        pthread_join(waiter->thread, NULL);
        if (waiter->error || waiter->result || waiter->order != i + 1)
            return fprintf(stderr, "thread %d: errno %d, result %u, woken as number %d instead of %d\n", order[i],
                           waiter->error, waiter->result, waiter->order, i + 1), 1;
    }
    puts("200 woken, each by its own event");
    return 0;
}
