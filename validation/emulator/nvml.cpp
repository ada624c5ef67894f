/* NVML of the emulated devices. EMULATOR_CLOCKS_EVENTS: the bits of the reasons why clocks are what they are.
 * EMULATOR_NVML=0: it does not start, as on a machine whose driver is of another version. */
#include "inside.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

enum { NVML_SUCCESS = 0, NVML_INVALID_ARGUMENT = 2, NVML_NOT_FOUND = 6, NVML_DRIVER_NOT_LOADED = 9, NVML_CLOCK_SM = 1 };

static int device_handle;

/* As `nvidia-smi -L` writes it. */
static std::string identity_of(const cudaUUID_t &uuid)
{
    char text[3];
    std::string identity = "GPU";
    for (int i = 0; i < 16; i++) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) identity += "-";
        snprintf(text, sizeof text, "%02x", uuid.bytes[i] & 0xFF);
        identity += text;
    }
    return identity;
}

extern "C" {

int nvmlInit_v2(void);
int nvmlSystemGetDriverVersion(char *text, unsigned length);
int nvmlDeviceGetHandleByUUID(const char *identity, void **device);
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *megahertz);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits);
int nvmlDeviceGetEccMode(void *device, int *now, int *after_reboot);

int nvmlInit_v2(void)
{
    const char *there = getenv("EMULATOR_NVML");
    return there && atoi(there) == 0 ? NVML_DRIVER_NOT_LOADED : NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *text, unsigned length)
{
    snprintf(text, length, "580.65.06");
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *identity, void **device)
{
    int devices = 0;
    struct cudaDeviceProp properties;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) return NVML_NOT_FOUND;
    for (int i = 0; i < devices; i++) {
        if (cudaGetDeviceProperties(&properties, i) != cudaSuccess || identity_of(properties.uuid) != identity)
            continue;
        *device = &device_handle;
        return NVML_SUCCESS;
    }
    return NVML_NOT_FOUND;
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *megahertz)
{
    if (device != &device_handle || which != NVML_CLOCK_SM) return NVML_INVALID_ARGUMENT;
    *megahertz = 1755;
    return NVML_SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    if (device != &device_handle) return NVML_INVALID_ARGUMENT;
    *milliwatts = 612500;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits)
{
    const char *given = getenv("EMULATOR_CLOCKS_EVENTS");
    if (device != &device_handle) return NVML_INVALID_ARGUMENT;
    *bits = given ? strtoull(given, NULL, 0) : 0;
    return NVML_SUCCESS;
}

int nvmlDeviceGetEccMode(void *device, int *now, int *after_reboot)
{
    if (device != &device_handle) return NVML_INVALID_ARGUMENT;
    *now = 1;
    *after_reboot = 0;
    return NVML_SUCCESS;
}
}
