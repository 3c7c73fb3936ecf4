/* What the parts of this program share: one GPU, four queues, memory, kernels by name, and the other process. */
#ifndef HSA_QUEUES_H
#define HSA_QUEUES_H

#include "hsa_code.h"

enum { QUEUES = 4 };

/* Seconds that the end of a queue or of a process may take while its kernels run for ever. */
static const double AN_END = 1;

/* The arguments of all kernels of kernels/queues.cl. */
struct arguments {
	volatile uint32_t *word;
	volatile void *value;
	volatile uint32_t *list;
	uint32_t at, count;
};

/* Whether a packet waits for those before it in its queue: the barrier bit of its header. */
enum { IN_ORDER = 1 << 8, IN_ANY_ORDER = 0 };

extern hsa_agent_t gpu;
extern hsa_pool_t host_pool, local_pool;
extern hsa_queue_t *queues[QUEUES];
/* Whether this process prints what is right: one of two, and once. */
extern bool prints;

void open_gpu(const char *code_object);
void open_queues(void);
void close_queues(void);

/* Memory that GPU and CPU see, zeroed, and memory of the GPU, which is not; ends the program if there is none. */
void *allocate_host(size_t bytes);
void *allocate_local(size_t bytes);

/* Puts a kernel into a queue, whose arguments stay where they are until `reuse_arguments`. */
void submit(int queue, int order, const char *kernel, uint32_t groups, uint32_t items, struct arguments,
	    hsa_signal_t completion);
void reuse_arguments(void);

/* A barrier packet for up to five signals; type is HSA_PACKET_BARRIER_AND or HSA_PACKET_BARRIER_OR. */
void submit_barrier(int queue, int type, int count, const hsa_signal_t *signals, hsa_signal_t completion);

hsa_signal_t new_signal(int64_t value);
/* Where kernels find a signal's value: amd_signal_t of AMD's public amd_hsa_signal.h. */
volatile void *value_of(hsa_signal_t signal);
/* Waits until the signal is 0; ends the program after a minute. */
void wait_zero(hsa_signal_t signal, const char *what);
void wait_word(volatile uint32_t *word, uint32_t value, const char *what);

void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The other process, if there are two. */
void fork_peer(bool two);
bool has_peer(void);
int which_process(void);
/* Returns when both processes are there. */
void meet(const char *where);
/* The first process gives, the second takes. */
void *share_local(void *memory, size_t bytes);
/* Ends this process, which is the second one, without ending its queues. */
void leave(void) __attribute__((noreturn));
/* Waits for the end of the second process, which must be a good one; returns the seconds since it left. */
double end_peer(void);

/* The parts. Each ends the program if something is not right. */
void turns(void);
void barriers(void);
void many(uint32_t dispatches);
void host_memory(void);
void endless(void) __attribute__((noreturn));

#endif
