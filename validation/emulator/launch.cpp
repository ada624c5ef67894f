/* Launches a kernel within the limits of Hopper and of the kernel. A launch beyond them ends the program with the
 * kernel's name. */
#include "inside.h"
#include <map>

extern "C" {
/* Begin and end of the compiler's list of patched function entries, with the address of each entry's first nop. */
extern const uintptr_t __start___patchable_function_entries[] __attribute__((weak));
extern const uintptr_t __stop___patchable_function_entries[] __attribute__((weak));
}

namespace emulator
{

enum {
    LARGEST_BLOCK = 1024,
    LARGEST_GRID_YZ = 65535,
    LARGEST_SHARED = 227 << 10,
    USUAL_SHARED = 48 << 10,
    LARGEST_ARGUMENTS = 4096
};
static const unsigned largest_grid_x = 0x7FFFFFFF;

static std::map<const void *, size_t> shared_allowed;

static void check_shape(const emulator_launch_plan &p)
{
    const char *name = p.name;
    if (p.block.y != 1 || p.block.z != 1 || p.block.x == 0 || p.block.x % 32 != 0)
        emulator_fail("kernel %s: a block of %u x %u x %u threads is not 32n x 1 x 1", name, p.block.x, p.block.y,
                      p.block.z);
    int bound = emulator_kernel_bound(p.kernel);
    if (bound == 0) emulator_fail("kernel %s was not declared by KERNEL", name);
    if (p.block.x > LARGEST_BLOCK || p.block.x > unsigned(bound))
        emulator_fail("kernel %s: launched with blocks of %u threads, it takes %d", name, p.block.x, bound);
    if (p.grid.x == 0 || p.grid.y == 0 || p.grid.z == 0 || p.grid.x > largest_grid_x || p.grid.y > LARGEST_GRID_YZ ||
        p.grid.z > LARGEST_GRID_YZ)
        emulator_fail("kernel %s: a grid of %u x %u x %u blocks", name, p.grid.x, p.grid.y, p.grid.z);
}

static void check_bytes(const emulator_launch_plan &p)
{
    auto found = shared_allowed.find(p.kernel);
    size_t allowed = found == shared_allowed.end() ? size_t(USUAL_SHARED) : found->second;
    if (p.shared > LARGEST_SHARED || (p.shared > USUAL_SHARED && p.shared > allowed))
        emulator_fail("kernel %s: %zu bytes of shared memory, allowed are %zu", p.name, p.shared, allowed);
    if (p.argument_bytes > LARGEST_ARGUMENTS)
        emulator_fail("kernel %s: %zu bytes of arguments", p.name, p.argument_bytes);
}

static void run_plan(void *data)
{
    if (!emulator_idle()) grid_run(*static_cast<emulator_launch_plan *>(data));
}

static void release_plan(void *data)
{
    emulator_launch_plan *p = static_cast<emulator_launch_plan *>(data);
    if (p->release) p->release(p->arguments);
    delete p;
}

} // namespace emulator

using namespace emulator;

/* KERNEL puts one nop for each warp of the bound before the entry. */
int emulator_kernel_bound(const void *kernel)
{
    uintptr_t at = reinterpret_cast<uintptr_t>(kernel);
    for (const uintptr_t *e = __start___patchable_function_entries; e < __stop___patchable_function_entries; e++)
        if (*e < at && at - *e <= LARGEST_BLOCK / 32) return int(at - *e) * 32;
    return 0;
}

void emulator_launch(const emulator_launch_plan *plan, cudaStream_t s)
{
    enter(plan->name);
    stream_check(s, plan->name);
    check_shape(*plan);
    check_bytes(*plan);
    counts.launches++;
    emulator_enqueue(s, plan->name, run_plan, new emulator_launch_plan(*plan), release_plan);
    emulator_occupy(s, 1);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    EMULATOR_CALL();
    if (!emulator_kernel_bound(kernel)) return emulator_last_error(cudaErrorInvalidDeviceFunction);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || value > LARGEST_SHARED) return emulator_last_error(cudaErrorInvalidValue);
    shared_allowed[kernel] = size_t(value);
    return cudaSuccess;
}
