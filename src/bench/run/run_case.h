/* One case: check, warm-up, timed steps, replay, judgement. */
#pragma once
#include "bench/facts/judge.h"
#include "bench/facts/sink.h"
#include "bench/run/stop.h"
#include "train/measure.h"

/* Measures the case on paper, and returns whether it can run here; if not, writes the reason. share: measure of this
 * rank, owned by the caller, empty if the rank takes no part. No training memory is allocated. Collective over the
 * world. */
bool case_can_run(const bench_case *c, const host_load *load, measure *share, char reason[REASON_LENGTH]);
/* Makes the memory that machines keep for arenas large enough for the case, if it fits here. Collective. */
void case_reserve(const bench_case *c, const host_load *load);
/* State that all cases of a run share. told: sinks, which receive checks and steps. stop: limits of the run's time. */
typedef struct {
    host_load load;
    sinks told;
    stop_clock stop;
    double began; /* when the record was opened; by this rank's clock */
    repeat_means *repeats;
    const struct machine_sheet *sheet;    /* sheet with which cases are compared, or NULL */
    char libraries_differ[REASON_LENGTH]; /* a library of this rank that differs from rank 0's at the start; or empty */
    char preloaded[REASON_LENGTH];        /* a preloaded library of this rank that replaces functions; or empty */
} run_state;

/* Runs the case. Fills the facts of r, which the caller has opened, on all ranks, and figures and ruling on rank 0.
 * Collective over the world. */
void run_case(const bench_case *c, const measure *share, case_result *r, const run_state *in);
