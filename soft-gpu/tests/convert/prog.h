/* What the modes of prog.c have in common: their calls, and the hand-over of the listener. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define CHECK(cond)                                                                                    \
	do {                                                                                           \
		if (!(cond)) {                                                                         \
			fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #cond, errno);           \
			exit(1);                                                                       \
		}                                                                                      \
	} while (0)

struct call {
	uint64_t addr, len, value;
};
#define SHARE _IOWR('K', 1, struct call)    /* value: writable; returns the number of pieces */
#define ADD _IOWR('K', 2, struct call)      /* the test adds 1 to the word at addr, value times */
#define SUM _IOWR('K', 3, struct call)      /* value = sum of the bytes as the test sees them */
#define WAIT _IOWR('K', 4, struct call)     /* blocks until interrupted or woken */
#define WAKE _IOWR('K', 5, struct call)     /* wakes all waits; returns how many there were */
#define SHARE_OUT _IOWR('K', 6, struct call) /* shares on a thread of the test, after value ms */
#define RESULT _IOWR('K', 7, struct call)   /* result of the last SHARE_OUT, EAGAIN if not there yet */
#define PEEK _IOWR('K', 8, struct call)     /* reads len bytes at addr; with value, writes them back */
#define STUBBORN_WAIT _IOWR('K', 9, struct call) /* ends as interrupted once, after value ms */

static int kfd(unsigned long request, const void *addr, uint64_t len, uint64_t value)
{
	struct call call = {(uint64_t)addr, len, value};
	return ioctl(0, request, &call);
}

static uint64_t sum_there(const void *addr, uint64_t len)
{
	struct call call = {(uint64_t)addr, len, 0};
	CHECK(ioctl(0, SUM, &call) == 0);
	return call.value;
}

static uint64_t sum_here(const void *addr, uint64_t len)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < len; i++)
		sum += ((const volatile unsigned char *)addr)[i];
	return sum;
}

static void fill(void *addr, uint64_t len, unsigned seed)
{
	for (uint64_t i = 0; i < len; i++)
		((volatile unsigned char *)addr)[i] = (unsigned char)(i * 31 + i / 4096 + seed);
}

static int is_filled(const void *addr, uint64_t len, unsigned seed)
{
	const volatile unsigned char *bytes = addr;
	for (uint64_t i = 0; i < len; i++)
		if (bytes[i] != (unsigned char)(i * 31 + i / 4096 + seed))
			return 0;
	return 1;
}

static void *page_of(const void *addr)
{
	return (void *)((uint64_t)addr & ~(PAGE - 1));
}

static void *anonymous(uint64_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void wait_out(int expected)
{
	int result;
	while ((result = kfd(RESULT, 0, 0, 0)) != 0 && errno == EAGAIN)
		usleep(1000);
	int error = result == 0 ? 0 : errno;
	if (error != expected) {
		fprintf(stderr, "sharing outside of a call ended with %d, not %d\n", error, expected);
		exit(1);
	}
}

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	CHECK(pthread_create(thread, &attr, body, arg) == 0);
}

static void hand_over_listener(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff00),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'K' << 8, 4, 5),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MAP_TYPE | MAP_ANONYMOUS),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_SHARED, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	CHECK(listener >= 0);
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
	memcpy(CMSG_DATA(header), &listener, sizeof listener);
	CHECK(sendmsg(0, &message, 0) == 1);
	close(listener);
	close(0);
	CHECK(open("/dev/null", O_RDWR) == 0);
}
