// Memory of the program that the GPU used is the program's alone again.
//   private alone     one thread: contents, fork and MADV_DONTNEED
//   private threads   others count in the page meanwhile, and wait for events: no increment is lost
//   private overlap   two registrations of one page: it is shared until both are gone
//   private child     the page stays usable in a child that was forked while it was shared
#include "kfd.h"
#include <pthread.h>
#include <stdatomic.h>

#define LEN (3u << 20)

static uint64_t add(void *at, uint64_t size) {
    struct alloc args = {.va = (uintptr_t)at, .size = size, .gpu_id = gpu, .mmap_offset = (uintptr_t)at,
        .flags = USERPTR | WRITABLE};
    return ioctl(kfd, ALLOC_MEMORY, &args) ? printf("register: %s\n", strerror(errno)), 0 : args.handle;
}

static int drop(uint64_t handle) {
    struct free_memory args = {.handle = handle};
    return ioctl(kfd, FREE_MEMORY, &args);
}

static void *anonymous(size_t len) {
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? (perror("mmap"), exit(3), NULL) : at;
}

// Mappings of converted memory.
static int shared(void) {
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) count += strstr(line, "kfd-userptr") != NULL;
    if (maps) fclose(maps);
    return count;
}

// Whether a store of a child is seen.
static int sees_child(volatile uint64_t *word) {
    uint64_t before = *word;
    pid_t child = fork();
    if (child == 0) {
        *word = before + 1;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return *word != before;
}

static int alone(void) {
    uint64_t *words = anonymous(LEN);
    // Every third page is never touched.
    for (size_t page = 0; page < LEN / PAGE; page++)
        if (page % 3) words[page * PAGE / 8] = page;
    uint64_t handle = add(words, LEN);
    printf("shared %d child %d\n", shared(), sees_child(&words[PAGE / 8]));
    words[PAGE / 8] = 1;
    int freed = drop(handle), still = shared();
    printf("freed %d shared %d child %d\n", freed, still, sees_child(&words[PAGE / 8]));
    int wrong = 0;
    for (size_t page = 0; page < LEN / PAGE; page++)
        wrong += words[page * PAGE / 8] != (page % 3 ? page : 0) || words[page * PAGE / 8 + 1] != 0;
    madvise(words, LEN, MADV_DONTNEED);
    printf("wrong %d cleared %d\n", wrong, words[PAGE / 8] == 0);
    return 0;
}

static _Atomic uint64_t *counter;
static atomic_int stop;

static void *count(void *sum) {
    uint64_t mine = 0;
    while (!stop) atomic_fetch_add(counter, 1), mine++;
    *(uint64_t *)sum = mine;
    return NULL;
}

static void *wait_for_event(void *arg) {
    (void)arg;
    struct create_event event = {0};
    if (ioctl(kfd, CREATE_EVENT, &event)) exit(4);
    uint32_t data[12] = {0};
    data[10] = event.event_id;
    struct { uint64_t events; uint32_t count, all, timeout, result; } args = {(uintptr_t)data, 1, 1, 100, 0};
    while (!stop) {
        args.timeout = 100;
        if (ioctl(kfd, _IOWR('K', 0x0c, char[24]), &args) && errno != EINTR) perror("wait"), exit(5);
    }
    return NULL;
}

static int threads(void) {
    pthread_t counting[2], waiting;
    uint64_t sums[2];
    counter = anonymous(PAGE);
    for (int i = 0; i < 2; i++) pthread_create(&counting[i], NULL, count, &sums[i]);
    pthread_create(&waiting, NULL, wait_for_event, NULL);
    int failed = 0, left = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t handle = add((void *)counter, PAGE);
        failed += handle == 0 || drop(handle);
        left += shared();
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(counting[i], NULL);
    pthread_join(waiting, NULL);
    printf("failed %d left %d lost %lld\n", failed, left, (long long)(sums[0] + sums[1] - *counter));
    return 0;
}

static int overlap(void) {
    uint64_t *words = anonymous(2 * PAGE);
    words[0] = 7;
    uint64_t both = add(words, 2 * PAGE), second = add((char *)words + PAGE, PAGE);
    int first = drop(both), still = shared(), last = drop(second);
    printf("%d still %d %d then %d value %d\n", first, still, last, shared(), (int)words[0]);
    return 0;
}

static int child(void) {
    uint64_t *word = anonymous(PAGE);
    uint64_t handle = add(word, PAGE);
    int go[2], status;
    *word = 5;
    if (pipe(go)) return 3;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(go[1]);
        if (read(go[0], &byte, 1) != 1 || start()) _exit(10);
        handle = add(word, PAGE);
        if (!handle || *word != 5) _exit(11);
        *word = 6;
        _exit(drop(handle) || shared() || *word != 6 ? 12 : 0);
    }
    int freed = drop(handle);
    if (write(go[1], "", 1) != 1) return 4;
    waitpid(child, &status, 0);
    printf("freed %d shared %d child %d value %d\n", freed, shared(), status, (int)*word);
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = start();
    if (failed) return failed;
    if (!strcmp(mode, "alone")) return alone();
    if (!strcmp(mode, "threads")) return threads();
    if (!strcmp(mode, "overlap")) return overlap();
    if (!strcmp(mode, "child")) return child();
    return 99;
}
