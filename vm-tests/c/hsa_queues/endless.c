/* Kernels that never end, which hold up nothing. */
#include "hsa_queues.h"

void endless(void)
{
	uint32_t *words = allocate_host(4096);
	hsa_signal_t done = new_signal(1), none = { 0 };
	double before;

	submit(0, IN_ORDER, "spin", 16, 64, (struct arguments){ words, NULL, NULL, 0, 0 }, none);
	submit(1, IN_ORDER, "add", 1, 64, (struct arguments){ words + 16, NULL, NULL, 0, 1 }, done);
	wait_zero(done, "a queue beside an endless kernel");
	before = seconds_now();
	need(hsa_queue_destroy(queues[0]), "end of a queue");
	if (seconds_now() - before > AN_END)
		fail("the end of a queue took %.2f s", seconds_now() - before);
	say("a queue with an endless kernel ends");

	/* It runs when the process ends. */
	submit(1, IN_ORDER, "spin", 16, 64, (struct arguments){ words, NULL, NULL, 0, 0 }, none);
	usleep(100000);
	leave();
}
