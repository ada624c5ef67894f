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
static int pci_domain() { return int(owner() & 0xFFFFu); }
static int pci_bus() { return int(owner() >> 16 & 0xFFu); }

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

static int attribute_of(enum cudaDeviceAttr attribute, int device)
{
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 48 << 10;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrClockRate: return 1980000;
    case cudaDevAttrMultiProcessorCount: return emulator_multiprocessors();
    case cudaDevAttrIntegrated: return 0;
    case cudaDevAttrComputeMode: return 0;
    case cudaDevAttrEccEnabled: return 1;
    case cudaDevAttrPciBusId: return pci_bus();
    case cudaDevAttrPciDeviceId: return device;
    case cudaDevAttrMemoryClockRate: return 2619000;
    case cudaDevAttrGlobalMemoryBusWidth: return 5120;
    case cudaDevAttrL2CacheSize: return 50 << 20;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrPciDomainId: return pci_domain();
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 228 << 10;
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

cudaError_t cudaInitDevice(int device, unsigned deviceFlags, unsigned flags)
{
    (void)deviceFlags;
    (void)flags;
    return cudaSetDevice(device);
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    EMULATOR_CALL();
    (void)flags;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    EMULATOR_CALL();
    if (device < 0 || device >= devices()) return emulator_last_error(cudaErrorInvalidDevice);
    *value = attribute_of(attribute, device);
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
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->sharedMemPerBlockOptin = size_t(shared_memory());
    p->reservedSharedMemPerBlock = 1 << 10;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7FFFFFFF;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = 9;
    p->multiProcessorCount = emulator_multiprocessors();
    p->maxThreadsPerMultiProcessor = 2048;
    p->ECCEnabled = p->unifiedAddressing = p->concurrentKernels = 1;
    p->pciBusID = pci_bus();
    p->pciDeviceID = device;
    p->pciDomainID = pci_domain();
    p->memoryBusWidth = 5120;
    p->l2CacheSize = 50 << 20;
    p->asyncEngineCount = 3;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    EMULATOR_CALL();
    if (device < 0 || device >= devices()) return emulator_last_error(cudaErrorInvalidDevice);
    snprintf(text, size_t(length), "%04x:%02x:%02x.0", pci_domain(), pci_bus(), device);
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    EMULATOR_CALL();
    return cudaDeviceSynchronize();
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
