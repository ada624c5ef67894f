/* One case: check, build, warm up, time, replay, judge. */
#pragma once
#include "bench/facts/judge.h"
#include "bench/facts/sink.h"
#include "bench/run/stop.h"
#include "train/measure.h"

/* Measures the case on paper: this rank's share, the caller's, empty where the rank takes no part. Can the case run
 * here? If not, the reason, before anything is allocated. Collective over the world. */
bool case_can_run(const bench_case *c, const host_load *load, measure *share, char reason[REASON_LENGTH]);
/* Lets the memory that machines keep for arenas be large enough for the case, if it fits here. Collective. */
void case_reserve(const bench_case *c, const host_load *load);
/* What all cases of a run share: `told` hears of their checks and steps, `stop` may end them early. */
typedef struct {
    host_load load;
    sinks told;
    stop_clock stop;
    double began; /* when the record was opened; by this rank's clock */
    repeat_means *repeats;
    const struct machine_sheet *sheet;    /* that cases are compared with; NULL: none */
    char libraries_differ[REASON_LENGTH]; /* this rank's from rank 0's, as they started; empty: they do not */
    char preloaded[REASON_LENGTH];        /* this rank's preloaded library that answers calls; empty: none does */
} run_state;

/* Collective over the world. Fills the facts of r (opened by the caller) on all ranks, its figures and its ruling on
 * rank 0. */
void run_case(const bench_case *c, const measure *share, case_result *r, const run_state *in);
