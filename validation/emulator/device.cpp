/* The devices that the runtime reports: EMULATOR_DEVICES of them (environment, default 1), like an H100. Every process
 * has separate devices, unless EMULATOR_SHARED_DEVICE=1 gives all processes the same. EMULATOR_CONTEXT=0: no device can
 * be used, as if another process used them exclusively. EMULATOR_SMS: multiprocessors per device. EMULATOR_SHARED_KIB:
 * shared memory per thread block. */
#include "inside.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace emulator
{

static int current;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* Returns the largest shared memory of a thread block in bytes. */
static int shared_memory() { return number("EMULATOR_SHARED_KIB", 227) << 10; }

static int devices() { return number("EMULATOR_DEVICES", 1); }
bool has_device() { return devices() > 0; }

/* Returns a number that distinguishes the devices of processes; 0 if they share them. */
static unsigned owner() { return number("EMULATOR_SHARED_DEVICE", 0) ? 0 : unsigned(getpid()); }

static cudaUUID_t identity_of(int device)
{
    cudaUUID_t id = {};
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    uint64_t low = (owner() + 1u) * 0x9E3779B97F4A7C15u, high = 0xE101A70Bu + unsigned(device);
    for (const char *c = host; *c; c++) high = high * 0x100000001B3u ^ uint64_t(*c);
    memcpy(id.bytes, &low, 8);
    memcpy(id.bytes + 8, &high, 8);
    return id;
}

static int attribute_of(enum cudaDeviceAttr attribute)
{
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return shared_memory();
    }
    emulator_fail("cudaDeviceGetAttribute: attribute %d is not emulated", int(attribute));
}

} // namespace emulator

using namespace emulator;

bool emulator_idle()
{
    static const bool idle = number("EMULATOR_IDLE", 0) != 0;
    return idle;
}

int emulator_multiprocessors(void)
{
    static const int count = number("EMULATOR_SMS", 132);
    return count;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices();
    return *count > 0 ? cudaSuccess : emulator_last_error(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    EMULATOR_CALL();
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    EMULATOR_CALL();
    if (device < 0 || device >= devices()) return emulator_last_error(cudaErrorInvalidDevice);
    if (!number("EMULATOR_CONTEXT", 1)) return emulator_last_error(cudaErrorDevicesUnavailable);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    EMULATOR_CALL();
    if (device < 0 || device >= devices()) return emulator_last_error(cudaErrorInvalidDevice);
    *value = attribute_of(attribute);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    EMULATOR_CALL();
    if (device < 0 || device >= devices()) return emulator_last_error(cudaErrorInvalidDevice);
    *p = cudaDeviceProp();
    size_t unused;
    cudaMemGetInfo(&unused, &p->totalGlobalMem);
    snprintf(p->name, sizeof p->name, "Emulated H100");
    p->uuid = identity_of(device);
    p->sharedMemPerBlockOptin = size_t(shared_memory());
    p->major = 9;
    p->multiProcessorCount = emulator_multiprocessors();
    p->ECCEnabled = 1;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = has_device() ? CUDART_VERSION : 0;
    return cudaSuccess;
}
