/* Kernels that wait for others: clang's builtins alone. All of them take the same arguments, and all atomic operations are of system
 * scope, for other queues, processes and the CPU. */
#define RELAXED __ATOMIC_RELAXED
#define SYSTEM __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES
#define FIRST (__builtin_amdgcn_workgroup_id_x() == 0 && __builtin_amdgcn_workitem_id_x() == 0)

static unsigned seen(global atomic_uint *word)
{
	return __opencl_atomic_load(word, __ATOMIC_ACQUIRE, SYSTEM);
}

static void set(global atomic_uint *word, unsigned value)
{
	__opencl_atomic_store(word, value, __ATOMIC_RELEASE, SYSTEM);
}

/* Every item adds 1, `count` times. */
kernel void add(global atomic_uint *word, global atomic_long *value, global unsigned *list, unsigned at, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		__opencl_atomic_fetch_add(word, 1, RELAXED, SYSTEM);
}

/* Waits until the word is `at`, notes it, and lets the next one go on. The list is not atomic: it is whole only if the word orders it. */
kernel void take_turn(global atomic_uint *word, global atomic_long *value, global unsigned *list, unsigned at, unsigned count)
{
	if (!FIRST)
		return;
	while (seen(word) != at)
		__builtin_amdgcn_s_sleep(1);
	list[at] = at ? list[at - 1] * 3 + at : 1;
	set(word, at + 1);
}

/* Waits until a signal's value is 0, then adds to the word. */
kernel void await(global atomic_uint *word, global atomic_long *value, global unsigned *list, unsigned at, unsigned count)
{
	if (!FIRST)
		return;
	while (__opencl_atomic_load(value, __ATOMIC_ACQUIRE, SYSTEM) != 0)
		__builtin_amdgcn_s_sleep(1);
	__opencl_atomic_fetch_add(word, 1, __ATOMIC_RELEASE, SYSTEM);
}

/* Notes what the word is. */
kernel void note(global atomic_uint *word, global atomic_long *value, global unsigned *list, unsigned at, unsigned count)
{
	if (FIRST)
		list[at] = seen(word);
}

/* Whenever the CPU has made the word odd, makes it the next even number. */
kernel void answer(global atomic_uint *word, global atomic_long *value, global unsigned *list, unsigned at, unsigned count)
{
	if (!FIRST)
		return;
	for (unsigned i = 0; i < count; i++) {
		while (seen(word) != 2 * i + 1)
			__builtin_amdgcn_s_sleep(1);
		list[0] += list[1];
		set(word, 2 * i + 2);
	}
}

/* Copies words. */
kernel void copy(global atomic_uint *word, global atomic_long *value, global unsigned *list, unsigned at, unsigned count)
{
	for (unsigned i = __builtin_amdgcn_workitem_id_x(); i < count; i += 64)
		list[i] = ((global unsigned *)word)[i];
}

/* Never ends while the word is 0. */
kernel void spin(global atomic_uint *word, global atomic_long *value, global unsigned *list, unsigned at, unsigned count)
{
	while (seen(word) == 0)
		;
}
