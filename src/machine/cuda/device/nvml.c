/* NVML comes with the driver, so a machine may not have it. It is loaded at the first use; its interface is declared
 * here. XGSW_NVML, defined on the compiler's command line, is its file name; NULL means the program itself. */
#include "machine/cuda/device/nvml.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_TEMPERATURE_GPU = 0, NVML_FEATURE_ENABLED = 1, FABRIC_COMPLETED = 3 };
typedef struct nvml_device *nvml_handle;
typedef struct {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} nvml_fabric; /* nvmlGpuFabricInfo_t */
typedef struct {
    char former_id[16];
    unsigned place[5];
    char id[32];
} nvml_pci; /* nvmlPciInfo_t */

typedef struct {
    int (*start)(void);
    int (*driver_version)(char *text, unsigned length);
    int (*handle_by_uuid)(const char *identity, nvml_handle *h);
    int (*clock)(nvml_handle h, int which, unsigned *megahertz);
    int (*power)(nvml_handle h, unsigned *milliwatts);
    int (*clocks_event_reasons)(nvml_handle h, unsigned long long *bits);
    int (*ecc_mode)(nvml_handle h, int *now, int *after_reboot);
    int (*temperature)(nvml_handle h, int which, unsigned *celsius);
    int (*energy)(nvml_handle h, unsigned long long *millijoules);
    int (*fabric)(nvml_handle h, nvml_fabric *f);
    int (*pci)(nvml_handle h, nvml_pci *p);
    int (*serial)(nvml_handle h, char *text, unsigned length);
    int (*power_limit)(nvml_handle h, unsigned *milliwatts);
    int (*clock_limit)(nvml_handle h, int which, unsigned *megahertz);
} nvml_functions;

static void *function(void *library, const char *name, const char *former_name)
{
    void *f = library ? dlsym(library, name) : NULL;
    return f || !library || !former_name ? f : dlsym(library, former_name);
}

/* ISO C has no cast from data pointers, which the loader returns, to function pointers. */
static nvml_functions load(void)
{
    static const char *const name[][2] = {
        { "nvmlInit_v2", NULL },
        { "nvmlSystemGetDriverVersion", NULL },
        { "nvmlDeviceGetHandleByUUID", NULL },
        { "nvmlDeviceGetClockInfo", NULL },
        { "nvmlDeviceGetPowerUsage", NULL },
        { "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons" },
        { "nvmlDeviceGetEccMode", NULL },
        { "nvmlDeviceGetTemperature", NULL },
        { "nvmlDeviceGetTotalEnergyConsumption", NULL },
        { "nvmlDeviceGetGpuFabricInfo", NULL },
        { "nvmlDeviceGetPciInfo_v3", NULL },
        { "nvmlDeviceGetSerial", NULL },
        { "nvmlDeviceGetEnforcedPowerLimit", NULL },
        { "nvmlDeviceGetMaxClockInfo", NULL },
    };
    enum { FUNCTIONS = sizeof name / sizeof *name };
    _Static_assert(sizeof(nvml_functions) == FUNCTIONS * sizeof(void *), "a name for every function");
    nvml_functions f = { 0 };
    void *pointer[FUNCTIONS], *library = dlopen(XGSW_NVML, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < FUNCTIONS; i++) pointer[i] = function(library, name[i][0], name[i][1]);
    if (pointer[0]) memcpy(&f, pointer, sizeof f);
    if (f.start && f.start() != NVML_SUCCESS) f = (nvml_functions){ 0 };
    return f;
}

/* Reads the "clocks event reasons". Idle GPUs, clocks set by an administrator, and the power limit do not count as
 * throttling: in large products every H100 reaches its power limit. */
static void read_reasons(nvml_state *s, unsigned long long bits)
{
    static const struct {
        unsigned long long bit;
        bool throttles;
        const char *words;
    } reason[] = {
        { 0x01, false, "idle" },
        { 0x02, false, "application clocks" },
        { 0x04, false, "power cap" },
        { 0x08, true, "hardware slowdown" },
        { 0x10, false, "sync boost" },
        { 0x20, true, "temperature" },
        { 0x40, true, "hardware temperature" },
        { 0x80, true, "power brake" },
        { 0x100, false, "display clocks" },
    };
    size_t used = 0;
    s->clocks_known = true;
    device_state *now = &s->now;
    now->events = (int)bits;
    for (size_t i = 0; i < sizeof reason / sizeof *reason; i++) {
        if (!(bits & reason[i].bit)) continue;
        now->throttled |= reason[i].throttles;
        int wrote =
            snprintf(now->reasons + used, sizeof now->reasons - used, "%s%s", used ? ", " : "", reason[i].words);
        used += (size_t)wrote < sizeof now->reasons - used ? (size_t)wrote : 0;
    }
}

/* Writes "CLUSTER.CLIQUE" if NVLink reaches other nodes; a cluster of one node has no number. */
static void write_fabric(char *text, size_t length, const nvml_fabric *f)
{
    static const unsigned char none[sizeof f->cluster];
    size_t used = 0;
    if (f->state != FABRIC_COMPLETED || memcmp(f->cluster, none, sizeof none) == 0) return;
    for (size_t i = 0; i < sizeof none; i++)
        used += (size_t)snprintf(text + used, length - used, "%02x", (unsigned)f->cluster[i]);
    snprintf(text + used, length - used, ".%u", f->clique);
}

static const nvml_functions *functions(void)
{
    static nvml_functions f;
    static bool loaded;
    if (!loaded) f = load(), loaded = true;
    return &f;
}

nvml_board nvml_read_board(const char *identity)
{
    const nvml_functions *f = functions();
    nvml_board b = { .power_limit_watts = NAN, .clock_limit_hertz = NAN };
    nvml_handle h = NULL;
    nvml_pci pci;
    unsigned value;
    if (!f->handle_by_uuid || f->handle_by_uuid(identity, &h) != NVML_SUCCESS) return b;
    if (f->pci && f->pci(h, &pci) == NVML_SUCCESS) snprintf(b.bus, sizeof b.bus, "%.*s", (int)sizeof b.bus - 1, pci.id);
    if (f->serial && f->serial(h, b.serial, sizeof b.serial) != NVML_SUCCESS) b.serial[0] = 0;
    if (f->power_limit && f->power_limit(h, &value) == NVML_SUCCESS) b.power_limit_watts = 1e-3 * value;
    if (f->clock_limit && f->clock_limit(h, NVML_CLOCK_SM, &value) == NVML_SUCCESS) b.clock_limit_hertz = 1e6 * value;
    return b;
}

nvml_state nvml_read(const char *identity)
{
    const nvml_functions f = *functions();
    nvml_state s = { .now = { NAN, NAN, NAN, NAN, .events = -1 } };
    nvml_handle h = NULL;
    unsigned value;
    unsigned long long bits;
    int now, after_reboot;
    nvml_fabric fabric = { .state = 0 };
    if (f.driver_version && f.driver_version(s.driver, sizeof s.driver) != NVML_SUCCESS) s.driver[0] = 0;
    if (!f.handle_by_uuid || f.handle_by_uuid(identity, &h) != NVML_SUCCESS) return s;
    if (f.fabric && f.fabric(h, &fabric) == NVML_SUCCESS) write_fabric(s.fabric, sizeof s.fabric, &fabric);
    if (f.clock && f.clock(h, NVML_CLOCK_SM, &value) == NVML_SUCCESS && value) s.now.clock_hertz = 1e6 * value;
    if (f.power && f.power(h, &value) == NVML_SUCCESS && value) s.now.power_watts = 1e-3 * value;
    if (f.ecc_mode && f.ecc_mode(h, &now, &after_reboot) == NVML_SUCCESS) s.ecc = now == NVML_FEATURE_ENABLED;
    if (f.clocks_event_reasons && f.clocks_event_reasons(h, &bits) == NVML_SUCCESS) read_reasons(&s, bits);
    if (f.temperature && f.temperature(h, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS) s.now.temperature = value;
    if (f.energy && f.energy(h, &bits) == NVML_SUCCESS) s.now.joules = 1e-3 * (double)bits;
    return s;
}
