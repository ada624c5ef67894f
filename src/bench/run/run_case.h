/* One case: check, warm-up, timed steps, replay, judgement. */
#pragma once
#include "bench/facts/judge.h"
#include "bench/facts/sink.h"
#include "bench/run/stop.h"
#include "train/measure.h"

/* Measures the case on paper, and returns whether it can run here; if not, writes the reason. share: measure of this
 * rank, owned by the caller, empty if the rank takes no part. Allocates no training memory. Collective over the world.
 */
bool case_can_run(const bench_case *c, const host_load *load, measure *share, char reason[REASON_LENGTH]);
/* Reserves memory for the arenas of the case, if it fits here. Collective over the world. */
void case_reserve(const bench_case *c, const host_load *load);
/* State that all cases of a run share. */
typedef struct {
    host_load load;
    sinks sinks;
    stop_clock stop;
    double began; /* when the record was opened; by this rank's clock */
    repeat_means *repeats;
    const struct machine_sheet *sheet;    /* machine sheet that predicts step times, or NULL */
    char libraries_differ[REASON_LENGTH]; /* a library that differs from rank 0's at the start; empty if none */
    char preloaded[REASON_LENGTH];        /* a preloaded library of this rank that replaces functions; empty if none */
} run_state;

/* Runs the case. Fills the facts of r, which the caller has opened, on all ranks, and figures and ruling on rank 0.
 * Collective over the world. */
void run_case(const bench_case *c, const measure *share, case_result *r, const run_state *state);
