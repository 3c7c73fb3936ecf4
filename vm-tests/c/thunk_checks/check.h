/* What every part of the program uses: one line per check, `id value`. */
#ifndef KFDVIRT_THUNK_CHECKS_CHECK_H
#define KFDVIRT_THUNK_CHECKS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <hsakmt.h>

/* Prints one line. `id` and the value have no blanks. */
void check_u64(const char *id, uint64_t value);
void check_hex(const char *id, uint64_t value);
void check_str(const char *id, const char *value);
/* A condition: `yes` or `no`. For values that differ from machine to machine a relation is checked. */
void check_true(const char *id, bool value);
/* A thunk status, by its name without the prefix. */
void check_status(const char *id, HSAKMT_STATUS status);

/* The first node with a GPU, or -1; the number of nodes. Set by `topology_checks`. */
extern int gpu_node;
extern unsigned node_count;

/* Milliseconds of a clock that does not jump. */
uint64_t now_ms(void);

/* The parts. These need no GPU, and print the same with one: */
void open_checks_before(void);
void open_checks_after(void);
void topology_checks(void);
void event_checks(void);
void memory_checks(void);
void misc_checks(void);
void fork_checks(void);
/* These need one: */
void topology_gpu_checks(void);
void event_gpu_checks(void);
void memory_gpu_checks(void);
void register_checks(void);
void increment_checks(void);
void queue_checks(void);
void aql_checks(void);
void sdma_checks(void);
void shared_checks(void);
void svm_checks(void);
void misc_gpu_checks(void);
void fork_gpu_checks(void);
/* This needs two of them, and stands for itself. False if there are not. */
bool two_gpu_checks(void);

#endif
