#ifndef HSA_COPY_H
#define HSA_COPY_H

#include "hsa_calls.h"

/* Time-outs only end a run that hangs: the HSA clock ticks once a nanosecond. */
#define TICKS_TO_WAIT 120000000000ull

/* What `writes` writes into each byte. */
#define WRITTEN 0x5a

struct machine {
	hsa_agent_t cpu;
	/* One GPU twice where there is no second. */
	hsa_agent_t gpu, peer;
	/* Those of `cpu`, `gpu` and `peer` that programs allocate from. */
	hsa_pool_t cpu_pool, gpu_pool, peer_pool;
	char cpu_name[64], gpu_name[64];
};

/* Finds the agents and their pools, and says them if `print`. */
void find_machine(struct machine *, bool print);
/* Memory of a pool that these agents may use. */
void *allocate(hsa_pool_t, size_t bytes, const hsa_agent_t *users, uint32_t count);

/* A place for copies that one thread uses. */
struct copier {
	const struct machine *machine;
	/* `capacity` bytes and guards around: two in host memory, two in GPU memory. */
	uint8_t *from, *back, *first, *second;
	size_t capacity;
	hsa_signal_t signals[3];
};

/* Where in its buffers a copy lies. */
struct place {
	size_t from, first, second, back;
};

/* How long each of the three hops took, in seconds. */
struct hops {
	double up, across, down;
};

void copier_open(struct copier *, const struct machine *, size_t capacity, uint64_t seed);
void copier_close(struct copier *);
/* Copies from the host to the GPU, within or between GPUs, and back, and checks every byte and the bytes around. Where
 * `chained` the copies are submitted at once and wait for each other on the GPU; then only `down` is set. */
struct hops copy_and_check(struct copier *, size_t bytes, struct place, bool chained);

void copies(const struct machine *);
void barriers(hsa_queue_t *);
void waits(hsa_queue_t *);
/* Threads that allocate, copy, wait and free until the time is over. */
void stress(const struct machine *, int seconds, int threads);
/* Threads that wait for a signal each, woken in random order. */
void many_waits(int threads);
/* Copies and barriers without end, and a thread that sleeps in a wait that nobody ends. */
void endless(const struct machine *);
/* The GPU writes to host memory without end. */
void writes(const struct machine *);

double seconds_now(void);
/* CPU time of the calling thread. */
double cpu_seconds(void);
int64_t sleep_until_done(hsa_signal_t);
hsa_queue_t *open_queue(const struct machine *, uint32_t packets);
void close_queue(hsa_queue_t *);
/* A barrier packet, whose first word comes last: its type, what it waits for, and what it completes. */
void submit_barrier(hsa_queue_t *, int type, const hsa_signal_t *deps, int count, hsa_signal_t completion);
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
