/* What the parts of hip_kernels share: calls that must succeed, and the line of a table that a check prints. */
#pragma once

#include <hip/hip_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/* Ends the program with a failure's name where a call of HIP fails. */
#define HIP(call) must((call), #call)

inline void must(hipError_t status, const char *call)
{
	if (status == hipSuccess)
		return;
	printf("FAILED: %s: %s\n", call, hipGetErrorString(status));
	fflush(stdout);
	_Exit(1);
}

/* How many values were wrong, of all checks. */
extern size_t total_wrong;

/* One check: its time runs from here to `line`, less what `checking` takes out. */
class Check {
	const char *name;
	std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
	double milliseconds = -1;
	size_t checked = 0, wrong = 0;

public:
	explicit Check(const char *name) : name(name) {}

	/* The GPU's part is over; what follows is the CPU's. */
	void computed()
	{
		milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
	}

	void value(bool right)
	{
		checked++;
		wrong += !right;
	}

	~Check()
	{
		char verdict[40] = "OK";

		if (wrong || !checked)
			snprintf(verdict, sizeof verdict, "WRONG %zu", wrong);
		printf("%-28s %10zu values  %-12s %9.1f ms\n", name, checked, verdict, milliseconds);
		fflush(stdout);
		total_wrong += wrong + !checked;
	}
};

/* Memory of the GPU that is freed with the value. */
template <typename T> class Device {
	T *memory = nullptr;
	size_t count;

public:
	explicit Device(size_t count) : count(count) { HIP(hipMalloc(reinterpret_cast<void **>(&memory), count * sizeof(T))); }
	explicit Device(const std::vector<T> &values) : Device(values.size()) { from(values.data()); }
	Device(const Device &) = delete;
	~Device() { HIP(hipFree(memory)); }

	operator T *() const { return memory; }

	void from(const T *values) { HIP(hipMemcpy(memory, values, count * sizeof(T), hipMemcpyHostToDevice)); }

	std::vector<T> values() const
	{
		std::vector<T> values(count);

		HIP(hipMemcpy(values.data(), memory, count * sizeof(T), hipMemcpyDeviceToHost));
		return values;
	}
};

inline uint32_t mixed(uint32_t number)
{
	number = (number ^ number >> 16) * 0x7feb352du;
	number = (number ^ number >> 15) * 0x846ca68bu;
	return number ^ number >> 16;
}

/* Multiples of 1/8 from -4 to 4: sums of some thousand products of them are exact in 32 bits, in any order. */
inline std::vector<float> eighths(size_t count, uint32_t seed)
{
	std::vector<float> values(count);

	for (size_t i = 0; i < count; i++)
		values[i] = (static_cast<int>(mixed(static_cast<uint32_t>(i) * 2 + seed) % 65) - 32) / 8.0f;
	return values;
}

/* How large the checks are. */
struct Sizes {
	int elements, side;
};

void check_elementwise(Sizes sizes);
void check_shared(Sizes sizes);
void check_matrices(Sizes sizes);
void check_copies();
