/* What a case will take, before it runs: does it fit a device, what did the recipe's cell take, how long is a deck. */
#pragma once
#include "bench/paper/paper.h"

/* "42 s", "3.5 min", "7.2 h"; returns text. */
enum { DURATION_TEXT = 24 };
const char *duration_text(double seconds, char text[DURATION_TEXT]);

/* What all steps of a case take at so many seconds each; of a soak its minutes at least. */
double forecast_case(const bench_case *c, double step_seconds);
/* Prints whether every rank fits a device of so many bytes, with what libraries take; of a host what a rank needs.
 * Returns the bytes of the rank that needs most; NaN: not known. */
double forecast_fit(const bench_case *c, const paper *p, double device_bytes);
/* Says so if tensor groups do not lie within the device's NVLink domain, as a recipe's must. */
void forecast_domain(const bench_case *c, const char *device);
/* Prints the published step of the recipe's cells that the case is, as the recipe counts; of a scaled case that of its
 * cell, whose work each of its ranks has. Says so if the device's cell was measured in a format that xgsw lacks. */
void forecast_published(const bench_case *c, const char *device);

/* The time of a deck: at a measured step of the first case that can be laid out, the others' in proportion to what
 * their busiest rank computes; without one at the published steps. Repeats and soaks are counted. */
typedef struct {
    const char *device;  /* whose published steps count */
    double step_seconds; /* measured; 0: none */
    double flops;        /* of that case's busiest rank; 0: not yet met */
    double seconds;      /* of all steps so far */
    int64_t steps;
    int first, cases, unknown; /* unknown: cases whose step is neither measured nor published; their soak is counted */
    bool soaks;                /* some case does: its steps may be more */
} deck_time;
/* Returns the seconds of all the case's steps and repeats, at least; NaN: not known. */
double forecast_add(deck_time *t, const bench_case *c, const paper *p);
/* Prints it; nothing where no time is known. */
void forecast_deck(const deck_time *t);

/* Of one more step at a case's rate: what another case's takes if its ranks compute as fast. */
double forecast_step(const bench_case *measured, double seconds, const bench_case *other);
