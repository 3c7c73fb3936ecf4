/* What the parts of vm_bench have in common. */
#ifndef KFDVIRT_VM_BENCH_H
#define KFDVIRT_VM_BENCH_H

#include <stdbool.h>
#include <stdint.h>

/* Microseconds on the monotonic clock. */
double now_us(void);

/* The baseline: what the guest's driver and the device cost without our library. */

/* A context of its own on a render node. Ends the program if it cannot be had. */
void raw_open(const char *node);
/* An EXECBUFFER with a fence that the worker completes at once, and poll until it has signalled. */
void raw_fence(void);
/* A call area's smallest call, one that no worker knows: an EXECBUFFER without fence wakes the worker, whose answer is looked for
 * without pause. */
void raw_spin(void);

#endif
