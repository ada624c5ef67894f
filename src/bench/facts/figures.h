/* Figures: numbers computed from the facts of a case by pure functions, on rank 0. */
#pragma once
#include "bench/facts/facts.h"
#include "bench/health/outliers.h"
#include "bench/health/slow_steps.h"

/* Mean step times of all repeats of a case. Only the last repeat has them. */
typedef struct {
    int count;                               /* 0 if the case runs once or is not the last repeat */
    double median, minimum, maximum, spread; /* spread: maximum / minimum - 1 */
} repeated_seconds;

/* Numbers of the timed steps are NaN if no step counts. Of several copies, step times are those of the slowest: the one
 * with the largest mean. Speed and energy are those of all copies. */
typedef struct {
    int64_t tokens_per_step; /* of a copy */
    int slowest_copy;
    double *copy_seconds; /* [copies] means of their steps; owned */
    double *step_seconds; /* [facts.total] step times of the slowest rank; owned */
    double mean_seconds, median_seconds, p95_seconds, minimum_seconds, maximum_seconds;
    double spread, drift;  /* p90 / p10; median of the last half / first half, NaN for one step */
    double recipe_seconds; /* mean of the last metric_steps, or of all if fewer */
    slow_steps slow;
    repeated_seconds repeated;                           /* repeats_add */
    double tokens_per_second, tokens_per_second_per_gpu; /* from the mean step time; each rank is a GPU */
    double tflops_per_gpu;                               /* with the recipe's flop formula */
    double peak_flops;                                   /* peak of one device in flop/s; 0 if unknown */
    char peak_source[96];                                /* source of peak_flops: catalogue or deck; empty if unknown */
    double recipe_mfu, model_mfu;                        /* from the mean step time; NaN if the peak is unknown */
    double recipe_ceiling, model_ceiling;     /* FP8: largest MFU if attention and LM head run at the BF16 peak */
    double recipe_reached, model_reached;     /* MFU divided by its ceiling */
    double days_per_trillion;                 /* NaN for proxies */
    double joules_per_step, joules_per_token; /* samples.joules divided by timed steps, and by tokens of all copies */
    rank_pace *pace;                          /* [ranks], of the timed steps; owned */
    char device[64];                          /* name of the devices; empty if ranks have different ones */
    char throttled[REASON_LENGTH];            /* first rank with a throttled device, and the reason; empty if none */
    char clocks_unknown[64];                  /* first rank whose device reports no throttling state; empty if none */
    int throttled_rank, clocks_rank;          /* numbers of these ranks */
} figures;

/* Returns a rank's computing seconds in a step, without the run delay that other processes cause. at: index [step,
 * rank] in the tables. */
double own_computing(const rank_times *t, int64_t at);

/* Return whether a timed step is part of the mean (not after a checkpoint), and the number of such steps. */
bool step_counts(const facts *f, int64_t step);
int64_t steps_counted(const facts *f, const bench_case *c);

/* Returns figures of a case without facts: all numbers are NaN. */
figures figures_none(const bench_case *c);
figures figures_of(const facts *f, const bench_case *c);
void figures_free(figures *g);
/* Returns whether the computing times of ranks are exact enough to find outliers. They are not on a host whose ranks
 * have several threads and share cores, because the run delay is known only for the main thread. */
bool paces_are_known(const facts *f, const bench_case *c);

/* Mean step times of the repeats of a case so far. Repeats follow one another in a deck. */
typedef struct {
    int first, count;             /* case number of the first repeat; number of means */
    double seconds[REPEATS_MOST]; /* ascending */
} repeat_means;
/* Adds the mean of a finished case; sets g->repeated for the last repeat. Call it in the order of the deck. */
void repeats_add(repeat_means *m, const bench_case *c, figures *g);
