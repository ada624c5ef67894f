/* NVML of the emulated devices, at 612.5 W. EMULATOR_CLOCKS_EVENTS: the bits of the clock event reasons.
 * EMULATOR_SAMPLED_EVENTS: those returned to other threads than the main one. EMULATOR_NVML=0: NVML does not start, as
 * with a driver of another version. EMULATOR_FABRIC=N: NVLink joins the GPUs of all nodes with the same N. */
#include "inside.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <unistd.h>
#include <vector>

static const double WATTS = 612.5;
enum { NVML_SUCCESS = 0, NVML_INVALID_ARGUMENT = 2, NVML_NOT_FOUND = 6, NVML_DRIVER_NOT_LOADED = 9, NVML_CLOCK_SM = 1 };

static int device_handle;

/* Answers a query that the device supports. */
static int tell(void *device, bool understood, unsigned *to, unsigned value)
{
    if (device != &device_handle || !understood) return NVML_INVALID_ARGUMENT;
    *to = value;
    return NVML_SUCCESS;
}

/* Formats the identity like `nvidia-smi -L`. */
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

/* Collected at the first query, because other threads may call NVML, but not CUDA, while the device runs. */
static std::vector<std::string> identities()
{
    int devices = 0;
    struct cudaDeviceProp properties;
    std::vector<std::string> found;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
    for (int i = 0; i < devices; i++)
        if (cudaGetDeviceProperties(&properties, i) == cudaSuccess) found.push_back(identity_of(properties.uuid));
    return found;
}

extern "C" {

typedef struct {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} fabric_info;

/* Without a fabric, as on an HGX board: completed, and the cluster is zero. */
int nvmlDeviceGetGpuFabricInfo(void *device, fabric_info *info)
{
    const char *fabric = getenv("EMULATOR_FABRIC");
    if (device != &device_handle) return NVML_INVALID_ARGUMENT;
    *info = {};
    info->cluster[15] = (unsigned char)(fabric ? atoi(fabric) : 0);
    info->state = 3;
    return NVML_SUCCESS;
}

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
    static const std::vector<std::string> known = identities();
    if (std::find(known.begin(), known.end(), identity) == known.end()) return NVML_NOT_FOUND;
    *device = &device_handle;
    return NVML_SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *megahertz)
{
    return tell(device, which == NVML_CLOCK_SM, megahertz, 1755);
}

int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *megahertz)
{
    return tell(device, which == NVML_CLOCK_SM, megahertz, 1980);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    return tell(device, true, milliwatts, (unsigned)(1e3 * WATTS));
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
    return tell(device, true, milliwatts, 700000);
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits)
{
    const char *given = getenv(gettid() == getpid() ? "EMULATOR_CLOCKS_EVENTS" : "EMULATOR_SAMPLED_EVENTS");
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

int nvmlDeviceGetTemperature(void *device, int which, unsigned *celsius)
{
    return tell(device, which == 0, celsius, 61);
}

/* nvmlDeviceGetSerial is missing: these boards have no serial number. */
int nvmlDeviceGetPciInfo_v3(void *device, char *info)
{
    if (device != &device_handle) return NVML_INVALID_ARGUMENT;
    snprintf(info + 36, 32, "00000000:3B:00.0"); /* nvmlPciInfo_t.busId */
    return NVML_SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
    struct timespec now;
    if (device != &device_handle) return NVML_INVALID_ARGUMENT;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = (unsigned long long)(1e3 * WATTS * ((double)now.tv_sec + 1e-9 * (double)now.tv_nsec));
    return NVML_SUCCESS;
}
}
