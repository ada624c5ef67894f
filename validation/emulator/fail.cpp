/* Failures, random numbers, counts, and the names of CUDA's error codes. */
#include "inside.h"
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace emulator
{

emulator_counts counts;
bool running;
static bool in_step;
static cudaError_t last_error;

void enter(const char *call)
{
    if (running) emulator_fail("%s: called by work that the device runs", call);
}

void synchronizing(const char *call)
{
    counts.synchronizations++;
    if (in_step) emulator_fail("%s: the host waits for the device inside a step", call);
}

/* Returns a hash that is never 0. */
static uint64_t mixed(uint64_t x, uint64_t with)
{
    x = (x ^ with) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    return x ? x : 1;
}

/* Combines the seed with the rank, so that ranks differ. */
static uint64_t seed()
{
    uint64_t x = 1;
    const char *names[] = { "EMULATOR_SEED", "OMPI_COMM_WORLD_RANK", "PMI_RANK" };
    for (const char *name : names) {
        const char *text = getenv(name);
        x = mixed(x, text ? strtoull(text, NULL, 10) + 1 : 0);
    }
    return x;
}

uint64_t random_state = seed();

} // namespace emulator

using namespace emulator;

unsigned emulator_random(unsigned n) { return draw(n); }
void emulator_seed(unsigned long long seed) { random_state = mixed(1, seed); }
void emulator_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("emulator: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    signal(SIGABRT, SIG_DFL); /* MPI's handler prints too much */
    abort();
}

void emulator_step_begin(void) { in_step = true; }
void emulator_step_end(void) { in_step = false; }
emulator_counts emulator_counted(void) { return counts; }

cudaError_t emulator_last_error(cudaError_t code)
{
    if (code != cudaSuccess) last_error = code;
    return code;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last_error;
    last_error = cudaSuccess;
    return code;
}

#define WORDS(X)                                                                                                       \
    X(cudaSuccess, "no error")                                                                                         \
    X(cudaErrorInvalidValue, "invalid argument")                                                                       \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                      \
    X(cudaErrorInvalidPitchValue, "invalid pitch argument")                                                            \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")                     \
    X(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable")                                \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")                                                       \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                         \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                                \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                       \
    X(cudaErrorNotReady, "device not ready")                                                                           \
    X(cudaErrorUnknown, "unknown error")
/* clang-format off */
#define NAME_CASE(code, words) case code: return #code;
#define WORDS_CASE(code, words) case code: return words;
/* clang-format on */

const char *cudaGetErrorName(cudaError_t code)
{
    switch (code) {
        WORDS(NAME_CASE)
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t code)
{
    switch (code) {
        WORDS(WORDS_CASE)
    }
    return "unrecognized error code";
}
