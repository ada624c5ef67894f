/* What one case leaves: the numbers that the report prints, the record keeps and the validation script recomputes.
 * Filled on all ranks by bench/run/run_case.c, complete on rank 0. The fields (fields.h) name what is here. */
#pragma once
#include "base/arena.h"
#include "bench/health/samples.h"
#include "bench/launch/placement.h"
#include "machine/prove/prove.h"
#include "plan/bench_case.h"

typedef struct {
    double residual;                                       /* scaled: 16 is the threshold; max of the parts below */
    double loss, gradient_first, gradient_fourth, weights; /* worst ratio to its limit x 16, each */
    double along;                                          /* the same of gradients' parts along the reference's; FP8 */
    double routing;                                        /* the same of choices of experts */
    double margin;        /* of those that a reference would have made otherwise, the largest difference of logits */
    int64_t flips;        /* their number */
    double scales;        /* worst ratio to its limit x 16: of FP8's scales */
    int64_t scale_flips;  /* those that the reference's amaxes would have made otherwise */
    char worst[256];      /* what was worst: parameter, step, rank */
    int64_t faults;       /* executions a planted fault struck in it, all ranks */
    char struck[OP_TEXT]; /* which operation that was (bench/check/fault.h) */
    int64_t transfers;    /* proven in the second run, all ranks */
    int64_t differing;    /* transfers, and kinds of them on an axis, that are wrong; one more: the runs differ */
    char difference[256]; /* the first of them */
    char digest[17];      /* of the first run's losses, norms and final weights, all ranks' */
    double seconds;       /* cost of the check */
    bool done, passed;
} check_result;

/* What a mixture of experts reports of a step (train/trainer.h). */
typedef enum {
    ROUTED_BALANCE,
    ROUTED_DROPS,
    ROUTED_LEAST,
    ROUTED_MOST,
    ROUTED_VARIATION,
    ROUTED_FIGURES
} routed_figure;

/* Of a kind of tensor of an FP8 case: parts of its values that became 0 without being it, and the largest number of the
 * format for being larger; smallest and largest scale of a tensor. */
typedef struct {
    double underflowed, saturated, scale_least, scale_most;
} fp8_figures;
const char *fp8_kind_name(fp8_kind kind);

/* Where each rank's seconds of a step went (bench/health/gather.h). Waiting: exposed, by axis. */
typedef enum {
    RANK_COMPUTING,
    RANK_RUN_DELAY,
    RANK_LATE,
    RANK_WAITING_TENSOR,
    RANK_WAITING_CONTEXT,
    RANK_WAITING_EXPERT,
    RANK_WAITING_SHARD,
    RANK_WAITING_PIPELINE,
    RANK_WAITING_GRADIENT,
    RANK_WAITING_ALL,
    RANK_TABLES
} rank_table;
/* What a rank was given in all steps together, and how it did in the timed ones (bench/health/outliers.h). */
typedef struct {
    double flops, bytes;  /* of computing operations */
    double excess, error; /* NaN: not known */
    int peers;
} rank_pace;
enum { OUTLIERS = 3, SLOW_NAMES = 640 }; /* ranks that are named; bytes for the names of slow steps */

/* Interrupted: asked to stop before its last step, and nothing failed until then. */
typedef enum { VERDICT_PASSED, VERDICT_FAILED, VERDICT_SKIPPED, VERDICT_INTERRUPTED, VERDICTS } verdict;
extern const char *const verdict_words[VERDICTS];

/* node_ranks, cores: of the most crowded node; threads per rank; sharing: ranks on the most crowded device, of a case
 * on devices. */
typedef struct {
    int node_ranks, cores, threads, sharing;
    double quota; /* cores that the tightest control group pays for; INFINITY: no limit */
} host_load;
/* Do a node's ranks have more threads than it has cores, or than its quota pays for? */
bool load_is_crowded(const host_load *l);
/* What becomes of the deck's expectation (bench/facts/accept.h). NONE: it has none. LATER: the last repeat decides. */
typedef enum { ACCEPTANCE_NONE, ACCEPTANCE_YES, ACCEPTANCE_NO, ACCEPTANCE_LATER } acceptance;
extern const char *const acceptance_words[];
enum { ACCEPTANCE_REASON = 2 * REASON_LENGTH };

/* Sums of gradients over ranks in the steps, and weights after the last one (bench/check/conservation.h); all ranks'.
 */
typedef struct {
    int64_t comparisons, failed;          /* of a slice's totals before and after a sum */
    double worst;                         /* largest difference, of what is allowed */
    char sentence[REASON_LENGTH];         /* the first that failed */
    int64_t replicas, unequal;            /* of weights, compared with another rank's */
    char unequal_sentence[REASON_LENGTH]; /* the first that is not equal */
} conservation;

/* The mean step times of all repeats of a case. Only the last repeat has them. */
typedef struct {
    int count;                               /* 0: it is run once, or a later repeat is judged */
    double median, minimum, maximum, spread; /* spread: maximum / minimum - 1 */
} repeated_seconds;

typedef struct {
    const bench_case *given;
    verdict verdict;
    char skipped[REASON_LENGTH]; /* why, of VERDICT_SKIPPED: it has no steps */
    int64_t tokens_per_step;
    int64_t total; /* steps that the lists have: warmup + steps; of a soak that runs there is room for so many */
    /* per step, warm-up first: total entries, owned */
    double *loss, *gradient_norm, *learning_rate, *step_seconds;
    double *routed[ROUTED_FIGURES];
    double *rank_seconds;                  /* [total, ranks used]; rank 0 only; owned, as the next two */
    double *rank_table[RANK_TABLES];       /* so too */
    rank_pace *pace;                       /* [ranks used] of the timed steps */
    char outlier[OUTLIERS][REASON_LENGTH]; /* the slowest first; empty: none */
    fp8_figures fp8[FP8_KINDS];            /* of the timed steps; NaN in other precisions */
    double *fp8_scale;                     /* [total, fp8_tensors] */
    int64_t fp8_tensors;                   /* 0 in other precisions */
    int64_t completed;                     /* steps that finished */
    int stopped;                           /* why not all (bench/run/stop.h); 0: nobody asked to stop */
    char stopped_by[32];                   /* that in words */
    double soaks_until;                    /* by this rank's clock; a soak may end then */
    double spent_seconds;                  /* in them, by this rank's clock */
    /* over the measured window */
    double mean_seconds, median_seconds, p95_seconds, minimum_seconds, maximum_seconds;
    double spread, drift; /* of step times: p90 / p10; median of the last half / of the first; NaN of a single one */
    int64_t slow_steps;   /* rank 0, as the next (bench/health/slow_steps.h) */
    char slow_step_names[SLOW_NAMES]; /* "14 (2.9 times, rank 1 on host), 20 (...)" */
    repeated_seconds repeated;
    double recipe_seconds;                               /* mean of the last metric_steps, or of all if fewer */
    double tokens_per_second, tokens_per_second_per_gpu; /* by the mean; a rank is a GPU */
    double tflops_per_gpu;                               /* flops by the recipe's formula */
    double recipe_mfu, model_mfu;         /* fractions of the peak, by the mean; NaN where no peak is known */
    double recipe_ceiling, model_ceiling; /* FP8: the largest MFU with attention and LM head at the BF16 peak */
    double recipe_reached, model_reached; /* the MFU's parts of these */
    double days_per_trillion;             /* NaN for proxies */
    placement placement;                  /* of its ranks on nodes */
    host_load load;                       /* of the run */
    double total_seconds;                 /* wall time of the case, checks included */
    size_t arena_bytes, bytes_by_kind[ARENA_KINDS]; /* rank 0 */
    double outside_bytes;                           /* peak resident memory outside the arena, maximum over ranks */
    double device_outside_bytes;   /* of a device that no rank shares: in use outside arenas, maximum over ranks */
    double own_outside_bytes;      /* without memory that ranks share */
    tally tally;                   /* rank 0: counts of all steps, seconds of the measured window */
    machine_device window[2];      /* this rank's as the measured window began and ended, in the midst of work */
    machine_device *devices;       /* [ranks used, 2]: all ranks'; rank 0 only; owned */
    char device[64];               /* its name, if that of all ranks is the same; else empty */
    char throttled[REASON_LENGTH]; /* the first rank whose device was, and why; empty: none */
    char libraries_differ[REASON_LENGTH]; /* the first rank that has other libraries than rank 0; empty: none */
    char preloaded[REASON_LENGTH]; /* the first preloaded library that answers calls of the program; empty: none */
    sampler *sampler;              /* this rank's, while it trains */
    sample_set samples;            /* all ranks', rank 0 */
    double joules_per_token;       /* of samples.joules, the timed steps' tokens; NaN: not known */
    char clocks_unknown[64];       /* the first rank whose device does not tell; empty: none */
    char engines[8192];            /* of attention and products, rank 0: a line in words, then one for each product */
    span *spans;
    int64_t span_count; /* rank 0: operations of the last step in order of completion, from the first's begin; owned */
    int64_t hazards;
    char hazard[512];
    char weights_digest[17];         /* of all ranks' weights after the last step */
    int64_t faults;                  /* executions a planted fault struck, all ranks */
    char struck[OP_TEXT];            /* which operation that was in the timed steps (bench/check/fault.h) */
    shadow_report shadow;            /* operations beside the host's, all ranks; 0 of them: check = off */
    shadow_report replay;            /* the same of the replayed steps; its worst comparison is 1 at the limit */
    delivery_report replay_delivery; /* their transfers, all ranks */
    double replay_seconds;           /* the longest of all ranks */
    check_result check;
    struct conserved_steps *sums; /* this rank's, while it trains */
    conservation conserved;
    bool passed, valid, comparable;
    char comparison[REASON_LENGTH]; /* with which published cell, or why with none */
    acceptance acceptance;
    double expected_tokens_per_second; /* NaN: nothing is expected, or a published cell that there is not */
    char not_accepted[ACCEPTANCE_REASON];
    int fail_reasons, invalid_reasons;
    char fail_reason[CASE_REASONS][REASON_LENGTH];
    char invalid_reason[CASE_REASONS][REASON_LENGTH];
} case_result;

void result_open(case_result *r, const bench_case *c); /* allocates the per-step arrays; numbers are NaN until known */
/* Other lists of steps, of which the first entries are the old ones'; the table of ranks is new. */
void result_resize(case_result *r, int64_t total);
/* How far it came: "38 of 50 steps", "18 of 50 steps and 2 of 2 of warm-up"; returns text. */
enum { PROGRESS_TEXT = 128 };
const char *result_progress(const case_result *r, char text[PROGRESS_TEXT]);
/* Instead, of a case that does not run, and why: it has no arrays. */
void result_skip(case_result *r, const bench_case *c, const char *reason);
void result_close(case_result *r);
/* The numbers of the measured window, from those of the steps. */
void result_summarize(case_result *r);
/* Adds what FP8 did in a step, all ranks': one entry a kind. Steps of the warm-up are left out. In the order of the
 * steps, each once. */
void result_add_fp8(case_result *r, int64_t step, const fp8_figures kind[FP8_KINDS]);
/* Keeps the spans of one step and what was idle in a window of `seconds`: no operation ran, no transfer was waited for
 * (on the host, posting messages and adding what they brought count as idle, and dispatch does not; a GPU's runs beside
 * it). */
void result_add_time(case_result *r, const machine *m, int64_t step, double seconds);
/* Adds the hazards found and the faults planted on a machine that has finished to the result, and what its shadow saw
 * to a report of the result. */
void result_add_machine(case_result *r, const machine *m, shadow_report *seen);
/* Adds a reason, printf style; the first CASE_REASONS are kept. A failed case has passed false, a not valid one valid
 * false. */
void result_fail(case_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void result_invalidate(case_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
