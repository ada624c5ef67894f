/* This rank's GPU, and the checks of CUDA calls. The choice of the GPU is process state, like CUDA's current device. */
#include "machine/cuda/device/device.h"
#include "base/fail.h"
#include "machine/cuda/device/architectures.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/device/libraries.h"
#include "machine/cuda/device/nvml.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* FP8_CAPABILITY: 8.9 (Ada), the first compute capability whose tensor cores multiply FP8. */
enum { WHY = 400, FP8_CAPABILITY = 89 };
/* Bytes of shared memory that every kernel can use without cudaFuncSetAttribute. */
enum { ALWAYS_ALLOWED = 48 << 10 };

static struct {
    bool chosen;
    int index;
    size_t shared_bytes; /* of one thread block */
    machine_device device;
} gpu;

void cuda_check(cudaError_t code, const char *call, const char *file, int line)
{
    char where[96] = "no GPU chosen";
    if (code == cudaSuccess) return;
    if (gpu.chosen) snprintf(where, sizeof where, "GPU %d, %s", gpu.index, gpu.device.name);
    fail_at(file, line, STATUS_FAILED, "%s: %s, %s (%s)", call, cudaGetErrorName(code), cudaGetErrorString(code),
            where);
}

static void write_version(char *text, size_t length, int version)
{
    snprintf(text, length, "%d.%d", version / 1000, version % 1000 / 10);
}

static void explain_no_device(cudaError_t code, char *why, size_t length)
{
    int driver = 0;
    char supported[16], needed[16];
    cudaDriverGetVersion(&driver);
    write_version(supported, sizeof supported, driver);
    write_version(needed, sizeof needed, CUDART_VERSION);
    if (code == cudaErrorNoDevice || code == cudaSuccess) snprintf(why, length, "no GPU is visible to this process");
    else if (driver == 0) snprintf(why, length, "no NVIDIA driver");
    else if (code == cudaErrorInsufficientDriver)
        snprintf(why, length, "the NVIDIA driver knows CUDA %s, this build needs %s", supported, needed);
    else snprintf(why, length, "CUDA finds no GPU: %s, %s", cudaGetErrorName(code), cudaGetErrorString(code));
}

static int visible_devices(char *why, size_t length)
{
    int devices = 0;
    cudaError_t code = cudaGetDeviceCount(&devices);
    if (code == cudaSuccess && devices > 0) return devices;
    explain_no_device(code, why, length);
    cudaGetLastError();
    return 0;
}

/* Binary code also runs on later minor versions: 8.0 on 8.6. Code for 90a runs on 9.0 only, but there is no 9.1. The
 * driver compiles PTX for all later GPUs. */
static bool has_code_for(int major, int minor)
{
    const int *list;
    int count = cuda_architectures(&list), ptx = cuda_ptx();
    if (ptx && 100 * major + 10 * minor >= ptx) return true;
    for (int i = 0; i < count; i++)
        if (list[i] / 100 == major && list[i] % 100 / 10 <= minor) return true;
    return false;
}

const char *cuda_code_text(char *text, size_t length)
{
    const int *list;
    int count = cuda_architectures(&list), ptx = cuda_ptx();
    size_t used = 0;
    for (int i = 0; i < count; i++)
        if (list[i] != ptx)
            used += (size_t)snprintf(text + used, length - used, "%s%d.%d", used ? ", " : "", list[i] / 100,
                                     list[i] % 100 / 10);
    if (ptx) snprintf(text + used, length - used, "%sPTX of %d.%d", used ? ", " : "", ptx / 100, ptx % 100 / 10);
    return text;
}

static void explain_no_code(int device, int major, int minor, char *why, size_t length)
{
    char built[64];
    snprintf(why, length,
             "GPU %d has compute capability %d.%d, this build has code for %s (build with make CUDA_ARCH=\"%d%d\")",
             device, major, minor, cuda_code_text(built, sizeof built), major, minor);
}

static bool device_is_supported(int device, char *why, size_t length)
{
    int major = 0, minor = 0;
    cudaError_t code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (code == cudaSuccess) code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (code != cudaSuccess) {
        snprintf(why, length, "GPU %d does not answer: %s, %s", device, cudaGetErrorName(code),
                 cudaGetErrorString(code));
        cudaGetLastError();
        return false;
    }
    if (!has_code_for(major, minor)) explain_no_code(device, major, minor, why, length);
    return has_code_for(major, minor);
}

/* A single rank needs no NCCL. */
static bool libraries_load(char *why, size_t length)
{
    return cublaslt_load(why, length) && (world_ranks() == 1 || nccl_load(why, length));
}

/* Creates a context. This fails if another process holds the GPU exclusively, or if the GPU has failed. */
static bool gives_context(int device, char *why, size_t length)
{
    cudaError_t code = cudaSetDevice(device);
    if (code == cudaSuccess) code = cudaFree(NULL);
    if (code == cudaSuccess) return true;
    snprintf(why, length, "GPU %d gives no context: %s, %s (nvidia-smi -q shows its processes and its compute mode)",
             device, cudaGetErrorName(code), cudaGetErrorString(code));
    cudaGetLastError();
    return false;
}

bool cuda_device_usable(char *why, size_t length)
{
    int devices = visible_devices(why, length), device = devices ? world_node_rank() % devices : 0;
    return devices > 0 && device_is_supported(device, why, length) && libraries_load(why, length) &&
           gives_context(device, why, length);
}

/* Writes the UUID as nvidia-smi and CUDA_VISIBLE_DEVICES do: "GPU-8a6b0a1c-...". */
static void write_identity(char *text, size_t length, const cudaUUID_t *uuid)
{
    size_t used = (size_t)snprintf(text, length, "GPU-");
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, length - used, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                                 (unsigned)(unsigned char)uuid->bytes[i]);
}

static void read_board(machine_device *d)
{
    nvml_board b = nvml_read_board(d->identity);
    memcpy(d->bus, b.bus, sizeof d->bus);
    memcpy(d->serial, b.serial, sizeof d->serial);
    d->power_limit_watts = b.power_limit_watts;
    d->clock_limit_hertz = b.clock_limit_hertz;
}

static void choose(int index)
{
    struct cudaDeviceProp properties;
    machine_device *d = &gpu.device;
    CUDA_CHECK(cudaSetDevice(index));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
    snprintf(d->name, sizeof d->name, "%.*s", (int)sizeof d->name - 1, properties.name);
    write_identity(d->identity, sizeof d->identity, &properties.uuid);
    d->multiprocessors = properties.multiProcessorCount;
    d->memory_bytes = (double)properties.totalGlobalMem;
    d->ecc = properties.ECCEnabled != 0;
    read_board(d);
    d->fp8 = properties.major * 10 + properties.minor >= FP8_CAPABILITY;
    gpu.shared_bytes = properties.sharedMemPerBlockOptin;
    gpu.index = index;
    gpu.chosen = true;
}

void cuda_device_use(void)
{
    char why[WHY] = "";
    if (gpu.chosen) return;
    int devices = visible_devices(why, sizeof why);
    int index = devices ? world_node_rank() % devices : 0;
    if (!devices || !device_is_supported(index, why, sizeof why)) FAIL("the CUDA backend cannot run: %s", why);
    choose(index);
}

int cuda_multiprocessors(void)
{
    cuda_device_use();
    return gpu.device.multiprocessors;
}

size_t cuda_shared_memory(void)
{
    cuda_device_use();
    return gpu.shared_bytes;
}

void cuda_allow_shared(const void *kernel, size_t bytes, const char *name)
{
    if (bytes <= ALWAYS_ALLOWED) return;
    if (bytes > cuda_shared_memory())
        FAIL("%s needs %zu bytes of shared memory for a thread block; GPU %d, %s, has %zu", name, bytes, gpu.index,
             gpu.device.name, gpu.shared_bytes);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
}

/* Writes the driver's version, if NVML reports it, and the newest CUDA version that the driver supports. */
static void write_driver(char *text, size_t length, const char *version)
{
    int driver = 0;
    char supported[16];
    cudaDriverGetVersion(&driver);
    write_version(supported, sizeof supported, driver);
    snprintf(text, length, "%.14s%sCUDA %.8s", version, *version ? ", " : "", supported);
}

void cuda_device_state(device_state *now) { *now = nvml_read(gpu.device.identity).now; }

machine_device cuda_device_read(void)
{
    cuda_device_use();
    size_t free_bytes = 0, bytes = 0;
    machine_device d = gpu.device;
    nvml_state s = nvml_read(d.identity);
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &bytes));
    d.free_bytes = (double)free_bytes;
    write_driver(d.driver, sizeof d.driver, s.driver);
    memcpy(d.fabric, s.fabric, sizeof d.fabric);
    d.ecc |= s.ecc;
    d.clocks_known = s.clocks_known;
    d.throttled = s.now.throttled;
    d.clock_hertz = fmax(s.now.clock_hertz, 0.0); /* NaN becomes 0 */
    d.power_watts = fmax(s.now.power_watts, 0.0);
    memcpy(d.throttle_reasons, s.now.reasons, sizeof d.throttle_reasons);
    return d;
}
