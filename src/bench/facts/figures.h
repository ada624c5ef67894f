/* What follows from the facts of a case, by pure functions of them and the case. On rank 0. */
#pragma once
#include "bench/facts/facts.h"
#include "bench/health/outliers.h"
#include "bench/health/slow_steps.h"

/* The mean step times of all repeats of a case. Only the last repeat has them. */
typedef struct {
    int count;                               /* 0: it is run once, or a later repeat is judged */
    double median, minimum, maximum, spread; /* spread: maximum / minimum - 1 */
} repeated_seconds;

/* Numbers of the timed steps are NaN where none ended. */
typedef struct {
    int64_t tokens_per_step;
    double *step_seconds; /* of each step, of the slowest rank; as long as the facts' lists; owned */
    double mean_seconds, median_seconds, p95_seconds, minimum_seconds, maximum_seconds;
    double spread, drift;  /* p90 / p10; median of the last half / of the first; drift of a single step is NaN */
    double recipe_seconds; /* mean of the last metric_steps, or of all if fewer */
    slow_steps slow;
    repeated_seconds repeated;                           /* repeats_add */
    double tokens_per_second, tokens_per_second_per_gpu; /* by the mean; a rank is a GPU */
    double tflops_per_gpu;                               /* flops by the recipe's formula */
    double peak_flops;                                   /* of a device, in flop/s; 0 where none is known */
    char peak_source[96];                 /* who knows it: the catalogue or the deck; empty: nobody does */
    double recipe_mfu, model_mfu;         /* fractions of the peak, by the mean; NaN where no peak is known */
    double recipe_ceiling, model_ceiling; /* FP8: the largest MFU with attention and LM head at the BF16 peak */
    double recipe_reached, model_reached; /* the MFU's parts of these */
    double days_per_trillion;             /* NaN for proxies */
    double joules_per_token;              /* of samples.joules, the timed steps' tokens; NaN: not known */
    rank_pace *pace;                      /* [ranks], of the timed steps; owned */
    char device[64];                      /* its name, if that of all ranks is the same; else empty */
    char throttled[REASON_LENGTH];        /* the first rank whose device was, and why; empty: none */
    char clocks_unknown[64];              /* the first rank whose device does not tell; empty: none */
    int throttled_rank, clocks_rank;      /* their numbers, where there is one */
} figures;

/* Is the step's time part of the mean, if it is a timed one? After a checkpoint it is not. How many timed steps are? */
bool step_counts(const facts *f, int64_t step);
int64_t steps_counted(const facts *f, const bench_case *c);

/* All numbers NaN, for a case that has no facts yet. */
figures figures_none(const bench_case *c);
figures figures_of(const facts *f, const bench_case *c);
void figures_free(figures *g);
/* Is a rank's computing time its own? Not on a host whose ranks have several threads each and share cores: of several
 * threads only the main one's run delay is told. Then no rank is judged. */
bool paces_are_known(const facts *f, const bench_case *c);

/* The means of a case's repeats so far, which follow one another in a deck. */
typedef struct {
    int first, count;             /* number of the first repeat's case; means */
    double seconds[REPEATS_MOST]; /* ascending */
} repeat_means;
/* Adds the mean of a case that has run; sets g->repeated of the last repeat. Called in the order of the deck. */
void repeats_add(repeat_means *m, const bench_case *c, figures *g);
