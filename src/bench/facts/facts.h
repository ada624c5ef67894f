/* facts/: observations of a case, and what follows from them.
 *
 * Observations of one case, as plain data. bench/run collects them from health/, launch/, check/ and the machine.
 * Figures (figures.h) and the ruling (result.h) are computed from them and the case. */
#pragma once
#include "base/arena.h"
#include "base/sha256.h"
#include "bench/check/findings.h"
#include "bench/health/rank_times.h"
#include "bench/health/samples.h"
#include "bench/launch/placement.h"

/* Numbers that a mixture of experts reports for each step (train/trainer.h). */
typedef enum { ROUTED_BALANCE, ROUTED_DROPS, ROUTED_LEAST, ROUTED_MOST, ROUTED_VARIATION, ROUTED_FACTS } routed_fact;

/* FP8 statistics of one kind of tensor: fractions of its values that became zero by rounding and that saturated,
 * smallest and largest scale. */
typedef struct {
    double underflowed, saturated, scale_least, scale_most;
} fp8_facts;

/* Results of bench/checkpoint, the same on all ranks. Seconds are the slowest rank's, by its clock. Values of a save
 * are the last one's. */
typedef struct {
    int64_t loaded_step; /* steps of the loaded checkpoint, after which this case continues; 0 if none was loaded */
    int64_t rate_warmup, rate_steps; /* its learning rate's steps until the maximum, and in all */
    double loaded_bytes, load_seconds;
    char loaded_sha256[SHA256_HEX];         /* SHA-256 of the index */
    char refused[REASON_LENGTH];            /* why loading failed; empty if it succeeded or was not requested */
    int64_t saves, first_saved, saved_step; /* steps of the first and the last save */
    double bytes, seconds, write_seconds, sync_seconds, read_seconds; /* write: with sync; read: 0 if not read back */
    double rank_rate, node_rate; /* bytes/s of the slowest rank's write, and average of a node */
    double free_bytes;           /* before the save, on rank 0's file system */
    char file_system[32], sha256[SHA256_HEX];
    char failed[REASON_LENGTH]; /* reason of the first failure of a save; empty if none */
} checkpoint_facts;

/* Prediction from a machine sheet for rank 0's timed steps: seconds of one step with bounds; seconds of all timed steps
 * by phase and by axis of the tally. */
typedef struct {
    char why[REASON_LENGTH]; /* why there is no prediction; empty if there is one, or no sheet */
    double seconds, least, most;
    double phase[PHASES], exposed[TALLY_AXES];
} expected_steps;

/* Digest of the weights on all ranks of a copy after the last step, in hexadecimal. */
typedef struct {
    char text[17];
} weights_digest;

/* Results of the copies of a case (plan/deck/copies.c), in their order. Lists are owned; NULL if there is one copy. */
typedef struct {
    double *loss, *gradient_norm; /* [total, copies] */
    weights_digest *weights;      /* [copies] */
} copy_facts;

/* Lists are owned. Gathered values (bench/run/gather_case.c) are complete on rank 0 only. */
typedef struct {
    int64_t total;        /* length of the lists in steps: warmup + steps; of a running soak, its capacity */
    int64_t completed;    /* steps that finished */
    int stopped;          /* reason to stop (bench/run/stop.h); 0 if not stopped */
    double total_seconds; /* wall time of the case, including checks; this rank's */
    double begin_seconds; /* begin of the case since the record was opened; this rank's */

    /* One value per step, warm-up first, [total]; the same on all ranks of a copy, except own_seconds, begin and
     * pause. */
    double *loss, *gradient_norm, *learning_rate, *routed[ROUTED_FACTS];
    double *own_seconds;      /* this rank's duration of the step */
    double *begin;            /* begin of the step since the begin of the case; this rank's clock */
    double *pause;            /* seconds of a checkpoint before the step; rank 0's clock */
    fp8_facts fp8[FP8_KINDS]; /* in the timed steps; NaN without FP8 */
    double *fp8_scale;        /* [total, fp8_tensors] */
    int64_t fp8_tensors;      /* 0 without FP8 */

    /* One value per rank that takes part; gathered. */
    rank_times ranks;
    machine_device *devices; /* [ranks, 2] at begin and end of the timed steps, under load; may be NULL */
    sample_set samples;
    copy_facts copies;

    /* Values of this rank; the record has rank 0's. */
    size_t arena_bytes, bytes_by_kind[ARENA_KINDS];
    tally tally; /* counts and seconds of the timed steps */
    span *spans; /* operations of the last step, by time of completion; times since the first one began */
    int64_t span_count;
    char engines[8192];  /* libraries of attention and products: a summary, then a line for each product */
    char transfers[512]; /* how transfers run, and the SMs that products leave free for them; empty on the host */
    int sms_left_free;   /* by matrix products */

    /* Combined over all ranks: maximum, sum, or text of the first rank that has one. */
    placement placement;
    host_load load;                                                /* of the whole run */
    double outside_bytes, own_outside_bytes, device_outside_bytes; /* maxima in bytes; bench/paper/memory.h */
    char libraries_differ[REASON_LENGTH]; /* first rank whose libraries differ from rank 0's; empty if none */
    char preloaded[REASON_LENGTH];        /* first preloaded library that replaces functions of the program */
    char profiled[REASON_LENGTH];         /* first profiler or trace found on a rank; empty if none */
    int libraries_rank, preloaded_rank, profiled_rank; /* ranks that these sentences concern; -1 if none */
    weights_digest weights_digest;                     /* of this rank's copy */
    char struck[OP_TEXT];                              /* operation that a planted fault struck in the timed steps */
    machine_findings machine;
    delivery_report replay_delivery; /* transfers of the replayed steps */
    double replay_seconds;           /* maximum over ranks */
    check_result check;
    conservation conserved;
    checkpoint_facts checkpoint;
    expected_steps expected; /* seconds 0 if there is no prediction; rank 0 */
} facts;

/* Returns facts with allocated lists. Unknown numbers are NaN. */
facts facts_open(const bench_case *c);
/* Returns facts without lists, for a case that does not run. */
facts facts_none(void);
void facts_close(facts *f);
/* Changes the length of the lists of steps, and keeps the old entries. */
void facts_resize(facts *f, int64_t total);
/* Adds the FP8 statistics of one step over all ranks, [FP8_KINDS]. timed: number of the timed step, from 0. Call it
 * once for each timed step, in order. */
void facts_add_fp8(facts *f, int64_t timed, const fp8_facts kind[FP8_KINDS]);
/* Keeps the spans of one step. Computes the part of the timed steps, which took `seconds`, in which no operation ran
 * and none waited for a transfer. On the host, posting messages and summing received data count as idle. */
void facts_add_time(facts *f, const machine *m, int64_t step, double seconds);
