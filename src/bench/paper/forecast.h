/* Forecasts before a run: whether a case fits a device, the published step of its recipe, and the time of a deck. */
#pragma once
#include "bench/paper/paper.h"

/* Writes "42 s", "3.5 min" or "7.2 h". Returns text. */
enum { DURATION_TEXT = 24 };
const char *duration_text(double seconds, char text[DURATION_TEXT]);

/* Returns the seconds of all steps of a case at step_seconds each; for a soak, at least its minutes. */
double forecast_case(const bench_case *c, double step_seconds);
/* Prints whether every rank, with its libraries, fits into device_bytes; for a host, the bytes that a rank needs.
 * Returns the bytes of the rank that needs most. */
double forecast_fit(const bench_case *c, const paper *p, double device_bytes);
/* Prints a warning if tensor groups do not divide the NVLink domains of the device evenly. */
void forecast_domain(const bench_case *c, const char *device);
/* Prints the published steps of the case's recipe. A scaled case has the step of its cell, because its ranks have the
 * same work as the cell's. Prints a note if the device's cell was measured in a format that xgsw does not have. */
void forecast_published(const bench_case *c, const char *device);

/* The time of a deck. If step_seconds is given for the first case that can be laid out, the steps of other cases are in
 * proportion to the flops of their busiest ranks. Otherwise a case on GPUs has its published step, or else one at
 * ASSUMED_MFU (percent by the recipe's formula: the published median is 54 in BF16, 40 in FP8). Repeats and soaks
 * count. */
enum { ASSUMED_MFU = 40 };
typedef struct {
    const char *device;  /* the published steps of this device are used */
    double step_seconds; /* measured; 0 if not given */
    double flops;        /* of the busiest rank of the first case; 0 before it */
    double seconds;      /* sum over the cases so far */
    int64_t steps;
    int first, cases, assumed, unknown; /* cases at ASSUMED_MFU, and without any step time: their soaks count */
    bool soaks;                         /* a case is a soak, so there may be more steps */
} deck_time;
/* Adds a case. Returns the least seconds of all its steps and repeats; NaN if unknown. p: only needed with
 * step_seconds, otherwise it may be NULL. */
double forecast_add(deck_time *t, const bench_case *c, const paper *p);
/* Prints the time of the deck and its basis after the label, unless it is unknown. */
void forecast_deck(const deck_time *t, const char *label);

/* Returns the step time of `other` if its ranks compute as fast as those of `measured`, whose step takes `seconds`. */
double forecast_step(const bench_case *measured, double seconds, const bench_case *other);
