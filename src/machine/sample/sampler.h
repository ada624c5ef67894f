/* sample/: samples a rank's device and node once a second, in a thread without locks and allocations. */
#pragma once
#include "machine/sample/node.h"
#include <stdint.h>

/* Current state of a device. NaN if unknown. */
typedef struct {
    double clock_hertz, temperature, power_watts, joules; /* degrees Celsius; joules since the driver was loaded */
    int events;                                           /* NVML's clock event reasons; -1 if unknown */
    bool throttled;
    char reasons[96]; /* the reasons in words */
} device_state;

/* One sample. NaN if unknown; values of the node are NaN if another rank samples it. */
typedef struct {
    double seconds;                                              /* since the first sample */
    double clock_hertz, temperature, power_watts, device_joules; /* of the device; joules since the first sample */
    double core_hertz, load, busy_seconds, package_joules;       /* of the node: node_state, since the first sample */
    double own_seconds; /* processor time of this process, since the first sample */
    int events;
    /* Extremes of this sample and of the dropped samples after it. */
    double clock_least, clock_most, temperature_most, power_least, power_most;
} machine_sample;

/* When SAMPLES_KEPT samples exist, every second one is dropped, and the interval of kept samples doubles. */
enum { SAMPLES_KEPT = 256 };
extern const double SAMPLE_SECONDS;

typedef struct {
    const machine_sample *list; /* owned by the sampler */
    int64_t count;
    double every;          /* seconds between two samples, except the last */
    double began;          /* clock_seconds at second 0 of the samples */
    double cost_seconds;   /* processor time of sampling */
    const char *throttled; /* reason of the first throttled sample, or "" */
    double throttled_at;
    bool lost; /* the thread did not answer: no samples, and the device may have been throttled */
} sample_report;

typedef struct sampler sampler;
/* device: reads the device, or NULL. cores: number of cores of the node, 0 if another rank samples it; core: each. */
typedef struct {
    double every; /* seconds */
    void (*device)(device_state *now);
    int cores;
    int (*core)(int i);
} sample_subject;

sampler *sampler_open(const sample_subject *of);
/* Start and end sampling. The caller does not wait. */
void sampler_begin(sampler *s);
void sampler_end(sampler *s);
/* Returns the samples since sampler_begin. Call it after sampler_end. Waits for the last sample, at most 2 seconds. */
sample_report sampler_read(sampler *s);
void sampler_close(sampler *s);
