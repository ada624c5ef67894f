/* Device and pinned memory: the live allocations, and who may access them now. The sanitizer's heap holds both, to find
 * overruns and uses after free. Device memory starts as NaN and is poisoned while the host program runs. */
#include "inside.h"
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>

namespace emulator
{

enum { CUDA_ALIGNMENT = 256 };
static const char *const gigabytes = getenv("EMULATOR_GIGABYTES");
static const size_t device_bytes = size_t(gigabytes ? atoi(gigabytes) : 80) << 30;
typedef std::map<uintptr_t, size_t> allocations; /* first byte, bytes */
static allocations device, pinned;
static size_t device_used;
static bool locked = true;

static bool contains(const allocations &all, const void *p, size_t bytes)
{
    uintptr_t at = reinterpret_cast<uintptr_t>(p);
    auto next = all.upper_bound(at);
    if (next == all.begin()) return false;
    auto found = std::prev(next);
    return at - found->first <= found->second && bytes <= found->second - (at - found->first);
}

bool in_device(const void *p, size_t bytes) { return contains(device, p, bytes); }
bool in_pinned(const void *p, size_t bytes) { return contains(pinned, p, bytes); }

void memory_unlock()
{
    if (!locked || emulator_idle()) return;
    for (auto &x : device) __asan_unpoison_memory_region(reinterpret_cast<void *>(x.first), x.second);
    locked = false;
}

void memory_lock()
{
    if (locked || emulator_idle()) return;
    for (auto &x : device) __asan_poison_memory_region(reinterpret_cast<void *>(x.first), x.second);
    locked = true;
}

/* Reserves memory without backing: the largest operands of a real case exceed this machine's memory. */
static void *reserve(size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    device[reinterpret_cast<uintptr_t>(memory)] = bytes;
    return memory;
}

static void *take(allocations &all, size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, CUDA_ALIGNMENT, bytes) != 0) return NULL;
    all[reinterpret_cast<uintptr_t>(memory)] = bytes;
    return memory;
}

static size_t give_back(allocations &all, void *memory, const char *call)
{
    auto found = all.find(reinterpret_cast<uintptr_t>(memory));
    if (found == all.end()) emulator_fail("%s: %p is no live allocation of that kind", call, memory);
    size_t bytes = found->second;
    all.erase(found);
    if (&all == &device && emulator_idle()) {
        munmap(memory, bytes);
        return bytes;
    }
    __asan_unpoison_memory_region(memory, bytes);
    free(memory);
    return bytes;
}

} // namespace emulator

using namespace emulator;

void emulator_range(const void *p, size_t bytes, const char *what)
{
    if (!in_device(p, bytes))
        emulator_fail("%s: %zu bytes at %p do not lie in one live device allocation", what, bytes, p);
}

void emulator_reach(const void *p, size_t bytes, const char *what)
{
    if (!in_device(p, bytes) && !in_pinned(p, bytes))
        emulator_fail("%s: %zu bytes at %p lie in no live allocation that the device can reach", what, bytes, p);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    EMULATOR_CALL();
    synchronizing(__func__);
    *memory = NULL;
    if (bytes == 0) return cudaSuccess;
    if (bytes > device_bytes - device_used) return emulator_last_error(cudaErrorMemoryAllocation);
    *memory = emulator_idle() ? reserve(bytes) : take(device, bytes);
    if (!*memory) return emulator_last_error(cudaErrorMemoryAllocation);
    device_used += bytes;
    if (emulator_idle()) return cudaSuccess;
    memset(*memory, 0xFF, bytes);
    if (locked) __asan_poison_memory_region(*memory, bytes);
    return cudaSuccess;
}

/* Frees at once: finds queued work that still uses the memory, where CUDA would wait for that work. */
cudaError_t cudaFree(void *memory)
{
    EMULATOR_CALL();
    synchronizing(__func__);
    if (memory) device_used -= give_back(device, memory, __func__);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    EMULATOR_CALL();
    synchronizing(__func__);
    *memory = bytes ? take(pinned, bytes) : NULL;
    return bytes && !*memory ? emulator_last_error(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    EMULATOR_CALL();
    synchronizing(__func__);
    if (memory) give_back(pinned, memory, __func__);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    EMULATOR_CALL();
    synchronizing(__func__); /* it takes as long as a wait */
    *total = device_bytes;
    *unused = device_bytes - device_used;
    return cudaSuccess;
}

void emulator_hold(long long bytes) { device_used += static_cast<size_t>(bytes); }
