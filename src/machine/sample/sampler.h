/* sample/: samples of a rank's device and node, once a second, by a thread that takes no memory and no lock. */
#pragma once
#include "machine/sample/node.h"
#include <stdint.h>

/* A device now. NaN: not told. */
typedef struct {
    double clock_hertz, temperature, power_watts, joules; /* degrees Celsius; joules since the driver was loaded */
    int events;                                           /* NVML's bits of why the clock is what it is; -1: not told */
    bool throttled;
    char reasons[96]; /* the bits in words */
} device_state;

/* NaN: not told; of the node, where another rank of it looks. */
typedef struct {
    double seconds;                                              /* since the first sample */
    double clock_hertz, temperature, power_watts, device_joules; /* of the device; joules since the first sample */
    double core_hertz, load, busy_seconds, package_joules; /* of the node: node_state, but since the first sample */
    double own_seconds;                                    /* processor time of this process, since the first sample */
    int events;
    /* Extremes of this sample and of those after it that are not kept. */
    double clock_least, clock_most, temperature_most, power_least, power_most;
} machine_sample;

/* When there are so many, every second one is dropped; then half as many are kept, and all are still looked at. */
enum { SAMPLES_KEPT = 256 };
extern const double SAMPLE_SECONDS;

typedef struct {
    const machine_sample *list; /* of the sampler */
    int64_t count;
    double every;          /* seconds between two, but for the last */
    double began;          /* when their seconds began, in clock_seconds */
    double cost_seconds;   /* processor time that they took */
    const char *throttled; /* why the device was, when it was first seen so, in a sample that may be dropped; or "" */
    double throttled_at;
    bool lost; /* the thread did not come back: nothing else is told, and the device may have been throttled */
} sample_report;

typedef struct sampler sampler;
/* How to look at the device (NULL: there is none), how often, and the cores of the node, if it is looked at. */
typedef struct {
    double every;
    void (*device)(device_state *now);
    int cores;
    int (*core)(int i);
} sample_subject;

sampler *sampler_open(const sample_subject *of);
/* The first sample is taken now, and the last. The caller goes on at once. */
void sampler_begin(sampler *s);
void sampler_end(sampler *s);
/* After sampler_end: what was sampled since sampler_begin. Waits for the last sample, 2 seconds at most. */
sample_report sampler_read(sampler *s);
void sampler_close(sampler *s);
