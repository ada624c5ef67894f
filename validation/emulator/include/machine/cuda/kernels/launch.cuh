/* In place of src/machine/cuda/kernels/launch.cuh: the same macros. A launch copies the arguments and is queued; the
 * emulator checks its limits and runs every thread later. */
#pragma once
#include "emulator_device.h"
#include "machine/cuda/device/call.h"
#include <tuple>

enum { WARP = 32 };

#define KERNEL(threads) __global__ __launch_bounds__(threads) void

#define SHARED(type, name) type &name = *static_cast<type *>(emulator_shared(sizeof(type), #type " " #name))

/* Pointers among the arguments must be a device's; a kernel cannot follow others. */
template <typename type> static inline void emulator_argument(const char *, const type &) {}
template <typename type> static inline void emulator_argument(const char *name, type *const &p)
{
    if (p) emulator_reach(p, 1, name);
}
static inline void emulator_argument(const char *name, const tensor &t)
{
    if (t.data) emulator_reach(t.data, 1, name);
}

template <typename... formal> struct emulator_call {
    void (*kernel)(formal...);
    std::tuple<std::remove_const_t<formal>...> given;
    static void run(void *me)
    {
        emulator_call *c = static_cast<emulator_call *>(me);
        std::apply(c->kernel, c->given);
    }
    static void release(void *me) { delete static_cast<emulator_call *>(me); }
};

template <typename... formal, typename... actual>
static void launch(const char *name, void (*kernel)(formal...), dim3 grid, int block, size_t shared,
                   cudaStream_t stream, actual... given)
{
    const void *address = reinterpret_cast<const void *>(kernel);
    cuda_allow_shared(address, shared, name);
    emulator_call<formal...> *call = new emulator_call<formal...>{ kernel, { static_cast<formal>(given)... } };
    std::apply([&](const auto &...argument) { (emulator_argument(name, argument), ...); }, call->given);
    emulator_launch_plan plan = { name,
                                  address,
                                  grid,
                                  dim3((unsigned)block),
                                  shared,
                                  (size_t(0) + ... + sizeof(formal)),
                                  emulator_call<formal...>::run,
                                  call,
                                  emulator_call<formal...>::release };
    emulator_launch(&plan, stream);
    cuda_check(cudaGetLastError(), name, __FILE__, __LINE__);
}

#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    launch(#kernel " of " __FILE__, kernel, grid, block, shared, stream, __VA_ARGS__)
