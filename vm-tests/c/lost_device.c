/* A program whose device is taken away: one thread sleeps in a wait, the other makes calls. It prints what each of them
 * was told, and how long after the last call that worked. */
#include <hsakmt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "thunk_status.h"

/* Calls end at the latest after so many: nobody took the device away. */
#define CALLS 6000

static HsaEvent *event;
static HSAKMT_STATUS waited;
static volatile uint64_t waited_at;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static const char *name(HSAKMT_STATUS status)
{
	const char *known = thunk_status_name(status);

	return known ? known : "UNKNOWN";
}

static void *sleep_in_a_wait(void *data)
{
	(void)data;
	waited = hsaKmtWaitOnEvent(event, 0xffffffff);
	waited_at = now_ms();
	return NULL;
}

int main(void)
{
	HsaEventDescriptor descriptor = { .EventType = HSA_EVENTTYPE_SIGNAL };
	HsaSystemProperties system;
	HsaClockCounters counters;
	HSAKMT_STATUS status = HSAKMT_STATUS_SUCCESS;
	uint64_t worked_at = 0;
	pthread_t sleeper;

	setvbuf(stdout, NULL, _IOLBF, 0);
	need(hsaKmtOpenKFD(), "hsaKmtOpenKFD");
	need(hsaKmtAcquireSystemProperties(&system), "hsaKmtAcquireSystemProperties");
	need(hsaKmtCreateEvent(&descriptor, false, false, &event), "hsaKmtCreateEvent");
	if (pthread_create(&sleeper, NULL, sleep_in_a_wait, NULL))
		return 1;
	/* Time to fall asleep. */
	usleep(200000);
	for (int i = 0; i < CALLS && status == HSAKMT_STATUS_SUCCESS; i++) {
		/* Of the last node: a GPU. */
		status = hsaKmtGetClockCounters(system.NumNodes - 1, &counters);
		if (status == HSAKMT_STATUS_SUCCESS)
			worked_at = now_ms();
		if (i == 0)
			printf("ready\n");
		usleep(20000);
	}
	printf("call %s\ncall-ms %" PRIu64 "\n", name(status), now_ms() - worked_at);
	pthread_join(sleeper, NULL);
	printf("wait %s\nwait-ms %" PRIu64 "\n", name(waited), waited_at - worked_at);
	printf("after %s\n", name(hsaKmtSetEvent(event)));
	printf("end\n");
	return 0;
}
