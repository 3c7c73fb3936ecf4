/* The program whose memory is shared in tests/convert.rs. One mode per test; exit status 0 is success.
 *
 * Its ioctls of type 'K' and its shared mappings are seccomp notifications that the test answers, as under
 * the launcher. The listener goes to the test over descriptor 0. */
#include "prog.h"

/* Contents of heap, .bss, .data, stack and fresh memory survive, and both sides see each other's stores. */
static unsigned char in_bss[5 * PAGE];
static unsigned char in_data[5 * PAGE] = {1, 2, 3};

static void one_area(unsigned char *area, uint64_t len)
{
	unsigned char *first = page_of(area + PAGE - 1);
	uint64_t whole = (len - (uint64_t)(first - area)) & ~(PAGE - 1);
	fill(area, len, 7);
	CHECK(kfd(SHARE, first, whole, 1) == 1);
	CHECK(is_filled(area, len, 7));
	CHECK(sum_there(first, whole) == sum_here(first, whole));
	first[17] ^= 0x55;
	CHECK(sum_there(first, whole) == sum_here(first, whole));
	uint64_t *word = (uint64_t *)(first + 64);
	uint64_t before = *word;
	CHECK(kfd(ADD, word, 8, 1000) == 0);
	CHECK(*(volatile uint64_t *)word == before + 1000);
	/* Shared already: found again, not converted again. */
	CHECK(kfd(SHARE, first, whole, 1) == 1);
	CHECK(*(volatile uint64_t *)word == before + 1000);
}

static int deep(int levels)
{
	volatile char frame[16 << 10];
	frame[0] = (char)levels;
	return levels == 0 ? 0 : deep(levels - 1) + (frame[0] == (char)levels);
}

static void contents(void)
{
	unsigned char on_stack[40 * PAGE];
	one_area(malloc(5 * PAGE), 5 * PAGE);
	one_area(in_bss, sizeof in_bss);
	one_area(in_data, sizeof in_data);
	one_area(on_stack, sizeof on_stack);
	/* Deeper than what the stack had so far: it still grows below the shared part. */
	CHECK(deep(128) == 128);
	one_area(anonymous(600 * PAGE), 600 * PAGE);
	/* Never touched: zero on both sides. */
	unsigned char *fresh = anonymous(64 * PAGE);
	CHECK(kfd(SHARE, fresh, 64 * PAGE, 1) == 1);
	CHECK(sum_there(fresh, 64 * PAGE) == 0 && sum_here(fresh, 64 * PAGE) == 0);
}

/* The lowest pages of the stack. */
static unsigned char *lowest_of_stack(void)
{
	char line[512];
	unsigned long start = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "[stack]"))
			start = strtoul(line, NULL, 16);
	fclose(maps);
	return (unsigned char *)start;
}

static void stack_end(void)
{
	unsigned char big[512 << 10];
	fill(big, sizeof big, 3);
	unsigned char *low = lowest_of_stack();
	CHECK(low != NULL && low <= big);
	CHECK(kfd(SHARE, low, 4 * PAGE, 1) == 1);
	CHECK(is_filled(big, sizeof big, 3));
	CHECK(deep(256) == 256);
	/* What has grown below it has no name any more, and is stack nevertheless. */
	unsigned char *lower = low - 256 * (16 << 10);
	while (kfd(PEEK, lower - PAGE, 1, 0) == 0)
		lower -= PAGE;
	CHECK(kfd(SHARE, lower, 4 * PAGE, 1) == 1);
	CHECK(deep(384) == 384);
	CHECK(is_filled(big, sizeof big, 3));
}

/* Threads increment while their page is converted, and afterwards against the test. */
enum { WORKERS = 8, INCREMENTS = 1000000 };
static struct {
	uint64_t total;
	uint64_t own[WORKERS];
} *counters;
static volatile int ready, enough;

/* At least INCREMENTS of them, and until told that it is enough. */
static void *increment(void *arg)
{
	volatile uint64_t *own = &counters->own[(uint64_t)arg];
	uint64_t done = 0;
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	while (done < INCREMENTS || !enough) {
		__atomic_fetch_add(&counters->total, 1, __ATOMIC_RELAXED);
		*own += 1; /* no atomic: a lost page would lose it */
		done++;
	}
	return (void *)done;
}

static void run_workers(pthread_t *workers)
{
	ready = enough = 0;
	for (uint64_t i = 0; i < WORKERS; i++)
		start(&workers[i], increment, (void *)i);
	while (ready < WORKERS)
		sched_yield();
}

/* Returns how many increments there were. */
static uint64_t join_workers(pthread_t *workers)
{
	uint64_t sum = 0;
	enough = 1;
	for (int i = 0; i < WORKERS; i++) {
		void *done;
		CHECK(pthread_join(workers[i], &done) == 0);
		CHECK(counters->own[i] == (uint64_t)done);
		counters->own[i] = 0;
		sum += (uint64_t)done;
	}
	return sum;
}

static void atomics(void)
{
	pthread_t workers[WORKERS];
	counters = anonymous(PAGE);
	run_workers(workers);
	CHECK(kfd(SHARE, counters, PAGE, 1) == 1);
	uint64_t first = join_workers(workers);
	CHECK(counters->total == first);
	run_workers(workers);
	CHECK(kfd(ADD, &counters->total, 8, INCREMENTS) == 0);
	uint64_t second = join_workers(workers);
	CHECK(counters->total == first + second + INCREMENTS);
}

/* Many conversions, with and without other threads. */
static void *sleeper(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void convert_many(const char *what, int count, uint64_t pages)
{
	unsigned char **areas = malloc((size_t)count * sizeof *areas);
	for (int i = 0; i < count; i++) {
		areas[i] = anonymous(pages * PAGE);
		fill(areas[i], pages * PAGE, (unsigned)i);
	}
	double begin = now();
	for (int i = 0; i < count; i++)
		CHECK(kfd(SHARE, areas[i], pages * PAGE, 1) == 1);
	double us = (now() - begin) * 1e6 / count;
	printf("%-28s %5lu KiB: %8.0f us, %.2f ms per MiB\n", what, pages * 4, us, us / 1e3 / ((double)pages / 256));
	for (int i = 0; i < count; i++)
		CHECK(is_filled(areas[i], pages * PAGE, (unsigned)i));
}

static void many(void)
{
	pthread_t thread;
	convert_many("single-threaded", 50, 1);
	convert_many("single-threaded", 10, 256);
	convert_many("single-threaded", 2, 64 * 256);
	start(&thread, sleeper, NULL);
	convert_many("one sleeping thread", 50, 1);
	for (int i = 0; i < 100; i++)
		start(&thread, sleeper, NULL);
	convert_many("100 sleeping threads", 50, 1);
}

/* One range over memory of every kind. */
static void kinds(void)
{
	unsigned char *at = anonymous(8 * PAGE);
	int memfd = memfd_create("own", 0), file = open("/proc/self/exe", O_RDONLY);
	int both = MAP_FIXED | MAP_SHARED;
	CHECK(ftruncate(memfd, (off_t)(4 * PAGE)) == 0 && file >= 0);
	fill(at, 8 * PAGE, 1);
	CHECK(mprotect(at + PAGE, PAGE, PROT_READ) == 0);
	CHECK(mmap(at + 2 * PAGE, PAGE, PROT_READ, MAP_FIXED | MAP_PRIVATE, file, 0) != MAP_FAILED);
	CHECK(mmap(at + 4 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, both, memfd, PAGE) != MAP_FAILED);
	fill(at + 4 * PAGE, 2 * PAGE, 9);
	uint64_t before = sum_here(at, 8 * PAGE);

	/* A read-only page refuses a device that wants to write, and stays read-only otherwise. */
	CHECK(kfd(SHARE, at, 8 * PAGE, 1) == -1 && errno == EPERM);
	CHECK(kfd(SHARE, at, 8 * PAGE, 0) >= 3);
	CHECK(sum_here(at, 8 * PAGE) == before && sum_there(at, 8 * PAGE) == before);
	int pipes[2];
	CHECK(pipe(pipes) == 0 && write(pipes[1], "xy", 2) == 2);
	CHECK(read(pipes[0], at + PAGE, 1) == -1 && errno == EFAULT);
	CHECK(read(pipes[0], at + 2 * PAGE, 1) == -1 && errno == EFAULT);
	CHECK(read(pipes[0], at, 1) == 1 && at[0] == 'x');
	/* The program's own memfd is the same object still. */
	unsigned char *again = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, (off_t)PAGE);
	again[5] = 0xee;
	CHECK(at[4 * PAGE + 5] == 0xee && sum_there(at, 8 * PAGE) == sum_here(at, 8 * PAGE));

	/* A hole, memory without rights, an unaligned range, the kernel's own pages. */
	unsigned char *hole = anonymous(4 * PAGE);
	CHECK(munmap(hole + PAGE, PAGE) == 0 && mprotect(hole + 2 * PAGE, PAGE, PROT_NONE) == 0);
	CHECK(kfd(SHARE, hole, 2 * PAGE, 0) == -1 && errno == EFAULT);
	CHECK(kfd(SHARE, hole + 2 * PAGE, 2 * PAGE, 0) == -1 && errno == EFAULT);
	CHECK(kfd(SHARE, hole + 8, PAGE, 0) == -1 && errno == EINVAL);
	CHECK(kfd(SHARE, hole, 0, 0) == -1 && errno == EINVAL);
	CHECK(kfd(SHARE, (void *)0xffffffffff600000, PAGE, 0) == -1 && errno == EFAULT);
	CHECK(kfd(SHARE, (void *)-PAGE, 2 * PAGE, 0) == -1 && errno == EINVAL);
}

/* Copies by the supervisor obey the page protections. */
static void copies(void)
{
	unsigned char *at = anonymous(3 * PAGE);
	fill(at, 3 * PAGE, 5);
	CHECK(kfd(PEEK, at + 100, 2 * PAGE, 1) == 0);
	CHECK(mprotect(at + PAGE, PAGE, PROT_READ) == 0);
	CHECK(kfd(PEEK, at + 100, 2 * PAGE, 0) == 0);
	CHECK(kfd(PEEK, at + 100, 2 * PAGE, 1) == -1 && errno == EFAULT);
	CHECK(mprotect(at + PAGE, PAGE, PROT_NONE) == 0);
	CHECK(kfd(PEEK, at + 100, 2 * PAGE, 0) == -1 && errno == EFAULT);
	CHECK(kfd(PEEK, at + 100, PAGE - 100, 1) == 0);
	CHECK(munmap(at + 2 * PAGE, PAGE) == 0);
	CHECK(kfd(PEEK, at + 2 * PAGE, 1, 0) == -1 && errno == EFAULT);
	CHECK(kfd(PEEK, (void *)-8, 8, 1) == -1 && errno == EFAULT);
	CHECK(kfd(PEEK, (void *)0, 8, 0) == -1 && errno == EFAULT);
}

/* Threads that come and go all the time. */
static volatile int stop_churn;

static void *nothing(void *arg)
{
	return arg;
}

static void *churn(void *arg)
{
	while (!stop_churn) {
		pthread_t thread;
		start(&thread, nothing, NULL);
		pthread_join(thread, NULL);
	}
	return arg;
}

static void comers_and_goers(void)
{
	pthread_t churners[3];
	for (int i = 0; i < 3; i++)
		start(&churners[i], churn, NULL);
	convert_many("threads come and go", 50, 1);
	stop_churn = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(churners[i], NULL);
}

/* All threads wait in calls of their own. */
static void *waiter(void *arg)
{
	CHECK(kfd(WAIT, 0, 0, 0) == 0);
	return arg;
}

static void start_waiters(pthread_t *threads, int count)
{
	for (int i = 0; i < count; i++)
		start(&threads[i], waiter, NULL);
	usleep(50000);
}

static void waiters(void)
{
	pthread_t threads[20];
	start_waiters(threads, 20);
	convert_many("20 threads in calls", 20, 1);
	/* Outside of any call, while everybody is in one: somebody's wait restarts. */
	unsigned char *at = anonymous(PAGE);
	fill(at, PAGE, 4);
	CHECK(kfd(SHARE_OUT, at, PAGE, 100) == 0);
	CHECK(kfd(WAIT, 0, 0, 300) == 0); /* woken by the test after 300 ms */
	wait_out(0);
	CHECK(is_filled(at, PAGE, 4) && sum_there(at, PAGE) == sum_here(at, PAGE));
	CHECK(kfd(WAKE, 0, 0, 0) == 20);
	for (int i = 0; i < 20; i++)
		pthread_join(threads[i], NULL);
}

/* The only thread is in a blocking call when the device wants memory; the call must still wait. */
static void lonely_wait(void)
{
	unsigned char *at = anonymous(PAGE);
	fill(at, PAGE, 6);
	CHECK(kfd(SHARE_OUT, at, PAGE, 100) == 0);
	struct call call = {0, 0, 400}; /* woken by the test after 400 ms */
	double begin = now();
	CHECK(ioctl(0, WAIT, &call) == 0);
	CHECK(now() - begin > 0.35);
	wait_out(0);
	CHECK(is_filled(at, PAGE, 6) && sum_there(at, PAGE) == sum_here(at, PAGE));
}

/* A thread in a system call of the kernel is borrowed and goes on there. */
static int pipes[2];
static volatile int handled;

static void on_usr1(int signal)
{
	(void)signal;
	handled++;
}

static void *in_read(void *arg)
{
	char byte = 0;
	CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'z');
	return arg;
}

static void *in_sleep(void *arg)
{
	double begin = now();
	struct timespec half = {0, 500000000};
	CHECK(nanosleep(&half, NULL) == 0);
	CHECK(now() - begin >= 0.5);
	return arg;
}

static void *in_sigsuspend(void *arg)
{
	sigset_t none;
	sigemptyset(&none);
	CHECK(sigsuspend(&none) == -1 && errno == EINTR && handled == 1);
	return arg;
}

static void *in_loop(void *arg)
{
	volatile uint64_t count = 0;
	volatile double x = 1.5;
	while (!stop_churn) {
		count++;
		x = x * 1.0000001 + 1e-9;
		if (x > 3)
			x = 1.5;
	}
	CHECK(x >= 1.5 && x <= 3.1);
	return arg;
}

static void borrow(void *(*body)(void *), void (*finish)(pthread_t))
{
	pthread_t thread;
	unsigned char *areas[5];
	start(&thread, body, NULL);
	usleep(50000);
	for (int i = 0; i < 5; i++) {
		areas[i] = anonymous(PAGE);
		fill(areas[i], PAGE, (unsigned)i);
		struct call call = {0, 0, 40};
		CHECK(kfd(SHARE_OUT, areas[i], PAGE, 20) == 0);
		CHECK(ioctl(0, WAIT, &call) == 0); /* this thread is not there to be borrowed */
		wait_out(0);
		CHECK(is_filled(areas[i], PAGE, (unsigned)i));
	}
	finish(thread);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void finish_read(pthread_t thread)
{
	(void)thread;
	CHECK(write(pipes[1], "z", 1) == 1);
}

static void finish_nothing(pthread_t thread)
{
	(void)thread;
}

static void finish_signal(pthread_t thread)
{
	CHECK(handled == 0);
	pthread_kill(thread, SIGUSR1);
}

static void finish_loop(pthread_t thread)
{
	(void)thread;
	stop_churn = 1;
}

static void borrowed(void)
{
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	signal(SIGUSR1, on_usr1);
	CHECK(pipe(pipes) == 0);
	borrow(in_read, finish_read);
	borrow(in_sleep, finish_nothing);
	borrow(in_sigsuspend, finish_signal);
	borrow(in_loop, finish_loop);
}

/* Timer signals all the time: no call is lost or done twice. */
static volatile int alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void signals(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, 300}, {0, 300}};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	pthread_t thread;
	convert_many("timer signals", 200, 1);
	start(&thread, sleeper, NULL);
	convert_many("timer signals, two threads", 200, 1);
	CHECK(alarms > 10);
	/* Those of timer_create: the kernel lets go of the signal lock on the way to their handlers. */
	timer.it_interval.tv_usec = timer.it_value.tv_usec = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
	alarms = 0;
	struct itimerspec often = {{0, 100000}, {0, 100000}};
	timer_t id;
	CHECK(timer_create(CLOCK_MONOTONIC, NULL, &id) == 0);
	CHECK(timer_settime(id, 0, &often, NULL) == 0);
	convert_many("signals of a POSIX timer", 400, 1);
	CHECK(alarms > 10);
}

/* A child in the same memory that is no thread of ours. */
static void *slow_vfork(void *arg)
{
	pid_t child = vfork();
	if (child == 0) {
		struct timespec time = {0, 300000000};
		syscall(SYS_nanosleep, &time, NULL);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, NULL, 0) == child);
	return arg;
}

static int clone_body(void *arg)
{
	counters = arg;
	for (int i = 0; i < INCREMENTS; i++)
		__atomic_fetch_add(&counters->total, 1, __ATOMIC_RELAXED);
	return 0;
}

static void same_memory(void)
{
	pthread_t thread;
	start(&thread, slow_vfork, NULL);
	usleep(50000);
	convert_many("a vfork child", 5, 1);
	pthread_join(thread, NULL);

	void *page = anonymous(PAGE);
	char *stack = anonymous(16 * PAGE);
	pid_t child = clone(clone_body, stack + 16 * PAGE, CLONE_VM | SIGCHLD, page);
	CHECK(child > 0);
	while (__atomic_load_n((uint64_t *)page, __ATOMIC_RELAXED) == 0)
		sched_yield();
	CHECK(kfd(SHARE, page, PAGE, 1) == 1);
	CHECK(kfd(ADD, page, 8, 1000) == 0);
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(*(uint64_t *)page == INCREMENTS + 1000);
}

/* The first thread has ended, another one goes on. */
static void *after_main(void *arg)
{
	usleep(50000);
	unsigned char *at = anonymous(PAGE);
	fill(at, PAGE, 8);
	CHECK(kfd(SHARE, at, PAGE, 1) == 1);
	CHECK(is_filled(at, PAGE, 8) && sum_there(at, PAGE) == sum_here(at, PAGE));
	exit(0);
	return arg;
}

static void first_thread_ends(void)
{
	pthread_t thread;
	start(&thread, after_main, NULL);
	pthread_exit(NULL);
}

/* A call that does not let itself be interrupted for 6 s, and then is after all. */
static void stubborn(void)
{
	unsigned char *at = anonymous(PAGE);
	fill(at, PAGE, 3);
	CHECK(kfd(SHARE_OUT, at, PAGE, 100) == 0);
	CHECK(kfd(STUBBORN_WAIT, 0, 0, 6000) == 0);
	wait_out(EBUSY);
	CHECK(is_filled(at, PAGE, 3));
	CHECK(kfd(SHARE, at, PAGE, 1) == 1 && is_filled(at, PAGE, 3));
}

/* After fork the child has the same pages, and can share them itself. */
static void forked(void)
{
	uint64_t *page = anonymous(PAGE);
	*page = 41;
	CHECK(kfd(SHARE, page, PAGE, 1) == 1);
	pid_t child = fork();
	if (child == 0) {
		*page += 1;
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(*page == 42);
}

/* For tests that do something to the process from outside. */
static void serve_outside(void)
{
	pthread_t thread;
	start(&thread, sleeper, NULL);
	unsigned char *at = anonymous(256 << 20);
	memset(at, 1, 256 << 20);
	for (;;)
		CHECK(kfd(WAIT, at, 256 << 20, 0) == 0);
}

static void traced(void)
{
	unsigned char *at = anonymous(PAGE);
	fill(at, PAGE, 2);
	CHECK(kfd(WAIT, 0, 0, 0) == 0); /* the test attaches */
	CHECK(kfd(SHARE, at, PAGE, 1) == -1 && errno == EBUSY);
	CHECK(kfd(WAIT, 0, 0, 0) == 0); /* the test detaches */
	CHECK(kfd(SHARE, at, PAGE, 1) == 1 && is_filled(at, PAGE, 2));
}

/* Nothing is left: no descriptor that was not there before. */
static int open_descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) != -1;
	return count;
}

static void limits(void)
{
	int before = open_descriptors();
	unsigned char *at = anonymous(PAGE);
	fill(at, PAGE, 2);
	int lowest_free = dup(0);
	struct rlimit none = {(rlim_t)lowest_free, 1024};
	CHECK(close(lowest_free) == 0 && setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK(kfd(SHARE, at, PAGE, 1) == -1 && errno == ENOMEM);
	none.rlim_cur = 1024;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK(kfd(SHARE, at, PAGE, 1) == 1 && is_filled(at, PAGE, 2));
	CHECK(open_descriptors() == before);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
	    {"contents", contents}, {"stack_end", stack_end}, {"atomics", atomics},
	    {"many", many}, {"kinds", kinds}, {"copies", copies},
	    {"comers_and_goers", comers_and_goers}, {"waiters", waiters}, {"lonely_wait", lonely_wait},
	    {"borrowed", borrowed}, {"signals", signals}, {"same_memory", same_memory},
	    {"forked", forked}, {"serve_outside", serve_outside}, {"traced", traced},
	    {"limits", limits}, {"first_thread_ends", first_thread_ends}, {"stubborn", stubborn},
	};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hand_over_listener();
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (argc == 2 && strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run();
			return 0;
		}
	fprintf(stderr, "no such mode\n");
	return 2;
}
